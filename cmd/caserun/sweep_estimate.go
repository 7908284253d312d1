package main

import (
	"context"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/store"
)

// estimate is how long a run may take, and what says so.
type estimate struct {
	seconds float64
	ground  string
}

// estimates are those of a sweep's arms.
type estimates map[[2]string]estimate // by mix and scheduler of a cell

func (e estimates) of(c results.Cell) estimate { return e[[2]string{c.Mix, c.Scheduler}] }

const (
	// simulatedJobS is what a core takes to simulate a job, roughly.
	simulatedJobS = 1e-3
	// unknownJobS stands for a job of which nothing is known.
	unknownJobS = 10
)

// estimates gives each arm the median makespan of its earlier runs in the store,
// which may be nil; failing that, the time that its jobs take when each device
// runs one after another, by their profiles, which is too long for schedulers
// that share devices. Virtual time takes none: a simulated run takes a moment
// for each job.
func (m *matrix) estimates(ctx context.Context, db *store.Store) (estimates, error) {
	type arm struct{ mix, scheduler, parameters string }
	earlier := map[arm][]float64{}
	if db != nil && m.mode == results.Live {
		runs, err := db.Runs(ctx, store.Filter{Node: m.config.Node, Status: results.Complete})
		if err != nil {
			return nil, infrastructureError(err)
		}
		for _, r := range runs {
			if s := r.Metrics.MakespanS; s != nil && r.Traced == m.config.Trace {
				a := arm{r.Mix, r.Scheduler, r.Parameters}
				earlier[a] = append(earlier[a], *s)
			}
		}
	}
	out := estimates{}
	for _, mix := range m.mixes {
		alone := 0.0
		for _, j := range mix.Jobs {
			seconds := float64(unknownJobS)
			if p, err := m.profiles.Lookup(j); err == nil {
				seconds = p.WallS()
			}
			alone += seconds
		}
		for i, s := range m.scheds {
			e := estimate{alone / float64(m.devices), "profiles"}
			if known := earlier[arm{mix.Name, s.Name, s.Parameters()}]; len(known) > 0 {
				e = estimate{stats.Summarize(known, 0.95).Median, "earlier runs"}
			}
			if m.mode == results.Simulated {
				e = estimate{simulatedJobS * float64(len(mix.Jobs)), "simulated"}
			}
			out[[2]string{mix.Name, m.spec.Scheds[i]}] = e
		}
	}
	return out, nil
}
