package schedulers_test

import (
	"slices"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// BenchmarkEngine is one Submit and one Release of a needle-sized task on
// eight devices with a V100's limits, half of them busy.
func BenchmarkEngine(b *testing.B) {
	device := schedulers.Device{Name: "V100", CapacityBytes: 16 << 30, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}
	for _, info := range schedulers.All() {
		b.Run(info.Name, func(b *testing.B) {
			s, err := schedulers.Parse(info.Name, 8)
			if err != nil {
				b.Fatal(err)
			}
			e, err := schedulers.NewEngine(slices.Repeat([]schedulers.Device{device}, 8), s.Policy, s.Config)
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
				if _, err := e.Release(id, 0); err != nil {
					b.Fatal(err)
				}
				e.JobExit(5, 0)
			}
		})
	}
}
