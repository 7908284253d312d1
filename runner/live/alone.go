package live

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// alone runs jobs one after another on one device, without MPS.
type alone struct {
	Profiling
	device  schedulers.Device
	sm      profiles.SM
	uuid    string
	id      [16]byte
	idle    int64 // bytes in use on the device before the first job
	dir     string
	preload string
	tracer  string // "": no job is traced
	epoch   time.Time
	// watch returns what was seen of the device while run ran.
	watch func(run func()) ([]results.Segment, error)
}

// notebook keeps records in memory: the tasks of one job and the sum of its kernels and
// copies, or what the sampler saw.
type notebook struct {
	runner.Forgetful
	warn harness.Say

	mu       sync.Mutex
	tasks    []results.Task // by Seq
	segments []results.Segment
	trace    *profiles.Trace
}

// Event passes on what the tracer has to say; the job's outcome says the rest.
func (n *notebook) Event(e results.Event) {
	if e.Kind == results.EventTrace {
		n.warn("%s", e.Detail)
	}
}

func (n *notebook) Kernel(k results.Kernel) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trace.Kernel(k)
}

func (n *notebook) Copy(c results.Copy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trace.Copy(c)
}

func (n *notebook) Task(t results.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.Seq == len(n.tasks) {
		n.tasks = append(n.tasks, t)
	}
	n.tasks[t.Seq] = t
}

func (n *notebook) Segment(s results.Segment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.segments = append(n.segments, s)
}

// jobError says why a job has no profile, where the job itself is the reason.
type jobError struct{ why string }

func (e *jobError) Error() string { return e.why }

// run is one job from start to end. Its tasks are granted at once. Its binding and its
// footprint do not count, because what the mix declares must not change what is measured. Its
// output goes to the folder out; tracer is as in alone. A job that does not end ok is a
// *jobError.
func (a *alone) run(ctx context.Context, j mixes.Job, program, dir, out, tracer string) (profiles.Measurement, error) {
	j = j.Single()
	m := profiles.Measurement{Job: j}
	j.Binding, j.Footprint, j.Pin = mixes.BindProbe, mixes.Footprint{}, false
	grant, err := policies.Parse("zero", 1)
	if err != nil {
		return m, err
	}
	jobs := []mixes.Job{j}
	notes := &notebook{warn: a.Say, trace: profiles.NewTrace(a.sm)}
	x, err := NewExecutor(Config{Jobs: jobs, Programs: []string{program}, Dirs: []string{dir},
		UUIDs: []string{a.uuid}, IDs: [][16]byte{a.id}, Preload: a.preload, Tracer: tracer, Traces: notes, OutputLimit: harness.DefaultOutput.Bytes, Checks: suites.Checks(a.Options.Suite, jobs),
		Dir: filepath.Join(a.dir, out), Grace: stopGrace, Warn: a.Say, Start: a.epoch})
	if err != nil {
		return m, err
	}
	ended, err := runner.Run(ctx, runner.Config{Jobs: jobs, Devices: []schedulers.Device{a.device}, Scheduler: grant,
		Timeout: time.Duration(a.Options.Timeout)}, x, notes)
	if err != nil {
		return m, err
	}
	m.Record, m.Tasks = ended[0], notes.tasks
	if !notes.trace.Empty() {
		traced := x.Traced()
		notes.trace.Incomplete = some(traced.Lost) || some(traced.Cut)
		m.Trace = notes.trace
	}
	if *m.Record.Outcome != results.OK {
		why := fmt.Sprintf("%s: it ended as %s: %s", j.Command(), *m.Record.Outcome, m.Record.Detail)
		if m.Record.StderrTail != "" {
			why += "; the end of its standard error: " + m.Record.StderrTail
		}
		return m, &jobError{why}
	}
	return m, nil
}

func some(count *int64) bool { return count != nil && *count > 0 }

// contextLeast is less than a context takes, in bytes. A process that used less device memory
// had no context.
const contextLeast = 64 << 20

// settle gives a measurement the memory that the device showed meanwhile, without the context
// that the scheduler reserves for each process.
func (a *alone) settle(m *profiles.Measurement, seen []results.Segment) {
	var peak float64
	for _, s := range seen {
		if s.Series == results.SeriesMemory && s.Value != nil && s.FirstS >= *m.Record.StartS && s.FirstS <= *m.Record.EndS {
			peak = max(peak, *s.Value)
		}
	}
	if used := int64(peak) - a.idle; used >= contextLeast {
		m.PeakBytes = max(used-a.device.ContextBytes, 1)
	}
}

// profile measures a job. Tracing makes the host's part of a job longer: by a third for a job
// of many small kernels. So times and memory come from an untraced run, and kernels and copies
// from a second run that is traced, unless once is set.
func (a *alone) profile(ctx context.Context, number int, j mixes.Job, program, dir string) (profiles.Profile, error) {
	var m profiles.Measurement
	var failed error
	out := fmt.Sprintf("profile-%04d", number)
	first := ""
	if a.Once {
		first = a.tracer
	}
	seen, err := a.watch(func() { m, failed = a.run(ctx, j, program, dir, out, first) })
	if err := errors.Join(failed, err); err != nil {
		return profiles.Profile{}, err
	}
	a.settle(&m, seen)
	m.TracedFromS = *m.Record.StartS
	if a.tracer != "" && !a.Once {
		traced, err := a.run(ctx, j, program, dir, out+"-traced", a.tracer)
		if err != nil {
			return profiles.Profile{}, fmt.Errorf("traced: %w", err)
		}
		m.Trace, m.TracedFromS = traced.Trace, *traced.Record.StartS
	}
	p, err := profiles.New(m)
	if err != nil {
		return profiles.Profile{}, &jobError{fmt.Sprintf("%s: %v", j.Command(), err)}
	}
	if len(m.Tasks) == 0 {
		a.Say("%s: its CUDA calls do not pass through libcase.so: its memory is what NVML showed of the device", j.Command())
	}
	return p, nil
}
