package schedtest

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// drawNode draws one to four devices, which differ, and are small enough that random tasks
// collide.
func drawNode(rt *rapid.T) []schedulers.Device {
	device := rapid.Custom(func(rt *rapid.T) schedulers.Device {
		return schedulers.Device{
			Name:          "random",
			CapacityBytes: rapid.Int64Range(20, 100).Draw(rt, "capacity"),
			ContextBytes:  rapid.Int64Range(0, 10).Draw(rt, "context"),
			SMs:           rapid.IntRange(1, 4).Draw(rt, "SMs"),
			WarpsPerSM:    rapid.SampledFrom([]int{4, 32, 64}).Draw(rt, "warps per SM"),
			BlocksPerSM:   rapid.SampledFrom([]int{1, 8, 32}).Draw(rt, "blocks per SM"),
		}
	})
	return rapid.SliceOfN(device, 1, 4).Draw(rt, "node")
}

func drawTask(rt *rapid.T, id schedulers.TaskID, job schedulers.JobID, devices int, queue engine.Order) schedulers.Task {
	t := schedulers.Task{
		ID: id, Job: job,
		Bytes:           drawBytes(rt, "bytes"),
		Blocks:          drawBlocks(rt),
		ThreadsPerBlock: drawThreads(rt),
		BlocksPerSM:     drawBlocksPerSM(rt),
		Managed:         rapid.IntRange(0, 3).Draw(rt, "managed") == 0,
		Priority:        rapid.IntRange(-1, 2).Draw(rt, "priority"),
		Isolate:         rapid.IntRange(0, 9).Draw(rt, "isolate") == 0,
	}
	switch queue {
	case engine.ShortestFirst:
		if seconds := rapid.IntRange(-1, 3).Draw(rt, "expected"); seconds >= 0 {
			t.Terms = &schedulers.Terms{Expected: new(time.Duration(seconds) * time.Second)}
		}
	case engine.Credits:
		credits := rapid.IntRange(0, 2).Draw(rt, "credits")
		t.Terms = &schedulers.Terms{User: string(rune('a' + credits)), Credits: credits}
	case engine.EarliestDeadline:
		t.Terms = &schedulers.Terms{Due: time.Duration(rapid.IntRange(0, 3).Draw(rt, "due")) * time.Minute}
	}
	t.Wait = drawWait(rt)
	t.GridUnknown = t.Blocks == 0 && rapid.Bool().Draw(rt, "grid unknown")
	if device := rapid.IntRange(0, 3*devices).Draw(rt, "on device"); device <= devices { // the last does not exist
		t.OnDevice = &device
	}
	return t
}

// drawWait mostly draws nil, which is the scheduler's wait limit; sometimes no wait, or a wait of seconds.
func drawWait(rt *rapid.T) *time.Duration {
	seconds := rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 15}).Draw(rt, "wait")
	if seconds < 0 {
		return nil
	}
	return new(time.Duration(seconds) * time.Second)
}

func drawBlocks(rt *rapid.T) uint64 {
	return rapid.OneOf(rapid.Uint64Range(0, 5), rapid.Uint64Range(0, 40),
		rapid.SampledFrom([]uint64{0, 1, 1 << 31, 1 << 40, math.MaxUint64})).Draw(rt, "blocks")
}

func drawThreads(rt *rapid.T) uint32 {
	return rapid.SampledFrom([]uint32{0, 1, 16, 32, 33, 64, 96, 256, 1024, math.MaxUint32}).Draw(rt, "threads per block")
}

func drawBlocksPerSM(rt *rapid.T) uint32 {
	return rapid.SampledFrom([]uint32{0, 0, 1, 2, 5, 32, math.MaxUint32}).Draw(rt, "blocks per SM")
}

// drawBytes mostly draws a size that fits some devices; sometimes 0, or a size that sums must not
// wrap.
func drawBytes(rt *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(0, 50), rapid.Int64Range(0, 110),
		rapid.SampledFrom([]int64{0, math.MaxInt64})).Draw(rt, label)
}
