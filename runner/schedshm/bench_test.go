package schedshm_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/probe/probetest"
)

// BenchmarkFigure9 measures what schedGPU costs its clients, in stages and in total, with both
// architectures and with a mutex instead of the file lock. It reports the p50 and p99 of 500
// clients that are new processes, in microseconds, beside the paper's totals (Figure 9, without
// the server's start and stop).
func BenchmarkFigure9(b *testing.B) {
	const rounds, capacity = 500, 1 << 30
	lifecycle := filepath.Join(native, "bench/lifecycle.c")
	for _, bench := range []struct {
		name         string
		architecture string
		lock         string // the file with it; "" as ever
		paperUS      float64
	}{
		{"client-server", "server", "", 1165.5},
		{"shared-file-lock", "shared", "", 584.9},
		{"shared-mutex", "shared", filepath.Join(native, "bench/lock_mutex.c"), 586.7},
	} {
		b.Run(bench.name, func(b *testing.B) {
			program := filepath.Join(b.TempDir(), "lifecycle")
			if err := probetest.BuildWithLock(native, program, bench.lock, lifecycle); err != nil {
				b.Fatal(err)
			}
			a := architectures[bench.architecture](b, node{capacity: capacity}, "fifo")
			cmd := exec.Command(program, strconv.Itoa(max(rounds, b.N)), strconv.Itoa(capacity))
			cmd.Env = a.env(0)
			out, err := cmd.Output()
			if err != nil {
				b.Fatalf("%v\n%s", err, err.(*exec.ExitError).Stderr)
			}
			for line := range strings.Lines(string(out)) {
				var stage string
				var p50, p99 float64
				if _, err := fmt.Sscan(line, &stage, &p50, &p99); err != nil {
					b.Fatalf("%q: %v", line, err)
				}
				b.ReportMetric(p50, stage+"-p50-us")
				b.ReportMetric(p99, stage+"-p99-us")
			}
			b.ReportMetric(bench.paperUS, "paper-total-us")
			b.ReportMetric(0, "ns/op") // meaningless, because the number of rounds is fixed
		})
	}
}
