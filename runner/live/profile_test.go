package live

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// buildStepJob builds native/probe/tests/job.c, whose arguments are what it does.
func buildStepJob(t *testing.T) string {
	t.Helper()
	return filepath.Join(nativetest.Build(t, "probe", "build/job"), "build/job")
}

// onPaper runs jobs alone on a device that exists on paper only.
func onPaper(t *testing.T, jobs ...mixes.Job) *alone {
	t.Helper()
	return &alone{Profiling: Profiling{Jobs: jobs, Say: t.Logf}, sm: profiles.SM{Warps: 64, Blocks: 32}, uuid: "GPU-paper", id: [16]byte{1}, dir: t.TempDir(), epoch: time.Now(),
		watch:  func(run func()) ([]results.Segment, error) { run(); return nil, nil },
		device: schedulers.Device{Name: "paper", CapacityBytes: 1 << 34, ContextBytes: 1 << 29, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}}
}

func profilesOf(ctx context.Context, a *alone) (found []profiles.Profile, err error) {
	kept, err := runAll(ctx, a, func(q profiles.Profile) error { found = append(found, q); return nil })
	if kept != len(found) {
		err = errors.Join(err, fmt.Errorf("it says that %d of %d profiles are kept", kept, len(found)))
	}
	return found, err
}

// runAll runs the jobs in the directory of a.
func runAll(ctx context.Context, a *alone, keep func(profiles.Profile) error) (kept int, err error) {
	var programs []string
	for _, j := range a.Jobs {
		programs = append(programs, j.Program)
	}
	return a.runAll(ctx, programs, slices.Repeat([]string{a.dir}, len(programs)), keep)
}

func TestProfileOfAJobAlone(t *testing.T) {
	program := buildStepJob(t)
	job := func(steps ...string) mixes.Job { return mixes.Job{Name: "steps", Program: program, Args: steps} }
	whole := job("sleep:60", "begin:1000", "grow:500", "sleep:40", "free", "sleep:20", "begin:1200", "free", "sleep:80")
	// A footprint must not bind the job: its own tasks are what is measured.
	declared := job("begin:7")
	declared.Binding, declared.Footprint.Bytes = mixes.BindDeclared, 1<<40
	tells := mixes.Job{Name: "tells", Program: "/bin/sh", Args: []string{"-c", `test "$CASE_BINDING,$CASE_PIN,$CASE_FOOTPRINT" = task,,`},
		Binding: mixes.BindDeclared, Pin: true, Footprint: mixes.Footprint{Bytes: 1}}
	a := onPaper(t, whole, job("oom:77", "exit:0"), declared, job("exit:0"), tells)
	found, err := profilesOf(context.Background(), a)
	if err == nil || !strings.Contains(err.Error(), "oom:77 exit:0: it ended as oom") {
		t.Fatalf("error %v, want the job that failed", err)
	}
	if strings.Contains(err.Error(), `= task,,": it ended as`) {
		t.Errorf("a declared job was not watched task by task: %v", err)
	}
	if !strings.Contains(err.Error(), "exit:0: it used no GPU") {
		t.Errorf("error %v, want the job without a device", err)
	}
	if part := new(PartError); len(found) != 2 || !errors.As(err, &part) || part.Measured != 2 {
		t.Fatalf("%d profiles, want 2, and the error to say so: %+v", len(found), found)
	}
	got := found[0]
	// Nobody waits for the end of a task, so a busy machine may hear of it late.
	if got.HostBeforeS < 0.06 || got.HostHeldS < 0.06 || got.HostAfterS <= 0 || got.HostHeldS+got.HostAfterS < 0.14 {
		t.Errorf("phases are shorter than the job slept in them: %+v", got)
	}
	if want := (mixes.Footprint{Bytes: 1500, Blocks: 1024, ThreadsPerBlock: 256}); got.Footprint != want {
		t.Errorf("footprint %+v, want %+v", got.Footprint, want)
	}
	if got.Command != whole.Command() || got.Kernels != profiles.Untraced {
		t.Errorf("profile %+v", got)
	}
	if found[1].Footprint.Bytes != 7 {
		t.Errorf("footprint of the declared job %+v, want its task's", found[1].Footprint)
	}
}

// What the device showed counts only while the job ran, and beyond a context.
func TestMemoryOfAProgramWithoutTasks(t *testing.T) {
	a := onPaper(t)
	a.idle = 100
	at := func(series results.Series, first float64, value int64) results.Segment {
		return results.Segment{Series: series, FirstS: first, LastS: first + 1, Value: new(float64(value))}
	}
	seen := []results.Segment{at(results.SeriesMemory, 4, 9<<30), at(results.SeriesMemory, 5, 2<<30+100),
		at(results.SeriesMemory, 6, 1<<30), at(results.SeriesGPU, 6, 7<<30),
		at(results.SeriesMemory, 9, 9<<30)}
	m := profiles.Measurement{Record: results.Job{StartS: new(4.5), EndS: new(8.0)}}
	a.settle(&m, seen)
	if want := int64(2<<30 - 1<<29); m.PeakBytes != want {
		t.Errorf("peak %d, want %d", m.PeakBytes, want)
	}
	m.PeakBytes = 0
	if a.settle(&m, []results.Segment{at(results.SeriesMemory, 5, 1<<20)}); m.PeakBytes != 0 {
		t.Errorf("peak %d of a process that used no more than idle", m.PeakBytes)
	}
}

func TestProfileStopsWithItsContext(t *testing.T) {
	program := buildStepJob(t)
	a := onPaper(t, mixes.Job{Program: program, Args: []string{"begin:1"}},
		mixes.Job{Program: program, Args: []string{"begin:1", "sleep:60000"}}, mixes.Job{Program: program, Args: []string{"begin:2"}})
	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("interrupt")
	a.Say = func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "profiling 2 of 3") {
			cancel(stopped)
		}
	}
	found, err := profilesOf(ctx, a)
	if len(found) != 1 || !errors.Is(err, stopped) || errors.As(err, new(*PartError)) {
		t.Errorf("%d profiles, %v, want the first job's and the interrupt", len(found), err)
	}
}

// What could not be kept either is not measured.
func TestProfileStopsWhereNothingCanBeKept(t *testing.T) {
	program := buildStepJob(t)
	a := onPaper(t, mixes.Job{Program: program, Args: []string{"begin:1"}}, mixes.Job{Program: program, Args: []string{"begin:2"}},
		mixes.Job{Program: program, Args: []string{"begin:3"}})
	tried := 0
	kept, err := runAll(t.Context(), a, func(profiles.Profile) error {
		if tried++; tried == 2 {
			return syscall.ENOSPC
		}
		return nil
	})
	if kept != 1 || tried != 2 || errors.As(err, new(*PartError)) ||
		!strings.Contains(err.Error(), "1 of 3 commands were measured") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%d kept of %d, %v", kept, tried, err)
	}
}
