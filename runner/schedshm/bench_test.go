package schedshm_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkFigure9 measures what schedGPU costs its clients, in stages and in total, with both
// architectures and with a mutex instead of the file lock. It reports the p50 and p99 of 500
// clients that are new processes, in microseconds, beside the paper's totals (Figure 9, without
// the server's start and stop).
func BenchmarkFigure9(b *testing.B) {
	const rounds, capacity = 500, 1 << 30
	for _, bench := range []struct {
		name         string
		architecture string
		program      string
		paperUS      float64
	}{
		{"client-server", "server", "build/lifecycle", 1165.5},
		{"shared-file-lock", "shared", "build/lifecycle", 584.9},
		{"shared-mutex", "shared", "build/lifecycle_mutex", 586.7},
	} {
		b.Run(bench.name, func(b *testing.B) {
			a := architectures[bench.architecture](b, node{capacity: capacity}, "fifo")
			cmd := exec.Command(native(b, bench.program), strconv.Itoa(max(rounds, b.N)), strconv.Itoa(capacity))
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

// BenchmarkCrowd measures how many grants a second a crowd of clients makes of which one has the whole
// device and all others wait. It reports each crowd's rate as a share of the rate of 12 clients too,
// which says more than the rates on a machine that does other things as well.
func BenchmarkCrowd(b *testing.B) {
	const capacity = 1 << 30
	for _, policy := range []string{"fifo", "priority-mmu"} {
		b.Run(policy, func(b *testing.B) {
			var of12 float64
			for _, clients := range []int{12, 200, 512} {
				grants, _, seconds := crowd(b, newShared(b, node{capacity: capacity}, policy), clients, capacity, 2)
				rate := float64(grants) / seconds.Seconds()
				if clients == 12 {
					of12 = rate
				} else {
					b.ReportMetric(rate/of12, fmt.Sprintf("%d-of-12", clients))
				}
				b.ReportMetric(rate, fmt.Sprintf("%d-grants/s", clients))
			}
			b.ReportMetric(0, "ns/op") // meaningless, because the time is fixed
		})
	}
}

// crowd counts what clients do that wait for each other (native/probe/bench/crowd.c).
func crowd(tb testing.TB, a arbiter, clients, capacity int, forSeconds float64) (grants, looks int, seconds time.Duration) {
	tb.Helper()
	cmd := exec.Command(native(tb, "build/crowd"), strconv.Itoa(clients), strconv.Itoa(capacity), fmt.Sprint(forSeconds))
	cmd.Env, cmd.Stderr = a.env(0), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	var took float64
	if _, err := fmt.Sscan(string(out), &grants, &looks, &took); err != nil {
		tb.Fatalf("%q: %v", out, err)
	}
	return grants, looks, time.Duration(took * float64(time.Second))
}

// However many clients wait, one of them looks for dead clients for all, every 20 ms at most.
func TestLooksAreShared(t *testing.T) {
	const clients, capacity = 40, 1 << 30
	grants, looks, took := crowd(t, newShared(t, node{capacity: capacity}, "fifo"), clients, capacity, 0.2)
	if most := int(took/(20*time.Millisecond)) + 1; looks > most || grants == 0 {
		t.Errorf("%d clients looked %d times in %v, in which %d grants were made: want %d looks at most", clients, looks, took, grants, most)
	}
}
