package profiles

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// measurement is a job from 10 s to 20 s of the epoch with two overlapping tasks and a later task.
// All times are exact in binary.
func measurement() Measurement {
	task := func(seq int, grant, release float64, bytes int64, blocks uint64, threads uint32) results.Task {
		return results.Task{Seq: seq, SubmitS: grant, GrantS: &grant, ReleaseS: &release, Bytes: bytes, Blocks: blocks, ThreadsPerBlock: threads}
	}
	m := Measurement{Job: mixes.Job{Name: "x", Program: "./x"}, Record: results.Job{StartS: new(10.0), EndS: new(20.0)}}
	m.Tasks = []results.Task{task(0, 12, 14, 100, 10, 33), task(1, 13, 15, 40, 12, 32), task(2, 15, 18, 130, 5, 32), {Seq: 3, Bytes: 999, Refusal: new("no")}}
	m.Tasks[0].GrownBytes, m.Tasks[1].HeapBytes = 5, 2
	return m
}

func TestProfileOfTasks(t *testing.T) {
	got, err := New(measurement())
	if err != nil {
		t.Fatal(err)
	}
	want := Profile{Job: "x", Command: "./x", HostBeforeS: 2, HostHeldS: 6, HostAfterS: 2, Kernels: Untraced,
		Footprint: mixes.Footprint{Bytes: 147, Blocks: 10, ThreadsPerBlock: 33}} // 20 warps against 12
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	m := measurement()
	m.Trace = traceOf([]results.Copy{{Kind: "htod", Bytes: 7, StartS: 12.5, EndS: 14.5}, {Kind: "dtoh", Bytes: 8, StartS: 15.5, EndS: 16}},
		results.Kernel{StartS: 14.5, EndS: 15.5, Grid: "77,1,1", Block: "64,1,1"})
	if got, err = New(m); err != nil {
		t.Fatal(err)
	}
	want.Kernels, want.HostHeldS, want.KernelS = Traced, 2.5, 1
	want.CopyInBytes, want.CopyInS, want.CopyOutBytes, want.CopyOutS = 7, 2, 8, 0.5
	want.KernelPhases, want.Rounds = []KernelPhase{{SMs: 77.0 / 32, S: 1}}, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("traced: %s", diff)
	}
	m.Trace.Incomplete = true
	if cut, err := New(m); err != nil || cut.Kernels != Estimated {
		t.Errorf("with lost records: kernels %s, %v, want estimated", cut.Kernels, err)
	}
	if got.WallS() != 10 {
		t.Errorf("phases add up to %v s of 10 s", got.WallS())
	}
}

// A task that was granted and released at the same time counts.
func TestProfileOfAnInstantTask(t *testing.T) {
	m := measurement()
	m.Tasks = m.Tasks[:1]
	m.Tasks[0].ReleaseS = m.Tasks[0].GrantS
	if got, err := New(m); err != nil || got.Footprint.Bytes != 105 {
		t.Errorf("%+v, %v, want 105 bytes", got, err)
	}
}

// A process may hold more memory than its tasks show.
func TestProfileOfAProcessThatHoldsMore(t *testing.T) {
	m := measurement()
	m.PeakBytes = 1 << 30
	if got, err := New(m); err != nil || got.Footprint.Bytes != 1<<30 {
		t.Errorf("%+v, %v, want 1 GiB", got, err)
	}
}

// The profile of a process that its probe could not serve has the memory that it was seen to use.
func TestProfileWithoutTasks(t *testing.T) {
	m := measurement()
	m.Tasks = nil
	if _, err := New(m); !errors.Is(err, errNoDevice) {
		t.Errorf("neither tasks nor memory: %v", err)
	}
	m.PeakBytes = 1 << 30
	got, err := New(m)
	if err != nil || got.HostBeforeS != 0 || got.HostHeldS != 10 || got.Footprint.Bytes != 1<<30 {
		t.Errorf("with memory only: %+v, %v", got, err)
	}
	// The traced run is a separate run, which began 40 s later.
	m.TracedFromS = *m.Record.StartS + 40
	m.Trace = traceOf(nil, results.Kernel{StartS: *m.Record.StartS + 43, EndS: *m.Record.StartS + 47, Grid: "3,1,1", Block: "32,1,1"})
	got, err = New(m)
	if err != nil || got.HostBeforeS != 3 || got.HostHeldS != 3 || got.KernelS != 4 || got.Footprint.Blocks != 3 {
		t.Errorf("traced: %+v, %v", got, err)
	}
}

// Even if kernels and copies overlap, no phase is negative. A task that was never released is held
// to the end.
func TestProfilePhasesAreNeverNegative(t *testing.T) {
	m := measurement()
	m.Tasks = m.Tasks[:1]
	m.Tasks[0].ReleaseS = nil
	m.Trace = traceOf([]results.Copy{{Kind: "htod", StartS: 1, EndS: 8}}, results.Kernel{StartS: 1, EndS: 8, Grid: "1,1,1", Block: "1,1,1"})
	got, err := New(m)
	if err != nil || got.HostHeldS != 0 || got.HostAfterS != 0 || got.HostBeforeS != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	m.Record.EndS = nil
	if _, err := New(m); err == nil {
		t.Error("a job without an end has no profile")
	}
}
