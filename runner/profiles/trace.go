package profiles

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
)

// SM has the limits of one multiprocessor of the profiled device.
type SM struct {
	Warps, Blocks int
	SharedBytes   int64 // shared memory
}

// Trace sums up the kernels and copies of a job, which may be added in any order.
type Trace struct {
	Incomplete bool // records may be missing

	sm           SM
	copyInBytes  int64
	copyInS      float64
	copyOutBytes int64
	copyOutS     float64
	// The grid and block of the kernel with the most threads.
	blocks          uint64
	threadsPerBlock uint32
	most            float64 // its warps

	phases [classes]phaseSum // of kernels, and of copies and sets inside the device
	spans  []span
}

// span is the time in which a kernel or a copy ran.
type span struct {
	fromS, toS float64
	moves      bool // between host and device
}

// NewTrace returns an empty trace for a device with such SMs.
func NewTrace(sm SM) *Trace { return &Trace{sm: sm} }

// Empty reports whether the job did nothing on the device or was not traced.
func (t *Trace) Empty() bool { return len(t.spans) == 0 }

// Kernel adds a kernel.
func (t *Trace) Kernel(k results.Kernel) {
	t.spans = append(t.spans, span{k.StartS, k.EndS, false})
	blocks, threads := product(k.Grid), product(k.Block)
	// Floating point, because a grid of 2^63 blocks is valid and its warps overflow a uint64.
	if warps := float64(blocks) * float64(warpsOf(threads)); warps > t.most || t.blocks == 0 {
		t.most, t.blocks, t.threadsPerBlock = warps, blocks, uint32(threads)
	}
	t.inKernel(t.sm.Filled(k), k.EndS-k.StartS)
}

// Filled returns how many such SMs a kernel's grid fills alone. It may exceed the device's SMs.
func (sm SM) Filled(k results.Kernel) float64 {
	return float64(product(k.Grid)) / float64(blocksPerSM(sm, product(k.Block), uint64(k.Registers), k.StaticSharedBytes+k.DynamicSharedBytes))
}

// Copy adds a copy or a set of device memory.
func (t *Trace) Copy(c results.Copy) {
	lasted := c.EndS - c.StartS
	moves := true
	switch c.Kind {
	case "htod", "htoa":
		t.copyInS += lasted
		t.copyInBytes += c.Bytes
	case "dtoh", "atoh":
		t.copyOutS += lasted
		t.copyOutBytes += c.Bytes
	default: // inside the device
		moves = false
		t.inKernel(0, lasted)
	}
	t.spans = append(t.spans, span{c.StartS, c.EndS, moves})
}

func (t *Trace) inKernel(sms, lastedS float64) {
	s := &t.phases[classOf(sms)]
	s.seconds += lastedS
	s.smSeconds += sms * lastedS
}

// firstS returns the start of the first kernel or copy.
func (t *Trace) firstS() float64 {
	return slices.MinFunc(t.spans, func(a, b span) int { return cmp.Compare(a.fromS, b.fromS) }).fromS
}

// classes is the number of classes of grids: up to 2 SMs, up to 4, and so on, and more than 128.
const classes = 8

// phaseSum is the sum over the kernels of one class.
type phaseSum struct{ seconds, smSeconds float64 }

func classOf(sms float64) int {
	whole := uint64(math.Ceil(min(max(sms, 1), 1<<classes)))
	return min(max(bits.Len64(whole-1)-1, 0), classes-1)
}

// kernelPhases returns a phase for each class with kernels. Its SMs are the mean over the class,
// weighted by time.
func (t *Trace) kernelPhases() []KernelPhase {
	var out []KernelPhase
	for _, s := range t.phases {
		if s.seconds > 0 {
			out = append(out, KernelPhase{SMs: s.smSeconds / s.seconds, S: s.seconds})
		}
	}
	return out
}

const (
	// leastGapS is the shortest time without a kernel that ends a round. A launch into an idle
	// device takes less.
	leastGapS = 20e-6
	maxRounds = 32
)

// rounds returns how often kernels began to run after a copy between host and device or after a
// gap, from 1 to maxRounds.
func (t *Trace) rounds() int {
	slices.SortFunc(t.spans, func(a, b span) int { return cmp.Compare(a.fromS, b.fromS) })
	n, reachedS, between := 0, math.Inf(-1), true
	for _, s := range t.spans {
		if s.moves {
			between = true
			continue
		}
		if between || s.fromS-reachedS >= leastGapS {
			n++
		}
		reachedS, between = max(reachedS, s.toS), false
	}
	return min(max(n, 1), maxRounds)
}

// registersPerSM holds for every GPU since compute capability 5.0. A warp takes registers in units
// of 256.
const registersPerSM = 1 << 16

// blocksPerSM returns how many blocks of a kernel an SM holds at once, at least 1. Warps, registers
// and shared memory limit the number. registers is the number of each thread.
func blocksPerSM(sm SM, threads, registers uint64, sharedBytes int) uint64 {
	held := uint64(sm.Blocks)
	warps := max(warpsOf(threads), 1)
	held = min(held, uint64(sm.Warps)/warps)
	if registers > 0 {
		held = min(held, registersPerSM/(warps*((registers*32+255)/256*256)))
	}
	if sharedBytes > 0 && sm.SharedBytes > 0 {
		held = min(held, uint64(sm.SharedBytes)/uint64(sharedBytes))
	}
	return max(held, 1)
}

func warpsOf(threads uint64) uint64 { return (threads + 31) / 32 }

// product returns the product of "x,y,z"; 0 if the record is an aggregate.
func product(dims string) uint64 {
	n := uint64(1)
	for d := range strings.SplitSeq(dims, ",") {
		v, err := strconv.ParseUint(d, 10, 32)
		if err != nil {
			return 0
		}
		n *= v
	}
	return n
}
