package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
)

// exportOptions are the flags of caserun export.
type exportOptions struct {
	csv, jsonl                 string // directories
	markdown, benchfmt, bundle string // files; the first two may be stdoutName
	force                      bool
}

// stdoutName is standard output as a file's name.
const stdoutName = "-"

// isStdout reports whether a file that the user names is standard output, by
// whatever name.
func isStdout(path string) bool {
	return path == stdoutName || path != os.DevNull && report.LeadsTo(path, os.Stdout)
}

// settle gives standard output its one name.
func (o *exportOptions) settle() {
	for _, path := range []*string{&o.markdown, &o.benchfmt} {
		if isStdout(*path) {
			*path = stdoutName
		}
	}
}

// Validate checks what can be checked before the store is opened.
func (o exportOptions) Validate() error {
	if o.csv == "" && o.jsonl == "" && o.markdown == "" && o.benchfmt == "" && o.bundle == "" {
		return errors.New("export: name at least one of --csv, --jsonl, --markdown, --benchfmt and --bundle")
	}
	if o.csv == stdoutName || o.jsonl == stdoutName {
		return errors.New("export: --csv and --jsonl write a file for each table: name a directory, not -")
	}
	if o.markdown == stdoutName && o.benchfmt == stdoutName {
		return errors.New("export: --markdown and --benchfmt cannot both be standard output")
	}
	if o.bundle != "" {
		return bundle.CheckName(o.bundle)
	}
	return nil
}

// checkTargets refuses, before the first file is written, what could not all be.
func (o exportOptions) checkTargets(ctx context.Context, db *store.Store, settings config) error {
	tables, err := db.Tables(ctx)
	if err != nil {
		return infrastructureError(err)
	}
	var paths []string
	for _, t := range tables {
		if o.csv != "" {
			paths = append(paths, filepath.Join(o.csv, t.Name+".csv"))
		}
		if o.jsonl != "" {
			paths = append(paths, filepath.Join(o.jsonl, t.Name+".jsonl"))
		}
	}
	for _, path := range []string{o.markdown, o.benchfmt, o.bundle} {
		if path != "" && path != stdoutName {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		if path == o.bundle && bundle.Is(settings.DB) {
			continue // it was unpacked, and may be written again
		}
		if err := settings.spareStore(path); err != nil {
			return err
		}
	}
	return usageError(report.CheckTargets(paths, []string{o.csv, o.jsonl}, o.force))
}

func newExport() *cobra.Command {
	var f filterFlags
	var o exportOptions
	c := &cobra.Command{
		Use:   "export [RUN|latest]...",
		Short: "Write runs as CSV, JSON lines, Markdown, Go benchmarks, or an archive",
		Long: `Write the stored runs, or some of them, in forms that other programs read. A
file that exists is replaced only with --force, and no file is ever left half
written. The paths of the files go to stdout, or to stderr where stdout has data.

--benchfmt is for benchstat: name parts are keys (benchstat -col /sched), and runs
that are not complete are left out. --bundle keeps everything in one file, which
caserun report --db opens again.`,
		Example: `  caserun export --csv results/ --mix W7
  caserun export --benchfmt w7.txt --mix W7 && benchstat -col /sched -ignore /params w7.txt
  caserun export --sweep latest --bundle sweep.tar.gz`,
		RunE: func(c *cobra.Command, args []string) error { return runExport(c, args, f, o) },
	}
	f.addTo(c)
	addStoreFlags(c.Flags())
	c.Flags().StringVar(&o.csv, "csv", "", "write every table of the store to `DIR` as a CSV file with units in its header")
	c.Flags().StringVar(&o.jsonl, "jsonl", "", "write every table of the store to `DIR` as JSON lines: exact numbers, null where unknown")
	c.Flags().StringVar(&o.markdown, "markdown", "", "write the table of runs to `FILE` as Markdown; -: standard output")
	c.Flags().StringVar(&o.benchfmt, "benchfmt", "", "write a line for each run to `FILE` in the Go benchmark format, which benchstat reads; -: standard output")
	c.Flags().StringVar(&o.bundle, "bundle", "", "write store, configuration, provenance and figures to `FILE`.tar.gz")
	c.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	return c
}

func runExport(c *cobra.Command, args []string, f filterFlags, o exportOptions) (err error) {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	o.settle()
	if err := o.Validate(); err != nil {
		return usageError(err)
	}
	db, done, err := openForReading(c.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := f.settle(c.Context(), db); err != nil {
		return err
	}
	chosen, err := f.chosen(c.Context(), db, args)
	if err != nil {
		return err
	}
	whole := chosen
	whole.Warmups = whole.Warmups || o.bundle != "" // which has them always
	runs, err := db.Modes(c.Context(), whole)
	if err != nil {
		return infrastructureError(err)
	}
	if len(runs) == 0 {
		return nothingMatches("export", settings)
	}
	if err := o.checkTargets(c.Context(), db, settings); err != nil {
		return err
	}
	err = o.write(c.Context(), db, chosen, c.OutOrStdout(), c.ErrOrStderr())
	if errors.Is(err, fs.ErrExist) {
		return usageError(err)
	}
	return notFound(err)
}

// write does every export that was asked for.
func (o exportOptions) write(ctx context.Context, db *store.Store, f store.Filter, stdout, stderr io.Writer) error {
	var paths []string
	for _, tables := range []struct {
		dir   string
		write func(context.Context, *store.Store, string, report.ExportOptions) ([]string, error)
	}{{o.csv, report.ExportCSV}, {o.jsonl, report.ExportJSONL}} {
		if tables.dir == "" {
			continue
		}
		written, err := tables.write(ctx, db, tables.dir, report.ExportOptions{Filter: f, Overwrite: o.force})
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
		return report.WriteFile(ctx, path, o.force, write)
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
			fmt.Fprintf(stderr, "caserun: %d runs are not complete, or of unknown length, and are left out of the benchmarks\n", left)
		}
		return err
	}); err != nil {
		return err
	}
	if o.bundle != "" {
		version, revision := buildVersion()
		if _, err := bundle.Write(ctx, db, o.bundle, bundle.Options{Filter: f, Overwrite: o.force, Figures: bundleFigures(stderr),
			Writer: fmt.Sprintf("caserun %s (revision %s)", version, revision)}); err != nil {
			return err
		}
		paths = append(paths, o.bundle)
	}
	for _, p := range paths {
		if o.markdown == stdoutName || o.benchfmt == stdoutName { // the paths would be mixed with the data
			fmt.Fprintln(stderr, "caserun: wrote", p)
		} else {
			fmt.Fprintln(stdout, p)
		}
	}
	return nil
}
