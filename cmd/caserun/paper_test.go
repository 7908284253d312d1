package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/store"
)

func TestPaperFromASweepOfItsOwn(t *testing.T) {
	inTempDir(t)
	status, tables, errs := caserun(t, "paper", "--run", "--node", "sim:4xV100", "--reps", "1", "--sim-noise", "0", "--out", "page", "-v")
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs)
	}
	for _, line := range strings.Split(tables, "\n") {
		if strings.HasPrefix(line, "Table 7:") && !strings.Contains(line, "SIMULATED") {
			t.Errorf("a simulated table must say so: %s", line)
		}
	}
	if !strings.Contains(tables, "not compared: the paper does not publish how many images") {
		t.Errorf("Table 8 is of other work:\n%s", tables)
	}
	for _, name := range []string{"paper.md", "table-3.csv", "table-4.csv", "table-6.csv", "table-7.csv", "table-8.csv", "figure-5.csv",
		"figure-5.svg", "figure-5.png", "figure-6b.pdf", "figure-7.svg", "figure-7-curves.csv", "figure-8.csv", "figure-8.svg", "figure-9.png"} {
		if info, err := os.Stat(filepath.Join("page", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join("page", "figure-6a.svg")); err == nil {
		t.Error("a figure of which nothing was measured is drawn")
	}

	status, again, errs := caserun(t, "paper", "--sweep", "1,latest", "-v")
	if status != exitOK || again != tables {
		t.Errorf("the same sweeps again: exit %d %s\n%s", status, errs, cmp.Diff(tables, again))
	}
	if status, _, errs := caserun(t, "paper", "--sweep", "1", "--out", "page"); status != exitUsage || !strings.Contains(errs, "--force") {
		t.Errorf("a page that exists: exit %d: %s", status, errs)
	}
	t.Setenv("CASERUN_NODE", "sim:2xP100")
	if status, again, errs := caserun(t, "paper", "--sweep", "1,latest", "-v"); status != exitOK || again != tables {
		t.Errorf("the node of the settings selects runs: exit %d %s\n%s", status, errs, cmp.Diff(tables, again))
	}
	t.Setenv("CASERUN_NODE", "")
	for _, mine := range []string{"table-8.csv", "figure-9.svg", "figure-9-curves.csv", "table-3.pdf"} {
		dir := t.TempDir()
		path := filepath.Join(dir, mine)
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		status, _, errs := caserun(t, "paper", "--sweep", "1", "--out", dir)
		if status != exitUsage || !strings.Contains(errs, path+": file already exists") {
			t.Errorf("%s of the user's: exit %d: %s", mine, status, errs)
		}
		files, err := os.ReadDir(dir)
		text, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || len(files) != 1 || string(text) != "mine" {
			t.Errorf("%s of the user's is %q now, beside %v", mine, text, files)
		}
	}
	status, tables, errs = caserun(t, "paper", "--sweep", "1", "--node", "sim:4xV100,sim:2xP100", "--out", "page", "--force")
	if status != exitUsage || tables != "" || !strings.Contains(errs, "--node sim:2xP100: none of the selected runs is on it: they are on sim:4xV100") {
		t.Errorf("sweep 1 has no run on that node: exit %d: %s", status, errs)
	}
	whole, err := os.ReadFile(filepath.Join("page", "paper.md"))
	if err != nil {
		t.Fatal(err)
	}
	status, tables, errs = caserun(t, "paper", "--tag", "none", "--out", "page", "--force")
	if status != exitNothing || tables != "" || !strings.Contains(errs, "no complete run in caserun.db has the tag none") {
		t.Errorf("no run has that tag: exit %d: %s", status, errs)
	}
	for _, args := range [][]string{{"--mixes", "W1", "--scheds", "zero"}, {"--mixes", "W1", "--scheds", "sa", "--name", "part"}} {
		if status, _, errs := caserun(t, append([]string{"sweep", "--node", "sim:4xV100", "--reps", "1", "--sim-noise", "0"}, args...)...); status != exitOK {
			t.Fatalf("exit %d: %s", status, errs)
		}
	}
	t.Setenv("CASERUN_TAG", "none")
	status, tables, errs = caserun(t, "paper", "--sweep", "3", "--out", "page", "--force")
	if status != exitNothing || !strings.Contains(tables, "Missing") || !strings.Contains(errs, "nothing was written to page") {
		t.Errorf("a sweep with nothing of the paper's: exit %d: %s", status, errs)
	}
	if text, err := os.ReadFile(filepath.Join("page", "paper.md")); err != nil || string(text) != string(whole) {
		t.Errorf("a page of nothing replaced the one that there was: %v", err)
	}
	if status, _, errs := caserun(t, "paper", "--sweep", "4", "--out", "page", "--force"); status != exitOK {
		t.Fatalf("a sweep with one number: exit %d: %s", status, errs)
	}
	if _, err := os.Stat(filepath.Join("page", "figure-5.svg")); err == nil {
		t.Error("--force left a figure that the page does not have")
	}
	if text, err := os.ReadFile(filepath.Join("page", "paper.md")); err != nil || string(text) == string(whole) {
		t.Errorf("--force left the earlier page: %v", err)
	}
}

// The runs of schedGPU's mixes are found without a sweep, and its page is its own.
func TestPaperOfSchedGPU(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("low-12.yaml", []byte("name: low-12\njobs:\n"+strings.Repeat("  - job: backprop-8388608\n", 12)), 0o644); err != nil {
		t.Fatal(err)
	}
	simulate(t, "--scheds", "sa")
	status, _, errs := caserun(t, "paper", "schedgpu")
	if status != exitNothing || !strings.Contains(errs, "no complete run in caserun.db is of a mix of the paper. To measure them: benchmarks/schedgpu.sh DIR") {
		t.Errorf("without a run: exit %d: %s", status, errs)
	}
	for _, scheduler := range []string{"sa", "schedgpu"} {
		if status, _, errs := caserun(t, "mix", "low-12.yaml", "--sched", scheduler, "--node", "sim:1xH200", "--mem-cap", "10GiB"); status != exitOK {
			t.Fatalf("exit %d: %s", status, errs)
		}
	}
	status, tables, errs := caserun(t, "paper", "schedgpu", "--out", "page", "--format", "json")
	if status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	for _, want := range []string{`"metric": "makespan_speedup_over_sa"`, `"stated_in": "section 7.3.1"`, `"published": 2485.2`, `no complete run of low-moderate-high-4 under sa`} {
		if !strings.Contains(tables, want) {
			t.Errorf("the tables lack %s", want)
		}
	}
	text, err := os.ReadFile(filepath.Join("page", "paper.md"))
	if err != nil || !strings.HasPrefix(string(text), "# The schedGPU paper's evaluation") || strings.Contains(string(text), "CASE") || !strings.Contains(string(text), "2485.2 s") {
		t.Errorf("%v: %.300s", err, text)
	}
	for _, c := range []struct{ args, want string }{
		{"schedgpv", `unknown paper "schedgpv": did you mean schedgpu?`},
		{"nvshare", `unknown paper "nvshare": known are ` + strings.Join(paper.Names(), ", ")},
		{"pilot --as sm", "--as sm: the mix and the devices of each run say with what of The PILOT paper it is compared: leave it out"},
		{"schedgpu case", `"case" is one argument too many: caserun paper [PAPER]`},
		{"schedgpu --run", "--run: no sweep measures what is in schedgpu: leave it out. To measure them: benchmarks/schedgpu.sh DIR"},
		{"schedgpu --as 4xV100", "--as 4xV100: want 1xK20m"},
	} {
		status, _, errs := caserun(t, append([]string{"paper"}, strings.Fields(c.args)...)...)
		if status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("paper %s: exit %d: %s", c.args, status, errs)
		}
	}
	for args, want := range map[string]string{"paper ": strings.Join(paper.Names(), "\n") + "\n", "paper schedgpu --as ": "1xK20m\n", "paper --as ": "4xV100\n2xP100\n", "paper nix --as ": "", "paper case ": ""} {
		if _, offers, _ := caserun(t, append([]string{"__complete"}, strings.Split(args, " ")...)...); offers != want+":4\n" {
			t.Errorf("completion of %q: %q", args, offers)
		}
	}
}

// Its systems follow from the runs, and its Table I is beside the store.
func TestPaperOfPilot(t *testing.T) {
	inTempDir(t)
	times := "program,size,rep,build,kernels_s\nbfs,lg,1,pilot,3\nbfs,lg,1,pilot-plain,2\n"
	if err := os.WriteFile("table1.csv", []byte(times), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, tables, errs := caserun(t, "paper", "pilot", "--format", "json"); status != exitOK || !strings.Contains(tables, `"measured": 1.5`) ||
		!strings.Contains(errs, "table1.csv alone is shown, because runs are missing: no store caserun.db. To measure them: benchmarks/pilot.sh") {
		t.Errorf("without a store: exit %d: %s%s", status, tables, errs)
	}
	for _, size := range []string{"7893MiB", "100GiB"} {
		if status, _, errs := caserun(t, "sweep", "--mixes", "P-fig4-bfs-managed", "--scheds", "sa,zero,amfit:wait=1s", "--node", "sim:1xH200", "--mem-cap", size, "--reps", "1"); status != exitOK {
			t.Fatal(errs)
		}
	}
	status, tables, errs := caserun(t, "paper", "pilot", "--format", "json", "-o", "page")
	if status != exitOK || !strings.Contains(errs, "3 runs left out") {
		t.Fatal(status, errs)
	}
	for _, want := range []string{`"published": 1.4`, `"measured": 1.5`, `"system": "150 % managed"`, `"answer": "yes"`, `"answer": "not measured"`} {
		if !strings.Contains(tables, want) {
			t.Errorf("the tables lack %s", want)
		}
	}
	for file, want := range map[string]string{"statements.csv": "AMFit is far faster than MPS", "paper.md": "measured, 2 kernel times in table1.csv", "figure-4c.svg": "SIMULATED"} {
		if text, err := os.ReadFile(filepath.Join("page", file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s: %v", file, want, err)
		}
	}
	if err := os.WriteFile("table1.csv", []byte(times+"bfs,lg,1,pilot,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "paper", "pilot"); status != exitUsage || !strings.Contains(errs, "table1.csv:4: ") {
		t.Errorf("exit %d: %s", status, errs)
	}
}

// Where it is stopped, each sweep can be gone on with, and then the tables made.
func TestPaperThatIsStopped(t *testing.T) {
	inTempDir(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	var out bytes.Buffer
	var errs strings.Builder
	status := run(ctx, []string{"paper", "--run", "--node", "sim:4xV100,sim:2xP100", "--reps", "1"}, strings.NewReader(""), &out, onWrite(func(line []byte) {
		errs.Write(line)
		if strings.Contains(string(line), "sweep 3:") { // the last plan is stored
			cancel(signalError{os.Interrupt})
		}
	}))
	if status != exitInterrupted || !strings.Contains(errs.String(), "caserun sweep --resume 1 resumes it") ||
		!strings.Contains(errs.String(), "caserun sweep --resume 2 begins the next; caserun sweep --resume 3 begins the next; caserun paper --sweep 1,2,3 makes the tables") {
		t.Fatalf("exit %d: %s", status, errs.String())
	}
	for _, args := range [][]string{{"sweep", "--resume", "1"}, {"sweep", "--resume", "2"}, {"sweep", "--resume", "3"}, {"paper", "--sweep", "1,2,3"}} {
		if status, _, errs := caserun(t, args...); status != exitOK {
			t.Errorf("%v: exit %d: %s", args, status, errs)
		}
	}
}

func TestPaperRefusesWhatContradictsItself(t *testing.T) {
	inTempDir(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--run", "--sweep", "1"}, "--sweep"},
		{[]string{"--sweep", "1", "--tag", "x"}, "--tag"},
		{[]string{"--reps", "3"}, "--run"},
		{[]string{"--seed", "2"}, "--seed requires --run"},
		{[]string{"--tag", "x", "--sim-noise", "0.1"}, "--sim-noise requires --run"},
		{[]string{"--trace"}, "--trace requires --run"},
		{[]string{"--profiles", "p.yaml", "--sweep", "1"}, "--profiles requires --run"},
		{[]string{"--run", "--tag", "a\xff", "--node", "sim:4xV100"}, `tag "a\xff": want one line of text`},
		{[]string{"--force"}, "--out"},
		{[]string{"--out", "-"}, "--out -"},
		{[]string{"--run", "--trace", "--node", "sim:4xV100"}, "--trace"},
		{[]string{"--run", "--node", "sim:8xA100"}, "--as"},
		{[]string{"--run", "--node", "sim:4xV100,sim:4xV100"}, "4xV100"},
		{[]string{"--run", "--node", "sim:4xV100", "--as", "8xA100"}, "8xA100"},
	} {
		status, _, errs := caserun(t, append([]string{"paper"}, c.args...)...)
		if status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d: %s; want %d and %q", c.args, status, errs, exitUsage, c.want)
		}
		if _, err := os.Stat("caserun.db"); err == nil {
			t.Fatalf("%v made a store", c.args)
		}
	}
}

// What says where --run runs may stand in the environment all the time.
func TestPaperTakesSettingsOfRunsFromTheEnvironment(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa")
	t.Setenv("CASERUN_SEED", "2")
	if status, _, errs := caserun(t, "paper"); status != exitOK {
		t.Errorf("exit %d: %s", status, errs)
	}
}

func TestPaperRefusesNoRepetitions(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "paper", "--run", "--node", "sim:4xV100", "--reps", "0"); status != exitUsage || !strings.Contains(errs, `--reps "0": want`) {
		t.Errorf("exit %d: %s", status, errs)
	}
}

// A sweep of an hour must not end without a place for its page.
func TestPaperFindsOutThatItCanWriteBeforeItRuns(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"file/page", "/proc/page", "/proc"} {
		status, _, errs := caserun(t, "paper", "--run", "--node", "sim:4xV100", "--out", dir)
		if status == exitOK || !strings.Contains(errs, "--out "+dir) {
			t.Errorf("--out %s: exit %d: %s", dir, status, errs)
		}
		if _, err := os.Stat("caserun.db"); err == nil {
			t.Fatalf("--out %s: it ran", dir)
		}
	}
}

// A hint is of no use with another store.
func TestHintsNameTheStore(t *testing.T) {
	inTempDir(t)
	_, _, errs := caserun(t, "paper", "--run", "--node", "sim:4xV100", "--reps", "1", "--db", "my runs.db")
	if !strings.Contains(errs, `caserun paper --sweep 1,2 --db 'my runs.db' makes these tables again`) {
		t.Errorf("paper --run: %s", errs)
	}
	if _, _, errs := caserun(t, "export", "--csv", "c", "--tag", "none", "--db", "my runs.db"); !strings.Contains(errs, `caserun report --db 'my runs.db' lists`) {
		t.Errorf("export: %s", errs)
	}
	t.Setenv("CASERUN_DB", "my runs.db")
	if _, _, errs := caserun(t, "export", "--csv", "c", "--tag", "none"); !strings.Contains(errs, `caserun report --db 'my runs.db' lists`) {
		t.Errorf("export with CASERUN_DB: %s", errs)
	}
	t.Setenv("CASERUN_DB", "")
	simulate(t, "--scheds", "sa")
	if _, _, errs := caserun(t, "export", "--csv", "c", "--tag", "none"); !strings.Contains(errs, "caserun report lists") {
		t.Errorf("export from the store that is there by default: %s", errs)
	}
}

// A sweep that is under way is told from one whose process did not live to say so.
func TestSweepThatIsNotComplete(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "sweep", "--mixes", "W1..W2", "--scheds", "sa", "--node", "sim:4xV100", "--reps", "1", "--tag", "t"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	host, gone, there := someProcesses(t)
	for pid, want := range map[int][2]string{
		gone:  {"sweep 1 is interrupted: its complete runs count; caserun sweep --resume 1", "sweep 1 is interrupted: some of"},
		there: {"sweep 1 is under way: the runs that it has done count", "sweep 1 is running: some of"},
	} {
		s, err := store.Open("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(s.ClaimSweep(t.Context(), 1, host, pid, ""), s.Close())
		if err != nil {
			t.Fatal(err)
		}
		for i, args := range [][]string{{"paper"}, {"compare", "tag:t", "1"}} {
			_, out, errs := caserun(t, args...)
			if !strings.Contains(out+errs, want[i]) {
				t.Errorf("%v with the process %d lacks %q: %s", args, pid, want[i], errs)
			}
		}
		if s, err = store.Open("caserun.db"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.EndSweep(t.Context(), 1, host, pid, results.Interrupted), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// The page, the data and the figures that are published are what the runs give that
// are published beside them.
func TestPublishedEvaluation(t *testing.T) {
	published, err := filepath.Abs("../../docs/results")
	if err != nil {
		t.Fatal(err)
	}
	inTempDir(t)
	if status, _, errs := caserun(t, "paper", "--db", filepath.Join(published, "bundles", "sweep.tar.gz"), "--tag", "evaluation", "--out", "page"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	for _, pattern := range []string{"*.png", "*.pdf"} { // not published: caserun paper makes them
		found, err := filepath.Glob(filepath.Join("page", pattern))
		if err != nil || len(found) == 0 {
			t.Errorf("%s: %v, %v", pattern, found, err)
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := filepath.Join(published, "paper")
	if *update {
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS("page"))); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(textsIn(t, dir), textsIn(t, "page")); diff != "" {
		t.Errorf("docs/results/paper is not what its bundle gives (rewrite it with -update):\n%.2000s", diff)
	}
}

// textsIn are the files of a directory.
func textsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = string(text)
	}
	return texts
}
