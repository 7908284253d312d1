package mps

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const serverProgram = "nvidia-cuda-mps-server"

// Quit stops the daemon and its servers and removes the private directories:
//  1. it waits for the clients until ctx ends;
//  2. it terminates the remaining clients;
//  3. it tells the daemon to quit;
//  4. it kills the daemon and the servers if they do not end, or if a client has removed what leads to the daemon (Mend).
//
// When Quit returns, no process of this MPS is left, unless the error says so. The error says what
// Quit had to force, with the end of the logs. A second Quit returns the same error.
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
	_, lost := d.Mend()
	select {
	case <-d.proc.Done():
		errs = append(errs, d.died("the control daemon", d.proc.Err()))
	default:
		if lost != nil { // its servers end with it
			errs = append(errs, d.proc.Kill())
			break
		}
		errs = append(errs, d.drain(ctx))
		// The next steps must be done even if ctx has ended.
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), d.patience.quit,
			fmt.Errorf("the control daemon did not end within %v", d.patience.quit))
		defer cancel()
		if errs[0] != nil {
			errs = append(errs, d.terminateAll(ctx))
		}
		errs = append(errs, d.quitControl(ctx))
	}
	errs = append(errs, d.killServers())
	err := errors.Join(errs...)
	if err != nil && !errors.Is(err, errDied) { // errDied already has the logs
		err = errors.Join(err, d.logTail())
	}
	return errors.Join(err, d.dir.Remove(), d.spare.Remove())
}

func (d *Daemon) terminateAll(ctx context.Context) error {
	clients, err := d.listClients(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range clients {
		errs = append(errs, d.terminate(ctx, c))
	}
	return errors.Join(errs...)
}

// quitControl tells the daemon to quit, waits until ctx ends, and then kills it. A daemon that ends has done what it was told,
// whatever the front end says of an answer: the daemon may be gone before it has given one.
func (d *Daemon) quitControl(ctx context.Context) error {
	_, err := d.command(ctx, fmt.Sprintf("quit -t %d", int(d.patience.server/time.Second)))
	if err != nil { // it may not have heard
		limited, cancel := context.WithTimeout(ctx, d.patience.server)
		defer cancel()
		ctx = limited
	}
	select {
	case <-d.proc.Done():
		return nil
	case <-ctx.Done():
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return errors.Join(fmt.Errorf("killed the control daemon: %w", err), d.proc.Kill())
}

// killServers kills every known server that still runs. A server ends by itself when its control
// daemon ends, even by SIGKILL (seen with driver 580), unless it hangs in the driver.
func (d *Daemon) killServers() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for pid := range d.servers {
		if d.gone(pid, d.patience.server) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("kill MPS server %d: %w", pid, err))
			continue
		}
		if !d.gone(pid, d.patience.killed) {
			errs = append(errs, fmt.Errorf("MPS server %d still runs after SIGKILL: it is blocked in the driver", pid))
			continue
		}
		errs = append(errs, fmt.Errorf("killed MPS server %d, which outlived its control daemon", pid))
	}
	return errors.Join(errs...)
}

// gone waits up to limit for the end of a server, which is not our child.
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
