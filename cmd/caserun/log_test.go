package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// logLine is a line of --log-json. Its fields are those that docs/reference/exports.md lists.
type logLine struct {
	Run        int64        `json:"run_id"`
	Mode       results.Mode `json:"mode"`
	Kind       string       `json:"kind"`
	AtS        *float64     `json:"at_s"`
	Mix        string       `json:"mix"`
	Scheduler  string       `json:"scheduler"`
	Arm        string       `json:"arm"`
	Parameters string       `json:"parameters"`
	Probe      string       `json:"probe"`
	Node       string       `json:"node"`
	Suite      string       `json:"suite"`
	Repetition int          `json:"repetition"`
	Sweep      *int64       `json:"sweep_id"`
	Warmup     bool         `json:"warmup"`
	Tag        *string      `json:"tag"`
	Seed       string       `json:"seed"`
	Jobs       int          `json:"jobs"`
	StartedAt  *string      `json:"started_at"`
	Devices    []struct {
		Index         int    `json:"device_index"`
		UUID          string `json:"uuid"`
		Name          string `json:"name"`
		MemoryBytes   int64  `json:"memory_bytes"`
		CapacityBytes int64  `json:"capacity_bytes"`
	} `json:"devices"`
	Job             *int              `json:"job_index"`
	Task            *int              `json:"task_seq"`
	Device          *int              `json:"device_index"`
	Name            string            `json:"name"`
	Command         string            `json:"command"`
	ArrivalS        *float64          `json:"arrival_s"`
	Outcome         *results.Outcome  `json:"outcome"`
	ExitStatus      *int              `json:"exit_status"`
	Signal          *string           `json:"signal"`
	Detail          string            `json:"detail"`
	WaitS           *float64          `json:"wait_s"`
	TurnaroundS     *float64          `json:"turnaround_s"`
	Bytes           int64             `json:"bytes"`
	HeapBytes       int64             `json:"heap_bytes"`
	GrownBytes      int64             `json:"grown_bytes"`
	Blocks          uint64            `json:"blocks"`
	ThreadsPerBlock uint32            `json:"threads_per_block"`
	Passed          int               `json:"passed"`
	Refusal         string            `json:"refusal"`
	Event           results.EventKind `json:"event"`
	Status          results.Status    `json:"status"`
	OK              int               `json:"jobs_ok"`
	OOM             int               `json:"jobs_oom"`
	Crashed         int               `json:"jobs_crashed"`
	Cancelled       int               `json:"jobs_cancelled"`
	NotStarted      int               `json:"jobs_not_started"`
	MakespanS       *float64          `json:"makespan_s"`
	Throughput      *float64          `json:"throughput_jobs_per_s"`
	TurnaroundMeanS *float64          `json:"turnaround_mean_s"`
	Utilization     *float64          `json:"utilization_mean"`
	Direction       string            `json:"direction"`
	Action          *string           `json:"action"`
	Why             *string           `json:"why"`
	StartS          *float64          `json:"start_s"`
	DrainS          float64           `json:"drain_s"`
	CopyS           float64           `json:"copy_s"`
	BookkeepingS    float64           `json:"bookkeeping_s"`
	ResidentBytes   *int64            `json:"resident_bytes"`
	FixedBytes      *int64            `json:"fixed_bytes"`
	LostS           *float64          `json:"lost_s"`
	ForJob          *int              `json:"for_job_index"`
	ForTask         *int              `json:"for_task_seq"`
}

// readLog reads a log. The document must have every field.
func readLog(t *testing.T, path string, document []byte) map[int64][]logLine {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byRun := map[int64][]logLine{}
	for line := range bytes.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			if !bytes.Contains(document, []byte("`"+name+"`")) {
				t.Errorf("docs/reference/exports.md lacks the field %s", name)
			}
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		var l logLine
		if err := d.Decode(&l); err != nil || l.Mode != results.Simulated {
			t.Fatalf("%s: %v, mode %q", line, err, l.Mode)
		}
		byRun[l.Run] = append(byRun[l.Run], l)
	}
	return byRun
}

// What the log says of runs, of several at a time too, is what the store has of them.
func TestLogSaysWhatTheStoreHas(t *testing.T) {
	document, err := os.ReadFile("../../docs/reference/exports.md")
	if err != nil {
		t.Fatal(err)
	}
	inTempDir(t)
	for _, args := range [][]string{
		{"sweep", "--mixes", "W1,W7", "--scheds", "sa,cg:workers=12,case-alg3,demand", "--node", "sim:2xP100", "--jobs", "4", "--reps", "2", "--sim-noise", "0.01", "--tag", "t", "--log-json", "l.jsonl"},
		{"mix", "W1", "--sched", "mine:=case-alg3", "--node", "sim:2xP100", "--log-json", "l.jsonl"},
		{"paper", "--run", "--node", "sim:4xV100", "--mixes", "W1", "--reps", "1", "--log-json", "l.jsonl"},
	} {
		if status, _, errs := caserun(t, args...); status != exitOK {
			t.Fatalf("%v: exit %d: %s", args, status, errs)
		}
	}
	log := readLog(t, "l.jsonl", document)
	db, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := t.Context()
	runs, err := db.Runs(ctx, store.Filter{Warmups: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != len(log) || len(runs) < 14 {
		t.Errorf("the store has %d runs, the log %d", len(runs), len(log))
	}
	kinds := map[string]int{}
	for _, r := range runs {
		lines := log[r.ID]
		if first, last := lines[0], lines[len(lines)-1]; first.Kind != "run_started" || last.Kind != "run_ended" {
			t.Fatalf("run %d: the lines go from %s to %s", r.ID, first.Kind, last.Kind)
		}
		jobs, err := db.Jobs(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := db.Tasks(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		events, err := db.Events(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		devices, err := db.Devices(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []logLine
		want = append(want, startOf(r, devices))
		for _, j := range jobs {
			want = append(want, logLine{Kind: "job_started", AtS: j.StartS, Job: &j.Index, Name: j.Name, Command: j.Command, ArrivalS: j.ArrivalS},
				logLine{Kind: "job_ended", AtS: j.EndS, Job: &j.Index, Name: j.Name, Device: j.Device, Outcome: j.Outcome, ExitStatus: j.ExitStatus,
					Signal: j.Signal, Detail: j.Detail, WaitS: j.WaitS, TurnaroundS: j.TurnaroundS()})
		}
		for _, k := range tasks {
			want = append(want, logLine{Kind: "task_submitted", AtS: &k.SubmitS, Job: &k.Job, Task: &k.Seq, Bytes: k.Bytes, HeapBytes: k.HeapBytes, Blocks: k.Blocks, ThreadsPerBlock: k.ThreadsPerBlock})
			if k.GrantS != nil {
				want = append(want, logLine{Kind: "task_granted", AtS: k.GrantS, Job: &k.Job, Task: &k.Seq, Device: k.Device, WaitS: new(*k.GrantS - k.SubmitS), Passed: k.Passed},
					logLine{Kind: "task_released", AtS: k.ReleaseS, Job: &k.Job, Task: &k.Seq, Device: k.Device, GrownBytes: k.GrownBytes})
			}
		}
		swaps, err := db.Swaps(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range swaps {
			l := logLine{Kind: "swap", AtS: &s.EndS, Job: &s.Job, Task: &s.Task, Device: &s.Device, Direction: string(s.Direction), Outcome: new(results.Outcome(s.Outcome)), StartS: &s.StartS,
				Bytes: s.Bytes, DrainS: s.DrainS, CopyS: s.CopyS, BookkeepingS: s.BookkeepingS, ResidentBytes: s.ResidentBytes, FixedBytes: s.FixedBytes, LostS: s.LostS, ForJob: s.ForJob, ForTask: s.ForTask}
			if s.Action != "" {
				l.Action = &s.Action
			}
			want = append(want, l)
		}
		for _, e := range events {
			want = append(want, logLine{Kind: "event", AtS: &e.AtS, Event: e.Kind, Job: e.Job, Device: e.Device, Detail: e.Detail})
		}
		m := r.Metrics
		want = append(want, logLine{Kind: "run_ended", AtS: m.MakespanS, Status: r.Status, OK: m.OK, OOM: m.OOM, Crashed: m.Crashed, Cancelled: m.Cancelled, NotStarted: m.NotStarted,
			MakespanS: m.MakespanS, Throughput: m.ThroughputJobsPerS, TurnaroundMeanS: m.TurnaroundMeanS, Utilization: m.UtilizationMean})
		for i := range want {
			want[i].Run, want[i].Mode = r.ID, r.Mode
		}
		for _, l := range lines {
			kinds[l.Kind]++
			if l.Kind == "job_started" {
				l.Device = nil // the store's is that of the first task, which may come later
			}
			got = append(got, l)
		}
		order := func(a, b logLine) int { return strings.Compare(sortKey(t, a), sortKey(t, b)) }
		slices.SortFunc(want, order)
		slices.SortFunc(got, order)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("run %d, store and log (-store +log):\n%s", r.ID, diff)
		}
	}
	for _, kind := range []string{"run_started", "run_ended", "job_started", "job_ended", "task_submitted", "task_granted", "task_released", "swap", "event"} {
		if kinds[kind] == 0 {
			t.Errorf("no line is a %s, so that nothing was compared", kind)
		}
	}
}

func startOf(r results.Run, devices []results.Device) logLine {
	l := logLine{Kind: "run_started", Mix: r.Mix, Scheduler: r.Scheduler, Arm: results.NameOf(r), Parameters: r.Parameters, Probe: r.Probe.String(), Node: r.Node, Suite: r.Suite,
		Repetition: r.Repetition, Sweep: r.Sweep, Warmup: r.Warmup, Jobs: r.Jobs}
	l.Seed = fmt.Sprint(r.Seed)
	if r.Tag != "" {
		l.Tag = &r.Tag
	}
	for _, d := range devices {
		l.Devices = append(l.Devices, struct {
			Index         int    `json:"device_index"`
			UUID          string `json:"uuid"`
			Name          string `json:"name"`
			MemoryBytes   int64  `json:"memory_bytes"`
			CapacityBytes int64  `json:"capacity_bytes"`
		}{d.Index, d.UUID, d.Name, d.MemoryBytes, d.CapacityBytes})
	}
	return l
}

func sortKey(t *testing.T, l logLine) string {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLogIsRefused(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"my.yaml": "jobs: [{program: needle, args: [2048, 10]}]\n"})
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"mix", "W1", "--node", "sim:2xP100", "--log-json", "caserun.db"}, "write caserun.db: that is a file of the store caserun.db: name another file"},
		{[]string{"mix", "my.yaml", "--node", "sim:2xP100", "--log-json", "my.yaml"}, "my.yaml: it exists and is not a log of caserun: name another file, or remove it first"},
		{[]string{"mix", "W1", "--node", "sim:2xP100", "--log-json", "caserun.db-wal"}, "write caserun.db-wal: that is a file of the store caserun.db: name another file"},
		{[]string{"mix", "W1", "--node", "sim:2xP100", "--log-json", "-"}, "--log-json -: standard output has the tables: name a file"},
		{[]string{"mix", "W1", "--node", "sim:2xP100", "--log-json", "none/l.jsonl"}, "log: write none/l.jsonl: the directory none does not exist: make it, or name another"},
		{[]string{"sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:2xP100", "--log-json", "none/l.jsonl"}, "log: write none/l.jsonl: the directory none does not exist"},
		{[]string{"sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:2xP100", "--dry-run", "--log-json", "l.jsonl"}, "--log-json cannot be combined with --dry-run"},
		{[]string{"paper", "--log-json", "l.jsonl"}, "--log-json requires --run"},
	} {
		if status, _, errs := caserun(t, c.args...); status != exitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d, want %d with %q: %s", c.args, status, exitUsage, c.says, errs)
		}
	}
	if _, out, _ := caserun(t, "report", "--format", "csv"); strings.Count(out, "\n") > 1 {
		t.Errorf("commands that were refused left runs:\n%s", out)
	}
	if _, out, _ := caserun(t, "sweep", "list", "--format", "csv"); strings.Count(out, "\n") > 1 {
		t.Errorf("commands that were refused left sweeps:\n%s", out)
	}
}

// A log without room does not end the run, whose measurements count. The command says so.
func TestLogWithoutRoom(t *testing.T) {
	inTempDir(t)
	status, out, errs := caserun(t, "mix", "W1", "--node", "sim:4xV100", "--sched", "sa", "--log-json", "/dev/full")
	if status != exitInfrastructure || !strings.Contains(out, "throughput") || !strings.Contains(errs, "log /dev/full: ") || !strings.Contains(errs, "no space left on device") {
		t.Errorf("exit %d: %s\n%s", status, errs, out)
	}
	if _, out, _ := caserun(t, "report", "--format", "csv"); !strings.Contains(out, ",complete,") {
		t.Errorf("the run is not complete:\n%s", out)
	}
}
