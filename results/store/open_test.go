package store

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caserun/caserun/results"
)

// crashEnv makes the test binary a writer that never stops by itself.
const crashEnv = "CASERUN_TEST_STORE_TO_CRASH"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := writeForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func writeForever(path string) error {
	ctx := context.Background()
	s, err := Open(path)
	if err != nil {
		return err
	}
	run, found := fullRun()
	id, err := s.BeginRun(ctx, run, found)
	if err != nil {
		return err
	}
	w := s.Writer(id)
	for i := 0; ; i++ {
		w.Job(results.Job{Index: i, Name: "job"})
		for k := range 200 {
			w.Kernel(results.Kernel{Job: i, Name: "k", StartS: float64(k), EndS: float64(k + 1)})
		}
		if i%50 == 0 {
			if err := w.Flush(ctx); err != nil {
				return err
			}
			fmt.Println(i)
		}
	}
}

func TestKilledWriterLeavesACleanStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashEnv+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	flushed := -1
	lines := bufio.NewScanner(out)
	for range 4 {
		if !lines.Scan() {
			break
		}
		if _, err := fmt.Sscan(lines.Text(), &flushed); err != nil {
			t.Error(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
	if flushed < 150 {
		t.Fatalf("the child flushed only up to job %d", flushed)
	}
	for name, open := range map[string]func(string) (*Store, error){"read-only": OpenReadOnly, "writing": Open} {
		s, err := open(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkIntegrity(t, s)
		found, err := s.Jobs(context.Background(), 1)
		if err != nil || len(found) <= flushed {
			t.Errorf("%s: %d jobs (%v), but job %d had been flushed", name, len(found), err, flushed)
		}
		if r, err := s.Run(context.Background(), 1); err != nil || r.Status != results.Running {
			t.Errorf("%s: the killed run has status %q (%v), want running", name, r.Status, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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

func TestProcessesMayOpenANewStoreAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var opening sync.WaitGroup
	for range 8 {
		opening.Go(func() {
			s, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			begin(t, s)
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
	if _, err := OpenReadOnly(path); err == nil || !strings.Contains(err.Error(), "no runs yet") {
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
