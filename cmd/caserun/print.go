package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/userfile"
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
	return path == stdoutName || path != os.DevNull && report.LeadsTo(path, os.Stdout)
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

// writeOutput writes to a new file, or to standard output if path is empty or names it. A file that could
// not be written whole is removed.
func writeOutput(c *cobra.Command, path string, write func(io.Writer) error) error {
	o, err := newOutput(c, path)
	if err != nil {
		return err
	}
	err = errors.Join(write(untilStopped{c.Context(), o}), o.close())
	if err != nil {
		err = errors.Join(err, o.remove())
	}
	return err
}

// output is where a command writes to.
type output struct {
	io.Writer
	file *os.File // which was made; nil: standard output, or a device
}

// newOutput makes a new file. It takes standard output if path is empty or names it, and a device as it is.
func newOutput(c *cobra.Command, path string) (output, error) {
	if path == "" || isStdout(path) {
		return output{Writer: c.OutOrStdout()}, nil
	}
	if err := userfile.CheckDirectory(path); err != nil {
		return output{}, refusal{fmt.Errorf("write %s: %w", path, err)}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return existing(path)
	case err != nil:
		return output{}, fmt.Errorf("%w: name another file", err)
	}
	return output{f, f}, nil
}

// existing is a device that can be written, such as /dev/null. Anything else that exists is refused.
func existing(path string) (output, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode()&os.ModeCharDevice != 0:
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // which stays open until the program ends
		return output{Writer: f}, err
	case err == nil && !info.Mode().IsRegular():
		return output{}, refuse("%s exists and is not a regular file: name another file", path)
	}
	return output{}, refuse("%s exists: name another file, or remove it first", path)
}

// Write writes all of b, or leaves the file as it was.
func (o output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err == nil || o.file == nil {
		return n, err
	}
	before, back := o.file.Seek(int64(-n), io.SeekCurrent)
	if back == nil {
		back = o.file.Truncate(before)
	}
	return 0, errors.Join(err, back)
}

func (o output) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

func (o output) remove() error {
	if o.file == nil {
		return nil
	}
	return os.Remove(o.file.Name())
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
