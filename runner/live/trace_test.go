package live

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// traceTape is a recorder of a run that keeps what concerns the tracer.
type traceTape struct {
	runner.Forgetful
	mu      sync.Mutex
	kernels []results.Kernel
	copies  []results.Copy
	events  []string
}

func (r *traceTape) Kernel(k results.Kernel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kernels = append(r.kernels, k)
}

func (r *traceTape) Copy(c results.Copy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copies = append(r.copies, c)
}

func (r *traceTape) Event(e results.Event) {
	if e.Kind != results.EventTrace {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s of job %d: %s", e.Kind, *e.Job, e.Detail))
}

// traced runs jobs that are shell scripts under sa, with the device of the
// tracer's sample as device 1. The sample is $SAMPLE in the scripts.
func traced(t *testing.T, scripts ...string) (*traceTape, results.Tracer) {
	t.Helper()
	sample, err := filepath.Abs("../../native/tracer/testdata/sample.trace")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SAMPLE", sample)
	var sampled [16]byte
	for i := range sampled {
		sampled[i] = byte(0xa0 + i)
	}
	tape := &traceTape{}
	dir := t.TempDir()
	c := Config{UUIDs: []string{"GPU-zero", "GPU-one"}, IDs: [][16]byte{{1}, sampled}, Dir: filepath.Join(dir, "out"),
		Tracer: "/some/libcasetrace.so", Traces: tape, Warn: t.Logf, Start: time.Now()}
	for _, s := range scripts {
		c.Jobs = append(c.Jobs, mixes.Job{Name: s, Program: "/bin/sh", Args: []string{"-c", s}})
		c.Programs, c.Dirs, c.Checks = append(c.Programs, "/bin/sh"), append(c.Dirs, dir), append(c.Checks, mixes.Check{})
	}
	x, err := NewExecutor(c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := policies.Parse("sa", 1)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{Name: "paper", CapacityBytes: gib, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}
	jobs, err := runner.Run(context.Background(), runner.Config{Jobs: c.Jobs, Devices: []schedulers.Device{device}, Scheduler: s}, x, tape)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes(jobs) {
		if o != results.OK {
			t.Fatalf("job %d ended %s: %s", i, o, jobs[i].StderrTail)
		}
	}
	return tape, x.Traced()
}

func numbers(processes, kernels, copies, lost, cut, untraced int64) results.Tracer {
	return results.Tracer{Processes: &processes, Kernels: &kernels, Copies: &copies, Lost: &lost, Cut: &cut, Untraced: &untraced}
}

func TestTracesOfJobsReachTheRecorder(t *testing.T) {
	tape, sums := traced(t,
		`test "$CUDA_INJECTION64_PATH" = /some/libcasetrace.so && cp "$SAMPLE" "$CASE_TRACE_DIR/7.trace"`,
		`cp "$SAMPLE" "$CASE_TRACE_DIR/8.trace"`)
	if diff := cmp.Diff(numbers(2, 6, 4, 10, 0, 0), sums); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	want := results.Kernel{Job: 0, Device: 1, Name: "fill(float*, int)", Grid: "1,2,3", Block: "256,2,1", Registers: 32,
		StaticSharedBytes: 4096, DynamicSharedBytes: 1024, PID: 4242, Stream: 7}
	got := tape.kernels[1]
	if length := got.EndS - got.StartS; math.Abs(length-250e-9) > 1e-10 || got.BusyS != length {
		t.Errorf("the kernel took %g s and was busy for %g, want 250 ns", length, got.BusyS)
	}
	got.StartS, got.EndS, got.BusyS = 0, 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kernel (-want +got):\n%s", diff)
	}
	if c := tape.copies[1]; c.Kind != "set" || c.Bytes != 3 || c.Device != 1 || c.PID != 4242 || c.Stream != 7 || tape.copies[2].Job != 1 {
		t.Errorf("copies %+v", tape.copies)
	}
	said := strings.Join(tape.events, "\n")
	for _, want := range []string{"trace of job 0: process 4242: 5 records are lost", "trace of job 1: process 4242: the tracer says: cuptiActivityEnable: a sample (8)"} {
		if !strings.Contains(said, want) {
			t.Errorf("events lack %q:\n%s", want, said)
		}
	}
}

func TestTracesThatAreNotWhole(t *testing.T) {
	for _, c := range []struct {
		name, script, says string
		want               results.Tracer
	}{
		{"none", "true", "no process of the job left a trace", numbers(0, 0, 0, 0, 0, 1)},
		{"torn", `head -c 300 "$SAMPLE" >"$CASE_TRACE_DIR/7.trace"`, "process 4242 did not exit in order", numbers(1, 2, 1, 1, 1, 0)},
		{"garbled", `(head -c 272 "$SAMPLE"; echo 12345678) >"$CASE_TRACE_DIR/7.trace"`, "7.trace: at byte 272: unknown record type", numbers(1, 2, 1, 0, 1, 0)},
		{"two processes", `head -c 272 "$SAMPLE" >"$CASE_TRACE_DIR/7.trace"; cp "$SAMPLE" "$CASE_TRACE_DIR/8.trace"`, "did not exit", numbers(2, 5, 3, 5, 1, 0)},
		{"unknown device", `(head -c 40 "$SAMPLE"; head -c 16 /dev/zero; tail -c +57 "$SAMPLE") >"$CASE_TRACE_DIR/7.trace"`, "10 records are lost", numbers(1, 0, 0, 10, 0, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			tape, sums := traced(t, c.script)
			if diff := cmp.Diff(c.want, sums); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
			if said := strings.Join(tape.events, "\n"); !strings.Contains(said, c.says) {
				t.Errorf("events lack %q:\n%s", c.says, said)
			}
		})
	}
}

// Kernels have the run's time: the tracer's clock is the host's.
func TestTraceTimesAreTheRuns(t *testing.T) {
	x, err := NewExecutor(Config{Dir: t.TempDir(), Start: time.Now(), Warn: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	closes, err := x.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := closes(); err != nil {
			t.Error(err)
		}
	}()
	before := x.now().Seconds()
	at := x.seconds(monotonic(t))
	if after := x.now().Seconds(); at < before-0.001 || at > after+0.001 {
		t.Errorf("an instant between %g s and %g s of the run is %g s", before, after, at)
	}
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

func TestATracerThatIsNotBuilt(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := findTracer(context.Background())
	if err == nil || !strings.Contains(err.Error(), "is not built") || !strings.Contains(err.Error(), "libcupti-dev") {
		t.Errorf("error %v, want one that says what to install", err)
	}
}

// What a job leaves where traces are to be takes no trace from a later job, and a trace that is no file is an event.
func TestTracesOfJobsThatSpoilThem(t *testing.T) {
	for name, spoil := range map[string]string{
		"a directory in its place": `mkdir -p out/job-0001.trace/x`,
		"a file in its place":      `echo > out/job-0001.trace`,
		"a FIFO in its place":      `mkfifo out/job-0001.trace`,
		"a link in its place":      `ln -s / out/job-0001.trace`,
		"own directory removed":    `rm -r "$CASE_TRACE_DIR"`,
		"own directory a file":     `rm -r "$CASE_TRACE_DIR"; echo > "$CASE_TRACE_DIR"`,
		"a FIFO for a trace":       `mkfifo "$CASE_TRACE_DIR/1.trace"`,
		"a directory for a trace":  `mkdir "$CASE_TRACE_DIR/1.trace"`,
		"garbage for a trace":      `echo garbage > "$CASE_TRACE_DIR/1.trace"`,
		"an endless trace":         `ln -s /dev/zero "$CASE_TRACE_DIR/1.trace"`,
		"a large trace":            `truncate -s 1T "$CASE_TRACE_DIR/1.trace"`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			tape, sums := traced(t, spoil, `cp "$SAMPLE" "$CASE_TRACE_DIR/8.trace"`)
			if len(tape.kernels) != 3 || tape.kernels[0].Job != 1 || *sums.Kernels != 3 || len(tape.events) == 0 {
				t.Errorf("kernels %+v, events %q", tape.kernels, tape.events)
			}
		})
	}
}
