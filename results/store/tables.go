package store

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Table is a table of the file's schema, or a view that replaces a table.
type Table struct {
	Name    string
	Columns []Column
	keys    []string
}

// Column is one column. Its type is INTEGER, REAL or TEXT. Its name ends with its unit: _s,
// _bytes, _hz, _per_s.
type Column struct {
	Name string
	Type string
	Bool bool // an INTEGER that is 0 or 1
	Time bool // a TEXT that is a time of day, RFC 3339
}

// Tables lists the store's tables and views by name. It leaves out SQLite's own tables, the
// migrations' table, tables behind views, whose names begin with an underscore, and what a user added.
func (s *Store) Tables(ctx context.Context) ([]Table, error) {
	const query = `SELECT t.name, c.name, c.type, c.pk, instr(t.sql, 'CHECK (' || c.name || ' IN (0, 1))') > 0
		FROM sqlite_schema t, pragma_table_xinfo(t.name) c
		WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND t.name NOT LIKE '\_%' ESCAPE '\'
			AND t.name <> ? AND t.name IN (SELECT value FROM json_each(?))
		ORDER BY t.name, c.cid`
	type column struct {
		table string
		Column
		pk int
	}
	found, err := collect(ctx, s, "read the schema", query, []any{versionTable, own()}, func(c *column) []any {
		return []any{&c.table, &c.Name, &c.Type, &c.pk, &c.Bool}
	})
	if err != nil {
		return nil, err
	}
	var tables []Table
	for _, c := range found {
		if len(tables) == 0 || tables[len(tables)-1].Name != c.table {
			tables = append(tables, Table{Name: c.table})
		}
		t := &tables[len(tables)-1]
		if c.Type == "" {
			c.Type = "REAL" // an expression of a view, which casts it
		}
		c.Time = c.Type == "TEXT" && strings.HasSuffix(c.Name, "_at")
		t.Columns = append(t.Columns, c.Column)
		if c.pk > 0 {
			t.keys = append(t.keys, c.Name)
		}
	}
	for i := range tables {
		if t := &tables[i]; len(t.keys) == 0 {
			t.keys = viewKeys[t.Name]
		}
	}
	return tables, nil
}

// viewKeys are the keys of views, because SQLite has no keys for views.
var viewKeys = map[string][]string{
	kernels.table: append([]string{"run_id"}, kernels.keys...),
	utilization:   append([]string{"run_id"}, segments.keys...),
}

// OfSweeps reports whether the table holds sweeps or their cells.
func (t Table) OfSweeps() bool { return t.Name == sweeps.table || t.Name == cells.table }

// rowsOf returns a condition that selects a table's rows:
//   - rows of runs: the rows of selected runs;
//   - rows of sweeps and cells: the rows of the selected runs' sweeps, or all rows if all runs
//     are selected.
func (f Filter) rowsOf(t Table) (condition string, args []any) {
	condition, args = f.where()
	everything, _ := Filter{Warmups: f.Warmups, Duplicates: f.Duplicates, Excluded: f.Excluded}.where()
	switch {
	case t.Name == runs.table:
		return condition, args
	case !t.OfSweeps():
		return "run_id IN (SELECT id FROM run WHERE " + condition + ")", args
	case condition == everything:
		return "true", nil
	}
	id := map[string]string{sweeps.table: "id", cells.table: "sweep_id"}[t.Name]
	return id + " IN (SELECT sweep_id FROM run WHERE " + condition + ")", args
}

// Rows calls each with every row of the table that belongs to a selected run or its sweep, in
// the order of the keys. Cells are int64, float64, string or nil, in the order of the columns.
// The slice is valid only during the call.
func (s *Store) Rows(ctx context.Context, t Table, f Filter, each func(cells []any) error) error {
	if t.Name == utilization {
		return s.utilization(ctx, f, each)
	}
	operation := "read table " + t.Name
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	condition, args := f.rowsOf(t)
	rows, err := s.read.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s",
		strings.Join(names, ", "), t.Name, condition, strings.Join(t.keys, ", ")), args...)
	if err != nil {
		return explain(s.path, operation, err)
	}
	defer rows.Close()
	cells := make([]any, len(names))
	into := make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return explain(s.path, operation, err)
		}
		for i, cell := range cells {
			if v, is := cell.(float64); is && math.IsInf(v, 0) {
				cells[i] = nil // it is no figure, as in finite
			}
		}
		if err := each(cells); err != nil {
			return err
		}
	}
	return explain(s.path, operation, rows.Err())
}

// utilization is the view of segments and blocks.
const utilization = "utilization"

// utilization is Rows for the view utilization. It unpacks blocks in Go, which is many times as
// fast as the view's SQL.
func (s *Store) utilization(ctx context.Context, f Filter, each func(cells []any) error) error {
	modes, err := s.Modes(ctx, f)
	if err != nil {
		return err
	}
	for _, run := range slices.Sorted(maps.Keys(modes)) {
		found, err := s.Segments(ctx, run)
		if err != nil {
			return err
		}
		for _, x := range found {
			cells := []any{run, int64(x.Device), string(x.Series), x.FirstS, x.LastS, x.Samples, nil}
			if x.Value != nil {
				cells[6] = *x.Value
			}
			if err := each(cells); err != nil {
				return err
			}
		}
	}
	return nil
}
