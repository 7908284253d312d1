package live

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/slurmstep"
	"github.com/caserun/caserun/userfile"
)

// process is the process group of a job, or of one of its ranks. It is the first group of the session.
type process struct {
	rank    int
	cmd     *exec.Cmd
	pid     int             // of the leader, the group, and the session
	token   string          // of tokenOf
	outputs [2]*output      // of standard output and standard error
	traces  string          // the directory of its traces; "": it is not traced
	step    *slurmstep.Seat // nil: it takes part in no step of Slurm
	started time.Duration
	exited  time.Time     // when its leader had ended, or was given up
	ended   chan struct{} // closed when the leader and the group are gone, or given up, and the batch knows
	undead  chan struct{} // closed when SIGKILL has not ended it

	mu      sync.Mutex
	gone    bool // the leader's PID may be another process's
	stopped bool // by stop

	left bool // the group has processes that may not be killed; known when the leader has ended
}

// launch starts a job's process, of several ranks one. It must run on the spawner's thread, because the parent-death
// signal is tied to the thread that forks.
func (x *Executor) launch(job int, devices []int, seat seat) (*process, error) {
	if err := x.whyFailed(); err != nil {
		return nil, &failure{errors.New("the run had failed"), "see the run's event of kind failed"}
	}
	of := x.job(job)
	spec := of.spec
	base, traced := x.fileName(job)+seat.suffix(), ""
	if n := x.try(job).Restart; n > 0 { // those of earlier tries may still be read
		traced = trySuffix(n + 1)
	}
	p := &process{rank: seat.rank, ended: make(chan struct{}), undead: make(chan struct{})}
	started := false
	defer func() {
		if !started {
			p.closeOutputs()
		}
	}()
	for i, o := range []output{{stream: "standard output", name: base + ".out"}, {stream: "standard error", name: base + ".err"}} {
		f, err := x.makeFile(o.name)
		if err != nil {
			return nil, fmt.Errorf("create output file: %w", err)
		}
		o.file = f
		p.outputs[i] = &o
	}
	if err := spent(p.outputs[1].file.Fd()); err != nil {
		return nil, lack(fmt.Errorf("open files: %w", err))
	}
	traces, err := x.makeTraceDir(base + traced + ".trace")
	if err != nil {
		return nil, err
	}
	if err := x.mend(); err != nil {
		return nil, err
	}
	x.looked(job)
	cmd := exec.Command(of.program, spec.Args...)
	cmd.Dir = of.dir
	cmd.Stdout, cmd.Stderr = p.outputs[0].file, p.outputs[1].file
	if spec.Stdin != "" {
		path := spec.Stdin
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmd.Dir, path)
		}
		in, err := userfile.Open(path, userfile.Stdin)
		if err != nil {
			return nil, lack(fmt.Errorf("open standard input: %w", err))
		}
		defer in.Close()
		if err := unix.SetNonblock(int(in.Fd()), false); err != nil {
			return nil, fmt.Errorf("open standard input %s: %w", path, err)
		}
		cmd.Stdin = in
	}
	p.started = x.now() // before the job has a token
	cmd.Env = x.environment(job, devices, seat, traces)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd, p.token, p.traces = cmd, tokenOf(cmd.Env), traces
	if p.step = seat.step; p.step != nil {
		p.step.Lend(cmd)
		defer p.step.Lent()
	}
	if err := cmd.Start(); err != nil {
		return nil, lack(userfile.NotStarted(cmd.Path, cmd.Dir, err))
	}
	p.pid, started = cmd.Process.Pid, true
	x.guard.watch(p)
	return p, nil
}

// errUndead is the end of a job whose process the kernel does not end: it is blocked in a driver, as on a lost GPU.
var errUndead = errors.New("SIGKILL does not end it: it is blocked in the kernel, and may be so until the machine starts again")

// wait returns when the leader and everything left in its group are gone, or given up.
// Children that outlive the leader are killed with it.
func (p *process) wait() runner.Exit {
	gone := make(chan struct{})
	go func() {
		child.AwaitEnd(p.pid)
		close(gone)
	}()
	select {
	case <-gone:
	case <-p.undead:
		p.exited = time.Now()
		return runner.Exit{Err: errUndead, StderrTail: tail(p.outputs[1].file)}
	}
	p.exited = time.Now()
	p.signal(unix.SIGKILL) // what is left of the group
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	err := p.cmd.Wait()
	p.left = reapGroup(p.pid, unix.Kill, forbiddenLimit)
	state := p.cmd.ProcessState
	if state == nil {
		return runner.Exit{Err: fmt.Errorf("wait for process %d: %w", p.pid, err)}
	}
	e := runner.Exit{UserS: new(state.UserTime().Seconds()), SysS: new(state.SystemTime().Seconds()), StderrTail: tail(p.outputs[1].file)}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.MaxRSSBytes = new(usage.Maxrss * 1024) // getrusage(2): ru_maxrss is in KiB
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		e.Signal = new(unix.SignalName(status.Signal()))
	} else {
		e.Status = new(status.ExitStatus())
	}
	return e
}

// over reports whether the leader and the group are gone.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// killLimit is how long a process may take to end after SIGKILL. To give gigabytes back takes seconds.
const killLimit = 30 * time.Second

// stop ends the group: SIGTERM, and SIGKILL after the grace period. A process that does not end even then is given up.
func (p *process) stop(grace, limit time.Duration) {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.signal(unix.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return
	case <-timer.C:
		p.signal(unix.SIGKILL)
	}
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.giveUp()
	}
}

// giveUp has wait return.
func (p *process) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.undead:
	default:
		close(p.undead)
	}
}

// interrupted reports whether the leader ended as by an interruption that was not ours.
func (p *process) interrupted(e runner.Exit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stopped && slices.ContainsFunc([]syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM}, func(s syscall.Signal) bool {
		return e.Signal != nil && *e.Signal == unix.SignalName(s) || e.Status != nil && *e.Status == 128+int(s) // the status is a shell's
	})
}

// signal sends a signal to the group, unless the group is gone. Its number may be another
// group's then.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = unix.Kill(-p.pid, s)
	}
}

// How long reapGroup waits for processes that it may not kill, and for all processes.
const (
	forbiddenLimit = time.Second
	reapLimit      = time.Minute
)

// reapGroup kills and collects the remaining processes of a group after its leader has ended.
// This process inherits them, because it is a subreaper. It reports whether it left processes:
// programs that run as another user, which it may not kill, or their children.
func reapGroup(pgid int, kill func(pid int, s syscall.Signal) error, forbiddenLimit time.Duration) (left bool) {
	const longest = 10 * time.Millisecond
	began := time.Now()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, longest) {
		pid, err := unix.Wait4(-pgid, nil, unix.WNOHANG, nil)
		if pid > 0 || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false // ECHILD: none left
		}
		forbidden := errors.Is(kill(-pgid, unix.SIGKILL), unix.EPERM)
		if took := time.Since(began); forbidden && took > forbiddenLimit || took > reapLimit {
			return true
		}
		time.Sleep(pause) // wait4(2) knows no limit, and a group has no pidfd to poll
	}
}

func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the subreaper of the jobs' children: %w", err)
	}
	return nil
}

// tailBytes is how much of a job's stderr is kept in the store.
const tailBytes = 2048

// tail is the end of a file, cut at a line where there is one.
func tail(f *os.File) string {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return ""
	}
	from := max(info.Size()-tailBytes, 0)
	buf := make([]byte, info.Size()-from)
	n, _ := f.ReadAt(buf, from)
	text := string(buf[:n])
	if from > 0 {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return strings.ToValidUTF8(strings.TrimRight(text, "\n"), "\uFFFD")
}

// spawner runs functions in order on one thread, which lives as long as the spawner.
type spawner struct {
	mu    sync.Mutex
	ready *sync.Cond
	queue []func()
	ended bool
	done  chan struct{}
}

func startSpawner() *spawner {
	s := &spawner{done: make(chan struct{})}
	s.ready = sync.NewCond(&s.mu)
	go s.run()
	return s
}

// run takes a thread that ends with the goroutine, after every job. The thread is never the
// process's first thread, because that thread inherits orphans, and jobs must not be among
// them (inherited).
func (s *spawner) run() {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		go s.run() // on another thread, because this goroutine keeps the first one
		<-s.done
		runtime.UnlockOSThread()
		return
	}
	defer close(s.done)
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.ended {
			s.ready.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
	}
}

// do queues f and returns at once.
func (s *spawner) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	s.ready.Signal()
}

func (s *spawner) close() {
	s.mu.Lock()
	s.ended = true
	s.ready.Signal()
	s.mu.Unlock()
	<-s.done
}
