package runlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/runlog"
	"github.com/caserun/caserun/schedulers"
)

func open(t *testing.T, path string) *runlog.Log {
	t.Helper()
	l, err := runlog.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lines are the kind, the time and what else is asked for of each line, as the file has them.
func lines(t *testing.T, path string, keys ...string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &fields); err != nil || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%q is not a line of JSON: %v", line, err)
		}
		var shown []string
		for _, k := range append([]string{"kind", "at_s"}, keys...) {
			if v, has := fields[k]; has {
				shown = append(shown, strings.Trim(string(v), `"`))
			}
		}
		out = append(out, strings.Join(shown, " "))
	}
	return out
}

// Records hold states. The log has one line for each change between them, in order.
func TestLinesAreChangesOfRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	l := open(t, path)
	run := results.Run{ID: 7, Mode: results.Live, Status: results.Complete, Jobs: 2}
	l.Begun(run, nil)
	j := results.Job{Index: 1, Name: "j", ArrivalS: new(0.0)}
	l.Job(7, j)
	j.StartS = new(1.0)
	l.Job(7, j)
	j.Device = new(0) // its first task
	l.Job(7, j)
	k := results.Task{Job: 1, SubmitS: 2, Bytes: 5}
	l.Task(7, k)
	k.Blocks = 80 // a launch became known
	l.Task(7, k)
	k.GrantS, k.Device = new(3.5), new(0)
	l.Task(7, k)
	l.Swap(7, results.Swap{Job: 1, Direction: schedulers.Out, Action: "evict", Outcome: schedulers.Busy, StartS: 3.5, EndS: 3.75, ForJob: new(0)})
	l.Event(7, results.Event{AtS: 4, Kind: results.EventRefused, Job: new(1), Detail: "too much"})
	k.Refusal = new("too much")
	l.Task(7, k)
	k.GrownBytes = 9
	l.Task(7, k)
	k.ReleaseS = new(5.0)
	l.Task(7, k)
	l.Task(7, k)
	l.Event(7, results.Event{AtS: 6, Kind: results.EventRefused, Job: new(1), Detail: "full"})
	l.Task(7, results.Task{Job: 1, Seq: 1, SubmitS: 5.5, Refusal: new("full")})
	l.Task(7, results.Task{Job: 1, Seq: 2, SubmitS: 6, GrantS: new(6.0), Device: new(0)}) // granted at once
	j.EndS, j.Outcome = new(7.0), new(results.Fault)
	l.Job(7, j)
	l.Job(7, j)
	j.Outcome, j.Detail = new(results.Collateral), "of job 0"
	l.Job(7, j)
	run.Metrics = results.Metrics{MakespanS: new(7.0)}
	l.Ended(run)
	j.Outcome = new(results.Fault) // --isolate-faults found out
	l.Job(7, j)
	l.Event(7, results.Event{AtS: 7, Kind: results.EventVerdict, Job: new(1)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"run_started null",
		"job_started 1 1",
		"task_submitted 2 1 0 5",
		"task_granted 3.5 1 0",
		"swap 3.75 1 0 0 busy out evict null null",
		"event 4 refused 1",
		"task_growth_refused 4 1 0",
		"task_released 5 1 0",
		"event 6 refused 1",
		"task_submitted 5.5 1 1 0",
		"task_refused 6 1 1",
		"task_submitted 6 1 2 0",
		"task_granted 6 1 2",
		"job_ended 7 1 fault",
		"job_outcome 7 1 collateral",
		"run_ended 7",
		"job_outcome 7 1 fault",
		"event 7 verdict 1",
	}
	if diff := cmp.Diff(want, lines(t, path, "event", "job_index", "task_seq", "bytes", "outcome", "direction", "action", "why", "for_task_seq")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A log is added to, also by the next process.
func TestLogIsAddedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	for id := range int64(2) {
		l := open(t, path)
		l.Begun(results.Run{ID: id}, nil)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"run_started null 0", "run_started null 1"}, lines(t, path, "run_id")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A line that was cut off spoils no other.
func TestLogBehindACutLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	const cut = `{"run_id":1,"kind":"task_gr`
	if err := os.WriteFile(path, []byte(cut), 0o644); err != nil {
		t.Fatal(err)
	}
	l := open(t, path)
	l.Begun(results.Run{}, nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), cut+"\n{") {
		t.Errorf("the log is %q (%v)", text, err)
	}
}

// A file that takes no lines does not hold up a run, and the end says so.
func TestLogOfAFullDisk(t *testing.T) {
	l := open(t, "/dev/full")
	for id := range int64(3) {
		l.Begun(results.Run{ID: id}, nil)
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "log /dev/full: 3 lines could not be written; the store has what they say, and caserun export --jsonl DIR writes it: ") {
		t.Errorf("a full disk: %v", err)
	}
}

// A run does not wait for a slow reader. What begins before it, and has no reader yet, waits and says so.
func TestLogToAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	told := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := runlog.Open(ctx, path, func(string) { cancel(told) }); !errors.Is(err, told) || !strings.Contains(err.Error(), path) {
		t.Errorf("no reader: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l := open(t, path)
	// More than a pipe holds: the lines wait for the reader, and these calls do not.
	run := results.Run{Parameters: strings.Repeat("p", 1<<16)}
	for range 4 {
		l.Begun(run, nil)
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	for n := 0; n < 4; n++ {
		var line struct{ Parameters string }
		if err := json.NewDecoder(oneLine{reader}).Decode(&line); err != nil || line.Parameters != run.Parameters {
			t.Fatalf("line %d has %d parameters: %v", n, len(line.Parameters), err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// oneLine reads byte by byte, so that a decoder does not read beyond its line.
type oneLine struct{ f *os.File }

func (o oneLine) Read(b []byte) (int, error) { return o.f.Read(b[:1]) }

// A job of several devices has their list in its lines.
func TestLinesOfAJobOfSeveralDevices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	l := open(t, path)
	l.Begun(results.Run{ID: 7}, nil)
	j := results.Job{StartS: new(1.0), Device: new(0), Devices: new("0,2")}
	l.Job(7, j)
	j.EndS, j.Outcome = new(2.0), new(results.OK)
	l.Job(7, j)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"run_started null []", "job_started 1 [0,2]", "job_ended 2 [0,2]"}, lines(t, path, "devices")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
