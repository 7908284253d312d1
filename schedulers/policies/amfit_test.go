package policies_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// Rules 1 and 2: a burst starts at once, and while what is active does not fit the largest ends: one that runs, or the one
// that starts, of equal ones the latest to start.
func TestAMFitEndsTheLargest(t *testing.T) {
	n := enginetest.NewNode(t, "amfit", enginetest.Small)
	n.Submit(stoppable(1, 7), "1@0")
	n.Submit(stoppable(2, 8), "2@0")
	n.Submit(stoppable(3, 8), "") // as large as task 2, which has started before
	n.Submit(stoppable(4, 6), "stop(2,5)")
	n.Answer(2, schedulers.Done, 3, ms, "4@0")
	n.Tick(100*ms, "")
}

// Rule 3: a burst that has ended starts again once it fits, even if a larger one runs.
func TestAMFitStartsAgainWhatFits(t *testing.T) {
	n := enginetest.NewNode(t, "amfit", enginetest.Small)
	n.Submit(stoppable(1, 10), "1@0")
	n.Submit(stoppable(2, 9), "stop(1,3)")
	n.Answer(1, schedulers.Done, 7, ms, "2@0")
	if !n.Task(1).Stopped || n.Task(2).Stopped {
		t.Error("task 1 has ended, and task 2 has not")
	}
	ask(t, n, 1, 3, 2*ms, "")
	n.Grow(2, 3, "yield(1,3)") // of 12 bytes by now, so that task 1 is the smaller one
	n.Give(1, "+2@0")
	if err := n.Engine.Active(2, schedulers.Activity{Running: true, Referenced: 12, Last: 3 * ms}, 3*ms); err != nil {
		t.Fatal(err)
	}
	n.Tick(100*ms, "")
	n.Yielded(2, 101*ms, "yield(2,6)")
	n.Give(2, "^1@0")
}

// A burst that has waited as long as it may starts, and the largest end for it. It does not end before it has run an
// eighth longer than it had waited.
func TestAMFitKeepsWhatHadWaited(t *testing.T) {
	n := enginetest.NewNode(t, "amfit:wait=1s", enginetest.Small)
	n.Submit(stoppable(1, 10), "1@0")
	n.Submit(stoppable(2, 12), "")
	n.Tick(time.Second, "stop(1,6)")
	n.Answer(1, schedulers.Done, 4, 1500*ms, "2@0")
	ask(t, n, 1, 6, 1500*ms, "") // smaller, but task 2 had waited for 1.5 s
	n.Tick(2500*ms, "")          // it has waited for 1 s, and task 2 has not run an eighth longer than it had waited
	n.Tick(3187*ms, "")
	n.Tick(3188*ms, "stop(2,6)")
	n.Answer(2, schedulers.Done, 6, 3188*ms, "^1@0")
}

// Rule 2 each period: launches may reference more than before.
func TestAMFitAddsUpEachPeriod(t *testing.T) {
	n := enginetest.NewNode(t, "amfit:period=20ms", enginetest.Small)
	part := stoppable(1, 16)
	part.Need = new(int64(6))
	n.Submit(part, "1@0")
	n.Submit(stoppable(2, 7), "2@0")
	n.Tick(20*ms, "")
	for id, referenced := range map[schedulers.TaskID]int64{1: 10, 2: 7} {
		if err := n.Engine.Active(id, schedulers.Activity{Running: true, Referenced: referenced, Last: 21 * ms}, 21*ms); err != nil {
			t.Fatal(err)
		}
	}
	if act := n.Engine.NextAct(); act != 40*ms {
		t.Errorf("it acts at %v", act)
	}
	n.Tick(40*ms, "stop(1,0)")
	if r := n.Revocation(1); r.For != schedulers.Nobody {
		t.Errorf("%+v", r)
	}
	n.Answer(1, schedulers.Done, 6, 41*ms, "")
	ask(t, n, 1, 10, 41*ms, "")
	n.Yielded(2, 42*ms, "yield(2,7)")
	n.Give(2, "^1@0")
	if act := n.Engine.NextAct(); act != schedulers.Never {
		t.Errorf("one burst runs alone, and it acts at %v", act)
	}
}
