package replay_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/replay"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

func scheduler(t testing.TB, text string, devices int) policies.Scheduler {
	t.Helper()
	s, err := policies.Parse(text, devices)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// jobOf is a job that ran from start to end, in seconds.
func jobOf(index int, start, end float64) results.Job {
	return results.Job{Index: index, Name: fmt.Sprint("job ", index), ArrivalS: new(0.0), StartS: &start, EndS: &end, Outcome: new(results.OK)}
}

// taskOf is a job's task, which waited from submit to grant and was given back at release.
func taskOf(job, seq int, bytes int64, submit, grant, release float64) results.Task {
	return results.Task{Job: job, Seq: seq, Bytes: bytes, SubmitS: submit, GrantS: &grant, ReleaseS: &release, Device: new(0)}
}

// devicesOf are devices of so many bytes each.
func devicesOf(capacities ...int64) (out []results.Device) {
	for i, bytes := range capacities {
		out = append(out, results.Device{Index: i, Name: "paper", CapacityBytes: bytes, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4})
	}
	return out
}

func complete(workers int) results.Run {
	return results.Run{ID: 7, Mode: results.Live, Status: results.Complete, Scheduler: "case-alg3", Workers: workers}
}

// under replays the run, and returns when each job started and ended.
func under(t *testing.T, s *replay.Stored, sched string) string {
	t.Helper()
	jobs, err := s.Under(context.Background(), scheduler(t, sched, len(s.Devices)))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, j := range jobs {
		text := string(*j.Outcome)
		if j.StartS != nil {
			text += fmt.Sprintf(" %g-%g", *j.StartS, *j.EndS)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// A job of several devices asks for as many in a replay.
func TestJobsOfSeveralDevices(t *testing.T) {
	jobs := []results.Job{jobOf(0, 0, 5), jobOf(1, 5, 8), jobOf(2, 8, 9)}
	for i := range jobs {
		jobs[i].Device, jobs[i].FootprintBytes = new(0), new(int64(6))
	}
	jobs[1].Devices = new("0,1")
	s, err := replay.NewStored(complete(0), 8, devicesOf(10, 10), jobs, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := under(t, s, "sa"), "ok 0-5, ok 5-8, ok 8-9"; got != want {
		t.Errorf("sa: %s, want %s", got, want)
	}
	jobs[2] = jobOf(2, 0, 9)
	tasks := []results.Task{taskOf(0, 0, 6, 0, 0, 5), taskOf(2, 0, 6, 0, 8, 9)}
	if s, err = replay.NewStored(complete(4), 8, devicesOf(10, 10), jobs, tasks, nil, nil); err != nil {
		t.Fatal(err)
	}
	// It asks when it arrives, and the others when they have started.
	if got, want := under(t, s, "case-alg3:queue=fifo"), "ok 0-8, ok 0-3, ok 0-4"; got != want {
		t.Errorf("case-alg3: %s, want %s", got, want)
	}
}

// Each job asks as long after its start, holds as long, and exits as long after, as it did. Who
// waits is decided anew.
func TestDurationsAreThoseOfTheRun(t *testing.T) {
	// On one device of 10 bytes, the second job waited from 2 s to 11 s for the first.
	s, err := replay.NewStored(complete(2), 8, devicesOf(10),
		[]results.Job{jobOf(0, 0.5, 14), jobOf(1, 0, 20)},
		[]results.Task{taskOf(0, 0, 6, 1, 1, 11), taskOf(1, 0, 6, 2, 11, 15)}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for sched, want := range map[string]string{
		"case-alg3": "ok 0.5-14, ok 0-20",
		"zero":      "ok 0.5-14, ok 0-11",  // nobody waits: 2 + 4 + 5 s
		"sa":        "ok 0.5-14, ok 14-25", // the whole device, one after the other
	} {
		if got := under(t, s, sched); got != want {
			t.Errorf("%s: %s, want %s", sched, got, want)
		}
	}
}

// A job is let in when there is a worker for it, and its start takes as long as it took.
func TestWorkersAndGroups(t *testing.T) {
	s, err := replay.NewStored(complete(1), 8, devicesOf(10), []results.Job{jobOf(0, 0, 10), jobOf(1, 11, 13)},
		[]results.Task{taskOf(0, 0, 6, 4, 8, 9)}, nil, nil) // it waited for 4 s
	if err != nil {
		t.Fatal(err)
	}
	if got, want := under(t, s, "case-alg3"), "ok 0-6, ok 7-9"; got != want {
		t.Errorf("one worker: %s, want %s", got, want)
	}
	late := jobOf(1, 20, 22)
	late.ArrivalS = new(20.0)
	if s, err = replay.NewStored(complete(4), 8, devicesOf(10), []results.Job{jobOf(0, 0, 20), late}, []results.Task{taskOf(0, 0, 6, 4, 8, 9)}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := under(t, s, "case-alg3"), "ok 0-16, ok 16-18"; got != want {
		t.Errorf("a second group: %s, want %s", got, want)
	}
}

// Jobs of an open load arrive when they did, whatever the others do.
func TestReplayOfAnOpenLoad(t *testing.T) {
	run := complete(4)
	run.Arrivals = new("at")
	first, late := jobOf(0, 5, 20), jobOf(1, 10, 12)
	first.ArrivalS, late.ArrivalS = new(5.0), new(10.0)
	s, err := replay.NewStored(run, 8, devicesOf(10), []results.Job{first, late}, []results.Task{taskOf(0, 0, 6, 9, 9, 14), taskOf(1, 0, 6, 11, 11, 12)}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for sched, want := range map[string]string{"zero": "ok 5-20, ok 10-12", "sa": "ok 5-20, ok 20-22"} {
		if got := under(t, s, sched); got != want {
			t.Errorf("%s: %s, want %s", sched, got, want)
		}
	}
}

// What the store lacks or what went wrong is said.
func TestAssumptions(t *testing.T) {
	grown, failed := taskOf(0, 0, 3, 1, 1, 3), jobOf(1, 0, 4)
	grown.GrownBytes = 4
	failed.Outcome, failed.Detail = new(results.OOM), "cudaMalloc"
	declared := jobOf(2, 0, 6)
	declared.Device, declared.FootprintBytes = new(0), new(int64(5))
	never := results.Job{Index: 3, ArrivalS: new(0.0), EndS: new(0.0), Outcome: new(results.Refused)}
	refusal := "no device"
	refused := results.Task{Job: 4, Bytes: 99, SubmitS: 1, Refusal: &refusal}
	s, err := replay.NewStored(complete(8), 8, devicesOf(10), []results.Job{jobOf(0, 0, 5), failed, declared, never, jobOf(4, 0, 2)}, []results.Task{grown, refused}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(s.Assumptions, "\n")
	for _, want := range []string{"1 tasks grew: each asks at once", "1 jobs had their device from start to end", "1 jobs never started", "1 jobs did not end ok", "A crowd that slowed them down there", "no job runs out of memory"} {
		if !strings.Contains(text, want) {
			t.Errorf("assumptions lack %q:\n%s", want, text)
		}
	}
	// The job with the device gets 5 of 10 bytes first, so that the task of 3 + 4 bytes waits for its end.
	if got, want := under(t, s, "case-alg3"), "ok 0-10, crash 0-4, ok 0-6, not-started 0-0, refused 0-2"; got != strings.Replace(want, " 0-0", "", 1) {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestRunsThatCannotBeReplayed(t *testing.T) {
	jobs := []results.Job{jobOf(0, 0, 1)}
	interrupted := complete(1)
	interrupted.Status = results.Interrupted
	for want, try := range map[string]func() (*replay.Stored, error){
		"replay run 7: it is interrupted": func() (*replay.Stored, error) {
			return replay.NewStored(interrupted, 8, devicesOf(1), jobs, nil, nil, nil)
		},
		"its scheduler case-alg3 took memory back": func() (*replay.Stored, error) {
			return replay.NewStored(complete(1), 8, devicesOf(1), jobs, nil, make([]results.Swap, 1), nil)
		},
		"name a run without restarts": func() (*replay.Stored, error) {
			again := jobOf(0, 0, 1)
			again.Restarts = new(1)
			return replay.NewStored(complete(1), 8, devicesOf(1), []results.Job{again}, nil, nil, nil)
		},
		"it has 0 devices and 1 jobs": func() (*replay.Stored, error) { return replay.NewStored(complete(1), 8, nil, jobs, nil, nil, nil) },
		"it has 1 devices and 0 jobs": func() (*replay.Stored, error) {
			return replay.NewStored(complete(1), 8, devicesOf(1), nil, nil, nil, nil)
		},
	} {
		if _, err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s, err := replay.NewStored(complete(1), 8, devicesOf(1), jobs, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for sched, want := range map[string]string{"vgpu": "it takes memory back from tasks", "schedgpu:arch=shared": "arch=server has the same policies", "cg": ""} {
		if err := s.Check(scheduler(t, sched, 1)); want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", sched, err, want)
		}
	}
	run := complete(1)
	run.Scheduler, run.Parameters = "schedgpu", "age-limit=0,arch=shared,queue=fifo"
	if s, err = replay.NewStored(run, 8, devicesOf(1), jobs, nil, nil, nil); err != nil || s.Own() != "schedgpu:age-limit=0,arch=server,queue=fifo" {
		t.Errorf("%s, %v", s.Own(), err)
	}
}

// records keeps the latest record of each task, in order.
type records struct {
	runner.Forgetful
	order []results.Task
	at    map[[2]int]int
}

func (r *records) Task(t results.Task) {
	i, known := r.at[[2]int{t.Job, t.Seq}]
	if !known {
		i = len(r.order)
		r.at[[2]int{t.Job, t.Seq}] = i
		r.order = append(r.order, t)
	}
	r.order[i] = t
}

// Under its own scheduler, a replay of a run's records ends every job when the run did. Noise tells
// apart what equal jobs ask at once: records do not have who came first.
func TestARunIsReplayedAsItWas(t *testing.T) {
	node, err := sim.ParseNode("sim:4xV100")
	if err != nil {
		t.Fatal(err)
	}
	for _, sched := range []string{"case-alg3", "case-alg2", "schedgpu", "sa", "cg:workers=6", "case-alg3:queue=fifo"} {
		for _, mix := range []string{"W1", "W4", "W7", "W8"} {
			m, err := mixes.Lookup(mix)
			if err != nil {
				t.Fatal(err)
			}
			s, rec := scheduler(t, sched, node.Count()), &records{at: map[[2]int]int{}}
			x, err := sim.NewExecutor(sim.Config{Node: node, Jobs: m.Jobs, MPS: s.Shares, Profiles: profiles.Catalog(), Seed: 1, Noise: 0.02}, rec)
			if err != nil {
				t.Fatal(err)
			}
			workers := 10
			if s.Binds == policies.BindsJob {
				workers = 0
			}
			jobs, err := runner.Run(context.Background(), runner.Config{Jobs: m.Jobs, Devices: node.Devices(s.Shares), Scheduler: s, Workers: workers, MPS: s.Shares}, x, rec)
			if err != nil {
				t.Fatal(err)
			}
			var devices []results.Device
			for i, d := range node.Devices(s.Shares) {
				devices = append(devices, results.Device{Index: i, Name: d.Name, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes, SMs: d.SMs, WarpsPerSM: d.WarpsPerSM, BlocksPerSM: d.BlocksPerSM})
			}
			run := complete(workers)
			run.Scheduler, run.Parameters, run.Jobs = s.Name, s.Parameters(), len(jobs)
			stored, err := replay.NewStored(run, 8, devices, jobs, rec.order, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := stored.Under(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			for i, j := range again {
				if d := math.Abs(*j.EndS - *jobs[i].EndS); d > 1e-6 {
					t.Errorf("%s under %s: job %d ends at %g s, and in the run at %g s", mix, sched, i, *j.EndS, *jobs[i].EndS)
				}
			}
		}
	}
}

// A job that a run was given comes when it came, whatever the others do: it is no group of its own.
func TestGivenJobsComeWhenTheyCame(t *testing.T) {
	given := func(index int, arrival, start, end float64) results.Job {
		j := jobOf(index, start, end)
		j.ArrivalS = &arrival
		return j
	}
	s, err := replay.NewStored(complete(4), 8, devicesOf(10), []results.Job{jobOf(0, 0, 20), given(1, 3, 3, 25), given(2, 40, 40, 42)},
		[]results.Task{taskOf(0, 0, 6, 1, 1, 19), taskOf(1, 0, 6, 4, 19, 24)}, nil,
		[]results.Event{{Kind: results.EventGiven, Job: new(1)}, {Kind: results.EventLimited, Job: new(0)}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(s.Assumptions, "\n"), "no job is limited, and no device taken out") {
		t.Errorf("assumptions %q", s.Assumptions)
	}
	for sched, want := range map[string]string{
		"case-alg3":     "ok 0-20, ok 3-25, ok 40-42",
		"zero":          "ok 0-20, ok 3-10, ok 40-42", // nobody waits: 1 + 5 + 1 s
		"sa":            "ok 0-20, ok 20-27, ok 40-42",
		"plan:nice=off": "ok 0-20, ok 3-25, ok 40-42", // nothing is known of them
	} {
		if got := under(t, s, sched); got != want {
			t.Errorf("%s: %s, want %s", sched, got, want)
		}
	}
	s.Predictions = slices.Repeat([]*schedulers.Prediction{{Held: 5 * time.Second}}, 3)
	if got, want := under(t, s, "plan:nice=off"), "ok 0-20, ok 3-25, ok 40-42"; got != want {
		t.Errorf("with what is expected: %s, want %s", got, want)
	}
}

// Where the queue's order says which job starts next, jobs were let in in the order of their starts.
func TestJobsThatStartedOutOfOrder(t *testing.T) {
	run := complete(1)
	run.Parameters = "queue=sjf"
	jobs := []results.Job{jobOf(0, 2, 6), jobOf(1, 0, 2)}
	tasks := []results.Task{taskOf(0, 0, 1, 2, 2, 6), taskOf(1, 0, 1, 0, 0, 2)}
	s, err := replay.NewStored(run, 8, devicesOf(9), jobs, tasks, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Predictions = []*schedulers.Prediction{{Held: 4}, {Held: 2}}
	for scheduler, want := range map[string]string{"case-alg3:queue=fifo": "ok 0-4, ok 4-6", s.Own(): "ok 2-6, ok 0-2"} {
		if got := under(t, s, scheduler); got != want {
			t.Errorf("%s: %s, want %s", scheduler, got, want)
		}
	}
}
