// Package display is what a user sees while a command works: messages, and how far runs, sweeps and files are.
package display

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
)

// Messages is standard error. Names of jobs and files, and the words of programs, cannot move a
// terminal's cursor in it, nor turn its text around. A message takes the terminal's line from the
// progress that is shown there.
type Messages struct {
	w io.Writer

	mu       sync.Mutex
	progress bool // the line has some
}

// NewMessages writes messages to w.
func NewMessages(w io.Writer) *Messages { return &Messages{w: w} }

// Say writes lines of the program to w.
func Say(w io.Writer) harness.Say {
	return func(format string, args ...any) { fmt.Fprintf(w, "caserun: "+format+"\n", args...) }
}

// clearLine moves a terminal's cursor to the begin of its line and empties the line.
const clearLine = "\r\x1b[K"

func (m *Messages) Write(text []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.clear(); err != nil {
		return 0, err
	}
	var lines strings.Builder
	for line := range strings.Lines(string(text)) {
		lines.WriteString(report.Printable(shorten(line), "\n\t"))
	}
	if _, err := io.WriteString(m.w, lines.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// lineBegin and lineEnd are how much of a long line is shown. A message quotes what a user wrote, which may be
// megabytes, and says before it where that is, and after it what to do.
const lineBegin, lineEnd = 800, 400

// shorten takes the middle out of a long line.
func shorten(line string) string {
	cut := len(line) - lineBegin - lineEnd
	if cut < lineEnd { // as it is
		return line
	}
	valid := func(text string) string { return strings.ToValidUTF8(text, "") } // letters are not cut
	return fmt.Sprintf("%s … [%d bytes left out] … %s", valid(line[:lineBegin]), cut, valid(line[lineBegin+cut:]))
}

// clear ends the progress of a line. The lock is held.
func (m *Messages) clear() (err error) {
	if m.progress {
		_, err = io.WriteString(m.w, clearLine)
	}
	m.progress = false
	return err
}

// End leaves an empty line to whoever uses the terminal next. Nothing is written after it.
func (m *Messages) End() {
	m.mu.Lock() // for ever
	_ = m.clear()
}

// redraw replaces a terminal's line by progress, or by nothing.
func redraw(w io.Writer, line string) {
	text := clearLine + fit(report.Printable(line, ""), Columns(w))
	if m, ok := w.(*Messages); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.progress = line != ""
		w = m.w
	}
	_, _ = io.WriteString(w, text) // a line that is lost is not a result
}

// Output is standard output. It keeps the first error, because what writes help and versions looks for none.
type Output struct {
	w io.Writer

	mu  sync.Mutex
	err error
}

// NewOutput writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

func (p *Output) Write(text []byte) (int, error) {
	n, err := p.w.Write(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// Err is the error of what could not be written.
func (p *Output) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// IsTerminal reports whether w is a terminal that may be redrawn.
func IsTerminal(w io.Writer) bool {
	f, ok := underlying(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Columns is the width of the terminal that w is, 0 if it is not one or has no known width.
func Columns(w io.Writer) int {
	f, ok := underlying(w).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// underlying is what messages, or what is printed, are written to.
func underlying(w io.Writer) io.Writer {
	switch outer := w.(type) {
	case *Messages:
		return outer.w
	case *Output:
		return outer.w
	}
	return w
}

// echo is what a terminal adds to a line at Ctrl-C.
const echo = "^C"

// fit is a line that leaves room for the echo and the cursor in its row: a line that wraps would
// leave its first rows behind the next time. 0 columns mean no limit.
func fit(line string, columns int) string {
	room := max(0, columns-len(echo)-1)
	if runes := []rune(line); columns > 0 && len(runes) > room {
		return string(runes[:room])
	}
	return line
}
