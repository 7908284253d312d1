package runner_test

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// see enters looks at device 0 that show so many bytes of one process of each job; negative: none of the job.
func (f *fake) see(times int, bytes ...int64) {
	f.t.Helper()
	var uses []engine.Use
	for i, n := range bytes {
		if n >= 0 {
			uses = append(uses, engine.Use{Process: schedulers.Process{Job: schedulers.JobID(i)}, Bytes: n})
		}
	}
	for range times {
		if err := f.batch.TryPost(f.now, runner.Used{Uses: uses}); err != nil {
			f.t.Error(err)
		}
	}
}

// A job that uses more than it was charged is named, its memory keeps others waiting, and a job that is out of memory
// beside it says who has it.
func TestUnaccountedMemoryIsNamed(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(4)}.run(t, func(f *fake) {
		f.started(0, 1, 2, 3)
		f.begin(0, 2)
		f.begin(1, 2)
		f.see(2, 6, 2, -1)
		f.calls = nil
		f.begin(2, 12)
		f.want()
		f.see(2, 7, 2, -1) // a quarter more than at the event
		f.see(2, 8, 2, -1)
		f.see(2, 4, 2, -1)
		f.batch.ReportOOM(1, 0, 10, "cudaMalloc", f.now)
		f.ended(1)
		f.ended(0)
		f.want("answer 3@0")
		f.see(1, 9, 9, 12) // of jobs that have ended it counts no more
		f.ended(2, 3)
	})
	var said []string
	for _, e := range rec.events {
		if e.Kind == results.EventUnaccounted && *e.Job == 0 && *e.Device == 0 {
			said = append(said, e.Detail)
		}
	}
	if got := strings.Join(said, "\n"); got != "a process uses 4 bytes of GPU 0 that no call showed; it is charged to the job\n"+
		"a process uses 6 bytes of GPU 0 that no call showed; it is charged to the job" {
		t.Error(got)
	}
	for i, want := range []*int64{new(int64(6)), new(int64(0)), new(int64(0)), nil} {
		if got := jobs[i].UnaccountedBytes; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("job %d: %v, want %v", i, got, want)
		}
	}
	if want := "out of memory: 10 bytes in cudaMalloc; job 0 (probed) uses 2 bytes there that no call showed"; jobs[1].Detail != want {
		t.Errorf("the victim says %q, want %q", jobs[1].Detail, want)
	}
}

// What is within the slack is charged and counted, and makes no event. Of several jobs that have some the largest is named.
func TestALittleUnaccountedMemoryIsNoEvent(t *testing.T) {
	device := schedulers.Device{CapacityBytes: 1000, ContextBytes: 64, SMs: 1, WarpsPerSM: 64, BlocksPerSM: 32}
	jobs, rec := setup{scheduler: "case-alg3", model: &device, jobs: probed(3)}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.begin(0, 100)
		f.begin(1, 100)
		f.see(2, 168, 167, -1)
		f.calls = nil
		f.begin(2, 1000-168-167-64+1)
		f.want()
		f.batch.ReportOOM(1, 0, 10, "cudaMalloc", f.now)
		f.ended(0, 1)
		f.want("answer 3@0")
		f.ended(2)
	})
	for _, e := range rec.events {
		if e.Kind == results.EventUnaccounted {
			t.Error(e.Detail)
		}
	}
	if got := jobs[0].UnaccountedBytes; got == nil || *got != 4 {
		t.Errorf("unaccounted: %v", got)
	}
	if want := "; job 0 (probed) uses 4 bytes there that no call showed, and other jobs 3 bytes"; !strings.HasSuffix(jobs[1].Detail, want) {
		t.Errorf("the victim says %q", jobs[1].Detail)
	}
}

// A hog that is seen only after its victim was out of memory is named all the same.
func TestAHogIsNamedLate(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2)}.run(t, func(f *fake) {
		f.started(0, 1)
		f.begin(0, 2)
		f.begin(1, 2)
		f.batch.ReportOOM(1, 0, 2, "cudaMalloc", f.now)
		f.see(2, 14, 2)
		f.ended(1, 0)
	})
	if want := "; job 0 (probed) uses 12 bytes there that no call showed"; !strings.HasSuffix(jobs[1].Detail, want) {
		t.Errorf("the victim says %q, want %q at its end", jobs[1].Detail, want)
	}
}

// The processes of a job that is bound as a whole count together. Where the scheduler does not know memory, nothing is compared.
func TestWhatLooksAreComparedWith(t *testing.T) {
	two := func(f *fake) {
		for range 2 {
			if err := f.batch.TryPost(f.now, runner.Used{Uses: []engine.Use{{Process: schedulers.Process{Serial: 1}, Bytes: 3}, {Process: schedulers.Process{Serial: 2}, Bytes: 4}}}); err != nil {
				f.t.Error(err)
			}
		}
		f.ended(0)
	}
	for scheduler, want := range map[string]*int64{"case-alg3": new(int64(2)), "sa": nil, "cg": nil, "schedgpu:arch=shared": nil} {
		s := setup{scheduler: scheduler, jobs: []mixes.Job{declared(5)}}
		if strings.Contains(scheduler, "shared") {
			s.jobs = probed(1)
		}
		jobs, _ := s.run(t, func(f *fake) {
			f.started(0)
			two(f)
		})
		if got := jobs[0].UnaccountedBytes; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %v, want %v", scheduler, got, want)
		}
	}
	setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		for _, e := range []runner.Used{{Device: 1}, {Uses: []engine.Use{{Process: schedulers.Process{Job: 1}}}}, {Uses: []engine.Use{{Bytes: -1}}}} {
			if err := f.batch.TryPost(f.now, e); err == nil {
				f.t.Errorf("%+v is no error", e)
			}
		}
		f.ended(0)
	})
}
