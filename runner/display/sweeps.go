package display

import (
	"fmt"
	"io"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/sweep"
)

// Sweep shows on stderr how far a sweep is: a line for each live run. Of simulated runs,
// which take milliseconds, it shows a line now and then. It is a sweep.Display.
type Sweep struct {
	w     io.Writer
	line  Line
	say   harness.Say   // what is doubtful about a run, once where several runs have the same
	every time.Duration // least time between lines
	last  time.Time
}

const simulatedEvery = 2 * time.Second

// NewSweep shows a sweep that begins now.
func NewSweep(w io.Writer, mode results.Mode, now time.Time) *Sweep {
	s := &Sweep{w: w, line: Line{w: w}, say: Say(w).Once(), last: now}
	if mode == results.Simulated {
		s.line, s.every = NewLine(w), simulatedEvery
	}
	if s.line.Animated {
		s.every /= 10
	}
	return s
}

var _ sweep.Display = (*Sweep)(nil)

func (s *Sweep) Ended(c results.Cell, run results.Run, at *sweep.Progress, now time.Time) {
	if now.Sub(s.last) < s.every {
		return
	}
	s.last = now
	s.line.Show(sweepLine(c, at.Names.Scheduler(results.ArmOf(run)), run, at.Done, at.Total, at.Left))
}

// sweepLine says which run has ended and how far the sweep is. What a narrow terminal must not
// cut off comes first.
func sweepLine(c results.Cell, arm string, run results.Run, done, total int, left func() time.Duration) string {
	line := fmt.Sprintf("[%d/%d] ", done, total)
	if run.Mode == results.Simulated {
		line += "SIMULATED; "
	}
	if done < total {
		line += fmt.Sprintf("about %s left; ", left().Round(time.Second))
	}
	what := fmt.Sprintf("repetition %d", c.Repetition)
	if c.Warmup {
		what = fmt.Sprintf("warm-up %d", c.Repetition)
	}
	line += fmt.Sprintf("run %d: %s under %s, %s: %d of %d jobs ok", run.ID, c.Mix, arm, what,
		run.Metrics.OK, run.Jobs)
	if run.Metrics.MakespanS != nil {
		line += fmt.Sprintf(", makespan %.1f s", *run.Metrics.MakespanS)
	}
	return line
}

// Run is silent off a terminal, where the line of the sweep's run is enough.
func (s *Sweep) Run(m mixes.Mix, mode results.Mode, known profiles.Set) harness.Display {
	run := NewRun(s.w, m, mode, known)
	run.silent = run.silent || !run.animated
	run.say = func(format string, args ...any) { s.say("%s: %s", m.Name, fmt.Sprintf(format, args...)) }
	return run
}

func (s *Sweep) Stop() { s.line.Clear() }
