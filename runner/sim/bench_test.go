package sim

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

// BenchmarkBatch measures a simulated batch of 400 jobs, which is mostly the batch and the
// engine: eight or so events of each job.
func BenchmarkBatch(b *testing.B) {
	w1, err := mixes.Lookup("W1")
	if err != nil {
		b.Fatal(err)
	}
	node, err := ParseNode("sim:4xV100")
	if err != nil {
		b.Fatal(err)
	}
	jobs := slices.Repeat(w1.Jobs, 400/len(w1.Jobs))
	for _, scheduler := range []string{"sa", "case-alg2", "case-alg3"} {
		b.Run(scheduler, func(b *testing.B) {
			for b.Loop() {
				trial{node: node, scheduler: scheduler, jobs: jobs, workers: 32}.must(b)
			}
		})
	}
}

// BenchmarkSteps measures 1,000 jobs of 100 steps each, in five tasks that grow.
func BenchmarkSteps(b *testing.B) {
	var text string
	for range 5 {
		text += allocate("a", "1GiB") + transfer("in", "a", "1GiB")
		for _, more := range []string{"b", "c", "d", "e"} {
			text += kernel(4096, 0.25, "") + host(0.125) + allocate(more, "256MiB")
		}
		text += free("b", "c", "d", "e") + transfer("out", "a", "1GiB") + free("a")
	}
	for _, scheduler := range []string{"sa", "case-alg2", "case-alg3"} {
		b.Run(scheduler, func(b *testing.B) {
			s := stepping(b, mustNode(b, "sim:4xH200"), scheduler, text)
			s.jobs, s.workers = slices.Repeat(s.jobs, 1000), s.node.Host.Threads
			for b.Loop() {
				s.must(b)
			}
		})
	}
}

// BenchmarkJobs measures what a job costs in batches of 10,000 and 100,000 under each scheduler, and
// with CASERUN_BENCH_MILLION=1 of a million: time, processor time, bytes allocated, and bytes that
// are left at the end, its place in the mix included. Nothing is stored.
func BenchmarkJobs(b *testing.B) {
	node, w1, known := mustNode(b, "sim:4xV100"), mixJobs(b, "W1"), profiles.Catalog()
	sizes := []int{10_000, 100_000}
	if os.Getenv("CASERUN_BENCH_MILLION") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, info := range enginetest.Policies() {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s/%d", info.Name, n), func(b *testing.B) {
				scheduler, err := policies.Parse(info.Name, node.Count())
				if err != nil {
					b.Fatal(err)
				}
				var left int64
				before := processor(b)
				b.ReportAllocs()
				for b.Loop() {
					held := inUse()
					jobs := slices.Repeat(w1, n/len(w1)+1)[:n]
					x, err := NewExecutor(Config{Node: node, Jobs: jobs, MPS: scheduler.Shares, Revokes: scheduler.Revokes, Profiles: known}, runner.Forgetful{})
					if err != nil {
						b.Fatal(err)
					}
					ended, err := runner.Run(b.Context(), runner.Config{Jobs: jobs, Devices: node.Devices(scheduler.Shares), Scheduler: scheduler,
						Workers: node.Host.Threads, MPS: scheduler.Shares}, x, runner.Forgetful{})
					if err != nil {
						b.Fatal(err)
					}
					left = inUse() - held
					runtime.KeepAlive(jobs)
					runtime.KeepAlive(ended)
				}
				each := float64(b.N * n)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/each, "ns/job")
				b.ReportMetric(float64((processor(b)-before).Nanoseconds())/each, "cpu-ns/job")
				b.ReportMetric(float64(left)/float64(n), "left-B/job")
			})
		}
	}
}

// inUse is the memory in use after a collection.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// processor is the processor time of this process so far.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
