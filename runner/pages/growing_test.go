package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/html"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/results/store/disktest"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/userfile/output"
)

// bench is a page whose clock a test moves.
type bench struct {
	*Growing
	path  string
	clock time.Time
	slow  time.Duration // by which the clock moves whenever it is read
	said  []string
}

var midnight = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(filepath.Join(dir, "caserun.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bench{path: filepath.Join(dir, "page.html"), clock: midnight}
	say := func(format string, args ...any) { b.said = append(b.said, fmt.Sprintf(format, args...)) }
	if b.Growing, err = Open(t.Context(), b.path, db, 3, say); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a page before the first run: %v", err)
	}
	b.now = func() time.Time { b.clock = b.clock.Add(b.slow); return b.clock }
	return b
}

// run makes a run.
func (b *bench) run(t *testing.T) {
	t.Helper()
	mix, err := mixes.Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	mix.Jobs = mix.Jobs[:2]
	var session nodes.Session
	_, err = session.Run(t.Context(), harness.Request{Configuration: harness.Configuration{Options: harness.Options{Node: "sim:1xV100"}, Sched: "sa", Probe: results.Lazy},
		Mix: mix, Profiles: profiles.Catalog(), Store: b.db, Say: func(string, ...any) {}})
	if err := errors.Join(err, session.Close()); err != nil {
		t.Fatal(err)
	}
}

// shows fails unless the page has a text, and reloads itself if it is to.
func (b *bench) shows(t *testing.T, want string, reloads bool) {
	t.Helper()
	text, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), want) || strings.Contains(string(text), `http-equiv="refresh"`) != reloads {
		_, status, _ := strings.Cut(string(text), `role="status">`)
		t.Errorf("the page says %.150q, want %q; reloading %v", status, want, reloads)
	}
}

// isFinished fails unless the page is that of caserun report --html.
func (b *bench) isFinished(t *testing.T) {
	t.Helper()
	c, err := b.wanted.Read(t.Context(), b.db, b.say)
	var want bytes.Buffer
	if err := errors.Join(err, c.Write(t.Context(), &want, nil)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(b.path); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the last page, of %d bytes (%v), differs from the page of caserun report, of %d", len(got), err, want.Len())
	}
	if len(b.said) > 0 {
		t.Errorf("said %q", b.said)
	}
}

// The page of live runs is written before the next run begins, at once and then at most once in 5 s.
func TestPageOfLiveRuns(t *testing.T) {
	b := newBench(t)
	b.Watch(t.Context(), Wanted{}, results.Live)
	b.run(t)
	b.Ended(1, 4)
	b.shows(t, "1 of 4 runs, written at 2026-11-28 00:00:00 UTC", true)
	b.run(t)
	b.clock = midnight.Add(leastPause - 1)
	b.Ended(2, 4)
	b.shows(t, "1 of 4 runs", true)
	b.run(t)
	b.clock = midnight.Add(leastPause)
	b.Ended(3, 4)
	b.shows(t, "3 of 4 runs, written at 2026-11-28 00:00:05 UTC", true)
	b.run(t)
	b.Ended(4, 4)
	b.Close(4, 4)
	b.isFinished(t)
}

// The page of simulated runs is written while others run, and has the runs that ended meanwhile 5 s later.
func TestPageOfSimulatedRuns(t *testing.T) {
	b := newBench(t)
	paused, over := make(chan time.Duration), make(chan time.Time)
	b.after = func(pause time.Duration) <-chan time.Time { paused <- pause; return over }
	b.Watch(t.Context(), Wanted{}, results.Simulated)
	b.run(t)
	b.Ended(1, 4)
	if pause := <-paused; pause != leastPause {
		t.Errorf("a pause of %v, want %v", pause, leastPause)
	}
	b.shows(t, "1 of 4 runs", true)
	b.run(t)
	b.Ended(2, 4)
	b.run(t)
	b.Ended(3, 4)
	b.shows(t, "1 of 4 runs", true)
	over <- midnight
	<-paused
	b.shows(t, "3 of 4 runs", true)
	b.run(t)
	b.Ended(4, 4)
	b.shows(t, "3 of 4 runs", true)
	b.Close(4, 4)
	b.isFinished(t)
}

// A page that takes long to write is written more rarely.
func TestPageTakesAShareOfTheTime(t *testing.T) {
	b := newBench(t)
	b.Watch(t.Context(), Wanted{}, results.Live)
	b.run(t)
	b.slow = time.Second
	if pause := b.refresh(); pause != mostShare*time.Second {
		t.Errorf("a page that takes 1 s stays for %v", pause)
	}
	b.Close(1, 1)
}

// An interruption leaves the page of the runs that were made, which says so and does not reload itself.
func TestPageOfAnInterruptedSweep(t *testing.T) {
	for _, mode := range []results.Mode{results.Live, results.Simulated} {
		b := newBench(t)
		ctx, interrupt := context.WithCancel(t.Context())
		b.Watch(ctx, Wanted{}, mode)
		interrupt()
		b.Close(0, 3)
		if _, err := os.Stat(b.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a page without runs: %v", mode, err)
		}
		b.run(t)
		b.Close(1, 3)
		b.shows(t, "1 of 3 runs, written at 2026-11-28 00:00:00 UTC. The command was stopped before the last run.", false)
		if len(b.said) > 0 {
			t.Errorf("%s: said %q", mode, b.said)
		}
	}
}

// A full disk leaves the page that is there, with one warning. A page is written again once there is room.
func TestPageOnAFullDisk(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	b := newBench(t)
	b.run(t)
	b.Watch(t.Context(), Wanted{}, results.Live)
	b.Ended(1, 3)
	_ = disktest.WhileFull(t, fewBytes-1, func() error {
		if _, err := Open(t.Context(), b.path, b.db, 1, b.say); err == nil || !strings.Contains(err.Error(), "write "+b.path+": file too large") {
			t.Errorf("before the first run: error %v", err)
		}
		b.clock = midnight.Add(time.Hour)
		b.Ended(2, 3)
		b.clock = midnight.Add(2 * time.Hour)
		b.Ended(2, 3)
		return nil
	})
	b.shows(t, "1 of 3 runs", true)
	if len(b.said) != 1 || !strings.Contains(b.said[0], "file too large; the runs do not stop for it") {
		t.Errorf("said %q", b.said)
	}
	b.said = nil
	b.Close(2, 2)
	b.isFinished(t)
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(b.path), output.Temporary+"*")); err != nil || len(left) > 0 {
		t.Errorf("left %q (%v)", left, err)
	}
}

// What cannot be a page, or is another's file, is refused before the first run.
func TestOpenRefuses(t *testing.T) {
	b := newBench(t)
	other := filepath.Join(filepath.Dir(b.path), "notes.txt")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		runs int
		says string
	}{
		{other, 1, "it exists and is not a page of caserun report"},
		{b.db.Path(), 1, "that is a file of the store"},
		{"/dev/null", 1, "name a regular file"},
		{filepath.Join(other, "page.html"), 1, "not a directory"},
		{b.path, html.MaxRuns + 1, "the sweep has 1001 runs and a page takes 1000: omit --html"},
	} {
		if _, err := Open(t.Context(), c.path, b.db, c.runs, b.say); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", c.path, err, c.says)
		}
	}
}

// A page of no runs is an error of its own kind, which has an exit status.
func TestNothingIsSelected(t *testing.T) {
	b := newBench(t)
	var nothing *selection.NothingError
	if _, err := (Wanted{}).Read(t.Context(), b.db, b.say); !errors.As(err, &nothing) {
		t.Errorf("error %v", err)
	}
}
