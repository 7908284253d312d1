package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile/output"
)

// render prints tables in a format.
func render(c *cobra.Command, format string, tables ...*report.Table) error {
	f, err := report.ParseFormat(format)
	if err != nil {
		return err
	}
	if says := report.LeftOut(f, tables...); says != "" {
		if c.Flags().Lookup("csv") != nil {
			says += ", and --csv DIR writes each to a file"
		}
		sayTo(c)("%s", says)
	}
	w := c.OutOrStdout()
	wide, _ := c.Flags().GetBool("verbose")
	return report.RenderAll(w, f, report.Options{Color: display.IsTerminal(w) && os.Getenv("NO_COLOR") == "", Wide: wide, Columns: display.Columns(w)}, tables...)
}

// csvFlag is --csv of a command that prints several tables.
type csvFlag struct {
	dir   string
	force bool
}

func (f *csvFlag) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "csv", "", "write each table to `DIR` as a CSV file, instead of printing it")
	c.Flags().BoolVar(&f.force, "force", false, "replace files that exist")
}

// check refuses what says nothing to files.
func (f *csvFlag) check(c *cobra.Command) error {
	if err := requireFlag(c.Flags(), "force", "csv"); err != nil {
		return err
	}
	return refuseConflicts(c.Flags(), []conflict{{"csv", "format", "it has a format"}})
}

// render prints tables, or writes them to files and prints their paths.
func (f *csvFlag) render(c *cobra.Command, settings config.Settings, tables ...*report.Table) error {
	if f.dir == "" {
		return render(c, settings.Format, tables...)
	}
	spare := func(path string) error { return harness.SpareStore(settings.DB, path) }
	paths, err := report.WriteCSV(c.Context(), f.dir, f.force, spare, tables...)
	for _, path := range paths {
		if err == nil {
			fmt.Fprintln(c.OutOrStdout(), path)
		}
	}
	return err
}

// orAgain adds to the error of an output, if there is one, that the measurements are kept, and how to make it again.
func orAgain(err error, what, again string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; %s: %s", err, what, again)
}

// warnUnseen says on stderr what the format has no notes for.
func warnUnseen(c *cobra.Command, format string, notes []string) {
	if !report.Format(format).Data() {
		return
	}
	for _, n := range notes {
		sayTo(c)("%s", n)
	}
}

// stdoutName is standard output as a file's name.
const stdoutName = "-"

// isStdout reports whether a file that the user names is standard output, by whatever name.
func isStdout(path string) bool {
	return path == stdoutName || path != os.DevNull && output.LeadsTo(path, os.Stdout)
}

// waiting says that a FIFO has no reader yet.
func waiting(c *cobra.Command) func(path string) {
	return func(path string) { sayTo(c)("waiting for a reader of %s", path) }
}

// writeOutput writes to a new file, or to standard output if path is empty or names it.
func writeOutput(c *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" || isStdout(path) {
		return write(output.UntilStopped(c.Context(), c.OutOrStdout()))
	}
	return output.Write(c.Context(), path, output.Policy{Waiting: waiting(c)}, write)
}

// newRecords makes a new file for records that are written one by one, because measuring them takes long. It takes
// standard output if path is empty or names it. end says whether to keep the file.
func newRecords(c *cobra.Command, path string) (w io.Writer, end func(keep bool) error, err error) {
	if path == "" || isStdout(path) {
		return c.OutOrStdout(), func(bool) error { return nil }, nil
	}
	f, err := output.Grow(c.Context(), path, output.Policy{Waiting: waiting(c)})
	return f, f.End, err
}
