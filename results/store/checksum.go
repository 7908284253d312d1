package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A complete run carries a checksum of its row and of its jobs' rows, made in the transaction that completes it. It is
// R-J-SUM: the first R columns of runs and the first J columns of jobs went into it. So it holds after a migration that
// adds columns, which come last in the lists of package results.

// unchecked are columns of a run that may change, that are of one store only, or that people blank before they give a
// store away.
var unchecked = []string{"sweep_id", "tag", "host", "excluded", "remark"}

// errDamaged is wrapped if a run is not as it was when it was completed.
var errDamaged = errors.New("its rows are not those that were stored: the file is damaged, or somebody has changed them")

// parseChecksum returns how many columns went into a checksum: of all that this program knows, if it cannot have
// written it.
func parseChecksum(text string) (runColumns, jobColumns int) {
	r, rest, _ := strings.Cut(text, "-")
	j, _, _ := strings.Cut(rest, "-")
	runColumns, badRun := strconv.Atoi(r)
	jobColumns, badJob := strconv.Atoi(j)
	if badRun != nil || badJob != nil || runColumns < 0 || runColumns > len(runs.columns) || jobColumns < 0 || jobColumns > len(jobs.columns) {
		return len(runs.columns), len(jobs.columns)
	}
	return runColumns, jobColumns
}

// cursor is a row of a query that is under way.
type cursor struct {
	rows  *sql.Rows
	cells []any
	into  []any
	more  bool // cells are a row
}

func openCursor(ctx context.Context, db executor, query string, args []any) (*cursor, error) {
	rows, err := db.QueryContext(ctx, query, args...) //nolint:rowserrcheck // next checks it
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns()
	if err != nil {
		return nil, errors.Join(err, rows.Close()) //nolint:sqlclosecheck // the cursor closes it otherwise
	}
	c := &cursor{rows: rows, cells: make([]any, len(columns)), into: make([]any, len(columns))}
	for i := range c.cells {
		c.into[i] = &c.cells[i]
	}
	return c, c.next()
}

func (c *cursor) next() error {
	if c.more = c.rows.Next(); c.more {
		return c.rows.Scan(c.into...)
	}
	return c.rows.Err()
}

// misplaced is whether a run's column duplicate is not what its cell says: the complete run that a cell names counts, and
// the cell's other complete runs are duplicates. NULL: no cell says anything.
const misplaced = `CASE WHEN cell_position IS NULL THEN duplicate ELSE duplicate <> (run.id <>
	(SELECT counts.id FROM %[1]s.cell JOIN %[1]s.run AS counts ON counts.id = cell.run_id AND counts.status = 'complete'
		WHERE cell.sweep_id = run.sweep_id AND cell.position = run.cell_position)) END`

// eachChecksum calls do with the checksum of each run of a schema that a condition selects, as its row has it and as it
// should be, and with misplaced. The condition is on the table run.
func eachChecksum(ctx context.Context, db executor, schema, condition string, args []any, do func(run int64, has any, want string, misplaced any) error) (err error) {
	run, err := openCursor(ctx, db, fmt.Sprintf("SELECT id, checksum, "+misplaced+", %[2]s FROM %[1]s.run WHERE %[3]s ORDER BY id",
		schema, strings.Join(runs.columns, ", "), condition), args)
	if err != nil {
		return err
	}
	defer run.rows.Close()
	job, err := openCursor(ctx, db, fmt.Sprintf("SELECT run_id, job_index, %s FROM %s.job WHERE run_id IN (SELECT id FROM %[2]s.run WHERE %s) ORDER BY run_id, job_index",
		strings.Join(jobs.columns, ", "), schema, condition), args)
	if err != nil {
		return err
	}
	defer job.rows.Close()
	var text []byte
	for run.more {
		id, has := run.cells[0], run.cells[1]
		stored, _ := has.(string)
		r, j := parseChecksum(stored)
		text = text[:0]
		for i, cell := range run.cells[3 : 3+r] {
			if !slices.Contains(unchecked, runs.columns[i]) {
				text = appendCell(text, cell)
			}
		}
		for job.more && job.cells[0] == id {
			for _, cell := range job.cells[1 : 2+j] {
				text = appendCell(text, cell)
			}
			text = append(text, '\n')
			if err := job.next(); err != nil {
				return err
			}
		}
		sum := sha256.Sum256(text)
		number, _ := id.(int64)
		if err := do(number, has, fmt.Sprintf("%d-%d-%x", r, j, sum[:16]), run.cells[2]); err != nil {
			return err
		}
		if err := run.next(); err != nil {
			return err
		}
	}
	return nil
}

// appendCell appends a value in a form that no other value has, at any place.
func appendCell(text []byte, cell any) []byte {
	switch v := cell.(type) {
	case nil:
		text = append(text, 'n')
	case int64:
		text = strconv.AppendInt(append(text, 'i'), v, 10)
	case float64:
		text = hex.AppendEncode(append(text, 'f'), binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case string:
		text = append(append(strconv.AppendInt(append(text, 't'), int64(len(v)), 10), ':'), v...)
	default: // STRICT tables without columns of another type have no other
		text = fmt.Appendf(text, "%T %v", v, v)
	}
	return append(text, ' ')
}

// seal gives a complete run its checksum.
func seal(ctx context.Context, tx *sql.Tx, run int64) error {
	var sum string
	err := eachChecksum(ctx, tx, "main", "id = ?", []any{run}, func(_ int64, _ any, want string, _ any) error {
		sum = want
		return nil
	})
	if err != nil {
		return err
	}
	return changeOne(ctx, tx, ErrNoRun, "UPDATE run SET checksum = ? WHERE id = ?", sum, run)
}

// verify returns an error that wraps errDamaged if a selected run is not as it was when it was completed. Runs of stores of
// earlier versions have no checksum. Nothing makes a complete run anything else, so one with a checksum that is not complete
// is damaged too.
func verify(ctx context.Context, db executor, schema, condition string, args []any) error {
	return eachChecksum(ctx, db, schema, "checksum IS NOT NULL AND "+condition, args, func(run int64, has any, want string, misplaced any) error {
		if has == want && misplaced != int64(1) {
			return nil
		}
		return fmt.Errorf("run %d: %w: restore a copy of the file, or remove the run from it (PRAGMA foreign_keys = ON; DELETE FROM run WHERE id = %d)", run, errDamaged, run)
	})
}

// candidates is a condition on the runs that the filter would select if somebody had not changed what checksums are of.
// So it has only what they are not of.
func (f Filter) candidates() (condition string, args []any) {
	condition, args = Filter{IDs: f.IDs, Sweep: f.Sweep, Tag: f.Tag, Before: f.Before, Warmups: true, Duplicates: true, Excluded: true}.where()
	if f.Last > 0 {
		selected, more := f.where()
		condition += " AND id >= (SELECT ifnull(min(id), 0) FROM run WHERE " + selected + ")"
		args = append(args, more...)
	}
	return condition, args
}

// Verify returns an error that wraps errDamaged if a run is not as it was when it was completed that the filter selects, or
// would select if it were. Runs does so too.
func (s *Store) Verify(ctx context.Context, f Filter) error {
	condition, args := f.candidates()
	errs := make([]error, readers-1)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // its queries see the same state
			if err == nil {
				err = errors.Join(verify(ctx, tx, "main", fmt.Sprintf("id %% %d = %d AND %s", len(errs), i, condition), args), tx.Rollback())
			}
			errs[i] = explain(s.path, "check", err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
