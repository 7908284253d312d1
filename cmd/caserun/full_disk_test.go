package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/regress"
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

// whileFull runs do on a disk that takes a few bytes of each file.
func whileFull(t *testing.T, do func() error) error {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 20, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	err := do()
	if restored := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); restored != nil {
		t.Fatal(restored)
	}
	return err
}

// A CI job that finds a report takes it for a whole one.
func TestFullDiskKeepsTheEarlierJUnitReport(t *testing.T) {
	if !inItsOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "gate.xml")
	if err := os.WriteFile(path, []byte("earlier"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := whileFull(t, func() error { return writeJUnit(path, regress.Report{}) }); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error %v, want one of a full disk", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "earlier" {
		t.Errorf("the report is %q (%v), want what was there", text, err)
	}
}

// Where the page is, the rest is: not so after a disk was full.
func TestFullDiskLeavesNoPage(t *testing.T) {
	if !inItsOwnProcess(t) {
		return
	}
	dir := t.TempDir()
	page, err := paper.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := writePaper(page, dir, false, figures.SVG); err != nil {
		t.Fatal(err)
	}
	if err := whileFull(t, func() error { return writePaper(page, dir, true, figures.SVG) }); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error %v, want one of a full disk", err)
	}
	if _, err := os.Stat(filepath.Join(dir, paperPage)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the earlier page stays beside new tables: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("half written: %v (%v)", left, err)
	}
	if err := writePaper(page, dir, true, figures.SVG); err != nil {
		t.Error(err)
	}
	if err := writePaper(page, dir, false, figures.SVG); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want one that a page is there", err)
	}
}
