package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/sweep"
)

func TestSweepRefusals(t *testing.T) {
	inTempDir(t)
	write := func(name, text string) string {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	own := write("W1.wl", "/opt/rodinia/needle 16384 10\n")
	other := write("own.yaml", "name: own\njobs:\n  - {program: ./a.out, memory: 1GiB}\n")
	sim := []string{"--node", "sim:1xV100"}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--mixes", "W1"}, exitUsage, "--scheds"},
		{[]string{"--mixes", "W1..W9", "--scheds", "sa"}, exitUsage, "W9"},
		{[]string{"--mixes", "W1,W1", "--scheds", "sa"}, exitUsage, "one arm"},
		{[]string{"--mixes", other, "--scheds", "sa"}, exitUsage, "no profile"},
		{[]string{"--mixes", "W1," + own, "--scheds", "sa"}, exitUsage, "W1.wl"},
		{[]string{"--mixes", "W1", "--scheds", "cg,cg:workers=2"}, exitUsage, "one arm"},
		{[]string{"--mixes", "W1", "--scheds", "fifo"}, exitUsage, "case-alg3"},
		{[]string{"--mixes", "W1", "--scheds", "sa,sa"}, exitUsage, "--scheds: sa is named twice, which would be one arm: leave one out"},
		{[]string{"--mixes", "1", "--scheds", "sa"}, exitUsage, `--mixes "1": no mix "1" in the catalog`},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--reps", "0"}, exitUsage, `--reps "0": want a whole number, 1 or more`},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--warmups", "-1"}, exitUsage, `--warmups "-1": want a whole number, 0 or more`},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--jobs", "0"}, exitUsage, "--jobs"},
		{[]string{"--mixes", "W1..W8", "--scheds", "sa,cg", "--reps", "6249", "--warmups", "3"}, exitUsage, "a plan of 100008 runs: want 100000 at most"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--reps", "999999999", "--dry-run"}, exitUsage, "999999999 runs"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--jobs", "2", "--node", "local"}, exitUsage, "simulated node"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--time-limit", "0"}, exitUsage, "--time-limit 0s: want more than 0"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--time-limit=-1m"}, exitUsage, "--time-limit -1m0s"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--trace"}, exitUsage, "--trace"},
		{[]string{"--mixes", "W1", "--scheds", "sa,schedgpu:arch=shared"}, exitUsage, "no processes that could decide"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--sim-noise", "-1"}, exitUsage, "sim-noise -1: want 0 to 1"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--format", "xml"}, exitUsage, "want table, csv, tsv, json or md"},
		{[]string{write("key.yaml", "mixes: [W1]\nscheds: [sa]\nrep: 3\n")}, exitUsage, `key.yaml:3:1: unknown key "rep": did you mean reps?`},
		{[]string{write("mix-key.yaml", "mix: [W1]\nscheds: [sa]\n")}, exitUsage, `mix-key.yaml:1:1: unknown key "mix": did you mean mixes?`},
		{[]string{"--mixes", "W1", "--scheds", "sa,alg3"}, exitUsage, `unknown scheduler "alg3": did you mean case-alg3?`},
		{[]string{"--mixes", "W1-W9", "--scheds", "sa"}, exitUsage, `no mix "W9" in the catalog; did you mean W1 or W2 or W3 or W4 or W5 or W6 or W7 or W8?`},
		{[]string{"--mixes", "Dpredit", "--scheds", "sa"}, exitUsage, `no mix "Dpredit" in the catalog; did you mean D-predict?`},
		{[]string{write("type.yaml", "mixes: [W1]\nreps: three\n")}, exitUsage, `type.yaml:2:7: reps "three": want a whole number, 1 or more`},
		{[]string{write("cap.yaml", "mixes: [W1]\nscheds: [sa]\nmem-cap: 16GB\n")}, exitUsage, `cap.yaml:3:10: mem-cap: bad size "16GB"`},
		{[]string{write("sched.yaml", "mixes: [W1]\nscheds: [sa, 'sa,cg']\n")}, exitUsage, `sched.yaml:2:14: scheds: unknown scheduler "sa,cg"`},
		{[]string{write("mixes2.yaml", "mixes: [W1, W3..W5, W4]\nscheds: [sa]\n")}, exitUsage, "mixes2.yaml:1:21: mixes: W4 is named twice"},
		{[]string{write("scheds2.yaml", "mixes: [W1]\nscheds:\n- sa\n- sa\n")}, exitUsage, "scheds2.yaml:4:3: scheds: sa is named twice"},
		{[]string{write("probes2.yaml", "mixes: [W1]\nscheds: [sa]\nprobes: [lazy, lazy]\n")}, exitUsage, "probes2.yaml:3:16: probes: lazy is named twice"},
		{[]string{write("queue.yaml", "mixes: [W1]\nscheds: ['case-alg3:queue=lifo']\n")}, exitUsage, `queue.yaml:2:10: scheds: scheduler case-alg3: `},
		{[]string{write("mix.yaml", "mixes: [W1, 1]\nscheds: [sa]\n")}, exitUsage, `mix.yaml:1:13: mixes: no mix "1" in the catalog`},
		{[]string{write("name.yaml", "name: \"a\\tb\"\n")}, exitUsage, `name.yaml:1:7: name "a\tb": want one line`},
		{[]string{write("octal.yaml", "seed: 010\n")}, exitUsage, `octal.yaml:1:7: seed "010": want a whole number, 0 or more, in decimal and without zeros before it`},
		{[]string{write("reps.yaml", "reps: 2.9\n")}, exitUsage, `reps.yaml:1:7: reps "2.9": want a whole number`},
		{[]string{write("none.yaml", "reps: 0\n")}, exitUsage, `reps "0": want a whole number, 1 or more`},
		{[]string{write("warm.yaml", "warmups: -1\n")}, exitUsage, `warmups "-1": want a whole number, 0 or more`},
		{[]string{write("warmups.yaml", "mixes: [W1]\nwarmups: 1.9\n")}, exitUsage, "warmups.yaml:2:10"},
		{[]string{write("workers.yaml", "workers: 7.9\n")}, exitUsage, `workers "7.9": want a whole number`},
		{[]string{write("seed.yaml", "seed: 3.7\n")}, exitUsage, `seed "3.7": want a whole number, 0 or more`},
		{[]string{write("timeout.yaml", "timeout: 5\n")}, exitUsage, `timeout.yaml:1:10: timeout "5": want a time with its unit`},
		{[]string{write("noise.yaml", "sim-noise: some\n")}, exitUsage, `sim-noise "some": want a plain decimal number`},
		{[]string{write("trace.yaml", "trace: maybe\n")}, exitUsage, `trace "maybe": want true or false`},
		{[]string{write("null.yaml", "tag:\n")}, exitUsage, "tag has no value"},
		{[]string{write("map.yaml", "tag: {a: b}\n")}, exitUsage, "tag: want a single value"},
		{[]string{write("mixes.yaml", "mixes: W1\n")}, exitUsage, "mixes.yaml:1:8: mixes is not a list: write mixes: [W1..W8, my.yaml]"},
		{[]string{write("item.yaml", "scheds: [sa]\nmixes:\n- W1\n- W3..W1\n")}, exitUsage, "item.yaml:4:3: mixes: "},
		{[]string{write("comma.yaml", "scheds: [sa]\nmixes: ['a, b.yaml']\n")}, exitUsage, "a, b.yaml: no such file"},
		{[]string{write("text.yaml", "W1\n")}, exitUsage, "text.yaml:1:1: want keys and values"},
		{[]string{write("comment.yaml", "# nothing\n")}, exitUsage, "no sweep in the file"},
		{[]string{write("bad.yaml", "mixes: [W1\n")}, exitUsage, "bad.yaml:1"},
		{[]string{write("twice.yaml", "reps: 1\nreps: 2\n")}, exitUsage, "twice.yaml:2"},
		{[]string{write("two.yaml", "mixes: [W1]\nscheds: [sa]\n---\nreps: 1\n")}, exitUsage, "two.yaml"},
		{[]string{write("empty.yaml", "")}, exitUsage, "empty.yaml"},
		{[]string{"lsit"}, exitUsage, `no such sweep file "lsit": did you mean caserun sweep list?`},
		{[]string{"nigthly.yaml"}, exitUsage, `no such sweep file "nigthly.yaml"; the commands of sweep are list, show, status`},
		{[]string{"--resume", ""}, exitUsage, "argument 1 is empty"},
		{[]string{"--resume=", "--mixes", "W1", "--scheds", "sa"}, exitUsage, "--resume is empty"},
		{[]string{"--resume", "1", "2"}, exitUsage, `"2" is one argument too many`},
		{[]string{"--resume", "foo"}, exitUsage, "--resume foo: no such sweep: want a number from caserun sweep list, or latest"},
		{[]string{"--mixes", "W1", "--scheds", "sa", "--force"}, exitUsage, "--resume"},
		{[]string{"--resume"}, exitInfrastructure, "caserun.db"},
	} {
		args := append([]string{"sweep"}, c.args...)
		if !slices.Contains(args, "--node") {
			args = append(args, sim...)
		}
		status, _, errs := caserun(t, args...)
		if status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d; stderr must contain %q:\n%s", strings.Join(args, " "), status, c.status, c.says, errs)
		}
	}
	if _, err := os.Stat("caserun.db"); err == nil {
		t.Error("a sweep that was refused left a store")
	}
}

// A file gives what no flag gives; paths in it are relative to it.
func TestSweepFile(t *testing.T) {
	inTempDir(t)
	if err := os.Mkdir("conf", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"conf/night.yaml": "\ufeff# nightly\n---\nname: night\ntag: t1\nmixes: [W1, mine.yaml]\nscheds: [sa, 'cg:workers=3']\nreps: 2\nwarmups: 1\nnode: sim:2xV100\nseed: 18446744073709551615\nsim-noise: 0.05\ntimeout: 10m\n",
		"conf/mine.yaml":  "jobs: [needle-16384]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	status, out, errs := caserun(t, "sweep", "conf/night.yaml", "--reps", "3", "--tag", "t2", "--format", "json")
	if status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	var table struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 4 || table.Rows[3]["mix"] != "mine" || table.Rows[3]["runs"] != 3.0 || table.Rows[3]["mode"] != "sim" {
		t.Errorf("rows %v", table.Rows)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Sweep(t.Context(), 1)
	if err != nil || w.Name != "night" || w.Tag != "t2" || w.Seed != 1<<64-1 || w.Repetitions != 3 || w.Node != "sim:2xV100" || w.CreatedAt != nil {
		t.Errorf("sweep %+v (%v)", w, err)
	}
	runs, err := s.Runs(t.Context(), store.Filter{Tag: "t2"})
	if err != nil || len(runs) != 12 {
		t.Fatalf("%d runs with the tag (%v), want 12 and no warm-up", len(runs), err)
	}
	all, err := s.Runs(t.Context(), store.Filter{Sweep: 1, Warmups: true})
	if err != nil || len(all) != 14 || !all[0].Warmup || !all[1].Warmup || all[2].Warmup {
		t.Errorf("%d runs (%v), want 14, two warm-ups first", len(all), err)
	}
}

// oneSweep runs a sweep and returns what it was planned from.
func oneSweep(t *testing.T, args ...string) results.Spec {
	t.Helper()
	if status, _, errs := caserun(t, append([]string{"sweep", "--node", "sim:1xV100", "--reps", "1", "--sim-noise", "0"}, args...)...); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Sweep(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := results.ReadSpec(w)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// planAgain plans sweep 1 once more, from another spec, and runs nothing of it.
func planAgain(t *testing.T, spec results.Spec) (id int64) {
	t.Helper()
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Sweep(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Cells(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	w.Spec = string(text)
	if id, err = s.CreateSweep(t.Context(), w, cells); err != nil {
		t.Fatal(err)
	}
	return id
}

// A sweep goes on as it was planned, or not at all.
func TestResumeKeepsThePlan(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("mine.yaml", []byte("jobs: [needle-16384]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	same := []string{"--mixes", "mine.yaml", "--scheds", "sa,cg", "--seed", "9007199254740993", "--timeout", "5m"}
	spec := oneSweep(t, same...)
	planAgain(t, spec)
	others := []struct {
		args []string
		says string
	}{
		{[]string{"--mixes", "W1"}, "--mixes"}, {[]string{"--scheds", "sa"}, "--scheds"},
		{[]string{"--warmups", "1"}, "--warmups"}, {[]string{"--name", "x"}, "--name"}, {[]string{"--seed", "9007199254740992"}, "--seed"},
		{[]string{"--node", "sim:4xV100"}, "--node"}, {[]string{"--sim-noise", "0.1"}, "--sim-noise"}, {[]string{"--tag", "t"}, "--tag"},
	}
	for says, args := range map[string][]string{
		"planned with no --tag, not --tag t:":                            {"--tag", "t"},
		"planned with --mixes mine.yaml, not --mixes W1,W2:":             {"--mixes", "W1,W2"},
		"planned with --scheds sa,cg, not --scheds sa,cg:workers=2:":     {"--scheds", "sa,cg:workers=2"},
		"planned with --no-mps=false, not --no-mps=true:":                {"--no-mps"},
		"planned with --seed 9007199254740993, not --seed 1: leave --se": {"--seed", "1"},
	} {
		if status, _, errs := caserun(t, append([]string{"sweep", "--resume", "2"}, args...)...); status != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("--resume with %s: exit %d, want %q: %s", args, status, says, errs)
		}
	}
	refuses := func(sweep string) {
		t.Helper()
		for _, c := range others {
			status, _, errs := caserun(t, append([]string{"sweep", "--resume", sweep}, c.args...)...)
			if status != exitUsage || !strings.Contains(errs, "leave "+c.says+" out") {
				t.Errorf("--resume %s with %s: exit %d: %s", sweep, c.args, status, errs)
			}
		}
	}
	refuses("2")
	status, plan, errs := caserun(t, "sweep", "--resume", "2", "--dry-run", "--format", "csv")
	if status != exitOK || strings.Count(plan, "\n") != 3 {
		t.Errorf("--dry-run: exit %d: %s\n%s", status, errs, plan)
	}
	// What the environment says now does not matter, nor do the same flags.
	t.Setenv("CASERUN_SEED", "4")
	if status, _, errs := caserun(t, append([]string{"sweep", "--resume", "2"}, same...)...); status != exitOK {
		t.Errorf("resumed with the same arguments: exit %d: %s", status, errs)
	}
	refuses("2") // complete too
	if status, _, errs := caserun(t, append([]string{"sweep", "--resume", "2"}, same...)...); status != exitOK || !strings.Contains(errs, "is complete") {
		t.Errorf("complete, with the same arguments: exit %d: %s", status, errs)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Runs(t.Context(), store.Filter{Sweep: 1})
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Runs(t.Context(), store.Filter{Sweep: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		first[i].ID, first[i].Sweep, second[i].ID, second[i].Sweep = 0, nil, 0, nil
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the resumed sweep's runs differ (-first +second):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("mine.yaml", []byte("jobs: [needle-32768]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	planAgain(t, spec)
	if status, _, errs := caserun(t, "sweep", "--resume"); status != exitUsage || !strings.Contains(errs, "mine.yaml") || !strings.Contains(errs, "bring it back") {
		t.Errorf("resumed with another mix: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "sweep", "--resume", "77"); status != exitUsage || !strings.Contains(errs, "sweep 77") {
		t.Errorf("resumed a sweep that is not there: exit %d: %s", status, errs)
	}
}

// What is in effect for a sweep that is resumed is what was recorded.
func TestConfigurationOfAResumedSweep(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "sweep", "--resume", "--show-config"); status != exitInfrastructure {
		t.Errorf("without a store: exit %d: %s", status, errs)
	}
	if _, err := os.Stat("caserun.db"); err == nil {
		t.Error("--show-config made a store")
	}
	spec := oneSweep(t, "--mixes", "W1", "--scheds", "cg:workers=2", "--name", "mine", "--seed", "9007199254740993")
	planAgain(t, spec)
	t.Setenv("CASERUN_SEED", "4")
	for _, number := range []string{"1", "2"} { // one that is complete, one that is not
		status, out, errs := caserun(t, "sweep", "--resume", number, "--show-config")
		if status != exitOK {
			t.Fatalf("sweep %s: exit %d: %s", number, status, errs)
		}
		for _, lines := range []string{"name: mine\nmixes:\n- W1\nscheds:\n- cg:workers=2\nreps: 1\nwarmups: 0\ndb: caserun.db\nformat: table\n# html:\nnode: sim:1xV100", "seed: 9007199254740993\nsim-noise: 0.0"} {
			if !strings.Contains(out, lines+"\n") {
				t.Errorf("sweep %s: no %q in\n%s", number, lines, out)
			}
		}
		if strings.Contains(out, "sched:") || strings.Contains(out, "isolate-faults:") {
			t.Errorf("sweep %s: settings that a sweep does not have:\n%s", number, out)
		}
	}
	for says, args := range map[string][]string{"sweep 77": {"77"}, "leave --reps out": {"2", "--reps", "9"}} {
		status, out, errs := caserun(t, append([]string{"sweep", "--show-config", "--resume"}, args...)...)
		if status != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("--resume %v: exit %d, want %d and %q: %s\n%s", args, status, exitUsage, says, errs, out)
		}
	}
}

func TestResumeNotesAnotherProgram(t *testing.T) {
	inTempDir(t)
	spec := oneSweep(t, "--mixes", "W1", "--scheds", "sa")
	spec.Program.Revision, spec.Program.SHA256 = "0ld", strings.Repeat("ab", 32)
	planAgain(t, spec)
	status, out, errs := caserun(t, "sweep", "--resume", "2")
	if status != exitOK || !strings.Contains(errs, "revision 0ld, sha256 abababababab") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if !strings.Contains(out, "resumed at run 1 of 1 by caserun") {
		t.Errorf("the table does not say that the program changed:\n%s", out)
	}
}

// A sweep that another process works on is left alone, unless its user knows
// better.
func TestResumeOfABusySweep(t *testing.T) {
	inTempDir(t)
	planAgain(t, oneSweep(t, "--mixes", "W1", "--scheds", "sa"))
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ClaimSweep(t.Context(), 2, "elsewhere", 7, ""); err != nil {
		t.Fatal(err)
	}
	cells, err := s.Cells(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := s.BeginCell(t.Context(), cells[0], 0, results.Run{Mix: "W1", Scheduler: "sa", Node: "sim:1xV100", Mode: results.Simulated,
		Provenance: results.Provenance{Host: "elsewhere", PID: new(7)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	status, _, errs := caserun(t, "sweep", "--resume")
	if status != exitUsage || !strings.Contains(errs, "sweep 2 is run by process 7 of host elsewhere: wait for it") || !strings.Contains(errs, "--force") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "sweep", "--resume", "--force", "--seed", "9"); status != exitUsage {
		t.Errorf("--force with other settings: exit %d: %s", status, errs)
	}
	if s, err = store.Open("caserun.db"); err != nil {
		t.Fatal(err)
	}
	// So it ends, too, where the other was faster by the time that it takes to start.
	err = (&sweep.Call{ID: 2, Store: s}).Run(t.Context(), "")
	if statusOf(workError{err}) != exitUsage || errs != fmt.Sprintf("caserun: %v\n", err) {
		t.Errorf("a sweep that was claimed meanwhile: exit %d: %v; want 2, and %s", statusOf(workError{err}), err, errs)
	}
	if run, err := s.Run(t.Context(), lost); err != nil || run.Status != results.Running {
		t.Errorf("the run of the other is %s (%v) after all that was refused", run.Status, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "sweep", "--resume", "--force"); status != exitOK {
		t.Errorf("--force: exit %d: %s", status, errs)
	}
	if s, err = store.OpenReadOnly("caserun.db"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if run, err := s.Run(t.Context(), lost); err != nil || run.Status != results.Interrupted {
		t.Errorf("the run that was lost is %s (%v), want interrupted", run.Status, err)
	}
}

// run.workers is the limit on jobs of task-bound schedulers; cg has its own.
func TestWorkersOfRuns(t *testing.T) {
	inTempDir(t)
	oneSweep(t, "--mixes", "W1", "--scheds", "sa,cg:workers=8,case-alg3", "--workers", "3")
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for scheduler, want := range map[string]struct {
		workers    int
		parameters string
	}{"sa": {0, ""}, "cg": {0, "workers=8"}, "case-alg3": {3, ""}} {
		run, err := s.Latest(t.Context(), store.Filter{Scheduler: scheduler})
		if err != nil || run.Workers != want.workers || !strings.Contains(run.Parameters, want.parameters) {
			t.Errorf("%s: %d workers and parameters %s (%v), want %+v", scheduler, run.Workers, run.Parameters, err, want)
		}
	}
}

func TestMixHasATag(t *testing.T) {
	inTempDir(t)
	t.Setenv("CASERUN_TAG", "from-env")
	for _, args := range [][]string{{"--tag", "night"}, nil} {
		if status, _, errs := caserun(t, append([]string{"mix", "W1", "--node", "sim:4xV100"}, args...)...); status != exitOK {
			t.Fatalf("exit %d: %s", status, errs)
		}
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, tag := range []string{"night", "from-env"} {
		if run, err := s.Latest(t.Context(), store.Filter{Tag: tag}); err != nil || run.ID != int64(i+1) {
			t.Errorf("tag %s finds run %d (%v), want %d", tag, run.ID, err, i+1)
		}
	}
}

func TestSweepsThatMeasureNothing(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("big.yaml", []byte("jobs:\n  - {job: needle-32768, memory: 64GiB}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, errs := caserun(t, "sweep", "--mixes", "big.yaml", "--scheds", "case-alg3", "--node", "sim:1xV100")
	if status != exitNothing || !strings.Contains(errs, "nothing was measured") {
		t.Errorf("exit %d, want %d: %s\n%s", status, exitNothing, errs, out)
	}
}

func TestSweepIsListedAndShown(t *testing.T) {
	inTempDir(t)
	spec := oneSweep(t, "--mixes", "W1", "--scheds", "cg,sa", "--name", "mine")
	planAgain(t, spec)
	_, list, _ := caserun(t, "sweep", "list", "--format", "csv")
	for _, want := range []string{"1,mine,,,sim:1xV100,sim,complete,2,2,", "2,mine,,,sim:1xV100,sim,planned,0,2,"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	status, shown, errs := caserun(t, "sweep", "show", "1")
	_, complete, _ := caserun(t, "sweep", "--resume", "1")
	if status != exitOK || shown != complete || !strings.Contains(shown, "SIMULATED") || !strings.Contains(shown, "(mine)") {
		t.Errorf("show: exit %d: %s\n%s", status, errs, shown)
	}
	if cg, sa := strings.Index(shown, "cg"), strings.Index(shown, "sa "); cg < 0 || sa < cg {
		t.Errorf("the arms are not in the order of --scheds:\n%s", shown)
	}
	if _, shown, _ = caserun(t, "sweep", "show"); !strings.Contains(shown, fmt.Sprintf("--resume %d", 2)) {
		t.Errorf("a sweep that is not complete does not say how to go on:\n%s", shown)
	}
}

// What YAML can say in other ways is what it says.
func TestSweepFilesOfEveryShape(t *testing.T) {
	for name, text := range map[string]string{
		"directive":    "%YAML 1.2\n---\nmixes: [W1]\nscheds: [sa]\n",
		"anchors":      "mixes: &m [W1]\nscheds: [&s sa]\nname: &n x\n",
		"tags":         "mixes: !!seq [W1]\nscheds: [!!str sa]\nname: !!str 5\n",
		"explicit key": "? mixes\n: [W1]\n? scheds\n: - sa\n",
		"blocks":       "mixes:\n  - W1 # one\nscheds:\n  - 'sa'\nname: >-\n  some\n  text\n",
		"a mark":       "\ufeff{mixes: [W1], scheds: [\"sa\"]}",
	} {
		t.Run(name, func(t *testing.T) {
			inTempDir(t)
			if err := os.WriteFile("f.yaml", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			spec := oneSweep(t, "f.yaml")
			if len(spec.Mixes) != 1 || spec.Mixes[0].Name != "W1" || len(spec.Scheds) != 1 || spec.Scheds[0] != "sa" {
				t.Errorf("%+v", spec)
			}
		})
	}
	inTempDir(t)
	if err := os.WriteFile("f.yaml", []byte("mixes: [W1]\nscheds: [sa]\nname: &n x\ntag: *n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "sweep", "f.yaml"); status != exitUsage || !strings.Contains(errs, "f.yaml:4:6: tag: aliases are not read") {
		t.Errorf("an alias: exit %d: %s", status, errs)
	}
}

// The help of sweep show explains each column of its table.
func TestSweepColumnsAreExplained(t *testing.T) {
	_, help, _ := caserun(t, "sweep", "show", "--help")
	explained := regexp.MustCompile(`(?m)^  ([a-z]+(?:,? [a-z]+)*) {2,}\S`).FindAllStringSubmatch(help, -1)
	var names []string
	for _, e := range explained {
		names = append(names, strings.Split(e[1], ", ")...)
	}
	columns := 0
	for _, c := range report.SweepArms(results.Sweep{}, nil, nil, nil, "", "", "").Columns {
		heading := c.Heading
		if heading == "" {
			heading = c.Name
		}
		if columns++; c.Place != report.DataOnly && !slices.Contains(names, heading) {
			t.Errorf("column %s is not explained: %q", heading, names)
		}
	}
	if columns < 10 {
		t.Errorf("%d columns", columns)
	}
}
