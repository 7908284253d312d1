package external

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// What a program of version 2 may take back.

// Scheduler returns a scheduler for which the program decides, and which is what the program's greeting says.
func (p *Policy) Scheduler(s policies.Scheduler) policies.Scheduler {
	s.Policy = p
	if p.greeting.TakesBack {
		s.Policy, s.Revokes, s.Bursts = preempter{p}, true, p.greeting.Bursts
	}
	return s
}

// TakesBack reports whether the program takes memory back from processes.
func (p *Policy) TakesBack() bool { return p.greeting.TakesBack }

// preempter is a program that takes back.
type preempter struct{ *Policy }

var _ schedulers.Preempter = preempter{}

// How often the activity pages may be read, with lookEvery as the default, how long a revocation may take, and how far
// apart two ticks are at least: a simulated run with a tick at each nanosecond would not end. Clients know whole milliseconds.
const (
	leastWait = time.Millisecond
	lookEvery = 5 * time.Millisecond
	mostWait  = time.Hour
)

type (
	revokeQuestion struct {
		ID      uint64    `json:"id"`
		Kind    string    `json:"kind"` // revoke, or tick
		Now     int64     `json:"now_ns"`
		Waiting []request `json:"waiting"`
		Latest  *int      `json:"latest"`
		Devices []device  `json:"devices"`
	}
	revokeAnswer struct {
		ID          *uint64       `json:"id"`
		Revocations *[]revocation `json:"revocations"`
	}
	tickAnswer struct {
		ID *uint64 `json:"id"`
		At *int64  `json:"at_ns"` // left out: never
	}
)

func (a revokeAnswer) id() *uint64 { return a.ID }
func (a tickAnswer) id() *uint64   { return a.ID }

// request is a schedulers.Request.
type request struct {
	Task    task     `json:"task"`
	Bytes   int64    `json:"bytes"`
	Grows   bool     `json:"grows"`
	Stays   int64    `json:"stay_bytes"`
	Own     int64    `json:"own_bytes"`
	Asked   bool     `json:"asked"`
	Since   int64    `json:"since_ns"`
	Devices []*asked `json:"devices"`
}

// resident is a schedulers.TaskView.
type resident struct {
	Task          task     `json:"task"`
	Allocated     int64    `json:"allocated_bytes"`
	Resident      int64    `json:"resident_bytes"`
	Referenced    int64    `json:"referenced_bytes"`
	Fixed         int64    `json:"fixed_bytes"`
	Movable       int64    `json:"movable_bytes"`
	Running       bool     `json:"running"`
	Busy          bool     `json:"busy"`
	Last          int64    `json:"last_ns"`
	Permit        bool     `json:"permit"`
	PermitSince   int64    `json:"permit_since_ns"`
	Waited        int64    `json:"waited_ns"`
	Stopped       bool     `json:"stopped"`
	Lost          int64    `json:"lost_ns"`
	ResidentSince int64    `json:"resident_since_ns"`
	Can           []string `json:"can"`
	Asked         bool     `json:"asked"`
}

// revocation is a schedulers.Revocation.
type revocation struct {
	Task     *schedulers.TaskID `json:"task"`
	Action   string             `json:"action"`
	Bytes    int64              `json:"bytes"`
	Deadline *int64             `json:"deadline_ns"`
	For      *schedulers.TaskID `json:"for"` // left out: nobody
	Device   *int               `json:"device"`
}

var actions = []schedulers.Action{schedulers.Yield, schedulers.Evict, schedulers.Advise, schedulers.Move, schedulers.Stop}

func namesOf(can schedulers.Actions) []string {
	names := []string{}
	for _, a := range actions {
		if can.Has(a) {
			names = append(names, a.String())
		}
	}
	return names
}

func (p *Policy) residentsOf(d schedulers.DeviceView) []resident {
	out := []resident{}
	for t := range d.TaskViews() {
		r := resident{Task: p.taskOf(t.Task), Allocated: t.Allocated, Resident: t.Resident, Referenced: t.Referenced, Fixed: t.Fixed, Movable: t.Movable,
			Running: t.Running, Busy: t.Busy, Last: t.Last.Nanoseconds(), Permit: t.Permit, Stopped: t.Stopped, Lost: t.Lost.Nanoseconds(), ResidentSince: t.ResidentSince.Nanoseconds(), Can: namesOf(t.Can), Asked: t.Asked}
		if t.Permit {
			r.PermitSince, r.Waited = t.PermitSince.Nanoseconds(), t.Waited.Nanoseconds()
		}
		out = append(out, r)
	}
	return out
}

func (p preempter) question(id uint64, kind string, waiting []schedulers.Request, v schedulers.View) revokeQuestion {
	q := revokeQuestion{ID: id, Kind: kind, Now: p.now.Nanoseconds(), Waiting: []request{}, Latest: latestOf(v), Devices: p.devicesOf(v, nil)}
	for _, r := range waiting {
		of := request{Task: p.taskOf(r.Task), Bytes: r.Bytes, Grows: r.Grows, Stays: r.Task.Stays, Own: r.Own, Asked: r.Asked, Since: r.Since.Nanoseconds()}
		for i := range v.Len() {
			of.Devices = append(of.Devices, p.askedOf(v.Device(i), r.Task))
		}
		q.Waiting = append(q.Waiting, of)
	}
	return q
}

func (p preempter) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	p.Tell(now)
	var out []schedulers.Revocation
	ask(p.Policy, p.program.Timeout, fmt.Sprintf("take back for %d requests", len(waiting)), func(id uint64) any {
		return p.question(id, "revoke", waiting, v)
	}, func(a revokeAnswer) error {
		if a.Revocations == nil {
			return errors.New("it has no revocations: want a list, which may be empty")
		}
		for i, r := range *a.Revocations {
			checked, err := r.check(waiting, v)
			if err != nil {
				return fmt.Errorf("revocation %d: %w", i, err)
			}
			out = append(out, checked)
		}
		return nil
	})
	if p.err != nil {
		return nil
	}
	return out
}

// check refuses what cannot be. What can be and does not count now is the engine's to drop.
func (r revocation) check(waiting []schedulers.Request, v schedulers.View) (out schedulers.Revocation, err error) {
	action := slices.IndexFunc(actions, func(a schedulers.Action) bool { return a.String() == r.Action })
	switch {
	case r.Task == nil:
		return out, errors.New("it has no task: want the id of a resident, or of one that waits and is advised for itself")
	case action < 0:
		return out, fmt.Errorf("action is %q: want one of %q", r.Action, actionNames())
	case r.Deadline == nil || *r.Deadline < leastWait.Nanoseconds() || *r.Deadline > mostWait.Nanoseconds():
		return out, fmt.Errorf("deadline_ns: want nanoseconds from %d to %d", leastWait.Nanoseconds(), mostWait.Nanoseconds())
	}
	t, at, found := residentOf(*r.Task, v)
	if i := slices.IndexFunc(waiting, func(w schedulers.Request) bool { return w.Task.ID == *r.Task }); !found && i >= 0 && actions[action] == schedulers.Advise && r.For != nil && *r.For == *r.Task {
		t.Allocated, found = waiting[i].Task.Bytes, true
	}
	switch {
	case !found:
		return out, fmt.Errorf("task %d is not on a device: it can only be told to %s for itself, while it waits", *r.Task, schedulers.Advise)
	case r.Bytes < 0 || r.Bytes > t.Allocated:
		return out, fmt.Errorf("bytes is %d: want 0 or more, and no more than the %s that task %d has", r.Bytes, size.Text(t.Allocated), *r.Task)
	case r.For != nil && !slices.ContainsFunc(waiting, func(w schedulers.Request) bool { return w.Task.ID == *r.For }):
		return out, fmt.Errorf("it is for task %d, which has no request that waits: leave for out if it is for nobody", *r.For)
	}
	out = schedulers.Revocation{Task: *r.Task, Action: actions[action], Bytes: r.Bytes, Deadline: time.Duration(*r.Deadline), For: schedulers.Nobody}
	if r.For != nil {
		out.For = *r.For
	}
	switch moves := out.Action == schedulers.Move; {
	case moves && (r.Device == nil || *r.Device < 0 || *r.Device >= v.Len() || *r.Device == at):
		return out, fmt.Errorf("device: want where task %d moves to, from 0 to %d, and not %d, where it is", *r.Task, v.Len()-1, at)
	case moves:
		out.Device = *r.Device
	case r.Device != nil:
		return out, fmt.Errorf("device is of %s alone: leave it out", schedulers.Move)
	}
	return out, nil
}

func actionNames() (names []string) {
	for _, a := range actions {
		names = append(names, a.String())
	}
	return names
}

func residentOf(id schedulers.TaskID, v schedulers.View) (t schedulers.TaskView, device int, found bool) {
	for i := range v.Len() {
		for t := range v.Device(i).TaskViews() {
			if t.Task.ID == id {
				return t, i, true
			}
		}
	}
	return t, 0, false
}

func (p preempter) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	if !slices.Contains(p.greeting.Asks, asksTick) {
		return schedulers.Never
	}
	p.Tell(now)
	a := ask(p.Policy, p.program.Timeout, "say when it acts next", func(id uint64) any { return p.question(id, "tick", waiting, v) },
		func(a tickAnswer) error {
			if a.At != nil && time.Duration(*a.At) <= now {
				return fmt.Errorf("at_ns is %d: want a time after now, which is %d, or leave it out, which is never", *a.At, now.Nanoseconds())
			}
			return nil
		})
	if p.err != nil || a.At == nil {
		return schedulers.Never
	}
	if p.tick != 0 && p.tick <= now {
		p.ticked = p.tick
	}
	p.tick = time.Duration(*a.At)
	if p.ticked != 0 {
		p.tick = max(p.tick, p.ticked+leastWait)
	}
	return p.tick
}

func (p preempter) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	every := lookEvery
	if l := p.greeting.Looks; l != nil {
		every = time.Duration(*l)
	}
	if len(waiting) == 0 || every == 0 || p.err != nil {
		return schedulers.Never
	}
	return now.Truncate(every) + every
}
