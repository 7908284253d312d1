package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// BenchmarkThousandJobs is the harness's own cost: a mix of 1,000 jobs that do
// nothing, as many at once as there are cores, everything stored, beside xargs
// -P on the same programs in the same run. The devices exist on paper only.
func BenchmarkThousandJobs(b *testing.B) {
	const jobs = 1000
	program, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	workers := runtime.NumCPU()
	nothing := slices.Repeat([]mixes.Job{{Name: "true", Program: program}}, jobs)
	var ours, xargs time.Duration
	for b.Loop() {
		began := time.Now()
		runOnPaper(b, b.TempDir(), nothing, fmt.Sprintf("cg:workers=%d", workers))
		ours += time.Since(began)

		began = time.Now()
		cmd := exec.Command("xargs", "-P", fmt.Sprint(workers), "-n", "1", program)
		cmd.Stdin = strings.NewReader(strings.Repeat("x\n", jobs))
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		xargs += time.Since(began)
	}
	perJob := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(b.N) / jobs }
	b.ReportMetric(perJob(ours), "ms/job")
	b.ReportMetric(perJob(xargs), "xargs-ms/job")
	b.ReportMetric(perJob(ours)-perJob(xargs), "added-ms/job")
}

// BenchmarkGrant is how long case_task_begin takes in a C process through the
// whole live path: socket, batch, engine with each policy, records to the
// store. One client asks for b.N tasks one after another, 1 ms apart.
func BenchmarkGrant(b *testing.B) {
	client := filepath.Join(b.TempDir(), "roundtrip")
	native := filepath.Join("..", "..", "native", "probe")
	if err := probetest.Build(native, client, filepath.Join(native, "bench", "roundtrip.c")); err != nil {
		b.Fatal(err)
	}
	for _, info := range policies.All() {
		b.Run(info.Name, func(b *testing.B) {
			dir := b.TempDir()
			job := mixes.Job{Name: "roundtrip", Program: client, Args: []string{"-n", fmt.Sprint(b.N), "-c", "1", "-i", "1000"}}
			runOnPaper(b, dir, []mixes.Job{job}, info.Name)
			text, err := os.ReadFile(filepath.Join(dir, "out", "job-0000.out"))
			if err != nil {
				b.Fatal(err)
			}
			var p50, p90, p99, longest float64
			if _, err := fmt.Sscanf(string(text), "p50 p90 p99 max %f %f %f %f us", &p50, &p90, &p99, &longest); err != nil {
				b.Fatalf("%v: %s", err, text)
			}
			b.ReportMetric(p50, "p50-us")
			b.ReportMetric(p99, "p99-us")
		})
	}
}

// runOnPaper runs jobs live, with everything stored, on a device that exists on
// paper only.
func runOnPaper(b *testing.B, dir string, jobs []mixes.Job, scheduler string) {
	b.Helper()
	db, err := store.Open(filepath.Join(dir, "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	var programs, dirs []string
	for _, j := range jobs {
		programs, dirs = append(programs, j.Program), append(dirs, dir)
	}
	device := schedulers.Device{Name: "paper", CapacityBytes: 1 << 34, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}
	s, err := policies.Parse(scheduler, 1)
	if err != nil {
		b.Fatal(err)
	}
	r := request{mix: mixes.Mix{Name: "benchmark", Source: "benchmark", Jobs: jobs}, store: db, stderr: io.Discard}
	run, err := r.record(s, 0)
	if err != nil {
		b.Fatal(err)
	}
	started := time.Now()
	run.Node, run.Mode, run.StartedAt = "local", results.Live, &started
	t := new(tracker)
	if err := t.begin(context.Background(), r, run, []results.Device{{Name: device.Name, MemoryBytes: device.CapacityBytes,
		CapacityBytes: device.CapacityBytes, SMs: device.SMs, WarpsPerSM: device.WarpsPerSM, BlocksPerSM: device.BlocksPerSM}}); err != nil {
		b.Fatal(err)
	}
	x, err := live.NewExecutor(live.Config{Jobs: jobs, Programs: programs, Dirs: dirs, UUIDs: []string{"GPU-paper"},
		IDs: [][16]byte{{1}}, Dir: filepath.Join(dir, "out"), Warn: b.Logf, Start: started})
	if err != nil {
		b.Fatal(err)
	}
	o, err := t.drive(context.Background(), runner.Config{Jobs: jobs, Devices: []schedulers.Device{device}, Scheduler: s}, x)
	if err != nil || o.run.Metrics.OK != len(jobs) {
		b.Fatalf("%d of %d jobs ok: %v", o.run.Metrics.OK, len(jobs), err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
