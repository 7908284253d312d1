package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// given gives the batch a job.
func (f *fake) given(g runner.Given) error { return f.batch.TryPost(f.now, g) }

// mustBeGiven gives the batch jobs that it has to take.
func (f *fake) mustBeGiven(jobs ...mixes.Job) {
	f.t.Helper()
	for _, j := range jobs {
		if err := f.given(runner.Given{Job: j}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fake) noMore() { f.batch.Post(f.now, runner.NoMore{}) }

// A given job has the next index, arrives when it is given, and is admitted when its turn comes. The batch
// waits for more when all its jobs have ended.
func TestJobsAreGivenToABatchThatRuns(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1), workers: 1, open: true}.run(t, func(f *fake) {
		f.want("start 0")
		f.started(0)
		f.at(2)
		f.mustBeGiven(probed(2)...)
		f.want() // one runs at once
		f.at(5)
		f.ended(0)
		f.want("start 1")
		f.started(1)
		f.at(6)
		f.ended(1)
		f.want("start 2")
		f.started(2)
		f.ended(2)
		if f.done() {
			t.Error("the batch is done before it was told that no more jobs come")
		}
		f.at(60)
		f.mustBeGiven(declared(3))
		f.want("start 3@0")
		f.noMore()
		f.started(3)
		if err := f.given(runner.Given{Job: probed(1)[0]}); err == nil || err.Error() != "the batch takes no more jobs" {
			t.Errorf("given after the end: %v", err)
		}
		if err := f.batch.TryPost(f.now, runner.NoMore{}); err == nil {
			t.Error("the end came twice, without an error")
		}
		f.at(61)
		f.ended(3)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK, results.OK)
	for i, want := range []struct{ arrival, wait, turnaround float64 }{{0, 0, 5}, {2, 3, 4}, {2, 4, 4}, {60, 0, 1}} {
		j := rec.jobs[i]
		if j.Index != i || *j.ArrivalS != want.arrival || *j.WaitS != want.wait || *j.TurnaroundS() != want.turnaround {
			t.Errorf("job %d: arrival %g s, wait %g s, turnaround %g s, want %+v", i, *j.ArrivalS, *j.WaitS, *j.TurnaroundS(), want)
		}
	}
	if got := rec.jobs[3]; got.Name != "declared" || got.Command != "./own" || *got.FootprintBytes != 3 {
		t.Errorf("the record of a given job: %+v", got)
	}
	first := slices.DeleteFunc(rec.events, func(e results.Event) bool { return e.Kind != results.EventGiven })
	if len(first) != 1 || *first[0].Job != 1 || first[0].AtS != 2 {
		t.Errorf("events that say which jobs were given: %+v", first)
	}
}

func TestABatchMayStartEmpty(t *testing.T) {
	jobs, rec := setup{scheduler: "sa", open: true}.run(t, func(f *fake) {
		f.at(3)
		f.mustBeGiven(probed(2)...)
		f.want("start 0@0")
		f.started(0)
		f.at(4)
		f.ended(0)
		f.want("start 1@0")
		f.started(1)
		f.ended(1)
		f.noMore()
	})
	if len(jobs) != 2 || *rec.jobs[1].ArrivalS != 3 {
		t.Errorf("jobs %+v", jobs)
	}
	jobs, _ = setup{scheduler: "sa", open: true}.run(t, func(f *fake) { f.noMore() })
	if len(jobs) != 0 {
		t.Errorf("of no jobs: %+v", jobs)
	}
}

// A given job belongs to the present group: the next one does not arrive before it has ended.
func TestAGivenJobBelongsToThePresentGroup(t *testing.T) {
	_, rec := setup{scheduler: "case-alg3", jobs: grouped(probed(1)[0], 0, 1), open: true}.run(t, func(f *fake) {
		f.want("start 0")
		f.mustBeGiven(probed(1)...)
		f.want("start 2")
		f.started(0, 2)
		f.at(1)
		f.ended(0)
		f.want()
		f.at(2)
		f.ended(2)
		f.want("start 1")
		f.at(3)
		f.mustBeGiven(probed(1)...)
		f.want("start 3")
		f.noMore()
		f.started(1, 3)
		f.ended(1, 3)
	})
	for i, want := range []float64{0, 2, 0, 3} {
		if got := *rec.jobs[i].ArrivalS; got != want {
			t.Errorf("job %d arrived at %g s, want %g s", i, got, want)
		}
	}
}

// What a batch knows of its jobs stays theirs when many more come.
func TestRecordsOfJobsStayTheirsWhenMoreAreGiven(t *testing.T) {
	const n = 100
	jobs, rec := setup{scheduler: "case-alg3", open: true, mps: true}.run(t, func(f *fake) {
		for i := range n {
			f.at(i)
			f.mustBeGiven(probed(1)...)
			f.started(i)
			if i%2 == 1 {
				f.begin(i/2, 0)
			}
		}
		f.at(n)
		for i := range n {
			f.ended(i)
		}
		f.noMore()
	})
	for i, j := range jobs {
		if *j.StartS != float64(i) || *j.EndS != n || j.Outcome == nil || (j.Device != nil) != (i < n/2) {
			t.Errorf("job %d: %+v", i, j)
		}
		if r := rec.jobs[i]; *r.StartS != *j.StartS || (r.Device != nil) != (i < n/2) {
			t.Errorf("record of job %d: %+v", i, r)
		}
	}
}

// A batch that is cancelled while it waits for jobs ends, and takes no more.
func TestABatchThatWaitsForJobsCanBeCancelled(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1), workers: 1, open: true}.run(t, func(f *fake) {
		f.started(0)
		f.mustBeGiven(probed(1)...)
		f.batch.Post(f.now, runner.Cancel{Why: "enough"})
		f.want("start 0", "stop 0")
		if err := f.given(runner.Given{Job: probed(1)[0]}); err == nil || !strings.Contains(err.Error(), "is cancelled") {
			t.Errorf("given to a cancelled batch: %v", err)
		}
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.Cancelled, results.Cancelled)
	if len(jobs) != 2 || *rec.jobs[1].Outcome != results.Cancelled {
		t.Errorf("%d jobs, records %+v", len(jobs), rec.jobs)
	}
	setup{scheduler: "case-alg3", open: true}.run(t, func(f *fake) { f.batch.Post(f.now, runner.Cancel{Why: "enough"}) })
}

// A job that the scheduler cannot serve is refused, and the batch goes on. Others are not given jobs at all.
func TestABatchRefusesJobsThatItCannotHave(t *testing.T) {
	setup{scheduler: "schedgpu:arch=shared", jobs: probed(1), open: true}.run(t, func(f *fake) {
		if err := f.given(runner.Given{Job: declared(1)}); err == nil || !strings.Contains(err.Error(), "use arch=server") {
			t.Errorf("given what clients cannot decide for: %v", err)
		}
		f.mustBeGiven(probed(1)...)
		f.noMore()
		f.started(0, 1)
		f.ended(0, 1)
	})
	setup{scheduler: "sa", jobs: probed(1)}.run(t, func(f *fake) {
		if err := f.given(runner.Given{Job: probed(1)[0]}); err == nil {
			t.Error("a batch that has all its jobs took another")
		}
		f.started(0)
		f.ended(0)
	})
}

// Notes of a given job follow its row, and what is known of its faults counts.
func TestNotesOfAGivenJob(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", open: true, mps: true}.run(t, func(f *fake) {
		f.at(2)
		if err := f.given(runner.Given{Job: probed(1)[0], FaultsAlone: "it faulted without neighbours in run 7", Notes: []results.Event{{Kind: results.EventDeclared, Detail: "why"}}}); err != nil {
			t.Fatal(err)
		}
		f.mustBeGiven(probed(1)...)
		f.noMore()
		f.started(0, 1)
		f.begin(0, 1)
		f.begin(1, 1)
		f.batch.ReportFault(0, 0, 700, "cudaMemcpy", f.now)
		f.batch.ReportFault(1, 0, 700, "cudaMemcpy", f.now)
		f.batch.Post(f.now, runner.ServerRecovered{})
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.Fault, results.Collateral)
	if e := rec.events[1]; e.Kind != results.EventDeclared || *e.Job != 0 || e.AtS != 2 {
		t.Errorf("the note is %+v", e)
	}
}

// Host priorities: a given job has its level by its place among all so far.
func TestHostPrioritiesOfGivenJobs(t *testing.T) {
	second := func(s float64) *schedulers.Prediction {
		return &schedulers.Prediction{Before: time.Duration(s * float64(time.Second))}
	}
	setup{scheduler: "case-alg3:nice=on", jobs: probed(2), cores: 2, open: true, expected: []*schedulers.Prediction{second(9), second(1)}}.run(t, func(f *fake) {
		f.want("start 0", "nice 0 10", "start 1", "nice 1 1")
		for _, expected := range []*schedulers.Prediction{second(5), nil, second(0.1), second(99)} {
			if err := f.given(runner.Given{Job: probed(1)[0], Expected: expected}); err != nil {
				t.Fatal(err)
			}
		}
		f.want("start 2", "nice 2 7", "start 3", "nice 3 10", "start 4", "nice 4 1", "start 5", "nice 5 16")
		f.noMore()
		for i := range 6 {
			f.started(i)
			f.ended(i)
		}
	})
}

// A plan takes given jobs in. It is dropped once too little is known of them.
func TestGivenJobsArePlanned(t *testing.T) {
	known := &schedulers.Prediction{Before: time.Second, Held: time.Second, Bytes: 4}
	_, rec := setup{scheduler: "plan:nice=off", jobs: probed(2), open: true, expected: []*schedulers.Prediction{known, known}}.run(t, func(f *fake) {
		f.want("start 0", "start 1", "plan")
		f.batch.Post(f.now, runner.Planned{})
		f.started(0, 1)
		f.want()
		give := func(expected *schedulers.Prediction) {
			if err := f.given(runner.Given{Job: probed(1)[0], Expected: expected}); err != nil {
				t.Fatal(err)
			}
		}
		give(known)
		f.want("start 2", "plan")
		f.batch.Post(f.now, runner.Planned{})
		give(nil) // of four
		f.want("start 3", "plan")
		give(nil) // of five
		f.want("start 4")
		f.batch.Post(f.now, runner.Planned{}) // of a search that was under way
		give(known)
		f.want("start 5")
		f.noMore()
		for i := range 6 {
			if i > 1 {
				f.started(i)
			}
			f.begin(i, 1)
			f.ended(i)
		}
	})
	said := slices.DeleteFunc(rec.events, func(e results.Event) bool { return e.Kind != results.EventUnplanned })
	if len(said) != 1 || !strings.Contains(said[0].Detail, "2 of 5 jobs") {
		t.Errorf("events %+v", said)
	}
}
