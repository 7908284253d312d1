package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/remote"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// mainEnv makes the test binary the program.
const mainEnv = "CASERUN_TEST_MAIN"

const gcPercent = 400

// The test binary is also the guard that live runs start.
func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" || (len(os.Args) == 2 && (os.Args[1] == live.GuardCommand || os.Args[1] == remote.Command)) {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// Memory is cheap here: the collector would take a sixth of the time, in this process and in those that it starts.
	debug.SetGCPercent(gcPercent)
	os.Setenv("GOGC", strconv.Itoa(gcPercent))
	// A guard built with the race detector would otherwise take a second to exit.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	if signal.Ignored(syscall.SIGHUP) { // by nohup: programs that the tests start would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}

// caserun runs the program in a directory of its own.
func caserun(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func inTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	return dir
}

func TestMixIsStoredAndReportedAgain(t *testing.T) {
	dir := inTempDir(t)
	status, summary, errs := caserun(t, "mix", "W7", "--sched", "case-alg3", "--node", "sim:4xV100")
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs)
	}
	if !strings.Contains(summary, "SIMULATED") {
		t.Errorf("a simulated run must say so:\n%s", summary)
	}
	if !strings.Contains(summary, filepath.Join(dir, "caserun.db")) {
		t.Errorf("the summary must name the store:\n%s", summary)
	}
	status, again, errs := caserun(t, "report", "latest")
	if status != exitOK || again != summary {
		t.Errorf("report latest: exit %d %s\n%s", status, errs, cmp.Diff(summary, again))
	}
	for _, format := range []string{"csv", "json", "markdown"} {
		status, text, errs := caserun(t, "report", "1", "--format", format)
		if status != exitOK || !strings.Contains(text, "sim") {
			t.Errorf("--format %s: exit %d %s\n%s", format, status, errs, text)
		}
	}
}

func TestSameSeedSameStore(t *testing.T) {
	export := func() map[string]string {
		dir := inTempDir(t)
		for _, sched := range []string{"case-alg3", "cg", "sa"} {
			if status, _, errs := caserun(t, "mix", "W3", "--sched", sched, "--node", "sim:2xP100", "--seed", "9", "--sim-noise", "0.05"); status > exitJobsFailed {
				t.Fatalf("%s: exit status %d: %s", sched, status, errs)
			}
		}
		if status, _, errs := caserun(t, "export", "--csv", "out"); status != exitOK {
			t.Fatalf("export: exit status %d: %s", status, errs)
		}
		files, err := filepath.Glob(filepath.Join(dir, "out", "*.csv"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files exported: %v", err)
		}
		out := map[string]string{}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.Base(f)] = string(text)
		}
		return out
	}
	if diff := cmp.Diff(export(), export()); diff != "" {
		t.Errorf("the same seed gave another store:\n%s", diff)
	}
}

func TestExitStatuses(t *testing.T) {
	inTempDir(t)
	write := func(name, text string) string {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	bad := write("bad.yaml", "name: x\njobs:\n  - {job: needle-32768, memroy: 4GiB}\n")
	foreign := write("foreign.wl", "/opt/rodinia/needle 16384 10\n/opt/rodinia/gaussian -s 16\n")
	own := write("own.yaml", "name: own\njobs:\n  - {program: ./a.out, memory: 1GiB}\n")
	conf := write("conf.yaml", "shed: sa\n")
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"mix", "W7", "--node", "sim:4xV100", "--sched", "cg", "--workers", "12"}, exitJobsFailed, "did not end ok"},
		{[]string{"mix", "W9"}, exitUsage, "W9"},
		{[]string{"mix", bad}, exitUsage, "bad.yaml:3"},
		{[]string{"mix", foreign}, exitUsage, "foreign.wl:2"},
		{[]string{"mix", "missing.yaml"}, exitUsage, "missing.yaml"},
		{[]string{"mix", own, "--node", "sim:4xV100"}, exitUsage, "no profile"},
		{[]string{"mix", "W7", "--sched", "fifo"}, exitUsage, "case-alg3"},
		{[]string{"mix", "W7", "--sched", "case-alg3:queue=lifo", "--node", "sim:1xV100"}, exitUsage, "largest-first"},
		{[]string{"mix", "W7", "--node", "sim:4xK80"}, exitUsage, "V100"},
		{[]string{"mix", "W7", "--node", "cloud"}, exitUsage, "sim:"},
		{[]string{"mix", "W7", "--format", "xml"}, exitUsage, "csv, tsv, json or md"},
		{[]string{"mix", "W7", "--config", conf}, exitUsage, "shed"},
		{[]string{"mix"}, exitUsage, "MIX is missing: caserun mix MIX"},
		{[]string{"mix", "W1", "--shced", "sa"}, exitUsage, "unknown flag: --shced: did you mean --sched?"},
		{[]string{"mix", "W1", "W2"}, exitUsage, `"W2" is one argument too many`},
		{[]string{"report", "--db", "nowhere.db"}, exitInfrastructure, "caserun mix and caserun sweep make a store"},
		{[]string{"nonsense"}, exitUsage, "nonsense"},
		{[]string{"--show-config"}, exitUsage, "caserun mix --show-config"},
		{[]string{"report", "--db", "none.db"}, exitInfrastructure, "none.db"},
		{[]string{"report", "99"}, exitUsage, "99"},
		{[]string{"mix", "W7", "--node", "sim:1xV100", "--db", "typo/dir/x.db"}, exitUsage, "the directory typo/dir does not exist: make it, or name another"},
		{[]string{"mix", "W7", "--node", "sim:1xV100", "--db", "/proc/x.db"}, exitInfrastructure, "/proc/x.db"},
		{[]string{"mixes", "gen", "--jobs", "16", "--ratio", "0:0"}, exitUsage, "0:0"},
	} {
		status, _, errs := caserun(t, c.args...)
		if status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d; stderr must contain %q:\n%s", strings.Join(c.args, " "), status, c.status, c.says, errs)
		}
	}
}

// Programs read one JSON value, however many tables it has.
func TestSeveralTablesAreOneJSONArray(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa")
	for _, c := range []struct {
		args   []string
		tables int
	}{
		{[]string{"report", "1", "-v"}, 6}, {[]string{"report", "1", "1"}, 2}, {[]string{"schedulers", "case-alg3"}, 2}, {[]string{"mix", "W1", "--node", "sim:4xV100", "-v"}, 3}, {[]string{"paper"}, 14},
	} {
		_, out, errs := caserun(t, append(c.args, "--format", "json")...)
		var tables []struct {
			Title string
			Rows  []map[string]any
		}
		if err := json.Unmarshal([]byte(out), &tables); err != nil || len(tables) != c.tables || tables[0].Title == "" || len(tables[0].Rows) == 0 {
			t.Errorf("%v: %v, %d tables, want %d: %s", c.args, err, len(tables), c.tables, errs)
		}
	}
}

// An empty list is no answer to a filter: a typo may have made it.
func TestReportSaysThatNothingMatches(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--db", "full.db")
	s, err := store.Open("empty.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{"full.db"}, exitOK},
		{[]string{"full.db", "--mix", "W1"}, exitOK},
		{[]string{"full.db", "--mix", "W2"}, exitNothing},
		{[]string{"full.db", "--tag", "typo", "--last", "1"}, exitNothing},
		{[]string{"empty.db"}, exitOK},
		{[]string{"empty.db", "--last", "1"}, exitOK},
		{[]string{"empty.db", "--sched", "sa"}, exitNothing},
	} {
		status, out, errs := caserun(t, append([]string{"report", "--format", "csv", "--db"}, c.args...)...)
		if status != c.status {
			t.Errorf("report --db %v: exit %d, want %d: %s", c.args, status, c.status, errs)
		}
		if status == exitNothing && (out != "" || !strings.Contains(errs, "report: no runs match in ") || !strings.Contains(errs, "caserun report --db "+c.args[0]+" lists what there is")) {
			t.Errorf("report --db %v: stdout %q, stderr %q", c.args, out, errs)
		}
	}
}

// What cannot run leaves no store behind.
func TestWhatIsRefusedMakesNoStore(t *testing.T) {
	inTempDir(t)
	for _, args := range [][]string{{"mix", "W1", "--sched", "nope", "--node", "sim:4xV100"}, {"mix", "W1", "--node", "sim:0xV100"}} {
		if status, _, errs := caserun(t, args...); status != exitUsage || strings.Contains(errs, "SIMULATED") {
			t.Errorf("%v: exit %d: %s", args, status, errs)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v %v", files, err)
	}
}

// A long file stops where the program is to stop, and is not left half written.
func TestWritingStops(t *testing.T) {
	inTempDir(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(signalError{os.Interrupt})
	var out, errs bytes.Buffer
	status := run(ctx, []string{"data", "graph", "--nodes", "100000", "-o", "graph.txt"}, strings.NewReader(""), &out, &errs)
	if _, err := os.Stat("graph.txt"); status != exitInterrupted || err == nil {
		t.Errorf("exit %d, %v: %s", status, err, errs.String())
	}
}

// A search for a plan that would take hours stops where the program is to stop.
func TestPlanningStops(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"many.yaml": "jobs:\n  - {job: needle-16384, count: 300}\n"})
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		awaitJobs(t.Context(), "caserun.db") // which are stored before they are planned
		cancel(signalError{os.Interrupt})
	}()
	var out, errs bytes.Buffer
	status := run(ctx, []string{"mix", "many.yaml", "--node", "sim:2xV100", "--sched", "plan:search=1000000,window=256"}, strings.NewReader(""), &out, &errs)
	if status != exitInterrupted {
		t.Errorf("exit %d: %s", status, errs.String())
	}
}

// awaitJobs waits until a store has jobs of run 1.
func awaitJobs(ctx context.Context, path string) {
	for ctx.Err() == nil {
		if s, err := store.OpenReadOnly(path); err == nil { // it may not be there yet
			jobs, _ := s.Jobs(ctx, 1)
			_ = s.Close()
			if len(jobs) > 0 {
				return
			}
		}
	}
}

// someProcesses returns the name of this host, and the numbers of a process of it
// that has ended and of one that lasts as long as the test.
func someProcesses(t *testing.T) (host string, gone, there int) {
	t.Helper()
	ended, lasting := exec.Command("true"), exec.Command("sleep", "1000")
	if err := errors.Join(ended.Run(), lasting.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(lasting.Process.Kill(), lasting.Wait()) })
	return thisHost(t), ended.Process.Pid, lasting.Process.Pid
}

func thisHost(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// A run whose harness was killed with -9 is not left as if it still ran. What is
// said to be this process's own is of a dead one that had its number.
func TestDeadRunsAreClosed(t *testing.T) {
	inTempDir(t)
	host, gone, there := someProcesses(t)
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	begin := func(pid int, node string, mode results.Mode, started *time.Time) int64 {
		id, err := s.BeginRun(t.Context(), results.Run{Mix: "W1", Scheduler: "sa", Node: node, Mode: mode,
			StartedAt: started, Status: results.Running, Jobs: 1,
			Provenance: results.Provenance{Host: host, PID: &pid, Binaries: "{}"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	dead, alive := begin(gone, "local", results.Live, &now), begin(there, "local", results.Live, &now)
	own, simulated := begin(os.Getpid(), "local", results.Live, &now), begin(gone, "sim:4xV100", results.Simulated, nil)
	s.Writer(dead).Event(results.Event{Kind: results.EventUnscheduled})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:4xV100"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	if s, err = store.OpenReadOnly("caserun.db"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, want := range map[int64]results.Status{dead: results.Interrupted, alive: results.Running, own: results.Interrupted, simulated: results.Interrupted} {
		if run, err := s.Run(t.Context(), id); err != nil || run.Status != want {
			t.Errorf("run %d: status %s, %v, want %s", id, run.Status, err, want)
		}
	}
	events, err := s.Events(t.Context(), dead)
	if err != nil || len(events) != 2 || events[0].Kind != results.EventUnscheduled ||
		events[1].Kind != results.EventKilled || !strings.HasSuffix(events[1].Detail, "ended without finishing the run") {
		t.Errorf("events %v, %v: want what the run had said, and then its end", events, err)
	}
}

// A flag goes before the environment, the environment before the file.
func TestConfigurationPrecedence(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("caserun.yaml", []byte("sched: sa\nseed: 3\ndb: from-file.db\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CASERUN_SEED", "4")
	t.Setenv("CASERUN_MEM_CAP", "16GiB")
	status, out, errs := caserun(t, "mix", "--show-config", "--sched", "zero")
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs)
	}
	for _, line := range []string{"sched: zero", "seed: 4", "db: from-file.db", "mem-cap: 16GiB", "timeout: 0s"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("--show-config lacks %q:\n%s", line, out)
		}
	}
}

// A sweep's file is part of what is in effect.
func TestConfigurationOfASweep(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("n.yaml", []byte("mixes: [W1, W2]\nscheds: [sa]\nmem-cap: 16GiB\nsim-noise: 0.01\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, errs := caserun(t, "sweep", "--show-config", "--sim-noise", "0.02", "n.yaml")
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs)
	}
	for _, line := range []string{"mixes:\n- W1\n- W2", "scheds:\n- sa", "mem-cap: 16GiB", "sim-noise: 0.02"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("--show-config lacks %q:\n%s", line, out)
		}
	}
	if _, err := os.Stat("caserun.db"); err == nil {
		t.Error("--show-config made a store")
	}
	if status, out, _ := caserun(t, "sweep", "--show-config"); status != exitOK || !strings.HasPrefix(out, "db: caserun.db\n") {
		t.Errorf("without a file: exit status %d:\n%s", status, out)
	}
}

func TestGeneratedMixRuns(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "mixes", "gen", "--jobs", "32", "--ratio", "3:1", "--seed", "7", "-o", "my.yaml"); status != exitOK {
		t.Fatalf("gen: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "mixes", "gen", "-o", "my.yaml"); status != exitUsage || !strings.Contains(errs, "exists") {
		t.Errorf("gen onto a file that exists: exit %d: %s", status, errs)
	}
	status, out, errs := caserun(t, "mix", "my.yaml", "--node", "sim:2xH200", "--format", "json")
	if status != exitOK {
		t.Fatalf("mix: exit %d: %s", status, errs)
	}
	var table struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		t.Fatalf("json: %v\n%s", err, out)
	}
	if row := table.Rows[0]; row["jobs"] != 32.0 || row["mode"] != "sim" {
		t.Errorf("json row: %v", row)
	}
}

func TestExportNamesUnits(t *testing.T) {
	inTempDir(t)
	caserun(t, "mix", "W1", "--node", "sim:4xV100")
	if status, _, errs := caserun(t, "export", "--csv", "out"); status != exitOK {
		t.Fatalf("export: exit %d: %s", status, errs)
	}
	f, err := os.Open("out/job.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 17 {
		t.Fatalf("job.csv: %d rows, %v", len(rows), err)
	}
	header := strings.Join(rows[0], ",")
	for _, column := range []string{"turnaround_s", "footprint_bytes", "outcome", "mode"} {
		if !strings.Contains(header, column) {
			t.Errorf("job.csv lacks column %s: %s", column, header)
		}
	}
	if status, _, _ := caserun(t, "export", "--csv", "out"); status != exitUsage {
		t.Error("export must not replace files without --force")
	}
}

// Help, the list of schedulers and the list of mixes are read by people and by
// scripts: a change of them is a decision.
func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"help.txt":         {"--help"},
		"help-mix.txt":     {"mix", "--help"},
		"help-sweep.txt":   {"sweep", "--help"},
		"help-compare.txt": {"compare", "--help"},
		"help-regress.txt": {"regress", "--help"},
		"schedulers.md":    {"schedulers", "--format", "markdown"},
		"mixes.csv":        {"mixes", "list", "--format", "csv"},
		"mix-w1-sim.txt":   {"mix", "W1", "--node", "sim:4xV100", "-v"},
		"mix-w1-sim.json":  {"mix", "W1", "--node", "sim:4xV100", "--format", "json"},
		"mixes-show-w1.md": {"mixes", "show", "W1", "--format", "markdown"},
	} {
		t.Run(name, func(t *testing.T) {
			golden, err := filepath.Abs(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			dir := inTempDir(t)
			status, out, errs := caserun(t, args...)
			if status != exitOK {
				t.Fatalf("exit %d: %s", status, errs)
			}
			out = strings.ReplaceAll(out, dir, "DIR")
			if *update {
				if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("differs from testdata/%s (-update rewrites it):\n%s", name, diff)
			}
		})
	}
}

// Every caserun command in the documents' console blocks must at least be one
// that the program accepts.
func TestDocumentedCommands(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^(?:\$ )?(?:bin/)?caserun ([a-z].*)$`)
	found := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commands.FindAllStringSubmatch(string(text), -1) {
			found++
			command, _, _ := strings.Cut(strings.SplitN(m[1], "#", 2)[0], " | ")
			args := strings.Fields(strings.ReplaceAll(strings.TrimSuffix(command, "\\"), "'", ""))
			root := newRoot()
			c, rest, err := root.Find(args)
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil && c == root {
				err = errors.New("no such command")
			}
			if err != nil {
				t.Errorf("%s: caserun %s: %v", filepath.Base(path), m[1], err)
			}
		}
	}
	if found == 0 {
		t.Error("no commands found in the documents")
	}
}

// An error has one line, and a file with several mistakes one for each.
func TestMessagesHaveOneLine(t *testing.T) {
	joined := fmt.Errorf("close: %w", errors.Join(errors.New("no space"), errors.Join(errors.New("gone\n"), errors.New("lost"))))
	if got := message(joined); got != "close: no space; gone; lost" {
		t.Errorf("%q", got)
	}
	file := mixes.InputErrors{{File: "a.yaml", Line: 1, Msg: "one"}, {File: "a.yaml", Line: 2, Msg: "two"}}
	if got := message(fmt.Errorf("%w", file)); got != "a.yaml:1: one\na.yaml:2: two" {
		t.Errorf("%q", got)
	}
}
