package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// BenchmarkEngineGrowth is one Submit and one Release on four full devices, with
// 700 tasks in the queue and some that wait to grow, or as many jobs that hold a task and
// wait for another.
func BenchmarkEngineGrowth(b *testing.B) {
	device := schedulers.Device{Name: "H200", CapacityBytes: 140 << 30, ContextBytes: 512 << 20, SMs: 132, WarpsPerSM: 64, BlocksPerSM: 32}
	for _, name := range []string{"case-alg2", "case-alg3"} {
		for _, wait := range []struct{ growing, holding int }{{0, 0}, {64, 0}, {0, 64}} {
			b.Run(fmt.Sprintf("%s/growing=%d/holding=%d", name, wait.growing, wait.holding), func(b *testing.B) {
				s, err := policies.Parse(name, 4)
				if err != nil {
					b.Fatal(err)
				}
				e, err := engine.New(slices.Repeat([]schedulers.Device{device}, 4), s.Policy, s.Config)
				if err != nil {
					b.Fatal(err)
				}
				id := schedulers.TaskID(0)
				submit := func(job schedulers.JobID, bytes int64) {
					id++
					t := schedulers.Task{ID: id, Job: job, Bytes: bytes, Blocks: 64, ThreadsPerBlock: 64}
					if _, err := e.Submit(t, 0); err != nil {
						b.Fatal(err)
					}
				}
				for job := range schedulers.JobID(120 + 700) {
					submit(job, 4<<30)
				}
				for job := range schedulers.JobID(wait.holding) {
					submit(job, 100<<30)
				}
				for i := range wait.growing {
					if _, err := e.Grow(schedulers.TaskID(i+1), 60<<30, nil, 0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					submit(1000, 5<<30)
					if _, err := e.Release(id); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkEngine is one Submit and one Release of a needle-sized task on
// eight devices with a V100's limits, half of them busy.
func BenchmarkEngine(b *testing.B) {
	device := schedulers.Device{Name: "V100", CapacityBytes: 16 << 30, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}
	for _, info := range policies.All() {
		b.Run(info.Name, func(b *testing.B) {
			s, err := policies.Parse(info.Name, 8)
			if err != nil {
				b.Fatal(err)
			}
			e, err := engine.New(slices.Repeat([]schedulers.Device{device}, 8), s.Policy, s.Config)
			if err != nil {
				b.Fatal(err)
			}
			id := schedulers.TaskID(0)
			submit := func(job schedulers.JobID) {
				id++
				t := schedulers.Task{ID: id, Job: job, Bytes: 1 << 30, Blocks: 2003, ThreadsPerBlock: 16}
				if ds, err := e.Submit(t, 0); err != nil || len(ds) != 1 || ds[0].Kind != schedulers.Granted {
					b.Fatalf("submit: %v, %v", ds, err)
				}
			}
			for job := range 4 {
				submit(schedulers.JobID(job + 1))
			}
			b.ReportAllocs()
			for b.Loop() {
				submit(5)
				if _, err := e.Release(id); err != nil {
					b.Fatal(err)
				}
				e.JobExit(5)
			}
		})
	}
}
