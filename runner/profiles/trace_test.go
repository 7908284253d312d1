package profiles

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caserun/caserun/results"
)

var h200SM = SM{Warps: 64, Blocks: 32, SharedBytes: 228 << 10}

func traceOf(copies []results.Copy, kernels ...results.Kernel) *Trace {
	t := NewTrace(h200SM)
	for _, k := range kernels {
		t.Kernel(k)
	}
	for _, c := range copies {
		t.Copy(c)
	}
	return t
}

func TestTracesOfAJobAddUp(t *testing.T) {
	kernel := func(from, to float64, grid, block string) results.Kernel {
		return results.Kernel{StartS: from, EndS: to, Grid: grid, Block: block}
	}
	moved := func(kind string, from, to float64, bytes int64) results.Copy {
		return results.Copy{Kind: kind, StartS: from, EndS: to, Bytes: bytes}
	}
	kernels := []results.Kernel{kernel(5, 7, "10,2,1", "33,1,1"), kernel(7, 8, "12,2,1", "4,8,1"), // 40 warps against 24
		kernel(2, 3, "1,1,1", "32,1,1"), kernel(8, 9, "", "")}
	copies := []results.Copy{moved("htod", 4, 5, 10), moved("htoa", 4, 5, 1), moved("dtoh", 8, 12, 100), moved("atoh", 8, 9, 1000),
		moved("dtod", 3, 4, 9), moved("set", 4, 5, 9)}
	p, err := New(Measurement{Record: results.Job{StartS: new(0.0), EndS: new(20.0)}, Trace: traceOf(copies, kernels...)})
	want := Profile{Command: `""`, HostBeforeS: 2, HostHeldS: 4, KernelS: 7, CopyInBytes: 11, CopyInS: 2, CopyOutBytes: 1100, CopyOutS: 5, Kernels: Traced,
		KernelPhases: []KernelPhase{{SMs: (2*20.0/32 + 24.0/32 + 1.0/32) / 7, S: 7}}, Rounds: 2}
	want.Footprint.Blocks, want.Footprint.ThreadsPerBlock = 20, 33
	if diff := cmp.Diff(want, p, cmpopts.EquateApprox(1e-12, 0)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	huge := traceOf(nil, kernels[0], kernel(0, 1, "2147483647,65535,65535", "1024,1,1"))
	if huge.blocks != 2147483647*65535*65535 || huge.threadsPerBlock != 1024 {
		t.Errorf("the largest grid there is: %+v", huge)
	}
	if !NewTrace(h200SM).Empty() || huge.Empty() {
		t.Error("a trace with kernels, and no other, has something in it")
	}
}

// The expected numbers come from NVIDIA's occupancy calculator for compute capability 9.0.
func TestBlocksPerSM(t *testing.T) {
	for _, c := range []struct {
		threads, registers uint64
		shared             int
		want               uint64
	}{
		{32, 16, 0, 32},     // blocks
		{512, 32, 0, 4},     // warps
		{513, 16, 0, 3},     // whole warps: 17 of them
		{256, 255, 0, 1},    // registers, as of a GEMM with large tiles
		{256, 128, 0, 2},    //
		{128, 96, 49152, 4}, // shared memory
		{1024, 255, 0, 1},   // never less than one
		{0, 0, 0, 32},       // unknown
	} {
		if got := blocksPerSM(h200SM, c.threads, c.registers, c.shared); got != c.want {
			t.Errorf("%d threads, %d registers, %d bytes: %d blocks, want %d", c.threads, c.registers, c.shared, got, c.want)
		}
	}
}

// A class has grids that fill at most twice as many SMs as its smallest grid. Its SMs are the mean,
// weighted by time.
func TestKernelPhases(t *testing.T) {
	var kernels []results.Kernel
	add := func(sms int, lasts float64) { // 4 blocks of 512 threads fill an SM
		kernels = append(kernels, results.Kernel{EndS: lasts, Grid: fmt.Sprintf("%d,1,1", 4*sms), Block: "512,1,1", Registers: 32})
	}
	for _, sms := range []int{1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 100_000} {
		add(sms, 1)
	}
	add(5, 2)
	want := []KernelPhase{{1.5, 2}, {3.5, 2}, {5.75, 4}, {12.5, 2}, {24.5, 2}, {48.5, 2}, {96.5, 2}, {(129 + 100_000) / 2.0, 2}}
	if diff := cmp.Diff(want, traceOf(nil, kernels...).kernelPhases()); diff != "" {
		t.Error(diff)
	}
}

func TestRounds(t *testing.T) {
	run := func(from, to float64) results.Kernel {
		return results.Kernel{StartS: from, EndS: to, Grid: "1,1,1", Block: "1,1,1"}
	}
	in := func(from, to float64) results.Copy { return results.Copy{Kind: "htod", StartS: from, EndS: to} }
	set := results.Copy{Kind: "set", StartS: 1, EndS: 1 + 5e-6}
	many := make([]results.Kernel, 100)
	for i := range many {
		many[i] = run(float64(i), float64(i)+0.5)
	}
	for _, c := range []struct {
		name    string
		copies  []results.Copy
		kernels []results.Kernel
		want    int
	}{
		{"only a copy", []results.Copy{in(0, 1)}, nil, 1},
		{"one piece, read out of order", []results.Copy{in(0, 1), set}, []results.Kernel{run(1+10e-6, 2), run(2+5e-6, 3), run(1+5e-6, 1+10e-6)}, 1},
		{"a gap", nil, []results.Kernel{run(0, 1), run(1.5, 2)}, 2},
		{"a gap that another stream fills", nil, []results.Kernel{run(0, 1), run(0.5, 3), run(1.5, 2), run(3, 4)}, 1},
		{"a copy between", []results.Copy{in(1, 1+5e-6)}, []results.Kernel{run(0, 1), run(1+5e-6, 2)}, 2},
		{"many", nil, many, 32},
	} {
		if got := traceOf(c.copies, c.kernels...).rounds(); got != c.want {
			t.Errorf("%s: %d rounds, want %d", c.name, got, c.want)
		}
	}
}

// A long training has this many kernels. They take one pass and 24 bytes each.
func TestTraceOfManyKernels(t *testing.T) {
	const n = 500_000
	trace := NewTrace(h200SM)
	for i := n; i > 0; i-- {
		at := float64(i) * 1e-5
		trace.Kernel(results.Kernel{StartS: at, EndS: at + 5e-6, Grid: "264,1,1", Block: "512,1,1", Registers: 32})
	}
	phases := trace.kernelPhases()
	if len(phases) != 1 || math.Abs(phases[0].SMs-66) > 1e-6 || math.Abs(phases[0].S-n*5e-6) > 1e-9 || trace.rounds() != 1 {
		t.Errorf("%+v in %d rounds", phases, trace.rounds())
	}
}
