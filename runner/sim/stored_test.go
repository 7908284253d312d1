package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
)

// BenchmarkStoredJobs measures what a job costs in recorded runs of 10,000 and 100,000 jobs, and with
// CASERUN_BENCH_MILLION=1 of a million: time, processor time, bytes allocated, and bytes in the store's
// file. The largest resident memory of the process so far grows with the sizes.
func BenchmarkStoredJobs(b *testing.B) {
	w1, err := mixes.Lookup("W1")
	if err != nil {
		b.Fatal(err)
	}
	sizes := []int{10_000, 100_000}
	if os.Getenv("CASERUN_BENCH_MILLION") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			backend, err := Open(harness.Options{Node: "sim:4xV100"})
			if err != nil {
				b.Fatal(err)
			}
			mix := mixes.Mix{Name: "many", Source: "benchmark", Jobs: slices.Repeat(w1.Jobs, n/len(w1.Jobs)+1)[:n]}
			var bytes int64
			before := usage(b)
			b.ReportAllocs()
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "runs.db")
				db, err := store.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				o, err := harness.Execute(b.Context(), backend, harness.Request{Configuration: harness.Configuration{Sched: "case-alg3"}, Mix: mix, Profiles: profiles.Catalog(), Store: db, Say: b.Logf})
				if err != nil || o.Run.Metrics.OK != n {
					b.Fatalf("%d of %d jobs ok: %v", o.Run.Metrics.OK, n, err)
				}
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil {
					b.Fatal(err)
				}
				bytes = info.Size()
			}
			after := usage(b)
			each := float64(b.N * n)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/each, "ns/job")
			b.ReportMetric(float64((processorTime(after)-processorTime(before)).Nanoseconds())/each, "cpu-ns/job")
			b.ReportMetric(float64(bytes)/float64(n), "file-B/job")
			b.ReportMetric(float64(after.Maxrss)*1024/1e6, "rss-MB")
		})
	}
}

// usage is what this process has used so far.
func usage(b *testing.B) (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u
}

func processorTime(u syscall.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
