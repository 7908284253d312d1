package pages

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/html"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile/output"
)

// The page is written at most once in leastPause, and takes at most the share 1/mostShare of the time.
const (
	leastPause = 5 * time.Second
	mostShare  = 10
)

// Growing is the page of runs that are being made. After Open its errors are warnings, because the runs matter more.
type Growing struct {
	db     *store.Store
	path   string
	wanted Wanted
	mode   results.Mode
	say    harness.Say

	ctx  context.Context // of the pages before the last; it outlives an interruption
	stop context.CancelFunc
	wake chan struct{}
	idle chan struct{} // closed once the goroutine has ended

	now   func() time.Time
	after func(time.Duration) <-chan time.Time

	next time.Time // of live runs: no page before it
	told bool      // a warning

	mu sync.Mutex // of what follows
	at html.Unfinished
}

// Open checks, before the first run, that a page of so many runs can be written to path, which is from --html. The store
// must exist, so that it can be spared.
func Open(ctx context.Context, path string, db *store.Store, runs int, say harness.Say) (*Growing, error) {
	if runs > html.MaxRuns {
		return nil, selection.Refuse("--html: the sweep has %d runs and a page takes %d: omit --html, and write pages of some mixes with caserun report --sweep NUMBER --mix MIX --html FILE", runs, html.MaxRuns)
	}
	if err := check(ctx, path, db.Path()); err != nil {
		return nil, err
	}
	return &Growing{db: db, path: path, say: say, now: time.Now, after: time.After}, nil
}

// Watch begins the page of runs that are made in a mode. Close must be called.
//
// A live run must not share the processor, because the clock measures it. So its page is written before the next run
// begins. Simulated runs have a clock of their own, and their page is written beside them.
func (g *Growing) Watch(ctx context.Context, wanted Wanted, mode results.Mode) {
	g.wanted, g.mode = wanted, mode
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.wake, g.idle = make(chan struct{}, 1), make(chan struct{})
	if mode == results.Live {
		close(g.idle)
	} else {
		go g.follow()
	}
}

// Ended takes that a run has ended, and how many have.
func (g *Growing) Ended(done, total int) {
	g.mu.Lock()
	g.at = html.Unfinished{Done: done, Total: total, Reloads: true}
	g.mu.Unlock()
	if done == total {
		return // Close writes the page
	}
	if g.mode != results.Live {
		select {
		case g.wake <- struct{}{}:
		default: // the goroutine has not seen the run before this one either
		}
		return
	}
	if !g.now().Before(g.next) {
		pause := g.refresh()
		g.next = g.now().Add(pause)
	}
}

// follow writes the page when runs have ended, until Close.
func (g *Growing) follow() {
	defer close(g.idle)
	for {
		select {
		case <-g.wake:
		case <-g.ctx.Done():
			return
		}
		select {
		case <-g.after(g.refresh()):
		case <-g.ctx.Done():
			return
		}
	}
}

// refresh writes the page of unfinished runs, and returns for how long it then stays.
func (g *Growing) refresh() time.Duration {
	began := g.now()
	g.mu.Lock()
	at := g.at
	g.mu.Unlock()
	at.Written = began
	g.Write(g.ctx, g.wanted, &at)
	return max(leastPause, mostShare*g.now().Sub(began))
}

// Close writes the last page: with all runs, or with those that were done if the command was stopped. No more runs may
// be under way. If no run was begun, the file stays as it was.
func (g *Growing) Close(done, total int) {
	g.stop()
	<-g.idle
	var unfinished *html.Unfinished
	if done < total {
		unfinished = &html.Unfinished{Done: done, Total: total, Written: g.now()}
	}
	g.Write(context.WithoutCancel(g.ctx), g.wanted, unfinished)
}

// Write writes the page, or warns once. unfinished is nil unless more runs are to come. The end of ctx leaves the earlier page.
func (g *Growing) Write(ctx context.Context, wanted Wanted, unfinished *html.Unfinished) {
	err := g.try(ctx, wanted, unfinished)
	if err == nil || ctx.Err() != nil || g.told {
		return
	}
	g.told = true
	g.say("--html: %v; the runs do not stop for it, and caserun report --html writes the page later", err)
}

func (g *Growing) try(ctx context.Context, wanted Wanted, unfinished *html.Unfinished) error {
	c, err := wanted.Read(ctx, g.db, g.say)
	if nothing := (*selection.NothingError)(nil); errors.As(err, &nothing) {
		return nil // no run has begun
	}
	if err != nil {
		return err
	}
	return output.Write(ctx, g.path, Policy(nil), func(w io.Writer) error { return c.Write(ctx, w, unfinished) })
}
