package runner_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// several is a job of so many devices.
func several(devices int, bytes int64) mixes.Job {
	j := declared(bytes)
	j.Name, j.GPUs = "several", devices
	return j
}

// A job of several devices starts with all of them, whatever the scheduler binds. Others wait until it ends, and its record has all.
func TestAJobHasAllItsDevicesBeforeItStarts(t *testing.T) {
	for _, scheduler := range []string{"sa", "cg:workers=2", "case-alg2:queue=fifo", "case-alg3:queue=fifo", "vgpu", "demand", "plan"} {
		jobs, rec := setup{scheduler: scheduler, devices: 2, jobs: []mixes.Job{declared(9), several(2, 9), declared(9)}}.run(t, func(f *fake) {
			if f.calls[len(f.calls)-1] == "plan" { // it says nothing of these jobs
				f.batch.Post(f.now, runner.Planned{Plan: schedulers.Plan{Devices: [][]schedulers.Planned{{{Job: 0, Until: schedulers.Never}, {Job: 2, Until: schedulers.Never}}, nil}}})
			}
			for !f.done() {
				f.calls = slices.DeleteFunc(f.calls, func(call string) bool { return !strings.HasPrefix(call, "start") })
				calls := f.calls
				f.calls = nil
				for _, call := range calls {
					var job int
					switch call[:len("start 0@")] {
					case "start 0@", "start 1@", "start 2@":
						job = int(call[len("start ")] - '0')
					default:
						t.Fatalf("%s: %q", scheduler, call)
					}
					if job == 1 && call != "start 1@[0 1]" {
						t.Errorf("%s: %q", scheduler, call)
					}
					f.started(job)
					f.now += 1e9
					f.batch.TaskBegin(job, schedulers.Task{Bytes: 1, OnDevice: new(1)}, f.now)
					f.ended(job)
				}
				if len(calls) == 0 {
					t.Fatalf("%s: nothing starts", scheduler)
				}
			}
		})
		wantOutcomes(t, jobs, results.OK, results.OK, results.OK)
		if j := rec.jobs[1]; j.Devices == nil || *j.Devices != "0,1" || *j.Device != 0 || !slices.Equal(j.On(), []int{0, 1}) || !j.Has(1) || j.Has(2) {
			t.Errorf("%s: recorded %+v", scheduler, j)
		}
		if got := rec.task(1, 0); *got.Device != 1 {
			t.Errorf("%s: its task for device 1: %+v", scheduler, got)
		}
		if rec.jobs[0].Devices != nil {
			t.Errorf("%s: a job of one device is recorded as %+v", scheduler, rec.jobs[0])
		}
	}
}

// A job that loses one of its devices ends, and gives back the others. It is lost, too, if its CUDA calls said so before.
func TestALostDeviceOfSeveral(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 3, jobs: []mixes.Job{several(2, 9), several(3, 9), declared(9), several(3, 9)}}.run(t, func(f *fake) {
		f.want("start 0@[0 1]", "start 2@2")
		f.started(0, 2)
		f.batch.Post(f.now, runner.DeviceLost{Device: 1, Why: "it fell off the bus"})
		f.want("stop 0")
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
		f.ended(2)
	})
	wantOutcomes(t, jobs, results.Lost, results.Refused, results.OK, results.Refused)
	if why := jobs[1].Detail; !strings.Contains(why, "3 devices at once") || !strings.Contains(why, "lost device 1") {
		t.Errorf("refused because %q", why)
	}
}

// Shares are for schedulers that know them. Under others nothing changes, and an event of each job says so.
func TestShares(t *testing.T) {
	for scheduler, knows := range map[string]bool{"case-alg2": true, "case-alg3": true, "schedgpu": true, "zero": false, "cg:workers=4": false, "vgpu": false, "sa": false} {
		two := []mixes.Job{declared(1), declared(1)}
		for i := range two {
			two[i].Share, two[i].Footprint.Blocks, two[i].Footprint.ThreadsPerBlock = 0.6, 1, 32
		}
		var together bool
		jobs, rec := setup{scheduler: scheduler, jobs: two}.run(t, func(f *fake) {
			together = slices.Contains(f.calls, "start 1@0")
			f.started(0)
			f.ended(0)
			f.started(1)
			f.ended(1)
		})
		wantOutcomes(t, jobs, results.OK, results.OK)
		if want := !knows && scheduler != "sa"; together != want {
			t.Errorf("%s: both at once: %v", scheduler, together)
		}
		said := slices.DeleteFunc(rec.events, func(e results.Event) bool { return e.Kind != results.EventShareIgnored })
		if want := map[bool]int{false: 2}[knows]; len(said) != want || want > 0 && (*said[1].Job != 1 || !strings.Contains(said[1].Detail, "share: 0.6 has no effect: scheduler ")) {
			t.Errorf("%s: said %+v", scheduler, said)
		}
	}
}

// A program that uses more devices than its job has is told how many these are.
func TestADeviceBeyondThoseOfAJob(t *testing.T) {
	jobs, _ := setup{scheduler: "sa", devices: 2, jobs: []mixes.Job{several(2, 1)}}.run(t, func(f *fake) {
		f.started(0)
		f.batch.Post(f.now, runner.Hint{Job: 0, What: "cudaSetDevice(2): no such device"})
		f.batch.JobEnded(0, runner.Exit{Status: new(1)}, f.now)
	})
	if want := "the job has 2 GPUs, as its devices 0 to 1: a program that uses more needs a larger gpus in the mix"; !strings.Contains(jobs[0].Detail, want) {
		t.Errorf("%q, want %q", jobs[0].Detail, want)
	}
}
