package mps

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// process is the control daemon as our child.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read only after done
}

// launch starts the daemon in the foreground (-f), because one that puts itself
// into the background (-d) leaves our process tree and outlives a killed run. It
// closes out.
func launch(program string, env []string, out *os.File) (*process, error) {
	cmd := exec.Command(program, "-f")
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	err := <-started
	if closeErr := out.Close(); err == nil && closeErr != nil {
		err = errors.Join(closeErr, p.kill())
	}
	return p, err
}

// run owns the daemon from start to exit. The parent-death signal fires when
// the thread that started the daemon ends (prctl(2)), so that thread is this
// goroutine's until the daemon has ended.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
}

// kill ends the daemon's process group and waits for the daemon.
func (p *process) kill() error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("kill MPS control daemon %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.done
	return nil
}

// daemonIn returns the daemon that serves a pipe directory, if it runs. The
// daemon writes its PID there; a file that a dead one left behind names no
// process, or one with another name.
func daemonIn(pipeDir string) (pid int, ok bool) {
	text, err := os.ReadFile(filepath.Join(pipeDir, control+".pid"))
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, false
	}
	return pid, runs(pid, control)
}

// runs reports whether process pid is the named program. A process's comm has
// 15 bytes at most (proc(5)), so the program's name is compared in full from
// its command line.
func runs(pid int, name string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	for i, arg := range strings.Split(string(cmdline), "\x00") {
		// A script's interpreter comes first.
		if i < 2 && filepath.Base(arg) == name {
			return true
		}
	}
	return false
}
