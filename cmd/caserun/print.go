package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/userfile/output"
)

// render prints tables in a format, with an empty line between. In json several tables are one
// array.
func render(c *cobra.Command, format string, tables ...*report.Table) error {
	f, err := report.ParseFormat(format)
	if err != nil {
		return err
	}
	begin, between, end := "", "\n", ""
	if f == report.JSON && len(tables) > 1 {
		begin, between, end = "[\n", ",\n", "]\n"
	}
	w := c.OutOrStdout()
	wide, _ := c.Flags().GetBool("verbose")
	fmt.Fprint(w, begin)
	for i, t := range tables {
		if i > 0 {
			fmt.Fprint(w, between)
		}
		if err := t.Render(w, f, report.Options{Color: isTerminal(w) && os.Getenv("NO_COLOR") == "", Wide: wide, Columns: columns(w)}); err != nil {
			return fmt.Errorf("print table: %w", err)
		}
	}
	fmt.Fprint(w, end)
	return nil
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
	if f := report.Format(format); f != report.CSV && f != report.JSON {
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

// isTerminal reports whether w is a terminal that may be redrawn.
func isTerminal(w io.Writer) bool {
	f, ok := behind(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// columns is the width of the terminal that w is, 0 if it is not one or has no known width.
func columns(w io.Writer) int {
	f, ok := behind(w).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// waiting says that a FIFO has no reader yet.
func waiting(c *cobra.Command) func(path string) {
	return func(path string) { sayTo(c)("waiting for a reader of %s", path) }
}

// writeOutput writes to a new file, or to standard output if path is empty or names it.
func writeOutput(c *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" || isStdout(path) {
		return write(untilStopped{c.Context(), c.OutOrStdout()})
	}
	return output.Write(c.Context(), path, output.Policy{Waiting: waiting(c)}, write)
}

// records is a file to which whole records are written one by one. It has its name from the begin, because measuring them
// takes long.
type records struct {
	io.Writer
	file output.Growing // none: standard output
}

// newRecords makes a new file. It takes standard output if path is empty or names it.
func newRecords(c *cobra.Command, path string) (records, error) {
	if path == "" || isStdout(path) {
		return records{Writer: c.OutOrStdout()}, nil
	}
	f, err := output.Grow(c.Context(), path, output.Policy{Waiting: waiting(c)})
	return records{f, f}, err
}

// Write writes all of b, or leaves the file as it was.
func (r records) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	if err == nil || !r.file.Made {
		return n, err
	}
	before, back := r.file.Seek(int64(-n), io.SeekCurrent)
	if back == nil {
		back = r.file.Truncate(before)
	}
	return 0, errors.Join(err, back)
}

func (r records) close() error {
	if r.file.File == nil {
		return nil
	}
	return r.file.Close()
}

// remove removes the file if it was made.
func (r records) remove() error {
	if !r.file.Made {
		return nil
	}
	return os.Remove(r.file.Name())
}

// untilStopped is a writer that fails once the program is to stop.
type untilStopped struct {
	ctx context.Context
	w   io.Writer
}

func (u untilStopped) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.w.Write(p)
}
