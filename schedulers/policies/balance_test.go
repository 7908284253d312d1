package policies_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

// unequal is a node of devices with these speeds.
func unequal(t *testing.T, scheduler string, speeds ...float64) enginetest.Node {
	t.Helper()
	var devices []schedulers.Device
	for _, s := range speeds {
		d := enginetest.Small
		d.Speed = s
		devices = append(devices, d)
	}
	return enginetest.NewNode(t, scheduler, devices...)
}

// A context goes from the slowest device that is slower to an idle one, once it has had its slot for a second, if nothing waits.
func TestBalancing(t *testing.T) {
	for _, scheduler := range []string{"vgpu:n=2,balance=on", "vgpu-preempt:balance=on"} {
		n := unequal(t, scheduler, 4, 2, 1)
		for i, at := range []string{"1@0", "2@1", "3@2", "4@0", "5@1", "6@2"} {
			n.Submit(moving(schedulers.TaskID(i+1), 2), at)
		}
		if next := n.Engine.NextTick(); next != schedulers.Never {
			t.Errorf("%s: no device is idle, and the next tick is at %v", scheduler, next)
		}
		n.Finish(1, "")
		n.Submit(moving(7, 1), "7@0")
		n.Finish(7, "")
		n.Finish(4, "")
		if next := n.Engine.NextTick(); next != 100*ms {
			t.Errorf("%s: the next tick is at %v", scheduler, next)
		}
		n.Tick(900*ms, "")
		n.Tick(time.Second, "move(3,2)") // the longest assigned of the slowest
		if r := n.Revocation(3); r.Device != 0 || r.For != schedulers.Nobody || r.Deadline != time.Second {
			t.Errorf("%+v", r)
		}
		if next := n.Engine.NextTick(); next != schedulers.Never {
			t.Errorf("%s: no device is idle any more, and the next tick is at %v", scheduler, next)
		}
		n.Answer(3, schedulers.Done, 2, 1100*ms, "")
		n.Finish(2, "")
		n.Finish(5, "")
		n.Tick(1200*ms, "move(6,2)") // to device 1, which is faster than device 2 and not than device 0
		n.Answer(6, schedulers.Busy, 2, 1300*ms, "")
		n.Tick(1400*ms, "")
		n.Tick(2300*ms, "move(6,2)")
		n.Answer(6, schedulers.Done, 2, 2400*ms, "")
		n.Finish(3, "") // device 0 is idle again, and task 6 has just come
		n.Tick(3200*ms, "")
		n.Tick(3300*ms, "move(6,2)")
	}
}

// What moves nothing.
func TestNoBalancing(t *testing.T) {
	for name, c := range map[string]struct {
		scheduler string
		speeds    []float64
		task      schedulers.Task
	}{
		"off":                   {"vgpu", []float64{2, 1}, moving(1, 2)},
		"to a slower device":    {"vgpu:balance=on", []float64{1, 2}, moving(1, 2)},
		"to one that is alike":  {"vgpu:balance=on", []float64{1, 1}, moving(1, 2)},
		"as the SMs say":        {"vgpu:balance=on", []float64{0, 0}, moving(1, 2)},
		"as the weights say":    {"vgpu:balance=on,weights=1:2", []float64{2, 1}, moving(1, 2)},
		"what cannot move":      {"vgpu:balance=on", []float64{2, 1}, movable(1, 2)},
		"what must be there":    {"vgpu:balance=on", []float64{2, 1}, schedulers.Task{ID: 1, Bytes: 2, OnDevice: new(1), Can: moving(1, 2).Can}},
		"what does not fit":     {"vgpu-preempt:n=1,balance=on", []float64{2, 1}, moving(1, 14)},
		"a process of two":      {"vgpu:balance=on", []float64{2, 1}, schedulers.Task{ID: 1, Job: 9, Bytes: 2, Can: moving(1, 2).Can}},
		"beside a request":      {"vgpu-preempt:n=1,balance=on", []float64{2, 1}, moving(1, 2)},
		"on a node of one only": {"vgpu:balance=on", []float64{2}, moving(1, 2)},
	} {
		n := unequal(t, c.scheduler, c.speeds...)
		first := schedulers.Task{ID: 8, Job: 8, Bytes: 4, Can: schedulers.Movable}
		n.Submit(first, "8@0")
		last := len(c.speeds) - 1
		n.Submit(c.task, "1@"+string(rune('0'+last)))
		switch name {
		case "a process of two":
			n.Submit(schedulers.Task{ID: 2, Job: 9, Bytes: 2, Can: moving(1, 2).Can}, "2@1")
			n.Finish(8, "")
		case "beside a request":
			n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 2, OnDevice: new(1), Can: schedulers.Movable}, "")
			n.Finish(8, "")
		case "what does not fit":
			n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 2, OnDevice: new(0)}, "")
			preempted(n, 8, ms, "2@0")
			n.Finish(2, "") // nobody has a slot there, and what task 8 has leaves 12 bytes
		default:
			n.Finish(8, "")
		}
		n.Tick(2*time.Second, "")
		if next := n.Engine.NextAct(); next != schedulers.Never {
			t.Errorf("%s: the next tick is at %v", name, next)
		}
	}
}

func TestWeightsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"vgpu:weights=2:1":                         "they count only with balance=on",
		"vgpu:balance=on,weights=2:1:1":            "want one for each of the node's 2 devices",
		"vgpu-preempt:balance=on,weights=2:0":      `"0": want a number above 0 for each device, as in 4:4:1`,
		"vgpu:balance=on,weights=2:NaN":            `"NaN": want a number above 0`,
		"vgpu:balance=yes":                         "use on or off",
		"vgpu-preempt:balance=on,weights=fast:off": `"fast": want a number`,
	} {
		if _, err := policies.Parse(text, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if s, err := policies.Parse("vgpu:balance=on,weights=2:0.5", 2); err != nil || !strings.Contains(s.Parameters(), "balance=on") || !strings.Contains(s.Parameters(), "weights=2:0.5") {
		t.Errorf("%q, %v", s.Parameters(), err)
	}
	if _, err := policies.Parse("vgpu:balance=on,weights=2:0.5", policies.AnyDevices); err != nil {
		t.Errorf("before the node is known: %v", err)
	}
}
