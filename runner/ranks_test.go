package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// ranked is one job of so many ranks whose probes ask for their tasks.
func ranked(n int) []mixes.Job { return []mixes.Job{{Name: "ranked", Program: "needle", Ranks: n}} }

// ranks starts job 0 with all its ranks, whose serials are 11, 12, ...
func (f *fake) ranks(n int) {
	f.started(0)
	for rank := range n {
		f.batch.Post(f.now, runner.RankStarted{Job: 0, Rank: rank, PID: new(100 + rank)})
		f.batch.Post(f.now, runner.RankJoined{Process: serialOf(0, 11+rank), Rank: rank})
	}
}

func (f *fake) rankEnded(rank int, at time.Duration, e runner.Exit) {
	f.batch.Post(at, runner.RankEnded{Job: 0, Rank: rank, Exit: e})
}

func (f *fake) rankBegins(rank int, bytes int64) schedulers.TaskID {
	return f.batch.TaskBegin(0, schedulers.Task{Serial: 11 + rank, Bytes: bytes}, f.now)
}

// The job ends as the rank that failed first, by the times of their ends, whatever the other ranks say.
func TestOutcomeOfRanks(t *testing.T) {
	status := func(n int) runner.Exit {
		return runner.Exit{Status: &n, UserS: new(1.0), SysS: new(0.5), MaxRSSBytes: new(int64(10 * (n + 1)))}
	}
	killed := runner.Exit{Signal: new("SIGTERM"), UserS: new(1.0), SysS: new(0.5), MaxRSSBytes: new(int64(5))}
	oom := func(f *fake, rank int) {
		f.batch.Post(f.now, runner.OutOfMemory{Process: serialOf(0, 11+rank), Bytes: 9, Where: "cudaMalloc"})
	}
	for name, c := range map[string]struct {
		script func(*fake)
		want   string // outcome and detail
		ranks  string
	}{
		"all well": {func(f *fake) {
			for rank := range 3 {
				f.rankEnded(rank, 5, status(0))
			}
		}, "ok ", "ok ok ok"},
		"the first to be told of ended later": {func(f *fake) {
			f.rankEnded(0, 7, killed)
			f.rankEnded(2, 6, status(3))
			f.rankEnded(1, 7, killed)
		}, "crash rank 2: exit status 3", "cancelled cancelled crash"},
		"what another rank said": {func(f *fake) {
			oom(f, 0)
			f.rankEnded(1, 6, status(3))
			f.rankEnded(0, 7, status(0))
			f.rankEnded(2, 7, killed)
		}, "crash rank 1: exit status 3", "oom crash cancelled"},
		"what the failed rank said": {func(f *fake) {
			oom(f, 1)
			f.rankEnded(1, 6, status(3))
			f.rankEnded(0, 7, killed)
			f.rankEnded(2, 7, killed)
		}, "oom rank 1: out of memory", "cancelled oom cancelled"},
		"a rank that says what its status does not": {func(f *fake) {
			oom(f, 2)
			for rank := range 3 {
				f.rankEnded(rank, 7, status(0))
			}
		}, "oom rank 2: out of memory", "ok ok oom"},
		"what a process of no known rank said": {func(f *fake) {
			oom(f, 50)
			for rank := range 3 {
				f.rankEnded(rank, 7, status(0))
			}
		}, "oom out of memory", "ok ok ok"},
	} {
		jobs, rec := setup{scheduler: "case-alg3", jobs: ranked(3)}.run(t, func(f *fake) {
			f.ranks(3)
			c.script(f)
			f.batch.JobEnded(0, runner.Exit{}, 8)
		})
		got := map[int]results.Rank{}
		for _, k := range rec.ranks {
			got[k.Rank] = k
		}
		ranks := fmt.Sprintf("%s %s %s", *got[0].Outcome, *got[1].Outcome, *got[2].Outcome)
		j := jobs[0]
		if said := string(*j.Outcome) + " " + j.Detail; !strings.HasPrefix(said, c.want) || ranks != c.ranks || *got[2].PID != 102 {
			t.Errorf("%s: %q, ranks %s; want %q, ranks %s", name, said, ranks, c.want, c.ranks)
		}
		if *j.UserS != 3 || *j.SysS != 1.5 || *j.MaxRSSBytes < *got[0].MaxRSSBytes {
			t.Errorf("%s: %g s, %g s, %d bytes", name, *j.UserS, *j.SysS, *j.MaxRSSBytes)
		}
	}
}

// A rank that ends well gives back what it has; the others go on.
func TestARankGivesBack(t *testing.T) {
	setup{scheduler: "case-alg3", jobs: ranked(2)}.run(t, func(f *fake) {
		f.ranks(2)
		f.rankBegins(0, 10)
		f.rankBegins(1, 10)
		f.calls = nil
		f.rankEnded(0, 5, runner.Exit{Status: new(0)})
		f.batch.Post(5, runner.ProcessGone{Process: serialOf(0, 11), SaidBye: true})
		if len(f.calls) != 1 || f.calls[0] != "answer 2@0" {
			t.Errorf("calls %q", f.calls)
		}
		f.rankEnded(1, 6, runner.Exit{Status: new(0)})
		f.ended(0)
	})
}

// A fault that an MPS neighbour did not cause is the rank's.
func TestFaultOfARank(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: ranked(2), mps: true}.run(t, func(f *fake) {
		f.ranks(2)
		f.rankBegins(0, 1)
		f.rankBegins(1, 1)
		f.batch.Working(0, 12, new(time.Duration(1)))
		f.batch.Post(4, runner.Fault{Process: serialOf(0, 12), Code: 700, Where: "cudaFree"})
		f.rankEnded(1, 5, runner.Exit{Status: new(1)})
		f.rankEnded(0, 6, runner.Exit{Signal: new("SIGTERM")})
		f.batch.JobEnded(0, runner.Exit{}, 7)
	})
	if *jobs[0].Outcome != results.Fault || !strings.HasPrefix(jobs[0].Detail, "rank 1: CUDA error 700 in cudaFree") {
		t.Errorf("%s: %s", *jobs[0].Outcome, jobs[0].Detail)
	}
}

// A job that is bound as a whole has one device for all ranks, with the memory and the blocks of all.
func TestRanksAreBoundTogether(t *testing.T) {
	job := declared(5)
	job.Ranks, job.Footprint.Blocks = 3, 4
	jobs, _ := setup{scheduler: "case-alg3", jobs: []mixes.Job{job, declared(2), {Name: "large", Program: "./own", Ranks: 4, Binding: mixes.BindDeclared, Footprint: mixes.Footprint{Bytes: 5}}}}.run(t, func(f *fake) {
		if !slices.Equal(f.calls, []string{"start 0@0"}) {
			t.Errorf("calls %q: 15 bytes and 2 bytes do not fit a device of 16", f.calls)
		}
		f.ranks(3)
		f.rankBegins(2, 5)
		for rank := range 3 {
			f.rankEnded(rank, 5, runner.Exit{Status: new(0)})
		}
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.Refused)
}

// Who waits for the scheduler is told by rank, with the ranks that may wait for those.
func TestRanksThatMakeNoProgress(t *testing.T) {
	_, rec := setup{scheduler: "case-alg3", jobs: ranked(3), patience: time.Minute}.run(t, func(f *fake) {
		f.ranks(3)
		f.rankBegins(0, 9)
		f.rankBegins(2, 8)
		f.looks(1000)
		for rank := range 3 {
			f.rankEnded(rank, f.now, runner.Exit{Status: new(0)})
		}
		f.ended(0)
	})
	const want = "no progress for 10m0s: every job that runs waits for the scheduler, some with a part of their ranks. The other ranks may wait for these: " +
		"ranks 0, 1 of job 0 (ranked). Waiting: rank 2 of job 0 (ranked) for 8 bytes. Holding: rank 0 of job 0 (ranked) 9 bytes of GPU 0. "
	if told := rec.told(); len(told) != 1 || !strings.HasPrefix(told[600], want) {
		t.Errorf("said %v\nwant %q", told, want)
	}
}
