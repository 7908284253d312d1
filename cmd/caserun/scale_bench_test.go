package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// storeOf runs fill on a new store and returns its path.
func storeOf(b *testing.B, fill func(context.Context, *store.Store) error) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "runs.db")
	s, err := store.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := fill(context.Background(), s); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// measured is a complete live run with as many jobs as W1 has.
func measured(ctx context.Context, s *store.Store, run results.Run, devices int, rest func(*store.Writer)) error {
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run.Node, run.Mode, run.StartedAt, run.Suite, run.Jobs = "local", results.Live, &started, "builtin", 16
	run.Provenance = results.Provenance{Configuration: strings.Repeat("[", 1000), Binaries: strings.Repeat("x", 1000), CPU: "Xeon"}
	var found []results.Device
	for i := range devices {
		found = append(found, results.Device{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA H200", MemoryBytes: 150 << 30})
	}
	id, err := s.BeginRun(ctx, run, found)
	if err != nil {
		return err
	}
	w := s.Writer(id)
	ok, zero := results.OK, 0
	for i := range run.Jobs {
		end := *run.Metrics.MakespanS - float64(i)
		w.Job(results.Job{Index: i, Name: "needle", Command: "needle 32768 10", Device: &zero, StartS: new(0.0), EndS: &end, WaitS: new(0.0), Outcome: &ok, ExitStatus: &zero})
	}
	if rest != nil {
		rest(w)
	}
	run.ID, run.Status = id, results.Complete
	return w.Finish(ctx, run)
}

func metrics(makespan float64) results.Metrics {
	return results.Metrics{OK: 16, MakespanS: &makespan, ThroughputJobsPerS: new(16 / makespan), AttemptedJobsPerS: new(16 / makespan),
		TurnaroundMeanS: new(makespan / 2), TurnaroundP95S: &makespan, WaitMeanS: new(1.0)}
}

// commands measures whole commands, from opening the store to the last byte.
func commands(b *testing.B, path string, lines ...string) {
	for _, line := range lines {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			page := filepath.Join(b.TempDir(), "page.html")
			args := append(strings.Fields(strings.ReplaceAll(line, "PAGE", page)), "--db", path)
			for b.Loop() {
				var out, errs bytes.Buffer
				if status := run(context.Background(), args, strings.NewReader(""), &out, &errs); status != exitOK {
					b.Fatalf("exit %d: %s", status, errs.String())
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms")
		})
	}
}

// BenchmarkTenThousandRuns lists and compares runs of a large store.
func BenchmarkTenThousandRuns(b *testing.B) {
	path := storeOf(b, func(ctx context.Context, s *store.Store) error {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 10_000 {
			err := measured(ctx, s, results.Run{Mix: fmt.Sprintf("W%d", i%8+1), Scheduler: []string{"sa", "cg", "case-alg2", "case-alg3"}[i/8%4],
				Repetition: i/32%10 + 1, Tag: []string{"old", "new"}[i/5000], Metrics: metrics(60 + random.Float64())}, 4, nil)
			if err != nil {
				return err
			}
		}
		return nil
	})
	commands(b, path, "report", "report --format csv", "report --mix W7 --last 10", "report latest", "compare old new")
}

// BenchmarkReportOfTenMinutes reports a run of ten minutes with 1 kHz samples of
// eight devices, whose value changes as often as the driver refreshes it.
func BenchmarkReportOfTenMinutes(b *testing.B) {
	path := storeOf(b, func(ctx context.Context, s *store.Store) error {
		random := rand.New(rand.NewPCG(1, 2))
		return measured(ctx, s, results.Run{Mix: "W1", Scheduler: "sa", Metrics: metrics(600)}, 8, func(w *store.Writer) {
			for i := range 3000 {
				for d := range 8 {
					first := float64(i)*0.2 + float64(d)*8e-6 + random.ExpFloat64()*12e-6
					value := float64(random.IntN(101)) / 100
					w.Segment(results.Segment{Device: d, Series: results.SeriesGPU, FirstS: first, LastS: first + 0.199, Samples: 200, Value: &value})
				}
			}
		})
	})
	commands(b, path, "report", "report latest", "report latest -v", "report latest --html PAGE")
}
