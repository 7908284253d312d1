package sweep

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers/policies"
)

// Estimate is how long a run may take, and what says so.
type Estimate struct {
	Seconds float64
	Ground  string
}

func (e Estimate) duration() time.Duration { return time.Duration(e.Seconds * float64(time.Second)) }

// arm is a mix under a scheduler, with a probe.
type arm struct {
	mix, scheduler string
	probe          results.Probe
}

func armOf(c results.Cell) arm { return arm{c.Mix, c.Scheduler, c.Probe} }

// Estimates are how long runs of a sweep's arms may take.
type Estimates map[arm]Estimate

// Of is the estimate of a cell's run.
func (e Estimates) Of(c results.Cell) Estimate { return e[armOf(c)] }

const (
	// simulatedJobS is what a core takes to simulate a job, roughly.
	simulatedJobS = 1e-3
	// unknownJobS stands for a job of which nothing is known.
	unknownJobS = 10

	byProfiles = "profiles"
	bySearches = "simulated, with its plans"
)

// A scheduler that plans searches again as each job goes on, and tries so many changes of an order of the jobs that are
// open. What these take was measured on one core of an AMD EPYC, with 16 to 128 jobs on 1 to 8 simulated devices: the
// number of devices mattered little.
const (
	triedS     = 1.2e-7 // to try a change, for each job of the batch, times the open jobs to the power of triedPower
	triedPower = 1.3
	candidates = 70 // the candidates with which a search begins take as long as so many changes
)

// simulatedRun is about how long a simulated run takes.
func simulatedRun(s policies.Scheduler, jobs int) Estimate {
	n := float64(jobs)
	if s.Plans == nil {
		return Estimate{simulatedJobS * n, "simulated"}
	}
	open := min(n, 2*float64(s.Plans.Window))
	return Estimate{simulatedJobS*n + triedS*float64(s.Plans.Moves+candidates)*n*math.Pow(open, triedPower), bySearches}
}

// Estimates gives each arm the median makespan of its earlier runs in the store, which may be
// nil. An arm without earlier runs gets the time that its jobs take, by their profiles, when
// each device runs one after another. That is too long for schedulers that share devices. So if
// the scheduler has run other mixes, the estimate is shortened as for the mix among them that
// took the largest part of its profiles' time. A simulated run takes a moment for each job, and
// longer under a scheduler that plans.
func (p *Plan) Estimates(ctx context.Context, db *store.Store) (Estimates, error) {
	earlier := map[results.Arm][]float64{}
	if db != nil && p.Mode == results.Live {
		runs, err := db.Runs(ctx, store.Filter{Node: p.Options.Node, Status: results.Complete, Unchecked: true})
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			if s := r.Metrics.MakespanS; s != nil {
				earlier[results.ArmOf(r)] = append(earlier[results.ArmOf(r)], *s)
			}
		}
	}
	out := Estimates{}
	share := make([]float64, len(p.scheds)) // of the profiles' time, by scheduler
	for _, mix := range p.mixes {
		alone := 0.0
		for _, j := range mix.Jobs {
			seconds := float64(unknownJobS)
			if profile, err := p.profiles.Lookup(j); err == nil {
				seconds = profile.WallS()
			}
			alone += seconds
		}
		alone /= float64(p.allDevices)
		if arriving, err := mix.Arriving(p.Options.Seed); err == nil { // a run lasts until its last job has arrived
			alone = max(alone, arriving.Jobs[len(arriving.Jobs)-1].At.Seconds())
		}
		for i, s := range p.scheds {
			for _, probe := range p.Spec.Probes {
				e := Estimate{alone, byProfiles}
				same := results.Arm{Mix: mix.Name, Scheduler: s.Name, Parameters: s.Parameters(), Node: p.Options.Node, Mode: p.Mode,
					Jobs: len(mix.Jobs), Traced: p.Options.Trace, Open: mix.OpenLoad() != "", Probe: probe}
				if known := earlier[same]; len(known) > 0 {
					e = Estimate{stats.Summarize(known, 0.95).Median, "earlier runs"}
					share[i] = max(share[i], e.Seconds/alone)
				}
				if p.Mode == results.Simulated {
					e = simulatedRun(s, len(mix.Jobs))
				}
				out[arm{mix.Name, p.Spec.Scheds[i], probe}] = e
			}
		}
	}
	for a, e := range out {
		if by := share[slices.Index(p.Spec.Scheds, a.scheduler)]; e.Ground == byProfiles && by > 0 {
			out[a] = Estimate{e.Seconds * by, "profiles and its other runs"}
		}
	}
	return out, nil
}

// Foresee puts the estimates of a new sweep into its plan, by which it is cut into parts.
func (p *Plan) Foresee(times Estimates) {
	p.Spec.Estimates = nil
	for _, mix := range p.Spec.Mixes { // in the order of Spec.Sort
		for _, probe := range p.Spec.Probes {
			for _, sched := range p.Spec.Scheds {
				p.Spec.Estimates = append(p.Spec.Estimates, times[arm{mix.Name, sched, probe}].Seconds)
			}
		}
	}
}

// forecast tells how long runs take from begin to end, for the time left and for the time
// limit. An arm that this call has run takes the median of those runs. Before that it takes its
// estimate and, on a live node, the median of what this call's runs took beside their
// makespans, to prepare and clear the node. On a simulated node the estimate is corrected by what this call's
// runs under the same scheduler took of theirs, or all runs if there are none.
type forecast struct {
	mode results.Mode

	mu        sync.Mutex
	times     Estimates
	took      map[arm][]float64    // seconds
	beside    []float64            // seconds
	simulated map[string]simulated // by scheduler; "": all
}

// simulated is seconds that runs took, and that they were expected to take.
type simulated struct{ took, expected float64 }

func newForecast(mode results.Mode, times Estimates) *forecast {
	return &forecast{mode: mode, times: times, took: map[arm][]float64{}, simulated: map[string]simulated{}}
}

// use replaces the estimates, because runs since may tell more of other arms.
func (f *forecast) use(times Estimates) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times = times
}

// learn takes a run of this call that is complete.
func (f *forecast) learn(c results.Cell, run results.Run, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := armOf(c)
	f.took[a] = append(f.took[a], took.Seconds())
	if f.mode == results.Simulated {
		for _, scheduler := range []string{a.scheduler, ""} {
			s := f.simulated[scheduler]
			f.simulated[scheduler] = simulated{s.took + took.Seconds(), s.expected + f.times[a].Seconds}
		}
	}
	if s := run.Metrics.MakespanS; s != nil && f.mode == results.Live {
		f.beside = append(f.beside, took.Seconds()-*s)
	}
}

// of is the time that a run of an arm will take.
func (f *forecast) of(a arm) Estimate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if took := f.took[a]; len(took) > 0 {
		return Estimate{stats.Summarize(took, 0.95).Median, "runs of this call"}
	}
	e := f.times[a]
	if len(f.beside) > 0 {
		e.Seconds += stats.Summarize(f.beside, 0.95).Median
	}
	for _, scheduler := range []string{a.scheduler, ""} {
		if s := f.simulated[scheduler]; s.expected > 0 {
			return Estimate{e.Seconds * s.took / s.expected, e.Ground}
		}
	}
	return e
}

// TimeLimit is how long a call may take.
type TimeLimit struct {
	Began time.Time     // when the call did
	Total time.Duration // 0: no limit
}

// Until ends the limit at a time.
func (l *TimeLimit) Until(end time.Time) { l.Total = max(end.Sub(l.Began), 1) }

// left is what remains of the limit; negative where it has passed.
func (l TimeLimit) left(now time.Time) time.Duration { return l.Total - now.Sub(l.Began) }

// fits reports whether a run that begins now would end within the limit.
func (l TimeLimit) fits(now time.Time, run Estimate) bool {
	return l.Total == 0 || run.duration() <= l.left(now)
}

// LimitError ends a sweep's call: the next run of the plan does not fit into the time limit.
// Later runs that would fit are not preferred, because the plan's order is what makes it fair.
type LimitError struct {
	next  results.Cell
	takes Estimate
	left  time.Duration
	limit time.Duration
	first bool // no run was begun
}

func (e LimitError) Error() string {
	human := func(d time.Duration) string { return report.Human(d.Seconds(), report.Seconds) }
	text := fmt.Sprintf("%s under %s would take about %s (estimate: %s), and %s of --time-limit %v is left",
		e.next.Mix, e.next.SchedulerText(), human(e.takes.duration()), e.takes.Ground, human(max(e.left, 0)), e.limit)
	if e.first {
		text = "no run began, because " + text + "; give more time, or leave --time-limit out"
	}
	return text
}
