package runner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// A job that is withdrawn is cancelled, wherever it is, and others go on: it runs, waits for its device, or waits for its admission.
func TestAJobIsWithdrawn(t *testing.T) {
	withdraw := func(f *fake, job int) { f.must(runner.Withdraw{Job: job, Why: "the head says so"}) }
	for scheduler, where := range map[string]string{"case-alg3": "", "sa": "@0", "case-alg3:queue=credits": ""} {
		t.Run(scheduler, func(t *testing.T) {
			jobs, _ := setup{scheduler: scheduler, jobs: probed(4), workers: 1}.run(t, func(f *fake) {
				f.want("start 0" + where)
				withdraw(f, 0)
				f.want("stop 0")
				f.started(0)
				f.at(1)
				withdraw(f, 1) // under sa it waits for the device
				withdraw(f, 1)
				f.want()
				f.at(2)
				f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
				f.want("start 2" + where)
				withdraw(f, 0) // it has ended
				withdraw(f, 3)
				f.started(2)
				f.ended(2)
			})
			wantOutcomes(t, jobs, results.Cancelled, results.Cancelled, results.OK, results.Cancelled)
			for _, i := range []int{0, 1, 3} {
				if j := jobs[i]; j.Detail != "the head says so" || j.EndS == nil || (i > 0) != (j.StartS == nil) {
					t.Errorf("%+v", j)
				}
			}
		})
	}
}

// What is asked of jobs that have not started, others do not hear.
func TestOnlyJobsThatHaveNotStartedLeave(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2), workers: 1}.run(t, func(f *fake) {
		f.want("start 0")
		for job := range 2 {
			f.must(runner.Withdraw{Job: job, Why: "leaves", Unstarted: true})
		}
		f.want()
		f.started(0)
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.OK, results.Cancelled)
}

func TestAWithdrawalThatCannotBe(t *testing.T) {
	later := probed(2)
	later[1].Group = 1
	setup{scheduler: "case-alg3", jobs: later}.run(t, func(f *fake) {
		for want, job := range map[string]int{"job 2 is withdrawn: the batch has 2 jobs, counted from 0": 2, "job 1 is withdrawn, which has not arrived": 1} {
			if err := f.batch.TryPost(f.now, runner.Withdraw{Job: job}); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		f.started(0)
		f.ended(0)
		f.started(1)
		f.ended(1)
	})
}

// A part of a job has the ranks that it is given, also if it is one. What is said of them has their numbers.
func TestAPartOfAJob(t *testing.T) {
	for name, n := range map[string]int{"several": 2, "one": 1} {
		t.Run(name, func(t *testing.T) {
			jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1), open: true}.run(t, func(f *fake) {
				first := 5
				if err := f.given(runner.Given{Job: mixes.Job{Name: "part", Program: "./p", Ranks: n}, Span: &runner.Span{First: first, Of: first + n}}); err != nil {
					t.Fatal(err)
				}
				f.started(0, 1)
				f.ended(0)
				for rank := first; rank < first+n; rank++ {
					f.must(runner.RankStarted{Job: 1, Rank: rank})
				}
				f.must(runner.RankEnded{Job: 1, Rank: first + n - 1, Exit: runner.Exit{Status: new(3)}})
				if err := f.batch.TryPost(f.now, runner.RankStarted{Job: 1, Rank: 0}); err == nil {
					t.Error("rank 0 is not in this part, and started")
				}
				for rank := first; rank < first+n-1; rank++ {
					f.must(runner.RankEnded{Job: 1, Rank: rank, Exit: runner.Exit{Signal: new("SIGKILL")}})
				}
				f.must(runner.JobEnded{Job: 1})
				f.noMore()
			})
			last := 5 + n - 1
			if j := jobs[1]; *j.Outcome != results.Crash || !strings.HasPrefix(j.Detail, "rank "+string(rune('0'+last))+": exit status 3") {
				t.Errorf("%+v", j)
			}
			of := map[int]results.Rank{}
			for _, r := range rec.ranks {
				of[r.Rank] = r
			}
			if len(of) != n || *of[last].Outcome != results.Crash || n > 1 && of[5].Detail != fmt.Sprintf("ended because rank %d had failed", last) {
				t.Errorf("%+v", of)
			}
		})
	}
}
