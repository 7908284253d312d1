package runner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/blame"
	"github.com/caserun/caserun/schedulers"
)

func (e ProcessWork) apply(b *Batch, _ time.Duration) error {
	w := blame.Work{Known: true, Since: schedulers.Never}
	if e.Since != nil {
		w.Since = *e.Since
	}
	if e.Until != nil {
		w.Until = *e.Until
	}
	j := b.job(int(e.Process.Job))
	if j.work == nil {
		j.work = map[int]blame.Work{}
	}
	j.work[e.Process.Serial] = w
	return nil
}

func (e ProcessUse) apply(b *Batch, _ time.Duration) error {
	j := b.job(int(e.Process.Job))
	if j.uses == nil {
		j.uses = map[int]int64{}
	}
	j.uses[e.Process.Serial] = e.Bytes
	return nil
}

// used is the most memory that the job had in use, once all its residencies have ended. The
// memory of processes that had a device at the same time is added up. The sum is unknown (nil)
// if a process did not tell.
func (j *job) used() *int64 {
	held := map[int]*results.Task{}
	for _, r := range j.residencies {
		bytes, known := j.uses[r.Serial]
		if !known {
			return nil
		}
		t := held[r.Serial]
		if t == nil {
			t = &results.Task{GrantS: new(seconds(r.From)), ReleaseS: new(seconds(r.To)), Bytes: bytes}
			held[r.Serial] = t
		}
		*t.ReleaseS = max(*t.ReleaseS, seconds(r.To))
	}
	if len(held) == 0 {
		return nil
	}
	var all []results.Task
	for _, t := range held {
		all = append(all, *t)
	}
	return new(results.PeakBytes(all, 0))
}

func (e OutOfMemory) apply(b *Batch, now time.Duration) error {
	index := int(e.Process.Job)
	j := b.job(index)
	if strings.HasSuffix(e.Where, ofRefusal) {
		why, remedy := fmt.Sprintf("%s in %s", size.Text(e.Bytes), e.Where), b.refusalRemedy()
		j.each(e.Process.Serial, func(s *said) { s.refused, s.larger = cmp.Or(s.refused, why), remedy }) // the decision says more
		return nil
	}
	if ofDevice(e.Where) {
		b.noteShortage(j)
	}
	remedy, full := b.oomRemedy(j, e.Where)
	what := fmt.Sprintf("out of memory: %s in %s", size.Text(e.Bytes), e.Where)
	j.each(e.Process.Serial, func(s *said) {
		if s.oom == "" {
			s.oom, s.remedy, s.full = what, remedy, full
		}
	})
	if j.keeps(results.EventOOM, e.Process.Serial) {
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventOOM, Job: &index, Device: j.record.Device, Detail: what + remedy})
	}
	return nil
}

// What libcase says of memory that is not a device's (native/lazy/memory/memory.cc): that of the swap area, and of calls
// for page-locked memory, whose names have the second word. And of memory that was refused (native/lazy/task/report.cc).
const (
	ofSwapArea = "memory of the host (swap area)"
	ofHost     = "Host"
	ofRefusal  = ", which the scheduler refused"
)

// ofDevice reports whether the memory that was missing is a device's.
func ofDevice(where string) bool {
	call, _, _ := strings.Cut(where, ",")
	return !strings.HasPrefix(where, ofSwapArea) && !strings.Contains(call, ofHost)
}

// oomRemedy says what to do about a failed allocation, as far as that is known. full: it is of a device's memory, and who has taken that
// is not known.
func (b *Batch) oomRemedy(j *job, where string) (remedy string, full bool) {
	switch d := j.record.Device; {
	case strings.HasPrefix(where, ofSwapArea):
		return "; the swap area is full: give a larger --swap", false
	case !ofDevice(where):
		return "; the host has too little memory that can be page-locked: end other programs, or run fewer jobs at once (--workers)", false
	case j.refused != "": // which says what was asked for, and what there is
		return b.refusalRemedy(), false
	case d == nil:
		return "", false
	default:
		if hog := b.hog(*d); hog != "" {
			return "; " + hog, false
		}
		free := b.engine.View().Device(*d).FreeBytes()
		if free < 0 {
			return "", true
		}
		left := fmt.Sprintf("; the device is not oversubscribed, with %.2f GiB left to grant", float64(free)/(1<<30))
		if b.looked {
			return left + ", and no process was seen to hold more than was reserved for it: a program outside the run may use the GPU, " +
				"or the looks at it (every 100 ms) came too late", true
		}
		return left + ": a process may hold more than was reserved for it, which is not known here; " +
			"declare more memory in the mix, or give a larger --context-reserve", true
	}
}

// refusalRemedy says what to do about memory that was refused.
func (b *Batch) refusalRemedy() string {
	if b.config.Scheduler.Swaps() {
		return "; with a larger --swap more memory can be on the host"
	}
	return ""
}

func (e Fault) apply(b *Batch, at time.Duration) error {
	index := int(e.Process.Job)
	j := b.job(index)
	f := blame.Incident{Process: e.Process, At: at, Code: e.Code, Work: j.work[e.Process.Serial],
		Detail: fmt.Sprintf("CUDA error %d in %s", e.Code, e.Where)}
	if j.told && f.OfStop() { // its work is ended through the MPS server before it is killed
		j.cut = true
		return nil
	}
	if !j.keeps(results.EventFault, e.Process.Serial) {
		return nil
	}
	j.each(e.Process.Serial, func(s *said) { s.faults = append(s.faults, f) })
	b.recordEvent(results.Event{AtS: seconds(at), Kind: results.EventFault, Job: &index, Device: j.record.Device, Detail: f.Detail})
	if !f.Contained() {
		b.suspectOutage(j.residencies.Of(e.Process.Serial), at, true)
	}
	return nil
}

// suspectDeath notes the death of a process that can have harmed its neighbours.
func (b *Batch) suspectDeath(j *job, e ProcessGone, now time.Duration) {
	work := j.work[e.Process.Serial]
	own := j.residencies.Of(e.Process.Serial)
	if e.SaidBye || len(own) == 0 || work.None() || j.bound && !work.Known {
		return
	}
	j.deaths = append(j.deaths, blame.Incident{Process: e.Process, At: now, Work: work})
	b.suspectOutage(own, now, false)
}

// suspectOutage notes that an incident at a time may have broken the MPS server on the
// devices of these residencies, and has the executor await its recovery. Until then the server would turn new clients away,
// whatever their device (seen on two H200s, 1 ms after a fault on the other device), so processes are granted more only where
// they are.
func (b *Batch) suspectOutage(rs blame.Residencies, at time.Duration, shown bool) {
	if !b.config.MPS || b.cancelled || b.Ended() {
		return
	}
	if b.server.Suspect(rs, at, shown) {
		b.command(AwaitServer{})
		b.carryOut(b.engine.Seal(true, at), at)
	}
	b.giveTime(at)
}

func (e ServerFaulted) apply(b *Batch, now time.Duration) error {
	b.suspectOutage(blame.Residencies{{Device: e.Device, From: now, To: now}}, now, true)
	b.server.FaultLogged(e.Device, now)
	return nil
}

// ending is how long a process may take to end by itself once the MPS server is known to be in state FAULT. Its next CUDA call
// has given it the error. The server waits for it, and with the server all that come later.
const ending = 2 * time.Second

func (e ServerBroken) apply(b *Batch, now time.Duration) error {
	b.server.Broken(now, e.Devices)
	b.recordServer(results.EventMPSBroken, e.Why, now)
	b.inFault = b.inFault || e.Fault
	b.giveTime(now)
	return nil
}

// giveTime has the clients of a broken server ended after a while, unless that is under way.
func (b *Batch) giveTime(now time.Duration) {
	if b.inFault && b.endsClients == 0 {
		b.endsClients = now + ending
		b.command(WakeAt{b.endsClients})
	}
}

// endClients ends the jobs that a broken server waits for, once their time is over. Jobs that wait for their first device, or
// have got it just before the server was known to be broken, may not be clients, so they come last.
func (b *Batch) endClients(now time.Duration) {
	if b.endsClients == 0 || now < b.endsClients {
		return
	}
	b.endsClients = 0
	var clients, newcomers []int
	for i, j := range b.jobs {
		if j == nil || !j.runs() || j.endedClient {
			continue
		}
		lost, late := b.server.Lost(j.residencies)
		switch {
		case !lost:
		case late, slices.ContainsFunc(b.held, func(d schedulers.Decision) bool { return int(d.Task.Job) == i }):
			newcomers = append(newcomers, i)
		default:
			clients = append(clients, i)
		}
	}
	if len(clients) > 0 && len(newcomers) > 0 {
		b.giveTime(now)
	} else if len(clients) == 0 {
		clients = newcomers
	}
	for _, i := range clients {
		b.endClient(i, now)
	}
}

func (b *Batch) endClient(i int, now time.Duration) {
	j := b.job(i)
	j.endedClient = true
	why := fmt.Sprintf("it was ended, because the MPS server waited for it for %v", ending)
	for _, r := range j.residencies {
		if !r.Open() {
			continue
		}
		f := blame.Incident{Process: schedulers.Process{Job: schedulers.JobID(i), Serial: r.Serial}, At: now, Code: blame.Ended, Detail: why}
		j.faults = append(j.faults, f)
		if j.ranks != nil {
			for k := range j.ranks.all {
				j.ranks.all[k].faults = append(j.ranks.all[k].faults, f)
			}
		}
	}
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventMPSEnded, Job: &j.record.Index, Device: j.record.Device, Detail: why})
	b.command(EndClient{i})
}

func (e ServerRecovered) apply(b *Batch, now time.Duration) error {
	switch {
	case b.Ended():
		return nil // nobody waits
	case e.Err != nil:
		b.server.Broken(now, nil)
		b.recordServer(results.EventMPSNotRecovered, e.Err, now)
		return nil //nolint:nilerr // the batch goes on without the server, and has recorded why
	}
	b.inFault, b.endsClients = false, 0
	again, wasBroken := b.server.Healthy(now)
	if again {
		b.command(AwaitServer{})
		return nil
	}
	if wasBroken {
		b.recordServer(results.EventMPSRecovered, nil, now)
	}
	held := slices.DeleteFunc(b.held, func(d schedulers.Decision) bool { return b.tasks[d.Task.ID] == nil }) // it was freed meanwhile
	b.held = nil
	b.carryOut(append(held, b.engine.Seal(false, now)...), now)
	b.admit(now)
	return nil
}

func (b *Batch) recordServer(kind results.EventKind, why error, now time.Duration) {
	e := results.Event{AtS: seconds(now), Kind: kind}
	if why != nil {
		e.Detail, _, _ = strings.Cut(why.Error(), "\n") // without the server's log
	}
	b.recordEvent(e)
}

// AttributeFaults settles whose the faults were, once all is known, and returns the records
// that this changes.
func (b *Batch) AttributeFaults() []Command {
	if !b.config.MPS {
		return nil
	}
	jobs := make([]blame.Job, len(b.jobs))
	for i := range b.jobs {
		j := b.job(i)
		jobs[i] = blame.Job{Title: b.title(i), FaultsAlone: b.faultsAlone(i), Residencies: j.residencies,
			Faults: j.faultsWithWork(), Deaths: j.deaths, Work: j.work, End: j.end,
			Failed: j.record.Signal != nil || j.record.ExitStatus != nil && *j.record.ExitStatus != 0}
	}
	found := blame.Attribute(jobs, b.server.Outages())
	for _, f := range found.Findings() {
		e := results.Event{AtS: seconds(f.At), Kind: results.EventSuspects, Device: &f.Device, Job: f.Culprit, Detail: f.Detail}
		if f.Culprit != nil {
			e.Kind = results.EventCulprit
		}
		b.recordEvent(e)
	}
	for i := range b.records {
		r := &b.records[i]
		if r.Outcome == nil || *r.Outcome != results.Fault {
			continue
		}
		v := found.Verdict(i)
		r.Outcome, r.Detail, r.Suspects = &v.Outcome, v.Detail, v.Suspects
		if of := b.jobs[i].ranks; of != nil && of.failed >= 0 {
			r.Detail = fmt.Sprintf("rank %d: %s", of.first+of.failed, v.Detail)
		}
		b.recordJob(r)
	}
	return b.take()
}

// faultsWithWork are the faults, with what the processes that were ended showed of their work at their end.
func (j *job) faultsWithWork() []blame.Incident {
	faults := slices.Clone(j.faults)
	for i, f := range faults {
		if f.Code == blame.Ended {
			faults[i].Work = j.workOf(f.Process.Serial)
		}
	}
	return faults
}

// workOf is what a process showed of its work last. Where the processes are not told apart, it is that of the only one.
func (j *job) workOf(serial int) blame.Work {
	if serial == 0 && len(j.work) == 1 {
		for only := range j.work {
			serial = only
		}
	}
	return j.work[serial]
}
