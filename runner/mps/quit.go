package mps

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const serverProgram = "nvidia-cuda-mps-server"

// Quit stops the daemon and its servers and removes the private directories. It
// waits for the clients until ctx ends, then terminates those that remain, then
// tells the daemon to quit, and kills it and the servers when they do not. When
// it returns, no process of this MPS is left, unless the error says so. The
// error says what had to be forced, with the end of the logs. A second Quit
// answers alike.
func (d *Daemon) Quit(ctx context.Context) error {
	d.quitting.Do(func() {
		if err := d.stop(ctx); err != nil {
			d.quitErr = fmt.Errorf("quit MPS: %w", err)
		}
	})
	return d.quitErr
}

func (d *Daemon) stop(ctx context.Context) error {
	var errs []error
	select {
	case <-d.proc.Done():
		errs = append(errs, d.died("the control daemon", d.proc.Err()))
	default:
		errs = append(errs, d.Drain(ctx))
		// What remains to be done must be done although ctx has ended.
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), quitLimit,
			fmt.Errorf("the control daemon did not end within %v", quitLimit))
		defer cancel()
		if errs[0] != nil {
			errs = append(errs, d.terminateAll(ctx))
		}
		errs = append(errs, d.quitControl(ctx))
	}
	errs = append(errs, d.killServers())
	err := errors.Join(errs...)
	if err != nil && !errors.Is(err, ErrDied) { // which has it
		err = errors.Join(err, d.logTail())
	}
	return errors.Join(err, d.dir.Remove())
}

func (d *Daemon) terminateAll(ctx context.Context) error {
	clients, err := d.Clients(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range clients {
		errs = append(errs, d.terminate(ctx, c))
	}
	return errors.Join(errs...)
}

// quitControl asks, waits until ctx ends, and kills.
func (d *Daemon) quitControl(ctx context.Context) error {
	_, err := d.command(ctx, fmt.Sprintf("quit -t %d", int(serverLimit/time.Second)))
	if err == nil {
		select {
		case <-d.proc.Done():
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	select {
	case <-d.proc.Done():
		return nil
	default:
	}
	return errors.Join(fmt.Errorf("killed the control daemon: %w", err), d.proc.Kill())
}

// killServers ends every server that was seen and still runs. A server ends by
// itself when its control daemon does, killed or not (seen with driver 580);
// one that hangs in the driver does not.
func (d *Daemon) killServers() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for pid := range d.servers {
		if d.gone(pid, serverLimit) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("kill MPS server %d: %w", pid, err))
			continue
		}
		if !d.gone(pid, serverLimit) {
			errs = append(errs, fmt.Errorf("MPS server %d is left: it survives SIGKILL, so the driver holds it", pid))
			continue
		}
		errs = append(errs, fmt.Errorf("killed MPS server %d, which outlived its control daemon", pid))
	}
	return errors.Join(errs...)
}

// gone waits up to limit for a server that is not our child to end.
func (d *Daemon) gone(pid int, limit time.Duration) bool {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for deadline := time.Now().Add(limit); runs(pid, serverProgram); <-poll.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
