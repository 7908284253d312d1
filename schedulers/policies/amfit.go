package policies

import (
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// activeFit ends the burst with the most active memory while the bursts on a device have more together than fits
// (PILOT, III.C.2): at each start and end, and each period. A burst that starts is one of them: if it is the largest,
// it waits like one that has ended. Such a burst starts once it fits, or has waited as long as it may.
//
// Active is what the latest launches of a task reference, also where it is known what their kernels have reached: a kernel that has
// just begun has reached little, so bursts would start beside each other, and end once they have moved their memory
// (docs/results/pilot.md). A burst that started because it had waited so long
// is safe for a while (patience.isSafe).
type activeFit struct {
	MemoryHard // for growth
	IgnoresSMs
	Looks
	estimate
	patience
	linger
	period time.Duration
}

var amfit = entry{
	Info: Info{Name: "amfit", Binds: BindsTask, Shares: true, Revokes: true, EndsBursts: true, KeepsTurn: true,
		Brief:  "while the active memory of bursts does not fit, the largest burst ends",
		Rule:   "a burst starts at once; while the active memory of the bursts on a device does not fit, the largest one ends, and starts again once it fits or has waited too long; memory of tasks that have been idle for a while moves to the host",
		Source: pilotPaper + ", section III.C.2 (AMFit)",
		Params: []Param{paramPatience, paramLinger,
			{Name: "period", Default: "100ms", Help: "how often the active memory is added up, beside each start and end of a burst"},
			withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		wait, err := s.duration(paramPatience.Name)
		if err != nil {
			return nil, err
		}
		linger, err := s.linger()
		if err != nil {
			return nil, err
		}
		period, err := s.duration("period")
		return activeFit{estimate: referenced, patience: patience(wait), linger: linger, period: period}, err
	},
}

var _ schedulers.Patient = activeFit{}

func (p activeFit) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	brief, goesOn := p.brief(waiting, v, now), p.goesOn(waiting, v, now)
	out := makeRoomsFirst(waiting, v, goesOn, func(all *takers, at, device int, d schedulers.DeviceView) []schedulers.Revocation {
		r, over := waiting[at], p.isOver(waiting[at], now)
		starts := over || !r.Grows && !wasEnded(r.Task, d)
		return p.start(all, at, device, d, haste{goesOn(waiting[at]), over, func(t schedulers.TaskView, own int64) bool {
			return starts && (over || p.estimate(t) > own) && !p.isSafe(t, now)
		}, brief, p.keeps(r, d, now)})
	})
	for i := range v.Len() {
		out = append(out, p.shrink(v.Device(i), now)...)
	}
	return out
}

// wasEnded reports whether t waits because its burst has ended for others.
func wasEnded(t schedulers.Task, d schedulers.DeviceView) bool {
	for v := range d.TaskViews() {
		if v.Task.ID == t.ID {
			return v.Stopped
		}
	}
	return false
}

// shrink ends the largest bursts on d until the others fit, or one process's are left.
func (p activeFit) shrink(d schedulers.DeviceView, now time.Duration) []schedulers.Revocation {
	var running []schedulers.TaskView
	for t := range d.TaskViews() {
		if runs(t) {
			running = append(running, t)
		}
	}
	if len(running) < 2 {
		return nil
	}
	over := p.around(running[0].Task, d).over
	p.largestFirst(running)
	left := slices.Clone(running)
	var out []schedulers.Revocation
	for _, t := range running {
		if over <= 0 || !slices.ContainsFunc(left, func(o schedulers.TaskView) bool { return o.Task.Process() != t.Task.Process() }) {
			break
		}
		if t.CanAsk(endOf(t)) && !p.isSafe(t, now) {
			over -= p.estimate(t) - t.Fixed
			left = slices.DeleteFunc(left, func(o schedulers.TaskView) bool { return o.Task.ID == t.Task.ID })
			out = append(out, schedulers.Revocation{Task: t.Task.ID, Action: endOf(t), Deadline: ending, For: schedulers.Nobody})
		}
	}
	return out
}

func (p activeFit) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := min(p.next(waiting, v, now), p.keepsUntil(waiting, v, now))
	for i := range v.Len() {
		if v.Device(i).Permits() > 1 || v.Device(i).Permits() > 0 && len(waiting) > 0 {
			return min(next, now.Truncate(p.period)+p.period)
		}
	}
	return next
}
