package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

// EachLaunch gives what EachKernel gives, without the aggregates.
func TestLaunchesAreTheKernels(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	all := fullRows(found)
	second := oneLaunch()
	second.Job, second.Name, second.EndS, second.BusyS = 1, "another(int)", 3, 1.5
	all.Kernels = append(all.Kernels, second)
	id := record(t, s, run, all)

	var want, got []results.Launch
	collect := func(k results.Kernel) error {
		if k.Grid != "" {
			want = append(want, results.Launch{Job: k.Job, Name: k.Name, Grid: k.Grid, Block: k.Block, BusyS: k.BusyS})
		}
		return nil
	}
	if err := s.EachKernel(context.Background(), id, collect); err != nil {
		t.Fatal(err)
	}
	err := s.EachLaunch(context.Background(), id, func(l results.Launch) error {
		got = append(got, l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
		t.Errorf("%d launches (-kernels +launches):\n%s", len(got), diff)
	}
}

// BenchmarkLaunches reads 200,000 launches of a traced run in both ways.
func BenchmarkLaunches(b *testing.B) {
	const launches = 200_000
	s := openTemp(b)
	run, found := fullRun()
	all := fullRows(found)
	all.Kernels = nil
	for i := range launches {
		k := oneLaunch()
		k.Job, k.Name = i%2, fmt.Sprintf("kernel_%d(float *, int)", i%7)
		k.StartS, k.EndS = float64(i), float64(i)+0.5
		k.BusyS = 0.5
		all.Kernels = append(all.Kernels, k)
	}
	id := record(b, s, run, all)
	count := func(b *testing.B, each func(counted *int) error) {
		for b.Loop() {
			n := 0
			if err := each(&n); err != nil || n != launches {
				b.Fatalf("%d of %d (%v)", n, launches, err)
			}
		}
		b.ReportMetric(float64(launches*b.N)/b.Elapsed().Seconds(), "rows/s")
	}
	b.Run("kernels", func(b *testing.B) {
		count(b, func(n *int) error {
			return s.EachKernel(context.Background(), id, func(results.Kernel) error { *n++; return nil })
		})
	})
	b.Run("launches", func(b *testing.B) {
		count(b, func(n *int) error {
			return s.EachLaunch(context.Background(), id, func(results.Launch) error { *n++; return nil })
		})
	})
}
