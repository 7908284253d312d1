// Package child runs programs that end when this process ends, even by SIGKILL.
package child

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a started program, which leads its own process group.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read only after done
}

// Start starts cmd. The program gets the signal death if this process ends first. Start sets
// cmd.SysProcAttr, and the caller must not use cmd afterwards.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run starts the program and waits for its end. It keeps its thread locked until then, because the
// parent-death signal is sent when the thread that started the program ends (prctl(2)).
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

// PID returns the id of the program's process and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the error of exec.Cmd.Wait. It may be called once Done is closed.
func (p *Process) Err() error { return p.err }

// killLimit is how long a program may take to end after SIGKILL. To give gigabytes back takes seconds.
const killLimit = 30 * time.Second

// Kill kills the program's process group and waits for the program. A program that is blocked in the kernel, as in the driver of a lost
// GPU, is left, and an error.
func (p *Process) Kill() error { return p.kill(killLimit) }

func (p *Process) kill(limit time.Duration) error {
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.PID(), err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("process %d did not end within %v of SIGKILL, and is left: it is blocked in the kernel", p.PID(), limit)
	}
}
