package runner_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// drain drains a device, or puts it back.
func (f *fake) drain(device int, undo bool, want string) {
	f.t.Helper()
	got := ""
	if err := f.batch.Drain(f.now, device, undo); err != nil {
		got = err.Error()
	}
	if got != want {
		f.t.Errorf("at %v: drain of %d, undo %v: %q, want %q", f.now, device, undo, got, want)
	}
}

func (f *fake) wantState(device int, want runner.DeviceState) {
	f.t.Helper()
	got, err := f.batch.Device(device)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		f.t.Errorf("at %v: device %d (-want +got, %v):\n%s", f.now, device, err, diff)
	}
}

// A device is empty once its task has ended, although the process keeps its context. The last device stays.
func TestADeviceIsDrained(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", devices: 2, jobs: probed(3)}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.calls = nil
		f.begin(0, 10)
		task := f.begin(1, 10)
		f.want("answer 1@0", "answer 2@1")
		f.drain(2, false, "device 2: the node has devices 0 to 1")
		f.drain(2, true, "device 2: the node has devices 0 to 1")
		f.drain(1, true, "device 1 is not drained")
		f.at(1)
		f.drain(1, false, "")
		f.drain(1, false, "device 1 is drained already: --undo puts it back")
		f.drain(0, false, "device 0 is the last one that jobs may use: put another back with --undo, or stop the run")
		left := runner.Left{Job: 1, Name: "probed", Tasks: 1, Bytes: 10, Contexts: 1, Why: "tasks do not move under case-alg3"}
		f.wantState(1, runner.DeviceState{Closed: true, Left: []runner.Left{left}})
		f.begin(2, 10)
		f.want()
		f.at(3)
		f.batch.TaskFree(task, f.now)
		f.wantState(1, runner.DeviceState{Closed: true, Empty: true, Left: []runner.Left{{Job: 1, Name: "probed", Contexts: 1}}})
		f.at(4)
		f.drain(1, true, "")
		f.want("answer 3@1")
		f.mustPost(runner.DeviceLost{Device: 0, Why: "it fell off the bus"})
		f.drain(0, false, "device 0 has fallen off the bus: nothing goes there")
		f.drain(0, true, "device 0 has fallen off the bus, and cannot be put back")
		f.ended(0, 1, 2)
	})
	wantOutcomes(t, jobs, results.Lost, results.OK, results.OK)
	wantSaid(t, rec.said(results.EventDeviceClosed, results.EventDeviceEmpty, results.EventDeviceOpened, results.EventDoubt),
		"1s device-closed 1 GPU 1 is taken out of the run: caserun drain", "1s doubt 1 GPU 1 was taken out of the run at 1.0 s: caserun drain",
		"3s device-empty 1 no task is on GPU 1 any more", "4s device-opened 1 jobs may go to GPU 1 again")
}

func TestDrainsThatCannotBe(t *testing.T) {
	setup{scheduler: "schedgpu:arch=shared", devices: 2, jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.drain(1, false, "the scheduler has arch=shared, where processes decide by themselves: use arch=server")
		f.ended(0)
	})
	setup{scheduler: "sa", devices: 2, jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.drain(0, false, "")
		f.wantState(0, runner.DeviceState{Closed: true, Left: []runner.Left{{Name: "probed", Contexts: 1, Why: "it has the device to its end"}}})
		f.ended(0)
		f.wantState(0, runner.DeviceState{Closed: true, Empty: true, Left: []runner.Left{}})
	})
}

// A task that is busy is asked again and again to leave, which is recorded once each time that the device is drained. Its answer that it cannot move says why it stays.
func TestATaskThatStaysIsToldOnce(t *testing.T) {
	_, rec := setup{scheduler: "vgpu:n=2", devices: 2, jobs: probed(2)}.run(t, func(f *fake) {
		f.started(0, 1)
		f.calls = nil
		can := schedulers.Movable | 1<<schedulers.Move
		task := f.batch.TaskBegin(0, schedulers.Task{Bytes: 8, Can: can}, f.now)
		other := f.batch.TaskBegin(1, schedulers.Task{Bytes: 8, Can: can}, f.now)
		f.want("answer 1@0", "answer 2@1")
		f.at(1)
		f.drain(1, false, "")
		f.want("move 8 of 2, ticket 1")
		left := runner.Left{Job: 1, Name: "probed", Tasks: 1, Bytes: 8, Contexts: 1}
		f.wantState(1, runner.DeviceState{Closed: true, Left: []runner.Left{left}})
		for ticket := schedulers.Ticket(1); ticket <= 3; ticket++ {
			f.mustPost(runner.TaskRevoked{ID: other, Answer: schedulers.Revoked{Ticket: ticket, Outcome: schedulers.Busy, Resident: 8}})
			f.now += time.Second
			f.calls = nil
			f.mustPost(runner.Tick{})
		}
		f.want("move 8 of 2, ticket 4")
		f.drain(1, true, "")
		f.drain(1, false, "")
		f.mustPost(runner.TaskRevoked{ID: other, Answer: schedulers.Revoked{Ticket: 4, Outcome: schedulers.Busy, Resident: 8}})
		f.at(10)
		f.mustPost(runner.Tick{})
		f.mustPost(runner.TaskRevoked{ID: other, Answer: schedulers.Revoked{Ticket: 5, Outcome: schedulers.Unable, Resident: 8, Why: "it uses cuBLAS"}})
		left.Why = "it uses cuBLAS"
		f.wantState(1, runner.DeviceState{Closed: true, Left: []runner.Left{left}})
		f.batch.TaskFree(task, f.now)
		f.batch.TaskFree(other, f.now)
		f.ended(0, 1)
	})
	var outcomes []schedulers.Outcome
	for _, s := range rec.swaps {
		outcomes = append(outcomes, s.Outcome)
	}
	if diff := cmp.Diff([]schedulers.Outcome{schedulers.Busy, schedulers.Busy, schedulers.Unable}, outcomes); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
}
