package blame

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// Job is the evidence of one job.
type Job struct {
	Title       string // for texts, such as job 1 (needle)
	FaultsAlone string // where it has faulted without neighbours before; "": nowhere
	Residencies Residencies
	Faults      []Incident // in the order of the reports
	Deaths      []Incident
	Work        map[int]Work  // of its processes, by serial, as they showed it last
	Failed      bool          // it ended by a signal or with a non-zero exit status
	End         time.Duration // Never: it did not run to its end
}

// Attribution is whose the faults of a batch were.
type Attribution struct {
	jobs     []Job
	episodes []episode
}

// Attribute settles whose the faults were, from the evidence of all jobs, in the order of
// the mix, and the outages of the server that they shared.
func Attribute(jobs []Job, outages []Outage) *Attribution {
	a := &Attribution{jobs: jobs}
	var incidents, turnedAway []Incident
	for i := range jobs {
		incidents = append(incidents, jobs[i].harmful()...)
		for _, f := range jobs[i].Faults {
			switch {
			case f.turnedAway():
				turnedAway = append(turnedAway, f)
			case !f.Contained():
				incidents = append(incidents, f)
			}
		}
	}
	a.findEpisodes(incidents, outages)
	// The server turns a client away that it has served only after a fault. If nobody was shown that, this is the first sign of it.
	signs := slices.DeleteFunc(turnedAway, func(f Incident) bool {
		e := a.episodeOf(f)
		return !f.Work.served() || e != nil && !e.unseen()
	})
	if len(signs) > 0 {
		a.findEpisodes(append(incidents, signs...), outages)
	}
	return a
}

// Verdict is what its faults make of a job.
type Verdict struct {
	Outcome  results.Outcome // Fault, FaultSuspect or Collateral
	Detail   string
	Suspects []int // the jobs one of which is to blame; of a Fault none
}

// Verdict judges a job that has reported a fault. The job's own fault goes before that of
// another job.
func (a *Attribution) Verdict(job int) Verdict {
	var worst Verdict
	for i, f := range a.jobs[job].Faults {
		if v := a.judge(f); i == 0 || weight(v.Outcome) > weight(worst.Outcome) {
			worst = v
		}
	}
	return worst
}

func weight(o results.Outcome) int {
	return slices.Index([]results.Outcome{results.Collateral, results.FaultSuspect, results.Fault}, o)
}

// Finding is what was found of an episode in which several jobs came to harm.
type Finding struct {
	At      time.Duration // when the first sign of it was seen
	Device  int
	Culprit *int // the job that is named; nil: there are several suspects
	Detail  string
}

// Findings are in the order of time.
func (a *Attribution) Findings() []Finding {
	var out []Finding
	for i := range a.episodes {
		e := &a.episodes[i]
		if len(e.faults) == 0 || len(e.suspects) == 0 || e.harmedOneJob() {
			continue
		}
		f := Finding{At: e.broke, Device: e.outages[0].Device, Detail: a.oneOf(e.suspects) + " broke the MPS server"}
		if len(e.suspects) == 1 {
			f.Culprit, f.Detail = new(jobOf(e.suspects[0])), f.Detail+": "+e.because
		}
		out = append(out, f)
	}
	return out
}

// episode is a time in which the MPS server of some devices broke, and what came with it.
type episode struct {
	outages  []Outage
	faults   []Incident    // shown to processes that had those devices
	deaths   []Incident    // of such processes
	broke    time.Duration // when the first sign of it was seen
	suspects []Incident    // in the order of their jobs, one for each job; of a job that showed no error only the process is known
	because  string        // what names a single suspect, where there were others
}

// shown are the faults whose errors say what happened.
func (e *episode) shown() []Incident {
	return slices.DeleteFunc(slices.Clone(e.faults), func(f Incident) bool { return f.Code == Ended || f.turnedAway() })
}

// unseen reports whether only the server says that there was a fault.
func (e *episode) unseen() bool { return len(e.shown()) == 0 && len(e.deaths) == 0 }

func jobOf(i Incident) int { return int(i.Process.Job) }

// lastWords is the longest time between the end of a process without a goodbye and the
// failure of its job for which the end counts as a death, where the process's work is not
// known. A process that ended earlier, or whose job succeeds, left on purpose (_exit).
const lastWords = 10 * time.Second

// harmful are the deaths in a job that can have harmed its neighbours. A process that had
// shown an error before died of that error.
func (j *Job) harmful() []Incident {
	return slices.DeleteFunc(slices.Clone(j.Deaths), func(d Incident) bool {
		showed := slices.ContainsFunc(j.Faults, func(f Incident) bool {
			return (f.Process == d.Process || d.Process.Serial == 0) && f.At <= d.At
		})
		onPurpose := !d.Work.Known && (!j.Failed || j.End == schedulers.Never || j.End-d.At > lastWords)
		return showed || onPurpose
	})
}

// findEpisodes groups incidents by the outages that they fall into, and settles whose the episodes are. What happened to a
// process on two devices joins the outages of both: MPS contains a fault within the devices that its clients share (NVIDIA,
// "Multi-Process Service").
func (a *Attribution) findEpisodes(incidents []Incident, outages []Outage) {
	group := make([]int, len(outages)) // of each outage, named by its first outage
	for i := range group {
		group[i] = i
	}
	type placed struct {
		Incident
		outage int
	}
	var all []placed
	faulted := make([]bool, len(outages))
	deathsFirst := func(i Incident) time.Duration {
		if i.isDeath() {
			return -1
		}
		return i.At
	}
	slices.SortStableFunc(incidents, func(x, y Incident) int { return cmp.Compare(deathsFirst(x), deathsFirst(y)) })
	for _, incident := range incidents {
		in := a.outagesOf(incident, outages, faulted)
		for _, i := range in {
			faulted[i] = faulted[i] || !incident.isDeath()
			from, to := group[i], group[in[0]]
			for k := range group {
				if group[k] == from {
					group[k] = to
				}
			}
		}
		if len(in) > 0 {
			all = append(all, placed{incident, in[0]})
		}
	}
	groups := map[int]*episode{}
	for _, p := range all {
		e := groups[group[p.outage]]
		if e == nil {
			e = &episode{broke: schedulers.Never}
			groups[group[p.outage]] = e
			for i, o := range outages {
				if group[i] == group[p.outage] {
					e.outages = append(e.outages, o)
					e.broke = min(e.broke, o.Seen)
				}
			}
		}
		if p.isDeath() {
			e.deaths = append(e.deaths, p.Incident)
		} else {
			e.faults = append(e.faults, p.Incident)
			e.broke = min(e.broke, p.At)
		}
	}
	a.episodes = nil
	for _, e := range groups {
		a.suspect(e)
		a.episodes = append(a.episodes, *e)
	}
	slices.SortFunc(a.episodes, func(x, y episode) int {
		return cmp.Or(cmp.Compare(x.broke, y.broke), cmp.Compare(x.outages[0].From, y.outages[0].From), cmp.Compare(x.outages[0].Device, y.outages[0].Device))
	})
}

// outagesOf are the outages that an incident falls into: those that lasted then, on its
// process's devices. But a process that was a client there when an earlier fault was shown
// has lost its context with that fault, whenever it next asks.
func (a *Attribution) outagesOf(incident Incident, outages []Outage, faulted []bool) (in []int) {
	for _, r := range a.residenciesOf(incident) {
		lost := func(i int) bool {
			return !incident.isDeath() && faulted[i] && r.From < outages[i].To && outages[i].From < r.To
		}
		found := -1
		for i, o := range outages {
			if o.Device == r.Device && r.at(incident.At) && (lost(i) || o.at(incident.At)) {
				found = i
				if lost(i) {
					break
				}
			}
		}
		if found >= 0 {
			in = append(in, found)
		}
	}
	return in
}

func (a *Attribution) residenciesOf(i Incident) Residencies {
	return a.jobs[jobOf(i)].Residencies.Of(i.Process.Serial)
}

// dying is how long after the server broke the process may still be there whose death
// broke it: 64 to 230 ms in ten of ten (kill -9 and _exit in mid-kernel; H200, driver 580).
const dying = time.Second

// lately is how long before an error that may be shown elsewhere kernels count that had ended.
const lately = 500 * time.Millisecond

// suspect settles who may have caused the episode, and who is named.
func (a *Attribution) suspect(e *episode) {
	shown := e.shown()
	if e.unseen() || slices.ContainsFunc(shown, Incident.mayShowElsewhere) {
		e.suspects, e.because = a.lately(e), "only it can have had kernels running in the time before the MPS server broke"
	} else {
		e.suspects, e.because = a.able(e)
	}
	if len(e.suspects) == 0 {
		e.suspects, e.because = shown, "no other job showed an error"
	}
	slices.SortStableFunc(e.suspects, func(x, y Incident) int {
		return cmp.Or(cmp.Compare(jobOf(x), jobOf(y)), cmp.Compare(x.At, y.At))
	})
	e.suspects = slices.CompactFunc(e.suspects, func(x, y Incident) bool { return jobOf(x) == jobOf(y) })
	known := slices.DeleteFunc(slices.Clone(e.suspects), func(i Incident) bool { return a.jobs[jobOf(i)].FaultsAlone == "" })
	if len(known) == 1 && len(e.suspects) > 1 {
		e.suspects, e.because = known, a.jobs[jobOf(known[0])].FaultsAlone
	}
}

// able are those of the processes that came to harm that can have caused the episode, and why a single one did.
func (a *Attribution) able(e *episode) (able []Incident, because string) {
	var died []Incident
	for _, i := range slices.Concat(e.deaths, e.faults) {
		if !a.cameBefore(e, i) || !i.Work.running(e.broke) {
			continue
		}
		able = append(able, i)
		if i.isDeath() && i.Work.Known && i.At <= e.broke+dying {
			died = append(died, i)
		}
	}
	if len(died) > 0 {
		return died, "it died with kernels running"
	}
	return able, "only it can have had kernels running when the MPS server broke"
}

// lately are the processes that had kernels running on the episode's devices when the server broke, or a while before, whether or
// not they came to harm and whether or not they had ended by then.
func (a *Attribution) lately(e *episode) (able []Incident) {
	harmed, from := slices.Concat(e.faults, e.deaths), a.earliest(e)
	for i := range a.jobs {
		for _, r := range a.jobs[i].Residencies {
			here := slices.ContainsFunc(e.outages, func(o Outage) bool { return o.Device == r.Device })
			if !here || r.From >= e.broke || r.To < from {
				continue
			}
			p := schedulers.Process{Job: schedulers.JobID(i), Serial: r.Serial}
			if slices.ContainsFunc(a.jobs[i].worksOf(p, harmed), func(w Work) bool { return w.between(from, e.broke) }) {
				able = append(able, Incident{Process: p, At: e.broke})
			}
		}
	}
	return able
}

// earliest is when the kernel that caused the episode may have run at the earliest. The server's log tells of a fault at once. If it did
// not tell, a process that was shown the error had it since it last saw the end of its kernels, because its waits succeeded until then.
func (a *Attribution) earliest(e *episode) time.Duration {
	from := e.broke - lately
	if slices.ContainsFunc(e.outages, func(o Outage) bool { return o.Seen <= e.broke }) {
		return from
	}
	well := time.Duration(0)
	for _, f := range e.faults {
		well = max(well, f.Work.Until)
		for _, r := range a.residenciesOf(f) {
			if r.From < e.broke {
				well = max(well, r.From)
			}
		}
	}
	return min(from, well)
}

// worksOf is what a process of the job showed of its work when it came to harm, or else last; of all processes, where they are not
// told apart.
func (j *Job) worksOf(p schedulers.Process, harmed []Incident) (works []Work) {
	if at := slices.IndexFunc(harmed, func(i Incident) bool { return i.Process == p }); at >= 0 && p.Serial != 0 {
		return []Work{harmed[at].Work}
	}
	for serial, w := range j.Work {
		if p.Serial == 0 || p.Serial == serial {
			works = append(works, w)
		}
	}
	if works == nil {
		works = []Work{{}} // nobody can tell
	}
	return works
}

// cameBefore reports whether the process had one of the devices before the server broke.
func (a *Attribution) cameBefore(e *episode, i Incident) bool {
	return slices.ContainsFunc(a.residenciesOf(i), func(r Residency) bool {
		return r.From < e.broke && slices.ContainsFunc(e.outages, func(o Outage) bool { return o.Device == r.Device })
	})
}

// judge is what one fault makes of its job, as far as that fault goes.
func (a *Attribution) judge(f Incident) Verdict {
	e := a.episodeOf(f)
	if e == nil {
		return Verdict{Outcome: results.Fault, Detail: f.Detail}
	}
	if len(e.suspects) == 0 {
		return Verdict{Outcome: results.Collateral, Detail: f.Detail + "; who broke it is not known"}
	}
	suspected := slices.ContainsFunc(e.suspects, func(s Incident) bool { return s.Process.Job == f.Process.Job })
	did := "broke the MPS server"
	if f.turnedAway() {
		did = "had broken the MPS server"
	}
	switch {
	case suspected && len(e.suspects) > 1:
		return Verdict{results.FaultSuspect, fmt.Sprintf("%s, and %s %s", f.Detail, a.oneOf(e.suspects), did), e.suspected()}
	case suspected && e.harmedOneJob():
		return Verdict{Outcome: results.Fault, Detail: f.Detail}
	case suspected:
		return Verdict{Outcome: results.Fault, Detail: fmt.Sprintf("%s: %s", f.Detail, e.because)}
	}
	return Verdict{results.Collateral, fmt.Sprintf("%s, %s %s", f.Detail, a.oneOf(e.suspects), did), e.suspected()}
}

func (e *episode) suspected() (jobs []int) {
	for _, s := range e.suspects {
		jobs = append(jobs, jobOf(s))
	}
	return jobs
}

// harmedOneJob reports whether only the job of the first fault came to harm, and no other is suspected.
func (e *episode) harmedOneJob() bool {
	another := func(i Incident) bool { return i.Process.Job != e.faults[0].Process.Job }
	return len(e.deaths) == 0 && !slices.ContainsFunc(e.faults, another) && !slices.ContainsFunc(e.suspects, another)
}

// episodeOf is the episode that a fault belongs to, or nil. A fault of a process that the
// server turned away belongs to the first episode that lasted then. If none did, it belongs
// to the next episode of a job that had a device by then, because an error shows in a job
// only when the job next asks.
func (a *Attribution) episodeOf(f Incident) *episode {
	for i, e := range a.episodes {
		if slices.ContainsFunc(e.faults, func(o Incident) bool {
			return o.Process == f.Process && o.At == f.At && o.Code == f.Code
		}) {
			return &a.episodes[i]
		}
		if f.turnedAway() && slices.ContainsFunc(e.outages, func(o Outage) bool { return o.From < f.At && f.At < o.To }) {
			return &a.episodes[i]
		}
	}
	if !f.turnedAway() {
		return nil
	}
	for i, e := range a.episodes {
		had := func(s Incident) bool {
			return slices.ContainsFunc(a.jobs[jobOf(s)].Residencies, func(r Residency) bool { return r.From <= f.At })
		}
		if e.broke > f.At && slices.ContainsFunc(e.suspects, had) {
			return &a.episodes[i]
		}
	}
	return nil
}

// oneOf names jobs: "job 1 (needle)", or "one of job 1 (needle), job 3 (bfs)".
func (a *Attribution) oneOf(incidents []Incident) string {
	var names []string
	for _, i := range incidents {
		names = append(names, a.jobs[jobOf(i)].Title)
	}
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}
