//go:build slurm

package slurm

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// BenchmarkTasks measures how long it takes to submit the tasks of a sweep, and to list them. The tasks are held, so they do
// not run. docs/design/slurm.md has the results.
func BenchmarkTasks(b *testing.B) {
	slurmtest.Start(b, "MaxArraySize=20001", "MaxJobCount=1000000")
	logs := b.TempDir()
	submit := func(b *testing.B, n int) {
		a := Array{Name: "held", Tasks: n, Command: []string{"true", TaskNumber}, Logs: logs, Args: []string{"--hold"}}
		if jobs, err := a.Submit(b.Context()); err != nil || len(jobs) != 1 {
			b.Fatalf("arrays %v, %v; want one", jobs, err)
		}
	}
	cancel := func(b *testing.B) {
		if _, err := Cancel(context.WithoutCancel(b.Context()), "held"); err != nil {
			b.Fatal(err)
		}
	}
	sizes := []int{1_000, 10_000}
	for _, n := range sizes { // first, because tasks that were cancelled are listed for some minutes
		b.Run(fmt.Sprintf("list/%d", n), func(b *testing.B) {
			submit(b, n)
			defer cancel(b)
			for b.Loop() {
				tasks, err := List(b.Context(), "held")
				if waiting := slices.DeleteFunc(tasks, Task.Ended); err != nil || len(waiting) != n {
					b.Fatalf("%d tasks wait, %v; want %d", len(waiting), err, n)
				}
			}
		})
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("submit/%d", n), func(b *testing.B) {
			for b.Loop() {
				submit(b, n)
				b.StopTimer()
				cancel(b)
				b.StartTimer()
			}
		})
	}
}
