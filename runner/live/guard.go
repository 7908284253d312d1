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
// would leave those behind; the guard knows the process groups and kills them
// when its standard input ends.
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

func (g *guard) watch(pgid int)  { g.say("+", pgid) }
func (g *guard) forget(pgid int) { g.say("-", pgid) }

// say tells the guard; one that is gone cannot be told, and jobs still have
// their parent-death signal.
func (g *guard) say(sign string, pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = io.WriteString(g.in, sign+strconv.Itoa(pgid)+"\n")
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.in.Close()
	_ = g.cmd.Wait()
}

// Guard is the guard's main: it reads "+PGID" and "-PGID" lines and at the end
// of r kills the groups that were not taken back. It ignores the terminal's
// signals, which the harness handles.
func Guard(r io.Reader) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	groups := map[int]bool{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text := lines.Text()
		pgid, err := strconv.Atoi(strings.TrimLeft(text, "+-"))
		if err != nil || pgid <= 1 {
			return fmt.Errorf("guard: line %q: want +PGID or -PGID", text)
		}
		if text[0] == '+' {
			groups[pgid] = true
		} else {
			delete(groups, pgid)
		}
	}
	for pgid := range groups {
		_ = unix.Kill(-pgid, unix.SIGKILL)
	}
	return lines.Err()
}
