// Package child runs programs that end with this process, however it ends.
package child

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a program that was started, the leader of a process group of its own.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read only after done
}

// Start starts cmd, which gets the signal death when this process ends before it.
// It owns cmd from then on, and sets its SysProcAttr.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run owns the program from start to exit. The parent-death signal fires when
// the thread that started the program ends (prctl(2)), so that thread is this
// goroutine's until the program has ended.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
}

// PID is the program's process, and its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the program ended, as exec.Cmd's Wait tells it. It may be called once
// Done is closed.
func (p *Process) Err() error { return p.err }

// Kill ends what there is of the program's group and waits for the program.
func (p *Process) Kill() error {
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.PID(), err)
	}
	<-p.done
	return nil
}
