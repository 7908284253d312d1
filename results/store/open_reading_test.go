package store

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range found {
		out = append(out, f.Name())
	}
	return out
}

// mustHave checks that the store at path has the given number of runs. It only reads the store.
func mustHave(t *testing.T, path string, runs int) {
	t.Helper()
	s, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.Runs(context.Background(), Filter{}); err != nil || len(found) != runs {
		t.Errorf("%d runs (%v), want %d", len(found), err, runs)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// killed makes the files that kill -9 leaves of a store, with a run in the journal.
func killed(t *testing.T) (path string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "runs.db")
	path = filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	for _, part := range []string{"", "-wal"} {
		if err := duplicate(from+part, path+part); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A reader, like a writer, leaves a file that is the whole store.
func TestReadingLeavesTheStoreAlone(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(closed)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"a store that was closed": closed, "one whose writer was killed": killed(t)} {
		mustHave(t, path, 1)
		if left := names(t, filepath.Dir(path)); !slices.Equal(left, []string{"runs.db"}) {
			t.Errorf("%s: %v are left", what, left)
		}
		moved := filepath.Join(t.TempDir(), "moved.db")
		if err := duplicate(path, moved); err != nil {
			t.Fatal(err)
		}
		mustHave(t, moved, 1)
	}
}

func TestReaderThatEndsLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	writing, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, writing)
	if err := errors.Join(writing.Close(), reading.Close()); err != nil {
		t.Fatal(err)
	}
	if left := names(t, filepath.Dir(path)); !slices.Equal(left, []string{"runs.db"}) {
		t.Errorf("%v are left", left)
	}
	mustHave(t, path, 1)
}

// anotherEnv is the store that TestReadingAsAnotherUser reads as that user.
const anotherEnv = "CASERUN_TEST_STORE_OF_ANOTHER"

// Files that another user's reading left beside the store would belong to that user, and would
// keep the store's owner from writing.
func TestReadingAsAnotherUser(t *testing.T) {
	if path := os.Getenv(anotherEnv); path != "" {
		if exists(os.TempDir()) {
			readAsAnother(t, path)
		} else if _, err := OpenReadOnly(path); err == nil || !strings.Contains(err.Error(), "TMPDIR="+os.TempDir()+" cannot be used: name a directory") {
			t.Errorf("without a directory for the copy: %v", err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	for _, open := range []bool{false, true} {
		dir, err := os.MkdirTemp("/tmp", "caserun-users-") // other users may enter /tmp
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		path, temp := filepath.Join(dir, "runs.db"), filepath.Join(dir, "tmp")
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		begin(t, s)
		if !open {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(dir, "links", "runs.db")
		if err := errors.Join(os.Mkdir(temp, 0o777), os.Chmod(temp, 0o777), os.Mkdir(filepath.Dir(link), 0o755), os.Symlink(path, link),
			os.Chmod(dir, 0o777), os.Chmod(path, 0o644)); err != nil {
			t.Fatal(err)
		}
		beside := names(t, dir)
		tries := [][2]string{{path, temp}, {link, temp}}
		if !open {
			tries = append(tries, [2]string{path, "/nonexist"})
		}
		for _, try := range tries {
			name, temp := try[0], try[1]
			child := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
			child.Dir, child.Env = dir, append(os.Environ(), anotherEnv+"="+name, "TMPDIR="+temp)
			child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
				t.Errorf("open %v, %s: %v:\n%s", open, name, err, out)
			}
		}
		if left := names(t, dir); !slices.Equal(left, beside) {
			t.Errorf("open %v: %v are there, want %v", open, left, beside)
		}
		if !open {
			if s, err = Open(path); err != nil {
				t.Fatal(err)
			}
		}
		begin(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left := names(t, dir); !slices.Equal(left, []string{"links", "runs.db", "tmp"}) {
			t.Errorf("open %v: %v are left", open, left)
		}
	}
}

func readAsAnother(t *testing.T, path string) {
	beside := names(t, filepath.Dir(path))
	s, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Path() != path {
		t.Errorf("the store is called %s, want %s", s.Path(), path)
	}
	if found, err := s.Runs(t.Context(), Filter{}); err != nil || len(found) != 1 {
		t.Errorf("%d runs (%v), want 1", len(found), err)
	}
	copied := filepath.Join(t.TempDir(), "copied.db") // also what a bundle has
	if err := s.CopyRuns(t.Context(), copied, Filter{}); err != nil {
		t.Error(err)
	}
	mustHave(t, copied, 1)
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, beside) {
		t.Errorf("while it is read, %v are there, want %v", got, beside)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "caserun-store-*")); err != nil || len(left) > 0 {
		t.Errorf("copies are left: %v (%v)", left, err)
	}
}

// A copy is discarded if another program wrote meanwhile. A store with a journal beside it is
// read in place.
func TestSnapshot(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	failed := errors.New("no space")
	for what, c := range map[string]struct {
		meanwhile func(path string, attempt int) error
		attempts  int
		copied    bool
		fail      string
	}{
		"nobody writes": {func(string, int) error { return nil }, 1, true, ""},
		"somebody began and ended": {func(path string, attempt int) error {
			if attempt > 1 {
				return nil
			}
			s, err := Open(path)
			if err != nil {
				return err
			}
			begin(t, s)
			return s.Close()
		}, 2, true, ""},
		"somebody began":    {func(path string, _ int) error { return os.WriteFile(path+"-wal", nil, 0o644) }, 1, false, ""},
		"always another":    {func(path string, attempt int) error { return os.Truncate(path, int64(attempt)) }, 5, false, "it changed during each of 5 attempts"},
		"it cannot be read": {func(string, int) error { return failed }, 1, false, failed.Error()},
	} {
		path := filepath.Join(t.TempDir(), "runs.db")
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		attempts := 0
		dir, err := snapshot(path, func(from, to string) error {
			attempts++
			return errors.Join(duplicate(from, to), c.meanwhile(path, attempts))
		})
		if (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%s: error %v, want %q", what, err, c.fail)
		}
		if attempts != c.attempts || (dir != "") != c.copied {
			t.Errorf("%s: %d attempts and the copy %q, want %d and a copy: %v", what, attempts, dir, c.attempts, c.copied)
		}
		if err := os.RemoveAll(dir); dir != "" && err != nil {
			t.Error(err)
		}
		if left := names(t, temp); len(left) > 0 {
			t.Errorf("%s: %v are left", what, left)
		}
	}
	path := killed(t)
	if dir, err := snapshot(path, duplicate); err != nil || dir != "" {
		t.Errorf("with a journal: copied to %q (%v)", dir, err)
	}
}
