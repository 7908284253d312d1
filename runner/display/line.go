package display

import (
	"fmt"
	"io"
	"time"
)

// Line is progress in one line, which a terminal redraws. Elsewhere each has a line of its own.
type Line struct {
	w        io.Writer
	Animated bool // on a terminal
	shown    bool
}

// NewLine shows progress on w.
func NewLine(w io.Writer) Line { return Line{w: w, Animated: IsTerminal(w)} }

// Show replaces what the line has.
func (l *Line) Show(text string) {
	l.shown = true
	if l.Animated {
		redraw(l.w, text)
		return
	}
	fmt.Fprintln(l.w, text)
}

// Clear empties a terminal's line.
func (l *Line) Clear() {
	if l.Animated && l.shown {
		redraw(l.w, "")
	}
}

// Records shows how many records of an export are written, once that takes more than a second.
type Records struct {
	line Line
	what string
	next time.Time // of the next line
}

// NewRecords shows what is written from now on.
func NewRecords(w io.Writer, what string, now time.Time) *Records {
	return &Records{line: NewLine(w), what: what, next: now.Add(time.Second)}
}

// Done shows how many of all records are written. all is 0 where it is unknown.
func (r *Records) Done(n, all int64, now time.Time) {
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(10 * time.Second)
	if r.line.Animated {
		r.next = now.Add(200 * time.Millisecond)
	}
	text := fmt.Sprintf("%s: %d", r.what, n)
	if all > 0 {
		text += fmt.Sprintf(" of %d (%d %%)", all, 100*n/max(n, all))
	}
	r.line.Show(text)
}

// Stop clears a terminal's line.
func (r *Records) Stop() { r.line.Clear() }

// Percent shows on a terminal how much of something is done; nil elsewhere.
func Percent(w io.Writer, what string) func(done, total int) {
	line := NewLine(w)
	if !line.Animated {
		return nil
	}
	return func(done, total int) {
		line.Show(fmt.Sprintf("%s: %d %%", what, 100*int64(done)/int64(total)))
		if done == total {
			line.Clear()
		}
	}
}
