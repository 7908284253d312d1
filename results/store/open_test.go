package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestOpenCreatesAndReopens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a ?#%41 b.db")
	for want := range 3 {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Runs(context.Background(), Filter{})
		if err != nil || len(found) != want {
			t.Errorf("%d runs (%v), want %d", len(found), err, want)
		}
		begin(t, s)
		have, latest, err := versions(context.Background(), path, s.write)
		if err != nil || have != latest || latest < 1 {
			t.Errorf("schema version %d, latest %d (%v)", have, latest, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v left behind (%v), want the store alone", left, err)
	}
}

func TestManyMayOpenANewStoreAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var opening sync.WaitGroup
	for range 8 {
		opening.Go(func() {
			s, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			run, found := fullRun()
			if _, err := s.BeginRun(context.Background(), run, found); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	s, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if found, err := s.Runs(context.Background(), Filter{}); err != nil || len(found) != 8 {
		t.Errorf("%d runs (%v), want 8", len(found), err)
	}
}

func TestForeignKeysHoldOnEveryConnection(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	for name, db := range map[string]*sql.DB{"write": s.write, "read": s.read} {
		for i := range db.Stats().MaxOpenConnections {
			conn, err := db.Conn(ctx) // kept open, so that the next is another
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var on, patience int
			if err := conn.QueryRowContext(ctx, "PRAGMA foreign_keys").Scan(&on); err != nil || on != 1 {
				t.Errorf("%s connection %d: foreign_keys = %d (%v)", name, i, on, err)
			}
			if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&patience); err != nil || patience == 0 {
				t.Errorf("%s connection %d: busy_timeout = %d (%v)", name, i, patience, err)
			}
			_, err = conn.ExecContext(ctx, "INSERT INTO event VALUES (999, 0, 0, 'oom', NULL, NULL, '')")
			if err == nil {
				t.Errorf("%s connection %d accepted an event of no run", name, i)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(in("text.db"), []byte("mix: W7\n"), 0o644))
	must(os.WriteFile(in("long.db"), []byte(strings.Repeat("mix: W7\n", 1000)), 0o644))
	must(os.Mkdir(in("dir.db"), 0o755))
	foreign, err := sql.Open("sqlite3", in("foreign.db"))
	must(err)
	_, err = foreign.Exec("CREATE TABLE bookmark (url TEXT)")
	must(errors.Join(err, foreign.Close()))
	newer, err := Open(in("newer.db"))
	must(err)
	_, err = newer.write.Exec("INSERT INTO " + versionTable + " (version_id, is_applied) VALUES (999, 1)")
	must(errors.Join(err, newer.Close()))
	readOnly := "/sys" // where even root may not create a file
	if os.Getuid() != 0 {
		readOnly = in("locked")
		must(os.Mkdir(readOnly, 0o555))
	}

	for _, c := range []struct {
		path string
		want string
	}{
		{in("text.db"), "not a SQLite database"},
		{in("long.db"), "not a SQLite database"},
		{in("dir.db"), "not a regular file"},
		{in("foreign.db"), "not one of caserun's"},
		{in("newer.db"), "schema version 999 is newer"},
		{in("absent/runs.db"), "its directory"},
		{filepath.Join(readOnly, "runs.db"), "cannot be written"},
	} {
		s, err := Open(c.path)
		if err == nil {
			t.Errorf("%s was opened", c.path)
			s.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("got error %q, want one with the path and %q", err, c.want)
		}
	}
	text, err := os.ReadFile(in("text.db"))
	if err != nil || string(text) != "mix: W7\n" {
		t.Errorf("the refused file was changed to %q (%v)", text, err)
	}
}

func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "runs.db")
	if _, err := OpenReadOnly(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v for an absent store, want ErrNotExist", err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReadOnly(path); err == nil || !strings.Contains(err.Error(), "holds no runs") {
		t.Errorf("got error %v for an empty file", err)
	}
	writing, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	run, found := fullRun()
	record(t, writing, run, fullRows(found))
	reading, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reading.BeginRun(context.Background(), run, found); err == nil {
		t.Error("a read-only store began a run")
	}
	if err := reading.Writer(1).Flush(context.Background()); err == nil {
		t.Error("a read-only store has a writer")
	}
	if _, err := reading.read.Exec("DELETE FROM run"); err == nil {
		t.Error("the reading handle deleted rows")
	}
	if _, err := reading.Run(context.Background(), 99); !errors.Is(err, ErrNoRun) {
		t.Errorf("got error %v for an absent run, want ErrNoRun", err)
	}
	if err := errors.Join(reading.Close(), writing.Close()); err != nil {
		t.Error(err)
	}
}

// lock makes a directory read-only, for root with a mount.
func lock(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		return
	}
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("root cannot make a directory read-only here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("root cannot make a directory read-only here: %v", err)
	}
}

func TestArchivedStoreIsReadable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "runs.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lock(t, dir)
	if s, err := Open(path); err == nil {
		t.Error("a store in a read-only directory was opened for writing")
		s.Close()
	}
	s, err = OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.Runs(context.Background(), Filter{}); err != nil || len(found) != 1 {
		t.Errorf("%d runs (%v), want 1", len(found), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// On a network file system a store has no write-ahead log, also one that had it on a disk. It is read while it is written.
func TestStoreOnANetwork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	s, err = open(link, func(on string) (string, error) {
		if on != filepath.Dir(path) {
			t.Errorf("asked about %s, want the directory of the file", on)
		}
		return "NFS", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var journal string
	if err := s.write.QueryRow("PRAGMA journal_mode").Scan(&journal); err != nil || journal != "delete" {
		t.Errorf("journal %s, %v", journal, err)
	}
	for range 3 {
		begin(t, s)
		reader, err := OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Runs(context.Background(), Filter{}); err != nil {
			t.Error(err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		if exists(path+"-wal") || exists(path+"-shm") {
			t.Error("it has a write-ahead log")
		}
	}
	if runs, err := s.Runs(context.Background(), Filter{}); err != nil || len(runs) != 4 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Reading a journal that a killed program left needs permission to write.
func TestJournalInALockedDirectory(t *testing.T) {
	from, dir := filepath.Join(t.TempDir(), "runs.db"), t.TempDir()
	path := filepath.Join(dir, "runs.db")
	s, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	for _, part := range []string{"", "-wal"} { // as kill -9 leaves them, with the index gone
		text, err := os.ReadFile(from + part)
		if err == nil {
			err = os.WriteFile(path+part, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lock(t, dir)
	s, err = OpenReadOnly(path)
	if err == nil {
		s.Close()
		t.Fatal("it was opened without its journal")
	}
	if want := path + "-wal is not in the file yet"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
