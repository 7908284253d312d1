package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
)

// ownEnv marks the process that inItsOwnProcess starts.
const ownEnv = "CASERUN_TEST_IN_ITS_OWN_PROCESS"

// inItsOwnProcess runs the test once more in a process that ends with it, where a
// limit on files meets none of go test's, and reports whether this is that process.
func inItsOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownEnv) != "" {
		return true
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), ownEnv+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return false
}

// addJobs stores a run with some hundred kilobytes of jobs.
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

// A file that cannot grow takes rows into its journal and not into itself: the
// journal is part of the store then, and its user must know.
func TestCloseSaysThatTheJournalStays(t *testing.T) {
	if !inItsOwnProcess(t) {
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
	restore := limitFiles(t, uint64(info.Size()))
	id := addJobs(t, s)
	err = s.Close()
	restore()
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

// limitFiles is a disk that no file may grow on beyond so many bytes.
func limitFiles(t *testing.T, bytes uint64) (restore func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	}
}

// Whoever reads meanwhile keeps the journal, and does not keep Close.
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
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > lockPatience/2 {
		t.Errorf("Close waited for %v", took)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the journal that is read is gone: %v", err)
	}
}
