package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
)

// Whoever stops the program does not wait for a mix that is read.
func TestReadMixIsStopped(t *testing.T) {
	why := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, []byte("jobs: [{job: needle-16384, count: 200000}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	silent := func(string, ...any) {}
	if _, _, err := (Options{}).ReadMix(ctx, path, profiles.Set{}, silent); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	var said []string
	m, _, err := Options{}.ReadMix(t.Context(), path, profiles.Set{}, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	if err != nil || len(m.Jobs) != 200_000 || len(said) != 1 || !strings.HasPrefix(said[0], "a run of 200000 jobs takes about 0.2 GiB of memory") {
		t.Errorf("%d jobs, %v, said %q", len(m.Jobs), err, said)
	}
}

// A run that was to stop a while ago records what its jobs did, and no job that did nothing.
func TestLateRecordsOfJobs(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tr := new(tracker)
	if err := tr.begin(t.Context(), Request{Store: db}, results.Run{Mix: "m", Scheduler: "sa", Node: "sim:1xV100", Mode: results.Simulated, Jobs: 3}, nil); err != nil {
		t.Fatal(err)
	}
	tr.Job(results.Job{Index: 0, Name: "a", Command: "a"})
	tr.late.Store(true)
	tr.Job(results.Job{Index: 1, Name: "a", Command: "a"})
	tr.Job(results.Job{Index: 2, Name: "a", Command: "a", StartS: new(1.0)})
	if err := tr.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs, err := db.Jobs(t.Context(), tr.run.ID)
	if indexes := slices.Collect(func(yield func(int) bool) {
		for _, j := range jobs {
			if !yield(j.Index) {
				return
			}
		}
	}); err != nil || !slices.Equal(indexes, []int{0, 2}) {
		t.Errorf("jobs %v, %v", indexes, err)
	}
}
