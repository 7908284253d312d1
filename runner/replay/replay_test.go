package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/replay"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// node is a batch of jobs that ask for their tasks, on devices of so many bytes each.
func node(t *testing.T, scheduler string, jobs int, capacities ...int64) runner.Config {
	t.Helper()
	s, err := policies.Parse(scheduler, len(capacities))
	if err != nil {
		t.Fatal(err)
	}
	c := runner.Config{Scheduler: s, Jobs: slices.Repeat([]mixes.Job{{Name: "recorded", Program: "needle"}}, jobs)}
	for _, bytes := range capacities {
		c.Devices = append(c.Devices, schedulers.Device{Name: "paper", CapacityBytes: bytes, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4})
	}
	return c
}

// happening is an event of a recording, in seconds.
type happening struct {
	at    int
	event runner.Event
}

// record is the recording of a batch in which this happens.
func record(t *testing.T, c runner.Config, what ...happening) []runner.Step {
	t.Helper()
	b, err := runner.NewBatch(c)
	if err != nil {
		t.Fatal(err)
	}
	var steps []runner.Step
	for _, h := range append([]happening{{0, runner.Arrive{}}}, what...) {
		at := time.Duration(h.at) * time.Second
		commands, err := b.Apply(at, h.event)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, runner.Step{At: at, Event: h.event, Commands: slices.Clone(commands)})
	}
	return steps
}

func begin(task schedulers.TaskID, job, process int, bytes int64) runner.TaskBegin {
	return runner.TaskBegin{Task: schedulers.Task{ID: task, Job: schedulers.JobID(job), Serial: process, Bytes: bytes}}
}

func gone(job, process int) runner.ProcessGone {
	return runner.ProcessGone{Process: schedulers.Process{Job: schedulers.JobID(job), Serial: process}, SaidBye: true}
}

func ended(job int) runner.JobEnded {
	return runner.JobEnded{Job: job, Exit: runner.Exit{Status: new(0)}}
}

// tape keeps the latest record of each task.
type tape map[[2]int]results.Task

func (r tape) Task(t results.Task)   { r[[2]int{t.Job, t.Seq}] = t }
func (tape) Job(results.Job)         {}
func (tape) Rank(results.Rank)       {}
func (tape) Swap(results.Swap)       {}
func (tape) Event(results.Event)     {}
func (tape) Kernel(results.Kernel)   {}
func (tape) Segment(results.Segment) {}
func (r tape) String(job, seq int) string {
	show := func(s *float64) string {
		if s == nil {
			return "never"
		}
		return fmt.Sprintf("%g", *s)
	}
	t := r[[2]int{job, seq}]
	return fmt.Sprintf("asked %g, granted %s, released %s", t.SubmitS, show(t.GrantS), show(t.ReleaseS))
}

// again replays a recording.
func again(t *testing.T, c runner.Config, steps []runner.Step) ([]results.Job, tape, error) {
	t.Helper()
	x, err := replay.New(steps)
	if err != nil {
		t.Fatal(err)
	}
	r := tape{}
	jobs, err := runner.Run(t.Context(), c, x, r)
	return jobs, r, err
}

func wantOutcomes(t *testing.T, jobs []results.Job, want ...results.Outcome) {
	t.Helper()
	for i, j := range jobs {
		if j.Outcome == nil || *j.Outcome != want[i] {
			t.Errorf("job %d: %v (%s), want %v", i, j.Outcome, j.Detail, want[i])
		}
	}
}

// Job 0 is a script of two processes, one after the other. Job 1 holds a device until 5 s.
func twoJobs(t *testing.T) []runner.Step {
	return record(t, node(t, "case-alg3", 2, 16, 16),
		happening{0, runner.JobStarted{Job: 0}}, happening{0, runner.JobStarted{Job: 1}},
		happening{1, begin(1, 1, 1, 10)}, happening{2, begin(2, 0, 2, 10)},
		happening{3, runner.TaskGrow{ID: 2, Bytes: 2}}, happening{4, runner.TaskFree{ID: 2}}, happening{5, gone(0, 2)},
		happening{5, runner.TaskFree{ID: 1}}, happening{6, begin(3, 0, 3, 10)}, happening{7, gone(1, 1)}, happening{7, ended(1)},
		happening{8, gone(0, 3)}, happening{9, runner.JobExited{Job: 0}}, happening{10, ended(0)})
}

// With one device instead of two, the first process of job 0 waits from 2 s to 5 s. All that it
// does afterwards is 3 s later, and the process that follows it too.
func TestProcessesGoOnAfterTheirAnswers(t *testing.T) {
	jobs, r, err := again(t, node(t, "case-alg3", 2, 16), twoJobs(t))
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, jobs, results.OK, results.OK)
	for key, want := range map[[2]int]string{
		{1, 0}: "asked 1, granted 1, released 5",
		{0, 0}: "asked 2, granted 5, released 7",
		{0, 1}: "asked 9, granted 9, released 11",
	} {
		if got := r.String(key[0], key[1]); got != want {
			t.Errorf("task %d of job %d: %s, want %s", key[1], key[0], got, want)
		}
	}
	if grown := r[[2]int{0, 0}].GrownBytes; grown != 2 {
		t.Errorf("grown by %d bytes, want 2", grown)
	}
	if *jobs[0].EndS != 12 || *jobs[1].EndS != 7 {
		t.Errorf("jobs ended at %v and %v s, want 12 and 7", *jobs[0].EndS, *jobs[1].EndS)
	}
}

// A task that is refused in the replay alone neither grows nor is freed, and its process goes on.
func TestEventsOfARefusedTaskAreLeftOut(t *testing.T) {
	steps := twoJobs(t)
	for i, s := range steps {
		if e, ok := s.Event.(runner.TaskBegin); ok && e.Task.ID == 3 {
			steps[i].Event = begin(3, 0, 3, 4)
		}
	}
	jobs, r, err := again(t, node(t, "case-alg3", 2, 8), steps)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, jobs, results.Refused, results.Refused)
	if got, want := r.String(0, 0), "asked 2, granted never, released never"; got != want {
		t.Errorf("the refused task: %s, want %s", got, want)
	}
	if got, want := r.String(0, 1), "asked 6, granted 6, released 8"; got != want {
		t.Errorf("the task after it: %s, want %s", got, want)
	}
}

// A limit that the recording did not have ends a job, and what is left of it is left out.
func TestTimeoutEndsAJob(t *testing.T) {
	c := node(t, "case-alg3", 2, 16, 16)
	c.Timeout = 8 * time.Second
	jobs, r, err := again(t, c, twoJobs(t))
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, jobs, results.Timeout, results.OK)
	if got, want := r.String(0, 1), "asked 6, granted 6, released 8"; got != want || *jobs[0].EndS != 8 {
		t.Errorf("its last task: %s, want %s; it ended at %v s, want 8", got, want, *jobs[0].EndS)
	}
}

// A process that waits for a second task before it frees the first waits for ever where
// only one has room.
func TestADeadlockIsAnError(t *testing.T) {
	steps := record(t, node(t, "case-alg3", 1, 16, 16),
		happening{0, runner.JobStarted{Job: 0}}, happening{1, begin(1, 0, 1, 10)}, happening{2, begin(2, 0, 1, 10)},
		happening{3, runner.TaskFree{ID: 1}}, happening{4, gone(0, 1)}, happening{5, ended(0)})
	if _, _, err := again(t, node(t, "case-alg3", 1, 16), steps); err == nil || !strings.Contains(err.Error(), "wait for each other") {
		t.Errorf("error %v", err)
	}
}

func TestAJobThatDidNotRunIsNotStarted(t *testing.T) {
	c := node(t, "case-alg3", 1, 8)
	c.Jobs[0].Binding, c.Jobs[0].Footprint = mixes.BindDeclared, mixes.Footprint{Bytes: 10}
	steps := record(t, c)
	c.Devices[0].CapacityBytes = 16
	jobs, _, err := again(t, c, steps)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, jobs, results.NotStarted)
}

func TestCancelledReplayEnds(t *testing.T) {
	x, err := replay.New(twoJobs(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	jobs, err := runner.Run(ctx, node(t, "case-alg3", 2, 16), x, tape{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	wantOutcomes(t, jobs, results.Cancelled, results.Cancelled)
}

func TestRecordingsThatDoNotTell(t *testing.T) {
	for want, e := range map[string]runner.Event{
		"was cancelled":         runner.Cancel{Why: "interrupt"},
		"decided by themselves": runner.TaskDecided{ID: 1},
		"task 7, which did not": runner.TaskFree{ID: 7},
	} {
		if _, err := replay.New([]runner.Step{{Event: e}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: error %v, want %q in it", e, err, want)
		}
	}
}

// A limit comes when it came, and holds up what the replay does otherwise.
func TestALimitComesWhenItCame(t *testing.T) {
	c := node(t, "case-alg3", 1, 16)
	steps := record(t, c, happening{0, runner.JobStarted{Job: 0}}, happening{1, runner.Limit{}}, happening{2, begin(1, 0, 1, 10)},
		happening{5, runner.Limit{Devices: -1}}, happening{7, gone(0, 1)}, happening{7, ended(0)})
	_, r, err := again(t, c, steps)
	if got, want := r.String(0, 0), "asked 2, granted 5, released 7"; err != nil || got != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
}

// What a batch was given comes at the time of the recording, and a worker more does not bring it earlier.
func TestAGivenJobComesWhenItCame(t *testing.T) {
	c := node(t, "case-alg3", 1, 16)
	c.Workers, c.Open = 1, true
	steps := record(t, c, happening{0, runner.JobStarted{Job: 0}}, happening{1, begin(1, 0, 1, 10)},
		happening{2, runner.Given{Job: c.Jobs[0]}}, happening{2, runner.NoMore{}}, happening{9, gone(0, 1)}, happening{9, ended(0)},
		happening{9, runner.JobStarted{Job: 1}}, happening{10, begin(2, 1, 1, 6)}, happening{12, gone(1, 1)}, happening{12, ended(1)})
	for workers, want := range map[int]string{1: "asked 10, granted 10, released 12", 2: "asked 3, granted 3, released 5"} {
		c.Workers = workers
		jobs, r, err := again(t, c, steps)
		if err != nil {
			t.Fatal(err)
		}
		wantOutcomes(t, jobs, results.OK, results.OK)
		if got := r.String(1, 0); got != want || *jobs[1].ArrivalS != 2 {
			t.Errorf("%d workers: arrived at %g s, %s, want %s", workers, *jobs[1].ArrivalS, got, want)
		}
	}
}
