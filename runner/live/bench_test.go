package live

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// BenchmarkTasks measures case_task_begin and case_task_free in C processes against a whole
// run: the probe's server, the batch and the engine. BenchmarkRoundTrip of package probe is
// the same with a server that grants at once.
func BenchmarkTasks(b *testing.B) {
	client := filepath.Join(nativetest.Build(b, "probe", "build/roundtrip"), "build/roundtrip")
	for _, bench := range []struct {
		name    string
		clients int
		pauseUS int
	}{
		{"processes=1", 1, 0},
		{"paced=1", 1, 1000},
		{"processes=48", 48, 0},
		{"paced=48", 48, 10000},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := newRig(b, "case-alg3")
			r.jobs = []mixes.Job{{Name: "roundtrip", Program: client, Args: []string{"-n", strconv.Itoa(max(1, b.N/bench.clients)),
				"-c", strconv.Itoa(bench.clients), "-i", strconv.Itoa(bench.pauseUS)}}}
			jobs, _ := r.mustRun()
			if !slices.Equal(outcomes(jobs), []results.Outcome{results.OK}) {
				b.Fatalf("%s: %s", *jobs[0].Outcome, jobs[0].Detail)
			}
			var p50, p90, p99, worst, rate float64
			out := r.output(0)
			if _, err := fmt.Sscanf(out, "p50 p90 p99 max %f %f %f %f us requests_per_s %f", &p50, &p90, &p99, &worst, &rate); err != nil {
				b.Fatalf("%v in %q", err, out)
			}
			b.ReportMetric(p50, "p50-us")
			b.ReportMetric(p99, "p99-us")
			b.ReportMetric(rate, "req/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLook is a look at the processes of a device, with the batch and the engine, and without the driver's call.
func BenchmarkLook(b *testing.B) {
	for _, processes := range []int{1, 32} {
		b.Run(fmt.Sprint("processes=", processes), func(b *testing.B) {
			r := newRig(b, "case-alg3")
			r.jobs = []mixes.Job{{Name: "waits", Program: "/bin/sh", Args: []string{"-c", "read line <go"}}}
			if err := unix.Mkfifo(filepath.Join(r.dir, "go"), 0o600); err != nil {
				b.Fatal(err)
			}
			var found []nvml.Process
			owners := map[int]owner{}
			for pid := range processes {
				found = append(found, nvml.Process{PID: -pid - 1, UsedBytes: new(uint64(gib / 64))})
				owners[-pid-1] = owner{ours: true}
			}
			measured := false
			r.observe = func(s runner.Step) {
				if _, ok := s.Event.(runner.JobStarted); !ok || measured {
					return
				}
				measured = true
				go func() {
					r.x.config.Users = func(int) ([]nvml.Process, time.Duration, error) { return found, time.Microsecond, nil }
					r.x.config.Compares = true
					l := &looks{owners: owners, users: users{seen: map[[2]int]*sight{}}, told: make([]int, len(r.uuids)), ours: true}
					b.ReportAllocs()
					for b.Loop() {
						r.x.look(l)
					}
					b.StopTimer()
					r.tellPipe("go")
				}()
			}
			r.mustRun()
		})
	}
}
