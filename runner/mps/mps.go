// Package mps runs one CUDA Multi-Process Service during a run: a private control daemon with its
// own pipe and log directories. The daemon starts the server when the first client connects.
//
// The package never changes a compute mode. Under EXCLUSIVE_PROCESS only one process may hold
// contexts on a device, so the MPS server, a ballast and another daemon's server exclude each
// other. Under DEFAULT they can share a device.
package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/scratch"
)

// control is NVIDIA's program. With -f it is the daemon; without arguments it is the front end
// that passes commands from stdin to the daemon.
const control = "nvidia-cuda-mps-control"

const (
	// maxPipeDir keeps the daemon's longest socket path within sun_path, which has 108 bytes
	// including the final 0 (unix(7)). /control_privileged takes 19 bytes; later drivers may
	// have longer names.
	maxPipeDir = 80

	// defaultPipeDir is the pipe directory if CUDA_MPS_PIPE_DIRECTORY is not set.
	defaultPipeDir = "/tmp/nvidia-mps"

	pollInterval = 20 * time.Millisecond
)

// patience is how long a daemon and its servers may take. Tests have less of it.
type patience struct {
	// command is the longest time for one command. Commands take 3 ms, except
	// terminate_client, which waits until the client's kernel is stopped: 0.2 s (H200, driver
	// 580).
	command time.Duration
	// server is the longest time that servers may take to end, and killed after SIGKILL.
	server, killed time.Duration
	// quit is the longest time that Quit takes once the clients are gone.
	quit time.Duration
	// A daemon that answers nothing for the time hang hangs: no process becomes a client again, and those that
	// try wait for ever. It was seen once, after some ten clients of a batch had ended by kill -9 (H200, driver
	// 580). It is asked in intervals of ask.
	hang, ask time.Duration
	// settle is the time after a client's death in which its server may still appear healthy. The
	// server was in state FAULT 0.15 s after a kill -9 during a kernel, and at once after a fault
	// (H200, driver 580).
	settle time.Duration
	// health is the time between two checks of an unhealthy server.
	health time.Duration
	// recovery is how long a server may be in state FAULT without clients. It was ACTIVE 60 ms after the last had gone
	// (H200, driver 580).
	recovery time.Duration
}

var usual = patience{command: 5 * time.Second, server: 2 * time.Second, killed: 2 * time.Second, quit: 10 * time.Second,
	hang: 30 * time.Second, ask: 10 * time.Second, settle: 250 * time.Millisecond, health: 100 * time.Millisecond, recovery: time.Second}

var (
	// errNotInstalled is wrapped by Start if nvidia-cuda-mps-control is not on PATH.
	errNotInstalled = errors.New(control + " is not installed")
	// errForeignDaemon is wrapped by Start if another daemon serves the default pipe directory,
	// because its clients would share the GPUs with the run.
	errForeignDaemon = errors.New("another MPS daemon is running")
	// errFault is wrapped if a server is in state FAULT.
	errFault = errors.New("in state FAULT")
	// errDied is wrapped if the daemon or one of its servers ended without being told to. The
	// message has the end of its log.
	errDied = errors.New("MPS died")
)

// Config configures the daemon.
type Config struct {
	// Devices are the UUIDs of the GPUs that clients may use; default: all. Clients must then
	// name devices by UUID too, because MPS renumbers ordinals.
	Devices []string
	// ActiveThreadPercentage is the percentage of the SMs that each client may use, above 0 and
	// up to 100; 0: no limit.
	ActiveThreadPercentage float64
}

// Daemon is a running control daemon. Its methods may be called from several
// goroutines at once.
type Daemon struct {
	program string
	dir     *scratch.Dir // removed by Quit
	spare   *scratch.Dir // with second names of the files in pipe; the same
	root    string       // the path of dir, which has pipe and log
	env     []string
	proc    *child.Process

	commands sync.Mutex // held while a command waits for its answer

	mending sync.Mutex    // held by Mend
	kept    []fs.FileInfo // of the files in pipe; settled by start

	mu       sync.Mutex
	patience patience     // what it has for commands may change, in tests
	servers  map[int]bool // every server that was seen and not reported as died
	silent   time.Time    // since when no command was answered; zero: the last one was
	hung     error        // why the daemon was killed

	quitting sync.Once
	quitErr  error
}

// Start runs a daemon and returns once the daemon answers. The daemon ends when this process
// ends, even by SIGKILL. ctx limits only the start.
func Start(ctx context.Context, cfg Config) (*Daemon, error) {
	return start(ctx, cfg, defaultPipeDir, usual)
}

func start(ctx context.Context, cfg Config, foreign string, p patience) (*Daemon, error) {
	program, err := exec.LookPath(control)
	if err != nil {
		return nil, fmt.Errorf("start MPS: %w: %w", errNotInstalled, err)
	}
	if pid, ok := daemonIn(foreign); ok {
		return nil, fmt.Errorf("start MPS: %w: process %d serves %s", errForeignDaemon, pid, foreign)
	}
	if most := cfg.ActiveThreadPercentage; !(most >= 0 && most <= 100) {
		return nil, fmt.Errorf("start MPS: active thread percentage is %v, want 0 to 100", most)
	}
	dir, err := makeDirs()
	if err != nil {
		return nil, fmt.Errorf("start MPS: %w", err)
	}
	spare, err := scratch.Make("mps-spare")
	if err != nil {
		return nil, fmt.Errorf("start MPS: %w", errors.Join(err, dir.Remove()))
	}
	d := &Daemon{program: program, dir: dir, spare: spare, root: dir.Path(), patience: p, servers: map[int]bool{}}
	d.env = d.environment(cfg)
	fail := func(err error) (*Daemon, error) {
		return nil, fmt.Errorf("start MPS in %s: %w", d.root, errors.Join(err, dir.Remove(), spare.Remove()))
	}
	out, err := os.OpenFile(d.logFile("output"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fail(err)
	}
	d.proc, err = launch(program, d.env, out)
	if err != nil {
		return fail(err)
	}
	if err := d.waitReady(ctx); err != nil {
		return fail(errors.Join(err, d.proc.Kill()))
	}
	d.keep()
	go d.watch(p.ask, p.hang)
	return d, nil
}

// watch asks the daemon at intervals, and kills it if it hangs, so that whoever waits for Done or for an answer continues.
func (d *Daemon) watch(interval, limit time.Duration) {
	ask := time.NewTicker(interval)
	defer ask.Stop()
	for {
		select {
		case <-d.proc.Done():
			return
		case <-ask.C:
		}
		_, _ = d.listServers(context.Background())
		if d.hangs(limit) {
			_ = d.proc.Kill() // Quit says what is left
		}
	}
}

// hangs reports whether no command was answered for so long, and keeps it as the reason of the daemon's end.
func (d *Daemon) hangs(limit time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.silent.IsZero() || time.Since(d.silent) < limit {
		return false
	}
	d.hung = fmt.Errorf("it answered nothing for %v, and was killed", time.Since(d.silent).Round(time.Second))
	return true
}

// answered notes whether a command that was given at that time was answered.
func (d *Daemon) answered(given time.Time, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case answered:
		d.silent = time.Time{}
	case d.silent.IsZero():
		d.silent = given
	}
}

// makeDirs makes the private directories in the system's temporary directory. Its path must be
// short enough for the paths of sockets.
func makeDirs() (*scratch.Dir, error) {
	dir, err := scratch.Make("mps")
	if err != nil {
		return nil, err
	}
	pipe := filepath.Join(dir.Path(), "pipe")
	if len(pipe) > maxPipeDir {
		return nil, errors.Join(fmt.Errorf("pipe directory %s has %d bytes, but its sockets allow at most %d: set TMPDIR to a shorter directory",
			pipe, len(pipe), maxPipeDir), dir.Remove())
	}
	for _, d := range []string{pipe, filepath.Join(dir.Path(), "log")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, errors.Join(err, dir.Remove())
		}
	}
	return dir, nil
}

// environment returns this process's environment without variables that would redirect or limit
// the daemon, and with the run's configuration.
func (d *Daemon) environment(cfg Config) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "CUDA_MPS_") || name == "CUDA_VISIBLE_DEVICES" || name == "CUDA_DEVICE_ORDER" {
			continue
		}
		env = append(env, kv)
	}
	env = append(env, d.Env()...)
	env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	if len(cfg.Devices) > 0 {
		env = append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(cfg.Devices, ","))
	}
	if p := cfg.ActiveThreadPercentage; p > 0 {
		env = append(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="+strconv.FormatFloat(p, 'f', -1, 64))
	}
	return env
}

// Env returns the variables that a process needs to become a client.
func (d *Daemon) Env() []string {
	return []string{
		"CUDA_MPS_PIPE_DIRECTORY=" + d.pipes(),
		"CUDA_MPS_LOG_DIRECTORY=" + filepath.Join(d.root, "log"),
	}
}

func (d *Daemon) waitReady(ctx context.Context) error {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	var last error
	for {
		if _, last = d.command(ctx, "get_server_list"); last == nil {
			return nil
		}
		select {
		case <-d.proc.Done():
			return d.died("the control daemon", d.proc.Err())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the control daemon does not answer: %w", context.Cause(ctx)), last, d.logTail())
		case <-poll.C:
		}
	}
}

// Done is closed when the control daemon has ended, whether or not it was told to.
func (d *Daemon) Done() <-chan struct{} { return d.proc.Done() }

// health returns an error that wraps errDied if the daemon or a server ended without being told
// to, and a different error if a server reports a fault or does not answer. It reports the end of
// a server once, because the daemon starts a new server for the next client.
func (d *Daemon) health(ctx context.Context) error {
	select {
	case <-d.proc.Done():
		return d.died("the control daemon", d.proc.Err())
	default:
	}
	d.mu.Lock()
	before := make([]int, 0, len(d.servers))
	for pid := range d.servers {
		before = append(before, pid)
	}
	d.mu.Unlock()
	now, err := d.listServers(ctx)
	if err != nil {
		return err
	}
	alive := map[int]bool{}
	for _, pid := range now {
		alive[pid] = true
		status, err := d.command(ctx, fmt.Sprintf("get_server_status %d", pid))
		if err != nil {
			return err
		}
		if strings.TrimSpace(status) == "FAULT" {
			return errors.Join(fmt.Errorf("MPS server %d is %w", pid, errFault), d.logTail())
		}
	}
	for _, pid := range before {
		if !alive[pid] {
			d.mu.Lock()
			delete(d.servers, pid)
			d.mu.Unlock()
			return d.died(fmt.Sprintf("server %d", pid), nil)
		}
	}
	return nil
}

// AwaitHealthy returns nil when the servers accept new clients. After a client's fault a server is in state FAULT and turns new
// clients away until the clients of the devices concerned have ended. Then it makes these devices' contexts again and is ACTIVE
// (NVIDIA, "Multi-Process Service", "MPS Error Containment"). A server that does not become ACTIVE although no client is left is
// killed: the daemon starts another for the next client. If the servers do not accept clients, AwaitHealthy calls broken once with
// the reason, and once more when it first sees a server in state FAULT, and checks again until ctx ends.
func (d *Daemon) AwaitHealthy(ctx context.Context, broken func(why error, fault bool)) error {
	var ill error
	inFault, idle := false, time.Time{}
	for wait := d.patience.settle; ; wait = d.patience.health {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.proc.Done():
		case <-ctx.Done():
		}
		timer.Stop()
		err := d.health(ctx)
		select {
		case <-d.proc.Done(): // nothing restarts the daemon
			return fmt.Errorf("wait for MPS: %w", d.died("the control daemon", d.proc.Err()))
		default:
		}
		fault := errors.Is(err, errFault)
		switch {
		case ctx.Err() != nil:
			return errors.Join(fmt.Errorf("wait for MPS: %w", context.Cause(ctx)), ill)
		case err == nil:
			return nil
		case ill == nil, fault && !inFault:
			broken(err, fault)
		}
		ill, inFault = err, inFault || fault
		if idle = d.idleSince(ctx, fault, idle); !idle.IsZero() && time.Since(idle) >= d.patience.recovery {
			d.replace()
			idle = time.Time{}
		}
	}
}

// idleSince is since when a server in state FAULT has had no client that lives; zero: it has one.
func (d *Daemon) idleSince(ctx context.Context, fault bool, since time.Time) time.Time {
	clients, err := d.listClients(ctx)
	if !fault || err != nil || slices.ContainsFunc(clients, func(c client) bool { return alive(c.PID) }) {
		return time.Time{}
	}
	if since.IsZero() {
		return time.Now()
	}
	return since
}

// replace kills the servers. health reports their end.
func (d *Daemon) replace() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for pid := range d.servers {
		if runs(pid, serverProgram) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (d *Daemon) died(who string, cause error) error {
	d.mu.Lock()
	if d.hung != nil {
		cause = d.hung
	}
	d.mu.Unlock()
	err := fmt.Errorf("%w: %s", errDied, who)
	if cause != nil {
		err = fmt.Errorf("%w: %s: %w", errDied, who, cause)
	}
	return errors.Join(err, d.logTail())
}
