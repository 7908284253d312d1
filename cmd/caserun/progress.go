package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/sweep"
)

// progress shows a live run on stderr: on a terminal one line that is redrawn, elsewhere a line
// for each job that ends. It shows nothing of a simulated run, which is over before a reader
// could follow it. It is a harness.Display.
type progress struct {
	w        io.Writer
	say      harness.Say
	animated bool
	silent   bool
	shared   bool        // jobs share an MPS server: the end settles whose fault a fault was
	mix      []mixes.Job // that run
	weights  []float64   // expected seconds of each job alone, 1 where unknown

	mu     sync.Mutex
	jobs   []results.Job // of a run that is not silent
	began  time.Time
	ticker *time.Ticker
	done   chan struct{}
	ended  sync.WaitGroup
}

func newProgress(w io.Writer, mix mixes.Mix, mode results.Mode, known profiles.Set) *progress {
	p := &progress{w: w, say: sayOn(w), animated: isTerminal(w), silent: mode == results.Simulated,
		mix: mix.Jobs, done: make(chan struct{})}
	if p.silent {
		return p
	}
	p.jobs = make([]results.Job, len(mix.Jobs))
	for _, j := range mix.Jobs {
		weight := 1.0
		if profile, err := known.Lookup(j); err == nil {
			weight = profile.WallS()
		}
		p.weights = append(p.weights, weight)
	}
	return p
}

// Start implements harness.Display.
func (p *progress) Start(shared bool) {
	p.shared = shared
	p.began = time.Now()
	if p.silent || !p.animated {
		return
	}
	p.ticker = time.NewTicker(200 * time.Millisecond)
	p.ended.Go(func() {
		for {
			select {
			case <-p.ticker.C:
				p.mu.Lock()
				redraw(p.w, p.line())
				p.mu.Unlock()
			case <-p.done:
				return
			}
		}
	})
}

// Stop implements harness.Display.
func (p *progress) Stop() {
	close(p.done)
	p.ended.Wait()
	if p.ticker != nil {
		p.ticker.Stop()
		redraw(p.w, "")
	}
}

// Job takes a job's new state.
func (p *progress) Job(j results.Job) {
	if p.silent {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.jobs[j.Index]
	p.jobs[j.Index] = j
	if p.animated || j.Outcome == nil || before.Outcome != nil {
		return
	}
	where := ""
	if j.Device != nil {
		where = fmt.Sprintf(" on GPU %d", *j.Device)
	}
	how := string(*j.Outcome)
	if *j.Outcome == results.Fault && p.shared {
		how = "a CUDA error took it down"
	}
	fmt.Fprintf(p.w, "job %d (%s)%s: %s; %s\n", j.Index, j.Name, where, how, p.line())
}

// Event says at once what makes a measurement doubtful, or may keep it from its end.
func (p *progress) Event(e results.Event) {
	switch e.Kind {
	case results.EventUnscheduled, results.EventNoProgress, results.EventUnplanned, results.EventNiceLeft:
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	who := ""
	if e.Job != nil {
		who = fmt.Sprintf("job %d (%s): ", *e.Job, p.mix[*e.Job].Name)
	}
	p.say("%s%s", who, e.Detail)
}

// line is the state of the batch: how many jobs have ended, how long the others may take, how
// many wait, and how many run on which device.
func (p *progress) line() string {
	var waiting, ended, failed int
	running := map[int]int{} // by device, -1 where it has none yet
	work, left := 0.0, 0.0
	elapsed := time.Since(p.began).Seconds()
	for i, j := range p.jobs {
		switch {
		case j.Outcome != nil:
			ended++
			if !j.EndedOK() {
				failed++
			}
			work += p.weights[i]
		case j.StartS != nil:
			device := -1
			if j.Device != nil {
				device = *j.Device
			}
			running[device]++
			done := min(elapsed-*j.StartS, 0.9*p.weights[i])
			work += done
			left += p.weights[i] - done
		default:
			waiting++
			left += p.weights[i]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d ended", ended, len(p.jobs))
	if failed > 0 {
		fmt.Fprintf(&b, " (%d failed)", failed)
	}
	if ended > 0 && left > 0 && work > 0 {
		fmt.Fprintf(&b, ", about %s left", time.Duration(left*elapsed/work*float64(time.Second)).Round(time.Second))
	}
	fmt.Fprintf(&b, ", %d not started, running:", waiting)
	for _, device := range slices.Sorted(maps.Keys(running)) {
		if device < 0 {
			fmt.Fprintf(&b, " %d without GPU", running[device])
		} else {
			fmt.Fprintf(&b, " GPU%d×%d", device, running[device])
		}
	}
	return b.String()
}

// sweepProgress shows on stderr how far a sweep is: a line for each live run. Of simulated runs,
// which take milliseconds, it shows a line now and then. It is a sweep.Display.
type sweepProgress struct {
	w        io.Writer
	say      harness.Say   // what is doubtful about a run, once where several runs have the same
	every    time.Duration // least time between lines
	animated bool          // lines replace each other
	last     time.Time
}

const simulatedEvery = 2 * time.Second

func newSweepProgress(w io.Writer, mode results.Mode, now time.Time) *sweepProgress {
	p := &sweepProgress{w: w, say: sayOn(w).Once(), last: now}
	if mode == results.Simulated {
		p.every, p.animated = simulatedEvery, isTerminal(w)
	}
	if p.animated {
		p.every /= 10
	}
	return p
}

// Ended implements sweep.Display.
func (p *sweepProgress) Ended(c results.Cell, run results.Run, at *sweep.Progress, now time.Time) {
	if now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	line := sweepLine(c, run, at.Done, at.Total, at.Left)
	if p.animated {
		redraw(p.w, line)
		return
	}
	fmt.Fprintln(p.w, line)
}

// sweepLine says which run has ended and how far the sweep is. What a narrow terminal must not
// cut off comes first.
func sweepLine(c results.Cell, run results.Run, done, total int, left func() time.Duration) string {
	line := fmt.Sprintf("[%d/%d] ", done, total)
	if run.Mode == results.Simulated {
		line += "SIMULATED; "
	}
	if done < total {
		line += fmt.Sprintf("about %s left; ", left().Round(time.Second))
	}
	what := fmt.Sprintf("repetition %d", c.Repetition)
	if c.Warmup {
		what = fmt.Sprintf("warm-up %d", c.Repetition)
	}
	line += fmt.Sprintf("run %d: %s under %s, %s: %d of %d jobs ok", run.ID, c.Mix, c.Way(), what,
		run.Metrics.OK, run.Jobs)
	if run.Metrics.MakespanS != nil {
		line += fmt.Sprintf(", makespan %.1f s", *run.Metrics.MakespanS)
	}
	return line
}

// Run implements sweep.Display. Off a terminal the line of the sweep's run is enough.
func (p *sweepProgress) Run(m mixes.Mix, mode results.Mode, known profiles.Set) harness.Display {
	run := newProgress(p.w, m, mode, known)
	run.silent = run.silent || !run.animated
	run.say = func(format string, args ...any) { p.say("%s: %s", m.Name, fmt.Sprintf(format, args...)) }
	return run
}

// Stop implements sweep.Display.
func (p *sweepProgress) Stop() {
	if p.animated {
		redraw(p.w, "")
	}
}

// recordProgress shows on stderr how much of an export is done, once that takes more than a
// second.
type recordProgress struct {
	w        io.Writer
	what     string
	animated bool
	next     time.Time // of the next line
	shown    bool
}

func newRecordProgress(w io.Writer, what string, now time.Time) *recordProgress {
	return &recordProgress{w: w, what: what, animated: isTerminal(w), next: now.Add(time.Second)}
}

// done shows how many of all records are done. all is 0 where it is unknown.
func (p *recordProgress) done(n, all int64, now time.Time) {
	if now.Before(p.next) {
		return
	}
	line := fmt.Sprintf("%s: %d", p.what, n)
	if all > 0 {
		line += fmt.Sprintf(" of %d (%d %%)", all, 100*n/max(n, all))
	}
	p.shown = true
	if p.animated {
		p.next = now.Add(200 * time.Millisecond)
		redraw(p.w, line)
		return
	}
	p.next = now.Add(10 * time.Second)
	fmt.Fprintln(p.w, line)
}

// stop clears a terminal's line.
func (p *recordProgress) stop() {
	if p.animated && p.shown {
		redraw(p.w, "")
	}
}
