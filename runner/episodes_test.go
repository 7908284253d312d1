package runner_test

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// Behind a fault nothing stands still, nobody is admitted to a server that is known to be broken, and no innocent is
// named, whoever the neighbours are. The times are those seen on H200s (docs/results/faults.md).
func TestEpisodesBehindAFault(t *testing.T) {
	faults := 0
	for seed := range chance.Seeds(t, 80, 4000) {
		w := newNode(t, seed)
		w.run()
		if w.faultedAt != schedulers.Never {
			faults++
		}
	}
	if faults < 40 {
		t.Errorf("%d episodes had a fault: the test shows little", faults)
	}
}

const ms = time.Millisecond

// node is an executor whose programs run in steps of a virtual time, and whose MPS server breaks.
type node struct {
	t     *testing.T
	name  string
	rng   *rand.Rand
	batch batch
	now   time.Duration
	queue steps

	programs  []*neighbour
	asked     map[schedulers.TaskID]func(device int)
	code      int  // of the fault
	hidden    bool // who is told, is told only that the devices are unavailable, and the log has nothing
	scheduler string
	devices   int

	broken    bool // the server is in state FAULT
	device    int  // of the fault
	faultedAt time.Duration
	known     bool // to the batch
	admitted  bool // a program although the batch knew
}

// neighbour is a job of one process.
type neighbour struct {
	job          int
	role         string
	contexts     map[int]bool // by device
	device       int          // of its task
	held         schedulers.TaskID
	lost         bool          // its context
	told         bool          // of that
	ended        time.Duration // Never: it has not
	since, until time.Duration // its kernels, as libcase tells them (runner/blame)
	kernel       int           // how many it has begun
}

func newNode(t *testing.T, seed uint64) *node {
	w := &node{t: t, rng: rand.New(rand.NewPCG(seed, 50)), asked: map[schedulers.TaskID]func(int){}, faultedAt: schedulers.Never}
	w.code = []int{700, 716, 716, 719}[w.rng.IntN(4)]
	w.hidden = w.code == 716 && w.rng.IntN(3) == 0
	w.scheduler = []string{"case-alg3", "schedgpu", "vgpu:n=4", "demand"}[w.rng.IntN(4)]
	w.devices = 1 + w.rng.IntN(2)
	roles := []string{"fault"}
	for range 1 + w.rng.IntN(4) {
		roles = append(roles, []string{"cycle", "ignores", "host", "wait", "copies"}[w.rng.IntN(5)])
	}
	w.rng.Shuffle(len(roles), func(i, j int) { roles[i], roles[j] = roles[j], roles[i] })
	for i, role := range append(roles, "new") {
		w.programs = append(w.programs, &neighbour{job: i, role: role, contexts: map[int]bool{}, ended: schedulers.Never, since: schedulers.Never})
	}
	w.name = fmt.Sprintf("seed %d: error %d under %s on %d devices, %q", seed, w.code, w.scheduler, w.devices, append(roles, "new"))
	return w
}

func (w *node) run() {
	w.t.Helper()
	scheduler, err := policies.Parse(w.scheduler, w.devices)
	if err != nil {
		w.t.Fatal(err)
	}
	jobs := make([]mixes.Job, len(w.programs))
	for i, p := range w.programs {
		jobs[i] = mixes.Job{Name: p.role, Program: "neighbours"}
	}
	devices := make([]schedulers.Device, w.devices)
	for i := range devices {
		devices[i] = schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	}
	rec := newTape()
	ended, err := runner.Run(w.t.Context(), runner.Config{Jobs: jobs, Devices: devices, Scheduler: scheduler, MPS: true}, w, rec)
	if err != nil {
		w.t.Fatalf("%s: %v", w.name, err)
	}
	for i, j := range ended {
		p := w.programs[i]
		switch culprit := p.role == "fault"; {
		case *j.Outcome == results.Fault && !culprit:
			w.t.Errorf("%s: job %d is innocent, and %s (%s)", w.name, i, *j.Outcome, j.Detail)
		case *j.Outcome == results.OK && p.lost && !culprit, *j.Outcome != results.OK && !p.lost:
			w.t.Errorf("%s: job %d is %s (%s); context lost: %v", w.name, i, *j.Outcome, j.Detail, p.lost)
		case p.role == "new" && w.faultedAt != schedulers.Never && !w.hidden && p.ended > w.faultedAt+5*time.Second:
			w.t.Errorf("%s: the fault was at %v, and the newcomer ended at %v", w.name, w.faultedAt, p.ended)
		}
	}
	for _, e := range rec.events {
		if e.Kind == results.EventCulprit && w.programs[*e.Job].role != "fault" {
			w.t.Errorf("%s: job %d is named: %s", w.name, *e.Job, e.Detail)
		}
	}
	if w.admitted {
		w.t.Errorf("%s: a program was let in to a server that was known to be broken", w.name)
	}
}

// ---- the programs

func (w *node) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)))
}

// program begins what a job does, on a device of 16 bytes, where the newcomer has no room before the fault.
func (w *node) program(p *neighbour) {
	end := w.now + w.between(4*time.Second, 10*time.Second)
	switch p.role {
	case "fault":
		w.hold(p, 6, func() { w.faults(p, w.now+w.between(time.Second, 2*time.Second)) })
	case "cycle", "ignores":
		w.cycle(p, end)
	case "host":
		w.hold(p, 2, func() {
			w.works(p, ms, func() { w.after(8*time.Second, p, func() { w.call(p, func() { w.exit(p, 0) }) }) })
		})
	case "wait":
		w.hold(p, 1, func() { w.repeats(p, 150*ms, end) })
	case "copies":
		w.hold(p, 1, func() { w.repeats(p, ms, end) })
	case "new":
		w.hold(p, 10, func() { w.works(p, 100*ms, func() { w.exit(p, 0) }) })
	}
}

func (w *node) cycle(p *neighbour, end time.Duration) {
	if w.now >= end {
		w.call(p, func() { w.exit(p, 0) })
		return
	}
	w.hold(p, 3, func() {
		w.works(p, w.between(ms, 5*ms), func() {
			w.pause(p, end)
		})
	})
}

// pause frees what the program has, and goes on after a while.
func (w *node) pause(p *neighbour, end time.Duration) {
	w.batch.TaskFree(p.held, w.now)
	w.after(w.between(50*ms, 200*ms), p, func() { w.cycle(p, end) })
}

func (w *node) repeats(p *neighbour, kernel, end time.Duration) {
	if w.now >= end {
		w.call(p, func() { w.exit(p, 0) })
		return
	}
	w.works(p, kernel, func() { w.after(ms, p, func() { w.repeats(p, kernel, end) }) })
}

func (w *node) faults(p *neighbour, at time.Duration) {
	if w.now < at {
		w.works(p, ms, func() { w.after(20*ms, p, func() { w.faults(p, at) }) })
		return
	}
	w.call(p, func() {
		p.since = w.now
		if w.code != 716 {
			w.breaks(p)
			return
		}
		if w.rng.IntN(3) > 0 { // otherwise it is shown to nobody
			w.breaks(p)
		}
		w.after(w.between(ms, 20*ms), p, func() { p.since, p.until = schedulers.Never, w.now; w.exit(p, 0) })
	})
}

// hold asks for memory, and makes the context once it is granted. A broken server turns it away: libcase tries again.
func (w *node) hold(p *neighbour, bytes int64, then func()) {
	p.held = w.batch.TaskBegin(p.job, schedulers.Task{Serial: p.job + 1, Bytes: bytes}, w.now)
	w.asked[p.held] = func(device int) {
		w.admitted = w.admitted || w.broken && w.known && !p.contexts[device]
		w.enter(p, device, then)
	}
}

func (w *node) enter(p *neighbour, device int, then func()) {
	if w.broken && !p.contexts[device] {
		w.after(50*ms, p, func() { w.enter(p, device, then) })
		return
	}
	p.contexts[device], p.device = true, device
	w.call(p, then)
}

// call is a call of CUDA, which shows the error of a context that is lost.
func (w *node) call(p *neighbour, then func()) {
	if !p.lost || p.role == "fault" && w.code == 716 {
		then()
		return
	}
	w.tell(p)
	if p.role == "ignores" {
		w.pause(p, schedulers.Never)
		return
	}
	w.exit(p, 1)
}

// works launches a kernel and waits for its end.
func (w *node) works(p *neighbour, kernel time.Duration, then func()) {
	w.call(p, func() {
		p.kernel++
		this := p.kernel
		p.since = w.now
		w.after(kernel, p, func() {
			if !p.lost && p.kernel == this {
				p.since, p.until = schedulers.Never, w.now
				then()
			}
		})
	})
}

// tell reports the error, and what libcase knows of the program's kernels then.
func (w *node) tell(p *neighbour) {
	w.work(p)
	if !p.told {
		p.told, w.known = true, true
		code := w.code
		if w.hidden {
			code = 46
		}
		w.batch.ReportFault(p.job, p.job+1, code, "cudaDeviceSynchronize", w.now)
	}
}

func (w *node) work(p *neighbour) {
	e := runner.ProcessWork{Process: serialOf(p.job, p.job+1), Until: new(p.until)}
	if p.since != schedulers.Never {
		e.Since = new(p.since)
	}
	w.batch.Post(w.now, e)
}

func (w *node) exit(p *neighbour, status int) { w.gone(p, runner.Exit{Status: &status}) }

func (w *node) gone(p *neighbour, e runner.Exit) {
	p.ended = w.now
	w.work(p)
	w.batch.ProcessGone(p.job, p.job+1, e.Signal == nil, w.now)
	w.batch.JobEnded(p.job, e, w.now)
}

// ---- the server

// breaks is a fault of a program's kernel. All clients of its device lose their contexts, and those with kernels are told.
func (w *node) breaks(culprit *neighbour) {
	w.broken, w.device, w.faultedAt = true, culprit.device, w.now
	latest := 27 * ms
	if w.code == 716 {
		latest = 450 * ms
	}
	for _, p := range w.programs {
		if !p.contexts[w.device] || p.ended != schedulers.Never {
			continue
		}
		p.lost = true
		if p.since != schedulers.Never && (p != culprit || w.code != 716) {
			w.after(w.between(0, latest), p, func() { w.call(p, func() {}) })
		}
	}
	if !w.hidden && (w.code == 716 || w.rng.IntN(2) == 0) {
		w.do(w.now+w.between(0, 20*ms), func() { w.known = true; w.batch.ServerFaulted(w.device, w.now) })
	}
	w.recovers()
}

// recovers waits until the clients of the fault are gone.
func (w *node) recovers() {
	for _, p := range w.programs {
		if p.lost && p.ended == schedulers.Never {
			w.do(w.now+10*ms, w.recovers)
			return
		}
	}
	w.do(w.now+60*ms, func() { w.broken = false })
}

func (w *node) AwaitServer() { w.do(w.now+250*ms, func() { w.asks(false) }) }

func (w *node) asks(told bool) {
	switch {
	case !w.broken:
		w.known = false
		w.batch.Recovered(nil, w.now)
		return
	case !told:
		w.batch.ServerBroken(errors.New("MPS server 7 is in state FAULT"), true, w.now)
	}
	w.do(w.now+100*ms, func() { w.asks(true) })
}

func (w *node) EndClient(job int) {
	p := w.programs[job]
	p.lost = p.lost || w.hidden // the first sign came late: the newcomer, which the server turns away, looked like a client
	w.after(30*ms, p, func() { w.gone(p, runner.Exit{Signal: new("SIGTERM")}) })
}

// ---- the executor

func (w *node) Run(ctx context.Context, l *runner.Loop) error {
	w.batch.Loop = l
	l.Post(0, runner.Arrive{})
	for {
		select {
		case <-l.Done():
			return context.Cause(ctx)
		default:
		}
		if w.queue.Len() == 0 || w.now > time.Minute {
			w.t.Fatalf("%s: it stands still at %v", w.name, w.now)
		}
		next := heap.Pop(&w.queue).(step)
		w.now = max(w.now, next.at)
		next.do()
	}
}

func (w *node) Start(job int, _ []int) {
	p := w.programs[job]
	w.after(ms, p, func() { w.batch.JobStarted(job, w.now); w.program(p) })
}

func (w *node) Answer(d schedulers.Decision) {
	if d.Kind != schedulers.Granted {
		w.t.Errorf("%s: %v of task %d", w.name, d.Kind, d.Task.ID)
		return
	}
	w.after(0, w.programs[d.Task.Job], func() { w.asked[d.Task.ID](d.Device) })
}

func (w *node) Revoke(d schedulers.Decision) {
	w.t.Errorf("%s: task %d is to move", w.name, d.Task.ID)
}

func (w *node) Stop(job int)           { w.t.Errorf("%s: job %d is to stop", w.name, job) }
func (w *node) WakeAt(t time.Duration) { w.do(t, func() { w.batch.Tick(w.now) }) }

// after does what a program does later, if it still runs.
func (w *node) after(d time.Duration, p *neighbour, do func()) {
	w.do(w.now+d, func() {
		if p.ended == schedulers.Never {
			do()
		}
	})
}

func (w *node) do(at time.Duration, do func()) {
	w.queue.sequence++
	heap.Push(&w.queue, step{at, w.queue.sequence, do})
}

type step struct {
	at       time.Duration
	sequence int
	do       func()
}

// steps are in the order of their times.
type steps struct {
	all      []step
	sequence int
}

func (s *steps) Len() int { return len(s.all) }
func (s *steps) Less(i, j int) bool {
	a, b := s.all[i], s.all[j]
	return a.at < b.at || a.at == b.at && a.sequence < b.sequence
}
func (s *steps) Swap(i, j int) { s.all[i], s.all[j] = s.all[j], s.all[i] }
func (s *steps) Push(x any)    { s.all = append(s.all, x.(step)) }
func (s *steps) Pop() any {
	last := s.all[len(s.all)-1]
	s.all = s.all[:len(s.all)-1]
	return last
}
