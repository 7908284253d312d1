package harness

import (
	"context"
	"fmt"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/cluster"
)

// Failed are a run's jobs that did not end ok.
func (o Outcome) Failed() []results.Job {
	return slices.DeleteFunc(slices.Clone(o.Jobs), results.Job.EndedOK)
}

// tookDown reports whether a fault took a job down that was, or may have been, another job's.
func tookDown(j results.Job) bool {
	return *j.Outcome == results.Collateral || *j.Outcome == results.FaultSuspect
}

// apart are the jobs of a run that run again: those that a fault took down, and those that may have caused it, or are
// named as its cause. Of these, one that ended in another way, as by a signal, does not, because the run knows how it ended.
func (o Outcome) apart() (jobs []results.Job) {
	blamed := map[int]bool{}
	for _, j := range o.Jobs {
		for _, of := range j.Suspects {
			blamed[of] = true
		}
	}
	for _, j := range o.Jobs {
		if tookDown(j) || blamed[j.Index] && (j.EndedOK() || *j.Outcome == results.Fault) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Failure is a job that did not end ok, and the run that has it.
type Failure struct {
	Run int64
	Job results.Job
}

// RunIsolating makes a run and, if the request wants that, another of the jobs that a fault took down or that are suspected,
// each alone. It returns the runs that were made and, if there is no error, the jobs that failed in the end. run makes one run.
func RunIsolating(ctx context.Context, r Request, run func(context.Context, Request) (Outcome, error)) (made []Outcome, failed []Failure, err error) {
	keep := func(o Outcome) {
		if o.Run.ID != 0 {
			made = append(made, o)
		}
	}
	fail := func(o Outcome) {
		for _, j := range o.Failed() {
			failed = append(failed, Failure{o.Run.ID, j})
		}
	}
	first, err := run(ctx, r)
	keep(first)
	if err != nil {
		return made, nil, err
	}
	fail(first)
	apart := first.apart()
	switch {
	case len(apart) == 0:
		return made, failed, nil
	case !r.Isolate:
		r.Say("a fault under MPS took %s down: with --isolate-faults each of them runs again after the batch, alone on a GPU, which shows the culprit",
			size.Count(len(slices.DeleteFunc(apart, func(j results.Job) bool { return !tookDown(j) })), "job"))
		return made, failed, nil
	}
	again, err := isolate(ctx, r, first, apart, run)
	keep(again)
	failed = slices.DeleteFunc(failed, func(f Failure) bool {
		return slices.ContainsFunc(apart, func(j results.Job) bool { return j.Index == f.Job.Index })
	})
	if err == nil {
		fail(again)
	}
	return made, failed, err
}

// isolate runs jobs of an earlier run again as a run of their own, each alone on a device and
// without MPS. A job that faults alone is the culprit. It corrects the outcomes of the
// earlier run in the store by that. run is what makes the run.
func isolate(ctx context.Context, r Request, of Outcome, jobs []results.Job, run func(context.Context, Request) (Outcome, error)) (Outcome, error) {
	first, all := of.Run.ID, append(slices.Clip(r.Mix.Jobs), of.Given...)
	r.Given = nil
	r.Mix.Source = fmt.Sprintf("jobs of run %d, of %s, each alone", first, r.Mix.Source)
	r.Mix.Name += "-isolated" // it is not a repetition of the mix under sa, even with as many jobs
	r.Mix.Jobs, r.Mix.Lines, r.Mix.Arrivals = nil, nil, nil
	for _, j := range jobs {
		again := all[j.Index]
		again.Group, again.At, again.UntilOthersEnd = 0, 0, false // nobody runs before, or beside
		r.Mix.Jobs = append(r.Mix.Jobs, again)
	}
	r.Sched, r.Workers, r.SMCap, r.Slow = "sa", 0, 0, ""
	if before, _ := cluster.Cut(of.Run.Scheduler); before != "" {
		r.Sched = "cluster-batch/sa"
	}
	r.Say("running %s that a fault took down, or that may have caused it, again, each alone on a GPU", size.Count(len(jobs), "job"))
	o, err := run(ctx, r)
	if err != nil {
		return o, err
	}
	before := jobs
	jobs = slices.Clone(jobs)
	events := results.Isolate(jobs, o.Jobs, o.Run.ID)
	w, err := r.Store.Resume(ctx, first)
	if err != nil {
		return o, err
	}
	log := r.Log
	if log == nil {
		log = unlogged{}
	}
	blamed := false // a job that had counted as ok
	for i, j := range jobs {
		w.Job(j)
		if *j.Outcome != *before[i].Outcome || j.Detail != before[i].Detail {
			log.Job(first, j)
		}
		blamed = blamed || before[i].EndedOK() && !j.EndedOK()
	}
	for _, e := range events {
		w.Event(e)
		log.Event(first, e)
		r.Say("run %d: %s", first, e.Detail)
	}
	if !blamed {
		return o, w.Flush(ctx)
	}
	corrected := slices.Clone(of.Jobs)
	for _, j := range jobs {
		corrected[j.Index] = j
	}
	of.Run.Metrics = of.Run.Metrics.WithOutcomes(of.Run, corrected)
	return o, w.Finish(ctx, of.Run)
}

// faultsAlone says of jobs, by index, in which run of the store they faulted without
// neighbours.
func (r Request) faultsAlone(ctx context.Context) (map[int]string, error) {
	known, err := r.Store.FaultsAlone(ctx, r.Suite)
	if err != nil {
		return nil, err
	}
	out := map[int]string{}
	for i, j := range r.Mix.Jobs {
		if run, found := known[j.Whole().Command()]; found {
			out[i] = faultedAlone(run)
		}
	}
	return out, nil
}

func faultedAlone(run int64) string {
	return fmt.Sprintf("it faulted without neighbours in run %d", run)
}
