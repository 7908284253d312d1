package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/replay"
	"github.com/caserun/caserun/schedulers"
)

// recording is the steps of a run.
type recording []runner.Step

func (r *recording) observe(s runner.Step) { *r = append(*r, s) }

// decisions are the devices that jobs started with and the answers, in order.
func (r recording) decisions() []string {
	var out []string
	for _, s := range r {
		for _, c := range s.Commands {
			switch c := c.(type) {
			case runner.Start:
				out = append(out, fmt.Sprintf("start %d@%s", c.Job, strings.Trim(fmt.Sprint(c.Devices), "[]")))
			case runner.Answer:
				out = append(out, fmt.Sprintf("task %d: %v@%d", c.Decision.Task.ID, c.Decision.Kind, c.Decision.Device))
			}
		}
	}
	return out
}

// holding is a task that had a device.
type holding struct {
	task     schedulers.TaskID
	device   int
	from, to time.Duration
}

// holdings are in the order of the grants. It is an error if a task is granted twice, or
// never, or if it is not freed.
func (r recording) holdings(t *testing.T) []holding {
	t.Helper()
	var out []holding
	begun := 0
	for _, s := range r {
		switch e := s.Event.(type) {
		case runner.TaskBegin:
			begun++
		case runner.TaskFree:
			i := slices.IndexFunc(out, func(h holding) bool { return h.task == e.ID })
			if i < 0 || out[i].to != 0 {
				t.Fatalf("task %d is freed and has no device", e.ID)
			}
			out[i].to = s.At
		}
		for _, c := range s.Commands {
			if a, ok := c.(runner.Answer); ok && a.Decision.Kind == schedulers.Granted {
				if slices.ContainsFunc(out, func(h holding) bool { return h.task == a.Decision.Task.ID }) {
					t.Errorf("task %d is granted twice", a.Decision.Task.ID)
				}
				out = append(out, holding{task: a.Decision.Task.ID, device: a.Decision.Device, from: s.At})
			}
		}
	}
	for _, h := range out {
		if h.to == 0 {
			t.Errorf("task %d is not freed", h.task)
		}
	}
	if begun != len(out) {
		t.Errorf("%d tasks began, and %d were granted", begun, len(out))
	}
	return out
}

// replay runs the recording under a scheduler.
func (r recording) replay(t *testing.T, rig *rig, sched string) recording {
	t.Helper()
	x, err := replay.New(r)
	if err != nil {
		t.Fatal(err)
	}
	var again recording
	c := rig.config(sched)
	c.Observe = again.observe
	jobs, err := runner.Run(t.Context(), c, x, &tape{jobs: map[int]results.Job{}, tasks: map[[2]int]results.Task{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("%s: job %d: %s (%s)", sched, j.Index, *j.Outcome, j.Detail)
		}
	}
	return again
}

// Jobs 0 and 1 hold 10 GiB each at one time, so that each has a device of its own. A live run
// that was recorded is replayed: under its scheduler it makes the same decisions, and under
// others those that they must make.
func TestReplayOfALiveRun(t *testing.T) {
	var live recording
	r := newRig(t, "case-alg3")
	r.observe = live.observe
	pipe := t.TempDir() + "/both"
	r.job(fmt.Sprintf("begin:%d", 10*gib), "tell:"+pipe, "free")
	r.job(fmt.Sprintf("begin:%d", 10*gib), "hear:"+pipe, "free")
	r.sh(fmt.Sprintf("$JOB begin:%d grow:%d shape:64 shrink:%d free; $JOB begin:%d free", 9*gib, 2*gib, gib, 10*gib))
	if jobs, _ := r.mustRun(); !slices.Equal(outcomes(jobs), slices.Repeat([]results.Outcome{results.OK}, 3)) {
		t.Fatalf("outcomes %v", outcomes(jobs))
	}
	if ds := devices(live.holdings(t)); !slices.Equal(ds, []int{0, 1}) {
		t.Fatalf("the live run used devices %v, want both", ds)
	}

	same := live.replay(t, r, "case-alg3")
	if got, want := same.decisions(), live.decisions(); !slices.Equal(got, want) {
		t.Errorf("decided again:\n%q\nthe recording has\n%q", got, want)
	}

	one := live.replay(t, r, "schedgpu").holdings(t)
	if ds := devices(one); !slices.Equal(ds, []int{0}) {
		t.Errorf("schedgpu used devices %v, want 0 alone", ds)
	}
	for i := 1; i < len(one); i++ {
		if one[i].from < one[i-1].to {
			t.Errorf("tasks %d and %d do not fit one device and hold it at one time: %v", one[i-1].task, one[i].task, one)
		}
	}
	for _, h := range same.holdings(t) { // virtual time: a task is held as long, wherever
		i := slices.IndexFunc(one, func(o holding) bool { return o.task == h.task })
		if got, want := one[i].to-one[i].from, h.to-h.from; got != want {
			t.Errorf("task %d is held for %v under schedgpu, want %v", h.task, got, want)
		}
	}

	whole := live.replay(t, r, "sa")
	whole.holdings(t)
	starts := slices.DeleteFunc(whole.decisions(), func(d string) bool { return d[:5] != "start" })
	if want := []string{"start 0@0", "start 1@1"}; !slices.Equal(starts[:2], want) || len(starts) != 3 {
		t.Errorf("sa started %q, want %q first and job 2 behind them", starts, want)
	}
}

// devices are those of the holdings, sorted.
func devices(hs []holding) []int {
	var out []int
	for _, h := range hs {
		out = append(out, h.device)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
