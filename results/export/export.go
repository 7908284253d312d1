// Package export writes runs for other programs, each form to its files.
package export

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/perfetto"
	"github.com/caserun/caserun/results/publication"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/results/trend"
	"github.com/caserun/caserun/userfile/output"
)

// Form is a form in which runs are written, to a file or to a directory.
type Form struct {
	Name, Usage string
	files       bool // several, in a directory
	compares    bool // the schedulers of the runs
	write       func(*export, string) error
}

// Forms are all forms.
func Forms() []Form {
	return []Form{
		{"csv", "write every table of the store to `DIR` as CSV, with units in the header", true, false, tables(report.ExportCSV)},
		{"jsonl", "write every table of the store to `DIR` as JSON lines", true, false, tables(report.ExportJSONL)},
		{"parquet", "write every table of the store to `DIR` as Parquet", true, false, tables(report.ExportParquet)},
		{"markdown", "write the table of runs to `FILE` as Markdown; -: stdout", false, false, file((*export).markdown)},
		{"benchfmt", "write the runs to `FILE` in the Go benchmark format, for benchstat; -: stdout", false, false, file((*export).benchfmt)},
		{perfettoForm, fmt.Sprintf("write a timeline of up to %d runs to `FILE` for ui.perfetto.dev; -: stdout", mostTraced), false, false, file((*export).perfetto)},
		{"openmetrics", "write each arm's latest figures to `FILE` for node_exporter; -: stdout", false, false, file((*export).openmetrics)},
		{"latex", "write the comparison of the schedulers to `FILE` as LaTeX tables; -: stdout", false, true, file((*export).latex)},
		{figuresForm, "draw ratios by mix and crashes to `DIR` as SVG, PNG and PDF", true, true, (*export).figures},
		{bundleForm, "write everything to `FILE`.tar.gz, which --db opens again; -: stdout", false, false, (*export).bundle},
	}
}

// Forms that are more than a file with a writer.
const perfettoForm, figuresForm, bundleForm = "perfetto", "figures", "bundle"

// Stdout is standard output as a path.
const Stdout = "-"

// mostTraced is the most runs that one trace shows: each has a group of tracks for each job.
const mostTraced = 16

// Request is what is to be exported.
type Request struct {
	Paths   map[string]string // by form
	Base    string            // scheduler to which ratios are
	Metrics []string          // by which schedulers are compared; none: those that need not be named
	Force   bool              // replace files that exist
	Filter  store.Filter      // of the runs

	Spare    func(path string) error // refuses a file of the store's
	Writer   string                  // the program and its version
	Revision string
	Output   io.Writer
	Say      func(format string, args ...any)
	Waiting  func(path string)
	Progress func(what string) (done func(n, all int64), stop func())
}

// asked are the forms that are to be written.
func (r Request) asked() []Form {
	return slices.DeleteFunc(Forms(), func(f Form) bool { return r.Paths[f.Name] == "" })
}

// compares reports whether a form compares schedulers.
func (r Request) compares() bool {
	return slices.ContainsFunc(r.asked(), func(f Form) bool { return f.compares })
}

// toStdout are the flags of the forms that go to standard output.
func (r Request) toStdout() (flags []string) {
	for _, f := range r.asked() {
		if r.Paths[f.Name] == Stdout {
			flags = append(flags, "--"+f.Name)
		}
	}
	return flags
}

// Validate checks what needs no store.
func (r Request) Validate() error {
	asked := r.asked()
	if len(asked) == 0 {
		var flags []string
		for _, f := range Forms() {
			flags = append(flags, "--"+f.Name)
		}
		last := len(flags) - 1
		return fmt.Errorf("export: name at least one of %s and %s", strings.Join(flags[:last], ", "), flags[last])
	}
	for _, f := range asked {
		if f.files && r.Paths[f.Name] == Stdout {
			return fmt.Errorf("export: --%s writes several files: name a directory, not -", f.Name)
		}
	}
	if r.Base != "" && !r.compares() {
		return errors.New("export: --base requires --latex or --figures")
	}
	if len(r.Metrics) > 0 && !r.compares() {
		return errors.New("export: --metrics requires --latex or --figures")
	}
	if _, err := regress.LookupMetrics(r.Metrics); err != nil {
		return fmt.Errorf("export: --metrics: %w", err)
	}
	if flags := r.toStdout(); len(flags) > 1 {
		return fmt.Errorf("export: %s and %s cannot both be standard output", flags[0], flags[1])
	}
	if path := r.Paths[bundleForm]; path != "" && path != Stdout {
		return bundle.CheckName(path)
	}
	return nil
}

// sayLeftOut says how many runs the files lack that a user has excluded. A bundle has them.
func (e *export) sayLeftOut() error {
	if e.Paths[bundleForm] != "" && len(e.asked()) == 1 {
		return nil
	}
	notes, err := selection.LeftOut(e.ctx, e.db, e.Filter)
	for _, note := range notes {
		e.Say("%s; --excluded takes them in", note)
	}
	return err
}

// export is a request at work.
type export struct {
	Request
	ctx      context.Context
	db       *store.Store
	policy   output.Policy // of single files
	matrices []regress.Matrix
	written  []string // paths
}

// Count is how many runs would be written.
func (r Request) Count(ctx context.Context, db *store.Store) (int, error) {
	whole := r.Filter
	whole.Warmups = whole.Warmups || r.Paths[bundleForm] != "" // which always has them
	runs, err := db.Modes(ctx, whole)
	if err == nil && r.Paths[perfettoForm] != "" && len(runs) > mostTraced {
		return 0, selection.Refuse("export: %d runs match, and --perfetto shows at most %d side by side: name runs by their numbers, or as latest", len(runs), mostTraced)
	}
	return len(runs), err
}

// Write writes each form that is asked for, once it is known that all can be written, and prints the paths.
func (r Request) Write(ctx context.Context, db *store.Store) error {
	e := &export{Request: r, ctx: ctx, db: db, policy: output.Policy{Force: r.Force, HasForce: true, Waiting: r.Waiting}}
	if r.compares() {
		if err := e.compare(); err != nil {
			return err
		}
	}
	if err := e.check(); err != nil {
		return err
	}
	if err := e.sayLeftOut(); err != nil {
		return err
	}
	for _, f := range r.asked() {
		if err := f.write(e, r.Paths[f.Name]); err != nil {
			return err
		}
	}
	toStdout := len(r.toStdout()) > 0
	for _, p := range e.written {
		if toStdout { // the paths would be mixed with the data
			r.Say("wrote %s", p)
		} else {
			fmt.Fprintln(r.Output, p)
		}
	}
	return nil
}

// compare compares the schedulers of the selected runs.
func (e *export) compare() (err error) {
	f := e.Filter
	var side regress.Side
	f.Warmups = false
	metrics, err := regress.LookupMetrics(e.Metrics)
	if err != nil {
		return fmt.Errorf("export: --metrics: %w", err)
	}
	if side.Runs, err = selection.Observations(e.ctx, e.db, f); err != nil {
		return err
	}
	if side.Notes, err = selection.LeftOut(e.ctx, e.db, f); err != nil {
		return err
	}
	side.Label = labelOf(f, side.Runs)
	if e.matrices, err = regress.Matrices(side, e.Base, regress.Options{Metrics: metrics}); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	switch {
	case len(e.matrices) == 0:
		return selection.Nothing("export: none of the selected runs is complete, so that there is nothing to compare")
	case e.Paths[figuresForm] != "" && len(figures.OfMatrices(e.matrices)) == 0:
		return selection.Nothing("export: --figures compares schedulers, and the selected runs are under one alone: select others too")
	}
	return nil
}

// labelOf says which runs are compared.
func labelOf(f store.Filter, runs []regress.Observation) string {
	switch {
	case f.Sweep != 0:
		return fmt.Sprintf("sweep:%d", f.Sweep)
	case f.Tag != "":
		return selection.OfTag(f.Tag)
	case len(runs) == 0:
		return "the selection"
	}
	byID := func(a, b regress.Observation) int { return cmp.Compare(a.ID, b.ID) }
	return fmt.Sprintf("the selection (%s, %d to %d)", size.Count(len(runs), "run"), slices.MinFunc(runs, byID).ID, slices.MaxFunc(runs, byID).ID)
}

// check refuses, before the first file is written, files that could not all be written.
func (e *export) check() error {
	stored, err := e.db.Tables(e.ctx)
	if err != nil {
		return err
	}
	var planned []output.Planned
	var directories []string
	for _, f := range e.asked() {
		path := e.Paths[f.Name]
		switch {
		case f.Name == figuresForm:
			for _, file := range publication.FigurePaths(figures.OfMatrices(e.matrices), path) {
				planned = append(planned, output.Planned{Path: file, Policy: output.Chosen(e.Force)})
			}
		case f.files:
			for _, t := range stored {
				planned = append(planned, output.Planned{Path: filepath.Join(path, t.Name+"."+f.Name), Policy: output.Chosen(e.Force)})
			}
		case path != Stdout:
			planned = append(planned, output.Planned{Path: path, Policy: output.Policy{Force: e.Force, HasForce: true}})
		}
		if f.files {
			directories = append(directories, path)
		}
	}
	for _, p := range planned {
		if err := e.Spare(p.Path); err != nil {
			return err
		}
	}
	return output.CheckAll(planned, directories)
}

// tables writes every table of the store to a directory.
func tables(write func(context.Context, *store.Store, string, report.ExportOptions) ([]string, error)) func(*export, string) error {
	return func(e *export, dir string) error {
		done, stop := e.Progress("rows written to " + dir)
		written, err := write(e.ctx, e.db, dir, report.ExportOptions{Filter: e.Filter, Overwrite: e.Force, Progress: func(n int64) { done(n, 0) }})
		stop()
		e.written = append(e.written, written...)
		return err
	}
}

// file writes to a file or to standard output.
func file(write func(*export, io.Writer) error) func(*export, string) error {
	return func(e *export, path string) error {
		if path == Stdout {
			return write(e, e.Output)
		}
		e.written = append(e.written, path)
		return output.Write(e.ctx, path, e.policy, func(w io.Writer) error { return write(e, w) })
	}
}

func (e *export) markdown(w io.Writer) error {
	runs, err := e.db.Runs(e.ctx, e.Filter)
	if err != nil {
		return err
	}
	return report.RunList(runs).Render(w, report.Markdown, report.Options{})
}

func (e *export) benchfmt(w io.Writer) error {
	_, left, err := report.ExportBench(e.ctx, e.db, w, e.Filter)
	if left > 0 {
		e.Say("runs that are not complete, or of unknown length, and are left out of the benchmarks: %d", left)
	}
	return err
}

// perfetto writes a trace for ui.perfetto.dev.
func (e *export) perfetto(w io.Writer) (err error) {
	runs, err := e.db.Runs(e.ctx, e.Filter)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Mode == results.Live && !r.Traced {
			e.Say("run %d was not traced: its timeline has no kernels and copies, which caserun mix --trace records", r.ID)
		}
	}
	if strings.HasSuffix(e.Paths[perfettoForm], ".gz") {
		compressed := gzip.NewWriter(w)
		defer func() { err = errors.Join(err, compressed.Close()) }()
		w = compressed
	}
	all := perfetto.Records(runs)
	done, stop := e.Progress("kernels and copies written")
	defer stop()
	return perfetto.Write(e.ctx, e.db, output.UntilStopped(e.ctx, w), runs, func(n int64) { done(n, all) })
}

func (e *export) openmetrics(w io.Writer) error {
	runs, err := selection.Observations(e.ctx, e.db, e.Filter)
	if err != nil {
		return err
	}
	latest := trend.Latest(runs)
	if len(latest) == 0 {
		return selection.Nothing("--openmetrics: no selected run is complete, and the latest figures are of complete runs")
	}
	return report.OpenMetrics(w, latest)
}

func (e *export) latex(w io.Writer) error {
	var tables []*report.Table
	for _, m := range e.matrices {
		tables = append(tables, report.MatrixLaTeX(m)...)
	}
	return report.LaTeX(w, "Written by "+e.Writer+".", tables...)
}

func (e *export) figures(dir string) error {
	written, err := publication.WriteFigures(e.ctx, figures.OfMatrices(e.matrices), dir, e.Force)
	e.written = append(e.written, written...)
	return err
}

func (e *export) bundle(path string) error {
	if path == Stdout {
		path = os.Stdout.Name()
	} else {
		e.written = append(e.written, path)
	}
	_, err := bundle.Write(e.ctx, e.db, path, bundle.Options{Filter: e.Filter, Policy: e.policy, Figures: e.paperFigures, Writer: e.Writer + " (revision " + e.Revision + ")"})
	return err
}

// paperFigures writes what caserun paper makes of all runs of a bundle's store. Runs without a
// counterpart in the paper make no figures, and a message says so. PDF files would hold fonts
// of 200 kB each, and the time of day.
func (e *export) paperFigures(ctx context.Context, db *store.Store, dir string) error {
	runs, err := db.Runs(ctx, store.Filter{Status: results.Complete})
	if err != nil {
		return err
	}
	nodes, err := selection.Paper{Of: paper.Case()}.Group(ctx, db, runs)
	var page paper.Page
	if err == nil {
		page, err = paper.Case().Build(nodes)
	}
	if err != nil {
		e.Say("the bundle has no figures of the paper: %v", err)
		return nil
	}
	if page.Measured() == 0 {
		return nil
	}
	return publication.Write(ctx, page, dir, false, figures.SVG, figures.PNG)
}
