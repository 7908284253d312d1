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
	jobs     int           // runs at once
	forecast *forecast

	mu    sync.Mutex
	done  int // runs, earlier ones included
	total int
	last  time.Time
	left  map[[2]string]int // runs that are not done, by arm
}

const simulatedEvery = 2 * time.Second

func newSweepProgress(w io.Writer, left []results.Cell, done, jobs int, f *forecast, now time.Time) *sweepProgress {
	p := &sweepProgress{w: w, done: done, total: done + len(left), jobs: jobs, last: now, forecast: f, left: map[[2]string]int{}}
	if f.mode == results.Simulated {
		p.every, p.animated = simulatedEvery, isTerminal(w)
	}
	if p.animated {
		p.every /= 10
	}
	for _, c := range left {
		p.left[armOf(c)]++
	}
	return p
}

// ended takes a run that is complete.
func (p *sweepProgress) ended(c results.Cell, run results.Run, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.left[armOf(c)]--
	if now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	if p.animated {
		redraw(p.w, p.line(c, run))
		return
	}
	fmt.Fprintln(p.w, p.line(c, run))
}

// line has first what a narrow terminal must not cut off.
func (p *sweepProgress) line(c results.Cell, run results.Run) string {
	line := fmt.Sprintf("[%d/%d] ", p.done, p.total)
	if run.Mode == results.Simulated {
		line += "SIMULATED; "
	}
	if p.done < p.total {
		var left time.Duration
		for arm, runs := range p.left {
			left += time.Duration(runs) * p.forecast.of(arm).duration()
		}
		line += fmt.Sprintf("about %s left; ", (left / time.Duration(p.jobs)).Round(time.Second))
	}
	what := fmt.Sprintf("repetition %d", c.Repetition)
	if c.Warmup {
		what = fmt.Sprintf("warm-up %d", c.Repetition)
	}
	line += fmt.Sprintf("run %d: %s under %s, %s: %d of %d jobs ok", run.ID, c.Mix, c.Scheduler, what,
		run.Metrics.OK, run.Jobs)
	if run.Metrics.MakespanS != nil {
		line += fmt.Sprintf(", makespan %.1f s", *run.Metrics.MakespanS)
	}
	return line
}

func (p *sweepProgress) stop() {
	if p.animated {
		redraw(p.w, "")
	}
}
