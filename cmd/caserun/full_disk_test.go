package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store/disktest"
)

// few is how many bytes of each file a full disk takes here.
const few = 20

// A CI job that finds a report takes it for a whole one.
func TestFullDiskKeepsTheEarlierJUnitReport(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "gate.xml")
	if err := os.WriteFile(path, []byte("earlier"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := disktest.WhileFull(t, few, func() error { return writeJUnit(path, regress.Report{}) }); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error %v, want one of a full disk", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "earlier" {
		t.Errorf("the report is %q (%v), want what was there", text, err)
	}
}

// Where the page is, the rest is: not so after a disk was full.
func TestFullDiskLeavesNoPage(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
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
	if err := disktest.WhileFull(t, few, func() error { return writePaper(page, dir, true, figures.SVG) }); !errors.Is(err, syscall.EFBIG) {
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
