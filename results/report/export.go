package report

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/userfile/output"
)

// ExportOptions say what an export writes.
type ExportOptions struct {
	Filter    store.Filter
	Overwrite bool // replace files that exist, instead of refusing to
	// Progress, if not nil, is called now and then with how many rows are written.
	Progress func(rows int64)
}

// ExportCSV writes every table of the store to dir, which it creates, as
// NAME.csv, and returns the files' paths. Headers are the store's column
// names, which carry the units, with the run's mode after its id in every
// file. Each run has the name of its arm among the others. All files are complete before the first one gets its name.
func ExportCSV(ctx context.Context, s *store.Store, dir string, o ExportOptions) ([]string, error) {
	return exportTables(ctx, s, dir, ".csv", o, newCSVRows)
}

// ExportJSONL is ExportCSV with NAME.jsonl: an object in each line whose keys
// are CSV's headers. Numbers are exact and NULL is null.
func ExportJSONL(ctx context.Context, s *store.Store, dir string, o ExportOptions) ([]string, error) {
	return exportTables(ctx, s, dir, ".jsonl", o, newJSONRows)
}

// rowWriter writes the rows of one table to a file; flush ends it.
type rowWriter interface {
	row(cells []any) error
	flush() error
}

func exportTables(ctx context.Context, s *store.Store, dir, ending string, o ExportOptions,
	open func(io.Writer, []store.Column) (rowWriter, error),
) (paths []string, err error) {
	if err := s.Verify(ctx, o.Filter); err != nil {
		return nil, err
	}
	tables, err := s.Tables(ctx)
	if err != nil {
		return nil, err
	}
	modes, err := s.Modes(ctx, o.Filter)
	if err != nil {
		return nil, err
	}
	// A run that begins during the export is in none of the files.
	chosen := store.Filter{IDs: append([]int64{-1}, slices.Sorted(maps.Keys(modes))...), Warmups: true, Duplicates: true, Excluded: true}
	of, err := readOfRuns(ctx, s, chosen, modes)
	if err != nil {
		return nil, err
	}
	if err := output.MakeDirectory(dir); err != nil {
		return nil, err
	}
	policy := output.Chosen(o.Overwrite)
	for _, t := range tables {
		path := filepath.Join(dir, t.Name+ending)
		if err := output.Check(path, policy); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	files := output.NewSet(ctx, policy)
	defer func() { err = errors.Join(err, files.Discard()) }()
	var rows int64
	written := func() {
		if rows++; rows%4096 == 0 && o.Progress != nil {
			o.Progress(rows)
		}
	}
	for i, t := range tables {
		f := chosen
		if t.OfSweeps() {
			f = o.Filter // a plan may have no runs yet
		}
		err := files.Write(paths[i], func(w io.Writer) error { return exportTable(ctx, s, t, f, of, w, open, written) })
		if err != nil {
			return nil, err
		}
	}
	return paths, files.Commit()
}

// ofRuns is what rows have of their runs beside what the store has.
type ofRuns struct {
	modes   map[int64]results.Mode
	arms    map[int64]string
	columns []store.Column // of the table run, behind those of the store
	figures map[int64][]any
}

// readOfRuns names the arms of the runs, and computes the figures that follow from their jobs.
func readOfRuns(ctx context.Context, s *store.Store, f store.Filter, modes map[int64]results.Mode) (ofRuns, error) {
	f.Unchecked = true // the caller has checked them
	runs, err := s.RunsWithJobs(ctx, f)
	out := ofRuns{modes: modes, arms: map[int64]string{}, figures: map[int64][]any{}}
	names := results.NamesOf(runs)
	for _, r := range runs {
		out.arms[r.ID] = names.Scheduler(results.ArmOf(r))
	}
	for _, m := range results.AllMetrics() {
		if !m.Derived {
			continue
		}
		out.columns = append(out.columns, store.Column{Name: m.Column, Type: "REAL"})
		for _, r := range runs {
			out.figures[r.ID] = append(out.figures[r.ID], cell(m.Of(r)))
		}
	}
	return out, err
}

func exportTable(ctx context.Context, s *store.Store, t store.Table, f store.Filter, of ofRuns,
	file io.Writer, open func(io.Writer, []store.Column) (rowWriter, error), written func(),
) error {
	// A sweep has a mode of its own, and its cells are plans, not figures.
	run := -1
	if !t.OfSweeps() {
		run = slices.IndexFunc(t.Columns, func(c store.Column) bool { return c.Name == "run_id" || (t.Name == "run" && c.Name == "id") })
	}
	var header []store.Column
	for i, c := range t.Columns {
		switch {
		case i == run:
			header = append(header, c, store.Column{Name: "mode", Type: "TEXT"})
		case run < 0 || c.Name != "mode":
			header = append(header, c)
		}
	}
	if t.Name == "run" {
		header = append(header, of.columns...)
	}
	buffered := bufio.NewWriterSize(file, 1<<16)
	w, err := open(buffered, header)
	if err != nil {
		return err
	}
	record := make([]any, 0, len(header))
	err = s.Rows(ctx, t, f, func(cells []any) error {
		record = record[:0]
		var id int64
		for i, v := range cells {
			switch {
			case t.Name == "run" && t.Columns[i].Name == "arm":
				record = append(record, of.arms[id])
			case i == run:
				id, _ = v.(int64)
				record = append(record, v, string(of.modes[id]))
			case run < 0 || t.Columns[i].Name != "mode":
				record = append(record, v)
			}
		}
		if t.Name == "run" {
			record = append(record, of.figures[id]...)
		}
		defer written()
		return w.row(record)
	})
	if err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	return buffered.Flush()
}

type csvRows struct {
	w      *csv.Writer
	record []string
}

func newCSVRows(w io.Writer, header []store.Column) (rowWriter, error) {
	c := &csvRows{w: csv.NewWriter(w), record: make([]string, len(header))}
	for i, h := range header {
		c.record[i] = h.Name
	}
	return c, c.w.Write(c.record)
}

func (c *csvRows) row(cells []any) error {
	for i, v := range cells {
		c.record[i] = dataText(v)
	}
	return c.w.Write(c.record)
}

func (c *csvRows) flush() error {
	c.w.Flush()
	return c.w.Error()
}

type jsonRows struct {
	w    io.Writer
	keys [][]byte // with the punctuation before and after them
	line bytes.Buffer
}

func newJSONRows(w io.Writer, header []store.Column) (rowWriter, error) {
	j := &jsonRows{w: w}
	for i, h := range header {
		before := ","
		if i == 0 {
			before = "{"
		}
		j.keys = append(j.keys, append(append([]byte(before), dataJSON(h.Name)...), ':'))
	}
	return j, nil
}

func (j *jsonRows) row(cells []any) error {
	j.line.Reset()
	for i, v := range cells {
		j.line.Write(j.keys[i])
		j.line.Write(dataJSON(v))
	}
	j.line.WriteString("}\n")
	_, err := j.w.Write(j.line.Bytes())
	return err
}

func (j *jsonRows) flush() error { return nil }
