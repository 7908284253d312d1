package mps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var background = context.Background()

// noDaemon is a default pipe directory without a daemon.
func noDaemon(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }

// startFake starts a fake daemon in a directory whose path is short enough.
func startFake(t *testing.T, cfg Config, words string) *Daemon {
	t.Helper()
	return startFakeWith(t, cfg, words, usual)
}

func startFakeWith(t *testing.T, cfg Config, words string, p patience) *Daemon {
	t.Helper()
	install(t, words)
	d, err := start(background, cfg, noDaemon(t), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Quit(expired()) }) // tests that care call it themselves
	return d
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

// steer gives the fake a command of its own.
func steer(t *testing.T, d *Daemon, line string) string {
	t.Helper()
	out, err := d.command(background, line)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// deadlineAt returns a context that ends as if by a deadline, once the file that matches a pattern has a
// text so many times.
func deadlineAt(t *testing.T, pattern, text string, times int) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		awaitText(ctx, pattern, text, times)
		cancel(context.DeadlineExceeded)
	}()
	return ctx
}

// awaitText waits until the file that matches a pattern has a text so many times, or ctx ends.
func awaitText(ctx context.Context, pattern, text string, times int) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for count(pattern, text) < times {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// count is how often the file that matches a pattern has a text.
func count(pattern, text string) int {
	files, _ := filepath.Glob(pattern)
	if len(files) != 1 {
		return 0
	}
	data, _ := os.ReadFile(files[0])
	return strings.Count(string(data), text)
}

func mustBeGone(t *testing.T, d *Daemon, servers ...int) {
	t.Helper()
	select {
	case <-d.Done():
	default:
		t.Error("the control daemon still runs")
	}
	for _, pid := range servers {
		if runs(pid, serverProgram) {
			t.Errorf("server %d still runs", pid)
		}
	}
	for _, dir := range []string{d.root, d.spare.Path()} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("directory %s is left: %v", dir, err)
		}
	}
}

func TestStartAndQuit(t *testing.T) {
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere")
	t.Setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
	t.Setenv("CUDA_VISIBLE_DEVICES", "3")
	d := startFake(t, Config{Devices: []string{"GPU-a", "GPU-b"}, ActiveThreadPercentage: 62.5}, "")

	pipe, log := filepath.Join(d.root, "pipe"), filepath.Join(d.root, "log")
	if diff := cmp.Diff([]string{"CUDA_MPS_PIPE_DIRECTORY=" + pipe, "CUDA_MPS_LOG_DIRECTORY=" + log}, d.Env()); diff != "" {
		t.Error(diff)
	}
	for _, dir := range []string{d.root, pipe, log} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %o, want 700", dir, info.Mode().Perm())
		}
	}
	var got []string
	for line := range strings.Lines(steer(t, d, "fake_env")) {
		if strings.HasPrefix(line, "CUDA_MPS_") || strings.HasPrefix(line, "CUDA_VISIBLE_") || strings.HasPrefix(line, "CUDA_DEVICE_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(got)
	want := []string{
		"CUDA_DEVICE_ORDER=PCI_BUS_ID",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=62.5",
		"CUDA_MPS_LOG_DIRECTORY=" + log,
		"CUDA_MPS_PIPE_DIRECTORY=" + pipe,
		"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the daemon's environment:\n%s", diff)
	}
	if err := d.health(background); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := d.Quit(background); err != nil {
			t.Error(err)
		}
	}
	mustBeGone(t, d)
}

func TestClients(t *testing.T) {
	d := startFake(t, Config{}, "")
	if c, err := d.listClients(background); err != nil || len(c) != 0 {
		t.Errorf("clients before any came: %v, %v", c, err)
	}
	steer(t, d, "fake_connect 4002 4001")
	servers, err := d.listServers(background)
	if err != nil || len(servers) != 1 {
		t.Fatalf("servers %v, %v; want one", servers, err)
	}
	want := []client{{servers[0], 4001}, {servers[0], 4002}}
	got, err := d.listClients(background)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	if err := d.TerminateClients(background, 1, 4002, 4003); err != nil { // processes that are not clients do not matter
		t.Fatal(err)
	}
	if got, err = d.listClients(background); err != nil || !slices.Equal(got, want[:1]) {
		t.Errorf("clients after terminate: %v, %v; want %v", got, err, want[:1])
	}
	if err := d.terminate(background, client{servers[0], 4009}); err == nil || !strings.Contains(err.Error(), "Invalid process 4009! 1") {
		t.Errorf("a refused terminate: %v, want the answer", err)
	}
	if err := d.TerminateClients(background, 4001); err != nil {
		t.Fatal(err)
	}
	if err := d.Quit(background); err != nil {
		t.Error(err)
	}
	mustBeGone(t, d, servers...)
}

func TestQuitTerminatesClientsThatStay(t *testing.T) {
	d := startFake(t, Config{}, "")
	steer(t, d, "fake_connect 4001")
	servers, err := d.listServers(background)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Quit(expired())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("quit: %v, want that draining was cut short", err)
	}
	if strings.Contains(err.Error(), "did not end within") {
		t.Errorf("quit: %v: the clients were not terminated before, so that the daemon stayed", err)
	}
	mustBeGone(t, d, servers...)
}

func TestDrainNamesWhoStays(t *testing.T) {
	d := startFake(t, Config{}, "")
	steer(t, d, "fake_connect 4001")
	ctx := deadlineAt(t, d.logFile("output"), "Cmd:get_client_list", 2) // the first has its answer by then
	if err := d.drain(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "4001") {
		t.Errorf("drain: %v, want the deadline and client 4001", err)
	}
	if err := d.TerminateClients(background, 4001); err != nil {
		t.Fatal(err)
	}
	if err := d.drain(background); err != nil {
		t.Error(err)
	}
}

func TestQuitKillsADaemonThatHangs(t *testing.T) {
	soon := usual
	soon.quit = 300 * time.Millisecond
	d := startFakeWith(t, Config{}, "hangs-on-quit", soon)
	steer(t, d, "fake_connect")
	servers, err := d.listServers(background)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Quit(background)
	if err == nil || !strings.Contains(err.Error(), "killed the control daemon") ||
		!strings.Contains(err.Error(), "Starting control daemon") {
		t.Errorf("quit: %v, want the kill and the end of the log", err)
	}
	mustBeGone(t, d, servers...)
}

// The daemon may have ended, as it was told, before the front end has an answer.
func TestQuitIsObeyedWithoutAnAnswer(t *testing.T) {
	d := startFake(t, Config{}, "quits-before-it-answers")
	if err := d.Quit(background); err != nil {
		t.Errorf("quit: %v", err)
	}
	mustBeGone(t, d)
}

// The daemon refuses commands while it has one whose front end was killed with the end of a wait. They are given again.
func TestABusyDaemonIsAskedAgain(t *testing.T) {
	soon := usual
	soon.command, soon.server = 200*time.Millisecond, 20*time.Millisecond
	d := startFakeWith(t, Config{}, "", soon)
	steer(t, d, "fake_refuses 1000")
	if _, err := d.listServers(background); err == nil || d.silent.IsZero() {
		t.Errorf("a daemon that stays busy: %v, want an error, and that it has not answered", err)
	}
	e := startFake(t, Config{}, "")
	steer(t, e, "fake_refuses 2")
	if err := e.Quit(background); err != nil {
		t.Errorf("quit: %v", err)
	}
	mustBeGone(t, e)
}

func TestQuitKillsAServerThatStays(t *testing.T) {
	soon := usual
	soon.server = 20 * time.Millisecond
	d := startFakeWith(t, Config{}, "stubborn-server", soon)
	steer(t, d, "fake_connect")
	servers, err := d.listServers(background)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Quit(background)
	if want := fmt.Sprintf("killed MPS server %d", servers[0]); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("quit: %v, want %q", err, want)
	}
	mustBeGone(t, d, servers...)
}

func TestDaemonDies(t *testing.T) {
	d := startFake(t, Config{}, "")
	if _, err := d.command(background, "fake_die"); err != nil {
		t.Logf("the command that kills: %v", err)
	}
	<-d.Done()
	for name, err := range map[string]error{"health": d.health(background), "quit": d.Quit(background)} {
		if !errors.Is(err, errDied) || !strings.Contains(err.Error(), "out of cheese") || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("%s: %v, want errDied with the exit status and the end of the log", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "Cmd:") {
			t.Errorf("%s: the log's end is full of our own commands: %v", name, err)
		}
		if err != nil && strings.Count(err.Error(), "out of cheese") > 1 {
			t.Errorf("%s: the log's end comes twice: %v", name, err)
		}
	}
	mustBeGone(t, d)
}

func TestServerDies(t *testing.T) {
	d := startFake(t, Config{}, "")
	steer(t, d, "fake_connect 4001")
	if err := d.health(background); err != nil {
		t.Fatal(err)
	}
	steer(t, d, "fake_kill_server")
	if err := d.health(background); !errors.Is(err, errDied) || !strings.Contains(err.Error(), "exited with status 9") {
		t.Errorf("health: %v, want errDied with the end of the log", err)
	}
	steer(t, d, "fake_connect 4002")
	if err := d.health(background); err != nil {
		t.Errorf("health with a new server: %v", err)
	}
	steer(t, d, "fake_fault")
	if err := d.health(background); err == nil || errors.Is(err, errDied) || !strings.Contains(err.Error(), "FAULT") {
		t.Errorf("health of a server at fault: %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	t.Run("not installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := start(background, Config{}, noDaemon(t), usual); !errors.Is(err, errNotInstalled) {
			t.Errorf("error %v, want errNotInstalled", err)
		}
	})
	t.Run("fails at start", func(t *testing.T) {
		install(t, "fails-at-start")
		dir := shortDir(t)
		t.Setenv("TMPDIR", dir)
		_, err := start(background, Config{}, noDaemon(t), usual)
		if !errors.Is(err, errDied) || !strings.Contains(err.Error(), "an MPS client is not allowed here") || !strings.Contains(err.Error(), "exit status 7") {
			t.Errorf("error %v, want errDied with what it said", err)
		}
		mustBeEmpty(t, dir)
	})
	t.Run("never answers", func(t *testing.T) {
		install(t, "never-answers")
		dir := shortDir(t)
		t.Setenv("TMPDIR", dir)
		ctx := deadlineAt(t, filepath.Join(dir, "*mps-*", "log", "output"), "Starting control daemon", 1)
		_, err := start(ctx, Config{}, noDaemon(t), usual)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Starting control daemon") {
			t.Errorf("error %v, want the deadline and the end of the log", err)
		}
		mustBeEmpty(t, dir)
	})
	t.Run("path too long", func(t *testing.T) {
		install(t, "")
		dir := filepath.Join(t.TempDir(), strings.Repeat("x", maxPipeDir))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", dir)
		_, err := start(background, Config{}, noDaemon(t), usual)
		if err == nil || !strings.Contains(err.Error(), "set TMPDIR to a shorter directory") {
			t.Errorf("error %v, want that the path is too long", err)
		}
		mustBeEmpty(t, dir)
	})
	for _, p := range []float64{-1, 100.5} {
		t.Run(fmt.Sprint("percentage ", p), func(t *testing.T) {
			install(t, "")
			_, err := start(background, Config{ActiveThreadPercentage: p}, noDaemon(t), usual)
			if err == nil || !strings.Contains(err.Error(), "want 0 to 100") {
				t.Errorf("error %v, want the range", err)
			}
		})
	}
}

func TestForeignDaemon(t *testing.T) {
	d := startFake(t, Config{}, "")
	_, err := start(background, Config{}, filepath.Join(d.root, "pipe"), usual)
	if !errors.Is(err, errForeignDaemon) || !strings.Contains(err.Error(), fmt.Sprint(d.proc.PID())) {
		t.Errorf("error %v, want errForeignDaemon with its PID", err)
	}
	// The PID in the file of a dead daemon may belong to another process by now.
	stale := t.TempDir()
	if err := os.WriteFile(filepath.Join(stale, control+".pid"), fmt.Append(nil, os.Getpid()), 0o666); err != nil {
		t.Fatal(err)
	}
	second, err := start(background, Config{}, stale, usual)
	if err != nil {
		t.Fatalf("a stale PID file: %v", err)
	}
	if err := second.Quit(background); err != nil {
		t.Error(err)
	}
}

func TestCommandDoesNotHang(t *testing.T) {
	d := startFake(t, Config{}, "")
	ctx := deadlineAt(t, d.logFile("output"), "Cmd:fake_hang", 1)
	if _, err := d.command(ctx, "fake_hang"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"fake_hang"`) {
		t.Errorf("error %v, want the deadline and the command", err)
	}
	if err := d.proc.Kill(); err != nil {
		t.Error(err)
	}
}

// A daemon that answers no command ends, and the reason is told. No process can become its client.
func TestADaemonThatHangsIsKilled(t *testing.T) {
	soon := usual
	soon.ask, soon.hang = 10*time.Millisecond, 50*time.Millisecond
	d := startFakeWith(t, Config{}, "", soon)
	steer(t, d, "fake_connect 77")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		awaitText(ctx, d.logFile("output"), "Cmd:fake_hang", 1)
		d.mu.Lock()
		d.patience.command = 10 * time.Millisecond // from now on nothing is answered, however long it takes
		d.mu.Unlock()
		cancel()
	}()
	if _, err := d.command(ctx, "fake_hang"); err == nil {
		t.Error("a command that is not answered has an answer")
	}
	<-d.Done()
	if err := d.health(background); !errors.Is(err, errDied) || !strings.Contains(err.Error(), "answered nothing for") {
		t.Errorf("health: %v", err)
	}
	if err := d.Quit(background); !errors.Is(err, errDied) || !strings.Contains(err.Error(), "answered nothing for") {
		t.Errorf("quit: %v", err)
	}
}

// A run that is killed with SIGKILL leaves neither daemon nor server, and the next run removes its
// directory.
func TestNothingOutlivesAKilledRun(t *testing.T) {
	install(t, "")
	tmp := shortDir(t)
	t.Setenv("TMPDIR", tmp)
	run := exec.Command(os.Args[0])
	run.Env = append(os.Environ(), "MPS_TEST_HARNESS="+noDaemon(t))
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var fds []int
	for field := range strings.FieldsSeq(line) {
		var pid int
		if _, err := fmt.Sscan(field, &pid); err != nil {
			t.Fatalf("the harness says %q", line)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		fds = append(fds, fd)
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	for i, fd := range fds {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			t.Errorf("%s outlived the run by 10 s", []string{"the daemon", "the server"}[i])
		}
	}
	d := startFake(t, Config{}, "")
	if left, err := filepath.Glob(filepath.Join(tmp, "*mps-*")); err != nil || !slices.Equal(left, []string{d.root, d.spare.Path()}) {
		t.Errorf("%q are left (%v), want %s and %s alone", left, err, d.root, d.spare.Path())
	}
}

// shortDir is like t.TempDir, but its path is short enough for a socket's path.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%s holds %v, %v; want nothing", dir, left, err)
	}
}

// A server recovers once its clients have ended. One that does not is killed then, and not before: the daemon starts another.
func TestAServerIsReplacedAfterItsLastClient(t *testing.T) {
	soon := usual
	soon.settle, soon.health, soon.recovery = time.Millisecond, time.Millisecond, time.Millisecond
	for _, recovers := range []bool{true, false} {
		words := ""
		if recovers {
			words = "recovers"
			soon.recovery = time.Hour
		} else {
			soon.recovery = time.Millisecond
		}
		d := startFakeWith(t, Config{}, words, soon)
		self, log := strconv.Itoa(os.Getpid()), d.logFile("output")
		steer(t, d, "fake_connect "+self)
		before := serverOf(t, d)
		steer(t, d, "fake_fault")
		err := d.AwaitHealthy(background, func(error, bool) {
			looks := count(log, "Cmd:get_client_list")
			go func() {
				awaitText(background, log, "Cmd:get_client_list", looks+3)
				if serverOf(t, d) != before {
					t.Error("the server was replaced before its last client had ended")
				}
				steer(t, d, "fake_leave "+self)
			}()
		})
		if err != nil {
			t.Error(err)
		}
		steer(t, d, "fake_connect 4001")
		if kept := serverOf(t, d) == before; kept != recovers {
			t.Errorf("recovers: %v, and the server is the same: %v", recovers, kept)
		}
		steer(t, d, "fake_leave 4001")
		if err := d.Quit(background); err != nil {
			t.Error(err)
		}
	}
}

// serverOf is the PID of the daemon's server.
func serverOf(t *testing.T, d *Daemon) int {
	t.Helper()
	list, err := d.listServers(background)
	if err != nil || len(list) != 1 {
		t.Errorf("servers %v, error %v", list, err)
		return 0
	}
	return list[0]
}

func TestAwaitHealthy(t *testing.T) {
	soon := usual
	soon.settle, soon.health, soon.recovery = time.Millisecond, time.Millisecond, time.Hour
	d := startFakeWith(t, Config{}, "", soon)
	unexpected := func(err error, _ bool) { t.Errorf("a healthy server is called broken: %v", err) }
	if err := d.AwaitHealthy(background, unexpected); err != nil {
		t.Error(err)
	}
	steer(t, d, "fake_connect 4001")
	steer(t, d, "fake_fault")
	ctx, cancel := context.WithCancelCause(background)
	said := 0
	err := d.AwaitHealthy(ctx, func(why error, fault bool) {
		said++
		if !fault {
			t.Error("a server in state FAULT is not said to be")
		}
		looks := count(d.logFile("output"), "Cmd:get_server_status")
		go func() { // it looks again until then
			awaitText(ctx, d.logFile("output"), "Cmd:get_server_status", looks+3)
			cancel(errors.New("too long"))
		}()
		if !strings.Contains(why.Error(), "FAULT") {
			t.Errorf("why it is broken: %v", why)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "too long") || !strings.Contains(err.Error(), "FAULT") || said != 1 {
		t.Errorf("said %d times and returned %v, want once, the cause and the state", said, err)
	}
	if err := d.AwaitHealthy(background, func(error, bool) { steer(t, d, "fake_recover") }); err != nil {
		t.Errorf("after the recovery: %v", err)
	}
	if _, err := d.command(background, "fake_die"); err != nil {
		t.Logf("the command that kills: %v", err)
	}
	<-d.Done()
	if err := d.AwaitHealthy(background, unexpected); !errors.Is(err, errDied) {
		t.Errorf("without the daemon: %v, want errDied at once", err)
	}
}
