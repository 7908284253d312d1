package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// progress shows a live run on stderr: one line that is redrawn on a terminal,
// a line for each job that ends elsewhere. A simulated run is over before a
// reader could follow it, and shows none.
type progress struct {
	w        io.Writer
	animated bool
	silent   bool
	shared   bool      // jobs share an MPS server, so that the outcome of a fault is not settled before the end
	weights  []float64 // expected seconds of each job alone, 1 where unknown

	mu     sync.Mutex
	jobs   []results.Job
	began  time.Time
	ticker *time.Ticker
	done   chan struct{}
	ended  sync.WaitGroup
}

func newProgress(w io.Writer, mix mixes.Mix, mode results.Mode, known profiles.Set) *progress {
	p := &progress{w: w, animated: isTerminal(w), silent: mode == results.Simulated,
		jobs: make([]results.Job, len(mix.Jobs)), done: make(chan struct{})}
	for _, j := range mix.Jobs {
		weight := 1.0
		if profile, err := known.Lookup(j); err == nil {
			weight = profile.WallS()
		}
		p.weights = append(p.weights, weight)
	}
	return p
}

// isTerminal reports whether w is a terminal that may be redrawn.
func isTerminal(w io.Writer) bool {
	f, ok := behind(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// behind is what messages are written to.
func behind(w io.Writer) io.Writer {
	if m, ok := w.(messages); ok {
		return m.w
	}
	return w
}

// redraw replaces a terminal's line. One that wraps would leave its first rows
// behind the next time.
func redraw(w io.Writer, line string) {
	width := 0
	w = behind(w)
	if f, ok := w.(*os.File); ok {
		width, _, _ = term.GetSize(int(f.Fd())) // 0 where it is unknown
	}
	fmt.Fprintf(w, "\r\033[K%s", fit(report.Printable(line, ""), width))
}

// fit is a line with fewer characters than a terminal has columns, so that the
// cursor stays in its row. 0 columns are no limit.
func fit(line string, columns int) string {
	if runes := []rune(line); columns > 0 && len(runes) >= columns {
		return string(runes[:columns-1])
	}
	return line
}

func (p *progress) start() {
	p.began = time.Now()
	if p.silent || !p.animated {
		return
	}
	p.ticker = time.NewTicker(200 * time.Millisecond)
	p.ended.Go(func() {
		for {
			select {
			case <-p.ticker.C:
				p.mu.Lock()
				redraw(p.w, p.line())
				p.mu.Unlock()
			case <-p.done:
				return
			}
		}
	})
}

func (p *progress) stop() {
	close(p.done)
	p.ended.Wait()
	if p.ticker != nil {
		p.ticker.Stop()
		redraw(p.w, "")
	}
}

// job takes a job's new state.
func (p *progress) job(j results.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.jobs[j.Index]
	p.jobs[j.Index] = j
	if p.silent || p.animated || j.Outcome == nil || before.Outcome != nil {
		return
	}
	where := ""
	if j.Device != nil {
		where = fmt.Sprintf(" on GPU %d", *j.Device)
	}
	how := string(*j.Outcome)
	if *j.Outcome == results.Fault && p.shared { // whose it was is settled when all is known
		how = "a CUDA error took it down"
	}
	fmt.Fprintf(p.w, "job %d (%s)%s: %s; %s\n", j.Index, j.Name, where, how, p.line())
}

// event says at once what makes a measurement doubtful, or may keep it from its end.
func (p *progress) event(e results.Event) {
	if e.Kind != results.EventUnscheduled && e.Kind != results.EventNoProgress {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.animated {
		redraw(p.w, "")
	}
	who := ""
	if e.Job != nil {
		who = fmt.Sprintf("job %d (%s): ", *e.Job, p.jobs[*e.Job].Name)
	}
	fmt.Fprintf(p.w, "caserun: %s%s\n", who, e.Detail)
}

// line is the state of the batch: who waits, runs where, has ended, and how
// long the rest may take.
func (p *progress) line() string {
	var waiting, ended, failed int
	running := map[int]int{} // by device, -1 where it has none yet
	work, left := 0.0, 0.0
	elapsed := time.Since(p.began).Seconds()
	for i, j := range p.jobs {
		switch {
		case j.Outcome != nil:
			ended++
			if *j.Outcome != results.OK {
				failed++
			}
			work += p.weights[i]
		case j.StartS != nil:
			device := -1
			if j.Device != nil {
				device = *j.Device
			}
			running[device]++
			done := min(elapsed-*j.StartS, 0.9*p.weights[i])
			work += done
			left += p.weights[i] - done
		default:
			waiting++
			left += p.weights[i]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d ended", ended, len(p.jobs))
	if failed > 0 {
		fmt.Fprintf(&b, " (%d failed)", failed)
	}
	if ended > 0 && left > 0 && work > 0 {
		fmt.Fprintf(&b, ", about %s left", time.Duration(left*elapsed/work*float64(time.Second)).Round(time.Second))
	}
	fmt.Fprintf(&b, ", %d not started, running:", waiting)
	for _, device := range slices.Sorted(maps.Keys(running)) {
		if device < 0 {
			fmt.Fprintf(&b, " %d without GPU", running[device])
		} else {
			fmt.Fprintf(&b, " GPU%d×%d", device, running[device])
		}
	}
	return b.String()
}
