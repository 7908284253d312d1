package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// follow does what the batch asks for, and returns the jobs that run.
func (f *fake) follow(running []int) []int {
	for len(f.calls) > 0 {
		call := f.calls[0]
		f.calls = f.calls[1:]
		var job, device int
		if n, _ := fmt.Sscanf(call, "start %d@%d", &job, &device); n > 0 {
			running = append(running, job)
			f.started(job)
			if n == 1 {
				f.begin(job, 6)
			}
		} else if n, _ := fmt.Sscanf(call, "stop %d", &job); n == 1 {
			running = slices.DeleteFunc(running, func(j int) bool { return j == job })
			f.batch.JobEnded(job, runner.Exit{Signal: new("SIGTERM")}, f.now)
		}
	}
	return running
}

// A lost device takes its jobs with it and gets no others. The others go on, and what fits nowhere else is refused.
func TestLostDevice(t *testing.T) {
	for _, scheduler := range []string{"sa", "case-alg2", "case-alg3", "zero", "cg:workers=4", "schedgpu:device=1", "vgpu:n=2", "plan"} {
		t.Run(scheduler, func(t *testing.T) {
			jobs, rec := setup{scheduler: scheduler, devices: 2, jobs: probed(6), workers: 4}.run(t, func(f *fake) {
				running := f.follow(nil)
				f.at(1)
				f.batch.Post(f.now, runner.DeviceLost{Device: 1, Why: "it fell off the bus"})
				for running = f.follow(running); len(running) > 0; running = f.follow(running[1:]) {
					f.ended(running[0])
				}
			})
			lost := 0
			for _, j := range jobs {
				on := j.Device != nil && *j.Device == 1
				switch {
				case on && *j.Outcome == results.Lost && strings.Contains(j.Detail, "it fell off the bus"):
					lost++
				case on || *j.Outcome != results.OK && (*j.Outcome != results.Refused || scheduler != "schedgpu:device=1" || !strings.Contains(j.Detail, "lost device 1")):
					t.Errorf("job %d on device %v: %s (%s)", j.Index, j.Device, *j.Outcome, j.Detail)
				}
			}
			said := slices.ContainsFunc(rec.events, func(e results.Event) bool { return e.Kind == results.EventLost && *e.Device == 1 })
			if lost == 0 || !said {
				t.Errorf("%d jobs are lost, with the events %+v", lost, rec.events)
			}
		})
	}
}

// A job whose CUDA calls said it before NVML did is lost too. One that ended well is not, nor one that ended long before.
func TestLostDeviceIsSeenLate(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 1, jobs: probed(4), workers: 1}.run(t, func(f *fake) {
		for i, at := range []int{1, 7, 8, 9} {
			f.at(at)
			if i < 3 {
				f.started(i)
				f.begin(i, 1)
			}
			switch i {
			case 0, 1:
				f.batch.ReportFault(i, 0, 999, "cudaMemcpy", f.now)
				f.batch.JobEnded(i, runner.Exit{Status: new(1)}, f.now)
			case 2:
				f.ended(i)
			default:
				f.batch.Post(f.now, runner.DeviceLost{Device: 0, Why: "it fell off the bus"})
				f.started(i)
				f.begin(i, 1)
				f.ended(i)
			}
		}
	})
	wantOutcomes(t, jobs, results.Fault, results.Lost, results.OK, results.Refused)
}
