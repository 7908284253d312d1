package policies_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// A device is one process's at a time, in order of arrival. A turn ends after its time if somebody waits.
func TestQuantumTakesTurns(t *testing.T) {
	n := enginetest.NewNode(t, "quantum", enginetest.Small, enginetest.Small)
	n.Submit(stoppable(1, 4), "1@0")
	n.Submit(stoppable(2, 4), "2@1")
	n.Submit(stoppable(3, 14), "")
	n.Submit(stoppable(4, 4), "")
	n.Tick(29999*ms, "")
	if act := n.Engine.NextAct(); act != 30*time.Second {
		t.Errorf("it acts at %v", act)
	}
	n.Tick(30*time.Second, "yield(1,2)") // kernels go on to their end
	n.Tick(30005*ms, "yield(2,0)")
	n.Answer(2, schedulers.Done, 4, 31*time.Second, "4@1")
	n.Answer(1, schedulers.Done, 2, 31*time.Second, "3@0")
	ask(t, n, 1, 2, 31*time.Second, "")
	n.Submit(schedulers.Task{ID: 5, Job: 1, Bytes: 1}, "") // of a process whose turn is over, too
	n.Tick(60*time.Second, "")
	n.Tick(61*time.Second, "yield(3,2)")
	n.Answer(3, schedulers.Done, 12, 61*time.Second, "^1@0 yield(3,1)")
	n.Give(3, "5@0")
}

// A turn ends early once its process has been idle for so long, and whoever is alone keeps it.
func TestQuantumEndsTheTurnOfAnIdleProcess(t *testing.T) {
	n := enginetest.NewNode(t, "quantum:idle=2s", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, time.Second)
	n.Tick(90*time.Second, "")
	n.Submit(movable(2, 10), "yield(1,4)") // long idle
	n.Answer(1, schedulers.Done, 6, 90*time.Second, "2@0")
	ask(t, n, 1, 4, 90*time.Second, "")
	n.Idle(2, 91*time.Second)
	n.Tick(92999*ms, "")
	n.Tick(93*time.Second, "yield(2,4)")
	n.Answer(2, schedulers.Done, 6, 93*time.Second, "^1@0")
}

// A process without a task, which could not be asked, has no turn.
func TestQuantumEndsTheTurnOfAProcessWithoutATask(t *testing.T) {
	n := enginetest.NewNode(t, "quantum", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Submit(movable(2, 5), "")
	n.Release(1, "2@0")
}

// A process whose next kernel needs memory that is on the host keeps its turn, although others have waited for longer.
func TestQuantumKeepsTheTurnOfAProcessThatNeedsMemory(t *testing.T) {
	n := enginetest.NewNode(t, "quantum", enginetest.Small)
	n.Submit(movable(1, 14), "1@0")
	n.Submit(movable(2, 14), "")
	n.Idle(1, 25*time.Second)
	n.Tick(30*time.Second, "yield(1,12)")
	n.Answer(1, schedulers.Done, 2, 30*time.Second, "2@0")
	ask(t, n, 1, 12, 30*time.Second, "")
	n.Idle(2, 31*time.Second)
	ask(t, n, 2, 2, 31*time.Second, "yield(1,2)")
	n.Give(1, "^2@0")
	n.Idle(2, 32*time.Second)
	n.Tick(60*time.Second, "yield(2,12)")
}

// A process that grows takes memory from those that wait for their turn, and not from the process that has the turn.
func TestQuantumGrows(t *testing.T) {
	n := enginetest.NewNode(t, "quantum", enginetest.Small)
	n.Submit(movable(1, 8), "1@0")
	n.Submit(movable(2, 8), "")
	n.Tick(30*time.Second, "yield(1,0)")
	n.Answer(1, schedulers.Done, 8, 30*time.Second, "2@0")
	n.Idle(2, 31*time.Second)
	n.Grow(2, 3, "yield(1,3)")
	n.Give(1, "+2@0")
	n.Grow(1, 2, "")
	n.Tick(36*time.Second, "yield(2,2)") // its turn is over: it was idle for 5 s
}
