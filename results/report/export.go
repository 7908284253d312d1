package report

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// ExportOptions say what ExportCSV writes.
type ExportOptions struct {
	Filter    store.Filter
	Overwrite bool // replace files that exist, instead of refusing to
}

// ExportCSV writes every table of the store to dir, which it creates, as
// NAME.csv, and returns the files' paths. Headers are the store's column
// names, which carry the units, with the run's mode after its id in every
// file. All files are complete before the first one gets its name.
func ExportCSV(ctx context.Context, s *store.Store, dir string, o ExportOptions) (paths []string, err error) {
	tables, err := s.Tables(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := s.Runs(ctx, o.Filter)
	if err != nil {
		return nil, err
	}
	modes := map[int64]results.Mode{}
	o.Filter = store.Filter{IDs: []int64{-1}} // a run that begins meanwhile stays out of all files
	for _, r := range runs {
		modes[r.ID] = r.Mode
		o.Filter.IDs = append(o.Filter.IDs, r.ID)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	for _, t := range tables {
		path := filepath.Join(dir, t.Name+".csv")
		if _, err := os.Lstat(path); err == nil && !o.Overwrite {
			return nil, fmt.Errorf("export %s: %w", path, fs.ErrExist)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("export: %w", err)
		}
		paths = append(paths, path)
	}
	var written []string
	defer func() {
		for _, temporary := range written {
			if e := os.Remove(temporary); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}()
	for i, t := range tables {
		file, err := os.CreateTemp(dir, "."+t.Name+".csv-*")
		if err != nil {
			return nil, fmt.Errorf("export %s: %w", paths[i], err)
		}
		written = append(written, file.Name())
		err = errors.Join(exportTable(ctx, s, t, o.Filter, modes, file), file.Chmod(0o644), file.Close())
		if err != nil {
			return nil, fmt.Errorf("export %s: %w", paths[i], err)
		}
	}
	for i := range tables {
		if err := os.Rename(written[i], paths[i]); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
	}
	return paths, nil
}

func exportTable(ctx context.Context, s *store.Store, t store.Table, f store.Filter, modes map[int64]results.Mode, file *os.File) error {
	buffered := bufio.NewWriter(file)
	w := csv.NewWriter(buffered)
	isRun := func(c store.Column) bool { return c.Name == "run_id" || (t.Name == "run" && c.Name == "id") }
	run := slices.IndexFunc(t.Columns, isRun)
	var record []string
	for i, c := range t.Columns {
		switch {
		case i == run:
			record = append(record, c.Name, "mode")
		case c.Name != "mode":
			record = append(record, c.Name)
		}
	}
	if err := w.Write(record); err != nil {
		return err
	}
	err := s.Rows(ctx, t, f, func(cells []any) error {
		record = record[:0]
		for i, v := range cells {
			switch {
			case i == run:
				id, _ := v.(int64)
				record = append(record, dataText(v), string(modes[id]))
			case t.Columns[i].Name != "mode":
				record = append(record, dataText(v))
			}
		}
		return w.Write(record)
	})
	w.Flush()
	return errors.Join(err, w.Error(), buffered.Flush())
}
