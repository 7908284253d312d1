package live

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// Three ranks, each of which holds its memory and waits until all have come, end on two devices of one slot each. Each computes what
// it computes alone.
func TestRanksThatMeetGiveUpTheirSlots(t *testing.T) {
	const ranks = 3
	alone := newSwapRig(t, "sa", 1)
	alone.mustRun()
	want := computed(alone, 0)
	for _, sched := range []string{"vgpu-preempt:n=1", "vgpu-preempt:n=1,copy=always"} {
		r := newSwapRig(t, sched, 1, fmt.Sprintf("SWAPPED_MEET=%s,%d", t.TempDir(), ranks)).ranked(ranks)
		r.limit = ample
		jobs, rec := r.mustRun()
		if *jobs[0].Outcome != results.OK {
			t.Errorf("%s: %s: %s", sched, *jobs[0].Outcome, jobs[0].Detail)
		}
		for rank := range ranks {
			if got, _, _ := strings.Cut(r.rankOutput(0, rank), "after: "); got != want {
				t.Errorf("%s: rank %d computed\n%s\nwant\n%s", sched, rank, got, want)
			}
		}
		moved, asked := map[schedulers.Direction]int64{}, 0
		for _, s := range rec.swaps {
			moved[s.Direction] += s.Bytes
			if s.Direction == schedulers.Out && s.ForJob == nil {
				asked++
			}
		}
		if moved[schedulers.Out] == 0 || moved[schedulers.In] == 0 || asked < ranks-2 {
			t.Errorf("%s: moved %v bytes, and %d times a slot was taken", sched, moved, asked)
		}
		r.wantWholeArea()
	}
}

// A process that is killed while its slot and its memory are somebody else's leaves nothing, and harms nobody.
func TestKilledWithoutASlot(t *testing.T) {
	alone := newSwapRig(t, "sa", 1)
	alone.mustRun()
	want := computed(alone, 0)
	r := newSwapRig(t, "vgpu-preempt:n=1,copy=always", 2, "FAKE_CUDA_DEVICES=1")
	r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
	program := r.jobs[1].Program
	r.jobs[0].Env = append(r.jobs[0].Env, "SWAPPED_MEET="+t.TempDir()+",2") // nobody comes
	r.jobs[1].Program, r.jobs[1].Args = "/bin/sh", []string{"-c", "read line <next; exec " + program + " swapped 10"}
	r.tell("next", func(s runner.Step) bool {
		begin, ok := s.Event.(runner.TaskBegin)
		return ok && begin.Task.Job == 0
	})
	tell, out := r.observe, int64(0)
	r.observe = func(s runner.Step) {
		tell(s)
		if e, ok := s.Event.(runner.TaskRevoked); ok && out == 0 {
			if out = e.Answer.Moved.Bytes; out > 0 {
				r.x.running()[0].signal(unix.SIGKILL)
			}
		}
	}
	jobs, rec := r.mustRun()
	if out == 0 || jobs[0].Signal == nil || *jobs[0].Signal != "SIGKILL" {
		t.Errorf("%d bytes went out; job 0: %s: %s", out, *jobs[0].Outcome, jobs[0].Detail)
	}
	if *jobs[1].Outcome != results.OK || computed(r, 1) != want {
		t.Errorf("job 1: %s: %s\n%s\nwant\n%s", *jobs[1].Outcome, jobs[1].Detail, r.output(1), want)
	}
	for key, task := range rec.tasks {
		if task.GrantS != nil && task.ReleaseS == nil {
			t.Errorf("task %v was granted and never released", key)
		}
	}
	r.wantWholeArea()
}
