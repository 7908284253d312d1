package runner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// Who is to blame. Under MPS the clients of a device share one server, and the
// fault of one shows in all of them as an error of their own. No source says whose
// it was (docs/live.md has what was tried): the order of the reports does not, nor
// does the name in the server's log or in the kernel's. So evidence decides, in
// this order, and where it does not suffice nobody is named:
//
//   - an error that MPS does not share is the process's own;
//   - a process that died with kernels running, and said nothing, did the harm;
//   - only kernels fault: who had none running when the server broke did not;
//   - a job that has faulted without neighbours before goes before others.

// trouble is a fault or the unnatural death of a process of a job.
type trouble struct {
	job, process int
	at           time.Duration
	code         int // CUDA error, 0 of a death
	detail       string
	work         work
}

// work is what a process had on its device.
type work struct {
	known bool
	since time.Duration // start of the first kernel whose end it had not seen; Never: none
}

// none reports whether the process is known to have had nothing to do there.
func (w work) none() bool { return w.known && w.since == schedulers.Never }

// had reports whether kernels of the process may have been running at time t.
func (w work) had(t time.Duration) bool { return !w.known || w.since <= t }

// turnedAway reports whether the MPS server would not serve the process: what it
// did itself is not the reason.
func (t trouble) turnedAway() bool { return turnsAway(t.code) }

// private reports whether a CUDA error is shown to the process alone that caused
// it, and leaves the MPS server well: a failed assertion (error 710; 14 of 14 on
// H200s, driver 580).
func private(code int) bool { return code == 710 }

// ownFault is the first of the job's faults that it was not turned away with, or
// else the first.
func (j *job) ownFault() trouble {
	if i := slices.IndexFunc(j.faults, func(t trouble) bool { return !t.turnedAway() }); i >= 0 {
		return j.faults[i]
	}
	return j.faults[0]
}

// Working says what a process of a job has on its device: kernels since the given
// time whose end it has not seen, or none (nil). It is called before ReportFault and
// ProcessGone where the process's probe tells.
func (b *Batch) Working(index, serial int, since *time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := work{known: true, since: schedulers.Never}
	if since != nil {
		w.since = *since
	}
	j := b.jobs[index]
	if j.work == nil {
		j.work = map[int]work{}
	}
	j.work[serial] = w
}

// lastWords is how long before the end of a job, which fails, a process of it that ends
// without a goodbye may have died of itself, where its work is not known. One that did
// so earlier, or of a job that succeeds, left on purpose (_exit).
const lastWords = 10 * time.Second

// harmful are the deaths in a job that can have harmed its neighbours. A process that
// had shown an error before died of that.
func (j *job) harmful() []trouble {
	failed := j.record.Signal != nil || j.record.ExitStatus != nil && *j.record.ExitStatus != 0
	return slices.DeleteFunc(slices.Clone(j.deaths), func(t trouble) bool {
		showed := slices.ContainsFunc(j.faults, func(f trouble) bool {
			return (f.process == t.process || t.process == 0) && f.at <= t.at
		})
		unlikely := !t.work.known && (!failed || j.record.EndS == nil || *j.record.EndS-seconds(t.at) > lastWords.Seconds())
		return showed || unlikely
	})
}

// episode is a time in which the MPS server of some devices broke, and what came
// with it.
type episode struct {
	ailments []ailment
	faults   []trouble     // shown to processes that had those devices
	deaths   []trouble     // of such processes
	broke    time.Duration // when the first sign of it was seen
	suspects []trouble     // in the order of their jobs, one for each
	because  string        // what names a single one, where there were others
}

// attributeFaults settles whose the faults were, once all is known.
func (b *Batch) attributeFaults() {
	if !b.config.MPS {
		return
	}
	episodes := b.episodes()
	for i := range episodes {
		b.suspect(&episodes[i])
		b.recordEpisode(&episodes[i])
	}
	for _, j := range b.jobs {
		if j.record.Outcome == nil || *j.record.Outcome != results.Fault {
			continue
		}
		outcome, detail, suspects := b.verdict(episodes, j.faults[0])
		for _, f := range j.faults[1:] {
			if o, d, s := b.verdict(episodes, f); weight(o) > weight(outcome) {
				outcome, detail, suspects = o, d, s
			}
		}
		j.record.Outcome, j.record.Detail, j.record.Suspects = &outcome, detail, suspects
		b.recorder.Job(j.record)
	}
}

// weight orders the verdicts on a job's faults: its own goes before another's.
func weight(o results.Outcome) int {
	return slices.Index([]results.Outcome{results.Collateral, results.FaultSuspect, results.Fault}, o)
}

// episodes groups the batch's troubles by the ailments that they fall into. What
// happened to a process on two devices joins those of both: MPS contains a fault
// within the devices that its clients share (NVIDIA, "Multi-Process Service").
func (b *Batch) episodes() []episode {
	of := make([]int, len(b.ailments)) // each ailment's group, named by its first
	for i := range of {
		of[i] = i
	}
	type placed struct {
		trouble
		ailment int
	}
	var all []placed
	faulted := make([]bool, len(b.ailments))
	place := func(t trouble) {
		in := b.ailmentsOf(t, faulted)
		for _, i := range in {
			faulted[i] = faulted[i] || t.code != 0
			was, now := of[i], of[in[0]]
			for k := range of {
				if of[k] == was {
					of[k] = now
				}
			}
		}
		if len(in) > 0 {
			all = append(all, placed{t, in[0]})
		}
	}
	var faults []trouble
	for _, j := range b.jobs {
		faults = append(faults, slices.DeleteFunc(slices.Clone(j.faults), func(f trouble) bool { return f.turnedAway() || private(f.code) })...)
		for _, d := range j.harmful() {
			place(d)
		}
	}
	slices.SortStableFunc(faults, func(x, y trouble) int { return cmp.Compare(x.at, y.at) })
	for _, f := range faults {
		place(f)
	}
	groups := map[int]*episode{}
	for _, t := range all {
		e := groups[of[t.ailment]]
		if e == nil {
			e = &episode{broke: schedulers.Never}
			groups[of[t.ailment]] = e
			for i, a := range b.ailments {
				if of[i] == of[t.ailment] {
					e.ailments = append(e.ailments, a)
					e.broke = min(e.broke, a.seen)
				}
			}
		}
		if t.code == 0 {
			e.deaths = append(e.deaths, t.trouble)
		} else {
			e.faults = append(e.faults, t.trouble)
			e.broke = min(e.broke, t.at)
		}
	}
	var out []episode
	for _, e := range groups {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(x, y episode) int {
		return cmp.Or(cmp.Compare(x.broke, y.broke), cmp.Compare(x.ailments[0].from, y.ailments[0].from), cmp.Compare(x.ailments[0].device, y.ailments[0].device))
	})
	return out
}

// ailmentsOf are those that a trouble falls into: which lasted then, on its process's
// devices. But a process that was a client there when an earlier fault was shown has lost
// its context with that, whenever it next asks.
func (b *Batch) ailmentsOf(t trouble, faulted []bool) (in []int) {
	for _, s := range b.jobs[t.job].staysOf(t.process) {
		lost := func(i int) bool {
			return t.code != 0 && faulted[i] && s.from < b.ailments[i].to && b.ailments[i].from < s.to
		}
		now := -1
		for i, a := range b.ailments {
			if a.device == s.device && s.at(t.at) && (lost(i) || a.during(t.at)) {
				now = i
				if lost(i) {
					break
				}
			}
		}
		if now >= 0 {
			in = append(in, now)
		}
	}
	return in
}

// dying is how long after the server broke the process may still be there whose death
// broke it: 64 to 230 ms in ten of ten (kill -9 and _exit in mid-kernel; H200, driver 580).
const dying = time.Second

// suspect settles who may have caused the episode, and who is named.
func (b *Batch) suspect(e *episode) {
	var died, able []trouble
	for _, t := range slices.Concat(e.deaths, e.faults) {
		if !b.cameBefore(e, t) || !t.work.had(e.broke) {
			continue
		}
		able = append(able, t)
		if t.code == 0 && t.work.known && t.at <= e.broke+dying {
			died = append(died, t)
		}
	}
	switch {
	case len(died) > 0:
		e.suspects, e.because = died, "it died with kernels running"
	case len(able) > 0:
		e.suspects, e.because = able, "only it can have had kernels running when the MPS server broke"
	default:
		e.suspects, e.because = e.faults, "nobody else showed an error"
	}
	slices.SortStableFunc(e.suspects, func(x, y trouble) int { return cmp.Or(cmp.Compare(x.job, y.job), cmp.Compare(x.at, y.at)) })
	e.suspects = slices.CompactFunc(e.suspects, func(x, y trouble) bool { return x.job == y.job })
	if known := slices.DeleteFunc(slices.Clone(e.suspects), func(t trouble) bool { return b.config.FaultsAlone[t.job] == "" }); len(known) == 1 && len(e.suspects) > 1 {
		e.suspects, e.because = known, b.config.FaultsAlone[known[0].job]
	}
}

// cameBefore reports whether the process had one of the devices before the server broke.
func (b *Batch) cameBefore(e *episode, t trouble) bool {
	return slices.ContainsFunc(b.jobs[t.job].staysOf(t.process), func(s stay) bool {
		return s.from < e.broke && slices.ContainsFunc(e.ailments, func(a ailment) bool { return a.device == s.device })
	})
}

// verdict is what a fault of a job makes of the job, as far as it alone goes, and of a
// suspect who the suspects are.
func (b *Batch) verdict(episodes []episode, f trouble) (results.Outcome, string, []int) {
	e := b.episodeOf(episodes, f)
	if e == nil {
		return results.Fault, f.detail, nil
	}
	own := slices.ContainsFunc(e.suspects, func(t trouble) bool { return t.job == f.job })
	did := "broke the MPS server"
	if f.turnedAway() {
		did = "had broken the MPS server"
	}
	switch {
	case own && len(e.suspects) > 1:
		var suspects []int
		for _, t := range e.suspects {
			suspects = append(suspects, t.job)
		}
		return results.FaultSuspect, fmt.Sprintf("%s, and %s %s", f.detail, b.either(e.suspects), did), suspects
	case own && b.alone(e):
		return results.Fault, f.detail, nil
	case own:
		return results.Fault, fmt.Sprintf("%s: %s", f.detail, e.because), nil
	}
	return results.Collateral, fmt.Sprintf("%s, %s %s", f.detail, b.either(e.suspects), did), nil
}

// alone reports whether no other job came to harm.
func (b *Batch) alone(e *episode) bool {
	return len(e.deaths) == 0 && !slices.ContainsFunc(e.faults, func(t trouble) bool { return t.job != e.faults[0].job })
}

// episodeOf is the episode that a fault belongs to, or nil. One of a process that the
// server turned away belongs to the first episode that lasted then; or to the next
// one, of a job that had a device by then, because an error shows in a job only when
// that next asks.
func (b *Batch) episodeOf(episodes []episode, f trouble) *episode {
	for i, e := range episodes {
		if slices.ContainsFunc(e.faults, func(t trouble) bool {
			return t.job == f.job && t.process == f.process && t.at == f.at && t.code == f.code
		}) {
			return &episodes[i]
		}
		if f.turnedAway() && slices.ContainsFunc(e.ailments, func(a ailment) bool { return a.from < f.at && f.at < a.to }) {
			return &episodes[i]
		}
	}
	if !f.turnedAway() {
		return nil
	}
	for i, e := range episodes {
		had := func(t trouble) bool {
			return slices.ContainsFunc(b.jobs[t.job].stays, func(s stay) bool { return s.from <= f.at })
		}
		if e.broke > f.at && slices.ContainsFunc(e.suspects, had) {
			return &episodes[i]
		}
	}
	return nil
}

// either names jobs: "job 1 (needle)", or "one of job 1 (needle), job 3 (bfs)".
func (b *Batch) either(of []trouble) string {
	var names []string
	for _, t := range of {
		names = append(names, fmt.Sprintf("job %d (%s)", t.job, b.jobs[t.job].record.Name))
	}
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}

// recordEpisode keeps what was found of an episode that several jobs were in.
func (b *Batch) recordEpisode(e *episode) {
	if len(e.faults) == 0 || b.alone(e) {
		return
	}
	event := results.Event{AtS: seconds(e.broke), Kind: results.EventSuspects, Device: &e.ailments[0].device,
		Detail: b.either(e.suspects) + " broke the MPS server"}
	if len(e.suspects) == 1 {
		event.Kind, event.Job, event.Detail = results.EventCulprit, &e.suspects[0].job, event.Detail+": "+e.because
	}
	b.recorder.Event(event)
}
