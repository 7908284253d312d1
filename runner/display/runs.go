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
// for each job that ends. Most simulated runs are over before a reader could follow them: of one that takes long it
// shows now and then how many jobs have ended. It is a harness.Display.
type Run struct {
	w        io.Writer
	say      harness.Say
	animated bool
	silent   bool
	open     bool        // jobs arrive at times of their own: how long others take says nothing of when the run ends
	long     *Line       // of a simulated run; nil: it is live
	named    string      // the mix
	shared   bool        // jobs share an MPS server: the end settles whose fault a fault was
	mix      []mixes.Job // that run
	weights  []float64   // expected seconds of each job alone, 1 where unknown

	mu     sync.Mutex
	over   map[int]bool  // jobs of a simulated run that have ended
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
		open: mix.OpenLoad() != "", mix: mix.Jobs, hogs: map[int]bool{}, done: make(chan struct{})}
	if p.silent {
		p.long, p.named, p.over = new(NewLine(w)), mix.Name, map[int]bool{}
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
	every, show := redrawn, func(time.Time) { redraw(r.w, r.line()) }
	switch {
	case r.long != nil:
		if show = func(now time.Time) { r.long.Show(r.simulated(now)) }; !r.long.Animated {
			every = longEvery
		}
	case r.silent || !r.animated:
		return
	}
	r.ticker = time.NewTicker(every)
	r.ended.Go(func() {
		for {
			select {
			case now := <-r.ticker.C:
				r.mu.Lock()
				if r.long == nil || now.Sub(r.began) > time.Second {
					show(now)
				}
				r.mu.Unlock()
			case <-r.done:
				return
			}
		}
	})
}

// How often a line is redrawn on a terminal, and how often elsewhere a simulated run that takes long gets one.
const redrawn, longEvery = 200 * time.Millisecond, 10 * time.Second

// simulated says how far a simulated run is. Under a scheduler that plans, most of the time goes into the search for plans.
func (r *Run) simulated(now time.Time) string {
	return fmt.Sprintf("SIMULATED; %s: %d of %d jobs ended after %s", r.named, len(r.over), len(r.mix)+len(r.given), now.Sub(r.began).Round(time.Second))
}

func (r *Run) Stop() {
	close(r.done)
	r.ended.Wait()
	if r.ticker != nil {
		r.ticker.Stop()
	}
	switch {
	case r.long != nil:
		r.long.Clear()
	case r.ticker != nil:
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
	if r.long != nil && j.Outcome != nil {
		r.over[j.Index] = true
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
	case results.EventUnscheduled, results.EventNoProgress, results.EventStarved, results.EventUnplanned, results.EventNiceLeft, results.EventUnaccounted,
		results.EventDeviceClosed, results.EventDeviceEmpty, results.EventDeviceOpened:
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
	var waiting, ended, failed, arrived int
	running := map[int]int{} // by device, -1 where it has none yet
	work, left := 0.0, 0.0
	elapsed := time.Since(r.began).Seconds()
	for i, j := range r.jobs {
		if j.ArrivalS != nil {
			arrived++
		}
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
		case !r.open || j.ArrivalS != nil:
			waiting++
			left += r.weights[i]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d ended", ended, len(r.jobs))
	if failed > 0 {
		fmt.Fprintf(&b, " (%d failed)", failed)
	}
	if r.open {
		fmt.Fprintf(&b, ", %d of %d arrived", arrived, len(r.jobs))
	} else if ended > 0 && left > 0 && work > 0 {
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
