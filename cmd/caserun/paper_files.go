package main

import (
	"bytes"
	"errors"
	"fmt"
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

// refuseExisting keeps a page that is there, unless it is to be replaced. It
// comes before a sweep that would be for nothing.
func refuseExisting(o paperOptions) error {
	if o.out == "" || o.force {
		return nil
	}
	path := filepath.Join(o.out, paperPage)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("--out %s: %s exists: choose another directory, or replace the files with --force", o.out, path)
	}
	return nil
}

// writePaper writes the page, the data and the figures in these formats, the page
// last: where it is, the rest is.
func writePaper(page paper.Page, dir string, formats ...figures.Format) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the paper's tables: %w", err)
	}
	write := func(name string, content []byte) error {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write the paper's tables: %w", err)
		}
		return nil
	}
	writeCSV := func(name string, t *report.Table) error {
		var text bytes.Buffer
		if err := t.Render(&text, report.CSV, report.Options{}); err != nil {
			return err
		}
		return write(name, text.Bytes())
	}
	if err := removeFigures(page, dir); err != nil {
		return err
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
			if err := write(f.ID+"."+string(format), content); err != nil {
				return err
			}
		}
	}
	var text bytes.Buffer
	if err := report.PaperPage(&text, page); err != nil {
		return err
	}
	return write(paperPage, text.Bytes())
}

// removeFigures removes those of an earlier page, which this one may not have.
func removeFigures(page paper.Page, dir string) error {
	for _, t := range page.Tables {
		names := []string{t.ID() + "-curves.csv"}
		for _, format := range figures.Formats() {
			names = append(names, t.ID()+"."+string(format))
		}
		for _, name := range names {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("replace the paper's figures: %w", err)
			}
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
