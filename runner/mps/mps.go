// Package mps runs one CUDA Multi-Process Service for the length of a run: a
// control daemon of its own in private pipe and log directories, which starts
// the server when the first client comes.
//
// The package never changes a compute mode. Under EXCLUSIVE_PROCESS the MPS
// server is the one process that may hold contexts on a device, so that a
// ballast, or another daemon's server, excludes this one, and the other way
// round; under DEFAULT they live side by side.
package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/scratch"
)

// control is NVIDIA's program, both the daemon (-f) and, without arguments, the
// front end that passes commands from stdin to it.
const control = "nvidia-cuda-mps-control"

const (
	// maxPipeDir keeps the daemon's longest socket path within sun_path, 108
	// bytes with its final 0 (unix(7)): /control_privileged takes 19, and some
	// room is left for names of later drivers.
	maxPipeDir = 80

	// defaultPipeDir is where clients and daemons meet without
	// CUDA_MPS_PIPE_DIRECTORY.
	defaultPipeDir = "/tmp/nvidia-mps"

	pollInterval = 20 * time.Millisecond
	// commandLimit bounds one command. They take 3 ms, and terminate_client as
	// long as the client's kernel needs to be stopped, 0.2 s (H200, driver 580).
	commandLimit = 5 * time.Second
	// serverLimit is how long servers may take to end.
	serverLimit = 2 * time.Second
)

// quitLimit is how long Quit takes at most after its clients are gone.
var quitLimit = 10 * time.Second

var (
	// ErrNotInstalled is wrapped by Start when there is no
	// nvidia-cuda-mps-control on PATH.
	ErrNotInstalled = errors.New(control + " is not installed")
	// ErrForeignDaemon is wrapped by Start when somebody else's daemon serves the
	// default pipe directory: its clients would share the GPUs with the run.
	ErrForeignDaemon = errors.New("another MPS daemon is running")
	// ErrDied is wrapped when the daemon or one of its servers has ended by
	// itself. The message has the end of its log.
	ErrDied = errors.New("MPS died")
)

// Config says what the daemon serves.
type Config struct {
	// Devices are the UUIDs of the GPUs that clients may use; default: all.
	// Clients then name devices by UUID too, since MPS renumbers ordinals.
	Devices []string
	// ActiveThreadPercentage limits the share of the SMs that each client may
	// use, above 0 and up to 100; 0 sets no limit.
	ActiveThreadPercentage float64
}

// Daemon is a running control daemon. Its methods may be called from several
// goroutines at once.
type Daemon struct {
	program string
	dir     *scratch.Dir // removed by Quit
	root    string       // its path; holds pipe and log
	env     []string
	proc    *child.Process

	commands sync.Mutex // held while one of them waits for its answer

	mu      sync.Mutex
	servers map[int]bool // every server that has been seen and not reported as died

	quitting sync.Once
	quitErr  error
}

// Start runs a daemon and returns once it answers. The daemon ends with this
// process, however that ends. A cancelled ctx ends the start, not a daemon that
// has started.
func Start(ctx context.Context, cfg Config) (*Daemon, error) {
	return start(ctx, cfg, defaultPipeDir)
}

func start(ctx context.Context, cfg Config, foreign string) (*Daemon, error) {
	program, err := exec.LookPath(control)
	if err != nil {
		return nil, fmt.Errorf("start MPS: %w: %w", ErrNotInstalled, err)
	}
	if pid, ok := daemonIn(foreign); ok {
		return nil, fmt.Errorf("start MPS: %w: process %d serves %s", ErrForeignDaemon, pid, foreign)
	}
	if p := cfg.ActiveThreadPercentage; !(p >= 0 && p <= 100) {
		return nil, fmt.Errorf("start MPS: active thread percentage is %v, want 0 to 100", p)
	}
	dir, err := makeDirs()
	if err != nil {
		return nil, fmt.Errorf("start MPS: %w", err)
	}
	d := &Daemon{program: program, dir: dir, root: dir.Path(), servers: map[int]bool{}}
	d.env = d.environment(cfg)
	fail := func(err error) (*Daemon, error) {
		return nil, fmt.Errorf("start MPS in %s: %w", d.root, errors.Join(err, dir.Remove()))
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
	return d, nil
}

// makeDirs makes the private directories in the system's temporary directory,
// whose path must leave room for a socket's.
func makeDirs() (*scratch.Dir, error) {
	dir, err := scratch.Make("mps")
	if err != nil {
		return nil, err
	}
	pipe := filepath.Join(dir.Path(), "pipe")
	if len(pipe) > maxPipeDir {
		return nil, errors.Join(fmt.Errorf("pipe directory %s has %d bytes, and sockets in it need it to have at most %d: set TMPDIR to a shorter directory",
			pipe, len(pipe), maxPipeDir), dir.Remove())
	}
	for _, d := range []string{pipe, filepath.Join(dir.Path(), "log")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, errors.Join(err, dir.Remove())
		}
	}
	return dir, nil
}

// environment is this process's without what would redirect or limit the
// daemon, and with what the run asks for.
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

// Env is what a process needs in its environment to become a client.
func (d *Daemon) Env() []string {
	return []string{
		"CUDA_MPS_PIPE_DIRECTORY=" + filepath.Join(d.root, "pipe"),
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

// Done is closed when the control daemon has ended, asked or not.
func (d *Daemon) Done() <-chan struct{} { return d.proc.Done() }

// Health returns an error that wraps ErrDied when the daemon or a server has
// ended by itself, and another when a server reports a fault or does not answer.
// After it has returned an error of a server that ended, that server is
// forgotten: the daemon starts a new one for the next client.
func (d *Daemon) Health(ctx context.Context) error {
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
	now, err := d.Servers(ctx)
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
		if s := strings.TrimSpace(status); s == "FAULT" {
			return errors.Join(fmt.Errorf("MPS server %d is in state %s", pid, s), d.logTail())
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

// settleTime is how long after a client's death its server may still look well:
// it was in state FAULT 0.15 s after a kill -9 in mid-kernel, and at once after
// a fault (H200, driver 580).
const settleTime = 250 * time.Millisecond

// healthInterval is the time between two looks at a server that is not well.
const healthInterval = 100 * time.Millisecond

// AwaitHealthy returns nil when the servers take new clients, which after a
// client's fault is when all that it took down are gone. When they do not, it
// says why once through broken, and looks again until ctx ends.
func (d *Daemon) AwaitHealthy(ctx context.Context, broken func(error)) error {
	var ill error
	for wait := settleTime; ; wait = healthInterval {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.proc.Done():
		case <-ctx.Done():
		}
		timer.Stop()
		err := d.Health(ctx)
		select {
		case <-d.proc.Done(): // it will not come back
			return fmt.Errorf("wait for MPS: %w", d.died("the control daemon", d.proc.Err()))
		default:
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(fmt.Errorf("wait for MPS: %w", context.Cause(ctx)), ill)
		case err == nil:
			return nil
		case ill == nil:
			broken(err)
		}
		ill = err
	}
}

func (d *Daemon) died(who string, cause error) error {
	err := fmt.Errorf("%w: %s", ErrDied, who)
	if cause != nil {
		err = fmt.Errorf("%w: %s: %w", ErrDied, who, cause)
	}
	return errors.Join(err, d.logTail())
}
