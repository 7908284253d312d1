package engine_test

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

func TestPinnedTasksGoToTheirDevice(t *testing.T) {
	for _, scheduler := range []string{"sa", "cg", "schedgpu:device=1", "case-alg2", "case-alg3", "zero"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small, enginetest.Small, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, OnDevice: new(1)}, "1@1")
		n.Submit(schedulers.Task{ID: 2, OnDevice: new(3)}, "!2")
		n.Submit(schedulers.Task{ID: 3, OnDevice: new(-1)}, "!3")
	}
}

func TestPinnedTasksWaitForTheirDevice(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=mmu", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8, OnDevice: new(0)}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 8}, "3@1")
	n.Finish(1, "2@0")
}

func TestRefusalsOfPinnedTasksSayWhy(t *testing.T) {
	large := enginetest.Small
	large.CapacityBytes = 32
	for _, c := range []struct {
		scheduler string
		device    int
		capacity  int64
		why       string
	}{
		{"case-alg2", 0, 16, "device 0, which it does not fit"},
		{"case-alg3", 0, 16, "device 0, which it does not fit"},
		{"schedgpu:device=1", 0, 32, "device 0, which this scheduler does not"},
		{"case-alg3", 2, 32, "device 2, but the node has devices 0 to 1"},
	} {
		n := enginetest.NewNode(t, c.scheduler, enginetest.Small, large)
		ds, err := n.Engine.Submit(schedulers.Task{ID: 1, Bytes: 20, OnDevice: new(c.device)}, 0)
		n.Want("submit", "!1", ds, err)
		if r := ds[0].Reason; r.CapacityBytes != c.capacity || r.Cause != schedulers.TooLarge || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: refusal %v, want capacity %d and %q", c.scheduler, r, c.capacity, c.why)
		}
		if why := ds[0].Reason.Why; len(why) > 119 {
			t.Errorf("%q does not fit the wire", why)
		}
	}
}
