package runner_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// arriving is a job at each of these times, in seconds.
func arriving(like mixes.Job, at ...int) []mixes.Job {
	var jobs []mixes.Job
	for _, s := range at {
		like.At = time.Duration(s) * time.Second
		jobs = append(jobs, like)
	}
	return jobs
}

func (f *fake) tick() { f.batch.Post(f.now, runner.Tick{}) }

// A job is admitted when its time has come, and not before, whatever room there is. Its turnaround and its wait count from
// that time, even if the batch hears of it late.
func TestAJobArrivesAtItsTime(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: arriving(probed(1)[0], 0, 30, 30, 40), workers: 2}.run(t, func(f *fake) {
		f.want("wake 30s", "start 0")
		f.started(0)
		f.at(10)
		f.ended(0)
		f.tick()
		f.want()
		f.at(31)
		f.tick()
		f.want("wake 40s", "start 1", "start 2")
		f.started(1, 2)
		f.at(40)
		f.tick()
		f.want() // two run
		f.at(43)
		f.ended(2)
		f.want("start 3")
		f.started(3)
		f.at(50)
		f.ended(1, 3)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK, results.OK)
	for i, want := range []struct{ arrival, wait, turnaround float64 }{{0, 0, 10}, {30, 1, 20}, {30, 1, 13}, {40, 3, 10}} {
		j := rec.jobs[i]
		if *j.ArrivalS != want.arrival || *j.WaitS != want.wait || *j.TurnaroundS() != want.turnaround {
			t.Errorf("job %d: arrival %g s, wait %g s, turnaround %g s, want %+v", i, *j.ArrivalS, *j.WaitS, *j.TurnaroundS(), want)
		}
	}
}

// A batch can be cancelled before a job has arrived. A deadline counts from the arrival, and a limit from the start.
func TestCancelledBeforeAnybodyArrives(t *testing.T) {
	jobs, rec := setup{scheduler: "sa", jobs: arriving(probed(1)[0], 30, 40)}.run(t, func(f *fake) {
		f.want("wake 30s")
		f.batch.Post(f.now, runner.Cancel{Why: "enough"})
	})
	wantOutcomes(t, jobs, results.Cancelled, results.Cancelled)
	if rec.jobs[0].ArrivalS != nil {
		t.Errorf("a job arrived: %+v", rec.jobs[0])
	}
	due := arriving(probed(1)[0], 30, 30)
	due[0].Deadline, due[1].Deadline = 10*time.Second, 9*time.Second
	_, rec = setup{scheduler: "case-alg3", jobs: due, timeout: 15 * time.Second}.run(t, func(f *fake) {
		f.at(30)
		f.tick()
		f.started(0, 1)
		f.want("wake 30s", "start 0", "start 1", "wake 45s", "wake 45s")
		f.at(40)
		f.ended(0, 1)
	})
	if !*rec.jobs[0].MetDeadline() || *rec.jobs[1].MetDeadline() {
		t.Error("deadlines do not count from the arrival")
	}
}

// What is to arrive is not planned, and host priorities go by the jobs that have arrived.
func TestNobodySeesJobsBeforeTheyArrive(t *testing.T) {
	known := func(s int) *schedulers.Prediction {
		return &schedulers.Prediction{Before: time.Duration(s) * time.Second, Held: time.Second, Bytes: 4}
	}
	jobs, expected := arriving(probed(1)[0], 0, 0, 20), []*schedulers.Prediction{known(90), known(50), known(10)}
	setup{scheduler: "case-alg3:nice=on", jobs: jobs, cores: 1, expected: expected}.run(t, func(f *fake) {
		f.want("wake 20s", "start 0", "nice 0 10", "start 1", "nice 1 1")
		f.started(0, 1)
		f.at(20)
		f.tick()
		f.want("start 2", "nice 2 1")
		f.started(2)
		f.ended(0, 1, 2)
	})
	scheduler, err := policies.Parse("plan:nice=off", 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := runner.NewBatch(runner.Config{Jobs: jobs, Predictions: expected, Scheduler: scheduler,
		Devices: []schedulers.Device{{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	planned := func(at time.Duration, e runner.Event) (jobs int) {
		commands, err := b.Apply(at, e)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if search, is := c.(runner.Search); is {
				jobs = len(search.Situation.Jobs)
			}
		}
		return jobs
	}
	if n := planned(0, runner.Arrive{}); n != 2 {
		t.Errorf("the first plan is of %d jobs, and 2 have arrived", n)
	}
	planned(time.Second, runner.Planned{})
	if n := planned(20*time.Second, runner.Tick{}); n != 3 {
		t.Errorf("the second plan is of %d jobs, and 3 have arrived", n)
	}
}

func TestBatchesThatCannotArriveSo(t *testing.T) {
	scheduler, err := policies.Parse("sa", 1)
	if err != nil {
		t.Fatal(err)
	}
	devices := []schedulers.Device{{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}}
	for _, c := range []runner.Config{{Jobs: arriving(probed(1)[0], 30, 20)}, {Jobs: arriving(probed(1)[0], 30), Open: true}} {
		c.Scheduler, c.Devices = scheduler, devices
		if _, err := runner.NewBatch(c); err == nil {
			t.Errorf("a batch of %+v", c.Jobs)
		}
	}
}
