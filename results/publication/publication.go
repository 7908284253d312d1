// Package publication writes the evaluation of a paper to a directory: a page, its data
// and its figures.
package publication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/userfile/output"
)

// Page is the Markdown page's name.
const Page = "paper.md"

// statements has what the paper states and whether it is so, if it states anything in words.
const statements = "statements.csv"

// simulated has what simulated nodes have of what was measured, too.
const simulated = "simulated.csv"

// Check refuses a directory in which Write could not write all its files, or that has files of another paper.
func Check(p *paper.Paper, dir string, replace bool) error {
	own := Paths(p, dir)
	var files []output.Planned
	for _, path := range own {
		files = append(files, output.Planned{Path: path, Policy: output.Chosen(replace)})
	}
	if err := output.CheckAll(files, []string{dir}); err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	for _, name := range paper.Names() {
		other, err := paper.Lookup(name)
		if err != nil {
			return err
		}
		for _, path := range Paths(other, dir) {
			if _, err := os.Lstat(path); err == nil && !slices.Contains(own, path) {
				return fmt.Errorf("--out %s: %s is of caserun paper %s: name another directory", dir, path, name)
			}
		}
	}
	return nil
}

// MakeWritable makes a directory, and finds out whether files can be written to it.
func MakeWritable(dir string) error {
	if err := output.MakeDirectory(dir); err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, output.Temporary+"*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Paths are the files that a paper's page can have in a directory.
func Paths(p *paper.Paper, dir string) []string {
	paths := []string{filepath.Join(dir, Page)}
	if len(p.Statements) > 0 {
		paths = append(paths, filepath.Join(dir, statements))
	}
	if p.ByRuns() {
		paths = append(paths, filepath.Join(dir, simulated))
	}
	for _, item := range p.Items {
		name := filepath.Join(dir, paper.Table{Source: item.Source}.ID())
		paths = append(paths, name+".csv", name+"-curves.csv")
		for _, format := range figures.Formats() {
			paths = append(paths, name+"."+string(format))
		}
	}
	return paths
}

// Write writes the page, the data and the figures in these formats. They get their names together, and the page is the last,
// so that a directory with a page has all other files too. With replace, what an earlier page had beside them is removed.
func Write(ctx context.Context, page paper.Page, dir string, replace bool, formats ...figures.Format) (err error) {
	if err := output.MakeDirectory(dir); err != nil {
		return err
	}
	set := output.NewSet(ctx, output.Chosen(replace))
	defer func() { err = errors.Join(err, set.Discard()) }()
	stale := map[string]bool{}
	for _, path := range Paths(page.Paper, dir) {
		if err := output.Check(path, output.Chosen(replace)); err != nil {
			return err
		}
		stale[path] = true
	}
	write := func(name string, write func(io.Writer) error) error {
		path := filepath.Join(dir, name)
		delete(stale, path)
		return set.Write(path, write)
	}
	writeCSV := func(name string, t *report.Table) error {
		return write(name, func(w io.Writer) error { return t.Render(w, report.CSV, report.Options{}) })
	}
	if len(page.Answers) > 0 {
		if err := writeCSV(statements, report.PaperAnswers(page)); err != nil {
			return err
		}
	}
	if len(page.Besides) > 0 {
		if err := writeCSV(simulated, report.PaperSimulated(page)); err != nil {
			return err
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
	if err := write(Page, func(w io.Writer) error { return report.PaperPage(w, page) }); err != nil {
		return err
	}
	if replace {
		if err := removeFiles(slices.Sorted(maps.Keys(stale))); err != nil {
			return err
		}
	}
	return set.Commit()
}

// removeFiles removes the files that exist.
func removeFiles(paths []string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace the paper's tables: %w", err)
		}
	}
	return nil
}
