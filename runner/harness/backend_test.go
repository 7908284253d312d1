package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/policies"
)

// scripted is a backend and its node, whose runs go as a test says.
type scripted struct {
	execute func(ctx context.Context, to Recorder) ([]results.Job, error)
	helpers map[string]<-chan struct{}
	closed  []error // what closing the node finds wrong
	gpu     string  // name of its devices
	free    int64   // memory of the largest

	options Options

	to     Recorder
	calls  []string
	opened Batch // the latest
}

func (*scripted) Mode() results.Mode { return results.Live }
func (s *scripted) Options() Options {
	o := s.options
	o.Suite, o.Runs = "theirs", "as the node takes it"
	return o
}
func (*scripted) Ignored() []string { return []string{"--guard"} }

func (s *scripted) History(profiles.Set) (history.Node, error) {
	return history.Node{Mode: results.Live, GPUs: []string{"NVIDIA H200"}, Suite: "theirs", FreeBytes: s.free}, nil
}

func (*scripted) Size() (devices, threads, all int, err error)          { return 2, 8, 2, nil }
func (*scripted) Machine() (string, error)                              { return "here", nil }
func (*scripted) CheckMix(mixes.Mix, results.Probe, profiles.Set) error { return nil }
func (*scripted) CheckScheduler(policies.Scheduler) error               { return nil }
func (s *scripted) Devices() []results.Device {
	return []results.Device{{UUID: "GPU-a", Name: s.gpu}, {Index: 1, UUID: "GPU-b", Name: s.gpu}}
}
func (s *scripted) Helpers() map[string]<-chan struct{} { return s.helpers }

func (s *scripted) Open(_ context.Context, b Batch, to Recorder) (Node, error) {
	s.calls, s.to, s.opened = append(s.calls, "open"), to, b
	return openNode{s}, nil
}

func (s *scripted) Close() error { return errors.New("the backend belongs to the caller") }

// openNode is a scripted node.
type openNode struct{ *scripted }

func (n openNode) Describe(run *results.Run) {
	run.Node, run.Mode, run.StartedAt = "theirs", results.Live, new(time.Now())
}

func (n openNode) Execute(ctx context.Context, _ int64, _ time.Time) ([]results.Job, error) {
	n.calls = append(n.calls, "execute")
	return n.execute(ctx, n.to)
}

func (n openNode) Close(*results.Run) []error {
	n.calls = append(n.calls, "close")
	return n.closed
}

func openScratch(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func endedOK(_ context.Context, to Recorder) ([]results.Job, error) {
	j := results.Job{Name: "job", Command: "job", StartS: new(0.0), EndS: new(1.0), Outcome: new(results.OK)}
	to.Job(j)
	return []results.Job{j}, nil
}

// What makes a run no measurement, and what the store says of it, whatever the backend.
func TestExecuteOnAnyBackend(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	for name, c := range map[string]struct {
		node   scripted
		status results.Status
		events []string
	}{
		"all is well":    {scripted{execute: endedOK}, results.Complete, nil},
		"the batch":      {scripted{execute: func(context.Context, Recorder) ([]results.Job, error) { return nil, errors.New("no socket") }}, results.Interrupted, []string{"no socket"}},
		"the node after": {scripted{execute: endedOK, closed: []error{errors.New("memory is left"), nil, errors.New("no samples")}}, results.Interrupted, []string{"memory is left", "no samples"}},
		"a helper": {scripted{helpers: map[string]<-chan struct{}{"the ballast": ended}, execute: func(ctx context.Context, to Recorder) ([]results.Job, error) {
			<-ctx.Done()
			to.Event(results.Event{Kind: results.EventCancelled, Detail: context.Cause(ctx).Error()})
			return nil, context.Cause(ctx)
		}}, results.Interrupted, []string{"the ballast ended during the run"}},
	} {
		t.Run(name, func(t *testing.T) {
			db := openScratch(t)
			var said []string
			o, err := Execute(t.Context(), &c.node, Request{Configuration: Configuration{Sched: "sa"}, Mix: mixes.Mix{Name: "one", Jobs: []mixes.Job{{Name: "job", Program: "./job"}}},
				Store: db, Say: func(format string, args ...any) { said = append(said, format) }})
			if (err == nil) != (c.status == results.Complete) || o.Run.Status != c.status {
				t.Errorf("the run is %s, %v; want it %s", o.Run.Status, err, c.status)
			}
			if want := []string{"open", "execute", "close"}; !slices.Equal(c.node.calls, want) {
				t.Errorf("calls %q, want %q", c.node.calls, want)
			}
			stored, err := db.Run(t.Context(), o.Run.ID)
			if err != nil || stored.Status != c.status || stored.Node != "theirs" || results.Configuration(stored)["runs"] != "as the node takes it" {
				t.Errorf("stored: %+v (%v)", stored, err)
			}
			events, err := db.Events(t.Context(), o.Run.ID)
			if err != nil {
				t.Fatal(err)
			}
			var details []string
			for _, e := range events {
				details = append(details, e.Detail)
			}
			if !slices.Equal(details, c.events) {
				t.Errorf("events %q, want %q", details, c.events)
			}
			if len(said) != 1 {
				t.Errorf("said %q, want what the node ignores", said)
			}
		})
	}
}

// A node that was opened is given back although the store cannot have the run.
func TestNodeOfARunThatCannotBegin(t *testing.T) {
	db := openScratch(t)
	node := scripted{execute: endedOK}
	cell := results.Cell{Sweep: 7} // of no sweep
	o, err := Execute(t.Context(), &node, Request{Configuration: Configuration{Sched: "sa"}, Mix: mixes.Mix{Name: "one", Jobs: []mixes.Job{{Name: "job"}}}, Store: db, Cell: &cell,
		Say: func(string, ...any) {}})
	if err == nil || o.Run.ID != 0 {
		t.Errorf("run %d, %v; want none", o.Run.ID, err)
	}
	if want := []string{"open", "close"}; !slices.Equal(node.calls, want) {
		t.Errorf("calls %q, want %q", node.calls, want)
	}
}

// endedWithTask is a run of ./job.
func endedWithTask(_ context.Context, to Recorder) ([]results.Job, error) {
	j := results.Job{Name: "job", Command: "./job", Device: new(0), StartS: new(0.0), EndS: new(4.0), Outcome: new(results.OK)}
	to.Job(j)
	to.Task(results.Task{SubmitS: 1, GrantS: new(1.0), ReleaseS: new(3.0), Device: new(0)})
	return []results.Job{j}, nil
}

// Who plans says what it expects from other GPUs alone.
func TestWhatOtherGPUsTell(t *testing.T) {
	db := openScratch(t)
	node := scripted{execute: endedWithTask, gpu: "NVIDIA A100"} // the node's history is of an H200
	for _, c := range []struct {
		sched string
		says  bool
	}{{"sa", false}, {"plan", true}, {"plan:learn=off", false}} { // the first run is what the others are told
		told := false
		_, err := Execute(t.Context(), &node, Request{Configuration: Configuration{Sched: c.sched}, Mix: mixes.Mix{Name: "one", Jobs: []mixes.Job{{Name: "job", Program: "./job"}}}, Store: db,
			Say: func(format string, args ...any) {
				told = told || strings.Contains(fmt.Sprintf(format, args...), "on NVIDIA A100")
			}})
		if err != nil || told != c.says {
			t.Errorf("%s: said %v, want %v (%v)", c.sched, told, c.says, err)
		}
	}
}

// The runs of a sweep are told what was known before the first of them.
func TestWhatASweepIsTold(t *testing.T) {
	db := openScratch(t)
	job := mixes.Job{Name: "job", Program: "./job"}
	node := scripted{execute: endedWithTask}
	request := Request{Configuration: Configuration{Sched: "sa"}, Mix: mixes.Mix{Name: "one", Jobs: []mixes.Job{job}}, Store: db, Say: func(string, ...any) {}}
	known := func(r Request) string {
		k, err := r.known(t.Context(), &node, false)
		if err != nil {
			t.Fatal(err)
		}
		if k[0] == nil {
			return ""
		}
		return k[0].Source
	}
	cells := []results.Cell{{Mix: "one", Scheduler: "sa", Repetition: 1, Seed: 1}, {Position: 1, Mix: "one", Scheduler: "sa", Repetition: 2, Seed: 2}}
	node.gpu = "NVIDIA H200"
	for i := range 3 {
		r := request
		if i == 1 {
			id, err := db.CreateSweep(t.Context(), results.Sweep{Spec: "{}", Node: "local", Mode: results.Live, Repetitions: 2, CreatedAt: new(time.Now())}, cells)
			if err != nil {
				t.Fatal(err)
			}
			for c := range cells {
				cells[c].Sweep = id
			}
		}
		if i > 0 {
			r.Cell = &cells[i-1]
		}
		want := ""
		if i > 0 {
			want = "1 run" // that before the sweep
		}
		if got := known(r); got != want {
			t.Errorf("run %d is told of %q, want %q", i+1, got, want)
		}
		if _, err := Execute(t.Context(), &node, r); err != nil {
			t.Fatal(err)
		}
	}
	if got := known(request); got != "3 runs" {
		t.Errorf("outside of the sweep %q is known, want 3 runs", got)
	}
}

// Options are kept as JSON and read again. What this program does not know is an error.
func TestOptionsAreReadAgain(t *testing.T) {
	want := Options{Node: "sim:4xV100", Timeout: Duration(90 * time.Second), Seed: 1<<64 - 1, Noise: 0.01, MemCap: size.AmountOf(16 << 30), NoMPS: true}
	byKey, err := want.ByKey()
	if err != nil || byKey["timeout"] != "1m30s" || len(byKey) != 23 {
		t.Errorf("by key %v (%v)", byKey, err)
	}
	text, err := json.Marshal(byKey)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseOptions(text); err != nil || got != want {
		t.Errorf("read again: %+v (%v), want %+v", got, err, want)
	}
	run := Batch{Request: Request{Configuration: Configuration{Options: want, Sched: "sa"}}, Scheduler: policies.Scheduler{}}
	row, err := run.record()
	if err != nil || results.Configuration(row)["sched"] != "sa" || results.Configuration(row)["timeout"] != "1m30s" {
		t.Errorf("configuration %s (%v)", row.Provenance.Configuration, err)
	}
	for text, ok := range map[string]bool{`{"node":"local","timeout":"0s"}`: true, `{"timeout":90}`: false, `{"memory":"1GiB"}`: false, `{"timeout":"soon"}`: false} {
		if _, err := ParseOptions([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
