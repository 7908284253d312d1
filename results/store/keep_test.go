package store

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store/disktest"
)

func silent(int, int) {}

func selected(t *testing.T, s *Store, f Filter) (ids []int64) {
	t.Helper()
	runs, err := s.Runs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// An excluded run keeps its rows and its checksum, and is selected only where it is asked for.
func TestExcludedRunsAreLeftOut(t *testing.T) {
	p := newPart(t, filepath.Join(t.TempDir(), "runs.db"), false, 3)
	for cell := range 3 {
		p.run(cell, results.Complete, 0, 0, 0)
	}
	ctx, s := t.Context(), p.db
	defer p.close()
	second := Chosen{Runs: []int64{2}}
	if err := errors.Join(s.Exclude(ctx, second, true), s.SetRemark(ctx, second, "the fan was off"), s.SetTag(ctx, second, "bad")); err != nil {
		t.Fatal(err)
	}
	if got := selected(t, s, Filter{}); !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("selected: %v, want the runs that are not excluded", got)
	}
	if got := selected(t, s, Filter{Excluded: true}); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("selected with excluded runs: %v, want all", got)
	}
	for f, want := range map[*Filter]int{{}: 1, {Last: 1}: 1, {Excluded: true}: 0, {Mix: "other"}: 0} {
		if n, err := s.Excluded(ctx, *f); err != nil || n != want {
			t.Errorf("%+v: %d excluded runs (%v), want %d", *f, n, err, want)
		}
	}
	run, err := s.Run(ctx, 2)
	if err != nil || !run.Excluded || run.Remark != "the fan was off" || run.Tag != "bad" {
		t.Errorf("run 2 is %v, noted %q, tagged %q (%v)", run.Excluded, run.Remark, run.Tag, err)
	}
	if err := errors.Join(s.Exclude(ctx, second, false), s.SetRemark(ctx, second, ""), s.SetTag(ctx, second, "")); err != nil {
		t.Fatal(err)
	}
	if run, err = s.Run(ctx, 2); err != nil || run.Excluded || run.Remark != "" || run.Tag != "" {
		t.Errorf("taken in again, run 2 is %v, noted %q, tagged %q (%v)", run.Excluded, run.Remark, run.Tag, err)
	}
}

// Of several complete runs of a cell one counts that is not excluded, whatever was excluded when.
func TestOneRunOfACellCounts(t *testing.T) {
	p := newPart(t, filepath.Join(t.TempDir(), "runs.db"), true, 1)
	defer p.close()
	for began := range 2 {
		p.run(0, results.Complete, 0, began, 0)
	}
	for _, step := range []struct {
		run      int64
		excluded bool
		counts   []int64
	}{
		{2, true, []int64{1}}, {2, false, []int64{1}}, {1, true, []int64{2}}, {2, true, nil}, {1, false, []int64{1}}, {2, false, []int64{1}},
	} {
		if err := p.db.Exclude(t.Context(), Chosen{Runs: []int64{step.run}}, step.excluded); err != nil {
			t.Fatal(err)
		}
		if got := selected(t, p.db, Filter{}); !slices.Equal(got, step.counts) {
			t.Errorf("excluded %v of run %d: runs %v count, want %v", step.excluded, step.run, got, step.counts)
		}
	}
	if err := p.db.Remove(t.Context(), Chosen{Runs: []int64{1}}, silent); err != nil {
		t.Fatal(err)
	}
	if got := selected(t, p.db, Filter{}); !slices.Equal(got, []int64{2}) {
		t.Errorf("without run 1, runs %v count, want run 2", got)
	}
}

// Merged, a run is excluded if it is in any store.
func TestMergeKeepsWhatIsExcluded(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"a.db", "b.db"} {
		p := newPart(t, filepath.Join(dir, name), false, 2)
		for cell := range 2 {
			p.run(cell, results.Complete, 0, 0, 0)
		}
		if name == "b.db" {
			chosen := Chosen{Runs: []int64{1}, Sweeps: []int64{1}}
			if err := errors.Join(p.db.Exclude(t.Context(), chosen, true), p.db.SetRemark(t.Context(), chosen, "cold")); err != nil {
				t.Fatal(err)
			}
		}
		paths = append(paths, p.close())
	}
	s := bothOrders(t, paths[0], paths[1])
	if got := selected(t, s, Filter{}); !slices.Equal(got, []int64{2}) {
		t.Errorf("runs %v count, want run 2", got)
	}
}

// removable has a sweep of 4 runs and 3 other runs.
func removable(t *testing.T, path string) string {
	p := newPart(t, path, false, 4)
	for cell := range 4 {
		p.run(cell, results.Complete, 0, 0, 0)
	}
	run, found := fullRun()
	for range 3 {
		record(t, p.db, run, fullRows(found))
	}
	if _, err := p.db.write.Exec("UPDATE sweep SET status = 'complete'"); err != nil {
		t.Fatal(err)
	}
	return p.close()
}

func TestRemoveTakesAllRows(t *testing.T) {
	s, err := Open(removable(t, filepath.Join(t.TempDir(), "runs.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	if err := s.Remove(ctx, Chosen{Runs: []int64{2, 6}, Sweeps: []int64{1}}, silent); err != nil {
		t.Fatal(err)
	}
	if w, err := s.Sweep(ctx, 1); err != nil || w.Status != results.Interrupted {
		t.Errorf("the sweep is %s (%v), want interrupted: it has runs, and one is missing", w.Status, err)
	}
	if err := s.Remove(ctx, Chosen{Runs: []int64{1, 3, 4, 5, 7}, Sweeps: []int64{1}}, silent); err != nil {
		t.Fatal(err)
	}
	tables, err := s.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if err := hasRows(s, "SELECT 1 FROM "+table.Name); err == nil {
			t.Errorf("table %s has rows of runs that were removed", table.Name)
		}
	}
	checkIntegrity(t, s)
}

// A process that works on a run or a sweep keeps its rows, and those of all others.
func TestHousekeepingRefusesWhatIsUnderWay(t *testing.T) {
	path := removable(t, filepath.Join(t.TempDir(), "runs.db"))
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := s.ClaimSweep(ctx, 1, "another host", 7, ""); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a tag": s.SetTag(ctx, Chosen{Sweeps: []int64{1}}, "x"), "another run": s.Remove(ctx, Chosen{Runs: []int64{6}}, silent),
	} {
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "sweep 1 is under way in process 7 of host another host") {
			t.Errorf("%s: %v, want ErrBusy with the process", what, err)
		}
	}
	if err := errors.Join(s.SetTag(ctx, Chosen{Runs: []int64{6}}, "x"), s.Close()); err != nil {
		t.Errorf("a run that nobody works on: %v", err)
	}
	if _, err := Vacuum(ctx, path, func(int64, int64) {}, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("vacuum: %v, want ErrBusy", err)
	}
}

// sizeOf is the length of a file.
func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// contentOf are all rows of a store.
func contentOf(t *testing.T, path string) string {
	t.Helper()
	s, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	checkIntegrity(t, s)
	return dump(t, s)
}

// half is a store of which half the pages hold nothing.
func half(t *testing.T, path string) string {
	t.Helper()
	p := newPart(t, path, false, 60)
	var runs []int64
	for cell := range 60 {
		runs = append(runs, p.run(cell, results.Complete, 0, 0, 0))
	}
	if err := p.db.Remove(t.Context(), Chosen{Runs: runs[:30]}, silent); err != nil {
		t.Fatal(err)
	}
	return p.close()
}

func TestVacuumGivesBytesBack(t *testing.T) {
	dir := t.TempDir()
	path := half(t, filepath.Join(dir, "runs.db"))
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	s, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	needs, err := s.Vacuuming(t.Context())
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	before, size := contentOf(t, path), sizeOf(t, path)
	v, err := Vacuum(t.Context(), link, func(int64, int64) {}, nil)
	if err != nil || v.Before != size || v.After != sizeOf(t, path) || v.After > needs.Needs || v.After > 4*size/5 {
		t.Errorf("%+v of %d bytes (%v), and the file has %d; it was to need %+v", v, size, err, sizeOf(t, path), needs)
	}
	if contentOf(t, path) != before {
		t.Error("a vacuum changed rows")
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone (%v)", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v (%v), want 0640", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

func TestVacuumOnAFullDisk(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	path := half(t, filepath.Join(t.TempDir(), "runs.db"))
	before := contentOf(t, path)
	for _, share := range []int64{1, 3} {
		err := disktest.WhileFull(t, uint64(sizeOf(t, path)*share/10), func() error {
			_, err := Vacuum(t.Context(), path, func(int64, int64) {}, nil)
			return err
		})
		if !errors.Is(err, ErrFull) {
			t.Errorf("%d0 %% of the space: %v, want ErrFull", share, err)
		}
		if contentOf(t, path) != before {
			t.Error("a vacuum that found no space changed rows")
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
	}
	if err := (Vacuuming{Needs: 2, Has: 1}).Enough(); !errors.Is(err, ErrFull) {
		t.Errorf("a vacuum that needs more than there is: %v, want ErrFull", err)
	}
}

// keepEnv makes TestHousekeepingIsKilled the process that it kills: what to do, and the store.
const keepEnv = "CASERUN_TEST_KEEP"

// A removal and a vacuum that are killed have done all or nothing, and the next one does it.
func TestHousekeepingIsKilled(t *testing.T) {
	if what, path, set := strings.Cut(os.Getenv(keepEnv), " "); set {
		if err := housekeep(t, what, path); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	for _, c := range []struct {
		what, point string
		done        bool
	}{
		{"remove", runRemoved + ":1", false}, {"remove", runRemoved + ":6", false}, {"remove", removalDone + ":1", false},
		{"vacuum", vacuumBegun + ":1", false}, {"vacuum", vacuumCopied + ":1", false}, {"vacuum", vacuumRenamed + ":1", true},
	} {
		path := removable(t, filepath.Join(dir, c.what+c.point+".db"))
		before, size := contentOf(t, path), sizeOf(t, path)
		child := exec.Command(os.Args[0], "-test.run", "^TestHousekeepingIsKilled$")
		child.Env = append(os.Environ(), KillVariable+"="+c.point, keepEnv+"="+c.what+" "+path)
		if said, err := child.CombinedOutput(); child.ProcessState == nil || child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v, want it killed: %s", c.point, err, said)
		}
		if contentOf(t, path) != before || (c.what == "vacuum" && !c.done && sizeOf(t, path) != size) {
			t.Errorf("%s: what was killed has changed the store", c.point)
		}
		if err := housekeep(t, c.what, path); err != nil {
			t.Errorf("%s: the next one: %v", c.point, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left: %v (%v)", c.point, left, err)
		}
	}
}

// housekeep removes runs of removable, or vacuums it.
func housekeep(t *testing.T, what, path string) error {
	if what == "vacuum" {
		_, err := Vacuum(t.Context(), path, func(int64, int64) {}, nil)
		return err
	}
	s, err := Open(path)
	if err != nil {
		return err
	}
	return errors.Join(s.Remove(t.Context(), Chosen{Runs: []int64{1, 2, 3, 4, 5, 6}, Sweeps: []int64{1}}, silent), s.Close())
}

// The sizes of all runs together are what the file has in use.
func TestSizesOfRuns(t *testing.T) {
	s, err := Open(removable(t, filepath.Join(t.TempDir(), "runs.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sizes, err := s.Sizes(t.Context(), silent)
	if err != nil {
		t.Fatal(err)
	}
	space, err := s.Space(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := int64(0)
	for _, n := range sizes {
		all += n
	}
	if len(sizes) != 7 || all > space.Used || all < space.Used*9/10 || sizes[5] == 0 {
		t.Errorf("sizes %v, together %d, of %+v", sizes, all, space)
	}
}
