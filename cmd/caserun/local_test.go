package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// ready is what a ballast says once it holds its memory.
const ready = `echo '{"device":"fake","total":1,"free":1,"leave_free":1,"held":1,"pieces":1}'` + "\n"

// counts is a program of --slow that holds and counts SMs.
const counts = `echo '{"sms":132,"seen":33}'; [ $1 = hold ] || exit 0` + "\n"

// writeFiles makes files that may run, by their path.
func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// fakeNode goes to a directory of its own, with a job that does script and the
// ballast that live runs find there. Writing to the pipe wakes who reads it; untilQuit has a pipe of its own, quit.
func fakeNode(t *testing.T, script, ballast string) (dir string) {
	t.Helper()
	dir = inTempDir(t)
	writeFiles(t, map[string]string{
		"own.yaml":               "name: own\njobs:\n  - {program: /bin/sh, args: [-c, '" + script + "'], memory: 1GiB}\n",
		"native/ballast/ballast": "#!/bin/sh\n" + ballast,
	})
	for _, name := range []string{"pipe", "quit"} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// stored is a run as its store has it.
func stored(t *testing.T, id int64) (results.Run, []results.Job, []results.Event) {
	t.Helper()
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, err := s.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.Events(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run, jobs, events
}

func has(events []results.Event, kind results.EventKind, detail string) bool {
	return slices.ContainsFunc(events, func(e results.Event) bool { return e.Kind == kind && strings.Contains(e.Detail, detail) })
}

// untilQuit is an MPS daemon without a server, which ends when it is told to quit.
const untilQuit = "[ \"$1\" = -f ] && exec cat quit\nread line\ncase $line in quit*) echo >quit;; esac\n"

// A run whose ballast or MPS daemon ends under it stops, and is not a measurement.
func TestLostHelpersStopTheRun(t *testing.T) {
	library := fakeNVML(t)
	for _, c := range []struct {
		name, ballast, mps string
		args               []string
		lost, why          string
	}{
		{"what slows a GPU", counts + "read go <pipe; echo out of cheese >&2; exit 7\n", untilQuit, []string{"--slow", "0=0.25"},
			"the program that slows GPU 3 ended during the run", "exit status 7: out of cheese"},
		{"ballast", ready + "read go <pipe; echo out of cheese >&2; exit 7\n", "", []string{"--no-mps", "--mem-cap", "8GiB"},
			"the ballast of GPU 3 ended during the run", "exit status 7: out of cheese"},
		{"MPS", "", "[ \"$1\" = -f ] || exit 0\nread go <pipe; echo out of cheese; exit 7\n", nil,
			"the MPS daemon ended during the run", "exit status 7; end of MPS's output:; out of cheese"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fakeNode(t, "echo >pipe; sleep 5", c.ballast)
			writeFiles(t, map[string]string{"bin/nvidia-cuda-mps-control": "#!/bin/sh\n" + c.mps, "native/ballast/slow": "#!/bin/sh\n" + c.ballast})
			env := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
			args := append([]string{"--node", "local", "--devices", "3"}, c.args...)
			status, text := finish(t, onFakes(dir, library, env, append([]string{"mix", "own.yaml", "--sched", "zero"}, args...)...))
			if status != exitInfrastructure || !strings.Contains(text, c.lost) {
				t.Errorf("exit %d, want %d and %q:\n%s", status, exitInfrastructure, c.lost, text)
			}
			run, jobs, events := stored(t, 1)
			if run.Status != results.Interrupted || len(jobs) != 1 || *jobs[0].Outcome != results.Cancelled {
				t.Errorf("the run is %s, its jobs %+v; want it interrupted and its job stopped", run.Status, jobs)
			}
			if !has(events, results.EventCancelled, c.lost) || !has(events, results.EventFailed, c.why) {
				t.Errorf("events %+v, want that %s, and %q", events, c.lost, c.why)
			}

			sweep := append([]string{"sweep", "--mixes", "own.yaml", "--scheds", "zero", "--reps", "2", "--warmups", "0"}, args...)
			if status, text := finish(t, onFakes(dir, library, env, sweep...)); status != exitInfrastructure || !strings.Contains(text, "0 of 2 runs done") {
				t.Errorf("sweep: exit %d:\n%s", status, text)
			}
			_, text = finish(t, onFakes(dir, library, env, "sweep", "--resume", "latest"))
			if !strings.Contains(text, "2 of 2 runs are left") {
				t.Errorf("the sweep's first run counts as done:\n%s", text)
			}
		})
	}
}

// A run that could not give the node back as it was is not a measurement, although its
// jobs all ended well.
func TestNodeThatIsNotGivenBack(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "exit 0", ready+"cat >/dev/null; exit 7\n")
	status, text := finish(t, onFakes(dir, library, nil, "mix", "own.yaml", "--sched", "zero", "--no-mps", "--mem-cap", "8GiB", "--devices", "3"))
	if status != exitInfrastructure || !strings.Contains(text, "run 1 is interrupted: close ballast on GPU-3") {
		t.Errorf("exit %d:\n%s", status, text)
	}
	run, jobs, events := stored(t, 1)
	if run.Status != results.Interrupted || run.Metrics.OK != 1 || *jobs[0].Outcome != results.OK {
		t.Errorf("the run is %s, its jobs %+v; want it interrupted with a job that ended ok", run.Status, jobs)
	}
	if !has(events, results.EventFailed, "exit status 7") {
		t.Errorf("events %+v, want why", events)
	}
}

// A run that fails before its batch arrives is closed by itself.
func TestRunThatDoesNotStart(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "exit 0", "")
	for range 2 { // the second would close what the first left open
		status, text := finish(t, onFakes(dir, library, nil, "mix", "own.yaml", "--sched", "zero", "--no-mps", "--runs", "own.yaml/runs"))
		if status != exitInfrastructure || !strings.Contains(text, "own.yaml: not a directory") {
			t.Errorf("exit %d:\n%s", status, text)
		}
	}
	run, _, events := stored(t, 1)
	if run.Status != results.Interrupted || len(events) != 1 || !has(events, results.EventFailed, "not a directory") {
		t.Errorf("the run is %s, with events %+v; want it interrupted, and why", run.Status, events)
	}
	// With its jobs told, and none of them ended: the socket's path is too long.
	far := filepath.Join(dir, strings.Repeat("x", 120))
	if err := os.Mkdir(far, 0o755); err != nil {
		t.Fatal(err)
	}
	status, text := finish(t, onFakes(dir, library, []string{"TMPDIR=" + far}, "mix", "own.yaml", "--sched", "zero", "--no-mps", "--db", "far.db"))
	if status != exitInfrastructure || !strings.Contains(text, "choose a shorter directory") || !strings.Contains(text, "interrupted") {
		t.Errorf("exit %d:\n%s", status, text)
	}
}

// A signal ends what prepares the node, with its own exit status and without a run.
func TestSignalWhileTheNodeIsPrepared(t *testing.T) {
	library := fakeNVML(t)
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated} {
		dir := fakeNode(t, "exit 0", "echo >pipe; exec cat\n")
		p := onFakes(dir, library, nil, "mix", "own.yaml", "--sched", "zero", "--no-mps", "--mem-cap", "8GiB")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile("pipe"); err != nil {
			t.Fatal(err)
		}
		if err := p.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait()
		if status := p.ProcessState.ExitCode(); status != want {
			t.Errorf("%v: exit %d, want %d:\n%s", signal, status, want, p.Stdout)
		}
	}
}

// Messages name a GPU by the number that --devices takes.
func TestMessagesNameTheGPU(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "exit 0", "exit 7\n")
	for limit, want := range map[string]string{
		"99GiB": "GPU 3 (Fake GPU): --mem-cap of 99 GiB: only ",
		"8GiB":  "ballast on GPU 3: start ballast on GPU-3",
	} {
		status, text := finish(t, onFakes(dir, library, nil, "mix", "own.yaml", "--sched", "zero", "--no-mps", "--mem-cap", limit, "--devices", "3"))
		if status != exitInfrastructure || !strings.Contains(text, want) {
			t.Errorf("exit %d, want %q:\n%s", status, want, text)
		}
	}
}

// A run of another user, whose process no signal of this one may reach, goes on.
func TestRunOfAnotherUser(t *testing.T) {
	dir, err := os.MkdirTemp("", "caserun-users-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Chdir(dir)
	p := process(dir, "mix", "W1", "--node", "sim:2xV100")
	other := 1 // of root, where this is not
	if os.Getuid() == 0 {
		const nobody = 65534
		other = os.Getpid()
		if err := exec.Command("cp", p.Path, "caserun").Run(); err != nil { // from where nobody else may read
			t.Fatal(err)
		}
		p.Path = filepath.Join(dir, "caserun")
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	begun := beginRun(t, other)
	for name, mode := range map[string]os.FileMode{".": 0o777, "caserun.db": 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	p.Stdout, p.Stderr = &said, &said
	if status, text := finish(t, p); status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	if run, _, events := stored(t, begun); run.Status != results.Running || len(events) > 0 {
		t.Errorf("the run is %s, with events %+v; want it running", run.Status, events)
	}
}

// beginRun stores a run that a process of this host is said to work on.
func beginRun(t *testing.T, pid int) int64 {
	t.Helper()
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.BeginRun(t.Context(), results.Run{Mix: "W1", Scheduler: "sa", Node: "sim:2xV100", Mode: results.Simulated,
		Status: results.Running, Jobs: 1, Provenance: results.Provenance{Host: thisHost(t), PID: &pid, Binaries: "{}"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return id
}

// onWrite is a writer that calls a function.
type onWrite func([]byte)

func (f onWrite) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
