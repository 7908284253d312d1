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
)

// GuardCommand is the hidden argument with which caserun runs as the guard of
// another caserun.
const GuardCommand = "guard-jobs"

// guard is a process that outlives this one by a moment. A parent-death signal
// reaches a job but not the job's children, so that kill -9 of the harness
// would leave those behind; the guard knows the jobs' sessions and tokens, and
// kills what has them when its standard input ends.
type guard struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	in  io.WriteCloser
}

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	cmd := exec.Command(self, GuardCommand)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	return &guard{cmd: cmd, in: in}, nil
}

func (g *guard) watch(p *process)  { g.say("+%d %s\n", p.pid, p.token) }
func (g *guard) forget(p *process) { g.say("-%d\n", p.pid) }

// say tells the guard; one that is gone cannot be told, and jobs still have
// their parent-death signal.
func (g *guard) say(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintf(g.in, format, args...)
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.in.Close()
	_ = g.cmd.Wait()
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
	killed := map[int]bool{}
	for more := true; more; { // until none of them is there to start another
		more = false
		for _, s := range all() {
			if !s.ended && !killed[s.pid] && isOf(s, jobs) && unix.Kill(s.pid, unix.SIGKILL) == nil {
				killed[s.pid], more = true, true
			}
		}
	}
	return lines.Err()
}

// isOf reports whether the process is of one of the jobs, as their sessions and
// tokens tell.
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
