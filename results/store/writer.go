package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/caserun/caserun/results"
)

// Writer takes the rows of one run as they happen. Its record methods only queue a row: they
// return at once, whatever the disk does, unless a million rows are already waiting (see Wait). Rows
// are written in the order of the calls. A later row replaces an earlier row with the same natural
// key; each Kernel, Copy, Swap and Event is a row of its own. A caller must not change what a record
// points to.
//
// A row whose job or device has no row yet is an error. The first error closes Failed; Err,
// Flush and Finish return it. Later rows are still tried, and the error counts the lost rows.
type Writer struct {
	store  *Store
	run    int64
	failed chan struct{}

	patient bool // Wait

	mu       sync.Mutex
	err      error
	lost     int
	reported bool

	// order keeps a record's place in the queue in step with its number.
	order    sync.Mutex
	shapes   map[results.Kernel]int // by the fields that a shape has
	jobs     int                    // of the first so many jobs a state was put
	launches map[int]int            // kernels so far, by job
	copies   map[int]int
	swaps    map[int]int
	waiting  map[track][]results.Segment // in the table, but not yet in a block
	events   int
}

// Wait says that the run can wait for the disk, as a run in virtual time can: from now on the record
// methods wait while 20,000 rows do, so that the queue of a large run does not hold all its rows. It
// must come before the first record.
func (w *Writer) Wait() { w.patient = true }

// Device updates a device that BeginRun stored, with figures that are known only at the end.
func (w *Writer) Device(d results.Device) { w.put(row(devices, d)) }

// Job stores a job's state; its outcome may be nil until it ends.
func (w *Writer) Job(j results.Job) {
	w.order.Lock()
	defer w.order.Unlock()
	e := row(jobs, j)
	e.state, e.of, e.again = true, subject{j.Index, wholeJob}, j.Index < w.jobs
	w.put(e)
	if j.Index == w.jobs {
		w.jobs++
	}
}

// Task stores a task's state.
func (w *Writer) Task(t results.Task) {
	e := row(tasks, t)
	e.state, e.of = true, subject{t.Job, t.Seq}
	w.put(e)
}

// Rank stores a rank's state.
func (w *Writer) Rank(r results.Rank) { w.put(row(ranks, r)) }

// Prediction stores what the scheduler expects of a job, which may have no row yet.
func (w *Writer) Prediction(p results.Prediction) { w.put(row(predictions, p)) }

// Segment stores a segment. A segment that begins when the last segment of its series began
// replaces it. Segments of a series that come in the order of time are packed later, by Finish at the
// latest, which rounds their times to microseconds.
func (w *Writer) Segment(s results.Segment) {
	w.order.Lock()
	defer w.order.Unlock()
	w.put(row(segments, s))
	at := track{s.Device, s.Series}
	waiting, begun := w.waiting[at]
	switch last := len(waiting) - 1; {
	case begun && last < 0:
		return // the series was out of order once: a block could replace rows that it does not hold
	case begun && s.FirstS < waiting[last].FirstS:
		w.waiting[at] = nil
		return
	case begun && s.FirstS == waiting[last].FirstS:
		waiting[last] = s
	default:
		waiting = append(waiting, s)
	}
	if complete := len(waiting) - 1; complete >= packAfter {
		packed := w.pack(waiting[:complete])
		waiting = append(waiting[:0], waiting[packed:]...)
	}
	w.waiting[at] = waiting
}

// pack puts a block of the first of a series' complete segments, and returns how many need not wait any more. Segments that
// cannot be packed stay as they are.
func (w *Writer) pack(complete []results.Segment) int {
	b, ok := pack(complete)
	if !ok {
		return len(complete)
	}
	w.put(row(blocks, b))
	return b.n
}

// packRest packs what waits for more when no more comes.
func (w *Writer) packRest() {
	w.order.Lock()
	defer w.order.Unlock()
	tracks := slices.SortedFunc(maps.Keys(w.waiting), func(a, b track) int { // so that equal runs make equal stores
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.series, b.series))
	})
	for _, at := range tracks {
		for waiting := w.waiting[at]; len(waiting) > 0; {
			waiting = waiting[w.pack(waiting):]
		}
	}
	clear(w.waiting)
}

// track names a series of a device.
type track struct {
	device int
	series results.Series
}

// Kernel appends a kernel interval.
func (w *Writer) Kernel(k results.Kernel) {
	w.order.Lock()
	defer w.order.Unlock()
	common := results.Kernel{Name: k.Name, Grid: k.Grid, Block: k.Block, Registers: k.Registers,
		StaticSharedBytes: k.StaticSharedBytes, DynamicSharedBytes: k.DynamicSharedBytes}
	id, known := w.shapes[common]
	if !known {
		id = len(w.shapes)
		w.shapes[common] = id
		w.put(row(shapes, shape{Kernel: common, id: id}))
	}
	w.put(row(launches, launch{Kernel: k, ordinal: w.launches[k.Job], shape: id}))
	w.launches[k.Job]++
}

// Copy appends a copy.
func (w *Writer) Copy(c results.Copy) {
	w.order.Lock()
	defer w.order.Unlock()
	w.put(row(copies, transfer{Copy: c, ordinal: w.copies[c.Job]}))
	w.copies[c.Job]++
}

// Swap appends a swap.
func (w *Writer) Swap(s results.Swap) {
	w.order.Lock()
	defer w.order.Unlock()
	w.put(row(swaps, move{Swap: s, ordinal: w.swaps[s.Job]}))
	w.swaps[s.Job]++
}

// Event appends an event.
func (w *Writer) Event(e results.Event) {
	w.order.Lock()
	defer w.order.Unlock()
	w.put(row(events, occurrence{Event: e, seq: w.events}))
	w.events++
}

// row defers the conversion to the writing goroutine, away from the caller.
func row[T any](l layout[T], record T) entry {
	return entry{table: l.table, fields: func() (keys, values []any) { return l.fields(&record) }}
}

func (w *Writer) put(e entry) {
	e.writer = w
	if !w.store.queue.put(e) {
		w.fail(1, fmt.Errorf("store %s: %s row of run %d: the store is closed", w.store.path, e.table, w.run))
	}
}

// fail counts lost rows and keeps the first error.
func (w *Writer) fail(rows int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost += rows
	if w.err == nil {
		w.err = err
		close(w.failed)
	}
}

// Failed is closed at the first error, so that the run can stop.
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// firstError returns the first error so far with the number of rows lost; nil if there is none.
func (w *Writer) firstError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported = true
	return w.errLocked()
}

func (w *Writer) errLocked() error {
	if w.err == nil {
		return nil
	}
	return fmt.Errorf("%d rows of run %d lost: %w", w.lost, w.run, w.err)
}

func (w *Writer) unreported() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reported {
		return nil
	}
	return w.errLocked()
}

// Flush waits until every row queued before it is committed, and returns Err.
func (w *Writer) Flush(ctx context.Context) error {
	if w.store.queue == nil {
		return fmt.Errorf("store %s: opened read-only", w.store.path)
	}
	written := make(chan struct{})
	if w.store.queue.put(entry{written: written}) {
		w.store.queue.hurry()
		select {
		case <-written:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("flush run %d: %w", w.run, ctx.Err()), w.firstError())
		}
	}
	return w.firstError()
}

// Finish packs segments, flushes the queue and stores the run's final state. A run that lost rows is not a
// measurement: if final says complete, the run is stored as interrupted. The store then drops
// the Writer and its memory, because a sweep has thousands of runs.
func (w *Writer) Finish(ctx context.Context, final results.Run) error {
	if w.store.queue != nil {
		w.packRest()
	}
	flushed := w.Flush(ctx)
	if w.store.write == nil {
		return flushed
	}
	final.ID = w.run
	if flushed != nil && final.Status == results.Complete {
		final.Status = results.Interrupted
	}
	err := errors.Join(flushed, w.store.finish(ctx, final))
	reach(RunStored)
	if err == nil {
		w.store.forget(w)
	}
	return err
}
