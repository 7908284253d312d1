package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/sweep"
)

// smallSweep has 20 cells, two of them warm-ups.
func smallSweep(jobs int) []string {
	return []string{"sweep", "--mixes", "W1,W2", "--scheds", "sa,cg,case-alg3", "--node", "sim:2xV100", "--sim-noise", "0.02",
		"--reps", "3", "--warmups", "1", "--tag", "small", "--jobs", strconv.Itoa(jobs)}
}

// process is the program as a process of its own, in a directory.
func process(dir string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Dir, c.Env = dir, append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return c
}

// cellResult is what one cell of a sweep left.
type cellResult struct {
	Cell     results.Cell
	Run      results.Run
	Jobs     []results.Job
	Tasks    []results.Task
	Devices  []results.Device
	Segments []results.Segment
	Kernels  []results.Kernel
	Events   []results.Event
}

// sweepResults are those of the sweep of a store, without the runs' numbers,
// and the numbers of its runs by status.
func sweepResults(t *testing.T, path string) (cells []cellResult, runs map[results.Status]int) {
	t.Helper()
	ctx := t.Context()
	s, err := store.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	plan, err := s.Cells(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range plan {
		if c.Run == nil {
			t.Fatalf("cell %d was not run", c.Position)
		}
		id := *c.Run
		c.Run = nil
		r := cellResult{Cell: c}
		var errs [7]error
		r.Run, errs[0] = s.Run(ctx, id)
		r.Jobs, errs[1] = s.Jobs(ctx, id)
		r.Tasks, errs[2] = s.Tasks(ctx, id)
		r.Devices, errs[3] = s.Devices(ctx, id)
		r.Segments, errs[4] = s.Segments(ctx, id)
		r.Kernels, errs[5] = s.Kernels(ctx, id)
		r.Events, errs[6] = s.Events(ctx, id)
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		if x := r.Run; *x.Sweep != 1 || x.Seed != c.Seed || x.Repetition != c.Repetition || x.Warmup != c.Warmup || x.Mix != c.Mix {
			t.Errorf("the run of cell %d, %+v, is not the one planned, %+v", c.Position, x, c)
		}
		r.Run.ID = 0
		cells = append(cells, r)
	}
	all, err := s.Runs(ctx, store.Filter{Sweep: 1, Warmups: true})
	if err != nil {
		t.Fatal(err)
	}
	runs = map[results.Status]int{}
	for _, r := range all {
		runs[r.Status]++
	}
	if w, err := s.Sweep(ctx, 1); err != nil || w.Status != results.Complete || w.PID != nil || w.Note != "" {
		t.Errorf("the sweep is %+v (%v), want it complete", w, err)
	}
	return cells, runs
}

// checkIntegrity opens a store that was left behind as SQLite sees it.
func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check: %s (%v)", verdict, err)
	}
	rows, err := db.Query("PRAGMA foreign_key_check")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if rows.Next() {
		t.Error("foreign_key_check found rows that refer to nothing")
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
}

// drawing draws what a test has a seed of its own for. In the soak it draws otherwise, and a test that fails says how to repeat it.
func drawing(t *testing.T, own uint64) *rand.Rand {
	t.Helper()
	var random *rand.Rand
	for seed := range chance.Seeds(t, 1, 1) {
		random = rand.New(rand.NewPCG(own, seed))
	}
	return random
}

// mustBeKilled runs a process that is killed at a point of package store.
func mustBeKilled(t *testing.T, c *exec.Cmd, point string) {
	t.Helper()
	c.Env = append(c.Env, store.KillVariable+"="+point)
	if said, err := c.CombinedOutput(); !wasKilled(c) {
		t.Fatalf("%s: %v, want it killed: %s", point, err, said)
	}
}

func wasKilled(c *exec.Cmd) bool {
	return c.ProcessState != nil && c.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// A sweep that is killed before, in or after any of its runs leaves a store that opens clean, and goes
// on to the results of one that was left alone; what it repeats is at most what
// was under way.
func TestKilledSweepsResume(t *testing.T) {
	whole := t.TempDir()
	if out, err := process(whole, smallSweep(1)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, runs := sweepResults(t, filepath.Join(whole, "caserun.db"))
	if len(want) != 20 || runs[results.Complete] != 20 || len(runs) != 1 {
		t.Fatalf("%d cells and runs %v, want 20 complete", len(want), runs)
	}
	makespans := map[float64]bool{}
	for _, r := range want {
		makespans[*r.Run.Metrics.MakespanS] = true
	}
	if len(makespans) != len(want) {
		t.Errorf("%d runs have only %d makespans: with noise no two are equal", len(want), len(makespans))
	}
	random := drawing(t, 31)
	points := []string{store.RunBegun, store.RowsWritten, store.RunStored}
	for i := range chance.Count(6, 60) { // each point with one run at once, and with more
		jobs, at := []int{1, 3, 1, 2, 1, 2}[i%6], points[i%3]
		last := len(want)
		if at == store.RowsWritten && jobs > 1 {
			last /= jobs // rows of several runs may be written together
		}
		point := fmt.Sprintf("%s:%d", at, 1+random.IntN(last))
		t.Chdir(t.TempDir())
		mustBeKilled(t, process(".", smallSweep(jobs)...), point)
		checkIntegrity(t, "caserun.db")
		mustRun(t, "sweep", "--resume", "latest", "--jobs", strconv.Itoa(jobs))
		checkIntegrity(t, "caserun.db")
		got, runs := sweepResults(t, "caserun.db")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("kill at %s with --jobs %d: results (-uninterrupted +resumed):\n%s", point, jobs, diff)
		}
		least := 1
		if at == store.RunStored {
			least = 0
		}
		if lost := runs[results.Interrupted]; runs[results.Complete] != len(want) || lost < least || lost > jobs || runs[results.Running] > 0 {
			t.Errorf("kill at %s with --jobs %d: runs %v, want %d complete and %d to %d interrupted", point, jobs, runs, len(want), least, jobs)
		}
		t.Logf("kill at %s with --jobs %d: %v", point, jobs, runs)
	}
}

// The whole store is the same however many runs go at once.
func TestJobsDoNotShowInTheStore(t *testing.T) {
	export := func(jobs int) string {
		t.Chdir(t.TempDir())
		if status, _, errs := caserun(t, smallSweep(jobs)...); status != exitOK {
			t.Fatalf("--jobs %d: exit %d: %s", jobs, status, errs)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		tables, err := s.Tables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, table := range tables {
			fmt.Fprintln(&out, table.Name)
			if err := s.Rows(t.Context(), table, store.Filter{Warmups: true}, func(cells []any) error {
				_, err := fmt.Fprintln(&out, cells...)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	one := export(1)
	if diff := cmp.Diff(one, export(4)); diff != "" {
		t.Errorf("(-one at a time +four):\n%s", diff)
	}
	if !strings.Contains(one, "W2") {
		t.Error("the export lacks W2")
	}
}

// endless is a sweep of which there is much left when it is told to stop.
func endless(args ...string) []string {
	return append([]string{"sweep", "--mixes", "W1..W8", "--scheds", "sa,cg", "--node", "sim:2xV100", "--sim-noise", "0.01", "--reps", "500"}, args...)
}

// signalled sends a signal to a process when it has said that it is at work, and
// returns what it said and its exit status.
func signalled(t *testing.T, c *exec.Cmd, signal os.Signal) (said string, status int) {
	t.Helper()
	stderr := started(t, c)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if said == "" {
			if err := c.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		said += lines.Text() + "\n"
	}
	_ = c.Wait() // the status says it
	return said, c.ProcessState.ExitCode()
}

// A sweep that is told to stop says how to go on, and how far it was.
func TestInterruptedSweep(t *testing.T) {
	for signal, want := range map[os.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated, syscall.SIGHUP: exitHangup} {
		dir := t.TempDir()
		said, status := signalled(t, process(dir, endless("--db", "my.db")...), signal)
		if status != want {
			t.Errorf("%v: exit status %d, want %d", signal, status, want)
		}
		if !strings.Contains(said, "caserun sweep --resume 1 --db my.db resumes it") {
			t.Errorf("%v: stderr does not say how to go on:\n%s", signal, said)
		}
		s, err := store.OpenReadOnly(filepath.Join(dir, "my.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if w, err := s.Sweep(context.Background(), 1); err != nil || w.Status != results.Interrupted || w.PID != nil {
			t.Errorf("%v: the sweep is %+v (%v), want it interrupted", signal, w, err)
		}
		if open, err := s.Runs(context.Background(), store.Filter{Status: results.Running, Warmups: true}); err != nil || len(open) > 0 {
			t.Errorf("%v: %d runs are still said to be running (%v)", signal, len(open), err)
		}
	}
}

// A sweep that --force takes from a process that lives ends there, and has one
// complete run for each cell that is done.
func TestSweepThatIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	c := process(dir, endless("--jobs", "2")...)
	stderr := planned(t, c)
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for completeRuns(t, s) < 2 { // until it is at work
	}
	if status, _, errs := caserun(t, "sweep", "--resume", "1", "--force", "--time-limit", "100ms"); status != exitNothing {
		t.Errorf("--force: exit %d: %s", status, errs)
	}
	said, err := io.ReadAll(stderr)
	if err != nil {
		t.Error(err)
	}
	_ = c.Wait() // the status says it
	if status := c.ProcessState.ExitCode(); status != exitUsage || !strings.Contains(string(said), "over: what this process had under way is interrupted") {
		t.Errorf("the process that lost its sweep: exit %d: %s", status, said)
	}
	_, done, err := sweep.Remaining(t.Context(), s, 1, sweep.Part{})
	if err != nil {
		t.Fatal(err)
	}
	complete, err := s.Runs(t.Context(), store.Filter{Sweep: 1, Status: results.Complete, Warmups: true})
	if err != nil || len(complete) != done {
		t.Errorf("%d complete runs (%v) of %d cells that are done", len(complete), err, done)
	}
	if open, err := s.Runs(t.Context(), store.Filter{Sweep: 1, Status: results.Running, Warmups: true}); err != nil || len(open) > 0 {
		t.Errorf("%d runs are still said to be running (%v)", len(open), err)
	}
	if w, err := s.Sweep(t.Context(), 1); err != nil || w.Status != results.Interrupted {
		t.Errorf("the sweep is %+v (%v), want it interrupted", w, err)
	}
}

// Whoever closes a sweep's runs then ends the sweep. The sweep's own process may end it
// first. Closing does not fail because of that.
func TestSweepThatEndsWhileItIsClosed(t *testing.T) {
	inTempDir(t)
	if err := doPart(t, 7*time.Second); err == nil {
		t.Fatal("the sweep is complete")
	}
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.ClaimSweep(t.Context(), 1, "elsewhere", 7, ""); err != nil {
		t.Fatal(err)
	}
	read, err := s.Sweep(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EndSweep(t.Context(), 1, "elsewhere", 7, results.Interrupted); err != nil {
		t.Fatal(err)
	}
	if err := harness.CloseSweep(s, read); err != nil {
		t.Errorf("closed a sweep that its process had ended: %v", err)
	}
}

// Of many that resume a sweep at once, one does.
func TestSweepThatManyResume(t *testing.T) {
	dir := inTempDir(t)
	if err := doPart(t, 7*time.Second); err == nil {
		t.Fatal("the sweep is complete")
	}
	var all []*exec.Cmd
	for range 4 {
		c := process(dir, "sweep", "--resume", "1")
		c.Stderr = new(strings.Builder)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	did := 0
	for _, c := range all {
		_ = c.Wait() // the status says it
		said := fmt.Sprint(c.Stderr)
		switch status := c.ProcessState.ExitCode(); {
		case status == exitOK:
			did++
		case status != exitUsage, !strings.Contains(said, "caserun: sweep 1 is run by process "), !strings.Contains(said, "add --force"):
			t.Errorf("exit %d: %s", status, said)
		}
	}
	if did == 0 {
		t.Error("nobody resumed the sweep")
	}
	if _, runs := sweepResults(t, "caserun.db"); runs[results.Complete] != 20 || len(runs) != 1 {
		t.Errorf("runs %v, want 20 complete", runs)
	}
}

// What is started under nohup outlives its terminal.
func TestHangupStaysIgnored(t *testing.T) {
	c := process(t.TempDir(), smallSweep(1)...)
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, c.Args...)
	if said, status := signalled(t, c, syscall.SIGHUP); status != exitOK || strings.Contains(said, "stopping") {
		t.Errorf("exit %d: %s", status, said)
	}
}

// A terminal that closes sends SIGHUP twice.
func TestSweepWhoseTerminalCloses(t *testing.T) {
	c := process(t.TempDir(), endless()...)
	stderr := started(t, c)
	lines, sent := bufio.NewScanner(stderr), 0
	for lines.Scan() { // it is at work, and then it stops
		if sent == 0 || sent == 1 && strings.Contains(lines.Text(), "caserun: stopping;") {
			sent++
			if err := c.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustStop(t, c, exitHangup)
	if sent != 2 {
		t.Errorf("%d signals were sent, want 2", sent)
	}
}

// tee, to which a sweep talks, may end of the same SIGINT before it does.
func TestSweepToWhichNobodyListens(t *testing.T) {
	c := process(t.TempDir(), endless()...)
	stderr := planned(t, c)
	if err := errors.Join(stderr.Close(), c.Process.Signal(syscall.SIGINT)); err != nil {
		t.Fatal(err)
	}
	mustStop(t, c, exitInterrupted)
}

// started starts a process, and gives what it says.
func started(t *testing.T, c *exec.Cmd) (stderr io.ReadCloser) {
	t.Helper()
	stderr, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stderr
}

// planned starts a sweep, and returns when its plan is stored, of which it says something.
func planned(t *testing.T, c *exec.Cmd) (stderr io.ReadCloser) {
	t.Helper()
	stderr = started(t, c)
	if _, err := stderr.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return stderr
}

// mustStop waits for a sweep that ends with a status and says in its store that it
// was interrupted.
func mustStop(t *testing.T, c *exec.Cmd, status int) {
	t.Helper()
	var failed *exec.ExitError
	if err := c.Wait(); !errors.As(err, &failed) || failed.ExitCode() != status {
		t.Errorf("it ended with %v, want %d", err, status)
	}
	s, err := store.OpenReadOnly(filepath.Join(c.Dir, "caserun.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if w, err := s.Sweep(t.Context(), 1); err != nil || w.Status != results.Interrupted {
		t.Errorf("the sweep is %+v (%v), want it interrupted", w, err)
	}
}

// A reader that has seen enough is no error.
func TestReaderThatIsGone(t *testing.T) {
	c := process(t.TempDir(), "schedulers")
	read, written, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	var said strings.Builder
	c.Stdout, c.Stderr = written, &said
	var failed *exec.ExitError
	if err := c.Run(); !errors.As(err, &failed) || failed.ExitCode() != exitPipe || said.String() != "" {
		t.Errorf("it ended with %v, want %d: %s", err, exitPipe, said.String())
	}
	written.Close()
}
