package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/results"
)

func begin(t testing.TB, s *Store) *Writer {
	t.Helper()
	run, found := fullRun()
	id, err := s.BeginRun(context.Background(), run, found)
	if err != nil {
		t.Fatal(err)
	}
	return s.Writer(id)
}

func TestRowsLandWithoutAFlush(t *testing.T) {
	s := openTemp(t)
	w := begin(t, s)
	w.Job(results.Job{Index: 0, Name: "first"})
	deadline := time.Now().Add(10 * time.Second)
	for {
		found, err := s.Jobs(context.Background(), w.Run())
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the row did not land")
		}
	}
}

func TestABadRowCostsOnlyItself(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	w, other := begin(t, s), begin(t, s)
	w.Job(results.Job{Index: 0})
	w.Task(results.Task{Job: 5})        // no such job
	w.Kernel(results.Kernel{Device: 7}) // no such device
	w.Job(results.Job{Index: 1})
	other.Job(results.Job{Index: 0})
	<-w.Failed()
	err := w.Flush(ctx)
	if err == nil || !strings.Contains(err.Error(), "2 rows of run 1 lost") || !strings.Contains(err.Error(), "task row") {
		t.Errorf("got error %v, want two rows lost, the task's first", err)
	}
	if err := other.Flush(ctx); err != nil {
		t.Errorf("another run's writer failed too: %v", err)
	}
	if found, err := s.Jobs(ctx, w.Run()); err != nil || len(found) != 2 {
		t.Errorf("%d good rows landed (%v), want 2", len(found), err)
	}
	run, _ := fullRun()
	if err := w.Finish(ctx, run); err == nil {
		t.Error("Finish hid the lost rows")
	}
	if got, err := s.Run(ctx, w.Run()); err != nil || got.Status != results.Interrupted {
		t.Errorf("a run that lost rows has status %q (%v), want interrupted", got.Status, err)
	}
}

func TestFullDiskIsReportedAndEarlierRowsSurvive(t *testing.T) {
	s := openTemp(t, "max_page_count = 200")
	ctx := context.Background()
	w := begin(t, s)
	for i := range 10 {
		w.Job(results.Job{Index: i, Name: "early"})
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1<<16)
	for i := 10; i < 100; i++ {
		w.Job(results.Job{Index: i, StderrTail: long})
	}
	<-w.Failed()
	err := w.Flush(ctx)
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), s.Path()) || !strings.Contains(err.Error(), "--db") {
		t.Errorf("got error %v, want ErrFull with the path and the remedy", err)
	}
	run, _ := fullRun()
	if err := w.Finish(ctx, run); !errors.Is(err, ErrFull) {
		t.Errorf("Finish returned %v, want ErrFull", err)
	}
	var early int
	if err := s.read.QueryRow("SELECT count(*) FROM job WHERE name = 'early'").Scan(&early); err != nil || early != 10 {
		t.Errorf("%d early rows survive (%v), want 10", early, err)
	}
	checkIntegrity(t, s)
}

func checkIntegrity(t *testing.T, s *Store) {
	t.Helper()
	var verdict string
	if err := s.read.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check: %q (%v)", verdict, err)
	}
	var orphans int
	if err := s.read.QueryRow("SELECT count(*) FROM pragma_foreign_key_check").Scan(&orphans); err != nil || orphans != 0 {
		t.Errorf("foreign_key_check: %d orphans (%v)", orphans, err)
	}
}

func TestCloseReportsErrorsNobodyAskedFor(t *testing.T) {
	run, found := fullRun()
	for _, asked := range []bool{false, true} {
		s, err := open(t.TempDir() + "/runs.db")
		if err != nil {
			t.Fatal(err)
		}
		id, err := s.BeginRun(context.Background(), run, found)
		if err != nil {
			t.Fatal(err)
		}
		w := s.Writer(id)
		w.Task(results.Task{Job: 9})
		if asked {
			<-w.Failed()
			_ = w.Err()
		}
		if err := s.Close(); (err == nil) != asked {
			t.Errorf("asked %v: Close returned %v", asked, err)
		}
		w.Job(results.Job{})
		if err := w.Err(); err == nil {
			t.Error("a row for a closed store vanished")
		}
	}
}

func TestReadersAndWritersAtOnce(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	const writers, each = 4, 200
	stop := make(chan struct{})
	var reading, writing sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				found, err := s.Runs(ctx, Filter{})
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range found {
					if _, err := s.Jobs(ctx, r.ID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range writers {
		w := begin(t, s)
		writing.Go(func() {
			for i := range each {
				w.Job(results.Job{Index: i})
				w.Segment(results.Segment{Series: results.SeriesGPU, FirstS: float64(i), LastS: float64(i), Samples: 1})
			}
			if err := w.Flush(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	for id := range int64(writers) {
		if found, err := s.Jobs(ctx, id+1); err != nil || len(found) != each {
			t.Errorf("run %d has %d jobs (%v), want %d", id+1, len(found), err, each)
		}
	}
}

func TestQueueKeepsOrderAndBlocksAtItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		n := rapid.IntRange(0, 50).Draw(t, "entries")
		q := newQueue(limit)
		var putting sync.WaitGroup
		putting.Go(func() {
			for i := range n {
				q.put(entry{table: fmt.Sprint(i)})
			}
			q.close()
		})
		next := 0
		for more := true; more; {
			<-q.arrived
			var batch []entry
			batch, more = q.take(rapid.IntRange(1, 5).Draw(t, "take"))
			if len(batch) > limit {
				t.Fatalf("%d entries waited, limit %d", len(batch), limit)
			}
			for _, e := range batch {
				if e.table != fmt.Sprint(next) {
					t.Fatalf("entry %s came in place of %d", e.table, next)
				}
				next++
			}
		}
		putting.Wait()
		if next != n {
			t.Fatalf("%d of %d entries came out", next, n)
		}
	})
}

// The last record of each key wins, whatever the interleaving of batches.
func TestUpsertsKeepTheLast(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		w := begin(t, s)
		last := map[int]string{}
		for range rapid.IntRange(1, 40).Draw(rt, "writes") {
			i := rapid.IntRange(0, 5).Draw(rt, "job")
			last[i] = rapid.StringMatching(`[a-zé|"]{0,8}`).Draw(rt, "name")
			w.Job(results.Job{Index: i, Name: last[i]})
			if rapid.IntRange(0, 9).Draw(rt, "flush") == 0 {
				if err := w.Flush(ctx); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if err := w.Flush(ctx); err != nil {
			rt.Fatal(err)
		}
		found, err := s.Jobs(ctx, w.Run())
		if err != nil || len(found) != len(last) {
			rt.Fatalf("%d jobs (%v), want %d", len(found), err, len(last))
		}
		for _, j := range found {
			if j.Name != last[j.Index] {
				rt.Fatalf("job %d is %q, want %q", j.Index, j.Name, last[j.Index])
			}
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	for _, kind := range []string{"job", "kernel", "segment"} {
		b.Run(kind, func(b *testing.B) {
			s := openTemp(b)
			w := begin(b, s)
			w.Job(results.Job{})
			ctx := context.Background()
			j := fullRows(nil).Jobs[0]
			k := fullRows(nil).Kernels[0]
			b.ResetTimer()
			for i := range b.N {
				switch kind {
				case "job":
					j.Index = i
					w.Job(j)
				case "kernel":
					w.Kernel(k)
				case "segment":
					at := float64(i)
					w.Segment(results.Segment{Series: results.SeriesGPU, FirstS: at, LastS: at, Samples: 1, Value: &at})
				}
			}
			if err := w.Flush(ctx); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
