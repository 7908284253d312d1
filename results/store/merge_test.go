package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store/disktest"
)

// tester is what the helpers below need of a test or of a property's check.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// part is a store of a sweep while it is made.
type part struct {
	t    tester
	path string
	db   *Store
	plan []results.Cell
	live bool
	on   func(*results.Provenance) // the machine of the runs to come, if it matters
}

// newPart makes a store with a plan of so many cells.
func newPart(t tester, path string, live bool, cells int) *part {
	t.Helper()
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &part{t: t, path: path, db: db, live: live}
	w := results.Sweep{Spec: fmt.Sprintf(`{"reps":%d}`, cells), Node: "sim:1xV100", Mode: results.Simulated, Seed: 1, Repetitions: cells}
	if live {
		w.Mode, w.Node, w.CreatedAt = results.Live, "local", ptr(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	}
	for i := range cells {
		p.plan = append(p.plan, results.Cell{Position: i, Mix: "W1", MixSource: "catalog", Scheduler: fmt.Sprint("s", i%2), Repetition: i/2 + 1, Seed: uint64(i)})
	}
	id, err := db.CreateSweep(context.Background(), w, p.plan)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.plan {
		p.plan[i].Sweep = id
	}
	return p
}

// run makes a run of a cell, which ends with a status. A complete run is a function of its cell, as
// long as what is 0. began is in seconds after a live sweep was planned.
func (p *part) run(cell int, status results.Status, restart, began, what int) int64 {
	p.t.Helper()
	ctx := context.Background()
	c := &p.plan[cell]
	run, found := fullRun()
	run.Mode, run.StartedAt, run.Sweep, run.Warmup, run.Repetition, run.Seed = results.Simulated, nil, &c.Sweep, c.Warmup, c.Repetition, c.Seed
	run.Provenance.PID = ptr(100*began + restart + 1)
	if p.on != nil {
		p.on(&run.Provenance)
	}
	if p.live {
		run.Mode, run.StartedAt = results.Live, ptr(time.Date(2026, 3, 4, 5, 6, 7+began, 0, time.UTC))
	}
	id, err := p.db.BeginCell(ctx, *c, restart, run, found)
	if err != nil {
		p.t.Fatal(err)
	}
	c.Run = &id
	w := p.db.Writer(id)
	w.Job(results.Job{Name: fmt.Sprint("job of ", cell), EndS: ptr(float64(cell + what)), Outcome: ptr(results.OK)})
	for i := range 40 {
		w.Segment(results.Segment{Series: results.SeriesGPU, FirstS: float64(i), LastS: float64(i), Samples: 1, Value: ptr(float64((i+cell)%7) / 7)})
	}
	w.Event(results.Event{Kind: results.EventFailed, Detail: fmt.Sprint("something ", cell, what)})
	if status == results.Running {
		if err := w.Flush(ctx); err != nil {
			p.t.Fatal(err)
		}
		return id
	}
	if run.Status = status; status == results.Complete && !p.live {
		run.Provenance.PID = nil
	}
	if err := w.Finish(ctx, run); err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *part) close() string {
	p.t.Helper()
	if err := p.db.Close(); err != nil {
		p.t.Fatal(err)
	}
	return p.path
}

func merged(t tester, out string, parts ...string) Merged {
	t.Helper()
	m, err := Merge(context.Background(), out, parts, Merging{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func bytesOf(t tester, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever parts a sweep was done in, and in whatever order and how often they are merged, the bytes
// are the same. The complete runs of a simulated sweep are those of the sweep done at once. No cell is
// lost, and each has one run that counts.
func TestMergeDoesNotDependOnTheOrder(t *testing.T) {
	chance.CheckTimes(t, 8, 500, func(t *rapid.T) { // each makes some 15 stores
		dir, err := os.MkdirTemp("", "merge-*")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		live := rapid.Bool().Draw(t, "live")
		cells := rapid.IntRange(1, 6).Draw(t, "cells")
		var parts []string
		complete := map[int]int{} // runs by cell
		began := 0
		for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
			p := newPart(t, filepath.Join(dir, fmt.Sprintf("part-%d.db", i)), live, cells)
			for cell := range cells {
				for range rapid.IntRange(0, 2).Draw(t, "interrupted") {
					began++
					p.run(cell, results.Interrupted, i, began, began)
				}
				if rapid.Bool().Draw(t, "complete") {
					began++
					p.run(cell, results.Complete, i, began, 0)
					complete[cell]++
				} else if rapid.Bool().Draw(t, "under way") {
					began++
					p.run(cell, results.Running, i, began, began)
				}
			}
			parts = append(parts, p.close())
		}
		once := filepath.Join(dir, "once.db")
		m := merged(t, once, parts...)
		if m.Cells != cells || m.Done != len(complete) {
			t.Errorf("%d of %d cells are done, want %d of %d", m.Done, m.Cells, len(complete), cells)
		}
		duplicates := 0
		for _, runs := range complete {
			if live {
				duplicates += runs - 1
			}
		}
		if m.Duplicates != duplicates {
			t.Errorf("%d duplicates, want %d", m.Duplicates, duplicates)
		}
		whole := bytesOf(t, once)
		shuffled := filepath.Join(dir, "shuffled.db")
		merged(t, shuffled, rapid.Permutation(append(parts, parts...)).Draw(t, "order")...)
		if bytesOf(t, shuffled) != whole {
			t.Error("another order gives other bytes")
		}
		stepwise := filepath.Join(dir, "stepwise.db")
		for _, path := range rapid.Permutation(parts).Draw(t, "steps") {
			merged(t, stepwise, path)
		}
		if bytesOf(t, stepwise) != whole {
			t.Error("one part after the other gives other bytes")
		}
		merged(t, stepwise, once, shuffled)
		if bytesOf(t, stepwise) != whole {
			t.Error("merged stores that are merged give other bytes")
		}
		if live {
			return
		}
		direct := newPart(t, filepath.Join(dir, "direct.db"), false, cells)
		for cell := range cells {
			if complete[cell] > 0 {
				direct.run(cell, results.Complete, 0, 0, 0)
			}
		}
		direct.close()
		if a, b := measurements(t, once), measurements(t, direct.path); a != b {
			t.Errorf("the complete runs are\n%s\nof the merge, and of the sweep done at once\n%s", a, b)
		}
	})
}

// measurements are the rows of the complete runs that count, without their numbers.
func measurements(t tester, path string) string {
	t.Helper()
	s, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	tables, err := s.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	modes, err := s.Modes(ctx, Filter{Status: results.Complete})
	if err != nil {
		t.Fatal(err)
	}
	f := Filter{IDs: []int64{-1}}
	for id := range modes {
		f.IDs = append(f.IDs, id)
	}
	var out strings.Builder
	for _, table := range tables {
		if table.OfSweeps() {
			continue
		}
		if err := s.Rows(ctx, table, f, func(cells []any) error {
			_, err := fmt.Fprintln(&out, table.Name, cells[1:])
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// Runs that are not of the sweep stay, under their numbers, and the sweep's come after them.
func TestMergeKeepsWhatTheStoreHas(t *testing.T) {
	dir := t.TempDir()
	main := newPart(t, filepath.Join(dir, "main.db"), true, 2)
	main.run(0, results.Complete, 0, 1, 0)
	single, found := fullRun()
	kept := record(t, main.db, single, fullRows(found))
	wantRun, wantRows := read(t, main.db, kept)
	out := main.close()
	a := newPart(t, filepath.Join(dir, "a.db"), true, 2)
	a.run(1, results.Complete, 0, 2, 0)
	m := merged(t, out, a.close())
	if m.Done != 2 || m.Runs != 2 || m.Sweep.Status != results.Complete {
		t.Errorf("merged %+v, want both runs", m)
	}
	s, err := OpenReadOnly(out)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gotRun, gotRows := read(t, s, kept)
	if fmt.Sprint(gotRun.Mix, gotRun.Seed, len(gotRows.Jobs)) != fmt.Sprint(wantRun.Mix, wantRun.Seed, len(wantRows.Jobs)) {
		t.Errorf("run %d is another one: %+v, want %+v", kept, gotRun, wantRun)
	}
	cells, err := s.Cells(t.Context(), m.Sweep.ID)
	if err != nil || *cells[0].Run != kept+1 || *cells[1].Run != kept+2 {
		t.Errorf("cells %+v (%v), want runs %d and %d", cells, err, kept+1, kept+2)
	}
}

// A store that belongs to another user still does after a merge. Who may not give a file away is told before anything is read.
func TestMergeKeepsTheOwner(t *testing.T) {
	dir := t.TempDir()
	a, b := newPart(t, filepath.Join(dir, "a.db"), false, 2), newPart(t, filepath.Join(dir, "b.db"), false, 2)
	a.run(0, results.Complete, 0, 0, 0)
	b.run(1, results.Complete, 0, 0, 0)
	out, part := a.close(), b.close()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root may give a file to another user")
	}
	if err := errors.Join(os.Chown(out, 12345, 54321), os.Chmod(out, 0o640)); err != nil {
		t.Fatal(err)
	}
	merged(t, out, part)
	var has unix.Stat_t
	if err := unix.Stat(out, &has); err != nil || has.Uid != 12345 || has.Gid != 54321 || has.Mode&0o777 != 0o640 {
		t.Errorf("the merged store is of user %d and group %d, mode %o (%v)", has.Uid, has.Gid, has.Mode, err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for another user
		t.Fatal(err)
	}
	runtime.LockOSThread() // what follows is of this thread alone
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(23456); err != nil {
		t.Fatal(err)
	}
	refused := (&workplace{doing: "merge into " + out, out: out}).keepOwner(part)
	if err := unix.Setfsuid(0); err != nil {
		t.Fatal(err)
	}
	if refused == nil || !errors.Is(refused, fs.ErrPermission) || !strings.Contains(refused.Error(), "let its owner do it") {
		t.Errorf("a user who may not give a file away: %v, want a refusal", refused)
	}
}

// Of several complete runs of a cell the first counts. The others are there, and nothing that
// measures sees them.
func TestMergeMarksDuplicates(t *testing.T) {
	dir := t.TempDir()
	var parts []string
	for i, began := range []int{5, 3, 9} {
		p := newPart(t, filepath.Join(dir, fmt.Sprint(i, ".db")), true, 1)
		p.run(0, results.Complete, 0, began, i)
		parts = append(parts, p.close())
	}
	out := filepath.Join(dir, "out.db")
	if m := merged(t, out, parts...); m.Runs != 3 || m.Duplicates != 2 || m.Done != 1 {
		t.Errorf("merged %+v, want 3 runs of which 2 are duplicates", m)
	}
	s, err := OpenReadOnly(out)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	counted, err := s.Runs(t.Context(), Filter{})
	if err != nil || len(counted) != 1 || counted[0].StartedAt.Second() != 7+3 {
		t.Errorf("%d runs count, want the one that began first (%v)", len(counted), err)
	}
	if all, err := s.Runs(t.Context(), Filter{Duplicates: true}); err != nil || len(all) != 3 {
		t.Errorf("%d runs (%v), want 3", len(all), err)
	}
}

func TestMergeRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	done := func(name string, cells, what int) string {
		p := newPart(t, at(name), false, cells)
		p.run(0, results.Complete, 0, 0, what)
		return p.close()
	}
	a := done("a.db", 2, 0)
	whole := bytesOf(t, a)
	write := func(name, text string) string {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	newer := done("newer.db", 2, 0)
	s, err := Open(newer)
	if err == nil {
		_, err = s.write.Exec("INSERT INTO " + versionTable + " (version_id, is_applied) VALUES (9999, 1)")
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	other := done("other-plan.db", 3, 0)
	changed := newPart(t, at("changed.db"), false, 2).close()
	if s, err = Open(changed); err == nil {
		_, err = s.write.Exec("UPDATE cell SET seed = '9' WHERE position = 1")
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, part, says string
		is               error
	}{
		{"a missing file", at("missing.db"), "no such file", nil},
		{"a directory", dir, "directory", nil},
		{"no store", write("text.db", "text"), "not a SQLite database", nil},
		{"an empty file", write("empty.db", ""), "holds no runs", nil},
		{"a truncated part", write("half.db", whole[:len(whole)/2]), "damaged", nil},
		{"a newer schema", newer, "schema version 9999 is newer", nil},
		{"another plan", other, "other-plan.db", ErrOtherPlan},
		{"another content", done("differs.db", 2, 1), "differs.db", ErrDiffer},
		{"a changed cell", changed, "1 cells of sweep 1 are not in the plan of the other parts", ErrOtherPlan},
	} {
		out := at("out.db")
		if _, err := Merge(t.Context(), out, []string{a, c.part}, Merging{}); err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.says)
		}
		if left, err := filepath.Glob(at(".out*")); exists(out) || err != nil || len(left) > 0 {
			t.Errorf("%s: a refused merge left something: %v", c.name, left)
		}
	}
	if _, err := Merge(t.Context(), other, []string{a}, Merging{}); !errors.Is(err, ErrOtherPlan) {
		t.Errorf("a store of another sweep: %v, want ErrOtherPlan", err)
	}
}

// A store without the sweep gets it if it may. Its own sweep and runs stay as they are, and a number that a sweep once had is
// not given again.
func TestMergeAddsASweep(t *testing.T) {
	dir := t.TempDir()
	done := func(name string, cells int) string {
		p := newPart(t, filepath.Join(dir, name), false, cells)
		for i := range cells {
			p.run(i, results.Complete, 0, 0, 0)
		}
		return p.close()
	}
	out, first, second := done("out.db", 2), done("first.db", 3), done("second.db", 4)
	db, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.write.Exec("UPDATE sqlite_sequence SET seq = 5 WHERE name = 'sweep'"); err != nil {
		t.Fatal(err)
	}
	own := rowsOf(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	add := func(part string) Merged {
		m, err := Merge(t.Context(), out, []string{part}, Merging{Add: true})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for i, c := range []struct {
		part  string
		cells int
	}{{first, 3}, {second, 4}} {
		if m := add(c.part); m.Sweep.ID != int64(6+i) || m.Sweep.Status != results.Complete || m.Done != c.cells || m.Cells != c.cells || m.Runs != c.cells {
			t.Errorf("%s: %+v", c.part, m)
		}
	}
	once := bytesOf(t, out)
	if add(second); bytesOf(t, out) != once {
		t.Error("the second time something changed")
	}
	if db, err = OpenReadOnly(out); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if now := rowsOf(t, db); !slices.Equal(now[:len(own)], own) || len(now) != len(own)+7 {
		t.Errorf("runs were\n%q\nand are\n%q", own, now)
	}
}

// rowsOf tells of each run its number, its uid and the number of its sweep.
func rowsOf(t *testing.T, db *Store) []string {
	t.Helper()
	rows, err := texts(t.Context(), db.read, "SELECT concat_ws(' ', id, uid, sweep_id) FROM run ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// mergeEnv makes TestMergeIsKilled the process that it kills. It has the store and its parts.
const mergeEnv = "CASERUN_TEST_MERGE"

// A merge that is killed leaves the store as it was until the new one has its name. The next merge makes it, and
// leaves nothing else.
func TestMergeIsKilled(t *testing.T) {
	if paths := filepath.SplitList(os.Getenv(mergeEnv)); len(paths) > 0 {
		merged(t, paths[0], paths[1:]...)
		return
	}
	dir := filepath.Join(t.TempDir(), "no [pattern")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.db")
	var parts []string
	for i := range 3 {
		p := newPart(t, filepath.Join(dir, fmt.Sprintf("part-%d.db", i)), false, 30)
		for cell := i; cell < 30; cell += 3 {
			p.run(cell, results.Complete, 0, 0, 0)
		}
		parts = append(parts, p.close())
	}
	merged(t, out, parts[0])
	before := bytesOf(t, out)
	want := filepath.Join(dir, "want.db")
	merged(t, want, parts...)
	after := bytesOf(t, want)
	for _, point := range []string{mergeBegun + ":1", partMerged + ":1", partMerged + ":3", mergeGathered + ":1", mergeSettled + ":1", mergeRenamed + ":1"} {
		c := exec.Command(os.Args[0], "-test.run", "^TestMergeIsKilled$")
		c.Env = append(os.Environ(), KillVariable+"="+point, mergeEnv+"="+strings.Join(append([]string{out}, parts...), string(filepath.ListSeparator)))
		if said, err := c.CombinedOutput(); c.ProcessState == nil || c.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v, want it killed: %s", point, err, said)
		}
		now := bytesOf(t, out)
		if point == mergeRenamed+":1" {
			if now != after {
				t.Errorf("%s: the store has other bytes than that of a merge that was not killed", point)
			}
			continue
		}
		if now != before { // the journal's mode may have changed, which is in the header
			if s, err := OpenReadOnly(out); err != nil {
				t.Fatal(err)
			} else if runs, err := s.Runs(t.Context(), Filter{}); err != nil || len(runs) != 10 {
				t.Fatalf("%s: %d runs (%v) in the store of a merge that was killed, want 10", point, len(runs), err)
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	merged(t, out, parts...)
	if bytesOf(t, out) != after {
		t.Error("after merges that were killed, a merge makes other bytes")
	}
	if left, err := fs.Glob(os.DirFS(dir), ".*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

func TestMergeOnAFullDisk(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	dir := t.TempDir()
	p := newPart(t, filepath.Join(dir, "part.db"), false, 200)
	for cell := range 200 {
		p.run(cell, results.Complete, 0, 0, 0)
	}
	path, out := p.close(), filepath.Join(dir, "out.db")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, share := range []int64{2, 3, 9} {
		err := disktest.WhileFull(t, uint64(info.Size()*share/10), func() error {
			_, err := Merge(t.Context(), out, []string{path}, Merging{})
			return err
		})
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), out) {
			t.Errorf("%d0 %% of the space: %v, want ErrFull for %s", share, err, out)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".*")); exists(out) || err != nil || len(left) > 0 {
			t.Errorf("a merge that found no space left %v", left)
		}
	}
	merged(t, out, path)
}

// A store that another program has open is not replaced. A program that opens it during a merge gets
// the store that the merge made.
func TestMergeAndOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	a, b := newPart(t, filepath.Join(dir, "a.db"), false, 2), newPart(t, filepath.Join(dir, "b.db"), false, 2)
	a.run(0, results.Complete, 0, 0, 0)
	b.run(1, results.Complete, 0, 0, 0)
	out, part := a.close(), b.close()
	open, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Merge(ctx, out, []string{part}, Merging{}); err == nil || !strings.Contains(err.Error(), "another program has the store open") {
		t.Errorf("a store that is open: %v", err)
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := holdStore(t.Context(), "merge", out, nil)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan *Store)
	go func() {
		s, err := Open(out)
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	select {
	case <-opened:
		t.Fatal("a store was opened that a merge holds")
	case <-time.After(300 * time.Millisecond):
	}
	whole := filepath.Join(dir, "whole.db")
	merged(t, whole, part)
	if err := errors.Join(os.Rename(whole, out), h.release()); err != nil {
		t.Fatal(err)
	}
	s := <-opened
	defer s.Close()
	if runs, err := s.Runs(t.Context(), Filter{}); err != nil || len(runs) != 1 || *mustCell(t, s, 1).Run != runs[0].ID {
		t.Errorf("a program that waited has %+v (%v), want the run of the new store", runs, err)
	}
}

func mustCell(t *testing.T, s *Store, position int) results.Cell {
	t.Helper()
	cells, err := s.Cells(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return cells[position]
}

// Parts that are merged while a process writes them give what they have.
func TestMergePartBeingWritten(t *testing.T) {
	dir := t.TempDir()
	p := newPart(t, filepath.Join(dir, "part.db"), false, 3)
	p.run(0, results.Complete, 0, 0, 0)
	p.run(1, results.Running, 0, 0, 0)
	out := filepath.Join(dir, "out.db")
	if m := merged(t, out, p.path); m.Done != 1 || m.Runs != 1 || m.Sweep.Status != results.Interrupted {
		t.Errorf("merged %+v of a part that has one run, and another one under way", m)
	}
	p.run(2, results.Complete, 0, 0, 0)
	if m := merged(t, out, p.close()); m.Done != 2 {
		t.Errorf("merged %+v later, want 2 runs", m)
	}
}

// Merging parts of 100 small runs each takes time in proportion to their number, and no more memory
// for many parts than for few. peak-MB is of the whole process.
func BenchmarkMerge(b *testing.B) {
	const runs = 100
	for _, parts := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("parts=%d", parts), func(b *testing.B) {
			dir := b.TempDir()
			first := newPart(b, filepath.Join(dir, "0.db"), false, parts*runs)
			for cell := range runs {
				first.run(cell, results.Complete, 0, 0, 0)
			}
			paths := []string{first.close()}
			other := bytesOf(b, paths[0])
			for i := 1; i < parts; i++ {
				path := filepath.Join(dir, fmt.Sprint(i, ".db"))
				if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
					b.Fatal(err)
				}
				moveRuns(b, path, i*runs)
				if i == 1 { // the others have the cells of their runs alone, to save space
					other = bytesOf(b, path)
				}
				paths = append(paths, path)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
					b.Fatal(err)
				}
				out := filepath.Join(dir, "out.db")
				if m := merged(b, out, paths...); m.Done != parts*runs {
					b.Fatalf("merged %+v", m)
				}
				if err := os.Remove(out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*parts*runs)/b.Elapsed().Seconds(), "runs/s")
			b.ReportMetric(peakMB(b), "peak-MB")
		})
	}
}

// moveRuns makes the runs of a part those of the cells from a position on.
func moveRuns(b *testing.B, path string, to int) {
	b.Helper()
	db := connect(path, "", 1, "synchronous = OFF", "foreign_keys = OFF")
	_, err := db.Exec(fmt.Sprintf(`DELETE FROM cell WHERE run_id IS NULL;
		UPDATE run SET cell_position = %[1]d + id, seed = %[1]d + id, uid = case_uid('moved', %[1]d + id);
		UPDATE cell SET position = %[1]d + run_id, seed = %[1]d + run_id;
		VACUUM`, to-1))
	if err = errors.Join(err, db.Close()); err != nil {
		b.Fatal(err)
	}
}

// peakMB is the most memory that this process has had since clear_refs was written.
func peakMB(b *testing.B) float64 {
	for line := range strings.Lines(bytesOf(b, "/proc/self/status")) {
		var kB float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kB); n == 1 {
			return kB / 1024
		}
	}
	b.Fatal("no VmHWM")
	return 0
}

// bothOrders merges two parts in both orders, which must not matter.
func bothOrders(t *testing.T, a, b string) *Store {
	t.Helper()
	dir := t.TempDir()
	ab, ba := filepath.Join(dir, "ab.db"), filepath.Join(dir, "ba.db")
	merged(t, ab, a, b)
	merged(t, ba, b, a)
	if bytesOf(t, ab) != bytesOf(t, ba) {
		t.Error("the order of the parts matters")
	}
	s, err := OpenReadOnly(ab)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// One simulated run that two machines made is one run. It says that the first machine, as text, made it.
func TestMergeOfTwoMachines(t *testing.T) {
	var parts []string
	for _, host := range []string{"host-b", "host-a"} {
		p := newPart(t, filepath.Join(t.TempDir(), "part.db"), false, 1)
		p.on = func(of *results.Provenance) { of.Host, of.Cores = host, len(parts)+1 }
		p.run(0, results.Complete, 0, 0, 0)
		parts = append(parts, p.close())
	}
	found, err := bothOrders(t, parts[0], parts[1]).Runs(t.Context(), Filter{Duplicates: true})
	if err != nil || len(found) != 1 || found[0].Provenance.Host != "host-a" || found[0].Provenance.Cores != 2 {
		t.Errorf("runs %+v (%v), want the one of host-a with its 2 cores", found, err)
	}
}

// A block that was begun on one machine and done on another one is of the second, and one that both did is of the first.
// Where neither did the whole block, it is of both.
func TestMergeChoosesWholeBlocks(t *testing.T) {
	ctx := t.Context()
	var parts []string
	for began, of := range []struct {
		host  string
		cells []int // two are a block
	}{{"host-a", []int{0, 2, 3, 4}}, {"host-b", []int{0, 1, 2, 3, 5}}} {
		p := newPart(t, filepath.Join(t.TempDir(), "part.db"), true, 6)
		p.on = func(machine *results.Provenance) { machine.Host = of.host }
		for _, cell := range of.cells {
			p.run(cell, results.Complete, 0, 1+began, 0)
		}
		parts = append(parts, p.close())
	}
	s := bothOrders(t, parts[0], parts[1])
	cells, err := s.Cells(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	done := map[string]map[int]bool{}
	for _, c := range cells {
		run, err := s.Run(ctx, *c.Run)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, strings.TrimPrefix(run.Provenance.Host, "host-"))
		devices, err := s.Devices(ctx, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		machine := results.Machine(run.Mode, run.Provenance.Host, devices)
		if done[machine], err = s.DoneOn(ctx, 1, machine); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(hosts, ""); got != "bbaaab" {
		t.Errorf("the cells are of hosts %s, want bbaaab", got)
	}
	for machine, positions := range done {
		if want := map[string]int{"host-a": 4, "host-b": 5}[machine[:6]]; len(positions) != want {
			t.Errorf("%q has done %v, want %d cells", machine, positions, want)
		}
	}
	if runs, err := s.Runs(ctx, Filter{Sweep: 1}); err != nil || len(runs) != 6 {
		t.Errorf("%d runs count (%v), want 6", len(runs), err)
	}
}

// Of interrupted runs with one uid, one stays, whichever part comes first.
func TestMergeOfInterruptedRuns(t *testing.T) {
	var parts []string
	for what := range 2 {
		p := newPart(t, filepath.Join(t.TempDir(), "part.db"), false, 1)
		p.run(0, results.Interrupted, 0, 0, what)
		parts = append(parts, p.close())
	}
	s := bothOrders(t, parts[0], parts[1])
	if found, err := s.Runs(t.Context(), Filter{}); err != nil || len(found) != 1 {
		t.Errorf("%d runs (%v), want 1", len(found), err)
	}
	if jobs, err := s.Jobs(t.Context(), 1); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs (%v), want those of one run", len(jobs), err)
	}
}

// A run that went on after its part was copied, and that the copy's process closed, is complete.
func TestMergeOfARunThatWentOn(t *testing.T) {
	ctx := t.Context()
	p := newPart(t, filepath.Join(t.TempDir(), "part.db"), true, 1)
	id := p.run(0, results.Running, 0, 1, 0)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if _, err := p.db.write.Exec("VACUUM INTO ?", copied); err != nil {
		t.Fatal(err)
	}
	finish := func(s *Store, status results.Status) {
		run, err := s.Run(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		run.Status = status
		w, err := s.Resume(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Finish(ctx, run), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	finish(p.db, results.Complete)
	other, err := Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	finish(other, results.Interrupted)
	found, err := bothOrders(t, p.path, copied).Runs(ctx, Filter{})
	if err != nil || len(found) != 1 || found[0].Status != results.Complete {
		t.Errorf("runs %+v (%v), want one that is complete", found, err)
	}
}
