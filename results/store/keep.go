package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/caserun/caserun/results"
)

// Chosen are the numbers of runs and sweeps that a user names, to mark or to remove them.
type Chosen struct {
	Runs, Sweeps []int64
}

func (c Chosen) runs() string { return numbers(c.Runs) }

func (c Chosen) sweeps() string { return numbers(c.Sweeps) }

// numbers are a list as one argument, because SQLite limits their number.
func numbers(list []int64) string { return strings.ReplaceAll(fmt.Sprint(list), " ", ",") }

// Conditions on the tables run and sweep. Chosen.runs and Chosen.sweeps are their arguments.
const (
	isChosenRun   = "id IN (SELECT value FROM json_each(?1))"
	isChosenSweep = "id IN (SELECT value FROM json_each(?2))"
)

// SetTag gives runs and sweeps a tag; "" takes it away.
func (s *Store) SetTag(ctx context.Context, c Chosen, tag string) error {
	return s.set(ctx, c, "tag", tag)
}

// SetRemark notes a text of runs and sweeps; "" takes it away.
func (s *Store) SetRemark(ctx context.Context, c Chosen, remark string) error {
	return s.set(ctx, c, "remark", remark)
}

func (s *Store) set(ctx context.Context, c Chosen, column, value string) error {
	operation := "set the " + column
	return s.transaction(ctx, operation, func(tx *sql.Tx) error {
		if err := unheld(ctx, tx, isChosenRun, isChosenSweep, c.runs(), c.sweeps()); err != nil {
			return err
		}
		for _, of := range []string{"run SET %[1]s = ?3 WHERE " + isChosenRun, "sweep SET %[1]s = ?3 WHERE " + isChosenSweep} {
			if _, err := tx.ExecContext(ctx, "UPDATE "+fmt.Sprintf(of, column), c.runs(), c.sweeps(), name{&value}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Exclude takes runs out of comparisons, or takes them in again. Another complete run of the cell, if it has one, counts
// in the place of an excluded run, and still counts when that is taken in again.
func (s *Store) Exclude(ctx context.Context, c Chosen, excluded bool) error {
	return s.transaction(ctx, "exclude runs", func(tx *sql.Tx) error {
		if err := unheld(ctx, tx, isChosenRun, isChosenSweep, c.runs(), c.sweeps()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE run SET excluded = ?2 WHERE "+isChosenRun, c.runs(), excluded); err != nil {
			return err
		}
		return giveCells(ctx, tx, "id IN (SELECT sweep_id FROM run WHERE "+isChosenRun+")", c.runs())
	})
}

// giveCells gives the cells without a complete run that counts, of the sweeps that a condition selects, the first such run
// that they have.
func giveCells(ctx context.Context, tx *sql.Tx, sweep string, args ...any) error {
	rows, err := tx.QueryContext(ctx, `SELECT cell.sweep_id, cell.position, min(made.id) FROM cell
		JOIN run AS made ON made.sweep_id = cell.sweep_id AND made.cell_position = cell.position AND made.status = 'complete' AND made.excluded = 0
		LEFT JOIN run AS has ON has.id = cell.run_id
		WHERE cell.sweep_id IN (SELECT id FROM sweep WHERE `+sweep+`) AND (ifnull(has.status, '') <> 'complete' OR has.excluded)
		GROUP BY cell.sweep_id, cell.position`, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var free []results.Cell
	for rows.Next() {
		var c results.Cell
		if err := rows.Scan(&c.Sweep, &c.Position, &c.Run); err != nil {
			return err
		}
		free = append(free, c)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, c := range free {
		_, err := tx.ExecContext(ctx, "UPDATE cell SET run_id = ? WHERE sweep_id = ? AND position = ?", c.Run, c.Sweep, c.Position)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE run SET duplicate = id <> ? WHERE sweep_id = ? AND cell_position = ? AND status = 'complete'", c.Run, c.Sweep, c.Position)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unheld refuses runs and sweeps on which a process works. The conditions are on the tables run and sweep.
func unheld(ctx context.Context, tx *sql.Tx, run, sweep string, args ...any) error {
	for _, of := range []struct{ what, from string }{
		{"sweep", "sweep WHERE status = 'running' AND " + sweep},
		{"run", "run WHERE status = 'running' AND " + run},
	} {
		if err := noneHeld(ctx, tx, of.what, of.from, args); err != nil {
			return err
		}
	}
	return nil
}

func noneHeld(ctx context.Context, tx *sql.Tx, what, from string, args []any) error {
	rows, err := tx.QueryContext(ctx, "SELECT id, ifnull(host, ''), ifnull(pid, 0) FROM "+from+" ORDER BY id", args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var host string
		var pid int
		if err := rows.Scan(&id, &host, &pid); err != nil {
			return err
		}
		if pid != 0 && HolderLives(host, pid) { // without a number, the process died as it began
			return fmt.Errorf("%s %d is under way in process %d of host %s: %w", what, id, pid, host, ErrBusy)
		}
	}
	return rows.Err()
}

// Remove removes runs with all their rows, and sweeps of which no run is left. A sweep that is left is interrupted if cells
// of it have no complete run any more. All is removed, or nothing: it refuses while a process works on any run or sweep.
// progress takes how many runs are removed.
func (s *Store) Remove(ctx context.Context, c Chosen, progress func(done, all int)) error {
	return s.transaction(ctx, "remove runs", func(tx *sql.Tx) error {
		if err := unheld(ctx, tx, "true", "true"); err != nil {
			return err
		}
		const touched = "CREATE TEMP TABLE touched AS SELECT DISTINCT sweep_id AS id FROM run WHERE sweep_id IS NOT NULL AND " + isChosenRun
		if _, err := tx.ExecContext(ctx, touched, c.runs()); err != nil {
			return err
		}
		for i, id := range c.Runs {
			if _, err := tx.ExecContext(ctx, "DELETE FROM run WHERE id = ?", id); err != nil {
				return fmt.Errorf("run %d: %w", id, err)
			}
			reach(runRemoved)
			progress(i+1, len(c.Runs))
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM sweep WHERE id IN (SELECT value FROM json_each(?)) AND id NOT IN (SELECT sweep_id FROM run WHERE sweep_id IS NOT NULL)", c.sweeps()); err != nil {
			return err
		}
		if err := giveCells(ctx, tx, "id IN (SELECT id FROM touched)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE sweep SET status = 'interrupted' WHERE status = 'complete' AND id IN (SELECT id FROM touched)
			AND EXISTS (SELECT 1 FROM cell WHERE cell.sweep_id = sweep.id AND run_id IS NULL)`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DROP TABLE touched")
		reach(removalDone)
		return err
	})
}

// Sizes are about how many bytes of the file each run takes: its share of what is in use, by the lengths of its rows.
// progress takes how many tables were read.
func (s *Store) Sizes(ctx context.Context, progress func(done, all int)) (map[int64]int64, error) {
	tables, err := runTables(ctx, s.read)
	if err != nil {
		return nil, explain(s.path, "read the tables", err)
	}
	weights := map[int64]int64{}
	all := int64(1)
	for i, table := range tables {
		type line struct{ run, weight int64 }
		weight, err := weightOf(ctx, s.read, table)
		if err != nil {
			return nil, explain(s.path, "read the columns of table "+table, err)
		}
		found, err := collect(ctx, s, "read the sizes of rows of table "+table,
			fmt.Sprintf("SELECT %s, sum(%s) FROM %s GROUP BY 1", runColumn(table), weight, table), nil,
			func(l *line) []any { return []any{&l.run, &l.weight} })
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			weights[l.run] += l.weight
			all += l.weight
		}
		progress(i+1, len(tables))
	}
	size, err := s.Space(ctx)
	if err != nil {
		return nil, err
	}
	for run, weight := range weights {
		weights[run] = int64(float64(size.Used) * float64(weight) / float64(all))
	}
	return weights, nil
}

// weightOf is SQL for about how many bytes a row takes: texts as long as they are, integers 3 and other numbers 8 bytes,
// and one byte for each column.
func weightOf(ctx context.Context, db executor, table string) (string, error) {
	terms, err := texts(ctx, db, `SELECT CASE type WHEN 'INTEGER' THEN '4' WHEN 'REAL' THEN '9' ELSE printf('1 + ifnull(octet_length(%s), 0)', name) END
		FROM pragma_table_xinfo(?) WHERE hidden = 0`, table)
	return strings.Join(terms, " + "), err
}

// Space is how many bytes the pages of a store's file take.
type Space struct {
	Used int64
	Free int64 // pages that hold nothing, which a vacuum gives back
}

// Space reads how much of the store's file is in use.
func (s *Store) Space(ctx context.Context) (Space, error) {
	var size, pages, free int64
	err := s.read.QueryRowContext(ctx, "SELECT page_size, page_count, freelist_count FROM pragma_page_size, pragma_page_count, pragma_freelist_count").
		Scan(&size, &pages, &free)
	return Space{Used: (pages - free) * size, Free: free * size}, explain(s.path, "read the size of the file", err)
}
