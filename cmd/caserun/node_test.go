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

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/live"
)

// fakeNVML builds native/nvml, whose GPUs are numbered from 0, and returns its path.
func fakeNVML(t *testing.T) string {
	t.Helper()
	return filepath.Join(nativetest.Build(t, "nvml"), "build/libnvidia-ml.so.1")
}

// The GPUs are those of --devices, or else of CUDA_VISIBLE_DEVICES, or all.
func TestDevices(t *testing.T) {
	library := fakeNVML(t)
	dir := inTempDir(t)
	for name, text := range map[string]string{
		"own.yaml":   "name: own\njobs:\n  - {program: /bin/true, memory: 1GiB}\n",
		"sweep.yaml": "mixes: [own.yaml]\nscheds: [\"schedgpu:device=1\"]\ndevices: 0\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// plan fits a node of more than last devices.
	plan := func(last string, more ...string) []string {
		return append([]string{"sweep", "--mixes", "own.yaml", "--scheds", "schedgpu:device=" + last, "--dry-run"}, more...)
	}
	const all = "want one or more of 0 (GPU-00000000-0000-0000-0000-000000000000), 1 (GPU-10000000-0000-0000-0000-000000000000), " +
		"2 (GPU-20000000-0000-0000-0000-000000000000), 3 (GPU-30000000-0000-0000-0000-000000000000)"
	const visible, inJob, onNode = "CUDA_VISIBLE_DEVICES=", "SLURM_JOB_ID=14", "SLURMD_NODENAME=n1"
	for _, c := range []struct {
		args   []string
		env    []string
		status int
		says   string // on stdout or stderr
	}{
		{plan("3"), nil, exitOK, ""},
		{plan("4"), nil, exitUsage, "the node has devices 0 to 3"},
		{plan("1", "--devices", "3,GPU-2"), nil, exitOK, ""},
		{plan("2", "--devices", "3,GPU-2"), nil, exitUsage, "the node has devices 0 to 1"},
		{plan("1"), []string{visible + "0,2"}, exitOK, ""},
		{plan("2"), []string{visible + "0,2"}, exitUsage, "the node has devices 0 to 1"},
		{plan("1", "--devices", "2,3"), []string{visible + "0"}, exitOK, ""},
		{plan("1"), []string{visible + "0", "CASERUN_DEVICES=2,3"}, exitOK, ""},
		{plan("1", "--devices", "1"), []string{"CASERUN_DEVICES=2,3"}, exitUsage, "the node has devices 0 to 0"},
		{[]string{"sweep", "--dry-run", "sweep.yaml"}, nil, exitUsage, "the node has devices 0 to 0"},
		{[]string{"sweep", "--dry-run", "--devices", "0,1", "sweep.yaml"}, nil, exitOK, ""},

		{plan("0", "--devices", "9"), nil, exitUsage, "--devices 9: no GPU 9: " + all + "\n"},
		{plan("0", "--devices", "9", "--node", "local"), nil, exitUsage, "--devices 9: no GPU 9"},
		{plan("0", "--devices", "1,,2"), nil, exitUsage, "devices \"1,,2\": an item is empty: write a comma only between two items"},
		{plan("0"), []string{visible + "0,9"}, exitUsage, visible + "0,9: no GPU 9: " + all + "; or name GPUs with --devices, which goes before CUDA_VISIBLE_DEVICES\n"},
		{plan("0"), []string{visible + "MIG-1/2/3"}, exitUsage, "no GPU MIG-1/2/3: want"},
		{[]string{"mix", "own.yaml", "--devices", "9"}, nil, exitUsage, "--devices 9: no GPU 9"},
		{[]string{"mix", "own.yaml", "--devices", "9", "--node", "local"}, nil, exitUsage, "--devices 9: no GPU 9"},
		{[]string{"paper", "--run", "--devices", "9"}, nil, exitUsage, "--devices 9: no GPU 9"},
		{[]string{"profile", "--devices", "9", "--", "/bin/true"}, nil, exitUsage, "--devices 9: no GPU 9"},
		{[]string{"profile", "--", "/bin/true"}, []string{visible + "9"}, exitUsage, visible + "9: no GPU 9"},
		{[]string{"doctor"}, []string{visible + "9"}, exitUsage, visible + "9: no GPU 9"},

		{[]string{"mix", "W1"}, []string{visible}, exitOK, "no NVIDIA GPU: CUDA_VISIBLE_DEVICES= hides all of them, unless --devices names some; running SIMULATED"},
		{[]string{"mix", "W1"}, []string{visible + "-1"}, exitOK, "running SIMULATED"},
		{[]string{"mix", "W1", "--trace"}, []string{visible + "-1"}, exitInfrastructure, "hides all"},
		{[]string{"mix", "W1", "--node", "local"}, []string{visible}, exitInfrastructure, "hides all"},
		{[]string{"mix", "W1", "--node", "local"}, []string{visible}, exitInfrastructure, "caserun doctor shows what is missing; to simulate, name --node sim:4xV100, without --require-live"},
		{[]string{"mix", "W1", "--require-live"}, []string{visible}, exitInfrastructure, "caserun doctor shows what is missing"},
		{plan("0", "--require-live"), []string{visible}, exitInfrastructure, "caserun doctor shows what is missing"},
		{[]string{"mix", "W1", "--sched", "schedgpu:device=9"}, []string{visible}, exitUsage, "the node has devices 0 to 3"},
		{[]string{"mix", "W1", "--mem-cap", "2MiB"}, []string{visible}, exitUsage, "--mem-cap 2MiB: a CUDA context"},
		{[]string{"sweep", "--mixes", "W1", "--scheds", "schedgpu:device=9"}, []string{visible}, exitUsage, "the node has devices 0 to 3"},
		{[]string{"doctor"}, []string{visible}, exitInfrastructure, "hides all"},
		{plan("1", "--devices", "2,3"), []string{visible}, exitOK, ""},

		{plan("1"), []string{inJob, onNode, visible + "0,2"}, exitOK, ""},
		{plan("0", "--devices", "2"), []string{inJob, onNode, visible + "0,2"}, exitOK, ""},
		{plan("0", "--devices", "1"), []string{inJob, onNode, visible + "0,2"}, exitUsage,
			"--devices 1: GPU 1 (GPU-10000000-0000-0000-0000-000000000000) is not one of 0,2; CUDA_VISIBLE_DEVICES has the GPUs of job 14 of Slurm"},
		{plan("3", "--node", "local"), []string{inJob, onNode}, exitInfrastructure, "no NVIDIA GPU: job 14 of Slurm was given none (CUDA_VISIBLE_DEVICES is not set): submit it with --gres=gpu:N"},
		{plan("3", "--devices", "0,1,2,3"), []string{inJob, onNode}, exitOK, ""},
		{plan("3"), []string{inJob}, exitOK, ""}, // a shell of salloc
		{plan("1"), []string{inJob, onNode, visible + "0,2", "SLURM_CPUS_ON_NODE=x"}, exitUsage, "job 14 of Slurm: SLURM_CPUS_ON_NODE"},
		{[]string{"mix", "W1", "--devices", "0"}, []string{"FAKE_GPUS=0"}, exitInfrastructure, "--devices 0: open NVML: no NVIDIA GPU"},

		{[]string{"mix", "W1", "--devices", "0", "--node", "sim:4xV100"}, nil, exitUsage, "--node local"},
		{[]string{"mix", "W1", "--node", "sim:4xV100"}, []string{"CASERUN_DEVICES=0"}, exitUsage, "and CASERUN_DEVICES"},
		{[]string{"mix", "W1", "--node", "sim:4xV100", "--devices="}, nil, exitUsage, "--devices is empty"},
		{[]string{"mix", "W1", "--node", "sim:4xV100"}, []string{visible + "9"}, exitOK, ""},
		{plan("0", "--devices", "0", "--node", "sim:4xV100"), nil, exitUsage, "--node local"},
		{[]string{"paper", "--run", "--devices", "0", "--node", "sim:4xV100"}, nil, exitUsage, "--node local"},
	} {
		status, text := finish(t, onFakes(dir, library, c.env, c.args...))
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s caserun %s: exit %d, want %d and %q:\n%s", strings.Join(c.env, " "), strings.Join(c.args, " "), status, c.status, c.says, text)
		}
		if c.status == exitUsage && strings.Contains(text, "running SIMULATED") {
			t.Errorf("%s caserun %s runs what it refuses:\n%s", strings.Join(c.env, " "), strings.Join(c.args, " "), text)
		}
	}
}

// Numbers are those that --devices takes, whatever it chose.
func TestDoctorListsTheDevices(t *testing.T) {
	library := fakeNVML(t)
	for env, want := range map[string][]string{
		"FAKE_GPUS=2":               {"GPUs,ok,2", `GPU 0,ok,"Fake GPU GPU-00000000`, `GPU 1,ok,"Fake GPU GPU-10000000`},
		"CUDA_VISIBLE_DEVICES=3, 1": {`GPUs,ok,"2 (CUDA_VISIBLE_DEVICES=3, 1)"`, `GPU 1,ok,"Fake GPU GPU-10000000`, `GPU 3,ok,"Fake GPU GPU-30000000`},
	} {
		_, text := finish(t, onFakes(inTempDir(t), library, []string{env}, "doctor", "--format", "csv"))
		var got []string
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "GPU") && strings.Contains(line, ",ok,") {
				line, _, _ = strings.Cut(strings.TrimSpace(line), "-0000-")
				got = append(got, line)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: doctor lists %q, want %q:\n%s", env, got, want, text)
		}
	}
}

// Runs on different GPUs do not meet, although they begin at once and are the
// first of their stores: each has its own devices, and its jobs' own files.
func TestRunsSideBySide(t *testing.T) {
	library := fakeNVML(t)
	dir := inTempDir(t)
	text := "name: own\njobs:\n  - {program: /bin/sh, args: [-c, 'echo $CUDA_VISIBLE_DEVICES; sleep 0.3'], memory: 1GiB}\n"
	if err := os.WriteFile("own.yaml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("data", 0o755); err != nil { // where jobs start
		t.Fatal(err)
	}
	const one, two, three = "GPU-10000000-0000-0000-0000-000000000000", "GPU-20000000-0000-0000-0000-000000000000", "GPU-30000000-0000-0000-0000-000000000000"
	runs := map[string]*exec.Cmd{
		"a.db": onFakes(dir, library, nil, "mix", "own.yaml", "--no-mps", "--sched", "zero", "--db", "a.db", "--devices", "3,1"),
		"b.db": onFakes(dir, library, []string{live.VisibleDevices + "=2"}, "mix", "own.yaml", "--no-mps", "--sched", "sa", "--db", "b.db"),
	}
	for _, p := range runs {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for db, want := range map[string][]string{"a.db": {one, three}, "b.db": {two}} {
		if err := runs[db].Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", db, err, runs[db].Stdout)
		}
		s, err := store.OpenReadOnly(db)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		devices, err := s.Devices(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, d := range devices {
			if d.Index != i {
				t.Errorf("%s: device %d has the index %d", db, i, d.Index)
			}
			got = append(got, d.UUID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the run's devices are %q, want %q", db, got, want)
		}
	}
	files, err := filepath.Glob("caserun-runs/run-1-*/job-0000.out")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, string(text))
	}
	slices.Sort(said)
	if want := []string{one + "," + three + "\n", two + "\n"}; !slices.Equal(said, want) {
		t.Errorf("the jobs saw the devices %q, want %q", said, want)
	}
}

// --guard reaches the jobs, and whoever reads the run's records: what it lets fault may
// run otherwise.
func TestGuard(t *testing.T) {
	library := fakeNVML(t)
	dir := inTempDir(t)
	text := "name: own\njobs:\n  - {program: /bin/sh, args: [-c, 'echo guard=$CASE_GUARD'], memory: 1GiB}\n"
	if err := os.WriteFile("own.yaml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("data", 0o755); err != nil { // where jobs start
		t.Fatal(err)
	}
	for i, flags := range [][]string{nil, {"--guard"}} {
		args := append([]string{"mix", "own.yaml", "--no-mps", "--sched", "zero", "--format", "table"}, flags...)
		status, text := finish(t, onFakes(dir, library, nil, args...))
		if status != exitOK || strings.Contains(text, "own under zero, guarded") != (i > 0) || strings.Contains(text, "guarded: nothing was mapped") != (i > 0) {
			t.Errorf("%v: exit %d:\n%s", flags, status, text)
		}
		files, err := filepath.Glob(fmt.Sprintf("caserun-runs/run-%d-*/job-0000.out", i+1))
		if err != nil || len(files) != 1 {
			t.Fatalf("output files %q (%v)", files, err)
		}
		if said, err := os.ReadFile(files[0]); err != nil || string(said) != []string{"guard=\n", "guard=1\n"}[i] {
			t.Errorf("%v: the job saw %q (%v)", flags, said, err)
		}
	}
	if _, text := finish(t, onFakes(dir, library, nil, "report")); strings.Count(text, "live, guarded") != 1 {
		t.Errorf("the list of runs:\n%s", text)
	}
}

// onFakes is the program where library is NVML and libcase.so.
func onFakes(dir, library string, env []string, args ...string) *exec.Cmd {
	p := process(dir, args...)
	p.Env = slices.DeleteFunc(p.Env, func(kv string) bool {
		return strings.HasPrefix(kv, live.VisibleDevices+"=") || strings.HasPrefix(kv, "SLURM")
	})
	p.Env = append(p.Env, "LD_LIBRARY_PATH="+filepath.Dir(library), live.LibraryVariable+"="+library)
	p.Env = append(p.Env, env...)
	var out bytes.Buffer
	p.Stdout, p.Stderr = &out, &out
	return p
}

// finish runs a process of onFakes and returns its exit status and what it
// printed.
func finish(t *testing.T, p *exec.Cmd) (status int, text string) {
	t.Helper()
	if err := p.Run(); p.ProcessState == nil {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode(), p.Stdout.(*bytes.Buffer).String()
}
