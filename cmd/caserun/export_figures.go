package main

import (
	"context"
	"fmt"
	"io"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/store"
)

// bundleFigures writes what caserun paper makes of all runs of a bundle's store.
// Runs that the paper has no counterpart of make no figures, and stderr says so.
// PDF files would hold fonts of 200 kB each, and the time of day.
func bundleFigures(stderr io.Writer) func(context.Context, *store.Store, string) error {
	return func(ctx context.Context, db *store.Store, dir string) error {
		runs, err := db.Runs(ctx, store.Filter{Status: results.Complete})
		if err != nil {
			return err
		}
		nodes, err := nodesOf(ctx, db, runs, nil, paperOptions{})
		if err != nil {
			fmt.Fprintf(stderr, "caserun: the bundle has no figures of the paper: %v\n", err)
			return nil
		}
		page, err := paper.Build(nodes)
		if err != nil {
			fmt.Fprintf(stderr, "caserun: the bundle has no figures of the paper: %v\n", err)
			return nil
		}
		if page.Measured() == 0 {
			return nil
		}
		return writePaper(ctx, page, dir, false, figures.SVG, figures.PNG)
	}
}
