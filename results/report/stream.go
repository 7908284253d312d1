package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/userfile/output"
)

// kinds puts tables of one kind together: those with the same columns, as the summaries of several runs are. Each has the
// name of its kind, or a number.
func kinds(tables []*Table) (out []*Table) {
	for _, t := range tables {
		at := slices.IndexFunc(out, func(o *Table) bool { return slices.Equal(o.headers(), t.headers()) })
		if at >= 0 {
			out[at].Rows = append(out[at].Rows, t.Rows...)
			continue
		}
		own := *t
		own.Rows = slices.Clone(t.Rows)
		if used := func(o *Table) bool { return o.Name == own.Name }; own.Name == "" || slices.ContainsFunc(out, used) {
			own.Name = strings.TrimPrefix(fmt.Sprintf("%s-%d", own.Name, len(out)+1), "-")
		}
		out = append(out, &own)
	}
	return out
}

// headers are the columns in data.
func (t *Table) headers() (out []string) {
	columns, _ := t.in(DataOnly)
	for _, c := range columns {
		out = append(out, c.Header())
	}
	return out
}

// LeftOut says which tables a stream of csv or tsv leaves out, because it holds one; empty: none.
func LeftOut(f Format, tables ...*Table) string {
	if all := kinds(tables); (f == CSV || f == TSV) && len(all) > 1 {
		return fmt.Sprintf("--format %s has one table, and %d are left out; --format json has all", f, len(all)-1)
	}
	return ""
}

// WriteCSV writes each kind of table to a file in dir, which it makes, and returns their paths. spare refuses files that must
// stay. The files get their names together.
func WriteCSV(ctx context.Context, dir string, replace bool, spare func(path string) error, tables ...*Table) (paths []string, err error) {
	if err := output.MakeDirectory(dir); err != nil {
		return nil, err
	}
	policy := output.Chosen(replace)
	all := kinds(tables)
	for _, t := range all {
		path := filepath.Join(dir, "table-"+t.Name+".csv")
		if t.Name != "" && (t.Name[0] < '0' || t.Name[0] > '9') {
			path = filepath.Join(dir, t.Name+".csv")
		}
		if err := errors.Join(output.Check(path, policy), spare(path)); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	files := output.NewSet(ctx, policy)
	defer func() { err = errors.Join(err, files.Discard()) }()
	for i, t := range all {
		if err := files.Write(paths[i], func(w io.Writer) error { return t.Render(w, CSV, Options{}) }); err != nil {
			return nil, err
		}
	}
	return paths, files.Commit()
}
