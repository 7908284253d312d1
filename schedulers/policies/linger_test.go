package policies_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// A task keeps its memory for a while after its burst. If it asks again in time, it goes on before the one that waits, and nothing moves.
func TestMemoryStaysThroughAGap(t *testing.T) {
	for _, policy := range []string{"mfit:linger=100ms", "amfit:linger=100ms"} {
		n := enginetest.NewNode(t, policy, enginetest.Small)
		n.Submit(movable(1, 12), "1@0")
		n.Submit(movable(2, 13), "")
		n.Yielded(1, 10*ms, "")
		n.WantAct(110 * ms)
		ask(t, n, 1, 0, 100*ms, "^1@0")
		n.Yielded(1, 120*ms, "")
		n.Tick(219*ms, "")
		n.Tick(220*ms, "yield(1,9)")
		n.Give(1, "2@0")
	}
}

// What fits beside that memory starts at once, and so does growth get it.
func TestWhoNeedNotWaitForAGap(t *testing.T) {
	n := enginetest.NewNode(t, "mfit:linger=100ms", enginetest.Small)
	n.Submit(movable(1, 12), "1@0")
	n.Yielded(1, ms, "")
	n.Submit(movable(2, 4), "2@0")
	n.Grow(2, 3, "yield(1,3)")
	n.Give(1, "+2@0")
}

// By default a task keeps its memory for as long as that, or what of it the request lacks, would take to the host and back.
func TestMemoryStaysForAsLongAsItMoves(t *testing.T) {
	const gib = 1 << 30
	d := enginetest.Small
	d.CapacityBytes = 10 * gib
	for bytes, c := range map[int64]struct {
		last time.Duration
		want string
	}{5: {200 * ms, "yield(1,4294967296) yield(2,1073741824)"}, 10: {240 * ms, "yield(1,4294967296) yield(2,6442450944)"}} {
		n := enginetest.NewNode(t, "mfit", d)
		n.Submit(movable(1, 4*gib), "1@0")
		n.Submit(movable(2, 6*gib), "2@0")
		n.Yielded(1, 0, "")
		n.Yielded(2, 0, "")
		n.Submit(movable(3, bytes*gib), "")
		n.WantAct(160 * ms)
		n.Tick(160*ms, "")
		n.WantAct(c.last)
		n.Tick(c.last, c.want)
	}
}

// Neither a burst that has waited as long as it may waits for a gap to end, nor one for which another has ended.
func TestNobodyStarvesInGaps(t *testing.T) {
	for _, policy := range []string{"mfit:wait=50ms,linger=1h", "amfit:wait=50ms,linger=1h"} {
		n := enginetest.NewNode(t, policy, enginetest.Small)
		n.Submit(movable(1, 12), "1@0")
		n.Submit(stoppable(2, 13), "")
		for now := 2 * ms; now < 50*ms; now += 4 * ms {
			n.Yielded(1, now, "")
			ask(t, n, 1, 0, now+2*ms, "^1@0")
		}
		n.Yielded(1, 50*ms, "yield(1,9)")
		n.Give(1, "2@0")
		ds, err := n.Engine.Submit(stoppable(3, 16), 50*ms)
		n.Want("submit", "", ds, err)
		n.Tick(100*ms, "")
		n.Tick(107*ms, "yield(1,3) stop(2,13)")
	}
}

// The next kernel of a burst may use more memory than the one before. Those that wait to start give it. Once one of these has waited as
// long as it may, the burst ends for it.
func TestABurstGoesOnWithMoreMemory(t *testing.T) {
	for _, policy := range []string{"mfit:wait=1s", "amfit:wait=1s"} {
		n := enginetest.NewNode(t, policy, enginetest.Small)
		n.Submit(movable(2, 14), "2@0")
		n.Yielded(2, ms, "")
		grows := movable(1, 12)
		grows.Need = new(int64(4))
		n.Submit(grows, "yield(2,2)")
		n.Give(2, "1@0")
		ask(t, n, 2, 2, 2*ms, "")
		ds, err := n.Engine.Resume(1, 4, 8, 3*ms)
		n.Want("resume", "yield(2,4)", ds, err)
		n.Give(2, "^1@0")
		ds, err = n.Engine.Resume(1, 4, 12, 1002*ms)
		n.Want("resume", "yield(1,6)", ds, err)
		n.Give(1, "^2@0")
	}
}
