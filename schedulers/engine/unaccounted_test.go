package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// roomy has a context of 32 units, so that processes have a slack of 2.
var roomy = schedulers.Device{Name: "roomy", CapacityBytes: 1000, ContextBytes: 32, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}

// look enters what a look at device 0 shows of the process of each job.
func look(t *testing.T, n enginetest.Node, want string, uses ...int64) {
	t.Helper()
	var all []engine.Use
	for i, bytes := range uses {
		all = append(all, engine.Use{Process: schedulers.Process{Job: schedulers.JobID(i + 1)}, Bytes: bytes})
	}
	ds, err := n.Engine.Used(0, all, 0)
	n.Want("look", want, ds, err)
}

// Memory that was never asked for is charged at the first look that shows it, so that the next task waits instead of failing. It is
// given back when the process uses less, and when it ends.
func TestUnaccountedMemoryIsCharged(t *testing.T) {
	for _, scheduler := range []string{"case-alg3", "schedgpu", "vgpu", "demand"} {
		n := enginetest.NewNode(t, scheduler, roomy)
		n.Submit(schedulers.Task{ID: 1, Bytes: 100}, "1@0")
		look(t, n, "", 130)
		if used := n.Device(0).UsedBytes(); used != 132 {
			t.Errorf("%s: %d bytes are charged for a process that uses less than it is charged", scheduler, used)
		}
		look(t, n, "", 134)
		if used := n.Device(0).UsedBytes(); used != 134 {
			t.Errorf("%s: %d bytes are charged for a process that is a little above the charge", scheduler, used)
		}
		look(t, n, "", 932)
		look(t, n, "", 832)
		if used := n.Device(0).UsedBytes(); used != 832 {
			t.Errorf("%s: %d bytes are charged, of 932 and then 832 in use", scheduler, used)
		}
		n.Submit(schedulers.Task{ID: 2, Bytes: 200}, "")
		n.Submit(schedulers.Task{ID: 3, Bytes: 100}, "3@0") // it fits beside
		look(t, n, "2@0", 532, 132)
		n.Submit(schedulers.Task{ID: 4, Bytes: 400}, "")
		look(t, n, "", 932, 132)
		if free := n.Device(0).FreeBytes(); free != 1000-932-132-232 {
			t.Errorf("%s: %d bytes are free, want a negative number", scheduler, free)
		}
		n.Exit(1, "4@0")
		if used := n.Device(0).UsedBytes(); used != 232+132+432 {
			t.Errorf("%s: %d bytes are in use after its end", scheduler, used)
		}
	}
}

// One look is not trusted where it may show memory that was given back, or that is on another device: two must show it, and the
// smaller counts.
func TestLooksThatAreNotTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		scheduler string
		devices   int
		before    func(n enginetest.Node) // job 1, and looks that show nothing
		charged   int64                   // what job 1 is charged then, with its context
	}{
		"its task has ended": {"case-alg3", 1, func(n enginetest.Node) {
			n.Submit(schedulers.Task{ID: 1, Bytes: 200}, "1@0")
			n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 50}, "2@0")
			look(t, n, "", 0)
			n.Release(1, "")
		}, 82},
		"its task has shrunk": {"case-alg3", 1, func(n enginetest.Node) {
			n.Submit(schedulers.Task{ID: 1, Bytes: 300}, "1@0")
			look(t, n, "", 0)
			ds, err := n.Engine.Shrink(1, 250)
			n.Want("shrink", "", ds, err)
		}, 82},
		"its memory is on the host": {"demand", 1, func(n enginetest.Node) {
			n.Submit(movable(1, 300), "1@0")
			n.Idle(1, ms)
			look(t, n, "", 0)
			n.Submit(movable(2, 800), "yield(1,164)")
			n.Answer(1, schedulers.Done, 136, 2*ms, "2@0")
		}, 168},
		"it has no task here": {"case-alg3", 1, func(enginetest.Node) {}, 32},
		"it has a context on another device": {"case-alg3", 2, func(n enginetest.Node) {
			n.Submit(schedulers.Task{ID: 1, Bytes: 100}, "1@0")
			n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 950}, "2@1")
		}, 132},
	} {
		t.Run(name, func(t *testing.T) {
			n := enginetest.NewNode(t, c.scheduler, []schedulers.Device{roomy, roomy}[:c.devices]...)
			c.before(n)
			for i, want := range []int64{0, 90} {
				look(t, n, "", c.charged+100-int64(10*i))
				if got := n.Engine.Unaccounted(0)[schedulers.Process{Job: 1}]; got != want {
					t.Errorf("look %d charges %d bytes, want %d", i, got, want)
				}
			}
		})
	}
}

// What a look shows while memory moves does not lower what is unaccounted: the process has less on the device than it is charged
// until all of it has come, and after it has gone.
func TestUnaccountedMemoryStaysWhileOtherMemoryMoves(t *testing.T) {
	const gib = 1 << 30
	n := enginetest.NewNode(t, "demand", schedulers.Device{Name: "large", CapacityBytes: 16 * gib, ContextBytes: gib, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4})
	shows := func(at time.Duration, want string, used, unaccounted int64) {
		t.Helper()
		p := schedulers.Process{Job: 1}
		ds, err := n.Engine.Used(0, []engine.Use{{Process: p, Bytes: used}, {Process: schedulers.Process{Job: 2}, Bytes: gib}}, at)
		n.Want("look", want, ds, err)
		if got := n.Engine.Unaccounted(0)[p]; got != unaccounted {
			t.Errorf("at %v %d bytes are unaccounted, want %d", at, got, unaccounted)
		}
	}
	n.Submit(movable(1, 8*gib), "1@0")
	shows(time.Second, "", 11*gib, 2*gib)
	n.Idle(1, time.Second)
	n.Submit(movable(2, 5*gib), "yield(1,1073741824)")
	shows(time.Second, "", 5*gib, 2*gib) // it has not answered yet
	n.Answer(1, schedulers.Done, 2*gib, 2*time.Second, "2@0")
	shows(3*time.Second, "", 5*gib, 2*gib)
	n.Release(2, "")
	n.Resume(1, 6*gib, 8*gib, "^1@0")
	shows(3*time.Second, "", 7*gib, 2*gib) // 2 GiB have come
	shows(9*time.Second, "", 11*gib, 2*gib)
	shows(12*time.Second, "", 10*gib, gib) // and it has given back some that no call shows
}

// A task that grows within what its process was seen to use is not charged twice for longer than a look.
func TestWhatIsToldLateIsNotUnaccounted(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", roomy)
	n.Submit(schedulers.Task{ID: 1, Bytes: 100}, "1@0")
	look(t, n, "", 332)
	look(t, n, "", 332)
	n.Grow(1, 200, "+1@0")
	look(t, n, "", 332)
	if used := n.Device(0).UsedBytes(); used != 332 {
		t.Errorf("%d bytes are in use", used)
	}
	ds, err := n.Engine.Shrink(1, 200) // seen by the look that came just before
	n.Want("shrink", "", ds, err)
	look(t, n, "", 332)
	look(t, n, "", 132)
	if all := n.Engine.Unaccounted(0); all != nil {
		t.Errorf("unaccounted: %v", all)
	}
}

// A process without a task is charged its context too, until it is seen to be gone.
func TestAProcessThatOnlyLooksKnow(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", roomy)
	look(t, n, "", 700)
	look(t, n, "", 700)
	d := n.Device(0)
	if d.UsedBytes() != 700 || d.Jobs() != 1 {
		t.Errorf("%d bytes of %d jobs", d.UsedBytes(), d.Jobs())
	}
	n.Submit(schedulers.Task{ID: 2, Bytes: 400}, "")
	look(t, n, "2@0")
	look(t, n, "")
	if d.UsedBytes() != 432 || d.Jobs() != 1 {
		t.Errorf("%d bytes of %d jobs", d.UsedBytes(), d.Jobs())
	}
	look(t, n, "", 30)
	look(t, n, "", 30)
	if d.UsedBytes() != 432+32 {
		t.Errorf("a context is charged %d bytes", d.UsedBytes()-432)
	}
	n.Submit(schedulers.Task{ID: 1, Bytes: 100}, "1@0") // its context is not one that only looks know
	look(t, n, "")
	look(t, n, "")
	if d.UsedBytes() != 432+132 {
		t.Errorf("%d bytes are in use", d.UsedBytes())
	}
}

// A request that a process's own memory keeps from fitting is a deadlock, which ends. It would fit alone, so it is not refused at once.
func TestUnaccountedMemoryInADeadlock(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", roomy)
	n.Submit(schedulers.Task{ID: 1, Bytes: 100}, "1@0")
	look(t, n, "", 832)
	look(t, n, "", 832)
	n.Submit(schedulers.Task{ID: 2, Bytes: 500}, "")
	n.Grow(1, 500, "-1@0")
	n.Release(1, "")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 500}, "!3")
	n.Exit(1, "2@0")
}

// Room cannot be made of memory that nobody can take back.
func TestUnaccountedMemoryDoesNotMove(t *testing.T) {
	for scheduler, asked := range map[string]string{"demand": "yield(1,100)", "vgpu": ""} {
		n := enginetest.NewNode(t, scheduler, roomy)
		n.Submit(movable(1, 100), "1@0")
		n.Idle(1, ms)
		look(t, n, "", 832)
		look(t, n, "", 832)
		n.Submit(movable(2, 500), asked) // under demand it is asked for all that it can give
		if v := n.Task(1); v.Movable != 100 || v.Resident != 100 {
			t.Errorf("%s: %+v", scheduler, v)
		}
	}
}

func TestLooksThatCannotBe(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", roomy)
	for _, c := range []struct {
		device int
		bytes  int64
		want   string
	}{{-1, 1, "device -1: the node has devices 0 to 0"}, {1, 1, "device 1: the node"}, {0, -1, "process 0 of job 1 uses -1 bytes"}, {0, 1 << 60, "uses 1152921504606846976 bytes"}} {
		_, err := n.Engine.Used(c.device, []engine.Use{{Process: schedulers.Process{Job: 1}, Bytes: c.bytes}}, time.Second)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("device %d, %d bytes: %v", c.device, c.bytes, err)
		}
	}
}

// BenchmarkLook is a look at a device with processes that use what they were granted.
func BenchmarkLook(b *testing.B) {
	const processes = 32
	n := enginetest.NewNode(&testing.T{}, "case-alg3", schedulers.Device{Name: "H200", CapacityBytes: 140 << 30, ContextBytes: 576 << 20, SMs: 132, WarpsPerSM: 64, BlocksPerSM: 32})
	var uses []engine.Use
	for i := range schedulers.JobID(processes) {
		if _, err := n.Engine.Submit(schedulers.Task{ID: schedulers.TaskID(i), Job: i, Bytes: 1 << 30}, 0); err != nil {
			b.Fatal(err)
		}
		uses = append(uses, engine.Use{Process: schedulers.Process{Job: i}, Bytes: 1<<30 + 518<<20})
	}
	b.ReportAllocs()
	for b.Loop() {
		if ds, err := n.Engine.Used(0, uses, 0); err != nil || ds != nil {
			b.Fatal(ds, err)
		}
	}
}
