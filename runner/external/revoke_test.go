package external

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// taker is a program that takes back, with these fields in its greeting.
func taker(t *testing.T, fields, text string) (*Policy, preempter) {
	t.Helper()
	p := start(t, `log="$0.log"; exec 3>"$log"; read hello; echo '{"id":0,"protocol":2,"takes_back":true`+fields+`}'`+"\n"+text)
	s := p.Scheduler(policies.Scheduler{})
	policy, is := s.Policy.(preempter)
	if !is || !s.Revokes || !p.TakesBack() || s.Bursts != strings.Contains(fields, "bursts") {
		t.Fatalf("it is not a Preempter: %+v", s)
	}
	return p, policy
}

// occupied is a node of two devices of 100 bytes: task 7 has 70 of its 80 bytes on device 0, and task 8 waits there to resume for 30
// bytes. Device 1 is closed.
func occupied(t *testing.T) (schedulers.View, []schedulers.Request) {
	t.Helper()
	s, err := policies.Parse("demand", 2)
	if err != nil {
		t.Fatal(err)
	}
	e := node(t, s.Policy)
	on := 0
	seven := schedulers.Task{ID: 7, Job: 3, Bytes: 80, Need: new(int64(70)), OnDevice: &on, Can: schedulers.Movable, Terms: &schedulers.Terms{Due: time.Minute, MaxWait: 2 * time.Second}}
	eight := schedulers.Task{ID: 8, Job: 4, Bytes: 30, Need: new(int64(0)), OnDevice: &on, Can: schedulers.Movable}
	for _, task := range []schedulers.Task{seven, eight} {
		if ds, err := e.Submit(task, time.Second); err != nil || len(ds) != 1 || ds[0].Kind != schedulers.Granted {
			t.Fatalf("submit: %+v, %v", ds, err)
		}
	}
	if err := e.Active(7, schedulers.Activity{Last: 2 * time.Second, Busy: true, Referenced: 60, Fixed: 5}, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Resume(8, 30, 30, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	e.DeviceLost(1, false, 3*time.Second)
	return e.View(), []schedulers.Request{{Task: eight, Bytes: 30, Own: 4, Since: 3 * time.Second}}
}

// Version 2 tells the time, what tasks have on their devices, and which requests wait. Times are whole nanoseconds.
func TestQuestionsOfVersion2(t *testing.T) {
	p, policy := taker(t, `,"asks":["tick"],"look_every_ns":2000000`, `
read q; echo "$q" >&3; echo '{"id":1,"device":null}'
read q; echo "$q" >&3; echo '{"id":2,"revocations":[{"task":7,"action":"yield","bytes":30,"deadline_ns":50000000,"for":8},{"task":7,"action":"move","bytes":0,"deadline_ns":1000000,"device":1}]}'
read q; echo "$q" >&3; echo '{"id":3,"at_ns":3000000001}'
read q; echo '{"id":4}'
cat >/dev/null`)
	view, waiting := occupied(t)
	p.Tell(3 * time.Second)
	p.Tell(time.Second) // which has passed
	if _, ok := policy.Place(waiting[0].Task, view); ok {
		t.Error("placed")
	}
	got := policy.Revoke(waiting, view, 3*time.Second)
	if diff := cmp.Diff([]schedulers.Revocation{
		{Task: 7, Action: schedulers.Yield, Bytes: 30, Deadline: 50 * time.Millisecond, For: 8},
		{Task: 7, Action: schedulers.Move, Deadline: time.Millisecond, For: schedulers.Nobody, Device: 1}}, got); diff != "" {
		t.Errorf("revocations (-want +got):\n%s", diff)
	}
	if at := policy.NextTick(waiting, view, 3*time.Second); at != 3*time.Second+1 {
		t.Errorf("the next tick is at %v", at)
	}
	if at := policy.NextTick(waiting, view, 3*time.Second); at != schedulers.Never {
		t.Errorf("without a time the next tick is at %v", at)
	}
	for _, c := range []struct {
		waiting []schedulers.Request
		want    time.Duration
	}{{waiting, 4 * time.Millisecond}, {nil, schedulers.Never}} {
		if at := policy.NextLook(c.waiting, 3*time.Millisecond); at != c.want {
			t.Errorf("%d wait: the next look is at %v, want %v", len(c.waiting), at, c.want)
		}
	}
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	log, err := os.ReadFile(p.program.Path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	taskOf := func(id, job, bytes, need int, due, wait string) string {
		return fmt.Sprintf(`{"id":%d,"job":%d,"process":0,"bytes":%d,"blocks":0,"threads_per_block":0,"blocks_per_sm":0,"warps_per_block":0,"warps":0,"grid_unknown":false,`+
			`"managed":false,"on_device":0,"priority":0,"isolate":false,"need_bytes":%d,"devices":1,"share":0,"due_ns":%s,"expected_ns":null,"max_wait_ns":%s}`, id, job, bytes, need, due, wait)
	}
	eight := taskOf(8, 4, 30, 0, "null", "null")
	limits := `,"name":"small","capacity_bytes":100,"context_reserve_bytes":10,"sms":2,"warps_per_sm":8,"blocks_per_sm":4,`
	first := limits + `"free_bytes":10,"used_warps":0,"tasks":2,"jobs":2,"saturated":false,"used_bytes":90,"permits":1,"closed":false,"residents":[` +
		`{"task":` + taskOf(7, 3, 80, 70, "60000000000", "2000000000") + `,"allocated_bytes":80,"resident_bytes":70,"referenced_bytes":60,"fixed_bytes":5,"movable_bytes":65,` +
		`"running":false,"busy":true,"last_ns":2000000000,"permit":true,"permit_since_ns":1000000000,"waited_ns":0,"stopped":false,"lost_ns":0,"resident_since_ns":1000000000,"can":["yield","evict"],"asked":false},` +
		`{"task":` + eight + `,"allocated_bytes":30,"resident_bytes":0,"referenced_bytes":30,"fixed_bytes":0,"movable_bytes":0,` +
		`"running":false,"busy":false,"last_ns":3000000000,"permit":false,"permit_since_ns":0,"waited_ns":0,"stopped":false,"lost_ns":0,"resident_since_ns":1000000000,"can":["yield","evict"],"asked":false}]`
	second := limits + `"free_bytes":100,"used_warps":0,"tasks":0,"jobs":0,"saturated":false,"used_bytes":0,"permits":0,"closed":true,"residents":[]`
	here := `"context_bytes":0,"tasks_of_job":1,"open":true,"context_here":true,"permit_here":false`
	there := `"context_bytes":10,"tasks_of_job":0,"open":false,"context_here":false,"permit_here":false`
	asks := `"waiting":[{"task":` + eight + `,"bytes":30,"grows":false,"stay_bytes":0,"own_bytes":4,"asked":false,"since_ns":3000000000,"devices":[{` + here + `},{` + there + `}]}],` +
		`"latest":0,"devices":[{"device":0` + first + `},{"device":1` + second + `}]}`
	want := strings.Join([]string{
		`{"id":1,"kind":"place","now_ns":3000000000,"task":` + eight + `,"latest":0,"devices":[{"device":0` + first + `,` + here + `},{"device":1` + second + `,` + there + `}]}`,
		`{"id":2,"kind":"revoke","now_ns":3000000000,` + asks,
		`{"id":3,"kind":"tick","now_ns":3000000000,` + asks,
		"",
	}, "\n")
	if diff := cmp.Diff(want, string(log)); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// A program is told how long a burst had waited that goes on, and whether it was ended.
func TestProgramsAreToldWhoWaitedAndWhoWasStopped(t *testing.T) {
	p, policy := taker(t, `,"asks":["tick"]`, `read q; echo "$q" >&3; echo '{"id":1}'; cat >/dev/null`)
	s, err := policies.Parse("mfit:wait=1s", 2)
	if err != nil {
		t.Fatal(err)
	}
	e, on := node(t, s.Policy), 0
	for id := range schedulers.TaskID(2) { // both need all of device 0
		task := schedulers.Task{ID: id + 1, Job: schedulers.JobID(id + 1), Bytes: 80, OnDevice: &on, Can: schedulers.Movable | 1<<schedulers.Stop}
		if _, err := e.Submit(task, 0); err != nil {
			t.Fatal(err)
		}
	}
	stops := e.Tick(e.NextAct(), 0)
	if len(stops) != 1 || stops[0].Kind != schedulers.Revoke || stops[0].Revocation.Action != schedulers.Stop {
		t.Fatalf("%+v", stops)
	}
	if _, err := e.Revoked(1, schedulers.Revoked{Ticket: stops[0].Ticket, Outcome: schedulers.Done}, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	policy.NextTick(nil, e.View(), 3*time.Second)
	log, err := os.ReadFile(p.program.Path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"permit":false,"permit_since_ns":0,"waited_ns":0,"stopped":true`, `"permit":true,"permit_since_ns":2000000000,"waited_ns":2000000000,"stopped":false`} {
		if !strings.Contains(string(log), want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
}

// A program of version 2 need not take back. It is told the time.
func TestVersion2WithoutTakingBack(t *testing.T) {
	p := start(t, `read hello; echo '{"id":0,"protocol":2}'; read q; echo "$q" >"$0.log"; echo '{"id":1,"device":1}'; cat >/dev/null`)
	if s := p.Scheduler(policies.Scheduler{}); s.Revokes || s.Policy != schedulers.Policy(p) {
		t.Errorf("it takes back: %+v", s)
	}
	p.Tell(time.Minute)
	if at, ok := p.Place(schedulers.Task{ID: 1, Bytes: 5}, node(t, p).View()); !ok || at.Device != 1 {
		t.Error(p.Err())
	}
	text, err := os.ReadFile(p.program.Path + ".log")
	if err != nil || !strings.Contains(string(text), `"now_ns":60000000000,`) || strings.Contains(string(text), "residents") {
		t.Errorf("%s (%v)", text, err)
	}
}

// A task without a device can be advised for its own request.
func TestATaskThatWaitsIsAdvisedForItself(t *testing.T) {
	view, waiting := occupied(t)
	nine := schedulers.Task{ID: 9, Job: 5, Bytes: 50, Stays: 40, Can: schedulers.Movable | 1<<schedulers.Advise}
	waiting = append(waiting, schedulers.Request{Task: nine, Bytes: 50})
	for of, ok := range map[string]bool{`"action":"advise","bytes":50,"for":9`: true, `"action":"advise","bytes":51,"for":9`: false, `"action":"advise","bytes":5,"for":8`: false, `"action":"advise","bytes":5`: false, `"action":"evict","bytes":5,"for":9`: false} {
		p, policy := taker(t, "", `read q; echo "$q" >&3; echo '{"id":1,"revocations":[{"task":9,"deadline_ns":1000000,`+of+`}]}'; cat >/dev/null`)
		got, want := policy.Revoke(waiting, view, 3*time.Second), []schedulers.Revocation(nil)
		if ok {
			want = []schedulers.Revocation{{Task: 9, Action: schedulers.Advise, Bytes: 50, Deadline: time.Millisecond, For: 9}}
		}
		if diff := cmp.Diff(want, got); diff != "" || (p.Err() == nil) != ok {
			t.Errorf("%s: %v (-want +got):\n%s", of, p.Err(), diff)
		}
		if log, err := os.ReadFile(p.program.Path + ".log"); err != nil || !strings.Contains(string(log), `"bytes":50,"grows":false,"stay_bytes":40`) {
			t.Errorf("%s (%v)", log, err)
		}
	}
}

func TestRevocationsThatCannotBe(t *testing.T) {
	of := func(fields string) string { return `{"id":1,"revocations":[{` + fields + `}]}` }
	for answer, want := range map[string]string{
		`{"id":1}`:                    `it has no revocations: want a list, which may be empty`,
		`{"id":1,"revocations":null}`: `revocations is null`,
		of(`"action":"yield","bytes":1,"deadline_ns":1000000`):                                                        `revocation 0: it has no task`,
		of(`"task":7,"action":"kill","bytes":1,"deadline_ns":1000000`):                                                `action is "kill": want one of ["yield" "evict" "advise" "move" "stop"]`,
		of(`"task":7,"action":"yield","bytes":1`):                                                                     `deadline_ns: want nanoseconds from 1000000 to 3600000000000`,
		of(`"task":7,"action":"yield","bytes":1,"deadline_ns":0`):                                                     `deadline_ns: want nanoseconds from`,
		of(`"task":7,"action":"yield","bytes":1,"deadline_ns":999999`):                                                `deadline_ns: want nanoseconds from`,
		of(`"task":7,"action":"yield","bytes":1,"deadline_ns":0.5`):                                                   `want a whole number`,
		of(`"task":7,"action":"yield","bytes":1,"deadline_ns":9223372036854775807`):                                   `deadline_ns: want nanoseconds from`,
		of(`"task":9,"action":"yield","bytes":1,"deadline_ns":1000000`):                                               `task 9 is not on a device: it can only be told to advise for itself, while it waits`,
		of(`"task":7,"action":"yield","bytes":-1,"deadline_ns":1000000`):                                              `bytes is -1: want 0 or more, and no more than the 80 bytes that task 7 has`,
		of(`"task":7,"action":"yield","bytes":81,"deadline_ns":1000000`):                                              `bytes is 81`,
		of(`"task":7,"action":"yield","bytes":1,"deadline_ns":1000000,"for":7`):                                       `it is for task 7, which has no request that waits: leave for out if it is for nobody`,
		of(`"task":7,"action":"yield","bytes":1,"deadline_ns":1000000,"device":1`):                                    `device is of move alone: leave it out`,
		of(`"task":7,"action":"move","bytes":1,"deadline_ns":1000000`):                                                `device: want where task 7 moves to, from 0 to 1, and not 0, where it is`,
		of(`"task":7,"action":"move","bytes":1,"deadline_ns":1000000,"device":0`):                                     `and not 0, where it is`,
		of(`"task":7,"action":"move","bytes":1,"deadline_ns":1000000,"device":2`):                                     `from 0 to 1`,
		of(`"task":7,"action":"yield","bytes":1,"deadline_ns":1000000},{"task":7,"action":"x","deadline_ns":1000000`): `revocation 1: action is "x"`,
	} {
		p, policy := taker(t, "", `read q; echo '`+answer+`'; read more`)
		view, waiting := occupied(t)
		if got := policy.Revoke(waiting, view, 3*time.Second); got != nil || !strings.Contains(fmt.Sprint(p.Err()), want) || !strings.Contains(fmt.Sprint(p.Err()), "asked to take back for 1 requests: ") {
			t.Errorf("%s: %v, %v, want %s", answer, got, p.Err(), want)
		}
	}
	p, policy := taker(t, `,"asks":["tick"],"bursts":true`, `read q; echo '{"id":1,"at_ns":3000000000}'; read more`)
	view, waiting := occupied(t)
	if at := policy.NextTick(waiting, view, 3*time.Second); at != schedulers.Never || !strings.Contains(fmt.Sprint(p.Err()), "at_ns is 3000000000: want a time after now, which is 3000000000, or leave it out, which is never") {
		t.Errorf("the next tick is at %v, %v", at, p.Err())
	}
	if policy.NextLook(waiting, 0) != schedulers.Never || policy.Revoke(waiting, view, 0) != nil {
		t.Error("it goes on after its failure")
	}
}

// giveWay is a policy of version 2: it places a task where what the task needs is free, and asks all tasks that are idle for what the
// first request lacks.
func giveWay(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q struct {
			ID   uint64
			Kind string
			Task struct {
				Need int64 `json:"need_bytes"`
			}
			Waiting []struct {
				Task    struct{ ID uint64 }
				Bytes   int64
				Asked   bool
				Devices []struct {
					Open    bool
					Context int64 `json:"context_bytes"`
				}
			}
			Devices []struct {
				Device    int
				Open      bool
				Free      int64 `json:"free_bytes"`
				Context   int64 `json:"context_bytes"`
				Residents []struct {
					Task                 struct{ ID uint64 }
					Movable              int64 `json:"movable_bytes"`
					Running, Busy, Asked bool
				}
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		switch q.Kind {
		case "hello":
			fmt.Fprintln(out, `{"id":0,"protocol":2,"takes_back":true}`)
		case "place":
			device := "null"
			for _, d := range q.Devices {
				if d.Open && q.Task.Need+d.Context <= d.Free {
					device = fmt.Sprint(d.Device)
					break
				}
			}
			fmt.Fprintf(out, "{\"id\":%d,\"device\":%s}\n", q.ID, device)
		case "revoke":
			var asks []string
			for _, w := range q.Waiting {
				for i, d := range q.Devices {
					lacks := w.Bytes + w.Devices[i].Context - d.Free
					for _, r := range d.Residents {
						if w.Asked || !w.Devices[i].Open || lacks <= 0 || r.Running || r.Busy || r.Asked || r.Movable == 0 || r.Task.ID == w.Task.ID {
							continue
						}
						bytes := min(lacks, r.Movable)
						lacks -= bytes
						asks = append(asks, fmt.Sprintf(`{"task":%d,"action":"yield","bytes":%d,"deadline_ns":50000000,"for":%d}`, r.Task.ID, bytes, w.Task.ID))
					}
				}
			}
			fmt.Fprintf(out, "{\"id\":%d,\"revocations\":[%s]}\n", q.ID, strings.Join(asks, ","))
		}
	}
}

// A program that takes back is held to what policies that take back are held to.
func TestAProgramThatTakesBackKeepsTheRules(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(policies.Program{Path: script(t, thinking+`=idle exec "`+self+`"`), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := policies.Parse("exec:any", 1)
	if err != nil {
		t.Fatal(err)
	}
	subject := schedtest.Subject{Info: s.Info, Settle: func(parameters string, devices int) (policies.Scheduler, error) {
		s, err := policies.Parse(policies.With("exec:any", parameters), devices)
		return p.Scheduler(s), err
	}}
	failed, err := schedtest.Outside(1, 20, subject.Preempting(engine.FIFO, schedtest.NoBound))
	if err != nil || failed != nil || p.Err() != nil {
		t.Errorf("%+v, %v, %v", failed, err, p.Err())
	}
}

// A program that wants to act again a nanosecond after each tick does so each millisecond, so that a simulated run ends. A tick that is
// asked for again before it has come keeps its time.
func TestTicksAreAMillisecondApart(t *testing.T) {
	at := []time.Duration{3 * time.Second, 3*time.Second + 1, 3*time.Second + 2}
	answers := ""
	for i, a := range at {
		answers += fmt.Sprintf(`read q; echo '{"id":%d,"at_ns":%d}'; `, i+1, a.Nanoseconds())
	}
	p, policy := taker(t, `,"asks":["tick"]`, answers+"read more")
	view, waiting := occupied(t)
	for i, c := range []struct{ now, want time.Duration }{{time.Second, at[0]}, {at[0] - 1, at[1]}, {at[1], at[1] + time.Millisecond}} {
		if got := policy.NextTick(waiting, view, c.now); got != c.want || p.Err() != nil {
			t.Errorf("answer %d: the next tick is at %v, want %v: %v", i, got, c.want, p.Err())
		}
	}
}
