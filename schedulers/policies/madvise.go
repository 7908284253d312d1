package policies

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// advice lets each burst start at once, and throttles processes that use more than their quota where memory is lacking: what
// is beyond the quota stays on the host, and kernels use it there (PILOT, III.C.3). Nobody is stopped.
//
// Memory is lacking if a request does not find what it needs, or if what the bursts on a device use does not fit. In the
// paper a hint moves nothing before others need the memory, so throttling without need has no effect there either. Ours has
// two differences. The memory leaves at once, at the process's next boundary, and not page by page. And it leaves and comes
// in chunks of 32 MiB. Ours too: memory of idle tasks goes before. A task that has been idle for less than the period is not
// idle here, because its next burst may come soon.
type advice struct {
	onDemand // where a burst starts
	quota    int64
	period   time.Duration
}

const quotaShare = "share"

var madvise = entry{
	Info: Info{Name: "madvise", Binds: BindsTask, Shares: true, Revokes: true,
		Brief:  "where memory is lacking, kernels use what is beyond their process's quota on the host",
		Rule:   "a burst starts at once; where the memory of the bursts on a device does not fit, what a process uses beyond its quota stays on the host, where its kernels reach it, until it fits again; memory of tasks that do not run moves to the host",
		Source: pilotPaper + ", section III.C.3 (MAdvise)",
		Params: []Param{
			{Name: "quota", Default: quotaShare, Help: "what a process may use of a device where memory is lacking, such as 8GiB; share: an equal part of it for each process there"},
			{Name: "period", Default: "100ms", Help: "how often the memory in use is added up, beside each request"},
			withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		var p advice
		var err error
		if p.period, err = s.duration("period"); err != nil || s["quota"] == quotaShare {
			return p, err
		}
		var size size.Amount
		if err := size.UnmarshalText([]byte(s["quota"])); err != nil || size.Bytes == 0 {
			return p, fmt.Errorf("quota=%s: want %s, or an amount of memory such as 8GiB", s["quota"], quotaShare)
		}
		p.quota = size.Bytes
		return p, nil
	},
}

var _ schedulers.Preempter = advice{}

func (p advice) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	out := makeRooms(waiting, v, func(all *takers, at, device int, d schedulers.DeviceView) []schedulers.Revocation {
		return p.start(all, at, device, d, now)
	})
	for i := range v.Len() {
		out = append(out, p.balance(v.Device(i), now)...)
	}
	return out
}

// isIdle reports whether the latest burst of t ended a period ago, or t has no permit. A task that gives memory waits with its burst.
func (p advice) isIdle(t schedulers.TaskView, now time.Duration) bool {
	return !runs(t) && !t.Asked && (!t.Permit || now-t.Last >= p.period)
}

// start asks so that the request at a place can start on d. Idle tasks give first. Then what the request uses beyond
// its quota stays on the host, and others give what they have beyond theirs. If there is nobody to ask, all that is lacking
// stays on the host.
func (p advice) start(all *takers, at, device int, d schedulers.DeviceView, now time.Duration) []schedulers.Revocation {
	r := all.waiting[at]
	m := makingFor(r, d)
	if m.lacks <= 0 { // it waits for something else
		return nil
	}
	for _, t := range all.on(device, d) {
		if t.Task.ID != r.Task.ID && givesWay(t.TaskView, t.place, at) && (t.place >= 0 || p.isIdle(t.TaskView, now)) {
			m.take(t.Task.ID, schedulers.Yield, t.Movable)
		}
	}
	m.own()
	own := viewOf(r.Task, d)
	quota, stays, able := p.quotaOn(d, &r.Task), int64(0), !r.Grows && own.Can.Has(schedulers.Advise) && r.Task.Stays > 0
	active, beyond := p.active(d, quota, now, schedulers.TaskView.Used)
	if able {
		others := beyond.of(r.Task.Process(), quota)
		if slices.ContainsFunc(active, func(t schedulers.TaskView) bool { return t.Task.ID == r.Task.ID }) {
			others -= own.Used()
		}
		stays = max(0, min(others+own.Active(), m.lacks, r.Task.Stays))
		m.lacks -= stays
	}
	if r.Grows { // its process may give up its quota for what is to come
		beyond[r.Task.Process()] = beyond.of(r.Task.Process(), quota) + r.Bytes
	}
	for _, t := range active {
		if r.Grows || t.Task.ID != r.Task.ID {
			m.throttle(t, beyond)
		}
	}
	if able && len(m.asked) == 0 {
		return []schedulers.Revocation{{Task: r.Task.ID, Action: schedulers.Advise, Bytes: min(stays+m.lacks, r.Task.Stays), For: r.Task.ID}}
	}
	return m.asked
}

// beyond is by how much the tasks of a process on a device that are not idle exceed its quota; negative: they are below it.
type beyond map[schedulers.Process]int64

// of is that of a process, which may have no such task.
func (b beyond) of(p schedulers.Process, quota int64) int64 {
	if bytes, has := b[p]; has {
		return bytes
	}
	return -quota
}

// active has the tasks on d that are not idle, those of the process with the most beyond its quota first, as a count of what a task
// has says.
func (p advice) active(d schedulers.DeviceView, quota int64, now time.Duration, count func(schedulers.TaskView) int64) ([]schedulers.TaskView, beyond) {
	var all []schedulers.TaskView
	by := beyond{}
	for t := range d.TaskViews() {
		if !p.isIdle(t, now) {
			all = append(all, t)
			by[t.Task.Process()] = by.of(t.Task.Process(), quota) + count(t)
		}
	}
	slices.SortStableFunc(all, func(a, b schedulers.TaskView) int {
		return cmp.Compare(max(0, by[b.Task.Process()]), max(0, by[a.Task.Process()]))
	})
	return all, by
}

// throttle takes what is lacking of what a task that is not idle has and does not use, or uses beyond its process's quota.
func (m *making) throttle(t schedulers.TaskView, by beyond) {
	action, keeps, over := schedulers.Evict, t.Used(), by[t.Task.Process()]
	if over > 0 && t.Can.Has(schedulers.Advise) {
		action, keeps = schedulers.Advise, max(0, keeps-over)
	}
	if t.CanAsk(action) {
		before := m.lacks
		m.take(t.Task.ID, action, min(t.Movable, t.Resident-keeps))
		by[t.Task.Process()] -= max(0, before-m.lacks-max(0, t.Resident-t.Used()))
	}
}

// quotaOn is the quota of a process on d, where t may be about to come.
func (p advice) quotaOn(d schedulers.DeviceView, t *schedulers.Task) int64 {
	if p.quota > 0 {
		return p.quota
	}
	processes, has := map[schedulers.Process]bool{}, d.Limits().CapacityBytes-d.UsedBytes()
	if t != nil {
		processes[t.Process()] = true
		has -= d.ContextBytes(*t)
	}
	for v := range d.TaskViews() {
		processes[v.Task.Process()] = true
		has += v.Resident
	}
	return max(0, has) / int64(max(1, len(processes)))
}

// balance throttles the processes on d that use more than their quota, the one with the most beyond it first, until what the bursts
// use fits. Once that is so, it takes advice back where all of what a process uses fits again, the oldest first. A process
// that was left less than its quota counts with its quota, and is asked to start anew with that.
func (p advice) balance(d schedulers.DeviceView, now time.Duration) (out []schedulers.Revocation) {
	quota := p.quotaOn(d, nil)
	active, on := p.active(d, quota, now, onDevice)
	_, used := p.active(d, quota, now, schedulers.TaskView.Used)
	counts := func(t schedulers.TaskView) int64 { // with what the others of its process leave of its quota, if that is more
		left := -used.of(t.Task.Process(), quota)
		if !p.isIdle(t, now) {
			left += t.Used()
		}
		return max(t.Used(), min(t.Active(), left), t.Fixed)
	}
	over, advised := d.UsedBytes()-d.Limits().CapacityBytes, []schedulers.TaskView(nil)
	for t := range d.TaskViews() {
		over -= t.Resident - t.Fixed
		if !p.isIdle(t, now) {
			over += counts(t) - t.Fixed
		}
		if t.Advised != nil {
			advised = append(advised, t)
		}
	}
	ask := func(t schedulers.TaskView, bytes int64) {
		out = append(out, schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Advise, Bytes: bytes, Deadline: ending, For: schedulers.Nobody})
	}
	lacks := over
	for _, t := range active {
		process := t.Task.Process()
		if bytes := min(lacks, on[process], onDevice(t)); bytes > 0 && t.CanAsk(schedulers.Advise) {
			lacks, on[process] = lacks-bytes, on[process]-bytes
			ask(t, bytes)
		}
	}
	slices.SortStableFunc(advised, func(a, b schedulers.TaskView) int { return cmp.Compare(a.Advised.Since, b.Advised.Since) })
	for _, t := range advised {
		comes := t.Active()
		if !p.isIdle(t, now) {
			comes -= counts(t)
		}
		if less := counts(t) > t.Used(); over <= 0 && (less || over+comes <= 0) && t.CanAsk(schedulers.Advise) {
			ask(t, 0)
			over += comes
		}
	}
	return out
}

// onDevice is what t uses on its device. What it lacks comes once it resumes, but for managed memory.
func onDevice(t schedulers.TaskView) int64 {
	if t.Task.Managed {
		return t.Used()
	}
	return min(t.Used(), t.Resident)
}

func (p advice) NextTick(_ []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := schedulers.Never
	for i := range v.Len() {
		d := v.Device(i)
		for t := range d.TaskViews() {
			if at := t.Last + p.period; at > now && t.Permit && !runs(t) { // it is idle then
				next = min(next, at)
			}
			if t.Advised != nil || d.Permits() > 1 {
				next = min(next, now.Truncate(p.period)+p.period)
			}
		}
	}
	return next
}
