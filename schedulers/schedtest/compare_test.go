package schedtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// The engine decides what an exhaustive one decides, under every registered scheduler and queue order.
func TestTheEngineDecidesLikeAnExhaustiveOne(t *testing.T) {
	type arm struct {
		info  policies.Info
		queue engine.Order
	}
	var arms []arm
	for _, info := range policies.Listed() {
		if info.External {
			continue
		}
		queues := info.Orders()
		if queues == nil {
			queues = []engine.Order{""}
		}
		for _, queue := range queues {
			arms = append(arms, arm{info, queue})
		}
	}
	for seed := range chance.Seeds(t, 1000, 20_000) {
		a := arms[seed%uint64(len(arms))]
		if err := compare(a.info, a.queue, seed); err != nil {
			t.Fatal(err)
		}
	}
}

// compare makes a random workload from the seed, gives it to two engines under the scheduler, of
// which one is exhaustive, and returns an error at the first difference. The workloads are larger than those
// of Check: more tasks wait, on more devices.
func compare(info policies.Info, queue engine.Order, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &workload{Rand: r, tasks: map[schedulers.TaskID]*known{}, style: drawStyle(r)}
	devices := w.node()
	parameters := policies.With(info.Name, w.parameters(info, queue))
	s, err := policies.Parse(parameters, len(devices))
	if err != nil {
		return err
	}
	if w.engine, w.exhaustive, err = twins(devices, s); err != nil {
		return err
	}
	w.devices, w.revokes, w.binds = devices, info.Revokes, s.Binds
	for range w.style.calls {
		if err := w.step(); err != nil {
			return fmt.Errorf("seed %d, %s, %d devices:\n%s\n%w", seed, parameters, len(devices), strings.Join(w.calls, "\n"), err)
		}
	}
	return nil
}

// style is what a workload's tasks and calls are like.
type style struct {
	calls, devices, jobs      int
	sizes                     int64 // tasks have up to so many bytes
	shapes                    int   // different kernels; 0: any
	pinned, isolated, managed int   // per cent of the tasks
	pace                      int   // less than so many milliseconds pass between two calls
	context                   bool  // contexts take memory
	ends                      int   // per cent of the calls that end something
	same                      bool  // all devices are alike
	several, shares           int   // per cent of the tasks, and of the jobs
	withheld                  int   // of 400 calls, those that limit a job, or close or seal devices
}

func drawStyle(r *rand.Rand) style {
	often := func(per int, of ...int) int {
		if r.IntN(100) < per {
			return of[r.IntN(len(of))]
		}
		return 0
	}
	return style{
		calls: 20 + r.IntN(180) + often(4, 600), devices: 1 + r.IntN(4) + often(20, 4, 12, 30), jobs: 1 + r.IntN([]int{4, 60}[r.IntN(2)]),
		sizes: []int64{6, 12, 50, 110}[r.IntN(4)], shapes: r.IntN(4),
		pinned: often(30, 5, 50), isolated: often(30, 3, 30), managed: often(30, 10, 50),
		pace:    []int{20, 3000}[r.IntN(2)],
		context: r.IntN(2) == 0, ends: 10 + r.IntN(60), same: r.IntN(2) == 0,
		several: often(30, 5, 40), shares: often(30, 30, 100), withheld: 1 + often(30, 20, 60),
	}
}

// workload draws calls, makes them on both engines, and keeps what later calls need to know.
type workload struct {
	*rand.Rand
	style      style
	devices    []schedulers.Device
	revokes    bool
	binds      policies.Binding
	engine     *engine.Engine
	exhaustive *engine.Engine
	now        time.Duration
	last       schedulers.TaskID
	tasks      map[schedulers.TaskID]*known
	ids        []schedulers.TaskID // of tasks, sorted
	calls      []string
}

// known is a task that waits, or has a device.
type known struct {
	task   schedulers.Task
	bytes  int64
	ticket *schedulers.Decision
}

func (w *workload) node() []schedulers.Device {
	one := func() schedulers.Device {
		d := schedulers.Device{Name: "random", CapacityBytes: 20 + w.Int64N(80), SMs: 1 + w.IntN(4),
			WarpsPerSM: []int{4, 32, 64}[w.IntN(3)], BlocksPerSM: []int{1, 8, 32}[w.IntN(3)]}
		if w.style.context {
			d.ContextBytes = w.Int64N(10)
		}
		return d
	}
	devices := []schedulers.Device{one()}
	for len(devices) < w.style.devices {
		next := devices[0]
		if !w.style.same {
			next = one()
		}
		devices = append(devices, next)
	}
	return devices
}

func (w *workload) parameters(info policies.Info, queue engine.Order) string {
	values := map[string][]string{"queue": {string(queue)}, "age-limit": {"0", "1", "2", "5", "64"}, "wait-limit": {"0s", "3s", "20s"},
		"room": {"0", "0", "0.1", "0.5"}, "managed": {"fit", "exceed"}, "n": {"1", "2", "4"}, "victims": {"0", "1"}, "workers": {"0", "1", "3"}}
	var out []string
	for _, p := range info.Params {
		if of := values[p.Name]; of != nil {
			out = append(out, p.Name+"="+of[w.IntN(len(of))])
		}
	}
	return strings.Join(out, ",")
}

// step draws a call and makes it.
func (w *workload) step() error {
	if w.IntN(4) == 0 {
		w.now += time.Duration(w.IntN(w.style.pace)) * time.Millisecond
	}
	id, t := w.pick()
	if t != nil && t.ticket != nil && w.IntN(2) == 0 {
		return w.answer(id, t)
	}
	if w.revokes && w.IntN(4) == 0 {
		return w.tick()
	}
	if w.IntN(400) < w.style.withheld {
		return w.withhold()
	}
	switch n := w.IntN(100); {
	case t == nil || n >= w.style.ends+15:
		return w.submit()
	case n >= w.style.ends:
		return w.change(id, t)
	case n%4 == 0:
		return w.exit(t)
	case n%16 == 1:
		return w.both("expire", func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Expire(w.now), nil })
	default:
		return w.end(id)
	}
}

// withhold limits a job, closes or opens a device, or seals all.
func (w *workload) withhold() error {
	device, gone := w.IntN(len(w.devices)), w.IntN(3) == 0
	switch job, most := schedulers.JobID(w.IntN(w.style.jobs)), w.IntN(4)-1; w.IntN(4) {
	case 0:
		return w.both(fmt.Sprintf("limit job %d to %d devices", job, most), func(e *engine.Engine) ([]schedulers.Decision, error) {
			return e.Limit(job, most, w.now), nil
		})
	case 1:
		return w.both(fmt.Sprintf("lose device %d, gone: %v", device, gone), func(e *engine.Engine) ([]schedulers.Decision, error) {
			return e.DeviceLost(device, gone, w.now), nil
		})
	case 2:
		return w.both(fmt.Sprintf("seal: %v", gone), func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Seal(gone, w.now), nil })
	}
	return w.both(fmt.Sprintf("add device %d", device), func(e *engine.Engine) ([]schedulers.Decision, error) {
		return e.DeviceAdded(device, w.now), nil
	})
}

func (w *workload) pick() (schedulers.TaskID, *known) {
	if len(w.ids) == 0 {
		return 0, nil
	}
	id := w.ids[w.IntN(len(w.ids))]
	return id, w.tasks[id]
}

func (w *workload) submit() error {
	w.last++
	t := schedulers.Task{ID: w.last, Job: schedulers.JobID(w.last), Bytes: w.bytes(), Managed: w.IntN(100) < w.style.managed,
		Isolate: w.IntN(100) < w.style.isolated, Priority: w.IntN(3), Wait: w.wait(), Terms: &schedulers.Terms{Due: time.Duration(w.IntN(4)) * time.Minute}}
	t.Terms.Credits = w.IntN(4)
	t.Terms.User = string(rune('a' + t.Terms.Credits))
	if w.IntN(4) > 0 {
		t.Terms.Expected = new(time.Duration(w.IntN(4)) * time.Second)
	}
	if w.binds == policies.BindsTask && w.IntN(3) > 0 {
		t.Job, t.Serial = schedulers.JobID(w.IntN(w.style.jobs)), w.IntN(8)/7
	}
	if w.IntN(100) < w.style.pinned {
		t.OnDevice = new(w.IntN(len(w.devices) + w.IntN(50)/49))
	}
	t.Blocks, t.ThreadsPerBlock, t.BlocksPerSM = w.kernel()
	t.GridUnknown = t.Blocks == 0 && w.IntN(2) == 0
	if w.revokes {
		t.Can = schedulers.Actions(w.IntN(64))
		if w.IntN(2) == 0 {
			t.Need = new(w.Int64N(t.Bytes/2 + 1))
		}
	}
	if w.IntN(100) < w.style.several {
		t.Job, t.Terms.Devices, t.OnDevice, t.Need, t.Can = 1000+schedulers.JobID(w.last), 2+w.IntN(len(w.devices)), nil, nil, 0
	} else if int(t.Job)%100 < w.style.shares {
		t.Terms.Share = 1 + int(t.Job)*37%10*100_000
	}
	w.tasks[t.ID], w.ids = &known{task: t, bytes: t.Bytes}, append(w.ids, t.ID)
	return w.both(fmt.Sprintf("submit %+v with %+v", t, *t.Terms), func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Submit(t, w.now) })
}

func (w *workload) bytes() int64 {
	if w.IntN(200) == 0 {
		return math.MaxInt64
	}
	return w.Int64N(w.style.sizes + 1)
}

func (w *workload) wait() *time.Duration {
	switch w.IntN(20) {
	case 0:
		return new(time.Duration(0))
	case 1, 2:
		return new(time.Duration(w.IntN(20)) * time.Second)
	}
	return nil
}

func (w *workload) kernel() (blocks uint64, threadsPerBlock, blocksPerSM uint32) {
	if w.style.shapes > 0 {
		n := 1 + w.IntN(w.style.shapes)
		return uint64(3 * n), uint32(32 * n), uint32(n % 2)
	}
	if w.IntN(50) == 0 {
		return math.MaxUint64, math.MaxUint32, math.MaxUint32
	}
	return w.Uint64N(40), uint32(w.IntN(256)), uint32(w.IntN(6))
}

// change grows, shrinks or reshapes the task, or does what only a process does whose memory moves.
func (w *workload) change(id schedulers.TaskID, t *known) error {
	if w.revokes && w.IntN(2) == 0 {
		return w.move(id, t)
	}
	switch w.IntN(4) {
	case 0:
		bytes := w.Int64N(t.bytes/2 + 2)
		return w.both(fmt.Sprintf("shrink %d by %d", id, bytes), func(e *engine.Engine) ([]schedulers.Decision, error) {
			return e.Shrink(id, bytes)
		})
	case 1:
		blocks, threads, perSM := w.kernel()
		return w.both(fmt.Sprintf("shape %d: %d, %d, %d", id, blocks, threads, perSM), func(e *engine.Engine) ([]schedulers.Decision, error) {
			return e.Shape(id, blocks, threads, perSM)
		})
	}
	bytes, wait := w.bytes(), w.wait()
	return w.both(fmt.Sprintf("grow %d by %d", id, bytes), func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Grow(id, bytes, wait, w.now) })
}

func (w *workload) move(id schedulers.TaskID, t *known) error {
	if w.IntN(2) == 0 {
		need := w.Int64N(t.bytes/2 + 1)
		referenced := need + w.Int64N(t.bytes/2+1)
		return w.both(fmt.Sprintf("resume %d: %d of %d", id, need, referenced), func(e *engine.Engine) ([]schedulers.Decision, error) {
			return e.Resume(id, need, referenced, w.now)
		})
	}
	a := schedulers.Activity{Running: w.IntN(3) == 0, Last: w.now, Referenced: w.Int64N(t.bytes/2 + 1), Fixed: w.Int64N(t.bytes/4 + 1)}
	return w.both(fmt.Sprintf("active %d: %+v", id, a), func(e *engine.Engine) ([]schedulers.Decision, error) { return nil, e.Active(id, a, w.now) })
}

// tick lets time pass behind a tick, if nothing follows from it. The exhaustive engine decides
// nothing at the ticks that the engine leaves out.
func (w *workload) tick() error {
	quiet, decided := w.now+time.Duration(w.IntN(300))*time.Millisecond, false
	err := w.both(fmt.Sprintf("tick, quiet until %v", quiet), func(e *engine.Engine) ([]schedulers.Decision, error) {
		decisions := e.Tick(w.now, quiet)
		decided = len(decisions) > 0
		for !decided && e == w.exhaustive && e.NextTick() < w.engine.NextTick() {
			if more := e.Tick(e.NextTick(), 0); len(more) > 0 {
				return more, nil
			}
		}
		return decisions, nil
	})
	if !decided {
		w.now = min(quiet, w.engine.NextTick())
	}
	return err
}

// answer answers the task's ticket, mostly by doing what it asks.
func (w *workload) answer(id schedulers.TaskID, t *known) error {
	r := *t.ticket
	t.ticket = nil
	answer := schedulers.Revoked{Ticket: r.Ticket, Outcome: []schedulers.Outcome{schedulers.Done, schedulers.Done, schedulers.Busy, schedulers.Unable}[w.IntN(4)], Resident: w.Int64N(t.bytes/2 + 1)}
	return w.both(fmt.Sprintf("answer %d: %+v", id, answer), func(e *engine.Engine) ([]schedulers.Decision, error) {
		return e.Revoked(id, answer, w.now)
	})
}

func (w *workload) end(id schedulers.TaskID) error {
	w.forget(func(t *known) bool { return t.task.ID == id })
	return w.both(fmt.Sprintf("release %d", id), func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Release(id) })
}

func (w *workload) exit(t *known) error {
	p := t.task.Process()
	if w.IntN(3) == 0 {
		w.forget(func(t *known) bool { return t.task.Process() == p })
		return w.both(fmt.Sprintf("exit of process %+v", p), func(e *engine.Engine) ([]schedulers.Decision, error) { return e.ProcessExit(p), nil })
	}
	w.forget(func(t *known) bool { return t.task.Job == p.Job })
	return w.both(fmt.Sprintf("exit of job %d", p.Job), func(e *engine.Engine) ([]schedulers.Decision, error) { return e.JobExit(p.Job), nil })
}

func (w *workload) forget(gone func(*known) bool) {
	w.ids = slices.DeleteFunc(w.ids, func(id schedulers.TaskID) bool {
		over := gone(w.tasks[id])
		if over {
			delete(w.tasks, id)
		}
		return over
	})
}

// both makes the same call on both engines, compares them, and learns from the decisions.
func (w *workload) both(name string, call func(*engine.Engine) ([]schedulers.Decision, error)) error {
	w.calls = append(w.calls, fmt.Sprintf("%v: %s", w.now, name))
	for _, e := range []*engine.Engine{w.engine, w.exhaustive} {
		e.Spend(w.now)
	}
	got, err := call(w.engine)
	want, wantErr := call(w.exhaustive)
	if !reflect.DeepEqual(err, wantErr) || len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the engine decides %+v (%v), the exhaustive engine %+v (%v)", got, err, want, wantErr)
	}
	if got, want := w.sight(w.engine), w.sight(w.exhaustive); got != want {
		return fmt.Errorf("the engine has %+v, the exhaustive engine %+v", got, want)
	}
	i := w.IntN(len(w.devices))
	ours, other := w.engine.View().Device(i), w.exhaustive.View().Device(i)
	if got, want := useOf(ours), useOf(other); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("device %d has %+v, under the exhaustive engine %+v", i, got, want)
	}
	if got, want := slices.Collect(ours.TaskViews()), slices.Collect(other.TaskViews()); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("device %d has tasks %+v, under the exhaustive engine %+v", i, got, want)
	}
	for _, d := range got {
		t := w.tasks[d.Task.ID]
		switch d.Kind {
		case schedulers.Revoke:
			t.ticket = &d
		case schedulers.Refused:
			w.forget(func(t *known) bool { return t.task.ID == d.Task.ID })
		}
	}
	return nil
}

// sight is what a caller sees between two calls.
type sight struct {
	waiting      int
	expiry, tick time.Duration
}

func (w *workload) sight(e *engine.Engine) sight {
	return sight{e.Waiting(), e.NextExpiry(), e.NextTick()}
}
