package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
)

// measuredRun stores a live run of a mix, whose jobs and tasks tell what they used.
func measuredRun(t *testing.T, mix string, jobs []results.Job, tasks []results.Task) {
	t.Helper()
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	run := results.Run{Mix: mix, Scheduler: "case-alg3", Node: "local", Mode: results.Live, StartedAt: new(time.Now()),
		Jobs: len(jobs), Provenance: results.Provenance{Binaries: "{}", Configuration: "[]"}}
	if run.ID, err = s.BeginRun(t.Context(), run, []results.Device{{UUID: "GPU-1", Name: "H200"}}); err != nil {
		t.Fatal(err)
	}
	w := s.Writer(run.ID)
	for i, j := range jobs {
		j.Index = i
		w.Job(j)
	}
	for _, k := range tasks {
		w.Task(k)
	}
	run.Status = results.Complete
	if err := w.Finish(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

const mine = `name: mine
jobs:
  - program: ./net   # cuBLAS
    args: train
    memory: 4GiB     # guessed
    count: 3
  - program: ./other
    memory: 1GiB
  - {program: ./fails, memory: 2GiB}
`

const learned = `name: mine
jobs:
  - program: ./net   # cuBLAS
    blocks: 64
    threads_per_block: 512
    args: train
    memory: 900MiB     # guessed
    count: 3
  - program: ./other
    memory: 1GiB
  - {program: ./fails, memory: 2GiB}
`

func measureMine(t *testing.T) {
	t.Helper()
	const mib = int64(1 << 20)
	job := func(command string, o results.Outcome, used *int64) results.Job {
		return results.Job{Name: command, Command: command, Outcome: &o, FootprintBytes: new(4096 * mib), UsedBytes: used}
	}
	task := func(job, seq int, blocks uint64, threads uint32) results.Task {
		return results.Task{Job: job, Seq: seq, Blocks: blocks, ThreadsPerBlock: threads, GrantS: new(1.0), ReleaseS: new(2.0)}
	}
	measuredRun(t, "mine", []results.Job{job("./net train", results.OK, new(800*mib)), job("./net train", results.OK, new(900*mib)),
		job("./net train", results.Crash, new(13*1024*mib)), job("./other", results.OK, nil), job("./fails", results.OOM, new(7*mib))},
		[]results.Task{task(0, 0, 100, 32), task(0, 1, 64, 512), task(1, 0, 120, 256), task(2, 0, 9000, 1024), task(3, 0, 7, 32)})
}

// A run's footprints go into a copy, or into the file itself, which keeps the rest.
func TestMixesLearnFromARun(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"mine.yaml": mine})
	measureMine(t)
	measuredRun(t, "another", []results.Job{{Command: "./net train", Outcome: new(results.OK), UsedBytes: new(int64(5))}}, nil)

	status, out, errs := caserun(t, "mixes", "learn", "mine.yaml")
	if diff := cmp.Diff(learned, out); status != exitOK || diff != "" {
		t.Errorf("exit %d: %s\n%s", status, errs, diff)
	}
	want := "caserun: footprints come from run 1 (mine under case-alg3 on local)\n" +
		"caserun: ./other: its footprint stays as it is: it was not measured\n" +
		"caserun: ./fails: its footprint stays as it is: it was not measured\n"
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Error(diff)
	}
	if status, _, errs := caserun(t, "mixes", "learn", "mine.yaml", "-o", "copy.yaml"); status != exitOK {
		t.Errorf("exit %d: %s", status, errs)
	}
	if err := os.Symlink("mine.yaml", "link.yaml"); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := caserun(t, "mixes", "learn", "link.yaml", "--in-place", "--run", "1"); status != exitOK || out != "" {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	for _, name := range []string{"copy.yaml", "mine.yaml"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != learned {
			t.Errorf("%s (%v):\n%s", name, err, got)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 4 { // with the store
		t.Errorf("files %v, %v", left, err)
	}
}

// What report says of the run.
func TestReportShowsDeclaredAndUsed(t *testing.T) {
	inTempDir(t)
	measureMine(t)
	_, out, _ := caserun(t, "report", "1", "-v")
	for _, want := range []string{"./net train: its mix declares 4 GiB of device memory, and its jobs used up to 13 GiB.", "  1  ./net train  -          4 GiB  900 MiB "} {
		if strings.Count(out, want) != 1 {
			t.Errorf("output has %q %d times, want once:\n%s", want, strings.Count(out, want), out)
		}
	}
}

func TestMixesLearnFromProfiles(t *testing.T) {
	inTempDir(t)
	var file strings.Builder
	w := profiles.NewWriter(&file)
	for command, f := range map[string]mixes.Footprint{"./net train": {Bytes: 900 << 20, Blocks: 64, ThreadsPerBlock: 512}, "needle 32768 10": {Bytes: 5 << 30}, "./other": {}} {
		if err := w.Write(profiles.Profile{Job: "x", Command: command, Kernels: profiles.Untraced, Footprint: f}); err != nil {
			t.Fatal(err)
		}
	}
	writeFiles(t, map[string]string{"mine.yaml": mine, "p.csv": file.String(), "them.wl": "needle 32768 10 &\nneedle 16384 10 &\n"})
	if status, out, errs := caserun(t, "mixes", "learn", "mine.yaml", "--profiles", "p.csv"); status != exitOK || out != learned {
		t.Errorf("exit %d: %s%s", status, errs, out)
	}
	status, out, errs := caserun(t, "mixes", "learn", "them.wl", "--profiles", "p.csv")
	if status != exitOK || !strings.Contains(out, "memory: 5GiB") || !strings.Contains(out, "- needle-16384") ||
		!strings.Contains(errs, "needle 32768 10: its blocks and threads stay as they are") || !strings.Contains(errs, "needle 16384 10: its footprint stays") {
		t.Errorf("exit %d: %s%s", status, errs, out)
	}
	if status, out, errs = caserun(t, "mixes", "learn", "W1", "--profiles", "p.csv"); status != exitOK || !strings.HasPrefix(out, "name: W1-learned\n") {
		t.Errorf("exit %d: %s%s", status, errs, out)
	}
}

func TestMixesLearnCommandLine(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"mine.yaml": mine, "there.yaml": "earlier", "empty.yaml": "jobs:\n- program: ./nobody\n",
		"escaped.yaml": "name: mine\njobs:\n- {program: ./net, args: train, memory: \"\\x35MiB\"}\n"})
	measureMine(t)
	if status, _, errs := caserun(t, "mix", "W7", "--node", "sim:4xV100"); status != exitOK {
		t.Fatal(errs)
	}
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"mine.yaml -o there.yaml", exitUsage, "there.yaml: file already exists"},
		{"mine.yaml --in-place -o x.yaml", exitUsage, "none of the others can be"},
		{"mine.yaml --run 1 --profiles p.csv", exitUsage, "none of the others can be"},
		{"W7 --in-place", exitUsage, "W7 is not a YAML file"},
		{"W7 --run 2", exitUsage, "run 2 is simulated"},
		{"W7", exitNothing, "no live run"},
		{"mine.yaml --run 9", exitUsage, "no such run"},
		{"none.yaml", exitUsage, "none.yaml"},
		{"empty.yaml --profiles none.csv", exitUsage, "none.csv"},
		{"empty.yaml --run 1", exitNothing, "nothing is known of what the jobs of empty.yaml used"},
		{"escaped.yaml --in-place", exitUsage, "escaped.yaml:3: ./net train: its footprint is not written"},
	} {
		status, out, errs := caserun(t, append([]string{"mixes", "learn"}, strings.Fields(c.args)...)...)
		if status != c.status || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d, want %d and %q: %s%s", c.args, status, c.status, c.says, out, errs)
		}
	}
	for name, want := range map[string]string{"mine.yaml": mine, "there.yaml": "earlier"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s (%v) is changed:\n%s", name, err, got)
		}
	}
}

// A run says that its mix is far from what the jobs used; with what is learned of it the next
// does not.
func TestMixLearnsFromItsRuns(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{"m.yaml": "jobs:\n- program: " + program + " # ours\n  args: use:1 begin:3 use:4194304 free\n  memory: 1GiB\n  count: 2\n"})
	const note = "its mix declares 1 GiB of device memory, and its jobs used up to 4 MiB"
	for _, c := range []struct {
		args  []string
		notes int
	}{
		{[]string{"mix", "m.yaml", "--no-mps", "--sched", "case-alg3"}, 1},
		{[]string{"report", "latest"}, 1},
		{[]string{"mixes", "learn", "m.yaml", "--in-place"}, 0},
		{[]string{"mix", "m.yaml", "--no-mps", "--sched", "case-alg3"}, 0},
	} {
		status, text := finish(t, onFakes(dir, library, nil, c.args...))
		if status != exitOK || strings.Count(text, note) != c.notes {
			t.Errorf("%v: exit %d, want %d notes:\n%s", c.args, status, c.notes, text)
		}
	}
	want := "jobs:\n- program: " + program + " # ours\n  blocks: 1024\n  threads_per_block: 256\n  args: use:1 begin:3 use:4194304 free\n  memory: 4MiB\n  count: 2\n"
	if got, err := os.ReadFile("m.yaml"); err != nil || string(got) != want {
		t.Errorf("%v:\n%s", err, got)
	}
	if _, jobs, _ := stored(t, 2); len(jobs) != 2 || *jobs[1].FootprintBytes != 4<<20 || *jobs[1].UsedBytes != 4<<20 {
		t.Errorf("jobs of the second run: %+v", jobs)
	}
}
