// Package perfetto writes runs as a trace that ui.perfetto.dev and trace_processor open
// (docs/reference/exports.md). The format is Perfetto's own: packets of protocol buffers, most of them
// TrackEvents.
package perfetto

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers"
)

// Write writes a trace of the runs, side by side: all batches arrive at the same time. Kernels
// and copies are streamed from the store, because a run may have millions. progress, if not nil,
// is called now and then with how many were written.
func Write(ctx context.Context, s *store.Store, w io.Writer, runs []results.Run, progress func(written int64)) error {
	early := 0.0
	for _, r := range runs {
		segments, err := s.Segments(ctx, r.ID)
		if err != nil {
			return err
		}
		for _, x := range segments {
			early = min(early, x.FirstS)
		}
	}
	buffered := bufio.NewWriterSize(w, 1<<16)
	// Timestamps are unsigned, and the sampler begins before the batch arrives.
	p := newPackets(buffered, ns(1-math.Floor(early)))
	var written int64
	for _, r := range runs {
		t, err := load(ctx, s, p, r)
		if err != nil {
			return err
		}
		t.progress = func() error {
			if written++; written%4096 == 0 && progress != nil {
				progress(written)
			}
			return p.err
		}
		if err := t.write(ctx, s); err != nil {
			return err
		}
	}
	if p.err != nil {
		return p.err
	}
	return buffered.Flush()
}

// Records is how many kernels and copies a trace of the runs has, as far as their tracers say.
func Records(runs []results.Run) (n int64) {
	for _, r := range runs {
		for _, part := range []*int64{r.Tracer.Kernels, r.Tracer.Copies} {
			if part != nil {
				n += *part
			}
		}
	}
	return n
}

// run is one run while its part of the trace is written.
type run struct {
	*packets
	results.Run
	jobs     []results.Job
	ranks    []results.Rank
	tasks    []results.Task
	swaps    []results.Swap
	devices  []results.Device
	segments []results.Segment
	events   []results.Event
	end      float64 // the latest time in these records, in s: where what did not end is cut off

	processes map[int]track                // of jobs
	grants    map[taskKey]flow             // arrows from tasks to the devices that they got
	streams   map[streamKey]*lanes         // of one job
	refusedAt map[int]map[string][]float64 // times of refusals by job and reason
	progress  func() error                 // after each kernel and copy
}

type taskKey struct{ job, seq int }

type streamKey struct {
	copies              bool
	device, pid, stream int
}

func load(ctx context.Context, s *store.Store, p *packets, r results.Run) (*run, error) {
	t := &run{packets: p, Run: r, processes: map[int]track{}, grants: map[taskKey]flow{}, refusedAt: map[int]map[string][]float64{}}
	var errs [7]error
	t.jobs, errs[0] = s.Jobs(ctx, r.ID)
	t.tasks, errs[1] = s.Tasks(ctx, r.ID)
	t.devices, errs[2] = s.Devices(ctx, r.ID)
	segments, err := s.Segments(ctx, r.ID)
	t.segments, errs[3] = results.WithPower(segments), err
	t.events, errs[4] = s.Events(ctx, r.ID)
	t.swaps, errs[5] = s.Swaps(ctx, r.ID)
	t.ranks, errs[6] = s.Ranks(ctx, r.ID)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	t.end = orElse(r.Metrics.MakespanS, 0)
	for _, j := range t.jobs {
		t.end = max(t.end, orElse(j.StartS, 0), orElse(j.EndS, 0))
	}
	for _, k := range t.tasks {
		t.end = max(t.end, k.SubmitS, orElse(k.GrantS, 0), orElse(k.ReleaseS, 0))
	}
	for _, x := range t.swaps {
		t.end = max(t.end, x.EndS)
	}
	for _, x := range t.segments {
		t.end = max(t.end, x.LastS)
	}
	for _, e := range t.events {
		t.end = max(t.end, e.AtS)
		if e.Kind == results.EventRefused && e.Job != nil {
			if t.refusedAt[*e.Job] == nil {
				t.refusedAt[*e.Job] = map[string][]float64{}
			}
			t.refusedAt[*e.Job][e.Detail] = append(t.refusedAt[*e.Job][e.Detail], e.AtS)
		}
	}
	return t, nil
}

// name is the name of a process, which says whether its figures were measured.
func (t *run) name(what string) string {
	name := fmt.Sprintf("run %d%s", t.ID, what)
	if t.Mode == results.Simulated {
		name = "SIMULATED " + name
	}
	return name
}

func (t *run) write(ctx context.Context, s *store.Store) error {
	t.batch()
	// Devices come first on the screen. Arrows end there, and come later in the file.
	devices := make([]track, len(t.devices))
	for i, d := range t.devices {
		devices[i] = t.process(t.name(" " + results.DeviceTitle(t.devices, d) + ": " + d.Name))
	}
	for _, j := range t.jobs {
		t.job(j)
	}
	for i, d := range t.devices {
		t.device(devices[i], d)
	}
	return t.traced(ctx, s)
}

// batch writes the run as a whole.
func (t *run) batch() {
	process := t.process(t.name(fmt.Sprintf(": %s under %s on %s", t.Mix, t.Scheduler, t.Node)))
	t.slice(slice{track: t.slices(process, "batch", 0), name: t.Mix + " under " + t.Scheduler, to: ns(t.end)},
		append([]arg{whole("run", t.ID)}, columns(t.Fields(), "mode", "status", "mix", "scheduler", "parameters", "probe", "node", "suite", "tag", "started_at",
			"version", "jobs", "makespan_s", "throughput_jobs_per_s")...)...)
	if len(t.events) == 0 {
		return
	}
	events := slices.Clone(t.events) // they come in the order in which they became known
	slices.SortStableFunc(events, func(a, b results.Event) int { return cmp.Compare(a.AtS, b.AtS) })
	on := t.slices(process, "events", 1)
	for _, e := range events {
		t.instant(on, string(e.Kind), ns(e.AtS), index("job_index", e.Job), index("device_index", e.Device), words("detail", e.Detail))
	}
}

// job writes a job's process: when it waited to start and ran, and its tasks.
func (t *run) job(j results.Job) {
	process := t.process(t.name(fmt.Sprintf(" job %d: %s", j.Index, j.Name)))
	t.processes[j.Index] = process
	on := t.slices(process, "job", 0)
	start := orElse(j.StartS, orElse(j.EndS, t.end))
	if arrival := orElse(j.ArrivalS, 0); start > arrival {
		t.slice(slice{track: on, name: "waits to start", from: ns(arrival), to: ns(start)})
	}
	name := j.Name
	if j.Outcome == nil {
		j.Outcome = new(results.Outcome("not known"))
	} else if *j.Outcome != results.OK {
		name += ": " + string(*j.Outcome)
	}
	end := orElse(j.EndS, t.end)
	if j.StartS != nil {
		t.slice(slice{track: on, name: name, from: ns(*j.StartS), to: ns(end)}, columns(j.Fields().With("turnaround_s", j.TurnaroundS()), "command", "class", "outcome", "detail",
			"exit_status", "device_index", "devices", "footprint_bytes", "used_bytes", "unaccounted_bytes", "wait_s", "turnaround_s", "user_s", "sys_s", "max_rss_bytes", "signal")...)
	}
	ranks := &lanes{packets: t.packets, parent: process, name: "ranks", rank: 1}
	for _, k := range t.ranks {
		if k.Job == j.Index && k.StartS != nil {
			t.rank(ranks, k, end)
		}
	}
	tasks := &lanes{packets: t.packets, parent: process, name: "tasks", rank: 1}
	for _, k := range t.tasks {
		if k.Job == j.Index {
			t.task(tasks, k, end)
		}
	}
	swaps := &lanes{packets: t.packets, parent: process, name: "swaps", rank: 2}
	for _, s := range t.swaps {
		if s.Job == j.Index {
			t.swap(swaps, s)
		}
	}
}

// rank writes a process of a job that has several.
func (t *run) rank(on *lanes, k results.Rank, jobEnd float64) {
	one, _ := results.KindOfRanks([]results.Rank{k})
	name := fmt.Sprintf("%s %d", one, k.Rank)
	if k.Outcome != nil && *k.Outcome != results.OK {
		name += ": " + string(*k.Outcome)
	}
	from, to := ns(*k.StartS), ns(orElse(k.EndS, jobEnd))
	t.slice(slice{track: on.free(from, to), name: name, from: from, to: to}, columns(k.Fields(), "rank", "pid", "outcome", "detail", "exit_status", "signal",
		"user_s", "sys_s", "max_rss_bytes")...)
}

// swap writes memory that moved, or did not although it was asked to.
func (t *run) swap(on *lanes, s results.Swap) {
	name := string(s.Direction)
	if s.Direction == schedulers.Out {
		name += " (" + s.Action + ")"
	}
	if s.Outcome != schedulers.Done {
		name += ": " + string(s.Outcome)
	}
	from, to := ns(s.StartS), ns(s.EndS)
	t.slice(slice{track: on.free(from, to), name: name, from: from, to: to}, columns(s.Fields(), "task_seq", "device_index", "outcome", "bytes",
		"drain_s", "copy_s", "bookkeeping_s", "lost_s", "resident_bytes", "fixed_bytes", "for_job_index", "for_task_seq", "why")...)
}

// task writes what a task's job sees: the wait for the grant, and the time that the task holds
// its device. The two are neighbours on one track.
func (t *run) task(on *lanes, k results.Task, jobEnd float64) {
	refusal := ""
	if k.Refusal != nil {
		refusal = *k.Refusal
	}
	name := fmt.Sprintf("task %d", k.Seq)
	args := taskArgs(k)
	submit, until := ns(k.SubmitS), ns(jobEnd)
	switch {
	case k.GrantS != nil:
		until = ns(*k.GrantS)
	case k.Refusal != nil:
		until = submit
		if times := t.refusedAt[k.Job][refusal]; len(times) > 0 {
			at := max(slices.IndexFunc(times, func(s float64) bool { return s >= k.SubmitS }), 0)
			until = max(submit, ns(times[at]))
			t.refusedAt[k.Job][refusal] = slices.Delete(times, at, at+1)
		}
	}
	release := until
	if k.GrantS != nil {
		release = max(until, ns(orElse(k.ReleaseS, jobEnd)))
	}
	lane := on.free(submit, release)
	wait := slice{track: lane, name: name + " waits", from: submit, to: until}
	if k.GrantS == nil {
		if k.Refusal != nil {
			wait.name = name + " refused"
		}
		t.slice(wait, args...)
		return
	}
	arrow := t.newFlow()
	t.grants[taskKey{k.Job, k.Seq}] = arrow
	held := slice{track: lane, name: name, from: until, to: release}
	if until > submit {
		wait.begins = arrow
		t.slice(wait, args...)
	} else {
		held.begins = arrow
	}
	if k.Device != nil {
		held.name = fmt.Sprintf("%s on GPU %d", name, *k.Device)
	}
	t.slice(held, args...)
}

func taskArgs(k results.Task) []arg {
	return columns(k.Fields(), "job_index", "task_seq", "bytes", "heap_bytes", "grown_bytes", "blocks", "threads_per_block", "device_index", "passed",
		"pinned_device_index", "blocks_per_sm", "refusal")
}

// residency is a time in which a task, or a job that has its device as a whole, held a device.
type residency struct {
	name     string
	from, to int64
	arrow    flow
	args     []arg
}

// device writes a device's process: its counters, and who held it.
func (t *run) device(process track, d results.Device) {
	var held []residency
	tasked, here := map[int]bool{}, map[int]bool{}
	ends := map[int]float64{}
	names := map[int]string{}
	for _, j := range t.jobs {
		ends[j.Index], names[j.Index] = orElse(j.EndS, t.end), j.Name
	}
	for _, k := range t.tasks {
		tasked[k.Job] = true
		if k.GrantS != nil && k.Device != nil && *k.Device == d.Index {
			here[k.Job] = true
			from := ns(*k.GrantS)
			held = append(held, residency{fmt.Sprintf("job %d task %d: %s", k.Job, k.Seq, names[k.Job]), from,
				max(from, ns(orElse(k.ReleaseS, ends[k.Job]))), t.grants[taskKey{k.Job, k.Seq}], taskArgs(k)})
		}
	}
	for _, j := range t.jobs {
		if j.StartS != nil && j.HeldWhole(d.Index, tasked[j.Index], here[j.Index]) {
			held = append(held, residency{fmt.Sprintf("job %d: %s", j.Index, j.Name), ns(*j.StartS), ns(ends[j.Index]), 0,
				[]arg{whole("job_index", int64(j.Index)), words("command", j.Command)}})
		}
	}
	slices.SortStableFunc(held, func(a, b residency) int { return cmp.Compare(a.from, b.from) })

	rank := t.counters(process, d)
	t.residents(process, rank, held)
	on := &lanes{packets: t.packets, parent: process, name: "holds", rank: rank + 1}
	for _, h := range held {
		t.slice(slice{track: on.free(h.from, h.to), name: h.name, from: h.from, to: h.to, ends: h.arrow}, h.args...)
	}
}

// residents writes how many hold a device.
func (t *run) residents(process track, rank int, held []residency) {
	if len(held) == 0 {
		return
	}
	var changes []change
	for _, h := range held {
		changes = append(changes, change{h.from, 1}, change{h.to, -1})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	on := t.counter(process, "tasks and jobs that hold it", rank, count)
	t.value(on, 0, 0)
	now := 0.0
	for i, c := range changes {
		now += c.by
		if i+1 == len(changes) || changes[i+1].at != c.at {
			t.value(on, c.at, now)
		}
	}
}

type change struct {
	at int64
	by float64
}

// counters writes the device's series, and where their values are not known. It returns the
// next rank.
func (t *run) counters(process track, d results.Device) (rank int) {
	series := map[results.Series][]results.Segment{}
	var order []results.Series
	for _, x := range t.segments {
		if x.Device != d.Index {
			continue
		}
		if series[x.Series] == nil {
			order = append(order, x.Series)
		}
		series[x.Series] = append(series[x.Series], x)
	}
	for _, name := range order {
		title, u := counterOf(name)
		on := t.counter(process, title, rank, u)
		gaps := &lanes{packets: t.packets, parent: process, name: title + ": unknown", rank: rank + 1}
		rank += 2
		own := series[name]
		for i, x := range own {
			until, next := t.end, i+1
			if next < len(own) {
				until = own[next].FirstS
			}
			from := x.FirstS
			if x.Value != nil {
				t.value(on, ns(x.FirstS), *x.Value)
				if next < len(own) && (until-x.LastS <= results.LongestHoldS || name == results.SeriesEnergy) { // a counter loses nothing
					continue
				}
				if x.LastS > x.FirstS {
					t.value(on, ns(x.LastS), *x.Value)
				}
				from = x.LastS
			}
			if a, b := ns(from), ns(until); b > a {
				t.slice(slice{track: gaps.free(a, b), name: "unknown", from: a, to: b})
			}
		}
	}
	return rank
}

// counterOf is the title of a series and the unit of its values.
func counterOf(s results.Series) (string, unit) {
	switch s {
	case results.SeriesGPU:
		return "utilization (NVML)", fraction
	case results.SeriesMemory:
		return "memory used", bytes
	case results.SeriesMemoryActivity:
		return "memory activity (NVML)", fraction
	case results.SeriesGPUDriver:
		return "utilization (driver's samples)", fraction
	case results.SeriesGPM:
		return "SM activity (GPM)", fraction
	case results.SeriesEnergy:
		return "energy since the driver was loaded", joules
	case results.SeriesPower:
		return "power", watts
	case results.SeriesSimulated:
		return "busy SMs (model)", fraction
	}
	return string(s), unit{name: string(s)}
}

// traced writes kernels and copies, each stream on tracks of its own. Kernels of a simulated
// run are those of a task together.
func (t *run) traced(ctx context.Context, s *store.Store) error {
	job := -1
	stream := func(of int, key streamKey) *lanes {
		if of != job { // rows come job by job
			job, t.streams = of, map[streamKey]*lanes{}
		}
		l := t.streams[key]
		if l == nil {
			what, rank := "kernels", 1000
			if key.copies {
				what, rank = "copies", 1001
			}
			name := fmt.Sprintf("%s, GPU %d", what, key.device)
			if key.pid != 0 {
				name = fmt.Sprintf("%s, GPU %d, pid %d, stream %d", what, key.device, key.pid, key.stream)
			}
			l = &lanes{packets: t.packets, parent: t.processes[of], name: name, rank: rank + 2*len(t.streams)}
			t.streams[key] = l
		}
		return l
	}
	if err := s.EachKernel(ctx, t.ID, func(k results.Kernel) error {
		from, to := ns(k.StartS), ns(k.EndS)
		args := [...]arg{common("grid", k.Grid), common("block", k.Block), index("task_seq", k.Task), {}, {}, {}, {}}
		if k.Grid != "" {
			args[3], args[4], args[5] = whole("registers", int64(k.Registers)), whole("static_shared_bytes", int64(k.StaticSharedBytes)),
				whole("dynamic_shared_bytes", int64(k.DynamicSharedBytes))
		} else {
			args[6] = quantity("busy_s", k.BusyS)
		}
		lane := stream(k.Job, streamKey{false, k.Device, k.PID, k.Stream}).free(from, to)
		t.slice(slice{track: lane, name: k.Name, from: from, to: to}, args[:]...)
		return t.progress()
	}); err != nil {
		return err
	}
	job = -1
	return s.EachCopy(ctx, t.ID, func(c results.Copy) error {
		from, to := ns(c.StartS), ns(c.EndS)
		lane := stream(c.Job, streamKey{true, c.Device, c.PID, c.Stream}).free(from, to)
		t.slice(slice{track: lane, name: c.Kind, from: from, to: to}, whole("bytes", c.Bytes))
		return t.progress()
	})
}

// lanes are tracks of one name on which intervals do not overlap. They come into being as they
// are needed.
type lanes struct {
	*packets
	parent track
	name   string
	rank   int
	made   []lane
}

type lane struct {
	track track
	free  int64 // from when on
}

// free is the first track that is free for an interval, in ns, which it takes.
func (l *lanes) free(from, to int64) track {
	for i := range l.made {
		if at := &l.made[i]; at.free <= from {
			at.free = max(from, to)
			return at.track
		}
	}
	name := l.name
	if n := len(l.made); n > 0 {
		name = fmt.Sprintf("%s (%d)", l.name, n+1)
	}
	made := l.slices(l.parent, name, l.rank)
	l.made = append(l.made, lane{made, max(from, to)})
	return made
}

// ns is a time in whole nanoseconds.
func ns(s float64) int64 { return int64(math.Round(s * 1e9)) }

func orElse(v *float64, other float64) float64 {
	if v == nil {
		return other
	}
	return *v
}

// columns are columns of a record as arguments. An unknown one is none.
func columns(of results.Fields, names ...string) []arg {
	out := make([]arg, len(names))
	for i, f := range of.Pick(names...) {
		value := f.Value()
		if at, is := value.(time.Time); is {
			value = at.UTC().Format(time.RFC3339Nano)
		}
		switch v := reflect.ValueOf(value); {
		case v.Kind() == reflect.String:
			out[i] = words(f.Name, v.String())
		case v.CanInt():
			out[i] = whole(f.Name, v.Int())
		case v.CanUint():
			out[i] = whole(f.Name, int64(v.Uint()))
		case v.CanFloat():
			out[i] = quantity(f.Name, v.Float())
		}
	}
	return out
}

// index is an argument whose value may be unknown. Then there is none.
func index(key string, v *int) arg {
	if v == nil {
		return arg{}
	}
	return whole(key, int64(*v))
}
