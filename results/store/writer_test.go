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

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/userfile/network"
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
		found, err := s.Jobs(context.Background(), w.run)
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
	if found, err := s.Jobs(ctx, w.run); err != nil || len(found) != 2 {
		t.Errorf("%d good rows landed (%v), want 2", len(found), err)
	}
	run, _ := fullRun()
	if err := w.Finish(ctx, run); err == nil {
		t.Error("Finish hid the lost rows")
	}
	if got, err := s.Run(ctx, w.run); err != nil || got.Status != results.Interrupted {
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
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), s.Path()) || !strings.Contains(err.Error(), "name another store") {
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
		s, err := open(t.TempDir()+"/runs.db", network.Of)
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
			_ = w.firstError()
		}
		if err := s.Close(); (err == nil) != asked {
			t.Errorf("asked %v: Close returned %v", asked, err)
		}
		w.Job(results.Job{})
		if err := w.firstError(); err == nil {
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
	chance.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		n := rapid.IntRange(0, 50).Draw(t, "entries")
		q := newQueue(limit, limit)
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
	chance.Check(t, func(rt *rapid.T) {
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
		found, err := s.Jobs(ctx, w.run)
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

// The states of a job between two commits cost one row. A row that refers to the job has it there, and a
// state that the table refuses costs itself only.
func TestABatchWritesTheLastStateOfEachJob(t *testing.T) {
	s := openTemp(t)
	w := begin(t, s)
	nowhere := 7
	job := func(index int, name string, device *int) entry {
		e := row(jobs, results.Job{Index: index, Name: name, Device: device})
		e.writer, e.state, e.of.job = w, true, index
		return e
	}
	kernel := row(shapes, shape{})
	launched := row(launches, launch{Kernel: results.Kernel{Job: 1}})
	kernel.writer, launched.writer = w, w
	executed := 0
	batch := []entry{job(0, "a", nil), job(1, "a", nil), kernel, launched, job(0, "b", nil), job(1, "b", &nowhere), job(1, "c", nil), job(1, "d", &nowhere), job(0, "c", nil)}
	for i, e := range batch {
		batch[i].fields = func() (keys, values []any) { executed++; return e.fields() }
	}
	refused, err := s.transact(batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(refused) != 2 {
		t.Errorf("%d rows were refused, want the two of job 1 with a device that is not there: %v", len(refused), refused)
	}
	if want := 1 + 5 + 2; executed != want { // job 0 once; job 1 its last, and then each; the kernel's rows
		t.Errorf("%d rows were executed, want %d", executed, want)
	}
	found, err := s.Jobs(context.Background(), w.run)
	if err != nil || len(found) != 2 || found[0].Name != "c" || found[1].Name != "c" {
		t.Errorf("jobs %+v (%v), want the last good state of each", found, err)
	}
	if kernels, err := s.Kernels(context.Background(), w.run); err != nil || len(kernels) != 1 {
		t.Errorf("%d kernels (%v), want 1", len(kernels), err)
	}
}

// A later state of a job updates its row, or makes it, where the first state was refused.
func TestAStateIsWrittenThoughTheOneBeforeWasRefused(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	w := begin(t, s)
	nowhere := 7
	var errs []error
	for _, j := range []results.Job{{Index: 0, Name: "a"}, {Index: 1, Name: "a", Device: &nowhere}, {Index: 1, Name: "b"}, {Index: 0, Name: "b", Device: &nowhere}, {Index: 1, Name: "c"}} {
		w.Job(j)
		errs = append(errs, w.Flush(ctx))
	}
	if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[4].Error(), "2 rows") {
		t.Errorf("errors %v, want the second row and the fourth lost", errs)
	}
	if found, err := s.Jobs(ctx, w.run); err != nil || len(found) != 2 || found[0].Name != "a" || found[1].Name != "c" {
		t.Errorf("jobs %+v (%v), want the last good state of each", found, err)
	}
}

// A run that can wait holds no more rows than a transaction takes, while others do not wait.
func TestOnlyPatientRunsWait(t *testing.T) {
	q := newQueue(100, 3)
	patient, other := &Writer{patient: true}, &Writer{}
	for range 3 {
		q.put(entry{writer: patient})
	}
	for range 10 {
		if !q.put(entry{writer: other}) {
			t.Fatal("the queue is closed")
		}
	}
	var putting sync.WaitGroup
	putting.Go(func() {
		for range 20 {
			q.put(entry{writer: patient})
		}
		q.close()
	})
	taken, most := 0, 0
	for more := true; more; {
		<-q.arrived
		var batch []entry
		batch, more = q.take(100)
		if taken > 0 {
			most = max(most, len(batch))
		}
		taken += len(batch)
		q.done(batch)
	}
	putting.Wait()
	if taken != 33 || most > 3 {
		t.Errorf("%d rows came, up to %d at once; want 33, up to 3", taken, most)
	}
}
