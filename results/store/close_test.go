package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store/disktest"
)

// addJobs stores a run with several hundred kilobytes of jobs.
func addJobs(t *testing.T, s *Store) int64 {
	t.Helper()
	run, found := fullRun()
	id, err := s.BeginRun(context.Background(), run, found)
	if err != nil {
		t.Fatal(err)
	}
	w := s.Writer(id)
	for i := range 100 {
		w.Job(results.Job{Index: i, Name: "job", StderrTail: strings.Repeat("x", 4000)})
	}
	if err := w.Finish(context.Background(), run); err != nil {
		t.Fatal(err)
	}
	return id
}

// A store whose file cannot grow keeps rows in its journal only. The journal is then part of
// the store, and the user must know that.
func TestCloseSaysThatTheJournalStays(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	addJobs(t, s)
	addJobs(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	var id int64
	err = disktest.WhileFull(t, uint64(info.Size()), func() error {
		id = addJobs(t, s)
		return s.Close()
	})
	if !errors.Is(err, ErrFull) || !strings.Contains(fmt.Sprint(err), path+"-wal") {
		t.Errorf("closed on a full disk: %v; want an error that names the journal", err)
	}
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	if jobs, err := s.Jobs(context.Background(), id); err != nil || len(jobs) != 100 {
		t.Errorf("%d of 100 jobs (%v) are there with the journal", len(jobs), err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed with space: %v", err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal stays: %v", err)
	}
}

// Another program that reads the store keeps its journal, and does not block Close.
func TestCloseWhileAnotherReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	addJobs(t, s)
	reader, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	tx, err := reader.read.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM run").Scan(&n); err != nil {
		t.Fatal(err)
	}
	addJobs(t, s)
	if err := s.fold(); err != nil {
		t.Error(err)
	}
	var waits int // in ms
	if err := s.write.QueryRow("PRAGMA busy_timeout").Scan(&waits); err != nil || waits != 0 {
		t.Errorf("Close waits for a reader for %d ms (%v)", waits, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the journal that is read is gone: %v", err)
	}
}

// A store that somebody removes or replaces takes nothing more, because nobody could read it.
func TestStoreThatIsGone(t *testing.T) {
	for what, take := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path+".other", path) },
	} {
		path := filepath.Join(t.TempDir(), "runs.db")
		if err := os.WriteFile(path+".other", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		addJobs(t, s)
		run, found := fullRun()
		id, err := s.BeginRun(t.Context(), run, found)
		if err != nil {
			t.Fatal(err)
		}
		if err := take(path); err != nil {
			t.Fatal(err)
		}
		if _, err := s.BeginRun(t.Context(), run, found); !errors.Is(err, errGone) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: a run begins: %v", what, err)
		}
		w := s.Writer(id)
		w.Job(results.Job{Index: 1, Name: "job"})
		if err := w.Finish(t.Context(), run); !errors.Is(err, errGone) {
			t.Errorf("%s: a run ends: %v", what, err)
		}
		_ = s.Close() // what it says of the journal does not matter
	}
}
