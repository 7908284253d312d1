package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/caserun/caserun/results/report"
)

// messages is standard error. Names of jobs and files, and the words of programs, cannot move a
// terminal's cursor in it, nor turn its text around. A message takes the terminal's line from the
// progress that is shown there.
type messages struct {
	w io.Writer

	mu       sync.Mutex
	progress bool // the line has some
}

// clearLine moves a terminal's cursor to the begin of its line and empties the line.
const clearLine = "\r\x1b[K"

func (m *messages) Write(text []byte) (int, error) {
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
func (m *messages) clear() (err error) {
	if m.progress {
		_, err = io.WriteString(m.w, clearLine)
	}
	m.progress = false
	return err
}

// end leaves an empty line to whoever uses the terminal next. Nothing is written after it.
func (m *messages) end() {
	m.mu.Lock() // for ever
	_ = m.clear()
}

// redraw replaces a terminal's line by progress, or by nothing.
func redraw(w io.Writer, line string) {
	text := clearLine + fit(report.Printable(line, ""), columns(w))
	if m, ok := w.(*messages); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.progress = line != ""
		w = m.w
	}
	_, _ = io.WriteString(w, text) // a line that is lost is not a result
}

// printed is standard output. It keeps the first error, because what writes help and versions looks for none.
type printed struct {
	w io.Writer

	mu  sync.Mutex
	err error
}

func (p *printed) Write(text []byte) (int, error) {
	n, err := p.w.Write(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// failed is the error of what could not be written.
func (p *printed) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return workError{fmt.Errorf("what was to be printed is lost: %w", p.err)}
}

// behind is what messages, or what is printed, are written to.
func behind(w io.Writer) io.Writer {
	switch outer := w.(type) {
	case *messages:
		return outer.w
	case *printed:
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
