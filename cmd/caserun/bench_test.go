package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/schedulers"
)

// BenchmarkThousandJobs is the harness's own cost: a mix of 1,000 jobs that do
// nothing, as many at once as there are cores, everything stored, beside xargs
// -P on the same programs in the same run. The devices exist on paper only.
func BenchmarkThousandJobs(b *testing.B) {
	const jobs = 1000
	program, err := exec.LookPath("true")
	if err != nil {
		b.Skipf("no program that does nothing: %v", err)
	}
	workers := runtime.NumCPU()
	var ours, xargs time.Duration
	for b.Loop() {
		began := time.Now()
		runNothing(b, program, jobs, workers)
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

func runNothing(b *testing.B, program string, count, workers int) {
	b.Helper()
	dir := b.TempDir()
	db, err := store.Open(filepath.Join(dir, "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	mix := mixes.Mix{Name: "nothing", Source: "benchmark"}
	var programs, dirs []string
	for range count {
		mix.Jobs = append(mix.Jobs, mixes.Job{Name: "true", Program: program})
		programs, dirs = append(programs, program), append(dirs, dir)
	}
	device := schedulers.Device{Name: "paper", CapacityBytes: 1 << 34, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}
	s, err := schedulers.Parse(fmt.Sprintf("cg:workers=%d", workers), 1)
	if err != nil {
		b.Fatal(err)
	}
	r := request{mix: mix, store: db, stderr: io.Discard}
	run, err := r.record(s, workers)
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
	x, err := live.NewExecutor(live.Config{Jobs: mix.Jobs, Programs: programs, Dirs: dirs, UUIDs: []string{"GPU-paper"},
		IDs: [][16]byte{{1}}, Dir: filepath.Join(dir, "out"), Warn: b.Logf, Start: started})
	if err != nil {
		b.Fatal(err)
	}
	o, err := t.drive(context.Background(), runner.Config{Jobs: mix.Jobs, Devices: []schedulers.Device{device}, Scheduler: s}, x, nil)
	if err != nil || o.run.Metrics.OK != count {
		b.Fatalf("%d of %d jobs ok: %v", o.run.Metrics.OK, count, err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
