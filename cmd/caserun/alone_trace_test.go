package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

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
	huge := []results.Kernel{kernels[0], kernel(0, 1, "2147483647,65535,65535", "1024,1,1")}
	if got := sumTraces(huge, nil, results.Tracer{}); got.Blocks != 2147483647*65535*65535 || got.ThreadsPerBlock != 1024 {
		t.Errorf("the largest grid there is: %+v", got)
	}
	want := &profiles.Trace{FirstS: 2, KernelS: 7, CopyInBytes: 11, CopyInS: 2, CopyOutBytes: 1100, CopyOutS: 5, Blocks: 20, ThreadsPerBlock: 33}
	if diff := cmp.Diff(want, sumTraces(kernels, copies, results.Tracer{Lost: new(int64(0)), Cut: new(int64(0))})); diff != "" {
		t.Error(diff)
	}
	for name, tracer := range map[string]results.Tracer{"lost": {Lost: new(int64(1))}, "cut": {Cut: new(int64(1))}} {
		if got := sumTraces(kernels, nil, tracer); got == nil || !got.Incomplete {
			t.Errorf("%s: %+v, want an incomplete sum", name, got)
		}
	}
	if got := sumTraces(nil, nil, results.Tracer{}); got != nil {
		t.Errorf("nothing recorded: %+v", got)
	}
}

// What the tracer leaves of a job reaches its profile, with what is missing.
func TestProfileOfATracedJob(t *testing.T) {
	sample, err := filepath.Abs("../../native/probe/tracer/testdata/sample.trace")
	if err != nil {
		t.Fatal(err)
	}
	p, a := onPaper(t, mixes.Job{Name: "traced", Program: "/bin/sh", Args: []string{"-c", `cp "$0" "$CASE_TRACE_DIR/1.trace"`, sample}})
	for i := range a.id {
		a.id[i] = 0xa0 + byte(i) // the sample's device
	}
	a.tracer = "/nowhere/libcasetrace.so" // no CUDA here that would load it
	found, err := profilesOf(t.Context(), p, a)
	if err != nil || len(found) != 1 {
		t.Fatalf("profiles %+v, %v", found, err)
	}
	got := found[0]
	if got.Kernels != profiles.Estimated || got.CopyInBytes != 5<<30 || got.KernelS < 549e-9 || got.KernelS > 551e-9 || got.Footprint.ThreadsPerBlock != 1024 {
		t.Errorf("%+v, want the sample's 5 GiB in, 550 ns and records lost", got)
	}
}
