package live

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

var small = []string{"swapped", "1"}

// newCheckpointRig has two jobs for one slot, which meet again and again while both hold memory. The first has a static runtime.
func newCheckpointRig(t *testing.T, idle string, env ...string) *rig {
	r := newSwapRig(t, "vgpu-preempt:n=1,via=checkpoint,idle="+idle, 2, append(env, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_CHECKPOINT=1")...)
	r.uuids, r.ids, r.limit, r.swap = r.uuids[:1], r.ids[:1], ample, nil
	r.checkpoint = filepath.Join(nativetest.Build(t, "ballast", "checkpoint"), "checkpoint")
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(nativetest.Build(t, "fake"), "build/13")) // of the program that checkpoints
	r.jobs[0].Program = strings.Replace(r.jobs[0].Program, "lazy_program", "static_lazy", 1)
	for i := range r.jobs {
		r.jobs[i].Args, r.jobs[i].Footprint.Bytes = small, jobMoves+jobHeap
	}
	r.meet()
	return r
}

// Jobs of any runtime take turns by checkpoints, and compute what they compute alone.
func TestWholeJobsTakeTurns(t *testing.T) {
	alone := newSwapRig(t, "sa", 1)
	alone.jobs[0].Args = small
	alone.mustRun()
	want := computed(alone, 0)
	r := newCheckpointRig(t, "20ms")
	jobs, rec := r.mustRun()
	for i, j := range jobs {
		if *j.Outcome != results.OK || computed(r, i) != want {
			t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
		}
	}
	times := map[schedulers.Direction]int{}
	for _, s := range rec.swaps {
		if s.Outcome == schedulers.Done {
			times[s.Direction]++
			if s.Bytes == 0 || s.CopyS <= 0 {
				t.Errorf("swap %+v", s)
			}
		}
	}
	if times[schedulers.In] == 0 || times[schedulers.Out] < times[schedulers.In] { // a job can end while it is out
		t.Errorf("swaps %v", times)
	}
}

// A job that the driver cannot checkpoint goes on, and says so once.
func TestAJobThatCannotBeCheckpointed(t *testing.T) {
	r := newCheckpointRig(t, "20ms", "FAKE_CUDA_MPS=1")
	r.jobs[0].Env = append(r.jobs[0].Env, "SWAPPED_MEET="+t.TempDir()+",2") // nobody comes
	r.observe = func(s runner.Step) {
		if e, ok := s.Event.(runner.TaskRevoked); ok && e.Answer.Outcome == schedulers.Unable {
			r.x.running()[0].signal(unix.SIGKILL)
		}
	}
	r.jobs[1].Env = append(r.jobs[1].Env, "SWAPPED_MEET="+t.TempDir()+",1")
	jobs, rec := r.mustRun()
	var unable []results.Swap
	for _, s := range rec.swaps {
		if s.Outcome == schedulers.Unable {
			unable = append(unable, s)
		}
	}
	if len(unable) != 1 || unable[0].Job != 0 || !strings.Contains(unable[0].Why, "MPS") || *jobs[1].Outcome != results.OK {
		t.Errorf("swaps %+v; job 1: %s", rec.swaps, *jobs[1].Outcome)
	}
}

// A job that is killed while it is out leaves nothing, and harms nobody.
func TestKilledWhileItIsOut(t *testing.T) {
	r := newCheckpointRig(t, "20ms")
	r.jobs[1].Env = append(r.jobs[1].Env, "SWAPPED_MEET="+t.TempDir()+",1")
	r.observe = func(s runner.Step) {
		if e, ok := s.Event.(runner.TaskRevoked); ok && e.Answer.Outcome == schedulers.Done {
			if job, _ := runner.WholeJob(e.ID); job == 0 {
				r.x.running()[0].signal(unix.SIGKILL)
			}
		}
	}
	jobs, rec := r.mustRun()
	if *jobs[0].Outcome != results.Crash || *jobs[1].Outcome != results.OK {
		t.Errorf("outcomes %s, %s (%s)", *jobs[0].Outcome, *jobs[1].Outcome, jobs[1].Detail)
	}
	for key, task := range rec.tasks {
		if task.GrantS != nil && task.ReleaseS == nil {
			t.Errorf("task %v was granted and never released", key)
		}
	}
}
