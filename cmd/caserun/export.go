package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
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
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile/output"
)

// exportOptions are the flags of caserun export.
type exportOptions struct {
	asked
	runs                       []string
	filter                     filterFlags
	csv, jsonl, parquet        string // directories
	markdown, benchfmt, bundle string // files; the first two may be stdoutName
	perfetto, openmetrics      string // files, or stdoutName
	latex                      string // file, or stdoutName
	figures                    string // directory
	base                       string // scheduler, of LaTeX and figures
	force                      bool

	policy   output.Policy    // of single files
	matrices []regress.Matrix // of the selected runs, for LaTeX and figures
}

// settle gives standard output its one name, and checks what needs no store.
func (o *exportOptions) settle(c *cobra.Command, args []string) error {
	o.runs = args
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	for _, path := range []*string{&o.markdown, &o.benchfmt, &o.perfetto, &o.openmetrics, &o.latex, &o.bundle} {
		if isStdout(*path) {
			*path = stdoutName
		}
	}
	return o.validate()
}

func (o *exportOptions) validate() error {
	if o.csv == "" && o.jsonl == "" && o.parquet == "" && o.markdown == "" && o.benchfmt == "" && o.perfetto == "" && o.openmetrics == "" && o.latex == "" && o.figures == "" && o.bundle == "" {
		return errors.New("export: name at least one of --csv, --jsonl, --parquet, --markdown, --benchfmt, --perfetto, --openmetrics, --latex, --figures and --bundle")
	}
	for _, t := range o.tables() {
		if t.dir == stdoutName {
			return fmt.Errorf("export: --%s writes a file for each table: name a directory, not -", t.form)
		}
	}
	if o.figures == stdoutName {
		return errors.New("export: --figures writes several files: name a directory, not -")
	}
	if o.base != "" && o.latex == "" && o.figures == "" {
		return errors.New("export: --base is for --latex and --figures: name one of them, or leave it out")
	}
	if toStdout := o.toStdout(); len(toStdout) > 1 {
		return fmt.Errorf("export: %s and %s cannot both be standard output", toStdout[0], toStdout[1])
	}
	if o.bundle != "" && o.bundle != stdoutName {
		return bundle.CheckName(o.bundle)
	}
	return nil
}

// tableExport is an export of every table to a directory.
type tableExport struct {
	form, dir string // the form is also the files' extension
	write     func(context.Context, *store.Store, string, report.ExportOptions) ([]string, error)
}

// tables are the exports of tables that were asked for.
func (o *exportOptions) tables() []tableExport {
	all := []tableExport{{"csv", o.csv, report.ExportCSV}, {"jsonl", o.jsonl, report.ExportJSONL}, {"parquet", o.parquet, report.ExportParquet}}
	return slices.DeleteFunc(all, func(t tableExport) bool { return t.dir == "" })
}

// toStdout are the flags whose data go to standard output.
func (o *exportOptions) toStdout() (flags []string) {
	for _, f := range []struct{ flag, path string }{{"--markdown", o.markdown}, {"--benchfmt", o.benchfmt}, {"--perfetto", o.perfetto}, {"--openmetrics", o.openmetrics}, {"--latex", o.latex}, {"--bundle", o.bundle}} {
		if f.path == stdoutName {
			flags = append(flags, f.flag)
		}
	}
	return flags
}

// checkTargets refuses, before the first file is written, files that could not all be written.
func (o *exportOptions) checkTargets(ctx context.Context, db *store.Store) error {
	tables, err := db.Tables(ctx)
	if err != nil {
		return err
	}
	var outputs []output.Planned
	var made []string
	for _, export := range o.tables() {
		made = append(made, export.dir)
		for _, t := range tables {
			outputs = append(outputs, output.Planned{Path: filepath.Join(export.dir, t.Name+"."+export.form), Policy: output.Chosen(o.force)})
		}
	}
	if o.figures != "" {
		made = append(made, o.figures)
		for _, path := range publication.FigurePaths(figures.OfMatrices(o.matrices), o.figures) {
			outputs = append(outputs, output.Planned{Path: path, Policy: output.Chosen(o.force)})
		}
	}
	for _, path := range []string{o.markdown, o.benchfmt, o.perfetto, o.openmetrics, o.latex, o.bundle} {
		if path != "" && path != stdoutName {
			outputs = append(outputs, output.Planned{Path: path, Policy: output.Policy{Force: o.force, HasForce: true}})
		}
	}
	for _, planned := range outputs {
		if planned.Path == o.bundle && bundle.Is(o.settings.DB) {
			continue // it was unpacked, and may be written again
		}
		if err := spareStore(o.settings.DB, planned.Path); err != nil {
			return err
		}
	}
	return output.CheckAll(outputs, made)
}

func newExport() *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export [RUN|latest]...",
		Short: "Write runs for other programs, or as an archive",
		Long: `Write the stored runs, or some of them, in forms that other programs read. A
file that exists is replaced only with --force, and no file is left half
written. The paths of the files go to stdout, or to stderr where stdout has
data.

--benchfmt is for benchstat: name parts are keys (benchstat -col /sched), and
runs that are not complete are left out. --perfetto is for
https://ui.perfetto.dev: the jobs, tasks, waits and counters of a run on a
timeline, with the kernels and copies of a traced run. --openmetrics has the
last sweep or tag of each arm. --latex and --figures have the schedulers of the
runs beside one another, as caserun compare prints them. --bundle keeps
everything in one file, which caserun report --db opens again.`,
		Example: `  caserun export --csv results/ --mix W7
  caserun export --parquet results/ --sweep latest
  caserun export --benchfmt w7.txt --mix W7 && \
      benchstat -col /sched -ignore /params w7.txt
  caserun export --perfetto w7.pftrace.gz latest
  caserun export --openmetrics /var/lib/node_exporter/caserun.prom --force
  caserun export --sweep latest --latex tables.tex --figures figures
  caserun export --sweep latest --bundle sweep.tar.gz`,
		ValidArgsFunction: others(fromStore(selection.OfferRuns)),
		RunE:              verb(onStore{&o}),
	}
	o.filter.addTo(c)
	config.AddStoreFlag(c.Flags())
	c.Flags().StringVar(&o.csv, "csv", "", "write every table of the store to `DIR` as CSV, with units in the header")
	c.Flags().StringVar(&o.jsonl, "jsonl", "", "write every table of the store to `DIR` as JSON lines")
	c.Flags().StringVar(&o.parquet, "parquet", "", "write every table of the store to `DIR` as Parquet")
	c.Flags().StringVar(&o.markdown, "markdown", "", "write the table of runs to `FILE` as Markdown; -: stdout")
	c.Flags().StringVar(&o.benchfmt, "benchfmt", "", "write the runs to `FILE` in the Go benchmark format, for benchstat; -: stdout")
	c.Flags().StringVar(&o.perfetto, "perfetto", "", fmt.Sprintf("write a timeline of up to %d runs to `FILE` for ui.perfetto.dev; -: stdout", mostTraced))
	c.Flags().StringVar(&o.openmetrics, "openmetrics", "", "write each arm's latest figures to `FILE` for node_exporter; -: stdout")
	c.Flags().StringVar(&o.latex, "latex", "", "write the comparison of the schedulers to `FILE` as LaTeX tables; -: stdout")
	c.Flags().StringVar(&o.figures, "figures", "", "draw ratios by mix and crashes to `DIR` as SVG, PNG and PDF")
	addBaseFlag(c, &o.base)
	c.Flags().StringVar(&o.bundle, "bundle", "", "write everything to `FILE`.tar.gz, which --db opens again; -: stdout")
	c.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	return c
}

func (o *exportOptions) look(c *cobra.Command, db *store.Store) error {
	ctx := c.Context()
	chosen, err := o.filter.Settle(ctx, db, o.runs)
	if err != nil {
		return err
	}
	if chosen, err = selection.Chosen(ctx, db, chosen, o.runs); err != nil {
		return err
	}
	whole := chosen
	whole.Warmups = whole.Warmups || o.bundle != "" // which always has them
	runs, err := db.Modes(ctx, whole)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return nothingMatches(ctx, db, "export", o.settings, o.filter.Filter)
	}
	if o.perfetto != "" && len(runs) > mostTraced {
		return refuse("export: %d runs match, and --perfetto shows at most %d side by side: name runs by their numbers, or as latest", len(runs), mostTraced)
	}
	if o.latex != "" || o.figures != "" {
		if o.matrices, err = o.findMatrices(ctx, db, chosen); err != nil {
			return err
		}
	}
	if err := o.checkTargets(ctx, db); err != nil {
		return err
	}
	o.policy = output.Policy{Force: o.force, HasForce: true, Waiting: waiting(c)}
	return o.write(ctx, db, chosen, c.OutOrStdout(), c.ErrOrStderr(), sayTo(c))
}

// findMatrices compares the schedulers of the selected runs.
func (o *exportOptions) findMatrices(ctx context.Context, db *store.Store, f store.Filter) ([]regress.Matrix, error) {
	side := regress.Side{Label: "the selection"}
	switch {
	case f.Sweep != 0:
		side.Label = fmt.Sprintf("sweep:%d", f.Sweep)
	case f.Tag != "":
		side.Label = selection.OfTag(f.Tag)
	}
	var err error
	f.Warmups = false
	if side.Runs, err = selection.Observations(ctx, db, f); err != nil {
		return nil, err
	}
	found, err := regress.Matrices(side, o.base, regress.Options{})
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	switch {
	case len(found) == 0:
		return nil, nothingError{errors.New("export: none of the selected runs is complete, so that there is nothing to compare")}
	case o.figures != "" && len(figures.OfMatrices(found)) == 0:
		return nil, nothingError{errors.New("export: --figures compares schedulers, and the selected runs are under one alone: select others too")}
	}
	return found, nil
}

// write does every export that was asked for.
func (o *exportOptions) write(ctx context.Context, db *store.Store, f store.Filter, stdout, stderr io.Writer, say harness.Say) error {
	var paths []string
	for _, t := range o.tables() {
		progress := display.NewRecords(stderr, "rows written to "+t.dir, time.Now())
		written, err := t.write(ctx, db, t.dir, report.ExportOptions{Filter: f, Overwrite: o.force,
			Progress: func(n int64) { progress.Done(n, 0, time.Now()) }})
		progress.Stop()
		if err != nil {
			return err
		}
		paths = append(paths, written...)
	}
	toFile := func(path string, write func(io.Writer) error) error {
		switch path {
		case "":
			return nil
		case stdoutName:
			return write(stdout)
		}
		paths = append(paths, path)
		return output.Write(ctx, path, o.policy, write)
	}
	if err := toFile(o.markdown, func(w io.Writer) error {
		runs, err := db.Runs(ctx, f)
		if err != nil {
			return err
		}
		return report.RunList(runs).Render(w, report.Markdown, report.Options{})
	}); err != nil {
		return err
	}
	if err := toFile(o.benchfmt, func(w io.Writer) error {
		_, left, err := report.ExportBench(ctx, db, w, f)
		if left > 0 {
			say("%d runs are not complete, or of unknown length, and are left out of the benchmarks", left)
		}
		return err
	}); err != nil {
		return err
	}
	if err := toFile(o.perfetto, func(w io.Writer) error { return o.writeTrace(ctx, db, f, w, stderr, say) }); err != nil {
		return err
	}
	if err := toFile(o.openmetrics, func(w io.Writer) error {
		runs, err := selection.Observations(ctx, db, f)
		if err != nil {
			return err
		}
		latest := trend.Latest(runs)
		if len(latest) == 0 {
			return nothingError{errors.New("--openmetrics: no selected run is complete, and the latest figures are of complete runs")}
		}
		return report.OpenMetrics(w, latest)
	}); err != nil {
		return err
	}
	if err := toFile(o.latex, func(w io.Writer) error {
		var tables []*report.Table
		for _, m := range o.matrices {
			tables = append(tables, report.MatrixLaTeX(m)...)
		}
		version, _ := harness.Version()
		return report.LaTeX(w, "Written by caserun "+version+".", tables...)
	}); err != nil {
		return err
	}
	if o.figures != "" {
		written, err := publication.WriteFigures(ctx, figures.OfMatrices(o.matrices), o.figures, o.force)
		if err != nil {
			return err
		}
		paths = append(paths, written...)
	}
	if o.bundle != "" {
		version, revision := harness.Version()
		path := o.bundle
		if path == stdoutName {
			path = os.Stdout.Name()
		} else {
			paths = append(paths, path)
		}
		if _, err := bundle.Write(ctx, db, path, bundle.Options{Filter: f, Policy: o.policy, Figures: bundleFigures(say),
			Writer: fmt.Sprintf("caserun %s (revision %s)", version, revision)}); err != nil {
			return err
		}
	}
	for _, p := range paths {
		if len(o.toStdout()) > 0 { // the paths would be mixed with the data
			say("wrote %s", p)
		} else {
			fmt.Fprintln(stdout, p)
		}
	}
	return nil
}

// bundleFigures writes what caserun paper makes of all runs of a bundle's store. Runs without a
// counterpart in the paper make no figures, and a message says so. PDF files would hold fonts
// of 200 kB each, and the time of day.
func bundleFigures(say harness.Say) func(context.Context, *store.Store, string) error {
	return func(ctx context.Context, db *store.Store, dir string) error {
		runs, err := db.Runs(ctx, store.Filter{Status: results.Complete})
		if err != nil {
			return err
		}
		nodes, err := selection.Paper{Of: paper.Case()}.Group(ctx, db, runs)
		if err != nil {
			say("the bundle has no figures of the paper: %v", err)
			return nil
		}
		page, err := paper.Case().Build(nodes)
		if err != nil {
			say("the bundle has no figures of the paper: %v", err)
			return nil
		}
		if page.Measured() == 0 {
			return nil
		}
		return publication.Write(ctx, page, dir, false, figures.SVG, figures.PNG)
	}
}

// mostTraced is the most runs that one trace shows: each has a group of tracks for each job.
const mostTraced = 16

// writeTrace does the export for ui.perfetto.dev.
func (o *exportOptions) writeTrace(ctx context.Context, db *store.Store, f store.Filter, w, stderr io.Writer, say harness.Say) (err error) {
	runs, err := db.Runs(ctx, f)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Mode == results.Live && !r.Traced {
			say("run %d was not traced: its timeline has no kernels and copies, which caserun mix --trace records", r.ID)
		}
	}
	if strings.HasSuffix(o.perfetto, ".gz") {
		compressed := gzip.NewWriter(w)
		defer func() { err = errors.Join(err, compressed.Close()) }()
		w = compressed
	}
	all := perfetto.Records(runs)
	progress := display.NewRecords(stderr, "kernels and copies written", time.Now())
	defer progress.Stop()
	return perfetto.Write(ctx, db, untilStopped{ctx, w}, runs, func(n int64) { progress.Done(n, all, time.Now()) })
}
