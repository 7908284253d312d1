package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
)

// buildStepJob compiles native/probe/tests/job.c, whose arguments are what it
// does.
func buildStepJob(t *testing.T) string {
	t.Helper()
	native := filepath.Join("..", "..", "native", "probe")
	out := filepath.Join(t.TempDir(), "job")
	if err := probetest.Build(native, out, filepath.Join(native, "tests", "job.c")); err != nil {
		t.Fatal(err)
	}
	return out
}

// onPaper runs jobs alone on a device that exists on paper only.
func onPaper(t *testing.T, jobs ...mixes.Job) (profiling, *alone) {
	t.Helper()
	dir := t.TempDir()
	p := profiling{jobs: jobs, stderr: io.Discard}
	for _, j := range jobs {
		p.programs, p.dirs = append(p.programs, j.Program), append(p.dirs, dir)
	}
	return p, &alone{sm: profiles.SM{Warps: 64, Blocks: 32}, uuid: "GPU-paper", id: [16]byte{1}, dir: dir, warn: t.Logf, epoch: time.Now(),
		watch:  func(run func()) ([]results.Segment, error) { run(); return nil, nil },
		device: schedulers.Device{Name: "paper", CapacityBytes: 1 << 34, ContextBytes: 1 << 29, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}}
}

func profilesOf(ctx context.Context, p profiling, a *alone) (found []profiles.Profile, err error) {
	kept, err := p.runAll(ctx, a, func(q profiles.Profile) error { found = append(found, q); return nil })
	if kept != len(found) {
		err = errors.Join(err, fmt.Errorf("it says that %d of %d profiles are kept", kept, len(found)))
	}
	return found, err
}

func TestProfileOfAJobAlone(t *testing.T) {
	program := buildStepJob(t)
	job := func(steps ...string) mixes.Job { return mixes.Job{Name: "steps", Program: program, Args: steps} }
	whole := job("sleep:60", "begin:1000", "grow:500", "sleep:40", "free", "sleep:20", "begin:1200", "free", "sleep:80")
	// A footprint must not bind the job: its own tasks are what is measured.
	declared := job("begin:7")
	declared.Binding, declared.Footprint.Bytes = mixes.BindDeclared, 1<<40
	tells := mixes.Job{Name: "tells", Program: "/bin/sh", Args: []string{"-c", `test "$CASE_BINDING,$CASE_PIN,$CASE_FOOTPRINT" = task,,`},
		Binding: mixes.BindDeclared, Pin: true, Footprint: mixes.Footprint{Bytes: 1}}
	p, a := onPaper(t, whole, job("oom:77", "exit:0"), declared, job("exit:0"), tells)
	found, err := profilesOf(context.Background(), p, a)
	if err == nil || !strings.Contains(err.Error(), "oom:77 exit:0: it ended as oom") {
		t.Fatalf("error %v, want the job that failed", err)
	}
	if strings.Contains(err.Error(), `= task,,": it ended as`) {
		t.Errorf("a declared job was not watched task by task: %v", err)
	}
	if !strings.Contains(err.Error(), "exit:0: it used no GPU") {
		t.Errorf("error %v, want the job without a device", err)
	}
	if len(found) != 2 {
		t.Fatalf("%d profiles, want 2: %+v", len(found), found)
	}
	got := found[0]
	if got.HostBeforeS < 0.06 || got.HostHeldS < 0.06 || got.HostAfterS < 0.08 {
		t.Errorf("phases are shorter than the job slept in them: %+v", got)
	}
	if want := (mixes.Footprint{Bytes: 1500, Blocks: 1024, ThreadsPerBlock: 256}); got.Footprint != want {
		t.Errorf("footprint %+v, want %+v", got.Footprint, want)
	}
	if got.Command != whole.Command() || got.Kernels != profiles.Untraced {
		t.Errorf("profile %+v", got)
	}
	if found[1].Footprint.Bytes != 7 {
		t.Errorf("footprint of the declared job %+v, want its task's", found[1].Footprint)
	}
}

// What the device showed counts only while the job ran, and beyond a context.
func TestMemoryOfAProgramWithoutTasks(t *testing.T) {
	_, a := onPaper(t)
	a.idle = 100
	at := func(series results.Series, first float64, value int64) results.Segment {
		return results.Segment{Series: series, FirstS: first, LastS: first + 1, Value: new(float64(value))}
	}
	seen := []results.Segment{at(results.SeriesMemory, 4, 9<<30), at(results.SeriesMemory, 5, 2<<30+100),
		at(results.SeriesMemory, 6, 1<<30), at(results.SeriesGPU, 6, 7<<30),
		at(results.SeriesMemory, 9, 9<<30)}
	m := profiles.Measurement{Record: results.Job{StartS: new(4.5), EndS: new(8.0)}}
	a.settle(&m, seen)
	if want := int64(2<<30 - 1<<29); m.PeakBytes != want {
		t.Errorf("peak %d, want %d", m.PeakBytes, want)
	}
	m.PeakBytes = 0
	if a.settle(&m, []results.Segment{at(results.SeriesMemory, 5, 1<<20)}); m.PeakBytes != 0 {
		t.Errorf("peak %d of a process that used no more than idle", m.PeakBytes)
	}
}

func TestProfileStopsWithItsContext(t *testing.T) {
	program := buildStepJob(t)
	p, a := onPaper(t, mixes.Job{Program: program, Args: []string{"begin:1"}},
		mixes.Job{Program: program, Args: []string{"begin:1", "sleep:60000"}}, mixes.Job{Program: program, Args: []string{"begin:2"}})
	ctx, cancel := context.WithCancelCause(context.Background())
	p.stderr = onWrite(func(line []byte) {
		if strings.Contains(string(line), "profiling 2 of 3") {
			cancel(signalError{os.Interrupt})
		}
	})
	found, err := profilesOf(ctx, p, a)
	if len(found) != 1 || err == nil || !strings.Contains(err.Error(), "interrupt") {
		t.Errorf("%d profiles, %v, want the first job's and the interrupt", len(found), err)
	}
	var known *statusError
	if err := p.verdict(len(found), err); !errors.As(err, &known) || known.status != exitInterrupted {
		t.Errorf("verdict %v, want exit status %d", err, exitInterrupted)
	}
}

// What could not be kept either is not measured.
func TestProfileStopsWhereNothingCanBeKept(t *testing.T) {
	program := buildStepJob(t)
	p, a := onPaper(t, mixes.Job{Program: program, Args: []string{"begin:1"}}, mixes.Job{Program: program, Args: []string{"begin:2"}},
		mixes.Job{Program: program, Args: []string{"begin:3"}})
	tried := 0
	kept, err := p.runAll(t.Context(), a, func(profiles.Profile) error {
		if tried++; tried == 2 {
			return syscall.ENOSPC
		}
		return nil
	})
	var known *statusError
	if err = p.verdict(kept, err); kept != 1 || tried != 2 || !errors.As(err, &known) || known.status != exitInfrastructure ||
		!strings.Contains(err.Error(), "1 of 3 commands were measured") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%d kept of %d, %v", kept, tried, err)
	}
}

// A signal costs the profile of the command that it stops, and no other; kill -9 too.
func TestInterruptedProfileKeepsWhatItMeasured(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	for _, c := range []struct {
		out    string
		signal os.Signal
		status int
	}{
		{"new.csv", os.Interrupt, exitInterrupted}, {"", os.Interrupt, exitInterrupted},
		{"new.csv", os.Kill, -1}, {"", os.Kill, -1},
	} {
		out := c.out
		dir := fakeNode(t, "", "")
		writeFiles(t, map[string]string{"two.yaml": "jobs:\n  - {program: " + program + ", args: begin:1000}\n" +
			"  - {program: /bin/sh, args: [-c, 'echo >pipe; sleep 60']}\n"})
		args := []string{"profile", "--mix", "two.yaml"}
		if out != "" {
			args = append(args, "--out", out)
		}
		p := onFakes(dir, library, nil, args...)
		var written bytes.Buffer
		p.Stdout = &written
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile("pipe"); err != nil { // until the second command runs
			t.Fatal(err)
		}
		if err := p.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // the status says it
		if status := p.ProcessState.ExitCode(); status != c.status {
			t.Errorf("%v: exit %d, want %d:\n%s", c.signal, status, c.status, p.Stderr)
		}
		if out != "" {
			text, err := os.ReadFile(out)
			if err != nil {
				t.Error(err)
			}
			written.Write(text)
		}
		set, err := profiles.Read("profiles", &written)
		if err != nil {
			t.Errorf("--out %q: %v:\n%s", out, err, p.Stderr)
			continue
		}
		got, err := set.Lookup(mixes.Job{Program: program, Args: []string{"begin:1000"}})
		if err != nil || got.Footprint.Bytes != 1000 {
			t.Errorf("--out %q: %+v, %v, want the first command's profile:\n%s", out, got, err, p.Stderr)
		}
	}
}

// A file that cannot be is found out before anything runs, and one with nothing in it
// does not stay.
func TestProfileMakesItsFileFirst(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{"there.csv": "earlier"})
	for _, c := range []struct {
		out, step string
		status    int
		says      string
		runs      bool
	}{
		{"there.csv", "begin:1", exitUsage, "there.csv exists: name another file, or remove it first", false},
		{"none/new.csv", "begin:1", exitInfrastructure, "none/new.csv: no such file or directory", false},
		{"new.csv", "exit:9", exitNothing, "nothing was measured", true},
		{"new.csv", "begin:1", exitOK, "", true},
	} {
		status, text := finish(t, onFakes(dir, library, nil, "profile", "--out", c.out, "--", program, c.step))
		if status != c.status || !strings.Contains(text, c.says) || strings.Contains(text, "profiling 1 of 1") != c.runs {
			t.Errorf("%s, %s: exit %d, want %d, %q and that it runs: %v:\n%s", c.out, c.step, status, c.status, c.says, c.runs, text)
		}
	}
	if text, err := os.ReadFile("there.csv"); err != nil || string(text) != "earlier" {
		t.Errorf("there.csv is %q (%v), want what was there", text, err)
	}
}

// onWrite is a writer that calls a function.
type onWrite func([]byte)

func (f onWrite) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestProfileCommandLine(t *testing.T) {
	inTempDir(t)
	t.Setenv("CASERUN_LIBCASE", "/nowhere/libcase.so")
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"profile"}, exitUsage, "one program"},
		{[]string{"profile", "--mix", "W7", "--", "true"}, exitUsage, "one program"},
		{[]string{"profile", "--mix", "W7", "--name", "x"}, exitUsage, "--name"},
		{[]string{"profile", "--mix", "W9"}, exitUsage, "W9"},
		{[]string{"profile", "--", "./missing"}, exitInfrastructure, "./missing"},
		{[]string{"profile", "--mix", "W7"}, exitInfrastructure, "make cuda"},
		{[]string{"profile", "--", "true"}, exitInfrastructure, "make native"},
	} {
		status, _, errs := caserun(t, c.args...)
		if status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d; stderr must contain %q:\n%s", strings.Join(c.args, " "), status, c.status, c.says, errs)
		}
	}
	jobs, err := profileOptions{mix: "W7"}.jobs(config{}, nil, io.Discard)
	mix, _ := mixes.Lookup("W7")
	if err != nil || len(jobs) == 0 || len(jobs) >= len(mix.Jobs) {
		t.Errorf("%d commands of W7's %d jobs, %v: want each once", len(jobs), len(mix.Jobs), err)
	}
	jobs, err = profileOptions{name: "label", stdin: "in"}.jobs(config{}, []string{"./solver", "-n", "5"}, io.Discard)
	if err != nil || jobs[0].Command() != "./solver -n 5 < in" || jobs[0].Name != "label" || jobs[0].Dir != "." {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}

// What profile writes is what a simulated node reads.
func TestMixReadsAProfileFile(t *testing.T) {
	inTempDir(t)
	var file strings.Builder
	if err := profiles.NewWriter(&file).Write(profiles.Profile{Job: "own", Command: "./own -n 5", HostBeforeS: 3, Kernels: profiles.Untraced,
		Footprint: mixes.Footprint{Bytes: 3 << 30}}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"own.csv": file.String(), "own.yaml": "jobs:\n  - {program: ./own, args: -n 5}\n",
		"bad.csv": strings.Replace(file.String(), ",3,", ",-3,", 1)} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status, out, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200", "--profiles", "own.csv", "-v", "--format", "csv"); status != exitOK ||
		!strings.Contains(out, "3221225472") {
		t.Errorf("exit %d, want the profile's memory in the job's row: %s\n%s", status, errs, out)
	}
	if status, _, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200"); status != exitUsage || !strings.Contains(errs, "./own -n 5") {
		t.Errorf("without the file: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200", "--profiles", "bad.csv"); status != exitUsage || !strings.Contains(errs, "bad.csv:2: host_before_s") {
		t.Errorf("a bad file: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200", "--profiles", "none.csv"); status != exitUsage || !strings.Contains(errs, "none.csv") {
		t.Errorf("a missing file: exit %d: %s", status, errs)
	}
}
