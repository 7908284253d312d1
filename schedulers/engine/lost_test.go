package engine_test

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// No task joins a lost device. What waits and fits nowhere else is refused, what was granted stays charged, and later requests are refused
// at once if only the lost device would do.
func TestLose(t *testing.T) {
	small := enginetest.Small
	small.CapacityBytes = 8
	for _, policy := range []string{"case-alg2", "case-alg3", "vgpu:n=4"} {
		n := enginetest.NewNode(t, policy, small, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 14}, "1@1")
		n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 7}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 12}, "") // only device 1 is so large
		n.Submit(schedulers.Task{ID: 4, Job: 4, Bytes: 5}, "")
		ds := n.Engine.Lose(1, 0)
		n.Want("lose device 1", "!3", ds, nil)
		if why := ds[0].Reason.Why; !strings.Contains(why, "the run has lost device 1") {
			t.Errorf("%s: refused because %q", policy, why)
		}
		if n.Device(1).UsedBytes() != 14 {
			t.Errorf("%s: %d bytes are charged on the lost device, want 14", policy, n.Device(1).UsedBytes())
		}
		n.Exit(1, "") // what it held is not given to others
		n.Submit(schedulers.Task{ID: 5, Job: 5, Bytes: 12}, "!5")
		n.Exit(2, "4@0")
	}
}

// A request that only the lost device could serve beside a waiting job holds back nobody.
func TestLostDeviceStallsRequests(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", enginetest.Small, enginetest.Small)
	n.Want("lose device 0", "", n.Engine.Lose(0, 0), nil)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 10}, "1@1")
	n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 8}, "")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 2}, "3@1") // job 1 waits for it with what task 2 needs
}
