package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// client is a process that uses a server of the daemon. The PIDs are those of
// the daemon's PID namespace.
type client struct {
	Server, PID int
}

// errBusy is wrapped where the daemon takes no command, because it has another. That may be one whose front end was killed: the
// daemon has it until the server has answered.
var errBusy = errors.New("the daemon has another command")

// command passes one line to the daemon and returns the answer. It takes no longer than the patience with commands.
func (d *Daemon) command(ctx context.Context, line string) (string, error) {
	d.commands.Lock()
	defer d.commands.Unlock()
	d.mu.Lock()
	limit := d.patience.command
	d.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	given := time.Now()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		out, err := d.give(ctx, line)
		busy := errors.Is(err, errBusy)
		d.answered(given, ctx.Err() == nil && !busy)
		if !busy {
			return out, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return "", err
		case <-d.proc.Done():
			return "", err
		}
	}
}

// give runs the front end once.
func (d *Daemon) give(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, d.program)
	cmd.Env = d.env
	cmd.Stdin = strings.NewReader(line + "\n")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch said := strings.TrimSpace(stdout.String() + "\n" + stderr.String()); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("MPS command %q: %w", line, context.Cause(ctx))
	case strings.Contains(said, "Cannot send command"):
		return "", fmt.Errorf("MPS command %q: %w: %s", line, errBusy, said)
	case err != nil:
		return "", fmt.Errorf("MPS command %q: %w: %s", line, err, said)
	case strings.Contains(said, "Cannot find MPS control daemon"):
		return "", fmt.Errorf("MPS command %q: %s", line, said)
	}
	return stdout.String(), nil
}

// errNoServer stands for the answer "Server PID not found", whose exit status is 0.
var errNoServer = errors.New("no such server")

// pids gives a command and parses its answer, which has one PID on each line.
func (d *Daemon) pids(ctx context.Context, line string) ([]int, error) {
	out, err := d.command(ctx, line)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(out, "Server ") && strings.Contains(out, "not found") {
		return nil, fmt.Errorf("MPS command %q: %w", line, errNoServer)
	}
	var list []int
	for _, field := range strings.Fields(out) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("MPS command %q: answer %q, want PIDs", line, strings.TrimSpace(out))
		}
		list = append(list, pid)
	}
	sort.Ints(list)
	return list, nil
}

// listServers lists the servers. The first client starts the first server, so the list is empty before.
func (d *Daemon) listServers(ctx context.Context) ([]int, error) {
	list, err := d.pids(ctx, "get_server_list")
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	for _, pid := range list {
		d.servers[pid] = true
	}
	d.mu.Unlock()
	return list, nil
}

// listClients lists the clients of all servers.
func (d *Daemon) listClients(ctx context.Context) ([]client, error) {
	servers, err := d.listServers(ctx)
	if err != nil {
		return nil, err
	}
	var out []client
	for _, server := range servers {
		list, err := d.pids(ctx, fmt.Sprintf("get_client_list %d", server))
		if errors.Is(err, errNoServer) {
			continue // it ended since it was listed
		}
		if err != nil {
			return nil, err
		}
		for _, pid := range list {
			out = append(out, client{Server: server, PID: pid})
		}
	}
	return out, nil
}

// TerminateClients ends the GPU work of the processes that are clients. The clients can then be
// killed without harm to other clients: kill -9 during a kernel gives error 700 to all clients
// (seen on H200). The processes themselves continue, and their CUDA calls fail with error 810.
func (d *Daemon) TerminateClients(ctx context.Context, pids ...int) error {
	clients, err := d.listClients(ctx)
	if err != nil {
		return fmt.Errorf("terminate MPS clients among %v: %w", pids, err)
	}
	var errs []error
	for _, c := range clients {
		if slices.Contains(pids, c.PID) {
			errs = append(errs, d.terminate(ctx, c))
		}
	}
	return errors.Join(errs...)
}

// terminate gives the command terminate_client. Its status is the last line of the answer; its
// exit status is always 0.
func (d *Daemon) terminate(ctx context.Context, c client) error {
	out, err := d.command(ctx, fmt.Sprintf("terminate_client %d %d", c.Server, c.PID))
	if err != nil {
		return fmt.Errorf("terminate MPS client %d: %w", c.PID, err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if lines[len(lines)-1] != "0" {
		return fmt.Errorf("terminate MPS client %d of server %d: answer %q", c.PID, c.Server, strings.Join(lines, " "))
	}
	return nil
}

// drain waits until the last client has left. If ctx ends first, drain returns ctx's cause with the
// remaining clients.
func (d *Daemon) drain(ctx context.Context) error {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	var left []client
	for {
		clients, err := d.listClients(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("drain MPS: %w; clients left: %v", context.Cause(ctx), left)
		case err != nil:
			return fmt.Errorf("drain MPS: %w", err)
		case len(clients) == 0:
			return nil
		}
		left = clients
		select {
		case <-poll.C:
		case <-ctx.Done():
		case <-d.proc.Done():
			return errors.Join(errors.New("drain MPS"), d.died("the control daemon", d.proc.Err()))
		}
	}
}
