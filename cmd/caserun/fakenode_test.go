package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/schedulers"
)

// onFakeNode runs the program with native/fake-node, in a directory where native is that of the source tree.
func onFakeNode(t *testing.T, dir string, env []string, args ...string) (status int, text string) {
	t.Helper()
	p := onTheFakes(t, dir, env, args...)
	var out bytes.Buffer
	p.Stdout, p.Stderr = &out, &out
	return finish(t, p)
}

// onTheFakes is what onFakeNode runs.
func onTheFakes(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	native := filepath.Dir(nativetest.Build(t, "ballast", "ballast", "checkpoint", "swaparea"))
	nativetest.Build(t, "lazy", "libcase.so", "programs")
	if err := os.Symlink(native, filepath.Join(dir, "native")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	p := process(dir, args...)
	p.Path, p.Args = filepath.Join(native, "fake-node"), append([]string{"fake-node", os.Args[0]}, args...)
	p.Env = slices.DeleteFunc(p.Env, func(kv string) bool {
		return strings.HasPrefix(kv, live.VisibleDevices+"=") || strings.HasPrefix(kv, "SLURM") || strings.HasPrefix(kv, "CASERUN_")
	})
	p.Env = append(append(p.Env, mainEnv+"=1"), env...)
	return p
}

// Runs on the fakes are live: the jobs are on the devices that the store names, and compute what they compute alone, also
// where their memory moves.
func TestFakeNode(t *testing.T) {
	dir := inTempDir(t)
	var alone string // what a job computes
	for i, args := range [][]string{
		{"--sched", "sa"},
		{"--sched", "case-alg3", "--mem-cap", "48MiB"},
		{"--sched", "vgpu:n=4,victims=0", "--workers", "4"},
	} {
		args = append([]string{"mix", "native/fake-node.yaml", "--node", "local"}, args...)
		env := []string{"FAKE_CUDA_KERNEL_US=5000", "FAKE_NVML_PROCESSES=" + t.TempDir()}
		if slices.Contains(args, "--workers") { // all hold memory at one time, however late each of them starts
			env = append(env, fmt.Sprintf("SWAPPED_MEET=%s,4", t.TempDir()))
		}
		status, text := onFakeNode(t, dir, env, args...)
		if status != exitOK || !strings.Contains(text, "2 x Fake GPU (64 MiB)") {
			t.Fatalf("%v: exit %d:\n%s", args, status, text)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		id := int64(i + 1)
		run, err := s.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if run.Mode != results.Live || run.Provenance.Driver == nil || *run.Provenance.Driver != "fake" {
			t.Errorf("%v: mode %s, provenance %+v", args, run.Mode, run.Provenance)
		}
		devices, err := s.Devices(t.Context(), id)
		if err != nil || len(devices) != 2 {
			t.Fatalf("%v: devices %+v (%v)", args, devices, err)
		}
		for n, d := range devices {
			if want := fmt.Sprintf("GPU-ca5e0000-0000-0000-0000-0000000000%02x", n); d.UUID != want || d.Name != "Fake GPU" {
				t.Errorf("%v: device %d is %s %s; want %s", args, n, d.Name, d.UUID, want)
			}
		}
		jobs, outputs := jobsOf(t, s, id, 4)
		for n, job := range jobs {
			computed, after, _ := strings.Cut(outputs[n], "after: ")
			if alone == "" {
				alone = computed
			}
			if job.UnaccountedBytes != nil && *job.UnaccountedBytes != 0 {
				t.Errorf("%v: job %d: %d bytes that no call showed", args, n, *job.UnaccountedBytes)
			}
			// The program says on which device its context was, as CUDA numbers those of the node.
			if *job.Outcome != results.OK || computed != alone || job.Device == nil || !strings.HasPrefix(after, fmt.Sprintf("contexts 1 first %d ", *job.Device)) {
				t.Errorf("%v: job %d: %s: %+v\n%s\nwant\n%s", args, n, *job.Outcome, job, outputs[n], alone)
			}
		}
		swaps, err := s.Swaps(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		moved := map[schedulers.Direction]int64{}
		for _, swap := range swaps {
			moved[swap.Direction] += swap.Bytes
		}
		if moves := strings.Contains(args[5], "vgpu"); moves != (moved[schedulers.Out] > 0) || moves != (moved[schedulers.In] > 0) {
			t.Errorf("%v: moved %v bytes", args, moved)
		}
	}
}

func TestFakeNodeSaysHowToUseIt(t *testing.T) {
	c := exec.Command("../../native/fake-node")
	text, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 2 || !strings.HasPrefix(string(text), "usage: native/fake-node COMMAND...") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// A driver whose answers cannot be is named before a run, and a reading that cannot be costs a run only this reading.
func TestFakeNodeWithAnOddDriver(t *testing.T) {
	dir := inTempDir(t)
	for _, c := range []struct {
		env, want string
		status    int
	}{
		{"FAKE_NVML_ODD=devices", "the driver answered 4294967295 devices", exitInfrastructure},
		{"FAKE_NVML_ODD=cores", "GPU 0 (Fake GPU): the driver answered 4294967295 cores", exitInfrastructure},
		{"FAKE_NVML_SAME_UUID=1", "GPUs 0 and 1 have the same UUID", exitInfrastructure},
		{"FAKE_NVML_ODD=buffer texts", "the driver answered 4294967295 samples", exitOK},
	} {
		status, text := onFakeNode(t, dir, []string{c.env, "FAKE_CUDA_KERNEL_US=1000"}, "mix", "native/fake-node.yaml", "--node", "local", "--sched", "sa")
		if status != c.status || !strings.Contains(text, c.want) || !utf8.ValidString(text) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: exit %d, want %d and %q:\n%s", c.env, status, c.status, c.want, text)
		}
	}
}

// A GPU that was not chosen may be lost, readings of NVML may be odd, and the caller's environment may be anything: the run is complete,
// and says what was around it.
func TestFakeNodeInRoughSurroundings(t *testing.T) {
	dir := inTempDir(t)
	env := []string{"FAKE_NVML_LOST=1", "FAKE_METER=counter power", "FAKE_NVML_ODD=rates memory samples energy watts clock", "FAKE_CUDA_KERNEL_US=1000",
		"CUDA_LAUNCH_BLOCKING=1", "CUDA_MPS_PIPE_DIRECTORY=/elsewhere", "NVIDIA_API_KEY=secret"}
	status, text := onFakeNode(t, dir, env, "mix", "native/fake-node.yaml", "--node", "local", "--devices", "0", "--sched", "sa")
	if status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	for _, want := range []string{"CUDA_LAUNCH_BLOCKING", "do not get CUDA_MPS_PIPE_DIRECTORY", "out of the physical range"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, err := s.Run(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	around, known := results.SurroundingsOf(run)
	if !known || around.Environment["CUDA_LAUNCH_BLOCKING"] != "1" || around.CPUs == 0 || strings.Contains(*run.Provenance.Surroundings, "secret") || strings.Contains(*run.Provenance.Surroundings, "MPS") {
		t.Errorf("surroundings %s", *run.Provenance.Surroundings)
	}
	if run.Status != results.Complete || run.Sampler.Errors == nil || *run.Sampler.Errors == 0 {
		t.Errorf("%s, %+v", run.Status, run.Sampler)
	}
	segments, err := s.Segments(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range segments {
		if g.Series != results.SeriesGPUDriver || *g.Value != 0.6 {
			t.Errorf("segment %+v, %v", g, *g.Value)
		}
	}
}

// A GPU that is lost in a run takes its job with it, and the others do the rest.
func TestFakeNodeLosesAGPU(t *testing.T) {
	losesSecond(t, []string{"FAKE_CUDA_KERNEL_US=1000", "FAKE_NVML_LOST=1"}, "FAKE_NVML_LOST_WHEN", "GPU 1 of the run is lost")
}

// losesSecond makes a run on a node that loses its second device once the file that a variable names is there.
func losesSecond(t *testing.T, env []string, when, says string) {
	t.Helper()
	dir := inTempDir(t)
	lost := filepath.Join(dir, "lost")
	const program = "  - {program: native/lazy/build/13/lazy_program, args: [swapped, \"4\"], count: "
	mix := "name: lose\njobs:\n" + program + "1}\n" +
		"  - {program: /bin/sh, args: [-c, \"echo > " + lost + "; exec sleep 60\"], binding: declared, memory: 1MiB, name: there}\n" + program + "2}\n"
	if err := os.WriteFile("lose.yaml", []byte(mix), 0o600); err != nil {
		t.Fatal(err)
	}
	status, text := onFakeNode(t, dir, append(env, when+"="+lost), "mix", "lose.yaml", "--node", "local", "--sched", "sa")
	if status != exitJobsFailed || !strings.Contains(text, says) || strings.Contains(text, "could not be seen") {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, err := s.Run(t.Context(), 1)
	if err != nil || run.Status != results.Complete {
		t.Fatalf("%+v, %v", run, err)
	}
	jobs, err := s.Jobs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if onLost := *j.Device == 1; onLost != (j.Index == 1) || onLost != (*j.Outcome == results.Lost) {
			t.Errorf("job %d on device %d: %s (%s)", j.Index, *j.Device, *j.Outcome, j.Detail)
		}
	}
}

// jobsOf returns the jobs of a run, and what each has printed.
func jobsOf(t *testing.T, s *store.Store, run int64, count int) (jobs []results.Job, outputs []string) {
	t.Helper()
	jobs, err := s.Jobs(t.Context(), run)
	if err != nil || len(jobs) != count {
		t.Fatalf("run %d: jobs %+v (%v)", run, jobs, err)
	}
	files, err := filepath.Glob(fmt.Sprintf("caserun-runs/run-%d-*/job-*.out", run))
	if err != nil || len(files) != count {
		t.Fatalf("run %d: output files %q (%v)", run, files, err)
	}
	for _, file := range files {
		said, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, string(said))
	}
	return jobs, outputs
}

// Who counts as ok, where calls fail. What Rodinia's programs do is in the shell's exit status: they print garbage after
// a failed allocation, and exit with 0.
func TestFakeNodeOutcomes(t *testing.T) {
	dir := inTempDir(t)
	const program = "native/lazy/build/13/lazy_program swapped 2"
	const failing = "CASE_ROOM_GRACE_MS=0 FAKE_CUDA_FAIL=cuMemCreate:1+=2,cudaMalloc:1+=2 " + program + "; exit 0"
	writeFiles(t, map[string]string{"m.yaml": "name: m\njobs:\n" +
		"  - {name: ok, program: /bin/sh, args: [-c, \"" + program + "\"]}\n" +
		"  - {name: garbage, program: /bin/sh, args: [-c, \"" + failing + "\"]}\n" +
		"  - {name: checked, program: /bin/sh, args: [-c, \"" + failing + "\"], check_status: 4}\n" +
		"  - {name: four, program: /bin/sh, args: [-c, exit 4]}\n" +
		"  - {name: wrong, program: /bin/sh, args: [-c, exit 4], check_status: 4}\n" +
		"  - {name: away, program: /bin/sh, args: [-c, \"CASE_SOCKET=/nowhere " + program + "; exit 0\"]}\n" +
		"  - {name: removes, program: /bin/sh, args: [-c, \"rm $CASE_SOCKET; " + program + "\"]}\n" +
		"  - {name: after, program: /bin/sh, args: [-c, \"" + program + "\"]}\n" +
		"  - {name: seventh, program: /bin/sh, args: [-c, native/lazy/build/13/lazy_program last_errors; exit 1]}\n"})
	for i, c := range []struct {
		rule, checked string
	}{{"check", "ok-after-oom"}, {"oom", "oom"}} {
		status, text := onFakeNode(t, dir, nil, "mix", "m.yaml", "--node", "local", "--workers", "1", "--after-oom", c.rule)
		if status != exitJobsFailed || !strings.Contains(text, "status                      complete") {
			t.Fatalf("exit %d:\n%s", status, text)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		jobs, err := s.Jobs(t.Context(), int64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, j := range jobs {
			got = append(got, j.Name+" "+string(*j.Outcome))
			if j.Name == "seventh" && !strings.HasPrefix(j.Detail, "exit status 1: cudaSetDevice(7): no such device among the 1 that the job was given; ") {
				t.Errorf("seventh: %s", j.Detail)
			}
		}
		want := []string{"ok ok", "garbage oom", "checked " + c.checked, "four crash", "wrong wrong", "away not-scheduled", "removes ok", "after ok", "seventh crash"}
		if !slices.Equal(got, want) {
			t.Errorf("--after-oom %s: %q, want %q\n%s", c.rule, got, want, text)
		}
	}
}

// A process of a job that uses a GPU and does not ask for it makes the run doubtful, and no measurement under --strict.
func TestFakeNodeSeesUnscheduledUse(t *testing.T) {
	dir := inTempDir(t)
	users := filepath.Join(dir, "users")
	mix := "name: hidden\njobs:\n  - {program: /bin/sh, args: [-c, \"env -i setsid /bin/sh -c 'echo 1 $$ > " + users + "; exec sleep 3' & wait\"], name: hidden}\n"
	if err := os.WriteFile("hidden.yaml", []byte(mix), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"mix", "hidden.yaml", "--node", "local", "--sched", "case-alg3"}
	for i, strict := range []string{"--strict=false", "--strict"} {
		want := []struct {
			exit   int
			status results.Status
		}{{exitOK, results.Complete}, {exitInfrastructure, results.Interrupted}}[i]
		status, text := onFakeNode(t, dir, []string{"FAKE_NVML_PROCESSES=" + users}, append(args, strict)...)
		if status != want.exit || !strings.Contains(text, "used GPU 1 unscheduled") || strings.Contains(text, "could not be seen") {
			t.Fatalf("%s: exit %d, want %d:\n%s", strict, status, want.exit, text)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		run, err := s.Run(t.Context(), int64(i+1))
		if err != nil || run.Status != want.status || !strings.Contains(run.Doubts, "used GPU 1 unscheduled") {
			t.Errorf("%s: %s, doubts %q (%v)", strict, run.Status, run.Doubts, err)
		}
	}
}

// Where NVML shows no process although some have memory on a GPU, nobody can see unscheduled use, and the run says so.
func TestFakeNodeWhereNVMLShowsNoProcess(t *testing.T) {
	dir := inTempDir(t)
	mix := "jobs:\n  - {program: native/lazy/build/13/lazy_program, args: [swapped, \"10\"]}\n"
	if err := os.WriteFile("mix.yaml", []byte(mix), 0o600); err != nil {
		t.Fatal(err)
	}
	status, text := onFakeNode(t, dir, []string{"FAKE_CUDA_KERNEL_US=80000"}, "mix", "mix.yaml", "--node", "local", "--sched", "case-alg3")
	if status != exitOK || strings.Count(text, "caserun: unscheduled use of the GPUs, and memory that no call shows, could not be seen: NVML shows no process of th") != 1 {
		t.Errorf("exit %d:\n%s", status, text)
	}
}

// A program that cannot start is refused before a run or a sweep, with its place and the remedy. One that disappears later is a crash
// of its job, and the sweep goes on.
func TestFakeNodeProgramThatIsGone(t *testing.T) {
	dir := inTempDir(t)
	for name, text := range map[string]string{
		"typo.yaml":   "jobs:\n  - {program: /bin/true}\n  - {program: ./gone}\n",
		"broken.yaml": "jobs:\n  - {program: ./broken}\n",
		"once.yaml":   "name: once\njobs:\n  - {program: /bin/true}\n  - {program: ./once}\n",
		"broken":      "#!/nowhere/sh\n",
		"once":        "#!/bin/sh\nrm -f \"$0\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for mix, want := range map[string]string{
		"typo.yaml":   "typo.yaml:3: job 1 (gone): program ./gone: no such file or directory: build it, or correct its path",
		"broken.yaml": "broken.yaml:2: job 0 (broken): program ./broken: its interpreter /nowhere/sh, which its first line names, cannot be found",
	} {
		for _, args := range [][]string{{"mix", mix}, {"sweep", "--mix", "once.yaml", "--mix", mix}} {
			if status, text := onFakeNode(t, dir, nil, append(args, "--node", "local", "--sched", "case-alg3")...); status != exitInfrastructure || !strings.Contains(text, want) {
				t.Errorf("%v: exit %d, want %d and %q:\n%s", args, status, exitInfrastructure, want, text)
			}
		}
	}
	status, text := onFakeNode(t, dir, nil, "sweep", "--mix", "once.yaml", "--node", "local", "--sched", "case-alg3", "--reps", "2", "--warmups", "0", "--html", "live.html")
	isLastPage(t, "live.html", "--sweep", "latest")
	if want := "once.yaml:4: job 1 (once): program ./once: no such file or directory"; status != exitOK || strings.Count(text, want) != 1 {
		t.Fatalf("exit %d, want once %q:\n%s", status, want, text)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for run, want := range []results.Outcome{results.OK, results.Crash} {
		jobs, err := s.Jobs(t.Context(), int64(run+1))
		if err != nil || len(jobs) != 2 || *jobs[0].Outcome != results.OK || *jobs[1].Outcome != want {
			t.Errorf("run %d: %+v (%v), want its last job %s", run+1, jobs, err, want)
		}
	}
}
