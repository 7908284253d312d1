package slurmsweep

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/results/store/disktest"
	"github.com/caserun/caserun/runner/slurm"
)

// A part is as long as was asked for, but no longer than a task.
func TestPartsFitIntoTasks(t *testing.T) {
	for _, c := range []struct {
		given time.Duration
		want  float64
	}{{0, 600}, {time.Hour, 600}, {8 * time.Minute, 300}, {150 * time.Second, 600}} {
		r := Request{Array: slurm.Array{Time: c.given}, LeastS: 600}
		if got := r.partS(); got != c.want {
			t.Errorf("tasks of %v: parts of %v s, want %v", c.given, got, c.want)
		}
	}
}

// Of two programs that submit a sweep at once, one is refused.
func TestSubmissionsAreNumberedOnce(t *testing.T) {
	s := Submission{Number: 1, Name: "a", Of: 3, Parts: []int{2, 3}, Publish: time.Minute, AtOnce: 1, Dir: t.TempDir()}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	if err := s.write(); err == nil || !strings.Contains(err.Error(), "another program submits the sweep now") {
		t.Errorf("written twice: %v", err)
	}
	got, err := readSubmission(s.Dir, 1)
	if err != nil || got.Name != s.Name || got.Of != 3 || len(got.Parts) != 2 || got.Publish != time.Minute || got.Dir != s.Dir {
		t.Errorf("read %+v, %v; want %+v", got, err, s)
	}
	if _, err := readSubmission(s.Dir, 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a submission that is missing: %v", err)
	}
	if err := os.WriteFile(submissionFile(s.Dir, 2), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSubmission(s.Dir, 2); err == nil || !strings.Contains(err.Error(), "submission 2: ") || !strings.Contains(err.Error(), "remove this file") {
		t.Errorf("a submission that is cut short: %v", err)
	}
}

// A disk that is full leaves no submission, so the sweep can be submitted when it no longer is.
func TestSubmissionOnAFullDisk(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	s := Submission{Number: 1, Name: "a", Of: 3, Parts: []int{2, 3}, Publish: time.Minute, AtOnce: 1, Dir: t.TempDir()}
	for _, room := range []uint64{0, 10} {
		if err := disktest.WhileFull(t, room, s.write); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
		if left, err := os.ReadDir(s.Dir); err != nil || len(left) > 0 {
			t.Errorf("room for %d bytes: left %v (%v)", room, left, err)
		}
	}
	if err := s.write(); err != nil {
		t.Error(err)
	}
}
