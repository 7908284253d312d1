// Package store keeps runs in one SQLite file. docs/reference/store.md describes the
// schema, which users query themselves.
//
// A Store has one writing connection and a separate read-only handle, so that readers see a
// run while it is under way and never wait for it. One goroutine, which Open starts and Close
// ends, writes what the Writers queue.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"

	"github.com/caserun/caserun/results"
)

// Store is an open store file. Its methods may be called concurrently.
type Store struct {
	path    string
	opened  string      // the file that is open, if it is not the one at path
	private string      // directory of the copy that is open; Close removes it
	write   *sql.DB     // nil if opened read-only
	written os.FileInfo // of the file that write has open
	read    *sql.DB
	tell    func(what string) // what a transaction waits for; nil: nobody is told

	queue *queue
	done  chan struct{} // closed when the writing goroutine has ended
	last  lastStates    // of the writing goroutine

	mu      sync.Mutex
	writers map[int64]*Writer
}

func newStore(path string, write, read *sql.DB) *Store {
	s := &Store{path: path, write: write, read: read, writers: map[int64]*Writer{}, last: lastStates{}}
	if write != nil {
		s.written, _ = os.Stat(path) // where it is gone already, inPlace says so
		s.queue = newQueue(queueLimit, batchLimit)
		s.done = make(chan struct{})
		go s.drain()
	}
	return s
}

// Path is the absolute path of the store's file, or what OpenUpdatedAs called it.
func (s *Store) Path() string { return s.path }

// Close writes what is queued and closes the file. It leaves no journal beside the file unless
// another program has the file open; if it cannot remove the journal it returns an error. It
// also returns the error of each Writer whose error nobody has read.
func (s *Store) Close() error {
	var errs []error
	if s.queue != nil {
		s.queue.close()
		<-s.done
		s.mu.Lock()
		for _, w := range s.writers {
			if err := w.unreported(); err != nil {
				errs = append(errs, err)
			}
		}
		s.writers = nil
		s.mu.Unlock()
	}
	// The writing handle closes last, because only it can move the journal into the file.
	errs = append(errs, explain(s.path, "close", s.read.Close()))
	if s.write != nil {
		errs = append(errs, s.fold(), explain(s.path, "close", s.write.Close()))
	}
	if s.private != "" {
		errs = append(errs, os.RemoveAll(s.private))
	}
	return errors.Join(errs...)
}

// inPlace returns an error that wraps errGone if path no longer names the file that the store has open. Nobody could
// find what is written to such a file.
func (s *Store) inPlace() error {
	if now, err := os.Stat(s.path); err != nil || !os.SameFile(s.written, now) {
		return fmt.Errorf("%w: leave a store where it is until the programs that use it have ended", errGone)
	}
	return nil
}

// fold moves the journal into the file. Closing the last connection does so too, but does not
// report a failure, after which the file is incomplete without its journal. If another program
// has the file open, fold leaves the journal to that program.
func (s *Store) fold() error {
	ctx := context.Background()
	if _, err := s.write.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return explain(s.path, "close", err)
	}
	var busy, pages, folded int // busy: another program's transaction is in the way
	err := s.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &folded)
	var failed sqlite3.Error
	if errors.As(err, &failed) && failed.Code == sqlite3.ErrBusy {
		return nil
	}
	return explain(s.path, fmt.Sprintf("bring the journal into the file (no row is lost: until it is done, %s-wal is a part of the store)", s.path), err)
}

// BeginRun stores a run with status running and the devices that it found, and returns the
// run's id. It ignores run.ID.
func (s *Store) BeginRun(ctx context.Context, run results.Run, found []results.Device) (int64, error) {
	return s.begin(ctx, run, found, func(tx *sql.Tx, id int64) error {
		uid, err := newRunUID(id, run)
		if err != nil {
			return err
		}
		return changeOne(ctx, tx, ErrNoRun, "UPDATE run SET uid = ? WHERE id = ?", uid, id)
	})
}

// begin stores a run. In the same transaction it calls attach, which gives the run its uid.
func (s *Store) begin(ctx context.Context, run results.Run, found []results.Device,
	attach func(tx *sql.Tx, id int64) error) (int64, error) {
	operation := fmt.Sprintf("begin run of %s under %s", run.Mix, run.Scheduler)
	var id int64
	err := s.transaction(ctx, operation, func(tx *sql.Tx) error {
		run.Status = results.Running
		_, values := runs.fields(&run)
		insert := fmt.Sprintf("INSERT INTO run (%s) VALUES (%s)", strings.Join(runs.columns, ", "), marks(len(values)))
		inserted, err := tx.ExecContext(ctx, insert, values...)
		if err != nil {
			return err
		}
		if id, err = inserted.LastInsertId(); err != nil {
			return err
		}
		for _, d := range found {
			if _, err := tx.ExecContext(ctx, upsertSQL(devices), rowArgs(devices, id, &d)...); err != nil {
				return fmt.Errorf("device %d: %w", d.Index, err)
			}
		}
		return attach(tx, id)
	})
	reach(RunBegun)
	return id, err
}

// transaction commits what do did, or rolls it back if do returns an error.
func (s *Store) transaction(ctx context.Context, operation string, do func(tx *sql.Tx) error) error {
	if s.write == nil {
		return fmt.Errorf("store %s: %s: opened read-only", s.path, operation)
	}
	if err := s.inPlace(); err != nil {
		return explain(s.path, operation, err)
	}
	stop := whileWaiting(s.path, s.tell)
	tx, err := s.write.BeginTx(ctx, nil)
	stop()
	if err != nil {
		return explain(s.path, operation, err)
	}
	defer tx.Rollback() //nolint:errcheck // without effect once committed
	if err := do(tx); err != nil {
		return explain(s.path, operation, err)
	}
	return explain(s.path, operation, tx.Commit())
}

// forget drops the Writer of a finished run.
func (s *Store) forget(w *Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers[w.run] == w {
		delete(s.writers, w.run)
	}
}

// Writer returns the Writer of an unfinished run that BeginRun stored. Each call returns the
// same Writer.
func (s *Store) Writer(run int64) *Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.writers[run]; w != nil {
		return w
	}
	w := &Writer{store: s, run: run, failed: make(chan struct{}),
		shapes: map[results.Kernel]int{}, launches: map[int]int{}, copies: map[int]int{}, swaps: map[int]int{},
		waiting: map[track][]results.Segment{}}
	if s.writers != nil {
		s.writers[run] = w
	}
	return w
}

// Resume returns the Writer of a run that another process began and did not finish. New events
// are numbered after the stored ones.
func (s *Store) Resume(ctx context.Context, run int64) (*Writer, error) {
	events := 0
	err := s.read.QueryRowContext(ctx, "SELECT ifnull(max(event_seq) + 1, 0) FROM event WHERE run_id = ?", run).Scan(&events)
	if err != nil {
		return nil, explain(s.path, fmt.Sprintf("resume run %d", run), err)
	}
	w := s.Writer(run)
	w.order.Lock()
	defer w.order.Unlock()
	w.events = max(w.events, events)
	return w, nil
}

// finish stores a run's final state. In the same transaction it checks that a complete run of
// a sweep still belongs to its cell. If another process took the sweep over, the run is stored
// as interrupted and the error wraps ErrBusy. A run that is already complete stays complete: a
// process that closes it as abandoned is wrong. A simulated run of a sweep that is complete gets the
// uid that it has wherever it runs, unless an excluded run of its cell has it.
func (s *Store) finish(ctx context.Context, run results.Run) error {
	operation := fmt.Sprintf("finish run %d", run.ID)
	var taken error
	err := s.transaction(ctx, operation, func(tx *sql.Tx) error {
		var was results.Status
		err := tx.QueryRowContext(ctx, "SELECT status FROM run WHERE id = ?", run.ID).Scan(&was)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoRun
		}
		if err == nil && run.Status == results.Complete {
			if err = counts(ctx, tx, run.ID); errors.Is(err, ErrBusy) {
				run.Status, taken, err = results.Interrupted, err, nil
			}
		}
		if err != nil || was == results.Complete && run.Status == results.Interrupted {
			return err
		}
		_, values := runs.fields(&run)
		update := fmt.Sprintf("UPDATE run SET %s = ? WHERE id = ?", strings.Join(runs.columns, " = ?, "))
		if err := changeOne(ctx, tx, ErrNoRun, update, append(values, run.ID)...); err != nil {
			return err
		}
		if run.Status != results.Complete {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `UPDATE run SET duplicate = 1 FROM run AS new WHERE new.id = ?1 AND run.id <> ?1
			AND run.sweep_id = new.sweep_id AND run.cell_position = new.cell_position AND run.status = 'complete'`, run.ID); err != nil {
			return err
		}
		if run.Mode == results.Simulated {
			if _, err := tx.ExecContext(ctx, `UPDATE run SET uid = case_uid('run', sweep.uid, run.cell_position) FROM sweep WHERE run.id = ?1 AND sweep.id = run.sweep_id
				AND NOT EXISTS (SELECT 1 FROM run AS other WHERE other.id <> ?1 AND other.uid = case_uid('run', sweep.uid, run.cell_position))`, run.ID); err != nil {
				return err
			}
		}
		return seal(ctx, tx, run.ID)
	})
	if err != nil {
		return err
	}
	return explain(s.path, operation, taken)
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// upsertSQL inserts a row or updates the row with the same natural key.
func upsertSQL[T any](l layout[T]) string {
	keys := append([]string{"run_id"}, l.keys...)
	columns := append(keys, l.columns...)
	sets := make([]string, len(l.columns))
	for i, c := range l.columns {
		sets[i] = c + " = excluded." + c
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT (%s) DO UPDATE SET %s",
		l.table, strings.Join(columns, ", "), marks(len(columns)),
		strings.Join(columns[:len(l.keys)+1], ", "), strings.Join(sets, ", "))
}

// updateSQL updates a row that exists, with the arguments of upsertSQL, in half the time.
func updateSQL[T any](l layout[T]) string {
	keys := append([]string{"run_id"}, l.keys...)
	terms := func(columns []string, first int, separator string) string {
		var out []string
		for i, c := range columns {
			out = append(out, fmt.Sprintf("%s = ?%d", c, first+i))
		}
		return strings.Join(out, separator)
	}
	return fmt.Sprintf("UPDATE %s SET %s WHERE %s", l.table, terms(l.columns, len(keys)+1, ", "), terms(keys, 1, " AND "))
}

func rowArgs[T any](l layout[T], run int64, record *T) []any {
	keys, values := l.fields(record)
	return append(append([]any{run}, keys...), values...)
}
