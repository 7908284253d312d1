package main

import (
	"strconv"
	"strings"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/results"
)

// sumTraces adds up what a job did on the device; nil where it did nothing, or
// was not traced.
func sumTraces(kernels []results.Kernel, copies []results.Copy, tracer results.Tracer) *profiles.Trace {
	if len(kernels)+len(copies) == 0 {
		return nil
	}
	out := profiles.Trace{Incomplete: some(tracer.Lost) || some(tracer.Cut)}
	most := -1.0
	first := true
	lasts := func(from, to float64) float64 {
		if first || from < out.FirstS {
			out.FirstS, first = from, false
		}
		return to - from
	}
	for _, k := range kernels {
		out.KernelS += lasts(k.StartS, k.EndS)
		blocks, threads := product(k.Grid), product(k.Block)
		// In floating point: a grid of 2^63 blocks is valid, its warps are more.
		if warps := float64(blocks) * float64((threads+31)/32); warps > most {
			most, out.Blocks, out.ThreadsPerBlock = warps, blocks, uint32(threads)
		}
	}
	for _, c := range copies {
		lasted := lasts(c.StartS, c.EndS)
		switch c.Kind {
		case "htod", "htoa":
			out.CopyInS += lasted
			out.CopyInBytes += c.Bytes
		case "dtoh", "atoh":
			out.CopyOutS += lasted
			out.CopyOutBytes += c.Bytes
		default: // within the device
			out.KernelS += lasted
		}
	}
	return &out
}

func some(count *int64) bool { return count != nil && *count > 0 }

// product of "x,y,z"; 0 where a record has none.
func product(dims string) uint64 {
	n := uint64(1)
	for d := range strings.SplitSeq(dims, ",") {
		v, err := strconv.ParseUint(d, 10, 32)
		if err != nil {
			return 0
		}
		n *= v
	}
	return n
}
