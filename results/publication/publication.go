// Package publication writes the evaluation of the CASE paper to a directory: a page, its data
// and its figures.
package publication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/report"
)

// Page is the Markdown page's name.
const Page = "paper.md"

// Free refuses a directory that has a file which Write would replace or remove.
func Free(dir string) error {
	page, err := paper.Build(nil) // the tables are the same whatever was measured
	if err != nil {
		return err
	}
	for _, name := range filesOf(page) {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("--out %s: %s exists: choose another directory, or replace the files with --force", dir, path)
		}
	}
	return nil
}

// MakeWritable makes a directory, and finds out whether files can be written to it.
func MakeWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// filesOf are the files that a page can have.
func filesOf(page paper.Page) []string {
	names := []string{Page}
	for _, t := range page.Tables {
		names = append(append(names, t.ID()+".csv"), figureFiles(t)...)
	}
	return names
}

// figureFiles are the files that the figure of a table can have.
func figureFiles(t paper.Table) []string {
	names := []string{t.ID() + "-curves.csv"}
	for _, format := range figures.Formats() {
		names = append(names, t.ID()+"."+string(format))
	}
	return names
}

// Write writes the page, the data and the figures in these formats, each file as a whole. The
// page comes last, so that a directory with a page has all other files too. With replace, an
// earlier page and its figures are removed first.
func Write(ctx context.Context, page paper.Page, dir string, replace bool, formats ...figures.Format) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the paper's tables: %w", err)
	}
	write := func(name string, write func(io.Writer) error) error {
		if err := report.WriteFile(ctx, filepath.Join(dir, name), replace, write); err != nil {
			return fmt.Errorf("write the paper's tables: %w", err)
		}
		return nil
	}
	writeCSV := func(name string, t *report.Table) error {
		return write(name, func(w io.Writer) error { return t.Render(w, report.CSV, report.Options{}) })
	}
	for _, name := range filesOf(page) {
		if err := report.CheckChosen(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("write the paper's tables: %w", err)
		}
	}
	if replace {
		if err := removeFiles(dir, Page); err != nil {
			return err
		}
		for _, t := range page.Tables { // this page may have no figure of it
			if err := removeFiles(dir, figureFiles(t)...); err != nil {
				return err
			}
		}
	}
	for _, t := range page.Tables {
		if err := writeCSV(t.ID()+".csv", report.PaperTable(t)); err != nil {
			return err
		}
	}
	for _, f := range page.Figures {
		if len(f.Curves) > 0 {
			if err := writeCSV(f.ID+"-curves.csv", report.PaperCurves(f)); err != nil {
				return err
			}
		}
		for _, format := range formats {
			content, err := figures.Draw(f, format)
			if err != nil {
				return err
			}
			if err := write(f.ID+"."+string(format), func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
				return err
			}
		}
	}
	return write(Page, func(w io.Writer) error { return report.PaperPage(w, page) })
}

// removeFiles removes the files that exist.
func removeFiles(dir string, names ...string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace the paper's tables: %w", err)
		}
	}
	return nil
}
