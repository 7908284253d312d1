package policies

import (
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// memoryFit lets a burst start if nothing runs on its device, or if its estimate fits beside those of the bursts that run
// (PILOT, III.C.1). Others wait. For a burst that has waited as long as it may, bursts end, the largest first, until it
// fits. A burst that has ended waits as if it had just come.
//
// The paper estimates by all of an application's buffers, and also says that a kernel may use fewer. Ours by default are
// the buffers that the latest launches reference. Ours too: if all fit and memory is lacking, a burst that goes on gives up what
// it does not reference. And a task keeps its memory for a while after its burst (linger).
type memoryFit struct {
	MemoryHard // for growth
	IgnoresSMs
	Looks
	estimate
	patience
	linger
}

const (
	estimateReferenced = "referenced"
	estimateAllocated  = "allocated"
)

// paramPatience is how long a burst waits until others end for it.
var paramPatience = Param{Name: "wait", Default: "10s", Help: "a burst that waits longer has others end for it, the largest first, unless its job's max_wait says how long it waits"}

var mfit = entry{
	Info: Info{Name: "mfit", Binds: BindsTask, Shares: true, Revokes: true, EndsBursts: true, KeepsTurn: true,
		Brief:  "a burst starts if its memory fits beside the bursts that run",
		Rule:   "a burst starts if nothing runs on its device, or its memory fits beside that of the bursts that run; for one that has waited too long the largest bursts end; memory of tasks that have been idle for a while moves to the host",
		Source: pilotPaper + ", section III.C.1 (MFit)",
		Params: []Param{paramPatience, paramLinger,
			{Name: "estimate", Default: estimateReferenced, Values: []string{estimateReferenced, estimateAllocated}, Help: "a burst's memory: what its launches reference, or all that its task has"},
			withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		wait, err := s.duration(paramPatience.Name)
		if err != nil {
			return nil, err
		}
		linger, err := s.linger()
		p := memoryFit{estimate: referenced, patience: patience(wait), linger: linger}
		if s["estimate"] == estimateAllocated {
			p.estimate = allocated
		}
		return p, err
	},
}

var _ schedulers.Patient = memoryFit{}

func (p memoryFit) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	brief, goesOn := p.brief(waiting, v, now), p.goesOn(waiting, v, now)
	return makeRoomsFirst(waiting, v, goesOn, func(all *takers, at, device int, d schedulers.DeviceView) []schedulers.Revocation {
		over := p.isOver(waiting[at], now)
		return p.start(all, at, device, d, haste{goesOn(waiting[at]), over, func(t schedulers.TaskView, _ int64) bool { return over && !p.isSafe(t, now) }, brief, p.keeps(waiting[at], d, now)})
	})
}

func (p memoryFit) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	return min(p.next(waiting, v, now), p.keepsUntil(waiting, v, now))
}
