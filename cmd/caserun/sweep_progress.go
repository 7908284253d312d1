package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/caserun/caserun/results"
)

// sweepProgress shows on stderr how far a sweep is: a line for each live run. Of
// simulated runs, which take milliseconds, it shows a line now and then.
type sweepProgress struct {
	w        io.Writer
	every    time.Duration // least time between lines
	animated bool          // lines replace each other
	times    estimates

	mu         sync.Mutex
	done       int // runs, earlier ones included
	total      int
	began      time.Time
	last       time.Time
	work, left float64 // estimated seconds of what was done since began, and of the rest
}

const simulatedEvery = 2 * time.Second

func newSweepProgress(w io.Writer, mode results.Mode, left []results.Cell, done int, times estimates) *sweepProgress {
	now := time.Now()
	p := &sweepProgress{w: w, done: done, total: done + len(left), began: now, last: now, times: times}
	if mode == results.Simulated {
		p.every, p.animated = simulatedEvery, isTerminal(w)
	}
	if p.animated {
		p.every /= 10
	}
	for _, c := range left {
		p.left += times.of(c).seconds
	}
	return p
}

// ended takes a run that is complete.
func (p *sweepProgress) ended(c results.Cell, run results.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	seconds := p.times.of(c).seconds
	p.work, p.left = p.work+seconds, p.left-seconds
	now := time.Now()
	if now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	if p.animated {
		fmt.Fprintf(p.w, "\r\033[K%s", p.line(c, run, now))
		return
	}
	fmt.Fprintln(p.w, p.line(c, run, now))
}

func (p *sweepProgress) line(c results.Cell, run results.Run, now time.Time) string {
	what := fmt.Sprintf("repetition %d", c.Repetition)
	if c.Warmup {
		what = fmt.Sprintf("warm-up %d", c.Repetition)
	}
	line := fmt.Sprintf("[%d/%d] run %d: %s under %s, %s: %d of %d jobs ok", p.done, p.total, run.ID, c.Mix, c.Scheduler, what,
		run.Metrics.OK, run.Jobs)
	if run.Metrics.MakespanS != nil {
		line += fmt.Sprintf(", makespan %.1f s", *run.Metrics.MakespanS)
	}
	if run.Mode == results.Simulated {
		line += " SIMULATED"
	}
	if p.done < p.total && p.work > 0 {
		left := time.Duration(now.Sub(p.began).Seconds() / p.work * p.left * float64(time.Second))
		line += fmt.Sprintf("; about %s left", left.Round(time.Second))
	}
	return line
}

func (p *sweepProgress) stop() {
	if p.animated {
		fmt.Fprint(p.w, "\r\033[K")
	}
}
