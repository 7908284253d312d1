package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
)

// tenMinutes makes ten minutes of 1 kHz samples of eight devices: 4.8 million. A device's value
// changes with every change-th sample. Stamps jitter as on a busy host.
func tenMinutes(change int, each func(results.Segment)) {
	const ticks, devices = 600_000, 8
	random := rand.New(rand.NewPCG(1, 2))
	stamp := func(tick, device int) float64 {
		at := time.Duration(tick)*time.Millisecond + time.Duration(device)*8*time.Microsecond
		return (at + time.Duration(random.ExpFloat64()*12e3)).Seconds()
	}
	for tick := 0; tick < ticks; tick += change {
		for d := range devices {
			x := results.Segment{Device: d, Series: results.SeriesGPU, FirstS: stamp(tick, d), Samples: int64(change),
				Value: ptr(float64(random.IntN(101)) / 100)}
			if x.LastS = x.FirstS; change > 1 {
				x.LastS = stamp(tick+change-1, d)
			}
			each(x)
		}
	}
}

func recordTenMinutes(tb testing.TB, path string, change int) (run int64, segments int) {
	tb.Helper()
	ctx := context.Background()
	s, err := Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	about, found := fullRun()
	devices := make([]results.Device, 8)
	for i := range devices {
		devices[i] = found[0]
		devices[i].Index = i
	}
	if run, err = s.BeginRun(ctx, about, devices); err != nil {
		tb.Fatal(err)
	}
	w := s.Writer(run)
	tenMinutes(change, func(x results.Segment) { w.Segment(x); segments++ })
	if err := w.Finish(ctx, about); err != nil {
		tb.Fatal(err)
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
	return run, segments
}

func megabytes(tb testing.TB, path string) float64 {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

// BenchmarkTenMinutes measures the space that 4.8 million samples take in the store, and the
// time to read them. The driver refreshes a value every 200 ms at best; a change with every
// sample is the worst case.
func BenchmarkTenMinutes(b *testing.B) {
	for _, change := range []int{200, 1} {
		b.Run(fmt.Sprintf("change=%dms", change), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "runs.db")
			began := time.Now()
			run, want := recordTenMinutes(b, path, change)
			wrote := time.Since(began)
			s, err := OpenReadOnly(path)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				got, err := s.Segments(context.Background(), run)
				if err != nil || len(got) != want {
					b.Fatalf("%d segments of %d (%v)", len(got), want, err)
				}
			}
			b.ReportMetric(megabytes(b, path), "MB")
			b.ReportMetric(float64(want), "segments")
			b.ReportMetric(wrote.Seconds(), "write-s")
		})
	}
}

// The worst case is in BenchmarkTenMinutes, because it takes a while to write.
func TestTenMinutesTakeUnderTenMegabytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	recordTenMinutes(t, path, 200)
	if size := megabytes(t, path); size > 10 {
		t.Errorf("4.8 million samples that change every 200 ms take %.1f MB", size)
	}
}

// thousands stores n complete runs of a few arms, as a year of nightly sweeps does.
func thousands(tb testing.TB, path string, n int) {
	tb.Helper()
	ctx := context.Background()
	s, err := Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	about, found := fullRun()
	configuration := make([]byte, 1000)
	for i := range configuration {
		configuration[i] = 'x'
	}
	about.Provenance.Configuration = string(configuration)
	all := fullRows(found)
	for i := range n {
		run := about
		run.Mix, run.Scheduler = fmt.Sprintf("W%d", i%8+1), []string{"sa", "cg", "case-alg2", "case-alg3"}[i/8%4]
		run.Repetition, run.Tag = i/32%7+1, fmt.Sprintf("nightly-%d", i/224)
		id, err := s.BeginRun(ctx, run, found)
		if err != nil {
			tb.Fatal(err)
		}
		w := s.Writer(id)
		for k := range 16 {
			j := all.Jobs[0]
			j.Index = k
			w.Job(j)
		}
		if err := w.Flush(ctx); err != nil {
			tb.Fatal(err)
		}
		if err := s.finish(ctx, withID(run, id)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

func withID(r results.Run, id int64) results.Run {
	r.ID = id
	return r
}

// BenchmarkTenThousandRuns measures what lists and comparisons read from a large store.
func BenchmarkTenThousandRuns(b *testing.B) {
	path := filepath.Join(b.TempDir(), "runs.db")
	thousands(b, path, 10_000)
	s, err := OpenReadOnly(path)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		name   string
		filter Filter
		want   int
	}{
		{"all", Filter{}, 10_000},
		{"last", Filter{Last: 1}, 1},
		{"tag", Filter{Tag: "nightly-20"}, 224},
		{"arm", Filter{Mix: "W7", Scheduler: "case-alg3"}, 312},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				got, err := s.Runs(context.Background(), c.filter)
				if err != nil || len(got) != c.want {
					b.Fatalf("%d runs, want %d (%v)", len(got), c.want, err)
				}
			}
			b.ReportMetric(megabytes(b, path), "MB")
		})
	}
}
