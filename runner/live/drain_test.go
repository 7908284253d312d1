package live

import (
	"slices"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/control"
	"github.com/caserun/caserun/schedulers"
)

// A device is drained while jobs have memory there, and wait for a job that begins then. All compute what they compute alone, and
// the device gets empty.
func TestADeviceIsDrainedUnderItsJobs(t *testing.T) {
	alone := newSwapRig(t, "sa", 1)
	alone.mustRun()
	want := computed(alone, 0)
	for _, sched := range []string{"vgpu:n=4,victims=0", "demand"} {
		t.Run(sched, func(t *testing.T) {
			r := newSwapRig(t, sched, 3)
			r.meet()
			r.limit = ample
			last := &r.jobs[2]
			last.Program, last.Args = "/bin/sh", []string{"-c", "read line <next; exec " + last.Program + " swapped 10"}
			r.tell("next", func(s runner.Step) bool {
				_, ok := s.Event.(runner.DeviceLost)
				return ok
			})
			tell, drained := r.observe, make(chan error, 1)
			asked := false
			r.observe = func(s runner.Step) {
				tell(s)
				onIt := slices.ContainsFunc(s.Commands, func(c runner.Command) bool {
					a, ok := c.(runner.Answer)
					return ok && a.Decision.Kind == schedulers.Granted && a.Decision.Device == 1
				})
				if onIt && !asked {
					asked = true
					go func() {
						_, err := r.x.control(control.Drain, 1)
						drained <- err
					}()
				}
			}
			jobs, rec := r.mustRun()
			if err := <-drained; err != nil {
				t.Fatal(err)
			}
			for i, j := range jobs {
				if *j.Outcome != results.OK || computed(r, i) != want {
					t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
				}
			}
			if *jobs[2].Device != 0 || rec.count(results.EventDeviceEmpty) != 1 {
				t.Errorf("the last job is on device %d; %d times the other one got empty", *jobs[2].Device, rec.count(results.EventDeviceEmpty))
			}
			if s, err := r.x.control(control.Look, 1); err != nil || !s.Closed || !s.Empty || len(s.Left) > 0 {
				t.Errorf("device 1: %+v (%v)", s, err)
			}
			if _, err := r.x.control("dance", 1); err == nil || err.Error() != `"dance": want drain, undo or look` {
				t.Error(err)
			}
			r.wantWholeArea()
		})
	}
}
