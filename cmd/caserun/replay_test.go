package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every format says of each row whether it was replayed, and nothing is stored.
func TestReplay(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "mix", "W7", "--sched", "case-alg2", "--node", "sim:2xP100"); status != exitOK {
		t.Fatal(errs)
	}
	before, err := os.ReadFile("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	status, out, errs := caserun(t, "replay", "1", "--sched", "sa")
	for _, want := range []string{"REPLAYED run 1: W7 on sim:2xP100, itself SIMULATED", "wait-limit=0s sim ", "wait-limit=0s replayed ", "sa replayed ",
		"makespan +0.0 %", "replay against replay: throughput -", "REPLAYED: rows of the mode replayed were not measured", "A crowd that slowed them down there"} {
		if status != exitOK || !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("exit %d, want %q:\n%s%s", status, want, out, errs)
		}
	}
	status, out, errs = caserun(t, "replay", "latest", "--format", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if status != exitOK || err != nil || len(rows) != 4 || !strings.Contains(errs, "A crowd that slowed them down there") {
		t.Fatalf("exit %d, %v: %s%s", status, err, out, errs)
	}
	mode := -1
	for i, name := range rows[0] {
		if name == "mode" {
			mode = i
		}
	}
	if mode < 0 || rows[1][mode] != "sim" || rows[2][mode] != "replayed" || rows[3][mode] != "replayed" {
		t.Errorf("modes: %v", rows)
	}
	status, out, _ = caserun(t, "replay", "latest", "--format", "json", "--sched", "case-alg2:age-limit=64")
	var table struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(out), &table); err != nil || status != exitOK {
		t.Fatal(status, err)
	}
	if len(table.Rows) != 2 { // its own scheduler is replayed once
		t.Errorf("rows %v", table.Rows)
	}
	for _, key := range []string{"makespan_s", "throughput_jobs_per_s", "turnaround_mean_s"} {
		if a, b := table.Rows[0][key].(float64), table.Rows[1][key].(float64); a <= 0 || b/a < 0.999999 || b/a > 1.000001 {
			t.Errorf("%s: %g in the run, %g replayed", key, a, b)
		}
	}
	if status, out, _ := caserun(t, "replay", "1", "--format", "markdown"); status != exitOK || !strings.Contains(out, "REPLAYED") {
		t.Errorf("markdown:\n%s", out)
	}
	after, err := os.ReadFile("caserun.db")
	if err != nil || string(after) != string(before) {
		t.Errorf("a replay changed the store: %v", err)
	}
}

// The table calls arms by the names that the user gave, of the run and of --sched.
func TestReplayOfANamedArm(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "mix", "W7", "--sched", "fifo:=case-alg3:queue=fifo", "--node", "sim:2xP100"); status != exitOK {
		t.Fatal(errs)
	}
	for _, c := range []struct {
		sched string
		want  []string
	}{
		{"sa", []string{"fifo", "fifo", "sa"}}, {"case-alg3", []string{"fifo", "fifo", "case-alg3"}},
		{"big:=case-alg3:queue=largest-first", []string{"fifo", "fifo", "big"}}, {"case-alg3:queue=fifo", []string{"fifo", "fifo"}},
	} {
		_, out, errs := caserun(t, "replay", "1", "--sched", c.sched, "--format", "csv")
		if got := column(t, out, "arm"); !slices.Equal(got, c.want) {
			t.Errorf("%s: arms %q, want %q; %s", c.sched, got, c.want, errs)
		}
		if _, out, _ = caserun(t, "replay", "1", "--sched", c.sched, "--format", "markdown"); !strings.Contains(out, "\n| "+c.want[0]+" |") {
			t.Errorf("%s: the table does not name the arm:\n%s", c.sched, out)
		}
	}
}

// A scheduler that plans is told what the run's scheduler expected, or else what runs show. The assumptions say
// which, or that it plans nothing.
func TestReplayUnderPlan(t *testing.T) {
	inTempDir(t)
	const unplanned = "under plan, nothing is known of 32 of 32 jobs, so they are not planned"
	for _, sched := range []string{"case-alg3", "plan:search=200"} {
		if status, _, errs := caserun(t, "mix", "W7", "--sched", sched, "--node", "sim:4xV100"); status != exitOK {
			t.Fatal(errs)
		}
	}
	for _, c := range []struct {
		run, sched, says, saysNot string
		planned                   bool
	}{
		{"1", "plan:search=200", "plan expects of the jobs what runs in the store show, the replayed run among them", unplanned, true},
		{"1", "plan:learn=off", unplanned, "expects of the jobs", false},
		{"1", "plan:nice=off,search=200", "plan expects of the jobs", "nice=on", true},
		{"2", "plan:search=200", "plan expects of the jobs what the run's own scheduler expected of them", "runs in the store show", true},
		{"2", "case-alg3", "nice=on of plan changes nothing", unplanned, false},
	} {
		status, out, errs := caserun(t, "replay", c.run, "--sched", c.sched, "--format", "json")
		var table struct{ Rows []map[string]any }
		if err := json.Unmarshal([]byte(out), &table); err != nil || status != exitOK {
			t.Fatalf("exit %d, %v: %s", status, err, errs)
		}
		said := strings.Join(strings.Fields(errs), " ")
		if !strings.Contains(said, c.says) || strings.Contains(said, c.saysNot) {
			t.Errorf("run %s under %s: want %q and not %q:\n%s", c.run, c.sched, c.says, c.saysNot, errs)
		}
		last := table.Rows[len(table.Rows)-1]["makespan_s"].(float64)
		if planned := last < 75; planned != c.planned { // about 70 s with a plan, and 82 s or more without
			t.Errorf("run %s under %s: makespan %g s; planned %t, want %t", c.run, c.sched, last, planned, c.planned)
		}
	}
}

func TestRunsThatAreNotReplayed(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"p.sh": shellPolicy(3, "exit 6"), "m.yaml": "jobs: [needle-16384, needle-16384]\n",
		"ranks.yaml": "jobs: [needle-16384, {job: needle-16384, ranks: 2}]\n"})
	for _, sched := range []string{"case-alg3", "exec:p.sh"} {
		caserun(t, "mix", "m.yaml", "--sched", sched, "--node", "sim:1xV100")
	}
	caserun(t, "mix", "ranks.yaml", "--node", "sim:1xV100")
	for _, c := range []struct {
		line   string
		status int
		says   string
	}{
		{"replay", exitUsage, "RUN is missing"},
		{"replay 3", exitUsage, "replay run 3: job 1 has several ranks"},
		{"replay 9", exitUsage, "run 9"},
		{"replay x", exitUsage, `run "x": want a run's number from caserun report, or latest`},
		{"replay 2", exitUsage, "replay run 2: it is interrupted"},
		{"replay 1 --sched vgpu", exitUsage, "it takes memory back from tasks"},
		{"replay 1 --sched schedgpu:arch=shared", exitUsage, "arch=server has the same policies"},
		{"replay 1 --sched none", exitUsage, `unknown scheduler "none"`},
		{"replay 1 --sched schedgpu:device=3", exitUsage, "the node has devices 0 to 0"},
		{"replay 1 --sched exec:none.sh", exitUsage, "policy none.sh: no such file"},
		{"replay 1 --sched exec:p.sh", exitInfrastructure, "replay run 1 under exec: scheduler: policy p.sh: asked to place task"},
		{"replay 1 --db none.db", exitInfrastructure, "none.db: no such file"},
	} {
		if status, out, errs := caserun(t, strings.Fields(c.line)...); status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d and %q:\n%s%s", c.line, status, c.status, c.says, out, errs)
		}
	}
}

// A program replays a run that another scheduler made. A run that a program decided is replayed
// without it if its file is not there any more, and says so.
func TestReplayUnderAProgram(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"p.sh": shellPolicy(never, "true"), "m.yaml": "jobs: [needle-16384, bfs-32M]\n"})
	if status, _, errs := caserun(t, "mix", "m.yaml", "--sched", "exec:p.sh", "--node", "sim:1xV100"); status != exitOK {
		t.Fatal(errs)
	}
	if status, out, errs := caserun(t, "replay", "1", "--sched", "exec:./p.sh"); status != exitOK || strings.Count(out, "replayed ") < 1 || strings.Contains(out, "cannot replay it") {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	if err := os.Remove(filepath.Join(dir, "p.sh")); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := caserun(t, "replay", "1", "--sched", "sa"); status != exitOK || !strings.Contains(out, "its own scheduler cannot replay it: policy p.sh: no such file") {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
}

func TestCompletionOfReplay(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "1")
	if offered := completions(t, "replay", ""); len(offered) < 2 || offered[0] != "latest" {
		t.Errorf("replay: %q", offered)
	}
	if offered := completions(t, "replay", "1", ""); len(offered) > 0 {
		t.Errorf("replay 1: %q", offered)
	}
	if offered := completions(t, "replay", "1", "--sched", "case-alg2:q"); len(offered) == 0 {
		t.Error("replay --sched offers nothing")
	}
}
