// Package pages writes the page of runs that a user selects: once, or again and again while a sweep makes them.
package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/html"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/results/trend"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile/output"
)

// Wanted is what a user wants on a page.
type Wanted struct {
	Runs   []string // numbers of runs, or latest; empty: all that the filter selects
	Filter store.Filter
	Base   string // scheduler to which ratios are; empty: the default
	Trend  string // metric; empty: the default
}

// Content is what a page has.
type Content struct {
	db         *store.Store
	runs       []results.Run
	base       string
	trend      *trend.Trend
	trendFirst bool
	notes      []string
}

// Read reads what a page has from a store.
func (w Wanted) Read(ctx context.Context, db *store.Store, say harness.Say) (Content, error) {
	c := Content{db: db, base: w.Base, trendFirst: w.Trend != ""}
	named := len(w.Runs) > 0
	var err error
	if c.runs, err = w.read(ctx, db, say); err != nil {
		return c, err
	}
	if c.trend, err = selection.PageTrend(ctx, db, w.Trend, named, w.Filter); err != nil || named { // which leaves out nothing
		return c, err
	}
	c.notes, err = selection.LeftOut(ctx, db, w.Filter)
	return c, err
}

// read reads the runs of the page.
func (w Wanted) read(ctx context.Context, db *store.Store, say harness.Say) ([]results.Run, error) {
	runs, err := selection.Named(ctx, db, w.Runs, w.Filter)
	if err == nil && len(w.Runs) == 0 {
		runs, err = db.Runs(ctx, w.Filter)
	}
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, selection.Nothing("--html: no run of %s is selected", db.Path())
	}
	if n := len(runs); n > html.MaxRuns && w.Trend != "" {
		say("--html: the page shows the last %d of %d runs; its trend is of all", html.MaxRuns, n)
		return runs[n-html.MaxRuns:], nil
	} else if n > html.MaxRuns {
		return nil, selection.Refuse("--html: %d runs are selected and a page takes %d: name some, or narrow them with --sweep, --mix, --tag or --last", n, html.MaxRuns)
	}
	return runs, nil
}

// Write writes the page. unfinished is nil unless more runs are to come.
func (c Content) Write(ctx context.Context, w io.Writer, unfinished *html.Unfinished) error {
	version, _ := harness.Version()
	return html.Write(ctx, w, c.db, c.runs, html.Options{Store: filepath.Base(c.db.Path()), Generator: version, Base: c.base, Trend: c.trend, TrendFirst: c.trendFirst, Notes: c.notes, Unfinished: unfinished})
}

// Policy takes an earlier page's place.
func Policy(waiting func(path string)) output.Policy {
	return output.Policy{Own: &html.File, Waiting: waiting}
}

// fewBytes must fit on the disk before the first run. It is less than any page has.
const fewBytes = 16 << 10

// check refuses a path to which no page can be written as runs end.
func check(ctx context.Context, path, db string) (err error) {
	if output.IsStream(path) {
		return selection.Refuse("--html %s: the page is written again and again: name a regular file", path)
	}
	if err := harness.SpareStore(db, path); err != nil {
		return err
	}
	f, err := output.Create(ctx, path, Policy(nil))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Discard()) }()
	if _, err := f.Write(make([]byte, fewBytes)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
