// Package schedtest checks that a registered scheduler keeps the rules of all schedulers, on
// random nodes and random workloads.
package schedtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// Rules are what a scheduler promises beyond the rules common to all.
type Rules struct {
	MemoryHard      bool // a device's capacity is never exceeded
	OneJobPerDevice bool
	tracksSMs       bool // free slots per SM are kept, and an oversized task is alone
	Selective       bool // a task whose memory fits may have to wait, for reasons that the policy alone knows
}

// hidesTurns: only the policy can tell whose turn it is.
func (r Rules) hidesTurns() bool { return r.tracksSMs || r.Selective }

// Subject is a scheduler that is checked.
type Subject struct {
	Info policies.Info
	// Settle makes the scheduler for a node of so many devices. The parameters are drawn, and written
	// as in a scheduler's text.
	Settle func(parameters string, devices int) (policies.Scheduler, error)
}

// Registered is a scheduler whose policy is in package policies.
func Registered(info policies.Info) Subject {
	return Subject{info, func(parameters string, devices int) (policies.Scheduler, error) {
		return policies.Parse(policies.With(info.Name, parameters), devices)
	}}
}

// Workload is a property that holds if the scheduler keeps the rules on a random workload. queue is one
// of its queue orders, or "" if the scheduler does not have the parameter.
func (s Subject) Workload(queue engine.Order, rules Rules) func(*rapid.T) {
	return func(rt *rapid.T) {
		m := newMachine(rt, s, queue, rules)
		rt.Repeat(map[string]func(*rapid.T){
			"submit":  m.submit,
			"several": m.several,
			"overlap": m.overlap,
			"join":    m.join,
			"release": m.release,
			"vanish":  m.vanish,
			"grow":    m.grow,
			"shrink":  m.shrink,
			"shape":   m.shape,
			"look":    m.look,
			"settle":  m.settle,
			"exit":    m.exit,
			"expire":  m.expire,
			"restart": m.startAgain,
			"":        m.check,
		})
		m.drain(rt)
	}
}

// machine drives an engine and an exhaustive one through the same calls and keeps its
// own books of what their decisions mean.
type machine struct {
	engine    *engine.Engine
	twin      *engine.Engine // exhaustive
	scheduler policies.Scheduler
	devices   []schedulers.Device
	rules     Rules
	exceed    bool                     // the scheduler's parameter managed
	shares    bool                     // jobs ask for parts of a device's time
	restarts  map[schedulers.JobID]int // how often jobs may still be started again; nil: none may
	again     []schedulers.Decision    // of jobs that are to start again
	books     books
	now       time.Duration
	lastTask  schedulers.TaskID
	lastJob   schedulers.JobID
}

func newMachine(rt *rapid.T, of Subject, queue engine.Order, rules Rules) *machine {
	m := &machine{devices: drawNode(rt), rules: rules}
	s, err := of.Settle(drawParameters(rt, of.Info, queue), len(m.devices))
	if err != nil {
		rt.Fatal(err)
	}
	m.scheduler = s
	m.shares = s.TakesShares() && rapid.Bool().Draw(rt, "shares")
	if rapid.Bool().Draw(rt, "restarts") {
		m.restarts = map[schedulers.JobID]int{}
	}
	m.exceed = strings.Contains(s.Parameters(), "managed=exceed")
	if m.engine, m.twin, err = twins(m.devices, s); err != nil {
		rt.Fatal(err)
	}
	where := memory{only: -1, exceed: m.exceed}
	if s.Name == "schedgpu" {
		where.only = 0
	}
	if _, room, ok := strings.Cut(s.Parameters(), "room="); ok {
		if _, err := fmt.Sscan(strings.Split(room, ",")[0], &where.room); err != nil {
			rt.Fatal(err)
		}
	}
	m.books = newBooks(m.devices, rules, where, s.Config)
	return m
}

// both makes the same call on the engine and on the exhaustive one, checks that they agree, and enters
// the decisions.
func (m *machine) both(rt *rapid.T, call func(*engine.Engine) ([]schedulers.Decision, error)) {
	rt.Helper()
	for _, e := range []*engine.Engine{m.engine, m.twin} {
		e.Spend(m.now)
	}
	got, err := call(m.engine)
	if err != nil {
		rt.Fatal(err)
	}
	again, err := call(m.twin)
	if err != nil {
		rt.Fatal(err)
	}
	failIfFailed(rt, m.scheduler.Policy)
	if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
		rt.Fatalf("the engine and the exhaustive engine decide differently (-engine +exhaustive):\n%s", diff)
	}
	logDecisions(rt, got)
	for _, d := range got {
		if err := m.books.enter(d, m.now); err != nil {
			rt.Fatalf("decision %v of task %d (job %d) on device %d: %v", d.Kind, d.Task.ID, d.Task.Job, d.Device, err)
		}
		if d.Kind == schedulers.Restart {
			m.again = append(m.again, d)
		}
	}
	if m.rules.MemoryHard {
		checkRoom(rt, got, m.engine, func(id schedulers.TaskID) bool { return m.books.entries[id].whole })
	}
}

// PolicyFailed is why a workload fails whose policy can decide no more. The policy says more.
const PolicyFailed = "the policy has failed"

// failIfFailed ends a workload whose policy can decide no more. Why is logged, because rapid wants
// the same error of the same workload, and an answer that is quoted may have a number of its own.
func failIfFailed(rt *rapid.T, p schedulers.Policy) {
	if f, ok := p.(schedulers.Fallible); ok && f.Err() != nil {
		failWith(rt, f.Err())
	}
}

func failWith(rt *rapid.T, err error) {
	rt.Logf("%s%v", failed, err)
	rt.Fatal(PolicyFailed)
}

func (m *machine) submit(rt *rapid.T) {
	job := m.lastJob + 1
	if m.scheduler.Binds == policies.BindsTask {
		job = rapid.SampledFrom(append(m.books.severalTasks(), job)).Draw(rt, "job")
	}
	task := drawTask(rt, m.lastTask+1, job, len(m.devices), m.scheduler.Config.Queue)
	if m.scheduler.Binds == policies.BindsTask {
		task.Serial = rapid.IntRange(0, 1).Draw(rt, "process")
	}
	m.enter(rt, task)
}

// several submits a task of a new job for several devices, and sometimes for more than there are.
func (m *machine) several(rt *rapid.T) {
	task := drawTask(rt, m.lastTask+1, m.lastJob+1, len(m.devices), m.scheduler.Config.Queue)
	terms := *task.Terms.OrNone()
	terms.Devices = rapid.IntRange(2, len(m.devices)+1).Draw(rt, "devices")
	task.Terms, task.OnDevice, task.Managed = &terms, nil, false
	m.enter(rt, task)
}

// overlap lets a process that holds a task request a second task, which is often too large to
// fit beside the first.
func (m *machine) overlap(rt *rapid.T) {
	if m.scheduler.Binds != policies.BindsTask {
		rt.Skip("a job is one task")
	}
	e := m.books.entries[m.pickOne(rt)]
	m.enter(rt, schedulers.Task{ID: m.lastTask + 1, Job: e.task.Job, Serial: e.task.Serial,
		Bytes: rapid.Int64Range(0, m.devices[e.device].CapacityBytes).Draw(rt, "bytes")})
}

// join submits a small task of a new job.
func (m *machine) join(rt *rapid.T) {
	m.enter(rt, schedulers.Task{ID: m.lastTask + 1, Job: m.lastJob + 1, Bytes: rapid.Int64Range(0, 4).Draw(rt, "bytes")})
}

// enter submits the task.
func (m *machine) enter(rt *rapid.T, task schedulers.Task) {
	if m.shares && !task.Several() {
		terms := *task.Terms.OrNone()
		terms.Share = []int{0, 300_000, 500_000, schedulers.WholeDevice}[task.Job%4]
		task.Terms = &terms
	}
	if m.restarts != nil && !task.Several() {
		if _, known := m.restarts[task.Job]; !known {
			m.restarts[task.Job] = int(task.Job % 3)
		}
		terms := *task.Terms.OrNone()
		terms.Restarts = m.restarts[task.Job]
		task.Terms = &terms
	}
	logTask(rt, task)
	m.lastTask, m.lastJob = task.ID, max(m.lastJob, task.Job)
	m.books.wait(task, m.now)
	couldGo := m.couldGo(task.ID)
	deadlock := m.books.deadlock() // a refusal then does not depend on the task's size
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Submit(task, m.now) })
	if pin := task.OnDevice; pin != nil && *pin >= len(m.devices) && m.books.entries[task.ID].state != refused {
		rt.Fatalf("task for device %d was not refused at once", *pin)
	}
	if m.books.entries[task.ID].state == asking {
		rt.Fatalf("task %d does not wait and has no answer", task.ID)
	}
	if went := m.books.entries[task.ID].state == held; couldGo != nil && went != *couldGo {
		rt.Fatalf("task %d does not wait; it was granted: %v, its turn was then: %v", task.ID, went, *couldGo)
	}
	if e := m.books.entries[task.ID]; e.state == refused && e.expires > m.now && m.rules.MemoryHard && !deadlock {
		fit := 0
		for i, d := range m.devices {
			fits := task.Bytes <= d.CapacityBytes-d.ContextBytes || task.Managed && m.exceed
			if task.OnDevice != nil && *task.OnDevice != i {
				fits = false
			}
			if fits && (m.scheduler.Name != "schedgpu" || i == 0) {
				fit++
			}
		}
		if fit >= max(1, task.Terms.OrNone().Devices) {
			rt.Fatalf("task of %d bytes refused at once, but it fits %d empty devices of %+v", task.Bytes, fit, m.devices)
		}
	}
}

// startAgain ends a job that is to start again, and starts it as another with one restart less. The last time it is alone.
func (m *machine) startAgain(rt *rapid.T) {
	if len(m.again) == 0 {
		rt.Skip("no job starts again")
	}
	d := m.again[0]
	m.again = m.again[1:]
	if !m.books.living[d.Task.Job] {
		rt.Skip("it has ended meanwhile")
	}
	m.exitJob(rt, d.Task.Job)
	job, left := m.lastJob+1, m.restarts[d.Task.Job]-1
	m.restarts[job] = left
	m.enter(rt, schedulers.Task{ID: m.lastTask + 1, Job: job, Bytes: d.Bytes, Isolate: left == 0, OnDevice: d.Task.OnDevice})
}

func (m *machine) release(rt *rapid.T) {
	id := m.pick(rt, waiting, held, growing)
	m.books.end(id)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Release(id) })
}

// vanish ends a process that has made a request, while its job lives on.
func (m *machine) vanish(rt *rapid.T) {
	process := m.books.entries[m.pick(rt, waiting, held, growing, ended)].task.Process()
	m.books.exit(func(p schedulers.Process) bool { return p == process })
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.ProcessExit(process), nil })
}

// settle ends every task, while all processes live on.
func (m *machine) settle(rt *rapid.T) {
	for _, id := range m.books.in(held, growing) {
		m.books.end(id)
		m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Release(id) })
	}
}

func (m *machine) grow(rt *rapid.T) {
	id := m.pickOne(rt)
	bytes := drawBytes(rt, "grow by")
	wait := drawWait(rt)
	m.books.grow(id, bytes, wait, m.now)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Grow(id, bytes, wait, m.now) })
	if e := m.books.entries[id]; e.state == growing && e.expires == m.now {
		rt.Fatalf("growth of task %d does not wait and has no answer", id)
	}
}

func (m *machine) shrink(rt *rapid.T) {
	id := m.pickOne(rt)
	bytes := rapid.Int64Range(0, m.books.entries[id].bytes).Draw(rt, "shrink by")
	m.books.shrink(id, bytes)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Shrink(id, bytes) })
}

func (m *machine) shape(rt *rapid.T) {
	id := m.pickOne(rt)
	blocks, threads, perSM := drawBlocks(rt), drawThreads(rt), drawBlocksPerSM(rt)
	m.books.shape(id, blocks, threads, perSM)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) {
		return e.Shape(id, blocks, threads, perSM)
	})
}

func (m *machine) exit(rt *rapid.T) {
	jobs := m.books.jobs()
	if len(jobs) == 0 {
		rt.Skip("no job lives")
	}
	m.exitJob(rt, rapid.SampledFrom(jobs).Draw(rt, "exiting job"))
}

func (m *machine) exitJob(rt *rapid.T, job schedulers.JobID) {
	m.books.exit(func(p schedulers.Process) bool { return p.Job == job })
	delete(m.books.living, job)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.JobExit(job), nil })
}

func (m *machine) expire(rt *rapid.T) {
	m.now += time.Duration(rapid.IntRange(0, 10).Draw(rt, "seconds")) * time.Second
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Expire(m.now), nil })
	next := schedulers.Never
	for _, id := range m.books.in(waiting, growing) {
		next = min(next, m.books.entries[id].expires)
	}
	if got := m.engine.NextExpiry(); got != next || next <= m.now {
		rt.Fatalf("at %v the next wait is over at %v, and is said to be at %v", m.now, next, got)
	}
}

func (m *machine) pick(rt *rapid.T, states ...state) schedulers.TaskID {
	ids := m.books.in(states...)
	if len(ids) == 0 {
		rt.Skip("no such task")
	}
	return rapid.SampledFrom(ids).Draw(rt, "task")
}

// pickOne picks a task that has one device.
func (m *machine) pickOne(rt *rapid.T) schedulers.TaskID {
	id := m.pick(rt, held)
	if m.books.entries[id].task.Several() {
		rt.Skip("it has several devices")
	}
	return id
}

// drain lets the jobs exit one by one. A task may wait only while another job holds something.
// At the end the node must be as it was at the start.
func (m *machine) drain(rt *rapid.T) {
	m.settleTurns(rt)
	for {
		jobs := m.books.jobs()
		if len(jobs) == 0 {
			break
		}
		holders := m.books.holders()
		if len(holders) == 0 {
			rt.Fatalf("the node is empty, and tasks %v still wait", m.books.in(waiting))
		}
		m.exitJob(rt, rapid.SampledFrom(holders).Draw(rt, "next to exit"))
		m.check(rt)
	}
	fresh, err := engine.New(m.devices, m.scheduler.Policy, m.scheduler.Config)
	if err != nil {
		rt.Fatal(err)
	}
	for i := range m.devices {
		want, got := useOf(fresh.View().Device(i)), useOf(m.engine.View().Device(i))
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("device %d after all jobs have gone (-want +got):\n%s", i, diff)
		}
	}
	if m.engine.Waiting() != 0 || m.engine.NextExpiry() != schedulers.Never {
		rt.Fatalf("%d tasks wait and %v is the next expiry after all jobs have gone", m.engine.Waiting(), m.engine.NextExpiry())
	}
}

// use is what tasks and jobs hold of a device.
type use struct {
	Bytes       int64
	Warps       uint64
	Tasks, Jobs int
	Saturated   bool
	SMs         []schedulers.SM
}

func useOf(d schedulers.DeviceView) use {
	u := use{Bytes: d.UsedBytes(), Warps: d.UsedWarps(), Tasks: d.Tasks(), Jobs: d.Jobs(), Saturated: d.Saturated()}
	for i := range d.Limits().SMs {
		u.SMs = append(u.SMs, d.SM(i))
	}
	return u
}

// drawParameters returns random values of the scheduler's parameters, as in its text.
func drawParameters(rt *rapid.T, info policies.Info, queue engine.Order) string {
	var values []string
	for _, p := range info.Params {
		switch p.Name {
		case "queue":
			values = append(values, "queue="+string(queue))
		case "age-limit":
			values = append(values, "age-limit="+rapid.SampledFrom([]string{"0", "1", "2", "5"}).Draw(rt, "age limit"))
		case "wait-limit":
			values = append(values, "wait-limit="+rapid.SampledFrom([]string{"0s", "3s", "20s"}).Draw(rt, "wait limit"))
		case "room":
			values = append(values, "room="+rapid.SampledFrom([]string{"0", "0.1", "0.5"}).Draw(rt, "room"))
		case "managed":
			values = append(values, "managed="+rapid.SampledFrom([]string{"fit", "exceed"}).Draw(rt, "managed"))
		case "n":
			values = append(values, "n="+rapid.SampledFrom([]string{"1", "2", "4"}).Draw(rt, "slots"))
		case "balance":
			values = append(values, "balance="+rapid.SampledFrom([]string{"off", "on"}).Draw(rt, "balance"))
		case "victims":
			values = append(values, "victims="+rapid.SampledFrom([]string{"0", "1"}).Draw(rt, "victims"))
		case "wait":
			values = append(values, "wait="+rapid.SampledFrom([]string{"10ms", "2s", "10s"}).Draw(rt, "patience"))
		case "linger":
			values = append(values, "linger="+rapid.SampledFrom([]string{"auto", "0s", "20ms", "1h"}).Draw(rt, "linger"))
		case "estimate":
			values = append(values, "estimate="+rapid.SampledFrom([]string{"referenced", "allocated"}).Draw(rt, "estimate"))
		case "tq":
			values = append(values, "tq="+rapid.SampledFrom([]string{"100ms", "30s"}).Draw(rt, "turn"))
		case "workers":
			values = append(values, "workers="+rapid.SampledFrom([]string{"1", "3", "0"}).Draw(rt, "workers"))
		}
	}
	return strings.Join(values, ",")
}
