package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/store"
)

// bundleFigures writes what caserun paper makes of all runs of a bundle's store.
// Runs that the paper has no counterpart of make no figures, and stderr says so.
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
		if err := writePaper(io.Discard, page, dir); err != nil {
			return err
		}
		return undate(dir)
	}
}

// dated is where PDF files hold the time of day.
var dated = regexp.MustCompile(`/(CreationDate|ModDate) \(D:\d{14}\)`)

// undate takes the time of day out of PDF files, so that equal runs make equal
// bundles. Offsets within the files stay as they are.
func undate(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.pdf"))
	if err != nil {
		return err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = dated.ReplaceAll(text, []byte("/$1 (D:19700101000000)"))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
