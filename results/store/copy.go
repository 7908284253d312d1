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
// their sweeps. Runs keep their ids. A cell whose run is not selected has no run in the copy;
// its sweep is then not complete, and the sweep's note says how many runs are missing. Equal
// runs give equal bytes. CopyRuns checks the copy's integrity and leaves no file after an error.
func (s *Store) CopyRuns(ctx context.Context, path string, f Filter) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("copy of store %s: %s exists", s.path, path), err)
	}
	modes, err := s.Modes(ctx, f)
	if err != nil {
		return err
	}
	whole, _ := f.where()
	everything, _ := Filter{Warmups: true, Duplicates: true}.where()
	target, err := Open(path)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, target.Close()); err != nil {
			_ = os.Remove(path) // err says what matters
		}
	}()
	c := copier{source: s.file(), runs: slices.Sorted(maps.Keys(modes)), plans: whole == everything}
	if err := c.run(ctx, target.write); err != nil {
		return explain(path, "copy runs of "+s.path, err)
	}
	return nil
}

type copier struct {
	source string
	runs   []int64
	plans  bool // copy all sweeps, including sweeps without runs
}

func (c copier) run(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, statement := range []string{
		"PRAGMA foreign_keys = OFF", // the order of tables ignores foreign keys; check verifies them
		"ATTACH " + quote(fileURL(c.source, readingQuery(c.source))) + " AS source",
		"CREATE TEMP TABLE chosen (id INTEGER PRIMARY KEY)",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	tables, err := texts(ctx, conn, `SELECT name FROM main.sqlite_schema WHERE type = 'table'
		AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name <> ? ORDER BY name DESC`, versionTable)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // without effect once committed
	if _, err := tx.ExecContext(ctx, "INSERT INTO chosen SELECT value FROM json_each(?)",
		strings.ReplaceAll(fmt.Sprint(c.runs), " ", ",")); err != nil {
		return err
	}
	// In this order blocks come before segments, because inserting a block deletes the segments
	// that it replaces.
	for _, table := range tables {
		if err := c.table(ctx, tx, table); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	for _, statement := range []string{
		`UPDATE main.sweep SET status = CASE status WHEN 'complete' THEN 'interrupted' ELSE status END,
			note = concat_ws('; ', note, printf('%d of its %d runs were left out of this copy', part.missing, part.cells))
			FROM (SELECT sweep_id, count(*) AS cells, count(*) FILTER (WHERE run_id NOT IN chosen) AS missing FROM main.cell GROUP BY sweep_id) AS part
			WHERE part.sweep_id = sweep.id AND part.missing > 0`,
		"UPDATE main.cell SET run_id = NULL WHERE run_id NOT IN chosen",
		"UPDATE main." + versionTable + " SET tstamp = '1970-01-01 00:00:00'", // equal runs must give equal bytes
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return check(ctx, conn)
}

// table copies the rows of one table that belong to the chosen runs.
func (c copier) table(ctx context.Context, tx *sql.Tx, table string) error {
	columns, err := texts(ctx, tx, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid", table)
	if err != nil {
		return err
	}
	condition := "run_id IN chosen"
	switch table {
	case runs.table:
		condition = "id IN chosen"
	case sweeps.table, cells.table:
		id := map[string]string{sweeps.table: "id", cells.table: "sweep_id"}[table]
		condition = id + " IN (SELECT sweep_id FROM source.run WHERE id IN chosen)"
		if c.plans {
			condition = "true"
		}
	}
	list := strings.Join(columns, ", ")
	_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%s (%s) SELECT %s FROM source.%s WHERE %s",
		table, list, list, table, condition))
	return err
}

// check fails if a copied row refers to a missing row or a page is damaged. It also turns off
// the WAL, so that the file can be read where no journal may be written beside it.
func check(ctx context.Context, conn *sql.Conn) error {
	for _, statement := range []string{"DETACH source", "PRAGMA journal_mode = DELETE"} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
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
