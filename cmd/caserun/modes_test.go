package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// storeLive stores complete live runs of W1 under sa with a tag, as a machine with a GPU makes them.
func storeLive(t *testing.T, tag string, n int) {
	t.Helper()
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		run := results.Run{Mix: "W1", MixSource: "catalog", Scheduler: "sa", Node: "local", Mode: results.Live, Suite: "builtin", StartedAt: new(time.Now()),
			Jobs: 16, Tag: tag, Provenance: results.Provenance{Binaries: "{}", Configuration: "{}"}}
		if run.ID, err = s.BeginRun(t.Context(), run, []results.Device{{UUID: "GPU-1", Name: "H200"}}); err != nil {
			t.Fatal(err)
		}
		makespan := 60 + 0.1*float64(i)
		run.Status, run.Metrics = results.Complete, results.Metrics{OK: 16, MakespanS: &makespan, ThroughputJobsPerS: new(16 / makespan), TurnaroundMeanS: new(makespan / 2)}
		if err := s.Writer(run.ID).Finish(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A night that was simulated, because the driver had died, is not taken for one that was measured:
// its runs are not stored beside live ones, and a gate does not compare them.
func TestLiveAndSimulatedAreKeptApart(t *testing.T) {
	inTempDir(t)
	t.Setenv("CUDA_VISIBLE_DEVICES", "") // no GPU here
	storeLive(t, "v1", 7)
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "night")
	sweep := []string{"sweep", "--mixes", "W1", "--scheds", "sa", "--reps", "1", "--tag"}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{append(slices.Clone(sweep), "v1"), exitUsage, "tag v1: it has live runs, and the next are SIMULATED: give another --tag, or add --allow-simulated"},
		{[]string{"mix", "W1", "--tag", "v1"}, exitUsage, "tag v1: it has live runs, and the next are SIMULATED"},
		{[]string{"regress", "--baseline", "v1", "--candidate", "night"}, exitUsage, "live and SIMULATED runs are not compared with each other: v1 has 7 live and 0 SIMULATED, night has 0 live and 7 SIMULATED"},
		{[]string{"compare", "v1", "night"}, exitUsage, "add --allow-simulated"},
		{[]string{"compare", "v1", "night", "--allow-simulated"}, exitOK, "SIMULATED figures are compared with measured ones"},
		{append(slices.Clone(sweep), "v1", "--allow-simulated"), exitOK, "SIMULATED sweep 2"},
		{[]string{"regress", "--baseline", "v1", "--candidate", "night"}, exitUsage, "v1 has 7 live and 1 SIMULATED"},
		{append(slices.Clone(sweep), "night"), exitOK, "SIMULATED sweep 3"},
	} {
		status, out, errs := caserun(t, c.args...)
		if status != c.status || !strings.Contains(out+errs, c.says) {
			t.Errorf("caserun %v: exit %d, want %d and %q:\n%s%s", c.args, status, c.status, c.says, out, errs)
		}
	}
	db, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if runs, err := db.Runs(t.Context(), store.Filter{}); err != nil || len(runs) != 7+7+1+1 {
		t.Errorf("%d runs, %v: a refused sweep leaves none", len(runs), err)
	}
}

// Who asks for live runs gets them or status 3, wherever the request is from.
func TestRequireLive(t *testing.T) {
	inTempDir(t)
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	if err := os.WriteFile("night.yaml", []byte("mixes: [W1]\nscheds: [sa]\nrequire-live: true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, env string
		status    int
		says      string
	}{
		{"mix W1 --require-live", "", exitInfrastructure, "no NVIDIA GPU"},
		{"sweep --mixes W1 --scheds sa --require-live", "", exitInfrastructure, "no NVIDIA GPU"},
		{"sweep night.yaml", "", exitInfrastructure, "no NVIDIA GPU"},
		{"sweep --mixes W1 --scheds sa", "true", exitInfrastructure, "no NVIDIA GPU"},
		{"paper --run --require-live", "", exitInfrastructure, "no NVIDIA GPU"},
		{"sweep --mixes W1 --scheds sa --dry-run --require-live", "", exitInfrastructure, "no NVIDIA GPU"},
		{"mix W1 --require-live --node sim:2xP100", "", exitUsage, "require-live cannot be combined with node sim:2xP100, which is simulated"},
		{"mix W1 --require-live --node cloud", "", exitUsage, `node "cloud": use local`},
		{"sweep --mixes W1 --scheds sa --node sim:2xP100 --reps 1", "", exitOK, "SIMULATED sweep 1"},
		{"sweep --resume 1 --require-live", "", exitUsage, "resume sweep 1: it is SIMULATED, on sim:2xP100"},
	} {
		t.Setenv("CASERUN_REQUIRE_LIVE", c.env)
		status, out, errs := caserun(t, strings.Fields(c.line)...)
		if status != c.status || !strings.Contains(out+errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d and %q:\n%s%s", c.line, status, c.status, c.says, out, errs)
		}
	}
}

// blockBehind is the first fenced block of a document behind a text.
func blockBehind(t *testing.T, document, text string) string {
	t.Helper()
	_, rest, found := strings.Cut(document, text)
	_, rest, begins := strings.Cut(rest, "\n```")
	_, rest, _ = strings.Cut(rest, "\n")
	block, _, ends := strings.Cut(rest, "\n```")
	if !found || !begins || !ends {
		t.Fatalf("the document has no block behind %q", text)
	}
	return block + "\n"
}

// The files of docs/guide/nightly.md do what the document says: on a machine whose driver has died the
// night ends with 3 and stores nothing, and on one that can measure it ends with the gate's status.
func TestNightlyFilesOfTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/nightly.md")
	if err != nil {
		t.Fatal(err)
	}
	sweep, script := blockBehind(t, string(text), "`/srv/bench/nightly.yaml`"), blockBehind(t, string(text), "`/srv/bench/nightly.sh`")
	for _, c := range []struct {
		name, sweep string
		status      int
		nights      int // complete runs that are not the baseline's
	}{
		{"no driver", sweep, exitInfrastructure, 0},
		{"simulated baseline and night", strings.NewReplacer("node: local", "node: sim:4xV100\nsim-noise: 0.01\nseed: 2", "mem-cap: 16GiB\n", "").Replace(sweep), exitOK, 112},
	} {
		s := newShell(t)
		t.Chdir(s.dir)
		for name, content := range map[string]string{"nightly.yaml": c.sweep, "nightly.sh": script, "baseline": "v1\n"} {
			if err := s.write(name, content); err != nil {
				t.Fatal(err)
			}
		}
		if c.status == exitOK {
			if _, errs, status := s.run("caserun sweep nightly.yaml --seed 1 --tag v1", 0); status != exitOK {
				t.Fatal(errs)
			}
		} else {
			storeLive(t, "v1", 7)
		}
		if out, errs, status := s.run("bash nightly.sh", 0); status != c.status {
			t.Errorf("%s: exit %d, want %d: %s%s", c.name, status, c.status, out, errs)
		}
		db, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		runs, err := db.Runs(t.Context(), store.Filter{})
		nights := slices.DeleteFunc(runs, func(r results.Run) bool { return r.Tag == "v1" })
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil || len(nights) != c.nights {
			t.Errorf("%s: %d runs of the night, want %d, %v", c.name, len(nights), c.nights, err)
		}
	}
	for _, needs := range []string{"uses: actions/checkout@v4\n      - run: caserun sweep nightly.yaml", "node: local\n"} {
		if !strings.Contains(string(text), needs) {
			t.Errorf("docs/guide/nightly.md lacks %q", needs)
		}
	}
}

// Every output of noise-free runs says that they are one sample, and none has a verdict or an
// interval of them.
func TestNoNoiseIsSaidEverywhere(t *testing.T) {
	inTempDir(t)
	for range 2 {
		if status, _, errs := caserun(t, "sweep", "--mixes", "W1", "--node", "sim:2xP100", "--scheds", "sa,case-alg3", "--reps", "7", "--sim-noise", "0", "--tag", "still"); status != exitOK {
			t.Fatal(errs)
		}
	}
	for _, c := range []struct {
		line   string
		status int
		lacks  string
	}{
		{"compare sweep:1/sa sweep:1/case-alg3", exitOK, " better "},
		{"regress --baseline sweep:1 --candidate sweep:2", exitNothing, "all 6 checks"},
		{"sweep show 1", exitOK, "0.1481 jobs/s  0.1481"}, // bounds behind the median
		{"report --html page.html", exitOK, "▲ better"},
		{"export --benchfmt bench.txt", exitOK, "repetition"},
	} {
		status, out, errs := caserun(t, strings.Fields(c.line)...)
		for _, file := range []string{"page.html", "bench.txt"} {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(c.line, file) {
				out += string(text)
			}
		}
		if status != c.status || !strings.Contains(strings.Join(strings.Fields(out), " "), results.NoNoise) {
			t.Errorf("caserun %s: exit %d: %.2000s%s", c.line, status, out, errs)
		}
		if strings.Contains(out, c.lacks) || strings.Contains(c.line, "benchfmt") && strings.Count(out, "\nBenchmark") != 2 {
			t.Errorf("caserun %s has %q: %.2000s", c.line, c.lacks, out)
		}
	}
}
