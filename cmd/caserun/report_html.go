package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/html"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/userfile"
)

// reportHTML writes the runs that args name, or all that the filter selects, as
// one page and prints the page's path; - is standard output.
func reportHTML(c *cobra.Command, db *store.Store, args []string, selected store.Filter, path string) error {
	ctx := c.Context()
	if !isStdout(path) {
		if err := report.CheckTargets([]string{path}, nil, true); err != nil {
			return usageError(err)
		}
	}
	runs, err := namedRuns(ctx, db, args, selected)
	if err != nil {
		return err
	}
	switch {
	case len(runs) == 0:
		return withStatus(exitNothing, fmt.Errorf("--html: no run of %s is selected", db.Path()))
	case len(runs) > html.MaxRuns:
		return usageError(fmt.Errorf("--html: %d runs are selected and a page takes %d: name some, or narrow them with --sweep, --mix, --tag or --last", len(runs), html.MaxRuns))
	}
	version, _ := buildVersion()
	write := func(w io.Writer) error {
		return html.Write(ctx, w, db, runs, html.Options{Store: filepath.Base(db.Path()), Generator: version})
	}
	if isStdout(path) {
		return infrastructureError(write(c.OutOrStdout()))
	}
	err = writePage(ctx, path, write)
	if errors.Is(err, errNoPage) {
		return usageError(err)
	}
	if err != nil {
		return infrastructureError(err)
	}
	fmt.Fprintln(c.OutOrStdout(), path)
	return nil
}

// namedRuns are the runs of the arguments, each once, or without any those of
// the filter.
func namedRuns(ctx context.Context, db *store.Store, args []string, selected store.Filter) ([]results.Run, error) {
	if len(args) == 0 {
		runs, err := db.Runs(ctx, selected)
		return runs, infrastructureError(err)
	}
	var runs []results.Run
	seen := map[int64]bool{}
	for _, arg := range args {
		run, err := findRun(ctx, db, arg, selected)
		if err != nil {
			return nil, err
		}
		if !seen[run.ID] {
			seen[run.ID] = true
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// writePage puts a page in place as a whole. It replaces an earlier page, and no
// file that is something else.
func writePage(ctx context.Context, path string, write func(io.Writer) error) error {
	if err := mayReplace(path); err != nil {
		return err
	}
	return report.WriteFile(ctx, path, true, write)
}

var errNoPage = errors.New("it exists and is no page of caserun report")

func mayReplace(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil // it is written as it is, and holds no earlier page
	}
	f, err := userfile.Open(path, userfile.Devices)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer f.Close()
	start := make([]byte, len(html.Mark))
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if n > 0 && !bytes.Equal(start, []byte(html.Mark)) {
		return fmt.Errorf("write %s: %w: choose another name or remove it", path, errNoPage)
	}
	return nil
}
