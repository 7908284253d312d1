package runner_test

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// hasManaged says that a process of a job is about to have managed memory on device 0, and other memory beside it.
func (f *fake) hasManaged(job, process int, bytes, beside, free int64) {
	f.t.Helper()
	e := runner.ManagedAsked{Process: schedulers.Process{Job: schedulers.JobID(job), Serial: process}, Bytes: bytes, Beside: beside, Free: free}
	if err := f.batch.TryPost(f.now, e); err != nil {
		f.t.Error(err)
	}
}

// wantDetails compares the details of events of a kind with texts that are in them.
func wantDetails(t *testing.T, rec *tape, kind results.EventKind, want ...string) {
	t.Helper()
	var got []string
	for _, e := range rec.events {
		if e.Kind == kind {
			got = append(got, e.Detail)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s events %q, want %d", kind, got, len(want))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%s event %q, want %q in it", kind, got[i], want[i])
		}
	}
}

func sized(bytes int64) mixes.Job {
	return mixes.Job{Name: "sized", Program: "needle", Footprint: mixes.Footprint{Bytes: bytes}}
}

const mostManaged = "room 9223372036854775807"

// Under a scheduler that knows nothing of memory, managed memory is what fits beside the managed memory, the footprints and the
// contexts of the others, and beside what the driver says is taken. The most is recorded.
func TestManagedMemoryOfWholeJobs(t *testing.T) {
	model := &schedulers.Device{CapacityBytes: 100, ContextBytes: 10, SMs: 1, WarpsPerSM: 8, BlocksPerSM: 4}
	jobs, rec := setup{scheduler: "cg:workers=2", model: model, jobs: []mixes.Job{sized(0), sized(20), sized(60)}}.run(t, func(f *fake) {
		f.started(0, 1)
		f.calls = nil
		f.hasManaged(0, 1, 30, 0, 90)
		f.want("room 60") // 100 less two contexts and a footprint of 20
		f.hasManaged(0, 1, 50, 10, 20)
		f.want("room 50") // what it has and 20
		f.hasManaged(0, 1, 50, 10, 0)
		f.want("room 60")
		f.hasManaged(0, 2, 1, 0, 0)
		f.want("room 0") // beside a third context
		f.hasManaged(1, 3, 21, 0, 0)
		f.want("room 20")
		f.hasManaged(0, 1, 40, 10, 0)
		f.want(mostManaged) // less than before
		f.hasManaged(1, 3, 25, 0, 0)
		f.want("room 30")
		f.ended(0) // job 2 has no room beside job 1
		f.calls = nil
		f.hasManaged(0, 1, 1, 0, 0)
		f.want("room 0") // a process of a job that has ended
		f.ended(1)
	})
	wantOutcomes(t, jobs, results.Refused, results.Refused, results.Refused)
	wantDetails(t, rec, results.EventManaged, "65 bytes of managed memory at most at one time: 65 bytes, where 70 bytes were free for it")
	wantDetails(t, rec, results.EventRefused, "needs 60 bytes in all on GPU 0, and 50 bytes are free there", "needs 1 byte", "needs 21 bytes")
}

// A job whose device was settled by its footprint may have as much as that, all its processes together; a job that asks for its tasks
// what those hold. Both may have a little more, for rounding, and neither more than the device.
func TestManagedMemoryThatWasGranted(t *testing.T) {
	const mib = 1 << 20
	model := &schedulers.Device{CapacityBytes: 100 * mib, SMs: 1, WarpsPerSM: 8, BlocksPerSM: 4}
	jobs, rec := setup{scheduler: "case-alg3", devices: 2, model: model, jobs: []mixes.Job{declared(20 * mib), probed(1)[0], declared(95 * mib)}}.run(t, func(f *fake) {
		f.started(0, 1)
		f.calls = nil
		f.hasManaged(0, 1, 30*mib, 2*mib, 0)
		f.want("room 37748736") // 36 MiB
		f.hasManaged(0, 2, 4*mib, 0, 0)
		f.want("room 4194304")
		f.hasManaged(1, 3, mib, 0, 0)
		f.want("room 16777216")
		f.beginAs(1, 3, 50*mib)
		f.calls = nil
		f.hasManaged(1, 3, 64*mib, 0, 0)
		f.want("room 67108864") // 64 MiB, beside the 36 of job 0
		f.must(runner.ProcessGone{Process: schedulers.Process{Job: 0, Serial: 2}})
		f.hasManaged(0, 1, 37*mib, 0, 0)
		f.want("room 37748736")
		if err := f.batch.TryPost(f.now, runner.ManagedAsked{Process: schedulers.Process{Job: 1, Serial: 3}, Device: 2, Bytes: 1}); err == nil {
			t.Error("a device that the run does not have")
		}
		f.ended(0, 1, 2)
	})
	wantOutcomes(t, jobs, results.Refused, results.OK, results.OK)
	wantDetails(t, rec, results.EventRefused, "needs 37 MiB in all on GPU 0, and 36 MiB are free there")
	wantDetails(t, rec, results.EventManaged, "102760448 bytes of managed memory at most at one time: 98 MiB, where 98 MiB were free for it")
}

// With managed=exceed nothing is refused, and the number is recorded. A job that has two devices has its managed memory on both.
func TestManagedMemoryMayExceed(t *testing.T) {
	two := sized(0)
	two.GPUs = 2
	for _, scheduler := range []string{"sa:managed=exceed", "cg:managed=exceed"} {
		jobs, rec := setup{scheduler: scheduler, devices: 2, jobs: []mixes.Job{two}}.run(t, func(f *fake) {
			f.started(0)
			f.calls = nil
			f.hasManaged(0, 1, 20, 0, 0)
			f.want(mostManaged)
			f.ended(0)
		})
		wantOutcomes(t, jobs, results.OK)
		wantDetails(t, rec, results.EventManaged, "20 bytes of managed memory at most at one time: 20 bytes, where 16 bytes were free", "20 bytes")
	}
}

// A job that is told to have managed memory does not start beside another if both do not fit, nor does any other job beside it.
func TestManagedMemoryBeforeAJobStarts(t *testing.T) {
	managed := sized(10)
	managed.Args = []string{"--memory", "managed"}
	for _, c := range []struct {
		scheduler string
		jobs      []mixes.Job
		want      []results.Outcome
	}{
		{"cg:workers=2", []mixes.Job{managed, sized(7)}, []results.Outcome{results.OK, results.Refused}},
		{"cg:workers=2", []mixes.Job{sized(7), managed}, []results.Outcome{results.OK, results.Refused}},
		{"cg:workers=2", []mixes.Job{managed, sized(6)}, []results.Outcome{results.OK, results.OK}},
		{"cg:workers=2", []mixes.Job{sized(17), sized(17)}, []results.Outcome{results.OK, results.OK}},
		{"sa", []mixes.Job{managed, managed}, []results.Outcome{results.OK, results.OK}},
		{"cg:workers=2,managed=exceed", []mixes.Job{managed, managed}, []results.Outcome{results.OK, results.OK}},
	} {
		jobs, _ := setup{scheduler: c.scheduler, jobs: c.jobs}.run(t, func(f *fake) {
			for i, outcome := range c.want {
				if outcome == results.OK {
					f.started(i)
					if c.scheduler == "sa" {
						f.ended(i)
					}
				}
			}
			for i, outcome := range c.want {
				if outcome == results.OK && c.scheduler != "sa" {
					f.ended(i)
				}
			}
		})
		wantOutcomes(t, jobs, c.want...)
	}
}
