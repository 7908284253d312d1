package pages

import (
	"os"
	"path/filepath"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	sweeps "github.com/caserun/caserun/runner/sweep"
)

// What caserun sweep does on a simulated node unless it is told otherwise.
const (
	sweepReps  = sweeps.DefaultReps
	sweepNoise = sweeps.DefaultNoise
	sweepSeed  = 1
)

// swept makes the runs that caserun sweep --node sim:4xV100 makes, and hands them on with the store that has them.
func swept(mixNames, schedulers []string, use func(db *store.Store, runs []results.Run)) {
	dir := must(os.MkdirTemp("", "pages"))
	defer func() { _ = os.RemoveAll(dir) }()
	db := must(harness.OpenStore(filepath.Join(dir, "caserun.db")))
	defer func() { _ = db.Close() }()
	say := func(string, ...any) {}
	plan := must(sweeps.New(ctx, harness.Options{Node: "sim:4xV100", Noise: sweepNoise, Seed: sweepSeed, Context: harness.DefaultContext},
		sweeps.Options{Mixes: mixNames, Scheds: schedulers, Reps: sweepReps, Warmups: -1}, say))
	call := sweeps.Call{Plan: plan, ID: must(plan.Store(ctx, db, false, say)), Store: db, Jobs: 2, Now: time.Now, Say: say, Display: unseen{}}
	if err := call.Run(ctx, ""); err != nil {
		fail("%w", err)
	}
	use(db, must(db.Runs(ctx, store.Filter{})))
}

// unseen is a sweep's display, and each run's, that shows nothing.
type unseen struct{}

func (unseen) Ended(results.Cell, results.Run, *sweeps.Progress, time.Time) {}
func (unseen) Run(mixes.Mix, results.Mode, profiles.Set) harness.Display    { return unseen{} }
func (unseen) Start(bool)                                                   {}
func (unseen) Job(results.Job)                                              {}
func (unseen) Event(results.Event)                                          {}
func (unseen) Stop()                                                        {}
