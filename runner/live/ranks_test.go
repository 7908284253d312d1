package live

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/slurmstep"
)

// ranked gives the latest job ranks.
func (r *rig) ranked(ranks int) *rig {
	r.jobs[len(r.jobs)-1].Ranks = ranks
	return r
}

// rankOutput is what a rank of a job wrote to standard output.
func (r *rig) rankOutput(job, rank int) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "out", "job-000"+strconv.Itoa(job)+"-rank-"+strconv.Itoa(rank)+".out"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// Ranks start and end together, meet in a directory of theirs, and each has a device of its own and a record.
func TestRanks(t *testing.T) {
	script, err := filepath.Abs("../../benchmarks/ranks.sh")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "case-alg3").sh(`[ -S "$CASE_SOCKET" ] && echo "$CASE_RANK of $CASE_RANKS in $CASE_RENDEZVOUS"; exec "$JOB" begin:1000 free`)
	r.jobs[0].Program, r.jobs[0].Args = script, append([]string{"2", "/bin/sh"}, r.jobs[0].Args...)
	jobs, rec := r.ranked(3).mustRun()
	if *jobs[0].Outcome != results.OK || *jobs[0].ExitStatus != 0 {
		t.Fatalf("%s: %s", *jobs[0].Outcome, jobs[0].Detail)
	}
	pids := map[int]bool{}
	for rank := range 3 {
		k := rec.ranks[[2]int{0, rank}]
		pids[*k.PID] = true
		if *k.Outcome != results.OK || *k.ExitStatus != 0 || *k.EndS < *k.StartS || k.UserS == nil || *k.MaxRSSBytes > *jobs[0].MaxRSSBytes {
			t.Errorf("rank %d: %+v", rank, k)
		}
		head, dir, _ := strings.Cut(strings.Split(r.rankOutput(0, rank), "\n")[0], " in ")
		if head != strconv.Itoa(rank)+" of 3" {
			t.Errorf("rank %d says %q", rank, head)
		}
		if _, err := os.Stat(dir); dir == "" || !os.IsNotExist(err) {
			t.Errorf("rendezvous %q is left: %v", dir, err)
		}
	}
	if len(pids) != 3 || len(rec.tasks) != 6 {
		t.Errorf("%d processes and %d tasks, want 3 and 6", len(pids), len(rec.tasks))
	}
}

// The first rank that fails, or is killed, ends the others and settles the outcome.
func TestLiveRankFails(t *testing.T) {
	const sleeps = `[ $CASE_RANK = 1 ] || exec sleep 1000; `
	for script, want := range map[string]struct {
		outcome results.Outcome
		detail  string
	}{
		sleeps + "exit 3":                           {results.Crash, "rank 1: exit status 3"},
		sleeps + "kill -9 $$":                       {results.Crash, "rank 1: ended by SIGKILL"},
		sleeps + `exec "$JOB" begin:1000000000000`:  {results.Refused, "rank 1: "},
		sleeps + `exec "$JOB" begin:1 oom:5 exit:9`: {results.OOM, "rank 1: "},
	} {
		jobs, rec := newRig(t, "case-alg3").sh(script).ranked(3).mustRun()
		if *jobs[0].Outcome != want.outcome || !strings.HasPrefix(jobs[0].Detail, want.detail) {
			t.Errorf("%s: %s: %s", script, *jobs[0].Outcome, jobs[0].Detail)
		}
		for rank, outcome := range []results.Outcome{results.Cancelled, want.outcome, results.Cancelled} {
			if k := rec.ranks[[2]int{0, rank}]; *k.Outcome != outcome {
				t.Errorf("%s: rank %d: %+v", script, rank, k)
			}
		}
	}
}

// What ends a job ends all its ranks.
func TestRanksAreStopped(t *testing.T) {
	r := newRig(t, "sa").sh(`[ $CASE_RANK = 0 ] && exit; echo $CASE_BINDING $CUDA_VISIBLE_DEVICES; exec sleep 1000`).ranked(3)
	r.jobs[0].Timeout = time.Hour
	r.observe = func(s runner.Step) {
		if e, ended := s.Event.(runner.RankEnded); ended && e.Rank == 0 {
			go r.x.loop.Post(2*time.Hour, runner.Tick{})
		}
	}
	jobs, rec := r.mustRun()
	if *jobs[0].Outcome != results.Timeout {
		t.Errorf("%s: %s", *jobs[0].Outcome, jobs[0].Detail)
	}
	for rank := range 3 {
		if k := rec.ranks[[2]int{0, rank}]; *k.Outcome != results.Timeout || (k.Signal == nil) != (rank == 0) {
			t.Errorf("rank %d: %+v", rank, k)
		}
	}
}

// A job whose ranks cannot all be started has not started.
func TestRankDoesNotStart(t *testing.T) {
	r := newRig(t, "case-alg3").job("begin:1")
	r.jobs[0].Program = filepath.Join(r.dir, "missing")
	jobs, rec := r.ranked(2).mustRun()
	if *jobs[0].Outcome != results.Crash || !strings.Contains(jobs[0].Detail, "rank 0: ") || len(rec.ranks) != 0 {
		t.Errorf("%s: %s; ranks %v", *jobs[0].Outcome, jobs[0].Detail, rec.ranks)
	}
}

// Ranks that have started end if another cannot be started.
func TestLaterRankDoesNotStart(t *testing.T) {
	r := newRig(t, "case-alg3").job("begin:1", "sleep:3600000")
	r.mendServer = func() (bool, error) {
		if _, err := os.Stat(filepath.Join(r.dir, "out", "job-0000-rank-1.err")); err == nil {
			return false, errors.New("gone")
		}
		return false, nil
	}
	jobs, _, err := r.ranked(2).run(t.Context())
	if *jobs[0].Outcome != results.NotStarted || !strings.Contains(jobs[0].Detail, "rank 1: ") {
		t.Errorf("%s: %s", *jobs[0].Outcome, jobs[0].Detail)
	}
	if err == nil || strings.Contains(err.Error(), "outlives") {
		t.Errorf("the run failed with %v", err)
	}
}

// A job whose step Slurm does not start can be stopped.
func TestRanksThatAwaitTheirStep(t *testing.T) {
	r := newRig(t, "case-alg3").sh("exit 0").ranked(2)
	var err error
	if r.desk, err = slurmstep.Open(t.Name()+strconv.Itoa(os.Getpid()), func(int) {}); err != nil {
		t.Fatal(err)
	}
	defer r.desk.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	why, ended := errors.New("enough"), make(chan struct{})
	go func() {
		defer close(ended)
		if jobs, _, err := r.run(ctx); !errors.Is(err, why) || *jobs[0].Outcome != results.Cancelled || jobs[0].StartS != nil {
			t.Errorf("%+v (%v)", jobs, err)
		}
	}()
	x := <-r.made
	probetest.Await(t, "nobody awaits a step", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.awaited[0] != nil
	})
	cancel(why)
	<-ended
}
