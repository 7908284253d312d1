package policies_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// stoppable is a task of a process of its own whose memory can move, and whose kernels can be stopped.
func stoppable(id schedulers.TaskID, bytes int64) schedulers.Task {
	t := movable(id, bytes)
	t.Can |= 1 << schedulers.Stop
	return t
}

// ask has a task resume with all that it has. Some bytes of it are lacking.
func ask(t *testing.T, n enginetest.Node, id schedulers.TaskID, lacks int64, now time.Duration, want string) {
	t.Helper()
	ds, err := n.Engine.Resume(id, lacks, n.Task(id).Allocated, now)
	n.Want("resume", want, ds, err)
}

// Rules 1 to 3: a burst starts if nothing runs, or if it fits beside what runs. Others wait, and each end of a burst looks
// again. Room is made by tasks that do not run, the least recently active first.
func TestMFitStartsWhatFits(t *testing.T) {
	n := enginetest.NewNode(t, "mfit", enginetest.Small)
	n.Submit(movable(1, 16), "1@0") // nothing runs
	n.Submit(movable(2, 9), "")     // it does not fit beside task 1
	n.Submit(movable(3, 6), "")
	n.Yielded(1, ms, "yield(1,9)")
	n.Give(1, "2@0 yield(1,6)") // task 3 fits beside task 2, and task 1 still has 7 bytes
	n.Give(1, "3@0")
	ask(t, n, 1, 15, 6*ms, "")
	n.Yielded(2, 7*ms, "")
	n.Yielded(3, 8*ms, "yield(2,9) yield(3,6)")
	n.Give(2, "")
	n.Give(3, "^1@0")
}

// What is estimated is what the latest launches reference, or all that a task has.
func TestMFitEstimates(t *testing.T) {
	for estimate, want := range map[string]string{"referenced": "3@0", "allocated": ""} {
		n := enginetest.NewNode(t, "mfit:estimate="+estimate, enginetest.Small)
		first := movable(1, 12)
		first.Need = new(int64(4))
		n.Submit(first, "1@0")
		second := movable(3, 40)
		second.Need = new(int64(12))
		n.Submit(second, want)
	}
}

// If all that runs fits, and memory is lacking, a burst gives up what it does not use. Its own task's memory goes before.
func TestMFitTakesWhatABurstDoesNotUse(t *testing.T) {
	n := enginetest.NewNode(t, "mfit", enginetest.Small)
	n.Submit(movable(1, 12), "1@0")
	if err := n.Engine.Active(1, schedulers.Activity{Running: true, Referenced: 6, Last: ms}, ms); err != nil {
		t.Fatal(err)
	}
	part := movable(2, 10)
	part.Need = new(int64(4))
	n.Submit(part, "2@0")
	n.Yielded(2, 2*ms, "")
	ds, err := n.Engine.Resume(2, 6, 8, 3*ms) // 2 of its 4 bytes there
	n.Want("resume", "evict(2,2) evict(1,4)", ds, err)
	n.Give(2, "")
	n.Give(1, "^2@0")
	if !n.Task(1).Permit {
		t.Error("task 1 lost its permit")
	}
}

// What cannot move, such as the device heap, is used by a burst beside what its launches reference.
func TestMFitLeavesBurstsWhatTheyReference(t *testing.T) {
	n := enginetest.NewNode(t, "mfit", enginetest.Small)
	n.Submit(movable(1, 12), "1@0")
	if err := n.Engine.Active(1, schedulers.Activity{Running: true, Referenced: 6, Fixed: 4, Last: ms}, ms); err != nil {
		t.Fatal(err)
	}
	n.Submit(movable(2, 7), "")
	n.Submit(movable(3, 6), "evict(1,2)")
}

// A burst may need more than the device can have free beside what of others cannot move. It starts all the same when nothing else
// runs, and what it lacks stays on the host, if it can.
func TestMFitStartsWhatNeverFits(t *testing.T) {
	for _, policy := range []string{"mfit:wait=1s", "amfit:wait=1s"} {
		for stays, want := range map[int64]string{1: "", 5: "stop(1,6)"} {
			n := enginetest.NewNode(t, policy, enginetest.Small)
			n.Submit(stoppable(1, 10), "1@0")
			if err := n.Engine.Active(1, schedulers.Activity{Running: true, Referenced: 6, Fixed: 4, Last: ms}, ms); err != nil {
				t.Fatal(err)
			}
			large := stoppable(2, 14)
			large.Can, large.Stays = large.Can|1<<schedulers.Advise, stays
			n.Submit(large, "")
			n.Tick(time.Second, want)
			if want == "" {
				continue
			}
			n.Answer(1, schedulers.Done, 4, 1001*ms, "2@0")
			if got := n.Task(2); got.Resident != 12 || got.Advised == nil {
				t.Errorf("%s: %+v", policy, got)
			}
		}
	}
}

// A burst that goes on and is busy is not asked past the time at which a request loses its patience. It can be stopped then.
func TestMFitStopsInTime(t *testing.T) {
	n := enginetest.NewNode(t, "mfit:wait=50ms", enginetest.Small)
	n.Submit(stoppable(1, 12), "1@0")
	if err := n.Engine.Active(1, schedulers.Activity{Busy: true, Referenced: 8, Last: ms}, ms); err != nil {
		t.Fatal(err)
	}
	n.Submit(stoppable(2, 8), "evict(1,4)")
	n.Answer(1, schedulers.Busy, 12, n.Revocation(1).Deadline, "")
	n.Tick(49*ms, "")
	n.Tick(50*ms, "stop(1,4)")
}

// Rule 4: when a burst has waited as long as it may, the largest end for it, and of equal ones the latest to start, until it
// fits. A process that cannot be stopped is asked at its boundary. They wait as if they had just come.
func TestMFitEndsTheLargestForABurstThatHasWaited(t *testing.T) {
	n := enginetest.NewNode(t, "mfit:wait=2s", enginetest.Small)
	n.Submit(movable(1, 6), "1@0")
	n.Submit(stoppable(2, 3), "2@0")
	n.Submit(stoppable(3, 6), "3@0")
	n.Submit(stoppable(4, 8), "")
	if next := n.Engine.NextTick(); next != 5*ms {
		t.Errorf("the next look is at %v", next)
	}
	n.Tick(1999*ms, "")
	if act := n.Engine.NextAct(); act != 2*time.Second {
		t.Errorf("it acts at %v", act)
	}
	n.Tick(2*time.Second, "yield(1,6) stop(3,1)") // both began at once, and the first is asked first
	if r := n.Revocation(1); r.Deadline != time.Minute || r.For != 4 {
		t.Errorf("%+v", r)
	}
	n.Answer(3, schedulers.Done, 5, 2001*ms, "")
	ask(t, n, 3, 1, 2001*ms, "") // it waits behind task 4
	n.Answer(1, schedulers.Done, 0, 2002*ms, "4@0")
	ask(t, n, 1, 6, 2003*ms, "")
	n.Tick(4001*ms, "stop(2,1)") // task 3's turn: task 4 had waited, and has not run that long
	n.Answer(2, schedulers.Done, 2, 4002*ms, "^3@0")
}

// A job may say itself how long its bursts wait.
func TestMFitKnowsTheJobsOwnLimit(t *testing.T) {
	n := enginetest.NewNode(t, "mfit", enginetest.Small)
	n.Submit(stoppable(1, 10), "1@0")
	n.Submit(movable(2, 10), "")
	urgent := movable(3, 10)
	urgent.Terms = &schedulers.Terms{MaxWait: 50 * ms}
	n.Submit(urgent, "")
	n.Tick(50*ms, "stop(1,4)")
	n.Answer(1, schedulers.Done, 6, 51*ms, "3@0") // before task 2, for which nobody has ended yet
	n.Tick(10*time.Second, "yield(1,6) yield(3,4)")
}

// Who cannot be asked is left alone, and nobody ends in vain.
func TestMFitEndsNobodyInVain(t *testing.T) {
	n := enginetest.NewNode(t, "mfit:wait=1s", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 12}, "1@0") // it can do nothing
	n.Submit(stoppable(2, 2), "2@0")
	n.Submit(movable(3, 6), "")
	n.Tick(time.Second, "")
	n.Finish(1, "3@0")
}

// A burst that is asked to end and cannot now is asked again later.
func TestMFitAsksAgain(t *testing.T) {
	n := enginetest.NewNode(t, "mfit:wait=1s", enginetest.Small)
	n.Submit(stoppable(1, 12), "1@0")
	n.Submit(movable(2, 12), "")
	n.Tick(time.Second, "stop(1,8)")
	n.Answer(1, schedulers.Unable, 12, 1001*ms, "yield(1,8)") // at its boundary, then
	n.Answer(1, schedulers.Busy, 12, 61*time.Second, "")
	n.Tick(121*time.Second, "yield(1,8)")
	n.Answer(1, schedulers.Done, 4, 122*time.Second, "2@0")
}
