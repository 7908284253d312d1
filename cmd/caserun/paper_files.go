package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/report"
)

// paperPage is the Markdown page's name in --out.
const paperPage = "paper.md"

// refuseExisting keeps every file that is there and that a page would replace or
// remove, unless that is asked for. It comes before a sweep that would be for nothing.
func refuseExisting(o paperOptions) error {
	if o.out == "" || o.force {
		return nil
	}
	names := []string{paperPage}
	page, err := paper.Build(nil) // the tables are the same whatever was measured
	if err != nil {
		return err
	}
	for _, t := range page.Tables {
		names = append(append(names, t.ID()+".csv"), figureFiles(t)...)
	}
	for _, name := range names {
		path := filepath.Join(o.out, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("--out %s: %s exists: choose another directory, or replace the files with --force", o.out, path)
		}
	}
	return nil
}

// makeWritable makes a directory, and finds out that files can be written to it.
func makeWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// figureFiles are the files that the figure of a table can have.
func figureFiles(t paper.Table) []string {
	names := []string{t.ID() + "-curves.csv"}
	for _, format := range figures.Formats() {
		names = append(names, t.ID()+"."+string(format))
	}
	return names
}

// writePaper writes the page, the data and the figures in these formats, each file
// as a whole, and the page last: where it is, the rest is. An earlier page and its
// figures go first, and only where it is to be replaced.
func writePaper(ctx context.Context, page paper.Page, dir string, replace bool, formats ...figures.Format) error {
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
	if replace {
		if err := removeFiles(dir, paperPage); err != nil {
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
	return write(paperPage, func(w io.Writer) error { return report.PaperPage(w, page) })
}

// removeFiles removes those of the files that there are.
func removeFiles(dir string, names ...string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace the paper's tables: %w", err)
		}
	}
	return nil
}

func simulatedPart(page paper.Page) string {
	for _, n := range page.Nodes {
		if n.Mode == results.Simulated {
			return "; those of sim: nodes are SIMULATED"
		}
	}
	return ""
}
