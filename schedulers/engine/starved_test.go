package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// works says that the work of a task is on its device from a time on.
func works(t *testing.T, n enginetest.Node, id schedulers.TaskID, since time.Duration) {
	t.Helper()
	a := schedulers.Activity{Running: true, Busy: true, Referenced: n.Task(id).Referenced, Last: since}
	if err := n.Engine.Active(id, a, since); err != nil {
		t.Fatal(err)
	}
}

// starved are the requests that have starved for a minute.
func starved(n enginetest.Node, now time.Duration) string {
	var all []string
	for _, s := range n.Engine.Starved(time.Minute, now) {
		text := fmt.Sprintf("%d for %d, %v:", s.Task.ID, s.Bytes, s.Waits)
		for _, h := range s.By {
			text += fmt.Sprintf(" job %d has %d of %d", h.Job, h.Bytes, h.Device)
			if h.Works > 0 {
				text += fmt.Sprintf(" for %v", h.Works)
			}
			if h.Stops {
				text += ", stops"
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// A request that waits for work without end starves under each scheduler that does not end it, once it has lasted for a minute, and is
// said to once.
func TestARequestStarvesBesideWorkWithoutEnd(t *testing.T) {
	const can = schedulers.Movable | 1<<schedulers.Stop
	for _, c := range []struct {
		scheduler string
		can       schedulers.Actions // of the task that works
		begins    time.Duration
		bytes     int64
		at        time.Duration
		want      string
	}{
		{"vgpu", can, 0, 8, time.Minute, "2 for 8, 1m0s: job 1 has 10 of 0 for 1m0s, stops"},
		{"vgpu", schedulers.Movable, 0, 8, time.Minute, "2 for 8, 1m0s: job 1 has 10 of 0 for 1m0s"},
		{"vgpu", can, 0, 8, 59 * time.Second, ""},
		{"vgpu", can, 20 * time.Second, 8, 79 * time.Second, ""}, // it has worked for 59 s
		{"vgpu", can, 0, 5, time.Minute, ""},                     // it has its device
		{"vgpu", 0, 0, 8, time.Minute, ""},                       // a process that does not tell may be about to end
		{"demand:wait=10s", can, 0, 8, 69 * time.Second, ""},
		{"demand:wait=10s", can, 0, 8, 70 * time.Second, "2 for 8, 1m10s: job 1 has 10 of 0 for 1m10s, stops"},
		{"vgpu:n=1", can, 0, 5, time.Minute, "2 for 5, 1m0s: job 1 has 10 of 0 for 1m0s, stops"},
		{"quantum:tq=30s", can, 0, 1, 89 * time.Second, ""}, // its turn is over after 30 s
		{"quantum:tq=30s", can, 0, 1, 90 * time.Second, "2 for 1, 1m30s: job 1 has 10 of 0 for 1m30s, stops"},
		{"mfit:wait=10s", schedulers.Movable, 0, 8, 69 * time.Second, ""},
		{"mfit:wait=10s", schedulers.Movable, 0, 8, 70 * time.Second, "2 for 8, 1m10s: job 1 has 10 of 0 for 1m10s"},
		{"amfit:wait=10s", schedulers.Movable, 0, 8, 70 * time.Second, "2 for 8, 1m10s: job 1 has 10 of 0 for 1m10s"},
	} {
		t.Run(fmt.Sprintf("%s,%d,%d,%v", c.scheduler, c.can, c.bytes, c.at), func(t *testing.T) {
			n := enginetest.NewNode(t, c.scheduler, enginetest.Small)
			submit := func(id schedulers.TaskID, bytes int64, can schedulers.Actions) {
				if _, err := n.Engine.Submit(schedulers.Task{ID: id, Job: schedulers.JobID(id), Bytes: bytes, Can: can}, 0); err != nil {
					t.Fatal(err)
				}
			}
			submit(1, 10, c.can)
			works(t, n, 1, c.begins)
			submit(2, c.bytes, can)
			if got := starved(n, c.at); got != c.want {
				t.Errorf("starved %q, want %q", got, c.want)
			}
			if again := starved(n, c.at); again != "" {
				t.Errorf("again: %q", again)
			}
		})
	}
}

// Work that has made a break counts from its next begin.
func TestABreakEndsStarvation(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:queue=fifo", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10, Can: schedulers.Movable}, "1@0")
	works(t, n, 1, time.Second)
	n.Submit(schedulers.Task{ID: 2, Bytes: 20, Need: new(int64(8)), Can: schedulers.Movable}, "")
	n.Idle(1, 30*time.Second)
	works(t, n, 1, 31*time.Second)
	if got := starved(n, 90*time.Second); got != "" {
		t.Errorf("starved %q", got)
	}
	if got, want := starved(n, 91*time.Second), "2 for 8, 1m31s: job 1 has 10 of 0 for 1m0s"; got != want {
		t.Errorf("starved %q, want %q", got, want)
	}
}

// Work of which some has ended is not without end, although each look shows it busy.
func TestWorkThatEndsBetweenLooksIsABreak(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10, Can: schedulers.Movable}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8, Can: schedulers.Movable}, "")
	for s, ended := range []uint64{0, 1, 1, 2, 2} {
		at := time.Duration(s) * 20 * time.Second
		if err := n.Engine.Active(1, schedulers.Activity{Running: true, Busy: true, Referenced: 10, Last: at, Ended: ended}, at); err != nil {
			t.Fatal(err)
		}
	}
	if got := starved(n, 129*time.Second); got != "" {
		t.Errorf("starved %q", got)
	}
	if got, want := starved(n, 130*time.Second), "2 for 8, 2m10s: job 1 has 10 of 0 for 1m10s"; got != want {
		t.Errorf("starved %q, want %q", got, want)
	}
}

// A launch whose memory does not fit beside contexts and what cannot move starves, whoever works. A growth starves too.
func TestALaunchStarvesBesideWhatCannotMove(t *testing.T) {
	device := enginetest.Small
	device.ContextBytes = 1
	n := enginetest.NewNode(t, "mfit:wait=1s", device)
	n.Submit(schedulers.Task{ID: 1, Bytes: 14, Can: schedulers.Movable}, "1@0")
	n.Yielded(1, 0, "")
	n.Submit(schedulers.Task{ID: 2, Bytes: 3, Can: schedulers.Movable}, "yield(1,3)")
	n.Give(1, "2@0")
	if err := n.Engine.Active(2, schedulers.Activity{Referenced: 3, Fixed: 1, Last: time.Millisecond}, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	n.Yielded(2, time.Millisecond, "")
	if _, err := n.Engine.Resume(1, 3, 14, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got, want := starved(n, 2*time.Minute), "1 for 3, 1m59.999s: job 2 has 2 of 0"; got != want {
		t.Errorf("starved %q, want %q", got, want)
	}

	n = enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10, Can: schedulers.Movable}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 5, Can: schedulers.Movable}, "2@0")
	works(t, n, 1, time.Millisecond)
	works(t, n, 2, time.Millisecond)
	n.Grow(2, 2, "")
	if got, want := starved(n, 2*time.Minute), "2 for 2, 2m0s: job 1 has 10 of 0 for 1m59.999s"; got != want {
		t.Errorf("starved %q, want %q", got, want)
	}
}
