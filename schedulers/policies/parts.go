package policies

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// The parts that policies share. A policy embeds one of MemoryHard and MemoryBlind, and
// IgnoresSMs unless it places blocks on SMs.

// MemoryHard admits tasks and growth only if the memory is free.
type MemoryHard struct {
	// Room is the share of a device, from 0 to below 1, that a task beside other jobs'
	// tasks leaves free for their growth.
	Room float64
	// Exceed allows oversubscription by managed memory: a managed task may be larger than
	// its device, which it then has alone.
	Exceed bool
}

// Admits returns whether t's memory may join d, and the placement. A managed task that
// exceeds the device is charged all of its memory and has the device alone. The driver
// moves the pages of such a task to and from the host, at its neighbours' expense.
func (m MemoryHard) Admits(t schedulers.Task, d schedulers.DeviceView) (schedulers.Placement, bool) {
	exceeds := m.Exceed && t.Managed
	if !exceeds && t.Bytes > d.FreeBytes() { // whatever its context takes, which is slower to ask
		return schedulers.Placement{}, false
	}
	limits, context := d.Limits(), d.ContextBytes(t)
	if exceeds && t.Bytes > limits.CapacityBytes-limits.ContextBytes {
		return schedulers.Placement{Exclusive: true, WholeMemory: true}, d.Tasks() == 0 && d.FreeBytes() >= context
	}
	left := d.FreeBytes() - context
	if d.Tasks() > d.TasksOf(t.Job) {
		left -= int64(m.Room * float64(limits.CapacityBytes))
	}
	return schedulers.Placement{}, t.Bytes <= left
}

// Measure is for policies that place a task wherever Admits says so.
func (m MemoryHard) Measure(t schedulers.Task, v schedulers.View, i int) (fresh, known int64) {
	d := v.Device(i)
	limits, free := d.Limits(), d.FreeBytes()
	fresh, known = free-limits.ContextBytes, free
	if m.Exceed && t.Managed && d.Tasks() == 0 { // one that exceeds the device may have any size
		if fresh >= 0 {
			fresh = math.MaxInt64
		}
		return fresh, math.MaxInt64
	}
	if d.Tasks() > 0 {
		fresh -= int64(m.Room * float64(limits.CapacityBytes))
	}
	return fresh, known
}

func (MemoryHard) CanGrow(bytes int64, d schedulers.DeviceView) bool { return bytes <= d.FreeBytes() }

// MemoryBlind has no knowledge of memory, so that only the driver refuses allocations.
type MemoryBlind struct{}

func (MemoryBlind) CanGrow(int64, schedulers.DeviceView) bool { return true }

// IgnoresSMs does not place blocks on SMs: a larger kernel changes only the warps in use.
type IgnoresSMs struct{}

func (IgnoresSMs) Like(t schedulers.Task) schedulers.Task { return schedulers.Task{Managed: t.Managed} }

func (IgnoresSMs) Reshape(_ schedulers.Task, at schedulers.Placement, _ schedulers.DeviceView) schedulers.Placement {
	return at
}

// RoundRobin returns the first device after the latest grant that ok accepts.
func RoundRobin(v schedulers.View, ok func(schedulers.DeviceView) bool) (schedulers.Placement, bool) {
	for i := range v.Len() {
		d := (v.Latest() + 1 + i) % v.Len()
		if ok(v.Device(d)) {
			return schedulers.Placement{Device: d}, true
		}
	}
	return schedulers.Placement{}, false
}

// The parts that Preempters share.

const (
	// closing is how long a process may take to finish what it submitted: twice the 50 ms of work
	// that a revocable process submits at most.
	closing = 100 * time.Millisecond
	// lookEvery is how often activity pages are read while a request waits.
	lookEvery = 5 * time.Millisecond
)

// Looks asks for the activity pages every 5 ms while a request waits, so that the policy learns which tasks are
// idle. The looks keep their times whatever else happens. The policy never acts without another event.
type Looks struct{}

func (Looks) NextTick([]schedulers.Request, schedulers.View, time.Duration) time.Duration {
	return schedulers.Never
}

func (Looks) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	if len(waiting) == 0 {
		return schedulers.Never
	}
	return now.Truncate(lookEvery) + lookEvery
}

// needFits reports whether what t must have on d is free there, with a context if t's process has none.
func needFits(t schedulers.Task, d schedulers.DeviceView) bool {
	return t.Needs() <= d.FreeBytes()-d.ContextBytes(t)
}

// missing returns how much of what r needs is not free on d.
func missing(r schedulers.Request, d schedulers.DeviceView) int64 {
	return r.Bytes + d.ContextBytes(r.Task) - d.FreeBytes()
}

// later is so long after a time, or never.
func later(at, by time.Duration) time.Duration { return at + min(by, schedulers.Never-at) }

// makeRoom asks for room on the first of the devices where there is somebody to ask, as room says. A request for several devices
// wants so many of them, counting those where the memory is free.
func makeRoom(r schedulers.Request, devices []int, v schedulers.View, room func(device int, d schedulers.DeviceView) []schedulers.Revocation) []schedulers.Revocation {
	var out []schedulers.Revocation
	wanted := max(1, r.Task.Terms.OrNone().Devices)
	for _, i := range devices {
		d := v.Device(i)
		if r.Task.Several() && missing(r, d) <= 0 {
			wanted--
		} else if asked := room(i, d); len(asked) > 0 {
			out = append(out, asked...)
			wanted--
		}
		if wanted == 0 {
			return out
		}
	}
	return nil
}

// byLoad returns the devices that t may have, the one with the least memory in use first.
func byLoad(t schedulers.Task, v schedulers.View) []int {
	own, bound := home(t, v)
	out := make([]int, 0, v.Len())
	for i := range v.Len() {
		if v.Device(i).Open(t) && (!bound || i == own) {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(v.Device(a).UsedBytes(), v.Device(b).UsedBytes()) })
	return out
}

// home returns the device where t's process has a context, if t can ever have that device. A task
// that must have some device goes there, whatever its process has. One that has several has no home.
func home(t schedulers.Task, v schedulers.View) (int, bool) {
	if t.OnDevice != nil || t.Several() {
		return 0, false
	}
	process := t.Process()
	for i := range v.Len() {
		d := v.Device(i)
		if here, _ := d.Context(process); here && !d.Closed() && t.Needs() <= d.Limits().CapacityBytes-d.Limits().ContextBytes {
			return i, true
		}
	}
	return 0, false
}

// queue is the requests that wait, and where each task's own request is among them.
type queue struct {
	waiting []schedulers.Request
	places  map[schedulers.TaskID]int // made when first asked for
}

// position returns where t's own request is; -1 if it has none.
func (q *queue) position(t schedulers.TaskView) int {
	if q.places == nil {
		q.places = make(map[schedulers.TaskID]int, len(q.waiting))
		for i := len(q.waiting) - 1; i >= 0; i-- { // the first, if there are several
			q.places[q.waiting[i].Task.ID] = i
		}
	}
	if i, waits := q.places[t.Task.ID]; waits {
		return i
	}
	return -1
}

// idle reports whether t gives way to the request at a place: if it does not run and its device has done its work, or
// it waits behind that request. Without the second, tasks that have part of what they need would wait for each
// other.
func (q *queue) idle(t schedulers.TaskView, at int) bool { return givesWay(t, q.position(t), at) }

// givesWay is idle for a task whose own request is at a place, or -1.
func givesWay(t schedulers.TaskView, own, at int) bool {
	if own >= 0 {
		return own > at
	}
	return !t.Running && !t.Busy
}

// making is what is asked for so that a request fits on a device.
type making struct {
	request schedulers.Request
	lacks   int64 // bytes that nobody is asked for yet
	asked   []schedulers.Revocation
}

func makingFor(r schedulers.Request, d schedulers.DeviceView) making {
	return making{request: r, lacks: missing(r, d)}
}

// take asks a task for what is lacking, as far as it has so much.
func (m *making) take(task schedulers.TaskID, a schedulers.Action, bytes int64) {
	m.takeIn(closing, task, a, bytes)
}

// takeIn is take with a deadline.
func (m *making) takeIn(deadline time.Duration, task schedulers.TaskID, a schedulers.Action, bytes int64) {
	if bytes = min(bytes, m.lacks); bytes > 0 {
		m.lacks -= bytes
		m.asked = append(m.asked, schedulers.Revocation{Task: task, Action: a, Bytes: bytes, Deadline: deadline, For: m.request.Task.ID})
	}
}

// own takes what the request's own task can be asked to evict.
func (m *making) own() { m.take(m.request.Task.ID, schedulers.Evict, m.request.Own) }

// taker is a task that can be asked for memory.
type taker struct {
	schedulers.TaskView
	place int // of its own request, or -1
}

// takers are such tasks of each device, the least recently active first. The tasks of a device are gathered once for all
// requests.
type takers struct {
	queue
	of [][]taker
}

func takersOf(waiting []schedulers.Request, v schedulers.View) *takers {
	return &takers{queue: queue{waiting: waiting}, of: make([][]taker, v.Len())}
}

func (a *takers) on(device int, d schedulers.DeviceView) []taker {
	if a.of[device] == nil {
		a.of[device] = []taker{}
		for t := range d.TaskViews() {
			if t.Movable > 0 && t.CanAsk(schedulers.Yield) {
				a.of[device] = append(a.of[device], taker{t, a.position(t)})
			}
		}
		slices.SortStableFunc(a.of[device], func(x, y taker) int { return cmp.Compare(x.Last, y.Last) })
	}
	return a.of[device]
}

// idle takes what is lacking from the tasks on a device that give way to the request at a place. keeps: whether one that does not run
// keeps its memory.
func (a *takers) idle(m *making, at, device int, d schedulers.DeviceView, keeps func(schedulers.TaskView) bool) {
	for _, t := range a.on(device, d) {
		if m.lacks <= 0 {
			return
		}
		if t.Task.ID != m.request.Task.ID && givesWay(t.TaskView, t.place, at) && (t.place >= 0 || !keeps(t.TaskView)) {
			m.take(t.Task.ID, schedulers.Yield, t.Movable)
		}
	}
}

// makeRooms asks for room for each request in turn.
func makeRooms(waiting []schedulers.Request, v schedulers.View, room func(all *takers, at, device int, d schedulers.DeviceView) []schedulers.Revocation) []schedulers.Revocation {
	return makeRoomsFirst(waiting, v, func(schedulers.Request) bool { return false }, room)
}

// makeRoomsFirst is makeRooms where some requests come first.
func makeRoomsFirst(waiting []schedulers.Request, v schedulers.View, first func(schedulers.Request) bool, room func(all *takers, at, device int, d schedulers.DeviceView) []schedulers.Revocation) []schedulers.Revocation {
	var out []schedulers.Revocation
	all := takersOf(waiting, v)
	for _, leads := range []bool{true, false} {
		for at, r := range waiting {
			if r.Asked || first(r) != leads {
				continue
			}
			devices := byLoad(r.Task, v)
			if r.Grows {
				devices = []int{*r.Task.OnDevice}
			}
			out = append(out, makeRoom(r, devices, v, func(i int, d schedulers.DeviceView) []schedulers.Revocation { return room(all, at, i, d) })...)
		}
	}
	return out
}
