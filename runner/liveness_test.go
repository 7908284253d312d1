package runner_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// world runs random programs in virtual time: jobs of several processes of several
// threads that begin, grow, shape and free tasks, exit with what they hold, or die.
type world struct {
	*fake
	random    *rand.Rand
	scheduler policies.Scheduler
	events    []due // in any order
	planned   int
	jobs      []*program
	asked     map[schedulers.TaskID]*thread // those with a request that has no answer
	modest    bool                          // no job asks for a task while it holds another
}

// due is what happens at a time; of several, the one first that was planned first.
type due struct {
	at    time.Duration
	order int
	timer bool // the batch's own
	do    func()
}

// program is a job.
type program struct {
	index     int
	modest    bool
	processes []*process
	serials   int  // of processes, also of earlier tries
	killed    bool // its first process, by a signal
	stopped   bool
	refused   bool
	oom       bool
	over      bool
}

// fresh is what the job does in its next try.
func (w *world) fresh(p *program) {
	*p = program{index: p.index, modest: p.modest, serials: p.serials}
	for range 1 + w.random.IntN(3) {
		p.serials++
		of := &process{job: p, serial: p.serials}
		threads := 1
		if !p.modest {
			threads += w.random.IntN(2)
		}
		for range threads {
			of.threads = append(of.threads, &thread{process: of, steps: 1 + w.random.IntN(12)})
		}
		p.processes = append(p.processes, of)
	}
}

type process struct {
	job     *program
	serial  int
	gone    bool
	threads []*thread
}

// thread asks for one thing at a time.
type thread struct {
	process *process
	steps   int // that it still takes
	over    bool
	held    []placed
	asks    schedulers.Task // waits for its device; or, if grows > 0, has it and waits for more
	grows   int64
}

type placed struct {
	id     schedulers.TaskID
	device int
}

func (w *world) plan(after time.Duration, do func()) {
	w.planned++
	w.events = append(w.events, due{at: w.now + after, order: w.planned, do: do})
}

// work is a random time.
func (w *world) work() time.Duration { return time.Duration(w.random.IntN(5000)) * time.Millisecond }

func (w *world) Run(_ context.Context, l *runner.Loop) error {
	w.batch.Loop = l
	l.Post(0, runner.Arrive{})
	for !w.done() {
		if !slices.ContainsFunc(w.events, func(h due) bool { return !h.timer }) {
			w.standstill()
		}
		if len(w.events) == 0 {
			return fmt.Errorf("at %v nothing is due and jobs are left", w.now)
		}
		next := slices.MinFunc(w.events, func(a, b due) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
		})
		w.events = slices.DeleteFunc(w.events, func(h due) bool { return h.order == next.order })
		w.now = max(w.now, next.at)
		next.do()
		w.calls = nil
	}
	return nil
}

// standstill is where nobody works. Then each who waits has no room; and it does not
// happen to jobs that ask for one task at a time.
func (w *world) standstill() {
	if w.modest {
		w.t.Errorf("at %v all wait, though no job asks for a task while it holds another: tasks %v", w.now, slices.Sorted(maps.Keys(w.asked)))
	}
	for id, th := range w.asked {
		state := w.batch.View()
		if th.grows > 0 {
			if at := th.find(id); w.scheduler.Policy.CanGrow(th.grows, state.Device(at)) {
				w.t.Errorf("at %v all wait, and task %d does although device %d has room for it to grow", w.now, id, at)
			}
		} else if at, ok := w.scheduler.Policy.Place(th.asks, state); ok {
			w.t.Errorf("at %v all wait, and task %d does although it fits device %d", w.now, id, at.Device)
		}
	}
}

func (th *thread) find(id schedulers.TaskID) (device int) {
	return th.held[slices.IndexFunc(th.held, func(p placed) bool { return p.id == id })].device
}

func (w *world) WakeAt(t time.Duration) {
	w.planned++
	w.events = append(w.events, due{at: t, order: w.planned, timer: true, do: func() { w.batch.Tick(w.now) }})
}

func (w *world) EndClient(job int) { w.Stop(job) }
func (w *world) AwaitServer()      { w.plan(w.work(), func() { w.batch.Recovered(nil, w.now) }) }

func (w *world) Start(job int, _ []int) {
	w.plan(time.Millisecond, func() {
		w.batch.JobStarted(job, w.now)
		for _, p := range w.jobs[job].processes {
			for _, th := range p.threads {
				w.plan(w.work(), func() { w.step(th) })
			}
		}
	})
}

func (w *world) Restart(job int, _ runner.Try) {
	w.fresh(w.jobs[job])
	w.Start(job, nil)
}

func (w *world) Stop(job int) {
	w.plan(time.Millisecond, func() {
		j := w.jobs[job]
		if j.over {
			return
		}
		j.stopped = true
		for _, p := range j.processes {
			w.leave(p, false)
		}
	})
}

func (w *world) Answer(d schedulers.Decision) {
	id := d.Task.ID
	th := w.asked[id]
	if th == nil {
		w.t.Errorf("at %v task %d is answered (%v), which has asked for nothing", w.now, id, d.Kind)
		return
	}
	delete(w.asked, id)
	switch d.Kind {
	case schedulers.Granted:
		th.held = append(th.held, placed{id, d.Device})
	case schedulers.Refused, schedulers.GrowRefused:
		th.process.job.refused = true
	}
	th.grows = 0
	w.plan(w.work(), func() { w.step(th) })
}

// step is the next thing that a thread does, and then it works for a while.
func (w *world) step(th *thread) {
	if th.process.gone || th.over {
		return
	}
	if w.random.IntN(60) == 0 {
		if th.process == th.process.job.processes[0] {
			th.process.job.killed = true
		}
		w.leave(th.process, false)
		return
	}
	if w.random.IntN(60) == 0 {
		th.process.job.oom = true
		w.batch.ReportOOM(th.process.job.index, th.process.serial, 1, "cudaMalloc", w.now)
		w.leave(th.process, true)
		return
	}
	if th.steps--; th.steps < 0 {
		th.over = true
		if !slices.ContainsFunc(th.process.threads, func(o *thread) bool { return !o.over }) {
			w.leave(th.process, true)
		}
		return
	}
	switch do := w.random.IntN(6); {
	case len(th.held) == 0 || do < 2 && !th.process.job.modest:
		w.begin(th)
		return
	case do < 3:
		th.grows = 1 + w.random.Int64N(6)
		id := th.held[w.random.IntN(len(th.held))].id
		w.asked[id] = th
		w.batch.TaskGrow(id, th.grows, nil, w.now)
		return
	case do < 4:
		w.batch.TaskShape(th.held[w.random.IntN(len(th.held))].id, w.random.Uint64N(20), 32, 0, w.now)
	default:
		i := w.random.IntN(len(th.held))
		id := th.held[i].id
		th.held = slices.Delete(th.held, i, i+1)
		w.batch.TaskFree(id, w.now)
	}
	w.plan(w.work(), func() { w.step(th) })
}

func (w *world) begin(th *thread) {
	t := schedulers.Task{Serial: th.process.serial, Bytes: w.random.Int64N(16), ThreadsPerBlock: 32,
		Blocks: w.random.Uint64N(12), Managed: w.random.IntN(8) == 0}
	if w.random.IntN(20) == 0 {
		t.Bytes = 17 // fits nowhere
	}
	if w.random.IntN(8) == 0 {
		t.OnDevice = new(w.random.IntN(w.batch.View().Len()))
	}
	w.batch.lastTask++
	t.ID, t.Job = w.batch.lastTask, schedulers.JobID(th.process.job.index)
	th.asks = t
	th.asks.GridUnknown = t.Blocks == 0
	w.asked[t.ID] = th
	w.batch.Post(w.now, runner.TaskBegin{Task: t})
}

// leave is the end of a process, and that of its job if it is the last.
func (w *world) leave(p *process, saidBye bool) {
	if p.gone {
		return
	}
	p.gone = true
	for id, th := range w.asked {
		if th.process == p {
			delete(w.asked, id)
		}
	}
	w.batch.ProcessGone(p.job.index, p.serial, saidBye, w.now)
	if slices.ContainsFunc(p.job.processes, func(o *process) bool { return !o.gone }) {
		return
	}
	p.job.over = true
	w.plan(time.Millisecond, func() {
		w.batch.JobExited(p.job.index, w.now)
		exit := runner.Exit{Status: new(0)}
		if p.job.killed || p.job.stopped {
			exit = runner.Exit{Signal: new("SIGKILL")}
		}
		w.batch.JobEnded(p.job.index, exit, w.now)
	})
}

// newWorld is a random batch.
func newWorld(t *testing.T, seed uint64) (*world, runner.Config) {
	random := rand.New(rand.NewPCG(seed, 1))
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, ContextBytes: int64(random.IntN(3) / 2), SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	c := runner.Config{Devices: slices.Repeat([]schedulers.Device{device}, 1+random.IntN(2)), MPS: random.IntN(2) == 0,
		Timeout: time.Hour, NoProgressAfter: time.Minute, Restartable: stated}
	name := []string{"case-alg2", "case-alg3", "case-alg3", "schedgpu", "zero", "cg", "sa"}[random.IntN(7)]
	if name != "zero" && name != "cg" && name != "sa" {
		name += fmt.Sprintf(":queue=%s,age-limit=%d,wait-limit=%s,managed=%s",
			[]string{"fifo", "mmu", "largest-first", "priority-fifo", "priority-mmu"}[random.IntN(5)], 1+random.IntN(3),
			[]string{"0s", "0s", "30s"}[random.IntN(3)], []string{"fit", "exceed"}[random.IntN(2)])
	}
	s, err := policies.Parse(name, len(c.Devices))
	if err != nil {
		t.Fatal(err)
	}
	c.Scheduler = s
	w := &world{fake: &fake{t: t}, random: random, scheduler: s, asked: map[schedulers.TaskID]*thread{}, modest: random.IntN(2) == 0}
	for i := range 1 + random.IntN(6) {
		spec := mixes.Job{Name: "random", Program: "needle", Priority: random.IntN(3)}
		if random.IntN(8) == 0 {
			spec = declared(random.Int64N(16))
		}
		spec.Restartable = new(random.IntN(3) == 0)
		c.Jobs = append(c.Jobs, spec)
		j := &program{index: i, modest: w.modest || random.IntN(2) == 0}
		w.fresh(j)
		w.jobs = append(w.jobs, j)
	}
	if random.IntN(3) == 0 {
		c.Workers = 1 + random.IntN(len(c.Jobs))
	}
	return w, c
}

// live runs a batch and judges its end.
func live(t *testing.T, seed uint64) (stopped, again int) {
	w, c := newWorld(t, seed)
	rec := newTape()
	jobs, err := runner.Run(t.Context(), c, w, rec)
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		p, want := w.jobs[i], results.OK
		switch {
		case p.stopped:
			want = results.Timeout
		case p.oom:
			want = results.OOM
		case p.refused || j.StartS == nil:
			want = results.Refused
		case p.killed:
			want = results.Crash
		}
		if *j.Outcome != want || (want != results.OK) != (j.Detail != "") {
			t.Errorf("job %d ended %s (%s), want %s", i, *j.Outcome, j.Detail, want)
		}
		if p.stopped {
			stopped++
		}
		if n := j.Restarts; n != nil && (*n > runner.MostRestarts || !stated(&c.Jobs[i]) || c.Scheduler.Binds == policies.BindsJob) {
			t.Errorf("job %d was started again %d times", i, *n)
		}
		if stated(&c.Jobs[i]) && *j.Outcome == results.OK && j.Restarts != nil {
			again++
		}
		if p.stopped && len(rec.told()) == 0 {
			t.Errorf("job %d waited until it was stopped, and nothing said so", i)
		}
		if p.stopped && (w.modest || c.Scheduler.Config.WaitLimit > 0) {
			t.Errorf("job %d waited until it was stopped", i)
		}
	}
	for _, task := range rec.tasks {
		if (task.GrantS == nil) != (task.ReleaseS == nil) || task.GrantS != nil && (*task.GrantS < task.SubmitS || *task.ReleaseS < *task.GrantS) {
			t.Errorf("task %+v: granted but not released, or at odd times", task)
		}
	}
	for i := range c.Devices {
		if d := w.batch.View().Device(i); d.UsedBytes() != 0 || d.UsedWarps() != 0 || d.Tasks() != 0 || d.Jobs() != 0 || d.Saturated() {
			t.Errorf("device %d at the end: %d bytes, %d warps, %d tasks, %d jobs", i, d.UsedBytes(), d.UsedWarps(), d.Tasks(), d.Jobs())
		}
	}
	return stopped, again
}

// Random multi-process programs end, whatever the scheduler and its parameters. Only jobs
// that ask for a task while they hold another can wait for ever, and only without a wait
// limit; nobody waits who fits beside them, everything is given back, and each outcome is
// what happened.
func TestLiveness(t *testing.T) {
	batches, stopped, again := 0, 0, 0
	for seed := range chance.Seeds(t, 1000, 20_000) {
		batches++
		waits, ok := live(t, seed)
		stopped, again = stopped+waits, again+ok
		if t.Failed() {
			t.Fatalf("in batch %d", seed)
		}
	}
	if stopped == 0 {
		t.Error("no job of any batch waited for ever: the programs are too modest")
	}
	if again == 0 {
		t.Error("no job of any batch was started again and ended ok")
	}
	t.Logf("%d jobs of %d batches waited until they were stopped", stopped, batches)
}
