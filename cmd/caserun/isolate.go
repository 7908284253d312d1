package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// tookDown reports whether a fault took the job down that was another's, or may have been.
func tookDown(f failure) bool {
	return *f.job.Outcome == results.Collateral || *f.job.Outcome == results.FaultSuspect
}

func toIsolate(failed []failure) []failure {
	return slices.DeleteFunc(slices.Clone(failed), func(f failure) bool { return !tookDown(f) })
}

// isolate runs these jobs of a run again, each alone on a device and without MPS, as a
// run of their own. Who faults alone is the culprit, which corrects the outcomes of the
// first run in the store. It returns the tables of the second run, and all that failed
// now: of the jobs that ran again, those that failed again.
func isolate(ctx context.Context, r request, failed, apart []failure, verbose bool) ([]*report.Table, []failure, error) {
	first := apart[0].run
	batch := r.mix
	r.mix.Source = fmt.Sprintf("jobs of run %d, of %s, each alone", first, batch.Source)
	r.mix.Name += "-isolated" // it is not a repetition of the mix under sa, even with as many jobs
	r.mix.Jobs = nil
	for _, f := range apart {
		j := batch.Jobs[f.job.Index]
		j.Group = 0 // there is nobody to wait for
		r.mix.Jobs = append(r.mix.Jobs, j)
	}
	r.config.Sched, r.config.Workers, r.config.SMCap = "sa", 0, 0
	fmt.Fprintf(r.stderr, "caserun: running %d jobs that a fault took down again, each alone on a GPU\n", len(apart))
	o, err := execute(ctx, r)
	tables, again, err := summarize(o, r.store.Path(), verbose, err)
	if err != nil {
		return tables, failed, err
	}
	jobs := make([]results.Job, len(apart))
	for i, f := range apart {
		jobs[i] = f.job
	}
	events := results.Isolate(jobs, o.jobs, o.run.ID)
	w, err := r.store.Resume(ctx, first)
	if err != nil {
		return tables, failed, err
	}
	for _, j := range jobs {
		w.Job(j)
	}
	for _, e := range events {
		w.Event(e)
		fmt.Fprintf(r.stderr, "caserun: run %d: %s\n", first, e.Detail)
	}
	rest := slices.DeleteFunc(slices.Clone(failed), tookDown)
	return tables, append(rest, again...), infrastructureError(w.Flush(ctx))
}

// faultsAlone says which jobs have faulted without neighbours before, and where, as the
// store has it.
func (r request) faultsAlone(ctx context.Context) (map[int]string, error) {
	known, err := r.store.FaultsAlone(ctx, r.config.Suite)
	if err != nil {
		return nil, err
	}
	out := map[int]string{}
	for i, j := range r.mix.Jobs {
		if run, found := known[j.Command()]; found {
			out[i] = fmt.Sprintf("it faulted without neighbours in run %d", run)
		}
	}
	return out, nil
}
