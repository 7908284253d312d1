package live

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner/child"
)

// GuardCommand is the hidden argument with which caserun runs as the guard of
// another caserun.
const GuardCommand = "guard-jobs"

// guard is a process that outlives this process by a moment. A parent-death signal reaches a
// job but not the job's children, so kill -9 of the harness would leave them behind. The guard
// knows the sessions and tokens of the jobs. When its standard input ends it kills the
// processes that have them. A guard that is killed is replaced.
type guard struct {
	lost    func(error) // is called when a guard was killed, and says if it is not replaced and why
	watched sync.WaitGroup

	mu      sync.Mutex
	cmd     *exec.Cmd
	in      io.WriteCloser
	jobs    map[int]string // token by session
	deaths  int
	closing bool
}

// guardVariable is set in the environment of guards. A program that takes no notice of
// GuardCommand, such as a test without a TestMain, would start guards without end.
const guardVariable = "CASERUN_IS_GUARD"

// maxDeaths is how many killed guards a run replaces. Then the run goes on without a guard,
// because something kills every guard.
const maxDeaths = 10

// startGuard starts a guard. lost must not block.
func startGuard(lost func(error)) (*guard, error) {
	g := &guard{lost: lost, jobs: map[int]string{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.start(); err != nil {
		return nil, err
	}
	return g, nil
}

// start starts a guard process, tells it the jobs, and has replace wait for its end. The
// caller holds the lock.
func (g *guard) start() error {
	if os.Getenv(guardVariable) != "" {
		return fmt.Errorf("start guard: this process was started as a guard: its main function must call live.Guard for the argument %s", GuardCommand)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	cmd := exec.Command(self, GuardCommand)
	cmd.Env = append(os.Environ(), guardVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	g.cmd, g.in = cmd, in
	for session, token := range g.jobs {
		g.say("+%d %s\n", session, token)
	}
	g.watched.Go(func() {
		child.AwaitEnd(cmd.Process.Pid)
		g.replace()
	})
	return nil
}

// replace collects a guard that has ended, and starts another one unless the run has ended.
func (g *guard) replace() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.cmd.Wait() // how it ended is in ProcessState
	if g.closing {
		return
	}
	g.lost(fmt.Errorf("the guard of the jobs, process %d, ended (%v): the next one takes its place", g.cmd.Process.Pid, g.cmd.ProcessState))
	err := fmt.Errorf("%d guards were killed", g.deaths+1)
	if g.deaths++; g.deaths <= maxDeaths {
		err = g.start()
	}
	if err != nil {
		g.lost(fmt.Errorf("the jobs have no guard any more: %w; if this process is killed, look for what is left of the jobs", err))
	}
}

func (g *guard) watch(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.jobs[p.pid] = p.token
	g.say("+%d %s\n", p.pid, p.token)
}

func (g *guard) forget(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.jobs, p.pid)
	g.say("-%d\n", p.pid)
}

// say sends the guard a line. The caller holds the lock. A guard that has been killed does not
// hear it, but start tells the next guard all jobs.
func (g *guard) say(format string, args ...any) { _, _ = fmt.Fprintf(g.in, format, args...) }

func (g *guard) close() {
	g.mu.Lock()
	g.closing = true
	_ = g.in.Close()
	g.mu.Unlock()
	g.watched.Wait()
}

// Guard is the guard's main: it reads "+SESSION TOKEN" and "-SESSION" lines and at
// the end of r kills the processes of the jobs that were not taken back. It ignores
// the terminal's signals, which the harness handles.
func Guard(r io.Reader) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	jobs := map[int]string{} // token by session
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text := lines.Text()
		id, token, watch := strings.Cut(strings.TrimLeft(text, "+-"), " ")
		session, err := strconv.Atoi(id)
		if err != nil || session <= 1 || watch != strings.HasPrefix(text, "+") {
			return fmt.Errorf("guard: line %q: want +SESSION TOKEN or -SESSION", text)
		}
		if watch {
			jobs[session] = token
		} else {
			delete(jobs, session)
		}
	}
	killMarked(jobs)
	return lines.Err()
}

// killMarked kills the processes that belong to one of the jobs, until none is left that could start another.
func killMarked(jobs map[int]string) {
	killed := map[int]bool{}
	for more := true; more; {
		more = false
		for _, s := range all() {
			if !s.ended && !killed[s.pid] && isOf(s, jobs) && unix.Kill(s.pid, unix.SIGKILL) == nil {
				killed[s.pid], more = true, true
			}
		}
	}
}

// isOf reports whether the process belongs to one of the jobs, by its session or its token.
func isOf(s stat, jobs map[int]string) bool {
	if _, own := jobs[s.session]; own {
		return true
	}
	for _, token := range jobs {
		if bears(s.pid, token) {
			return true
		}
	}
	return false
}
