package main

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// drained is a run on two fake devices whose jobs wait for the file go.
func drained(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	writeFiles(t, map[string]string{"wait.yaml": "name: wait\njobs:\n  - {program: /bin/sh, args: [-c, 'until test -e go; do sleep 0.02; done'], count: 3}\n"})
	run := onTheFakes(t, dir, nil, "mix", "wait.yaml", "--node", "local", "--sched", "sa")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill() })
	return run
}

// drainWaits is caserun drain of a run of device 1 that has said what it waits for. rest has what it says after that.
func drainWaits(t *testing.T, dir, run string) (p *exec.Cmd, rest func() (status int, text string)) {
	t.Helper()
	p = process(dir, "drain", run, "1")
	errs, err := p.StderrPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(errs)
	if line, err := lines.ReadString('\n'); err != nil || line != "caserun: device 1: waiting for job 1 (sh) with 0 tasks, which stays: it has the device to its end\n" {
		t.Errorf("drain says %q (%v)", line, err)
	}
	return p, func() (int, string) {
		text, _ := lines.ReadString(0)
		_ = p.Wait()
		return p.ProcessState.ExitCode(), text
	}
}

func TestDrain(t *testing.T) {
	dir := inTempDir(t)
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:2xV100", "--db", "other.db"); status != exitOK {
		t.Fatal(errs)
	}
	run := drained(t, dir)
	awaitJobs(t.Context(), "caserun.db")
	p, rest := drainWaits(t, dir, "latest")
	for _, c := range []struct {
		args, want string
		status     int
	}{
		{"drain 1 1", "run 1: device 1 is drained already: --undo puts it back", exitUsage},
		{"drain 1 GPU-ca5e0000-0000-0000-0000-000000000000", "run 1: device 0 is the last one that jobs may use: put another back with --undo, or stop the run", exitUsage},
		{"drain 1 7", "device 7: run 1 has devices 0 to 1; caserun report 1 -v --csv DIR writes their UUIDs", exitUsage},
		{"drain 9 0", "run 9: no such run", exitUsage},
		{"drain one 0", `run "one": want a run's number from caserun report, or latest`, exitUsage},
		{"drain 1", "DEVICE is missing", exitUsage},
		{"drain 1 0 --db other.db", "run 1 is complete: only a run that is under way has devices to drain", exitUsage},
		{"drain latest 0 --db other.db", "other.db is under way", exitUsage},
		{"drain 1 0 --undo", "run 1: device 0 is not drained", exitUsage},
	} {
		if status, _, errs := caserun(t, strings.Fields(c.args)...); status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d: %s, want %s", c.args, status, errs, c.want)
		}
	}
	for typed, want := range map[string]string{"drain ": "1\twait under sa on local\n", "drain 1 ": "0\tFake GPU GPU-ca5e0000-0000-0000-0000-000000000000\n1\tFake GPU GPU-ca5e0000-0000-0000-0000-000000000001\n"} {
		if _, out, _ := caserun(t, append([]string{"__complete"}, strings.Split(typed, " ")...)...); !strings.HasPrefix(out, want+":") {
			t.Errorf("%q offers %q, want %q", typed, out, want)
		}
	}
	// One that is interrupted leaves the device out of the run.
	if err := p.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status, text := rest(); status != exitInterrupted || !strings.Contains(text, "device 1 stays out of run 1: caserun drain --undo 1 1 puts it back") {
		t.Errorf("exit %d: %s", status, text)
	}
	if status, out, errs := caserun(t, "drain", "--undo", "1", "1", "--format", "csv"); status != exitOK || out != "run_id,device_index,state,jobs,tasks,memory_bytes,contexts\n1,1,open,1,0,0,1\n" {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	_, rest = drainWaits(t, dir, "1")
	writeFiles(t, map[string]string{"go": ""})
	if status, text := rest(); status != exitOK {
		t.Errorf("exit %d: %s", status, text)
	}
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
	stands, jobs, events := stored(t, 1)
	if *jobs[2].Device != 0 || strings.Count(stands.Doubts, "GPU 1 was taken out of the run at ") != 2 || !has(events, results.EventDeviceEmpty, "") {
		t.Errorf("job 2 is on device %d, doubts %q, events %+v", *jobs[2].Device, stands.Doubts, events)
	}
	for _, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s", j.Index, *j.Outcome)
		}
	}
}

// Of a run whose process is killed, a drain that waits says so, and so does one that comes later.
func TestDrainOfAKilledRun(t *testing.T) {
	dir := inTempDir(t)
	run := drained(t, dir)
	awaitJobs(t.Context(), "caserun.db")
	_, rest := drainWaits(t, dir, "1")
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	if status, text := rest(); status != exitInfrastructure || !strings.Contains(text, "run 1: its process has ended without a word") {
		t.Errorf("exit %d: %s", status, text)
	}
	if status, _, errs := caserun(t, "drain", "1", "0"); status != exitUsage || !strings.Contains(errs, "run 1 is interrupted: only a run that is under way") {
		t.Errorf("exit %d: %s", status, errs)
	}
}
