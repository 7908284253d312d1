package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// What a store shows goes through a file into the next run's options.
func TestHistory(t *testing.T) {
	inTempDir(t)
	if status, out, errs := caserun(t, "history"); status != exitInfrastructure || !strings.Contains(errs, "caserun mix and caserun sweep make a store") {
		t.Errorf("without a store: exit %d, %s%s", status, out, errs)
	}
	status, out, errs := caserun(t, "history", "W1", "--node", "sim:1xV100")
	if status != exitOK || !strings.Contains(out, "SIMULATED what is known of the jobs of W1 on sim:1xV100") || !strings.Contains(out, "profile") || !strings.Contains(errs, "no store") {
		t.Errorf("profiles alone: exit %d, %s%s", status, out, errs)
	}
	for _, mix := range []string{"W1", "W2"} {
		if status, _, errs := caserun(t, "mix", mix, "--node", "sim:2xV100"); status != exitOK {
			t.Fatalf("exit %d: %s", status, errs)
		}
	}
	rows := func(args ...string) [][]string {
		t.Helper()
		status, out, errs := caserun(t, append([]string{"history", "--format", "csv"}, args...)...)
		if status != exitOK {
			t.Fatalf("history %v: exit %d: %s", args, status, errs)
		}
		var all [][]string
		for line := range strings.Lines(out) {
			all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), ","))
		}
		return all
	}
	column := func(table [][]string, name string) map[string]bool {
		values := map[string]bool{}
		for i, n := range table[0] {
			for _, row := range table[1:] {
				if n == name {
					values[row[i]] = true
				}
			}
		}
		return values
	}
	all := rows()
	if diff := cmp.Diff(map[string]bool{"1 run": true, "2 runs": true}, column(all, "source")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"sim": true}, column(all, "mode")); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"--except W1,W2", "--except W1 --except W2"} {
		if none := rows(strings.Fields(line)...); len(none) != 1 {
			t.Errorf("%s leaves %v", line, none[1:])
		}
	}
	if status, out, errs := caserun(t, "history", "--except", "w2", "-o", "-"); status != exitOK || !strings.Contains(out, "2 runs") ||
		!strings.Contains(errs, "--except w2 leaves out nothing: caserun.db has no run of a mix with that name") {
		t.Errorf("a mix that has no run: exit %d, %s%s", status, out, errs)
	}
	if one := column(rows("--before", "2"), "source"); len(one) != 1 || !one["1 run"] {
		t.Errorf("before run 2 the sources are %v", one)
	}
	if diff := cmp.Diff(rows("--before", "2"), rows("--except", "W2")); diff != "" {
		t.Error(diff)
	}
	if status, _, errs := caserun(t, "history", "-o", "known.csv"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	before, err := os.ReadFile("known.csv")
	if err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "history", "-o", "known.csv"); status != exitUsage || !strings.Contains(errs, "known.csv: file already exists") {
		t.Errorf("a file was replaced: exit %d: %s", status, errs)
	}
	if sources := column(rows("W2", "--node", "sim:4xV100", "--history", "known.csv"), "source"); len(sources) != 1 || !sources["file"] {
		t.Errorf("with the file the sources are %v", sources)
	}
	// Another model of GPU has the file's figures no more than the runs'.
	if sources := column(rows("W2", "--node", "sim:4xP100", "--history", "known.csv"), "source"); len(sources) != 1 || !sources["profile"] {
		t.Errorf("on another GPU the sources are %v", sources)
	}
	if status, out, errs := caserun(t, "mix", "W1", "--node", "sim:2xV100", "--history", "known.csv", "--show-config"); status != exitOK || !strings.Contains(out, "history: known.csv") {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	after, err := os.ReadFile("known.csv")
	if err != nil || string(after) != string(before) {
		t.Errorf("the file has changed (%v)", err)
	}
}

func TestHistoryRefuses(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("bad.csv", []byte("command,gpu,before_s,held_s,after_s,bytes,kernels,sms,source,runs,jobs\na,,x,1,1,,,,,,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:1xV100"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	for args, want := range map[string]string{
		"history --history bad.csv":                       `bad.csv:2: before_s is "x": want seconds`,
		"mix W1 --node sim:1xV100 --history bad.csv":      `bad.csv:2: before_s is "x"`,
		"sweep --mixes W1 --scheds sa --history bad.csv":  `bad.csv:2: before_s is "x"`,
		"mix W1 --node sim:1xV100 --history none.csv":     "none.csv",
		"history --node sim:1xV100":                       "are for a mix",
		"history W1 W2":                                   `"W2" is one argument too many`,
		"history --before -1":                             "--before -1",
		"history -o x.csv --format json":                  "--out cannot be combined with --format: it is a CSV file",
		"history W1 --node sim:1xV100,sim:2xV100":         "want one node",
		"history W1 --node sim:1xV100 --profiles bad.csv": "bad.csv:1: want the header job,command",
		"history --profiles bad.csv":                      "bad.csv:1: want the header job,command",
		"history nosuchmix":                               "nosuchmix",
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, want %d and %q: %s%s", args, status, exitUsage, want, out, errs)
		}
	}
	if status, _, errs := caserun(t, "history", "--except", "W1", "-o", "none.csv"); status != exitNothing || !strings.Contains(errs, "nothing is known") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if _, err := os.Stat("none.csv"); err == nil {
		t.Error("a file without a line was written")
	}
}

// A simulated sweep gives the same runs in any store, also under a scheduler that plans.
func TestASimulatedSweepKnowsNoOtherRuns(t *testing.T) {
	inTempDir(t)
	run := func(args string) string {
		t.Helper()
		status, out, errs := caserun(t, strings.Fields(args)...)
		if status != exitOK {
			t.Fatalf("%s: exit %d: %s", args, status, errs)
		}
		return out
	}
	run("mix W2 --node sim:2xV100 --sim-noise 0.3 --db used.db")
	const sweep = "sweep --mixes W2 --scheds plan:search=200 --node sim:2xV100 --reps 1 --format csv --db "
	if fresh, used := run(sweep+"fresh.db"), run(sweep+"used.db"); fresh != used {
		t.Errorf("in a store with another run, the sweep is\n%s, and in one without\n%s", used, fresh)
	}
	const predictions = "report latest -v --format json --db "
	fresh, used := run(predictions+"fresh.db"), run(predictions+"used.db")
	if !strings.Contains(fresh, `"profile"`) || strings.Contains(used, ` run"`) {
		t.Errorf("the sweep knows something of other runs:\n%s", used)
	}
	if run("mix W2 --sched plan:search=200 --node sim:2xV100 --db used.db"); !strings.Contains(run(predictions+"used.db"), `"2 runs"`) {
		t.Error("a run of its own knows nothing of other runs")
	}
}

// report -v shows what a run's scheduler was told, and exports have it.
// A history file that knows no job of a mix is named once for the mix, and not for each run.
func TestASweepSaysOnceThatAHistoryHelpsNobody(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("other.csv", []byte("command,gpu,before_s,held_s,after_s,bytes,kernels,sms,source,runs,jobs\n./a,L40,1,1,1,,,,,,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, errs := caserun(t, strings.Fields("sweep --mixes W1,W2 --scheds plan:search=20 --node sim:4xV100 --sim-noise 0.1 --reps 3 --history other.csv")...)
	if status != exitOK || strings.Count(errs, "other.csv says nothing of the jobs of W1") != 1 || strings.Count(errs, "other.csv says nothing of the jobs of W2") != 1 {
		t.Errorf("exit %d, want 0 and a line for each mix:\n%s", status, errs)
	}
}

func TestPredictionsOfARun(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:1xV100"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	if _, out, _ := caserun(t, "report", "1", "-v"); strings.Contains(out, "predictions of run") {
		t.Error("a run without predictions shows some")
	}
	db, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	db.Writer(1).Prediction(results.Prediction{Job: 1, Expected: results.Expected{BeforeS: 1.5, HeldS: 20, AfterS: 0.25, Bytes: 3 << 30, Kernels: new(0.5), Source: "14 runs"}})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, out, _ := caserun(t, "report", "1", "-v")
	_, table, _ := strings.Cut(out, "SIMULATED predictions of run 1: W1 under case-alg3 on sim:1xV100")
	for _, want := range []string{"1.50 s", "20.00 s", "250 ms", "3 GiB", "50.0 %", "14 runs"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	if status, _, errs := caserun(t, "export", "--csv", "tables"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	text, err := os.ReadFile("tables/prediction.csv")
	if want := "run_id,mode,job_index,before_s,held_s,after_s,bytes,kernels,sms,source\n1,sim,1,1.5,20,0.25,3221225472,0.5,,14 runs\n"; err != nil || string(text) != want {
		t.Errorf("%s (%v), want %s", text, err, want)
	}
}
