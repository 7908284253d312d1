package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/caserun/caserun/results"
)

var sweeps = layout[results.Sweep]{
	table: "sweep",
	columns: []string{"name", "tag", "spec", "node", "mode", "seed", "repetitions", "created_at",
		"status", "host", "pid", "note", "remark"},
	fields: func(w *results.Sweep) (keys, values []any) {
		return nil, []any{name{&w.Name}, name{&w.Tag}, &w.Spec, &w.Node, &w.Mode, (*decimal)(&w.Seed), &w.Repetitions,
			instant{&w.CreatedAt}, &w.Status, text{&w.Host}, &w.PID, text{&w.Note}, name{&w.Remark}}
	},
}

var cells = layout[results.Cell]{
	table:   "cell",
	columns: []string{"sweep_id", "position", "mix", "mix_source", "scheduler", "repetition", "warmup", "seed", "run_id", "probe"},
	fields: func(c *results.Cell) (keys, values []any) {
		return nil, []any{&c.Sweep, &c.Position, name{&c.Mix}, &c.MixSource, &c.Scheduler, &c.Repetition, &c.Warmup,
			(*decimal)(&c.Seed), &c.Run, probe{&c.Probe}}
	},
}

// CreateSweep stores a sweep with its whole plan, with status planned, and returns the sweep's
// id. It ignores the ids, status, process and runs in its arguments.
func (s *Store) CreateSweep(ctx context.Context, sweep results.Sweep, plan []results.Cell) (int64, error) {
	sweep.Status, sweep.Host, sweep.PID = results.Planned, "", nil
	var id int64
	err := s.transaction(ctx, "plan a sweep", func(tx *sql.Tx) error {
		uid, err := newSweepUID(ctx, tx, sweep)
		if err != nil {
			return err
		}
		_, values := sweeps.fields(&sweep)
		values = append(values, uid)
		inserted, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO sweep (%s, uid) VALUES (%s)",
			strings.Join(sweeps.columns, ", "), marks(len(values))), values...)
		if err != nil {
			return err
		}
		if id, err = inserted.LastInsertId(); err != nil {
			return err
		}
		return insertCells(ctx, tx, id, plan)
	})
	return id, err
}

// ExtendSweep adds cells to a sweep's plan, and replaces what the sweep was planned from and its
// number of repetitions. A complete sweep becomes interrupted, so that it can be resumed. The error
// is a HeldError if a process works on the sweep.
func (s *Store) ExtendSweep(ctx context.Context, sweep results.Sweep, more []results.Cell) error {
	return s.transaction(ctx, fmt.Sprintf("extend sweep %d", sweep.ID), func(tx *sql.Tx) error {
		err := changeOne(ctx, tx, ErrBusy, `UPDATE sweep SET spec = ?, repetitions = ?,
			status = CASE status WHEN 'complete' THEN 'interrupted' ELSE status END WHERE id = ? AND status <> 'running'`,
			sweep.Spec, sweep.Repetitions, sweep.ID)
		if errors.Is(err, ErrBusy) {
			err = owns(ctx, tx, sweep.ID, "", nil)
		}
		if err != nil {
			return err
		}
		return insertCells(ctx, tx, sweep.ID, more)
	})
}

// RedoDoubtful takes the doubtful runs from the cells of a sweep, so that the sweep makes them again, and returns how many
// there are. They stay complete runs of the sweep, and become duplicates when others are complete. Warm-ups are no
// measurements and are left. The error is a HeldError if a process works on the sweep.
func (s *Store) RedoDoubtful(ctx context.Context, sweep int64) (n int64, err error) {
	err = s.transaction(ctx, fmt.Sprintf("make doubtful runs of sweep %d again", sweep), func(tx *sql.Tx) error {
		taken, err := tx.ExecContext(ctx, `UPDATE cell SET run_id = NULL WHERE sweep_id = ? AND warmup = 0
			AND run_id IN (SELECT id FROM run WHERE status = 'complete' AND doubts <> '')`, sweep)
		if err != nil {
			return err
		}
		if n, err = taken.RowsAffected(); err != nil || n == 0 {
			return err
		}
		err = changeOne(ctx, tx, ErrBusy, "UPDATE sweep SET status = 'interrupted' WHERE id = ? AND status <> 'running'", sweep)
		if errors.Is(err, ErrBusy) {
			err = owns(ctx, tx, sweep, "", nil)
		}
		return err
	})
	return n, err
}

func insertCells(ctx context.Context, tx *sql.Tx, sweep int64, plan []results.Cell) error {
	insert, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO cell (%s) VALUES (%s)",
		strings.Join(cells.columns, ", "), marks(len(cells.columns))))
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, c := range plan {
		c.Sweep, c.Run = sweep, nil
		_, values := cells.fields(&c)
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return fmt.Errorf("cell %d: %w", c.Position, err)
		}
	}
	return nil
}

// ClaimSweep marks a sweep as running in a process of a host, and appends a non-empty note to
// the sweep's note. What the note says of runs that were left out of this copy ends with madeAgain then. If the sweep is already running,
// the error is a HeldError.
func (s *Store) ClaimSweep(ctx context.Context, id int64, host string, pid int, note string) error {
	operation := fmt.Sprintf("begin work on sweep %d", id)
	return s.transaction(ctx, operation, func(tx *sql.Tx) error {
		err := changeOne(ctx, tx, ErrBusy, `UPDATE sweep SET status = 'running', host = ?, pid = ?,
			note = nullif(concat_ws('; ', note || CASE WHEN note LIKE ? THEN ? ELSE '' END, nullif(?, '')), '') WHERE id = ? AND status <> 'running'`,
			host, pid, "%"+leftOut, madeAgain, note, id)
		if errors.Is(err, ErrBusy) {
			err = owns(ctx, tx, id, "", nil) // its error names the process
		}
		return err
	})
}

// EndSweep ends a process's work on a sweep that it claimed. The process may have died. The
// error wraps ErrBusy if another process took the sweep over; that process keeps the sweep.
func (s *Store) EndSweep(ctx context.Context, id int64, host string, pid int, status results.Status) error {
	operation := fmt.Sprintf("end work on sweep %d", id)
	return s.transaction(ctx, operation, func(tx *sql.Tx) error {
		if err := owns(ctx, tx, id, host, &pid); err != nil {
			return err
		}
		return changeOne(ctx, tx, ErrNoSweep, "UPDATE sweep SET status = ?, host = NULL, pid = NULL WHERE id = ?", status, id)
	})
}

// BeginCell is BeginRun for a cell of a sweep: the new run becomes the cell's run. The error
// wraps ErrBusy if the cell's run has changed since the cell was read, or if another process
// works on the sweep. restart counts how often the job that makes the run was started again by a
// batch system; it is a part of the run's uid.
func (s *Store) BeginCell(ctx context.Context, cell results.Cell, restart int, run results.Run, found []results.Device) (int64, error) {
	run.Sweep, run.Warmup, run.Repetition, run.Seed = &cell.Sweep, cell.Warmup, cell.Repetition, cell.Seed
	return s.begin(ctx, run, found, func(tx *sql.Tx, id int64) error {
		if err := owns(ctx, tx, cell.Sweep, run.Provenance.Host, run.Provenance.PID); err != nil {
			return err
		}
		err := changeOne(ctx, tx, ErrBusy, "UPDATE cell SET run_id = ? WHERE sweep_id = ? AND position = ? AND run_id IS ?",
			id, cell.Sweep, cell.Position, cell.Run)
		if err != nil {
			return fmt.Errorf("cell %d of sweep %d: %w", cell.Position, cell.Sweep, err)
		}
		uid, err := newAttemptUID(ctx, tx, cell, restart, run)
		if err != nil {
			return err
		}
		return changeOne(ctx, tx, ErrNoRun, "UPDATE run SET uid = ?, cell_position = ? WHERE id = ?", uid, cell.Position, id)
	})
}

// owns returns an error that wraps ErrBusy unless the process owns the sweep. If another
// process owns the sweep, the error is a HeldError. Every process owns a sweep that is only
// planned.
func owns(ctx context.Context, tx *sql.Tx, sweep int64, host string, pid *int) error {
	var w results.Sweep
	err := tx.QueryRowContext(ctx, "SELECT status, ifnull(host, ''), pid FROM sweep WHERE id = ?", sweep).Scan(&w.Status, &w.Host, &w.PID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNoSweep
	case err != nil || w.Status == results.Planned:
		return err
	case w.Status != results.Running:
		return fmt.Errorf("sweep %d is %s: %w", sweep, w.Status, ErrBusy)
	case pid == nil || *pid != *w.PID || host != w.Host:
		return HeldError{Sweep: sweep, Host: w.Host, PID: *w.PID}
	}
	return nil
}

// counts returns an error that wraps ErrBusy if a run of a sweep does not count, because
// another process took the sweep over: it closed the run, or it ran or will run the cell itself.
func counts(ctx context.Context, tx *sql.Tx, run int64) error {
	var sweep sql.Null[int64]
	var host string
	var pid *int
	var kept bool
	err := tx.QueryRowContext(ctx, `SELECT sweep_id, host, pid, status = 'running' AND EXISTS (SELECT 1 FROM cell WHERE run_id = run.id)
		FROM run WHERE id = ?`, run).Scan(&sweep, &host, &pid, &kept)
	if err != nil || !sweep.Valid {
		return err
	}
	if err := owns(ctx, tx, sweep.V, host, pid); err != nil || kept {
		return err
	}
	return fmt.Errorf("sweep %d: %w", sweep.V, ErrBusy)
}

// changeOne executes a statement that must change one row. It returns none if no row changed.
func changeOne(ctx context.Context, tx *sql.Tx, none error, statement string, args ...any) error {
	changed, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	n, err := changed.RowsAffected()
	if err == nil && n != 1 {
		err = none
	}
	return err
}

// Sweeps returns all sweeps, oldest first.
func (s *Store) Sweeps(ctx context.Context) ([]results.Sweep, error) {
	return s.sweeps(ctx, "ORDER BY id")
}

// Sweep returns one sweep; the error wraps ErrNoSweep if the store lacks it.
func (s *Store) Sweep(ctx context.Context, id int64) (results.Sweep, error) {
	found, err := s.sweeps(ctx, "WHERE id = ?", id)
	return first(s, fmt.Sprintf("sweep %d", id), ErrNoSweep, found, err)
}

// LatestSweep returns the sweep that was planned last; the error wraps ErrNoSweep if the store
// has no sweep.
func (s *Store) LatestSweep(ctx context.Context) (results.Sweep, error) {
	found, err := s.sweeps(ctx, "ORDER BY id DESC LIMIT 1")
	return first(s, "latest sweep", ErrNoSweep, found, err)
}

func (s *Store) sweeps(ctx context.Context, which string, args ...any) ([]results.Sweep, error) {
	query := fmt.Sprintf("SELECT id, %s FROM sweep %s", strings.Join(sweeps.columns, ", "), which)
	return collect(ctx, s, "read sweeps", query, args, func(w *results.Sweep) []any {
		_, values := sweeps.fields(w)
		return append([]any{&w.ID}, values...)
	})
}

// machineOf is results.Machine of a run.
const machineOf = `CASE WHEN run.mode = 'live' THEN ifnull(run.host, '') || char(10) ||
	ifnull((SELECT group_concat(uuid, ' ') FROM (SELECT uuid FROM device WHERE run_id = run.id ORDER BY uuid)), '') ELSE '' END`

// DoneOn returns the positions of a sweep's cells that have a complete run of a machine (results.Machine),
// whether it counts or is a duplicate. Excluded runs do not count.
func (s *Store) DoneOn(ctx context.Context, sweep int64, machine string) (map[int]bool, error) {
	query := "SELECT DISTINCT cell_position FROM run WHERE sweep_id = ? AND cell_position IS NOT NULL AND status = 'complete' AND excluded = 0 AND " + machineOf + " = ?"
	found, err := collect(ctx, s, fmt.Sprintf("read what of sweep %d was done on this machine", sweep), query, []any{sweep, machine}, func(c *results.Cell) []any {
		return []any{&c.Position}
	})
	done := map[int]bool{}
	for _, c := range found {
		done[c.Position] = true
	}
	return done, err
}

// Cells returns a sweep's plan in the order of execution.
func (s *Store) Cells(ctx context.Context, sweep int64) ([]results.Cell, error) {
	query := fmt.Sprintf("SELECT %s FROM cell WHERE sweep_id = ? ORDER BY position", strings.Join(cells.columns, ", "))
	return collect(ctx, s, fmt.Sprintf("read the cells of sweep %d", sweep), query, []any{sweep}, func(c *results.Cell) []any {
		_, values := cells.fields(c)
		return values
	})
}
