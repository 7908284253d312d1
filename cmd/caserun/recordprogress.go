package main

import (
	"fmt"
	"io"
	"time"
)

// recordProgress shows on stderr how much of an export is done, once that takes more than a
// second.
type recordProgress struct {
	w        io.Writer
	what     string
	animated bool
	next     time.Time // of the next line
	shown    bool
}

func newRecordProgress(w io.Writer, what string, now time.Time) *recordProgress {
	return &recordProgress{w: w, what: what, animated: isTerminal(w), next: now.Add(time.Second)}
}

// done shows how many of all records are done. all is 0 where it is unknown.
func (p *recordProgress) done(n, all int64, now time.Time) {
	if now.Before(p.next) {
		return
	}
	line := fmt.Sprintf("%s: %d", p.what, n)
	if all > 0 {
		line += fmt.Sprintf(" of %d (%d %%)", all, 100*n/max(n, all))
	}
	p.shown = true
	if p.animated {
		p.next = now.Add(200 * time.Millisecond)
		redraw(p.w, line)
		return
	}
	p.next = now.Add(10 * time.Second)
	fmt.Fprintln(p.w, line)
}

// stop clears a terminal's line.
func (p *recordProgress) stop() {
	if p.animated && p.shown {
		redraw(p.w, "")
	}
}
