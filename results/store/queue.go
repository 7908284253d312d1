package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	queueLimit = 1_000_000 // rows; beyond it put blocks
	batchLimit = 20_000    // rows in one transaction, and in the queue of a run that can wait
	linger     = 20 * time.Millisecond
)

// entry is one row to write. Without a writer it only marks a place: written is closed once
// all earlier rows are committed.
type entry struct {
	writer  *Writer
	table   string
	state   bool                        // the row is the state of a job or task, which later rows of the same replace
	of      subject                     // of a state
	again   bool                        // of a state: there was one before, so that the table has the row unless it was refused
	fields  func() (keys, values []any) // layout.fields
	written chan struct{}
}

// subject is the job or task whose state a row is.
type subject struct{ job, task int }

// wholeJob is the task of a subject that is a job.
const wholeJob = -1

// queue hands entries from many goroutines to one.
type queue struct {
	limit, patient int // entries at which put blocks; patient: for Writers that can wait

	mu      sync.Mutex
	changed *sync.Cond // broadcast when entries leave or the queue closes
	entries []entry
	spare   []entry // where the next entries go
	closed  bool

	arrived chan struct{} // holds a token while entries wait
	urgent  chan struct{} // holds a token while somebody waits for a commit
}

func newQueue(limit, patient int) *queue {
	q := &queue{limit: limit, patient: patient, arrived: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// put appends an entry. It blocks while the queue is full, and returns false if the queue is
// closed. A nil queue counts as closed.
func (q *queue) put(e entry) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.limit
	if e.writer != nil && e.writer.patient {
		limit = q.patient
	}
	for len(q.entries) >= limit && !q.closed && e.written == nil {
		token(q.urgent)
		q.changed.Wait()
	}
	if q.closed {
		return false
	}
	q.entries = append(q.entries, e)
	token(q.arrived)
	return true
}

// hurry makes the next commit start at once.
func (q *queue) hurry() { token(q.urgent) }

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
	token(q.arrived)
	token(q.urgent)
}

// take removes up to limit entries. more is false if the queue is closed and now empty.
func (q *queue) take(limit int) (batch []entry, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch = q.entries
	if len(batch) > limit {
		batch, q.entries = batch[:limit:limit], batch[limit:]
		token(q.arrived)
		token(q.urgent)
	} else {
		q.entries, q.spare = q.spare, nil
	}
	q.changed.Broadcast()
	return batch, !q.closed || len(q.entries) > 0
}

// done gives the memory of a batch back, which its taker needs no longer.
func (q *queue) done(batch []entry) {
	clear(batch)
	q.mu.Lock()
	defer q.mu.Unlock()
	if cap(batch) > cap(q.spare) {
		q.spare = batch[:0]
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drain is the writing goroutine. It commits queued entries at once if the last commit is
// longer ago than linger. Else it waits until then or until hurry, so that a steady trickle of
// samples costs a bounded number of commits.
func (s *Store) drain() {
	defer close(s.done)
	var last time.Time
	for more := true; more; {
		<-s.queue.arrived
		if wait := linger - time.Since(last); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-s.queue.urgent:
			}
			timer.Stop()
		}
		var batch []entry
		batch, more = s.queue.take(batchLimit)
		s.commit(batch)
		s.queue.done(batch)
		last = time.Now()
	}
}

// commit writes a batch in one transaction. An error of one row loses that row. Any other error
// loses the batch, and every Writer in the batch gets the error.
func (s *Store) commit(batch []entry) {
	rows := map[*Writer]int{}
	for _, e := range batch {
		if e.writer != nil {
			rows[e.writer]++
		}
	}
	if len(rows) > 0 {
		refused, err := s.transact(batch)
		reach(RowsWritten)
		for w, n := range rows {
			if err != nil {
				w.fail(n, explain(s.path, fmt.Sprintf("write rows of run %d", w.run), err))
			}
		}
		for _, r := range refused {
			if err == nil {
				r.writer.fail(1, r.err)
			}
		}
	}
	for _, e := range batch {
		if e.written != nil {
			close(e.written)
		}
	}
}

type refusal struct {
	writer *Writer
	err    error
}

func (s *Store) transact(batch []entry) (refused []refusal, err error) {
	if err := s.inPlace(); err != nil {
		return nil, err
	}
	ctx := context.Background()
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // without effect once committed, or where SQLite did it when the disk was full
	corrected, err := sealedIn(ctx, tx, batch)
	if err != nil {
		return nil, err
	}
	err = conn.Raw(func(c any) error {
		in, err := newInserter(c)
		if err != nil {
			return err
		}
		refused, err = s.insert(in, batch)
		return errors.Join(err, in.close())
	})
	if err != nil {
		return nil, err
	}
	for _, run := range corrected {
		if err := seal(ctx, tx, run); err != nil {
			return nil, err
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return refused, nil
}

// sealedIn are the complete runs whose jobs a batch corrects. Their checksums must hold before, because they are made anew
// afterwards.
func sealedIn(ctx context.Context, tx *sql.Tx, batch []entry) (sealed []int64, err error) {
	seen := map[int64]bool{}
	for _, e := range batch {
		if e.writer == nil || e.table != jobs.table || seen[e.writer.run] {
			continue
		}
		seen[e.writer.run] = true
		is := false
		err := tx.QueryRowContext(ctx, "SELECT checksum IS NOT NULL FROM run WHERE id = ?", e.writer.run).Scan(&is)
		if err == nil && is {
			sealed = append(sealed, e.writer.run)
			err = verify(ctx, tx, "main", "id = ?", []any{e.writer.run})
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) { // rows of a run that is gone are refused
			return nil, err
		}
	}
	return sealed, nil
}

// insert writes the rows of a batch and returns those that their tables refuse.
func (s *Store) insert(in *inserter, batch []entry) (refused []refusal, err error) {
	s.last.find(batch)
	last := s.last
	for i, e := range batch {
		if e.writer == nil {
			continue
		}
		if at, known := last[e.stateKey()]; e.state && known && at != i {
			if at == isWritten {
				continue
			}
			// Where the row first comes, because later rows can refer to it.
			latest := batch[at]
			latest.again = e.again
			if err = in.write(latest); err == nil {
				last[e.stateKey()] = isWritten
				continue
			}
			if !ofRow(err) {
				return nil, err
			}
			delete(last, e.stateKey()) // each state by itself: those before the bad one are good
		}
		if err = in.write(e); err == nil {
			continue
		}
		if !ofRow(err) {
			return nil, err
		}
		refused = append(refused, refusal{e.writer,
			explain(s.path, fmt.Sprintf("write rows of run %d", e.writer.run), err)})
	}
	return refused, nil
}

// isWritten stands for the last state of a row that is in the table.
const isWritten = -1

// lastStates has where a batch has the last state of each job and task. The states before it need not
// be written, because nobody sees into a transaction.
type lastStates map[stateKey]int

type stateKey struct {
	writer *Writer
	subject
}

func (e *entry) stateKey() stateKey { return stateKey{e.writer, e.of} }

// find looks through a batch, in place of the one before.
func (last lastStates) find(batch []entry) {
	clear(last)
	for i := range batch {
		if e := &batch[i]; e.state {
			last[e.stateKey()] = i
		}
	}
}

var updates = map[string]string{jobs.table: updateSQL(jobs)}

var upserts = map[string]string{
	devices.table:     upsertSQL(devices),
	jobs.table:        upsertSQL(jobs),
	ranks.table:       upsertSQL(ranks),
	tasks.table:       upsertSQL(tasks),
	shapes.table:      upsertSQL(shapes),
	launches.table:    upsertSQL(launches),
	copies.table:      upsertSQL(copies),
	swaps.table:       upsertSQL(swaps),
	predictions.table: upsertSQL(predictions),
	segments.table:    upsertSQL(segments),
	blocks.table:      upsertSQL(blocks),
	events.table:      upsertSQL(events),
}
