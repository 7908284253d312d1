package main

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/live"
)

// partSweep is a sweep of 8 blocks of two runs, after two warm-ups.
func partSweep(more ...string) []string {
	return append([]string{"sweep", "--mixes", "W1,W2", "--scheds", "sa,case-alg3", "--node", "sim:2xV100", "--sim-noise", "0.01",
		"--reps", "4", "--warmups", "1"}, more...)
}

func mustRun(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	status, out, errs := caserun(t, args...)
	if status != exitOK {
		t.Fatalf("caserun %s: exit %d: %s", strings.Join(args, " "), status, errs)
	}
	return out, errs
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A simulated sweep that is done in parts and merged is, byte for byte, the sweep that is done at once
// and merged: however many parts there are, whoever does a cell twice, and in whatever order the parts
// come.
func TestSweepInParts(t *testing.T) {
	inTempDir(t)
	mustRun(t, partSweep("--db", "once.db")...)
	mustRun(t, "store", "merge", "want.db", "once.db")
	want := mustRead(t, "want.db")
	var files []string
	part := func(name string, more ...string) {
		t.Helper()
		mustRun(t, partSweep(append(more, "--db", name)...)...)
		files = append(files, name)
	}
	for _, p := range []string{"1/3", "2/3", "3/3"} {
		part(strings.Replace(p, "/", "-of-", 1)+".db", "--part", p)
	}
	mustRun(t, append([]string{"store", "merge", "parts.db"}, files...)...)
	if mustRead(t, "parts.db") != want {
		t.Error("the parts make another store than the sweep done at once")
	}
	part("again.db", "--part", "1/2", "--jobs", "3")
	slices.Reverse(files)
	for _, f := range files {
		mustRun(t, "store", "merge", "reverse.db", f)
	}
	if mustRead(t, "reverse.db") != want {
		t.Error("one part after the other, with some runs twice, they make another store")
	}
	if out, _ := mustRun(t, "sweep", "show", "--db", "parts.db"); !strings.Contains(out, "  4   4  ") {
		t.Errorf("the merged sweep:\n%s", out)
	}
	mustRun(t, "sweep", "--resume", "latest", "--db", "1-of-3.db")
	mustRun(t, "store", "merge", "rest.db", "1-of-3.db")
	if mustRead(t, "rest.db") != want {
		t.Error("a part that goes on with all the rest makes another store")
	}
}

// The same command does a part once, and its parts in one store are one sweep.
func TestPartsOfOneStore(t *testing.T) {
	inTempDir(t)
	for _, c := range []struct{ part, says string }{
		{"1/2", "part 1/2 of sweep 1 is done"},
		{"1/2", "part 1/2 of sweep 1: 0 of "},
		{"2/2", "the store has this plan already: sweep 1 is resumed"},
		{"2/2", "sweep 1 is complete"},
	} {
		if _, errs := mustRun(t, partSweep("--part", c.part)...); !strings.Contains(errs, c.says) {
			t.Errorf("part %s says %q, want %q", c.part, errs, c.says)
		}
	}
	mustRun(t, "store", "merge", "merged.db", "caserun.db")
	mustRun(t, partSweep("--db", "once.db")...)
	mustRun(t, "store", "merge", "want.db", "once.db")
	if mustRead(t, "merged.db") != mustRead(t, "want.db") {
		t.Error("the parts make another store than the sweep done at once")
	}
}

// One plan that is stored, copied and done in parts gives what it gives at once. A part that was
// stopped goes on where it was.
func TestPlanIsCopiedAndDoneInParts(t *testing.T) {
	inTempDir(t)
	if _, errs := mustRun(t, partSweep("--plan-only")...); !strings.Contains(errs, "caserun sweep --resume 1 runs it") {
		t.Errorf("--plan-only says %q", errs)
	}
	plan := mustRead(t, "caserun.db")
	merge := []string{"store", "merge", "caserun.db"}
	for k := 1; k <= 2; k++ {
		name := fmt.Sprintf("part-%d.db", k)
		if err := os.WriteFile(name, []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"sweep", "--resume", "latest", "--part", fmt.Sprintf("%d/2", k), "--db", name}
		if out, _ := mustRun(t, append(args, "--dry-run")...); !strings.Contains(out, "10 runs, about") {
			t.Errorf("part %d:\n%s", k, out)
		}
		if status, _, errs := caserun(t, append(args, "--time-limit", "1ns")...); status != exitNothing || !strings.Contains(errs, fmt.Sprintf("--resume 1 --part %d/2 --db %s resumes it", k, name)) {
			t.Errorf("a part without time: exit %d: %s", status, errs)
		}
		if out, errs := mustRun(t, args...); !strings.Contains(errs, "of sweep 1 is done\n") ||
			!strings.Contains(out, "its other parts are not in this store") || strings.Contains(out, "--resume") {
			t.Errorf("a part that is done says %q\n%s", errs, out)
		}
		if out, _ := mustRun(t, "sweep", "show", "1", "--db", name); !strings.Contains(out, "caserun sweep --resume 1 --db "+name+" continues it") {
			t.Errorf("sweep show says\n%s", out)
		}
		if _, errs := mustRun(t, args...); !strings.Contains(errs, "0 of 10 runs are left") {
			t.Errorf("a part that is done and goes on says %q", errs)
		}
		merge = append(merge, name)
	}
	if out, _ := mustRun(t, append(merge, "--format", "csv")...); !strings.HasPrefix(out, "sweep_id,name,node,mode,status,runs_done,runs_planned,runs_stored,duplicates,note\n1,,sim:2xV100,sim,complete,18,18,18,0,") {
		t.Errorf("merged:\n%s", out)
	}
	mustRun(t, partSweep("--db", "once.db")...)
	mustRun(t, "store", "merge", "want.db", "once.db")
	if mustRead(t, "want.db") != mustRead(t, "caserun.db") {
		t.Error("the parts of a stored plan make another store than the sweep done at once")
	}
}

// A part that goes on elsewhere does the block anew that was begun, and the warm-up, and nothing else. If the time
// limit has no room for that, it goes on in the middle.
func TestPartGoesOnElsewhere(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "sleep 0.2", ready+"exec cat")
	run := func(args ...string) string {
		t.Helper()
		p := process(dir, append([]string{"sweep"}, args...)...)
		p.Env = append(p.Env, "LD_LIBRARY_PATH="+filepath.Dir(library), live.LibraryVariable+"="+library)
		out, err := p.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	change := func(path, statement string) {
		t.Helper()
		db, err := sql.Open("sqlite3", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run("--mixes", "own.yaml", "--scheds", "sa,cg:workers=1", "--reps", "2", "--warmups", "1", "--no-mps", "--devices", "0", "--node", "local", "--plan-only")
	run("--resume", "latest", "--part", "1/1")
	const interrupted = "UPDATE run SET status = 'interrupted', checksum = NULL WHERE id = (SELECT max(id) FROM run); UPDATE sweep SET status = 'interrupted'"
	change("caserun.db", interrupted)
	if out := run("--resume", "latest", "--part", "1/1"); strings.Contains(out, "anew") || !strings.Contains(out, "[5/5]") || strings.Contains(out, "[4/5]") {
		t.Errorf("on the same machine it says\n%s", out)
	}
	change("caserun.db", "UPDATE run SET host = 'elsewhere'; "+interrupted)
	late := mustRead(t, "caserun.db")
	if out := run("--resume", "latest", "--part", "1/1"); !strings.Contains(out, "part 1/1: done anew here, to be of one machine: 1 block that another") {
		t.Errorf("it says\n%s", out)
	}
	hosts := func(path string, f store.Filter) (hosts []string) {
		t.Helper()
		s, err := store.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		runs, err := s.Runs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			if r.Status == results.Complete {
				hosts = append(hosts, strings.ReplaceAll(r.Provenance.Host, thisHost(t), "here"))
			}
		}
		return hosts
	}
	if got, want := hosts("caserun.db", store.Filter{}), []string{"elsewhere", "elsewhere", "here", "here"}; !slices.Equal(got, want) {
		t.Errorf("the runs that count are of %v, want %v", got, want)
	}
	if got := hosts("caserun.db", store.Filter{Warmups: true, Duplicates: true}); len(got) != 4+3 {
		t.Errorf("complete runs are of %v, want the 4 that there were, and 3 made anew", got)
	}
	mustRun(t, "store", "merge", "merged.db", "caserun.db")
	if got, want := hosts("merged.db", store.Filter{}), []string{"elsewhere", "elsewhere", "here", "here"}; !slices.Equal(got, want) {
		t.Errorf("after a merge the runs that count are of %v, want %v", got, want)
	}

	writeFiles(t, map[string]string{"late.db": late})
	change("late.db", "UPDATE run SET makespan_s = 3600, checksum = NULL WHERE status = 'complete' AND scheduler = (SELECT scheduler FROM run WHERE status = 'complete' ORDER BY id DESC LIMIT 1)")
	if out := run("--resume", "latest", "--part", "1/1", "--db", "late.db", "--time-limit", "30m"); !strings.Contains(out, "part 1/1: continues here, and is then of two machines") {
		t.Errorf("without time for a block it says\n%s", out)
	}
}

// The doubtful runs of a sweep are made again where that is asked for, and the others count then, also after a merge.
func TestDoubtfulRunsAreMadeAgain(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "true", ready+"exec cat")
	run := func(args ...string) string {
		t.Helper()
		p := process(dir, append([]string{"sweep"}, args...)...)
		p.Env = append(p.Env, "LD_LIBRARY_PATH="+filepath.Dir(library), live.LibraryVariable+"="+library)
		out, err := p.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	counted := func(path string) (ids []int64) {
		t.Helper()
		s, err := store.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		runs, err := s.Runs(t.Context(), store.Filter{Status: results.Complete, Undoubted: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	run("--mixes", "own.yaml", "--scheds", "sa,cg:workers=1", "--reps", "2", "--warmups", "0", "--no-mps", "--devices", "0", "--node", "local")
	// A loaded machine may make other runs doubtful: it is said here which are.
	doubt := func(ids string) {
		t.Helper()
		db, err := sql.Open("sqlite3", "caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec("UPDATE run SET doubts = iif(id IN (" + ids + "), 'the harness stood still for 3.0 s', ''), checksum = NULL")
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	doubt("2, 3")
	const command = "doubtful runs count as done: caserun sweep --resume 1 --redo-doubted makes them again"
	if out := run("--resume", "latest"); !strings.Contains(out, "sweep 1 is complete") || !strings.Contains(out, command) {
		t.Errorf("it says\n%s", out)
	}
	if got := counted("caserun.db"); !slices.Equal(got, []int64{1, 4}) {
		t.Errorf("before, runs %d count", got)
	}
	if out := run("--resume", "latest", "--redo-doubted"); !strings.Contains(out, "2 of 4 runs are left") {
		t.Errorf("it says\n%s", out)
	}
	doubt("2, 3")
	if out := run("--resume", "latest"); strings.Contains(out, command) {
		t.Errorf("it says\n%s", out)
	}
	if got := counted("caserun.db"); !slices.Equal(got, []int64{1, 4, 5, 6}) {
		t.Errorf("runs %d count", got)
	}
	if out := run("--resume", "latest", "--redo-doubted"); !strings.Contains(out, "sweep 1: doubtful runs, which are made again: 0") {
		t.Errorf("it says\n%s", out)
	}
	mustRun(t, "store", "merge", "merged.db", "caserun.db")
	if got := counted("merged.db"); len(got) != 4 {
		t.Errorf("after a merge runs %d count", got)
	}
	for _, args := range [][]string{{"--redo-doubted"}, {"--resume", "--redo-doubted", "--dry-run"}} {
		if status, _, errs := caserun(t, append([]string{"sweep"}, args...)...); status != exitUsage || !strings.Contains(errs, "--redo-doubted") {
			t.Errorf("%v: exit %d: %s", args, status, errs)
		}
	}
}

// Sweeps from several stores and bundles come under one tag.
func TestSweepsAreAdded(t *testing.T) {
	inTempDir(t)
	for _, mix := range []string{"W1", "W2"} {
		mustRun(t, "sweep", "--mixes", mix, "--scheds", "sa,case-alg3", "--node", "sim:2xV100", "--sim-noise", "0.01", "--reps", "6", "--tag", "night", "--db", mix+".db")
	}
	mustRun(t, "export", "--sweep", "1", "--bundle", "W2.tar.gz", "--db", "W2.db")
	mustRun(t, "store", "merge", "--add", "all.db", "W1.db")
	before := mustRead(t, "W2.tar.gz")
	if status, _, errs := caserun(t, "store", "merge", "all.db", "W2.tar.gz"); status != exitUsage || !strings.Contains(errs, "or add the sweep to this store (--add)") {
		t.Errorf("without --add: exit %d: %s", status, errs)
	}
	if out, _ := mustRun(t, "store", "merge", "--add", "all.db", "W2.tar.gz", "--format", "csv"); !strings.Contains(out, "2,,sim:2xV100,sim,complete,12,12,12,0,") {
		t.Errorf("added: %s", out)
	}
	if mustRead(t, "W2.tar.gz") != before {
		t.Error("the bundle changed")
	}
	whole, _ := mustRun(t, "compare", "tag:night", "--by", "mix", "--metrics", "throughput", "--format", "csv", "--db", "all.db")
	for _, mix := range []string{"W1", "W2"} {
		alone, _ := mustRun(t, "compare", "tag:night", "--by", "mix", "--metrics", "throughput", "--format", "csv", "--db", mix+".db")
		_, arms, _ := strings.Cut(alone, "\n") // behind the header
		if arms == "" || !strings.Contains(whole, arms) {
			t.Errorf("%s is compared as\n%sand together as\n%s", mix, arms, whole)
		}
	}
	// All sweeps of all parts are added, each once and with the runs of all parts that have it.
	if out, _ := mustRun(t, "store", "merge", "--add", "again.db", "all.db", "W1.db", "--format", "csv"); strings.Count(out, ",complete,12,12,12,0,") != 2 || strings.Count(out, "\n") != 3 {
		t.Errorf("a store of two sweeps, and a store of one of them: %s", out)
	}
	if again, _ := mustRun(t, "compare", "tag:night", "--by", "mix", "--metrics", "throughput", "--format", "csv", "--db", "again.db"); again != whole {
		t.Errorf("compared as\n%sand before as\n%s", again, whole)
	}
	mustRun(t, "mix", "W1", "--node", "sim:2xV100", "--db", "none.db")
	if status, _, errs := caserun(t, "store", "merge", "--add", "again.db", "W1.db", "none.db"); status != exitUsage || !strings.Contains(errs, "none.db") || !strings.Contains(errs, "no such sweep") {
		t.Errorf("a part without sweeps: exit %d: %s", status, errs)
	}
}

// A part that was extended extends the merged sweep, whatever comes first.
func TestExtendedPartIsMerged(t *testing.T) {
	inTempDir(t)
	mustRun(t, partSweep("--db", "once.db")...)
	mustRun(t, "sweep", "--resume", "latest", "--reps", "6", "--db", "once.db")
	mustRun(t, partSweep("--part", "1/2", "--db", "a.db")...)
	mustRun(t, partSweep("--part", "2/2", "--db", "b.db")...)
	mustRun(t, "sweep", "--resume", "latest", "--reps", "6", "--part", "1/2", "--db", "a.db")
	out, _ := mustRun(t, "store", "merge", "ab.db", "a.db", "b.db", "--format", "csv")
	if want := "1,,sim:2xV100,sim,interrupted,22,26,22,0,"; !strings.Contains(out, want) {
		t.Errorf("merged:\n%swant %s", out, want)
	}
	mustRun(t, "store", "merge", "ba.db", "b.db", "a.db")
	if mustRead(t, "ab.db") != mustRead(t, "ba.db") {
		t.Error("the order of the parts matters")
	}
	mustRun(t, "sweep", "--resume", "latest", "--reps", "6", "--part", "2/2", "--db", "b.db")
	mustRun(t, "store", "merge", "ab.db", "b.db")
	mustRun(t, "store", "merge", "want.db", "once.db")
	if mustRead(t, "ab.db") != mustRead(t, "want.db") {
		t.Error("extended parts make another store than the extended sweep")
	}
}

// The status of a sweep counts each run of a part once.
func TestSweepStatus(t *testing.T) {
	inTempDir(t)
	mustRun(t, partSweep("--part", "1/2")...)
	out, _ := mustRun(t, "sweep", "status", "--parts", "2", "--format", "csv")
	want := `sweep_id,part,blocks,runs,runs_done,runs_under_way,runs_failed,runs_missing,left_s,task
1,1/2,4,10,10,0,0,0,0,
1,2/2,4,10,2,0,0,8,0.128,
1,all,8,18,10,0,0,8,0.128,
`
	if out != want {
		t.Errorf("status:\n%swant\n%s", out, want)
	}
	for _, c := range []struct{ parts, says string }{{"9", "want 8 parts at most"}, {"-1", "want a whole number, 1 or more"}} {
		if status, _, errs := caserun(t, "sweep", "status", "--parts", c.parts); status != exitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("--parts %s: exit %d: %s", c.parts, status, errs)
		}
	}
}

func TestWrongPartsAndMerges(t *testing.T) {
	inTempDir(t)
	mustRun(t, partSweep("--part", "1/2", "--db", "a.db")...)
	mustRun(t, partSweep("--part", "2/2", "--seed", "2", "--db", "other.db")...)
	mustRun(t, "export", "--sweep", "1", "--bundle", "a.tar.gz", "--db", "a.db")
	bundle := mustRead(t, "a.tar.gz")
	writeFiles(t, map[string]string{"half.tar.gz": bundle[:len(bundle)/2]})
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{partSweep("--part", "3/2"), exitUsage, "want K/N with K from 1 to N"},
		{partSweep("--part", "1/9"), exitUsage, "the sweep has 8 blocks, which are not divided: want 8 parts at most"},
		{[]string{"sweep", "--resume", "latest", "--part", "1/9", "--db", "a.db"}, exitUsage, "want 8 parts at most"},
		{partSweep("--plan-only", "--part", "1/2"), exitUsage, "--plan-only cannot be combined with --part: the whole plan is stored: give --part with --resume"},
		{partSweep("--plan-only", "--dry-run"), exitUsage, "--plan-only cannot be combined with --dry-run"},
		{[]string{"sweep", "--resume", "latest", "--plan-only", "--db", "a.db"}, exitUsage, "--plan-only cannot be combined with --resume"},
		{[]string{"store", "merge", "all.db"}, exitUsage, "PART is missing"},
		{[]string{"store", "merge", "all.db", "a.db", "other.db"}, exitUsage, "part other.db: it is not a part of the same plan as the latest sweep of a.db: leave it out"},
		{[]string{"store", "merge", "other.db", "a.db"}, exitUsage, "other.db has no sweep of the parts' plan: merge into a new file"},
		{[]string{"store", "merge", "all.db", "missing.db"}, exitInfrastructure, "part missing.db: no such file: name the stores or bundles of the parts"},
		{[]string{"store", "merge", "all.tar.gz", "a.db"}, exitUsage, "all.tar.gz has the name of a bundle, and a merge makes a store"},
		{[]string{"store", "merge", "--add", "all.db", "half.tar.gz"}, exitInfrastructure, "the archive ends within it or before it: the file is damaged"},
		{[]string{"store", "merge", "nowhere/all.db", "a.db"}, exitUsage, "the directory nowhere does not exist"},
	} {
		if status, _, errs := caserun(t, c.args...); status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d and %q:\n%s", strings.Join(c.args, " "), status, c.status, c.says, errs)
		}
	}
	for _, path := range []string{"all.db", "caserun.db"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("a refused command made %s", path)
		}
	}
}

// SLURM_RESTART_COUNT is a part of what a run is called.
func TestRestartsAreChecked(t *testing.T) {
	inTempDir(t)
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv("SLURMD_NODENAME", "n1")
	t.Setenv("SLURM_RESTART_COUNT", "twice")
	if status, _, errs := caserun(t, partSweep()...); status != exitUsage || !strings.Contains(errs, `SLURM_RESTART_COUNT is "twice": want a number`) {
		t.Errorf("exit %d: %s", status, errs)
	}
}

// A live sweep in parts loses no cell and counts none twice, also if a part is done twice. What its
// runs show is compared machine by machine.
func TestLiveSweepInParts(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "sleep 0.01", ready+"exec cat")
	writeFiles(t, map[string]string{"other.yaml": strings.Replace(mustRead(t, "own.yaml"), "name: own", "name: other", 1)})
	live := func(gpu string, args ...string) string {
		t.Helper()
		status, text := finish(t, onFakes(dir, library, []string{"CUDA_VISIBLE_DEVICES=" + gpu}, args...))
		if status != exitOK {
			t.Fatalf("caserun %s: exit %d: %s", strings.Join(args, " "), status, text)
		}
		return text
	}
	plan := []string{"sweep", "--mixes", "own.yaml,other.yaml", "--scheds", "sa,cg:workers=1", "--reps", "4", "--no-mps"}
	if status, text := finish(t, onFakes(dir, library, []string{"CUDA_VISIBLE_DEVICES=0"}, append(plan, "--part", "1/2")...)); status != exitUsage ||
		!strings.Contains(text, "store it with --plan-only in place of --part") {
		t.Errorf("a part of a new live sweep: exit %d: %s", status, text)
	}
	live("0", append(plan, "--plan-only")...)
	for name, part := range map[string]struct{ gpu, part string }{"a.db": {"0", "1/2"}, "b.db": {"1", "2/2"}, "again.db": {"2", "1/2"}} {
		if err := os.WriteFile(name, []byte(mustRead(t, "caserun.db")), 0o600); err != nil {
			t.Fatal(err)
		}
		live(part.gpu, "sweep", "--resume", "latest", "--part", part.part, "--db", name)
	}
	out, _ := mustRun(t, "store", "merge", "caserun.db", "a.db", "b.db", "again.db", "--format", "csv")
	// 16 cells and 2 warm-ups; 8 of them and 2 warm-ups twice, and 2 warm-ups in the other part.
	if want := "1,,local,live,complete,18,18,"; !strings.Contains(out, want) {
		t.Errorf("merged:\n%swant %s", out, want)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	counted, err := s.Runs(t.Context(), store.Filter{})
	if err != nil || len(counted) != 16 {
		t.Errorf("%d runs count (%v), want 16", len(counted), err)
	}
	arms := map[string]int{}
	for _, r := range counted {
		arms[fmt.Sprint(r.Mix, r.Scheduler, r.Repetition)]++
	}
	if len(arms) != 16 {
		t.Errorf("runs by arm and repetition: %v, want one each", arms)
	}
	if all, err := s.Runs(t.Context(), store.Filter{Duplicates: true}); err != nil || len(all) != 24 {
		t.Errorf("%d runs with duplicates (%v), want 24", len(all), err)
	}
	text, _ := mustRun(t, "compare", "latest/sa", "latest/cg:workers=1")
	if !strings.Contains(text, "several machines (host names: 1, sets of GPUs: 2)") {
		t.Errorf("compare:\n%s", text)
	}
}

// Parts of a simulated sweep are killed five times each and started again, from what they have, from an older copy or
// from the plan. The merge of all that they left has the complete runs of the sweep done at once.
func TestKilledPartsAreMerged(t *testing.T) {
	dir := inTempDir(t)
	sim := []string{"sweep", "--mixes", "W1..W3", "--scheds", "sa,case-alg3", "--node", "sim:4xV100", "--sim-noise", "0.01", "--reps", strconv.Itoa(chance.Count(4, 60))}
	mustRun(t, append(sim, "--db", "once.db")...)
	mustRun(t, append(sim, "--plan-only", "--db", "plan.db")...)
	random := drawing(t, 1)
	merge := []string{"store", "merge", "merged.db"}
	kills := 0
	for k := 1; k <= 3; k++ {
		work := fmt.Sprintf("part-%d.db", k)
		from := "plan.db"
		for restart := 0; ; restart++ {
			if from != "" {
				mustCopy(t, from, work)
			}
			p := process(dir, "sweep", "--resume", "latest", "--force", "--part", fmt.Sprintf("%d/3", k), "--db", work)
			p.Env = append(p.Env, fmt.Sprintf("SLURM_RESTART_COUNT=%d", restart))
			if restart < 5 {
				point := []string{store.RunBegun, store.RowsWritten, store.RunStored}[random.IntN(3)]
				p.Env = append(p.Env, fmt.Sprintf("%s=%s:%d", store.KillVariable, point, 1+random.IntN(chance.Count(4, 100))))
			}
			ended := p.Run()
			if ended != nil && !wasKilled(p) {
				t.Fatalf("%v: %v", p.Args, ended)
			}
			published := fmt.Sprintf("part-%d-%d.db", k, restart)
			db, err := store.Open(work)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.CopyRuns(t.Context(), published, store.Filter{Sweep: 1, Warmups: true, Duplicates: true}), db.Close()); err != nil {
				t.Fatal(err)
			}
			merge = append(merge, published)
			if ended == nil {
				break
			}
			kills++
			from = []string{"", "plan.db", fmt.Sprintf("part-%d-%d.db", k, random.IntN(restart+1))}[random.IntN(3)]
		}
	}
	if kills < 3 {
		t.Errorf("%d kills, want 3 at least", kills)
	}
	t.Logf("%d kills", kills)
	random.Shuffle(len(merge)-3, func(i, j int) { merge[i+3], merge[j+3] = merge[j+3], merge[i+3] })
	mustRun(t, merge...)
	got, want := countedRows(t, "merged.db"), countedRows(t, "once.db")
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d rows after %d kills, want %d: those of the sweep done at once", len(got), kills, len(want))
	}
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	for _, journal := range []string{"-wal", "-shm"} {
		if err := os.RemoveAll(to + journal); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(to, []byte(mustRead(t, from)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// countedRows are the rows of the runs that count, in order, without the runs' numbers.
func countedRows(t *testing.T, path string) (out []string) {
	t.Helper()
	s, err := store.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	modes, err := s.Modes(t.Context(), store.Filter{Status: results.Complete})
	if err != nil {
		t.Fatal(err)
	}
	f := store.Filter{IDs: append([]int64{-1}, slices.Collect(maps.Keys(modes))...)}
	tables, err := s.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if table.OfSweeps() {
			continue
		}
		if err := s.Rows(t.Context(), table, f, func(cells []any) error {
			out = append(out, fmt.Sprint(table.Name, cells[1:]))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
