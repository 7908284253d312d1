package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// CopyRuns writes a new store at path with the selected runs, all their rows and the plans of
// their sweeps, and of the sweep that the filter names. Runs keep their ids. A cell whose run is not selected has no run in the copy;
// its sweep is then not complete, and the sweep's note says how many runs are missing. Equal
// runs give equal bytes. CopyRuns checks the copy's integrity and leaves no file after an error.
func (s *Store) CopyRuns(ctx context.Context, path string, f Filter) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("copy of store %s: %s exists", s.path, path), err)
	}
	if err := s.Verify(ctx, f); err != nil {
		return err
	}
	modes, err := s.Modes(ctx, f)
	if err != nil {
		return err
	}
	whole, _ := f.where()
	everything, _ := Filter{Warmups: true, Duplicates: true, Excluded: true}.where()
	target, err := Open(path)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, target.Close()); err != nil {
			_ = os.Remove(path) // err says what matters
		}
	}()
	c := copier{source: s.file(), runs: slices.Sorted(maps.Keys(modes)), sweep: f.Sweep, plans: whole == everything}
	if err := c.run(ctx, target.write); err != nil {
		return explain(path, "copy runs of "+s.path, err)
	}
	return nil
}

type copier struct {
	source string
	runs   []int64
	sweep  int64 // copy this sweep also if no run of it is chosen; 0: none
	plans  bool  // copy all sweeps, including sweeps without runs
}

func (c copier) run(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := execute(ctx, conn, "PRAGMA foreign_keys = OFF", createChosen, attach(c.source)); err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // without effect once committed
	if _, err := tx.ExecContext(ctx, "INSERT INTO chosen SELECT value, value FROM json_each(?)",
		strings.ReplaceAll(fmt.Sprint(c.runs), " ", ",")); err != nil {
		return err
	}
	if err := copyChosen(ctx, tx); err != nil {
		return err
	}
	for _, plan := range []struct{ table, id string }{{sweeps.table, "id"}, {cells.table, "sweep_id"}} {
		condition := fmt.Sprintf("%s = %d OR %[1]s IN (SELECT sweep_id FROM source.run WHERE id IN (SELECT old FROM chosen))", plan.id, c.sweep)
		if c.plans {
			condition = "true"
		}
		if err := copyRows(ctx, tx, plan.table, condition); err != nil {
			return err
		}
	}
	if err := execute(ctx, tx,
		`UPDATE main.sweep SET status = CASE status WHEN 'complete' THEN 'interrupted' ELSE status END,
			note = concat_ws('; ', note, printf('%d of its %d`+leftOut+`', part.missing, part.cells))
			FROM (SELECT sweep_id, count(*) AS cells, count(*) FILTER (WHERE run_id NOT IN (SELECT old FROM chosen)) AS missing FROM main.cell GROUP BY sweep_id) AS part
			WHERE part.sweep_id = sweep.id AND part.missing > 0`,
		"UPDATE main.cell SET run_id = NULL WHERE run_id NOT IN (SELECT old FROM chosen)",
		timeless); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := execute(ctx, conn, "DETACH source"); err != nil {
		return err
	}
	return check(ctx, conn)
}

// leftOut ends the note of a sweep of which a copy has some runs only, and madeAgain follows it when work on the sweep goes on there.
const (
	leftOut   = " runs were left out of this copy"
	madeAgain = ", and are to be made again in it"
)

// LeftOut is what a sweep's note says of runs that were left out of this copy of the store, before work on the sweep goes on there; "": nothing.
func LeftOut(note string) string {
	notes := strings.Split(note, "; ")
	last := notes[len(notes)-1]
	if !strings.HasSuffix(last, leftOut) {
		return ""
	}
	return last
}

const (
	// createChosen makes the list of the runs to copy, with their numbers in the source and in the copy.
	createChosen = "CREATE TEMP TABLE chosen (new INTEGER PRIMARY KEY, old INTEGER NOT NULL UNIQUE)"
	// timeless takes the time of day out of a copy, because equal runs must give equal bytes.
	timeless = "UPDATE main." + versionTable + " SET tstamp = '1970-01-01 00:00:00'"
)

// attach makes a file's tables those of the schema source. The order in which tables are copied
// ignores foreign keys, so they must be off; check verifies them.
func attach(file string) string {
	return "ATTACH " + quote(fileURL(file, readingQuery(file))) + " AS source"
}

// executor is a connection or a transaction.
type executor interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

func execute(ctx context.Context, db executor, statements ...string) error {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// copyChosen copies the runs that are chosen, with all their rows, in the order of their new
// numbers.
func copyChosen(ctx context.Context, db executor) error {
	tables, err := runTables(ctx, db)
	if err != nil {
		return err
	}
	for _, table := range tables {
		columns, err := columnsOf(ctx, db, table)
		if err != nil {
			return err
		}
		id := runColumn(table)
		columns = slices.DeleteFunc(columns, func(c string) bool { return c == id })
		list := strings.Join(columns, ", ")
		// CROSS JOIN keeps the order of the loops, in which rows come as their table has them.
		if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%s (%s, %s) SELECT new, %[3]s FROM chosen CROSS JOIN source.%[1]s ON %[2]s = old ORDER BY new",
			table, id, list)); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	return nil
}

// copyRows copies the rows of a table that fulfil a condition.
func copyRows(ctx context.Context, db executor, table, condition string) error {
	columns, err := columnsOf(ctx, db, table)
	if err != nil {
		return err
	}
	list := strings.Join(columns, ", ")
	if _, err = db.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%s (%s) SELECT %[2]s FROM source.%[1]s WHERE %[3]s", table, list, condition)); err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return nil
}

// runTables are the tables whose rows belong to runs, that of the runs included. In this order blocks
// come before segments, because inserting a block deletes the segments that it replaces.
func runTables(ctx context.Context, db executor) ([]string, error) {
	return texts(ctx, db, `SELECT name FROM main.sqlite_schema WHERE type = 'table'
		AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT IN (?, ?, ?) ORDER BY name DESC`, versionTable, sweeps.table, cells.table)
}

// runColumn is the column of a table that has the run's number.
func runColumn(table string) string {
	if table == runs.table {
		return "id"
	}
	return "run_id"
}

func columnsOf(ctx context.Context, db executor, table string) ([]string, error) {
	return texts(ctx, db, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid", table)
}

// check fails if a copied row refers to a missing row or a page is damaged. It also turns off
// the WAL, so that the file can be read where no journal may be written beside it.
func check(ctx context.Context, conn *sql.Conn) error {
	if err := execute(ctx, conn, "PRAGMA journal_mode = DELETE"); err != nil {
		return err
	}
	broken, err := texts(ctx, conn, `SELECT "table" || ' without its ' || parent FROM pragma_foreign_key_check`)
	if err != nil {
		return err
	}
	report, err := texts(ctx, conn, "PRAGMA integrity_check")
	if err != nil {
		return err
	}
	if len(broken) > 0 || !slices.Equal(report, []string{"ok"}) {
		return fmt.Errorf("integrity check: %s", strings.Join(append(broken, report...), "; "))
	}
	return nil
}

// texts reads the rows of a query that has one column.
func texts(ctx context.Context, db interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, query string, args ...any) (out []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
