package main

import (
	"context"
	"sync"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/store"
)

// estimate is how long a run may take, and what says so.
type estimate struct {
	seconds float64
	ground  string
}

func (e estimate) duration() time.Duration { return time.Duration(e.seconds * float64(time.Second)) }

// estimates are those of a sweep's arms, as armOf names them.
type estimates map[[2]string]estimate

// armOf is the mix and the scheduler of a cell.
func armOf(c results.Cell) [2]string { return [2]string{c.Mix, c.Scheduler} }

const (
	// simulatedJobS is what a core takes to simulate a job, roughly.
	simulatedJobS = 1e-3
	// unknownJobS stands for a job of which nothing is known.
	unknownJobS = 10

	byProfiles = "profiles"
)

// estimates gives each arm the median makespan of its earlier runs in the store,
// which may be nil; failing that, the time that its jobs take when each device
// runs one after another, by their profiles. That is too long for schedulers that
// share devices: where the scheduler has run other mixes, it is as much shorter as
// for the one of those that took the most of it. Virtual time takes none: a simulated run
// takes a moment for each job.
func (m *matrix) estimates(ctx context.Context, db *store.Store) (estimates, error) {
	earlier := map[results.Arm][]float64{}
	if db != nil && m.mode == results.Live {
		runs, err := db.Runs(ctx, store.Filter{Node: m.config.Node, Status: results.Complete})
		if err != nil {
			return nil, infrastructureError(err)
		}
		for _, r := range runs {
			if s := r.Metrics.MakespanS; s != nil {
				earlier[results.ArmOf(r)] = append(earlier[results.ArmOf(r)], *s)
			}
		}
	}
	out := estimates{}
	share := make([]float64, len(m.scheds)) // of the profiles' time, by scheduler
	for _, mix := range m.mixes {
		alone := 0.0
		for _, j := range mix.Jobs {
			seconds := float64(unknownJobS)
			if p, err := m.profiles.Lookup(j); err == nil {
				seconds = p.WallS()
			}
			alone += seconds
		}
		alone /= float64(m.devices)
		for i, s := range m.scheds {
			e := estimate{alone, byProfiles}
			arm := results.Arm{Mix: mix.Name, Scheduler: s.Name, Parameters: s.Parameters(), Node: m.config.Node, Mode: m.mode,
				Jobs: len(mix.Jobs), Traced: m.config.Trace}
			if known := earlier[arm]; len(known) > 0 {
				e = estimate{stats.Summarize(known, 0.95).Median, "earlier runs"}
				share[i] = max(share[i], e.seconds/alone)
			}
			if m.mode == results.Simulated {
				e = estimate{simulatedJobS * float64(len(mix.Jobs)), "simulated"}
			}
			out[[2]string{mix.Name, m.spec.Scheds[i]}] = e
		}
	}
	for _, mix := range m.mixes {
		for i, s := range m.spec.Scheds {
			if e := out[[2]string{mix.Name, s}]; e.ground == byProfiles && share[i] > 0 {
				out[[2]string{mix.Name, s}] = estimate{e.seconds * share[i], "profiles and its other mixes"}
			}
		}
	}
	return out, nil
}

// forecast tells how long runs take from begin to end, for the time left and for
// --time-limit. Where this call has done runs of an arm it is their median time.
// Before that it is the arm's estimate and, on a live node, the median of what
// this call's runs took beside their makespans: to prepare and clear the node.
type forecast struct {
	mode results.Mode

	mu     sync.Mutex
	times  estimates
	took   map[[2]string][]float64 // seconds, by arm
	beside []float64               // seconds
}

func newForecast(mode results.Mode, times estimates) *forecast {
	return &forecast{mode: mode, times: times, took: map[[2]string][]float64{}}
}

// use replaces the estimates: what has run since may tell more of other arms.
func (f *forecast) use(times estimates) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times = times
}

// learn takes a run of this call that is complete.
func (f *forecast) learn(c results.Cell, run results.Run, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	arm := armOf(c)
	f.took[arm] = append(f.took[arm], took.Seconds())
	if s := run.Metrics.MakespanS; s != nil && f.mode == results.Live {
		f.beside = append(f.beside, took.Seconds()-*s)
	}
}

// of is the time that a run of an arm will take.
func (f *forecast) of(arm [2]string) estimate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if took := f.took[arm]; len(took) > 0 {
		return estimate{stats.Summarize(took, 0.95).Median, "runs of this call"}
	}
	e := f.times[arm]
	if len(f.beside) > 0 {
		e.seconds += stats.Summarize(f.beside, 0.95).Median
	}
	return e
}
