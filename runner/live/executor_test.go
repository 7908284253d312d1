package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/schedshm"
	"github.com/caserun/caserun/runner/slurmstep"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// The test binary is also the guard that executors start.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == GuardCommand {
		if err := Guard(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A guard built with the race detector would otherwise take a second to exit.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	var err error
	if testPrograms, err = os.MkdirTemp("", "caserun-live-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(testPrograms)
	os.Exit(status)
}

// testPrograms has the programs that the tests of this package run, and no others' tests: some look for
// processes of a program.
var testPrograms string

// testProgram builds a program of native/probe and returns the path of a copy of this package's own.
func testProgram(tb testing.TB, name string) string {
	tb.Helper()
	path := filepath.Join(testPrograms, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	text, err := os.ReadFile(filepath.Join(nativetest.Build(tb, "probe", "build/"+name), "build", name))
	if err == nil {
		err = os.WriteFile(path, text, 0o700)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// tape keeps the records of a run.
type tape struct {
	mu     sync.Mutex
	jobs   map[int]results.Job
	tasks  map[[2]int]results.Task
	events []results.Event
	ranks  map[[2]int]results.Rank
	swaps  []results.Swap
	began  chan<- int
}

func (r *tape) Job(j results.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began != nil && j.StartS != nil && r.jobs[j.Index].StartS == nil {
		r.began <- j.Index
	}
	r.jobs[j.Index] = j
}

func (r *tape) Task(t results.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[[2]int{t.Job, t.Seq}] = t
}

func (r *tape) Event(e results.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// count returns how many events of the kind there are.
func (r *tape) count(kind results.EventKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (r *tape) Rank(k results.Rank) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ranks == nil {
		r.ranks = map[[2]int]results.Rank{}
	}
	r.ranks[[2]int{k.Job, k.Rank}] = k
}

func (r *tape) Swap(s results.Swap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swaps = append(r.swaps, s)
}

func (*tape) Kernel(results.Kernel)   {}
func (*tape) Segment(results.Segment) {}

const gib = 1 << 30

// ample bounds what must end by itself; no test passes because of it.
const ample = time.Minute

// rig runs jobs made of steps on two devices of 16 GiB that exist on paper
// only: processes, sockets, signals and the scheduler are real.
type rig struct {
	t       testing.TB
	sched   string
	mps     bool
	jobs    []mixes.Job
	dir     string
	limit   time.Duration
	cores   int   // of the host, as the batch knows it; 0: unknown
	workers int   // jobs at once; 0: all
	most    int64 // bytes of output of a job; 0: any number
	users   func(device int) ([]nvml.Process, time.Duration, error)

	device     schedulers.Device // each of the two
	uuids      []string
	ids        [][16]byte
	preload    string
	swap       *swaparea.Area
	desk       *slurmstep.Desk
	checkpoint string
	await      func(context.Context, func([]int, error, bool)) error
	terminate  func(pids ...int) error
	mendServer func() (bool, error)
	observe    func(runner.Step)
	grace      time.Duration                        // for answers to revocations; 0: without end
	starved    time.Duration                        // as in runner.Config
	patience   time.Duration                        // with clients that do not go; 0: as ever
	after      func(time.Duration) <-chan time.Time // what waits for an interruption instead of time.After

	x     *Executor      // of the latest run
	made  chan *Executor // gets it before the run
	began chan int       // gets each job that the executor knows the process of; nil: nobody asks
}

func newRig(t testing.TB, sched string) *rig {
	return &rig{t: t, sched: sched, dir: t.TempDir(), made: make(chan *Executor, 1), uuids: []string{"GPU-zero", "GPU-one"}, ids: [][16]byte{{1}, {2}},
		device: schedulers.Device{Name: "paper", CapacityBytes: 16 * gib, ContextBytes: gib / 2, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}}
}

func (r *rig) job(steps ...string) *rig {
	program := testProgram(r.t, "job")
	r.jobs = append(r.jobs, mixes.Job{Name: strings.Join(steps, " "), Program: program, Args: steps})
	return r
}

// sh adds a job that is a shell script, in which $JOB is the program of job.
func (r *rig) sh(script string) *rig {
	program := testProgram(r.t, "job")
	r.jobs = append(r.jobs, mixes.Job{Name: script, Program: "/bin/sh", Args: []string{"-c", script}, Env: []string{"JOB=" + program}})
	return r
}

// config is the batch of the rig's jobs under a scheduler.
func (r *rig) config(sched string) runner.Config {
	r.t.Helper()
	s, err := policies.Parse(sched, len(r.uuids))
	if err != nil {
		r.t.Fatal(err)
	}
	c := runner.Config{Jobs: r.jobs, Workers: r.workers, Devices: slices.Repeat([]schedulers.Device{r.device}, len(r.uuids)), Scheduler: s, GuardsManaged: !s.ExceedsManaged(), MPS: r.mps, Timeout: r.limit, Observe: r.observe, Seed: 1, Cores: r.cores, Grace: r.grace, StarvedAfter: r.starved}
	c.Restartable = func(j *mixes.Job) bool { return j.Restartable != nil && *j.Restartable }
	for i := range r.jobs { // anything, so that there are plans
		c.Predictions = append(c.Predictions, &schedulers.Prediction{Before: time.Duration(i%3) * 10 * time.Millisecond, Held: time.Duration(i%5) * 10 * time.Millisecond, Bytes: int64(i%7) * 2 * gib})
	}
	return c
}

func (r *rig) run(ctx context.Context) ([]results.Job, *tape, error) {
	r.t.Helper()
	c := r.config(r.sched)
	var programs, dirs []string
	var checks []mixes.Check
	for _, j := range r.jobs {
		programs, dirs, checks = append(programs, j.Program), append(dirs, r.dir), append(checks, mixes.Check{Failed: j.CheckStatus, Passes: j.CheckStatus != 0})
	}
	var clients *schedshm.Config
	if s := c.Scheduler; s.ClientsDecide {
		clients = &schedshm.Config{Policy: string(s.Config.Queue), Devices: []schedshm.Device{{UUID: [16]byte{2}, Ordinal: s.SharedDevice,
			CapacityBytes: c.Devices[0].CapacityBytes, ContextBytes: c.Devices[0].ContextBytes}}}
	}
	x, err := NewExecutor(Config{Jobs: r.jobs, Programs: programs, Dirs: dirs, UUIDs: r.uuids,
		IDs: r.ids, Desk: r.desk, Swap: r.swap, Checkpoint: r.checkpoint, Bursts: c.Scheduler.Bursts, TaskBytes: r.device.CapacityBytes - r.device.ContextBytes, Dir: filepath.Join(r.dir, "out"), Grace: 200 * time.Millisecond,
		Clients: clients, OutputLimit: r.most, Preload: r.preload, Checks: checks, Users: r.users, Compares: runner.ComparesUse(c.Scheduler), AwaitServer: r.await, MendServer: r.mendServer, Terminate: r.terminate, Warn: r.t.Logf, Start: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.patience > 0 {
		x.limit = r.patience
	}
	if r.after != nil {
		x.after = r.after
	}
	r.x = x
	select {
	case r.made <- x:
	default: // nobody asked for the one of the run before
	}
	rec := &tape{jobs: map[int]results.Job{}, tasks: map[[2]int]results.Task{}, began: r.began}
	jobs, err := runner.Run(ctx, c, x, rec)
	return jobs, rec, err
}

// tell tells a job that hears a pipe of that name of the first step that is as asked for.
func (r *rig) tell(pipe string, asked func(runner.Step) bool) {
	r.t.Helper()
	path := filepath.Join(r.dir, pipe)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	told := false
	r.observe = func(s runner.Step) {
		if told || !asked(s) {
			return
		}
		told = true
		go func() {
			if err := os.WriteFile(path, nil, 0); err != nil {
				r.t.Error(err)
			}
		}()
	}
}

func (r *rig) mustRun() ([]results.Job, *tape) {
	r.t.Helper()
	jobs, rec, err := r.run(context.Background())
	if err != nil {
		r.t.Fatalf("run: %v", err)
	}
	return jobs, rec
}

func outcomes(jobs []results.Job) []results.Outcome {
	var out []results.Outcome
	for _, j := range jobs {
		out = append(out, *j.Outcome)
	}
	return out
}

func (r *rig) output(job int) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "out", fmt.Sprintf("job-%04d.out", job)))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func TestOutcomes(t *testing.T) {
	r := newRig(t, "case-alg3").
		job("begin:1000", "free").
		job("begin:1000", "oom:1000", "exit:0").
		job("begin:1000", "fault:700", "exit:0").
		job("begin:99000000000").
		job("exit:7").
		job("abort").
		job("exit:4").
		job("begin:1000", "grow:1000", "print:the last words", "exit:3").
		job("exit:4").
		job("begin:1000", "oom:1000", "exit:0").
		job("begin:1000", "oom:1000", "exit:4")
	for _, checked := range []int{6, 9, 10} {
		r.jobs[checked].CheckStatus = 4
	}
	jobs, rec := r.mustRun()
	want := []results.Outcome{results.OK, results.OOM, results.Fault, results.Refused, results.Crash, results.Crash, results.Wrong, results.Crash,
		results.Crash, results.OKAfterOOM, results.OOM}
	if got := outcomes(jobs); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if jobs[7].StderrTail != "the last words" {
		t.Errorf("stderr tail %q", jobs[7].StderrTail)
	}
	if jobs[5].Signal == nil || *jobs[5].Signal != "SIGABRT" {
		t.Errorf("signal of the aborted job: %v", jobs[5].Signal)
	}
	if !strings.Contains(jobs[3].Detail, "needs 92.701 GiB") {
		t.Errorf("a refusal must say the need, its context included: %q", jobs[3].Detail)
	}
	for key, task := range rec.tasks {
		if task.GrantS != nil && task.ReleaseS == nil {
			t.Errorf("task %v was granted and never released", key)
		}
	}
}

// A report counts although its process is gone before its connection was
// accepted, and although it never had a task.
func TestLastWordsWithoutATask(t *testing.T) {
	r := newRig(t, "sa")
	for range 20 {
		r.job("oom:5", "exit:0").job("fault:700", "exit:0")
	}
	jobs, _ := r.mustRun()
	for i, o := range outcomes(jobs) {
		if want := []results.Outcome{results.OOM, results.Fault}[i%2]; o != want {
			t.Errorf("job %d: %s, want %s", i, o, want)
		}
	}
}

func TestDeviceSeenByJobs(t *testing.T) {
	r := newRig(t, "case-alg3").job("begin:12000000000", "device", "hear:both").job("begin:12000000000", "device", "tell:both")
	r.limit = ample
	r.mustRun()
	got := []string{r.output(0), r.output(1)}
	slices.Sort(got)
	if want := []string{"device 0 of GPU-zero,GPU-one\n", "device 1 of GPU-zero,GPU-one\n"}; !slices.Equal(got, want) {
		t.Errorf("task-bound jobs saw %q, want %q", got, want)
	}
	r = newRig(t, "sa").job("begin:1000", "device", "hear:both").job("begin:1000", "device", "tell:both")
	r.limit = ample
	r.mustRun()
	if got, want := r.output(1), "device 0 of GPU-one\n"; got != want {
		t.Errorf("the second job under sa saw %q, want %q", got, want)
	}
}

// Under a scheduler that plans, searches run beside the batch, and their results are events.
func TestPlannedJobs(t *testing.T) {
	r := newRig(t, "plan:search=20")
	for i := range 12 {
		r.job("sleep:5", fmt.Sprintf("begin:%d", (1+i%7)*2*gib), "sleep:5", "free", "sleep:5")
	}
	r.limit = ample
	var mu sync.Mutex
	plans, granted := 0, 0
	r.observe = func(s runner.Step) {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := s.Event.(runner.Planned); ok {
			plans++
		}
		for _, c := range s.Commands {
			if a, ok := c.(runner.Answer); ok && a.Decision.Kind == schedulers.Granted && plans > 0 {
				granted++
			}
		}
	}
	jobs, _ := r.mustRun()
	for i, o := range outcomes(jobs) {
		if o != results.OK {
			t.Errorf("job %d: %s (%s)", i, o, jobs[i].Detail)
		}
	}
	if plans == 0 || granted == 0 {
		t.Errorf("%d plans, and %d tasks granted under one", plans, granted)
	}
}

// Jobs whose processes decide for themselves have what the state file has, and the run
// records it. What the caller's environment says of another file is not theirs.
func TestJobsThatDecideForThemselves(t *testing.T) {
	t.Setenv("CASE_SHARED", "/nonexistent/state")
	r := newRig(t, "schedgpu:arch=shared,queue=priority-fifo,device=1").
		job("begin:12000000000", "device", "tell:held", "hear:refused", "grow:1000000", "free").
		sh(`$JOB hear:held nowait begin:12000000000; status=$?; $JOB tell:refused; exit $status`).
		sh(`test -e "$CASE_SHARED" && test "$CASE_PRIORITY" = 7`)
	r.jobs[2].Priority = 7
	r.limit = ample
	jobs, rec := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.Refused, results.OK}) {
		t.Fatalf("outcomes %v: %+v", got, jobs)
	}
	if got := r.output(0); got != "device 1 of GPU-zero,GPU-one\n" {
		t.Errorf("the first job saw %q", got)
	}
	held, refused := rec.tasks[[2]int{0, 0}], rec.tasks[[2]int{1, 0}]
	if held.Device == nil || *held.Device != 1 || held.GrantS == nil || held.ReleaseS == nil || held.GrownBytes != 1000000 {
		t.Errorf("the first job's task: %+v", held)
	}
	if refused.GrantS != nil || refused.Refusal == nil || !strings.Contains(*refused.Refusal, "11.676 GiB") {
		t.Errorf("the second job's task: %+v", refused)
	}
}

func TestPinsAndShapes(t *testing.T) {
	pinned := []string{"pin:1", "begin:1000", "device", "shape:5000", "shape:7", "free"}
	r := newRig(t, "case-alg3").job(pinned...).job("pin:2", "begin:1000")
	jobs, rec := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.Refused}) {
		t.Fatalf("outcomes %v: %+v", got, jobs)
	}
	if got := r.output(0); got != "device 1 of GPU-zero,GPU-one\n" {
		t.Errorf("the pinned job saw %q", got)
	}
	if got := rec.tasks[[2]int{0, 0}]; *got.PinnedDevice != 1 || *got.Device != 1 || got.Blocks != 5000 || *got.BlocksPerSM != 8 {
		t.Errorf("task of the pinned job: %+v, want device 1 and 5000 blocks, 8 to an SM", got)
	}
	if !strings.Contains(jobs[1].Detail, "device 2, but the node has devices 0 to 1") {
		t.Errorf("detail of the job that wants device 2: %q", jobs[1].Detail)
	}
	// A process that the run bound numbers its own device 0.
	r = newRig(t, "sa").job("begin:1", "hear:both").job("pin:0", "begin:1000", "device", "tell:both")
	r.limit = ample
	if jobs, _ := r.mustRun(); *jobs[1].Device != 1 || r.output(1) != "device 0 of GPU-one\n" {
		t.Errorf("the bound job is on device %d and saw %q", *jobs[1].Device, r.output(1))
	}
}

// A program without a probe is placed by its declared footprint before exec.
func TestDeclaredBinding(t *testing.T) {
	r := newRig(t, "case-alg3").job("hear:both", "sleep:100").job("begin:1", "device", "tell:both", "sleep:100").job("exit:0")
	r.limit = ample
	for i := range r.jobs {
		r.jobs[i].Binding = mixes.BindDeclared
		r.jobs[i].Footprint = mixes.Footprint{Bytes: 12e9, Blocks: 1024, ThreadsPerBlock: 256}
	}
	jobs, _ := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.OK, results.OK}) {
		t.Fatalf("outcomes %v", got)
	}
	if got := r.output(1); !strings.HasPrefix(got, "device 0 of GPU-") || strings.Contains(got, ",") {
		t.Errorf("a declared job must see its one device as 0, it saw %q", got)
	}
	if *jobs[2].StartS < min(*jobs[0].EndS, *jobs[1].EndS) {
		t.Errorf("the third job of 12 GB started at %v on two devices of 16 GiB that were taken", *jobs[2].StartS)
	}
}

// A program that never asks under a task-bound scheduler was not scheduled at
// all: that must not look like a measurement.
func TestProgramWithoutProbeIsReported(t *testing.T) {
	for sched, want := range map[string]int{"case-alg3": 1, "sa": 0} {
		_, rec := newRig(t, sched).job("exit:0").job("begin:1000").mustRun()
		got := 0
		for _, e := range rec.events {
			if e.Kind == results.EventUnscheduled && *e.Job == 0 {
				got++
			}
		}
		if got != want || len(rec.events) != want {
			t.Errorf("%s: %d reports in %v, want %d", sched, got, rec.events, want)
		}
	}
}

func TestTaskWaitsForMemory(t *testing.T) {
	r := newRig(t, "schedgpu").job("begin:12000000000", "hear:held", "hear:asked", "free").job("tell:held", "begin:12000000000", "free")
	r.tell("asked", func(s runner.Step) bool {
		e, is := s.Event.(runner.TaskBegin)
		return is && e.Task.Job == 1
	})
	jobs, rec := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.OK}) {
		t.Fatalf("outcomes %v", got)
	}
	first, second := rec.tasks[[2]int{0, 0}], rec.tasks[[2]int{1, 0}]
	if *second.GrantS < *first.ReleaseS {
		t.Errorf("the second task was granted at %v, before the first was released at %v", *second.GrantS, *first.ReleaseS)
	}
	if second.SubmitS > *first.ReleaseS {
		t.Errorf("the second task was asked for at %v, when the first was released at %v", second.SubmitS, *first.ReleaseS)
	}
	if wait := *second.GrantS - second.SubmitS; *jobs[1].WaitS < wait {
		t.Errorf("job wait %v is less than its task's %v", *jobs[1].WaitS, wait)
	}
}

// A program that closes every descriptor, as daemonising code does, keeps its device memory
// and its charge, until it gives the memory back or is gone.
func TestClosedSocketKeepsTheCharge(t *testing.T) {
	for _, end := range [][]string{nil, {"free", "begin:1000", "closefrom", "free"}} {
		r := newRig(t, "schedgpu").job(append([]string{"begin:12000000000", "closefrom", "hear:closed", "hear:go"}, end...)...).
			job("tell:closed", "begin:12000000000", "free")
		r.limit = ample
		if err := unix.Mkfifo(filepath.Join(r.dir, "go"), 0o600); err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{})
		r.observe = func(s runner.Step) {
			if e, ok := s.Event.(runner.TaskBegin); ok && e.Task.Job == 1 {
				close(asked)
			}
		}
		var jobs []results.Job
		var rec *tape
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			jobs, rec, _ = r.run(context.Background())
		}()
		select {
		case <-asked:
		case <-ended:
			t.Fatal("the second job has not asked for a device")
		}
		if end, err := os.OpenFile(filepath.Join(r.dir, "go"), os.O_WRONLY, 0); err != nil || end.Close() != nil {
			t.Fatal(err)
		}
		<-ended
		if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.OK}) {
			t.Fatalf("outcomes %v: %+v", got, jobs)
		}
		held, next := rec.tasks[[2]int{0, 0}], rec.tasks[[2]int{1, 0}]
		if *held.ReleaseS < next.SubmitS || *next.GrantS < *held.ReleaseS {
			t.Errorf("released at %v, asked for at %v, granted at %v", *held.ReleaseS, next.SubmitS, *next.GrantS)
		}
		var told []results.Event
		for _, e := range rec.events {
			if e.Kind == results.EventSocketClosed {
				told = append(told, e)
			}
		}
		if len(told) != 1 || *told[0].Job != 0 || !strings.Contains(told[0].Detail, "stays charged until it exits") {
			t.Errorf("events of the closed socket: %+v", told)
		}
	}
}

// A process that dies in any state gives everything back: the tasks behind it
// would otherwise wait for ever.
func TestDeathReleases(t *testing.T) {
	for _, how := range []string{"abort", "exit:1"} {
		r := newRig(t, "schedgpu").job("begin:12000000000", how).job("begin:12000000000", "free").job("begin:12000000000", "free")
		jobs, _ := r.mustRun()
		if got := outcomes(jobs)[1:]; !slices.Equal(got, []results.Outcome{results.OK, results.OK}) {
			t.Errorf("%s: outcomes of the jobs behind: %v", how, got)
		}
	}
}

// What a job used is what its processes showed, also one that was killed, and not what it
// asked for.
func TestJobsTellWhatTheyUsed(t *testing.T) {
	r := newRig(t, "case-alg3").job("use:1", "begin:9000", "use:700", "use:600", "free").job("use:1", "begin:9000", "use:700", "abort").
		job("begin:9000", "free").job("use:700").sh("$JOB use:1 begin:9000 use:500; $JOB use:1 begin:9000 use:300")
	jobs, _ := r.mustRun()
	for i, want := range []*int64{new(int64(700)), new(int64(700)), nil, nil, new(int64(500))} {
		if diff := cmp.Diff(want, jobs[i].UsedBytes); diff != "" {
			t.Errorf("%s: %s", r.jobs[i].Name, diff)
		}
	}
}

func TestWaitLimit(t *testing.T) {
	r := newRig(t, "schedgpu:wait-limit=100ms").job("begin:12000000000", "hear:held", "hear:refused").
		sh("$JOB tell:held begin:12000000000; status=$?; $JOB tell:refused; exit $status")
	r.limit = ample
	jobs, _ := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.Refused}) {
		t.Fatalf("outcomes %v", got)
	}
	if !strings.Contains(jobs[1].Detail, "wait limit") || !strings.Contains(jobs[1].StderrTail, "wait") {
		t.Errorf("detail %q, stderr %q", jobs[1].Detail, jobs[1].StderrTail)
	}
	for at := range r.x.timers {
		if at < ample {
			t.Errorf("the timer of %v is kept, which has fired", at)
		}
	}
}

// A request waits as long as the process says, or as its mix says, and is granted what another
// gives back of its task.
func TestRequestsWaitAsTheySay(t *testing.T) {
	r := newRig(t, "schedgpu").job("begin:12000000000", "hear:held", "hear:refused", "shrink:8000000000", "hear:granted").
		sh("$JOB tell:held nowait begin:12000000000; a=$?; $JOB wait:50 begin:12000000000; b=$?; $JOB begin:12000000000; c=$?; " +
			"CASE_WAIT= $JOB tell:refused begin:6000000000 tell:granted; echo $a $b $c $?")
	r.jobs[1].Wait, r.limit = new(50*time.Millisecond), ample
	jobs, rec := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.Refused}) {
		t.Fatalf("outcomes %v: %s", got, jobs[0].Detail)
	}
	if got := r.output(1); got != "5 5 5 0\n" {
		t.Errorf("exit statuses %q, want three refusals and a grant", got)
	}
	for seq, want := range []string{"does not wait", "wait limit of 50ms", "wait limit of 50ms"} {
		if got := rec.tasks[[2]int{1, seq}]; got.Refusal == nil || !strings.Contains(*got.Refusal, want) {
			t.Errorf("task %d of job 1: %+v, want %q", seq, got, want)
		}
	}
}

func TestTimeoutKillsStubbornGroup(t *testing.T) {
	r := newRig(t, "zero").job("stubborn", "child:3600000", "tell:up", "sleep:3600000").job("child:3600000", "escape:3600000", "exit:0")
	r.jobs[0].Timeout, r.limit = ample, 3*ample
	r.passWhen("up", 0, 2*ample)
	jobs, _ := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.Timeout, results.OK}) {
		t.Errorf("outcomes %v", got)
	}
	program := testProgram(t, "job")
	if left := running(t, program); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}

// running lists the PIDs of processes that run the program.
func running(t *testing.T, program string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == program {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

func TestCancelStopsEverything(t *testing.T) {
	r := newRig(t, "sa")
	for range 6 {
		r.job("begin:1000", "child:3600000", "free", "begin:1000", "sleep:3600000")
	}
	cause := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(context.Background())
	tasks := 0
	r.observe = func(s runner.Step) {
		if _, is := s.Event.(runner.TaskBegin); is {
			if tasks++; tasks == 4 { // one job runs on each of two devices, and has its child
				cancel(cause)
			}
		}
	}
	jobs, _, err := r.run(ctx)
	if !errors.Is(err, cause) {
		t.Errorf("error %v, want the cause", err)
	}
	for i, o := range outcomes(jobs) {
		if o != results.Cancelled {
			t.Errorf("job %d: %s, want cancelled", i, o)
		}
	}
	program := testProgram(t, "job")
	if left := running(t, program); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	r := newRig(t, "sa").job("exit:0")
	r.jobs[0].Program = filepath.Join(r.dir, "missing")
	jobs, _ := r.mustRun()
	if *jobs[0].Outcome != results.Crash || !strings.Contains(jobs[0].Detail, "no such file") {
		t.Errorf("outcome %s, detail %q", *jobs[0].Outcome, jobs[0].Detail)
	}
}

// Under MPS who alone had kernels running is the culprit, whoever reports first, and those
// it took down say so. So is who dies with kernels running.
func TestCollateral(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs [][]string
		want []results.Outcome
	}{
		{"one had kernels", [][]string{
			{"idle", "begin:1000", "hear:both", "fault:700", "hear:first", "exit:1"},
			{"busy", "begin:1000", "tell:both", "tell:first", "fault:700", "exit:1"},
		}, []results.Outcome{results.Collateral, results.Fault}},
		{"two had kernels", [][]string{
			{"busy", "begin:1000", "hear:both", "fault:700", "hear:first", "exit:1"},
			{"busy", "begin:1000", "tell:both", "tell:first", "fault:700", "exit:1"},
		}, []results.Outcome{results.FaultSuspect, results.FaultSuspect}},
		{"nobody can tell", [][]string{
			{"begin:1000", "hear:both", "fault:700", "hear:first", "exit:1"},
			{"begin:1000", "tell:both", "tell:first", "fault:700", "exit:1"},
		}, []results.Outcome{results.FaultSuspect, results.FaultSuspect}},
		{"one died with kernels running", [][]string{
			{"busy", "begin:1000", "hear:both", "abort"},
			{"busy", "begin:1000", "tell:both", "hear:dead", "fault:700", "exit:1"},
		}, []results.Outcome{results.Crash, results.Collateral}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "schedgpu")
			for _, steps := range c.jobs {
				r.job(steps...)
			}
			r.mps = true
			r.tell("dead", func(s runner.Step) bool {
				e, is := s.Event.(runner.JobEnded)
				return is && e.Job == 0 && c.want[0] == results.Crash
			})
			r.await = func(ctx context.Context, _ func([]int, error, bool)) error { <-ctx.Done(); return nil } // when all have ended
			jobs, _ := r.mustRun()
			if got := outcomes(jobs); !slices.Equal(got, c.want) {
				t.Errorf("outcomes %v, want %v: %q, %q", got, c.want, jobs[0].Detail, jobs[1].Detail)
			}
		})
	}
}

// A job that would come to a broken MPS server waits until it is well.
func TestJobsWaitForTheServer(t *testing.T) {
	r := newRig(t, "schedgpu").job("begin:12000000000", "fault:700", "exit:1").job("begin:12000000000", "fault:46", "exit:1")
	r.mps = true
	// The server is well when the job that had the memory has ended and the other one has asked: a grant that
	// does not wait has come by then.
	var well sync.WaitGroup
	well.Add(3)
	ended := false
	r.observe = func(s runner.Step) {
		switch s.Event.(type) {
		case runner.TaskBegin:
			well.Done()
		case runner.JobEnded:
			if !ended {
				ended = true
				well.Done()
			}
		}
	}
	r.await = func(ctx context.Context, broken func([]int, error, bool)) error {
		broken(nil, errors.New("it is in state FAULT"), true)
		well.Wait()
		return nil
	}
	jobs, rec := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.Fault, results.Fault}) {
		t.Errorf("outcomes %v, want two faults: the server was well in between", got)
	}
	at := map[results.EventKind]float64{}
	for _, e := range rec.events {
		if _, seen := at[e.Kind]; !seen {
			at[e.Kind] = e.AtS
		}
	}
	if broken, recovered := at[results.EventMPSBroken], at[results.EventMPSRecovered]; broken == 0 || recovered < broken {
		t.Errorf("events %v, want the server broken and then well", at)
	}
	last := max(*rec.tasks[[2]int{0, 0}].GrantS, *rec.tasks[[2]int{1, 0}].GrantS)
	if last < at[results.EventMPSRecovered] {
		t.Errorf("the second task was granted at %.3f, before the server was well: %v", last, at)
	}
}

// Kill -9 of jobs in whatever state they are leaves no task behind.
func TestKillAtAnyMoment(t *testing.T) {
	program := testProgram(t, "job")
	r := newRig(t, "case-alg2")
	for i := range 40 {
		r.job(fmt.Sprintf("sleep:%d", i%7), "begin:6000000000", "sleep:5", "grow:1000000000", "free", "begin:8000000000", "sleep:5", "free", "sleep:2")
	}
	events := make(chan struct{}, 10_000)
	r.observe = func(runner.Step) { events <- struct{}{} }
	var killer sync.WaitGroup
	killer.Go(func() {
		for i := 0; ; i++ {
			for range 6 {
				if _, more := <-events; !more {
					return
				}
			}
			if pids := running(t, program); len(pids) > 0 {
				_ = exec.Command("kill", "-9", pids[i%len(pids)]).Run()
			}
		}
	})
	jobs, rec := r.mustRun()
	close(events)
	killer.Wait()
	killed := 0
	for i, j := range jobs {
		switch {
		case *j.Outcome == results.Crash && j.Signal != nil && *j.Signal == "SIGKILL":
			killed++
		case *j.Outcome != results.OK:
			t.Errorf("job %d: %s (%s)", i, *j.Outcome, j.Detail)
		}
	}
	for key, task := range rec.tasks {
		if task.GrantS != nil && task.ReleaseS == nil {
			t.Errorf("task %v was granted and never released", key)
		}
	}
	if killed == 0 {
		t.Error("no job was killed: the test tested nothing")
	}
	t.Logf("%d of %d jobs killed", killed, len(jobs))
}

// What a job started ends with the harness, wherever it went, and nothing else does.
func TestGuardKillsTheJobsItWatches(t *testing.T) {
	program := testProgram(t, "job")
	start := func(script, token string) (leader *exec.Cmd, said *bufio.Reader) {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer write.Close()
		t.Cleanup(func() { read.Close() })
		c := exec.Command("sh", "-c", script)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Env = append(os.Environ(), "JOB="+program, token)
		c.Stderr = write
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(read)
	}
	const stays = "$JOB print:here sleep:3600000"
	const stay = "env -i " + stays + " & setsid " + stays + " & timeout 3600 " + stays + " & "
	kept, keptSays := start(stay+"wait", "CASE_TOKEN=one")
	gone, goneSays := start(stay+"exit", "CASE_TOKEN=two") // its leader ends
	forgotten, forgottenSays := start("exec "+stays, "CASE_TOKEN=oneself")
	_ = gone.Wait()
	for _, said := range []*bufio.Reader{keptSays, keptSays, keptSays, goneSays, goneSays, goneSays, forgottenSays} {
		if _, err := said.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	lines := fmt.Sprintf("+%d CASE_TOKEN=one\n+%d CASE_TOKEN=oneself\n+%d CASE_TOKEN=two\n-%[2]d\n", kept.Process.Pid, forgotten.Process.Pid, gone.Process.Pid)
	if err := Guard(strings.NewReader(lines)); err != nil {
		t.Fatal(err)
	}
	if err := kept.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the watched job: %v, want killed", err)
	}
	for _, said := range []*bufio.Reader{keptSays, goneSays} { // until the last of them is gone
		if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
	}
	if err := forgotten.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Error(err)
	}
	if err := forgotten.Wait(); err == nil || err.Error() != "signal: quit" {
		t.Errorf("the forgotten job: %v, want the signal that came last", err)
	}
	mustBeGone(t)
	for _, line := range []string{"+1 CASE_TOKEN=x", "+77", "-77 CASE_TOKEN=x", "77 x", "+x y"} {
		if err := Guard(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("line %q is not refused", line)
		}
	}
}
