package main

import (
	"io"
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
	if _, err := io.WriteString(m.w, report.Printable(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
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

// behind is what messages are written to.
func behind(w io.Writer) io.Writer {
	if m, ok := w.(*messages); ok {
		return m.w
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
