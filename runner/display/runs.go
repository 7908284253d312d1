package display

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
)

// Run shows a live run on stderr: on a terminal one line that is redrawn, elsewhere a line
// for each job that ends. It shows nothing of a simulated run, which is over before a reader
// could follow it. It is a harness.Display.
type Run struct {
	w        io.Writer
	say      harness.Say
	animated bool
	silent   bool
	shared   bool        // jobs share an MPS server: the end settles whose fault a fault was
	mix      []mixes.Job // that run
	weights  []float64   // expected seconds of each job alone, 1 where unknown

	mu     sync.Mutex
	hogs   map[int]bool  // jobs that were said to use memory that no call showed
	given  []string      // names of jobs that came while the run ran
	jobs   []results.Job // of a run that is not silent
	began  time.Time
	ticker *time.Ticker
	done   chan struct{}
	ended  sync.WaitGroup
}

// NewRun shows a run of a mix, whose jobs have these profiles.
func NewRun(w io.Writer, mix mixes.Mix, mode results.Mode, known profiles.Set) *Run {
	p := &Run{w: w, say: Say(w), animated: IsTerminal(w), silent: mode == results.Simulated,
		mix: mix.Jobs, hogs: map[int]bool{}, done: make(chan struct{})}
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

var _ harness.Display = (*Run)(nil)

func (r *Run) Start(shared bool) {
	r.shared = shared
	r.began = time.Now()
	if r.silent || !r.animated {
		return
	}
	r.ticker = time.NewTicker(200 * time.Millisecond)
	r.ended.Go(func() {
		for {
			select {
			case <-r.ticker.C:
				r.mu.Lock()
				redraw(r.w, r.line())
				r.mu.Unlock()
			case <-r.done:
				return
			}
		}
	})
}

func (r *Run) Stop() {
	close(r.done)
	r.ended.Wait()
	if r.ticker != nil {
		r.ticker.Stop()
		redraw(r.w, "")
	}
}

// Job takes a job's new state.
func (r *Run) Job(j results.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.Index == len(r.mix)+len(r.given) {
		r.given = append(r.given, j.Name)
		if !r.silent {
			r.jobs, r.weights = append(r.jobs, j), append(r.weights, 1)
		}
	}
	if r.silent {
		return
	}
	before := r.jobs[j.Index]
	r.jobs[j.Index] = j
	if r.animated || j.Outcome == nil || before.Outcome != nil {
		return
	}
	where := ""
	if j.Devices != nil {
		where = " on GPUs " + *j.Devices
	} else if j.Device != nil {
		where = fmt.Sprintf(" on GPU %d", *j.Device)
	}
	how := string(*j.Outcome)
	if *j.Outcome == results.Fault && r.shared {
		how = "a CUDA error took it down"
	}
	fmt.Fprintf(r.w, "job %d (%s)%s: %s; %s\n", j.Index, j.Name, where, how, r.line())
}

// Event says at once what makes a measurement doubtful, or may keep it from its end.
func (r *Run) Event(e results.Event) {
	switch e.Kind {
	case results.EventUnscheduled, results.EventNoProgress, results.EventUnplanned, results.EventNiceLeft, results.EventUnaccounted:
	default:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == results.EventUnaccounted {
		if r.hogs[*e.Job] { // what it used is in the summary
			return
		}
		r.hogs[*e.Job] = true
	}
	who := ""
	if e.Job != nil {
		who = fmt.Sprintf("job %d (%s): ", *e.Job, r.name(*e.Job))
	}
	r.say("%s%s", who, e.Detail)
}

// name is a job's. Its first record has come if it was given.
func (r *Run) name(job int) string {
	if job < len(r.mix) {
		return r.mix[job].Name
	}
	return r.given[job-len(r.mix)]
}

// line is the state of the batch: how many jobs have ended, how long the others may take, how
// many wait, and how many run on which device.
func (r *Run) line() string {
	var waiting, ended, failed int
	running := map[int]int{} // by device, -1 where it has none yet
	work, left := 0.0, 0.0
	elapsed := time.Since(r.began).Seconds()
	for i, j := range r.jobs {
		switch {
		case j.Outcome != nil:
			ended++
			if !j.EndedOK() {
				failed++
			}
			work += r.weights[i]
		case j.StartS != nil:
			on := j.On()
			for _, device := range on {
				running[device]++
			}
			if len(on) == 0 {
				running[-1]++
			}
			done := min(elapsed-*j.StartS, 0.9*r.weights[i])
			work += done
			left += r.weights[i] - done
		default:
			waiting++
			left += r.weights[i]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d ended", ended, len(r.jobs))
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
