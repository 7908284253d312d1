package sweep

import (
	"context"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
)

// List has the sweeps of a store, and how many runs of each are done.
func List(ctx context.Context, db *store.Store) (list []report.SweepProgress, err error) {
	sweeps, err := db.Sweeps(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range sweeps {
		left, done, err := Remaining(ctx, db, w.ID, Part{})
		if err != nil {
			return nil, err
		}
		list = append(list, report.SweepProgress{Sweep: w, Runs: len(left) + done, Done: done})
	}
	return list, nil
}

// CheckMeasured refuses a sweep in which no job ended ok.
func CheckMeasured(ctx context.Context, db *store.Store, id int64) error {
	runs, err := db.Runs(ctx, store.Filter{Sweep: id, Status: results.Complete})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(runs, func(r results.Run) bool { return r.Metrics.OK > 0 }) {
		return selection.Nothing("nothing was measured: no job of the sweep's %s ended ok", size.Count(len(runs), "run"))
	}
	return nil
}

// Standing is how far a part of a sweep is, by the runs of one store. Each run of its plan is done,
// under way, failed or missing.
type Standing struct {
	Part     Part // zero: the whole plan
	Blocks   int
	Runs     int // of the plan, warm-ups included
	Done     int
	UnderWay int
	Failed   int     // the last try did not end complete, and no process is at it
	Missing  int     // never begun, or a user has excluded it
	LeftS    float64 // what is not done may take, by the estimates of the plan
}

// excluded stands for the status of a run that a user has excluded.
const excluded results.Status = "excluded"

// Standings are how far a sweep is: as a whole, and before that each part, if parts is the number of
// parts that the plan is cut into.
func Standings(ctx context.Context, db *store.Store, w results.Sweep, parts int) ([]Standing, error) {
	spec, err := results.ReadSpec(w)
	if err != nil {
		return nil, err
	}
	cells, err := db.Cells(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	runs, err := db.Runs(ctx, store.Filter{Sweep: w.ID, Warmups: true, Excluded: true})
	if err != nil {
		return nil, err
	}
	status := map[int64]results.Status{}
	for _, r := range runs {
		status[r.ID] = store.RunStanding(r)
		if r.Excluded {
			status[r.ID] = excluded
		}
	}
	var out []Standing
	for k := range parts {
		p := Part{K: k + 1, N: parts}
		if err := p.Fit(cells); err != nil {
			return nil, err
		}
		out = append(out, standing(p, spec, p.Of(spec, cells), status))
	}
	return append(out, standing(Part{}, spec, cells, status)), nil
}

func standing(p Part, spec results.Spec, cells []results.Cell, status map[int64]results.Status) Standing {
	s := Standing{Part: p, Blocks: Blocks(cells), Runs: len(cells)}
	expected := spec.Expected()
	for _, c := range cells {
		if c.Run != nil && status[*c.Run] == results.Complete {
			s.Done++
			continue
		}
		s.LeftS += expected(c)
		switch {
		case c.Run == nil || status[*c.Run] == excluded:
			s.Missing++
		case status[*c.Run] == results.Running:
			s.UnderWay++
		default:
			s.Failed++
		}
	}
	return s
}
