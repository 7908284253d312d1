package keeping

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile"
)

// Merge brings the parts of a sweep together in the store out. add: of all sweeps, and also those that out does not have.
func Merge(ctx context.Context, out string, parts []string, add bool, done func(n, all int)) (*report.Table, error) {
	if err := checkMerge(out, parts); err != nil {
		return nil, err
	}
	if !userfile.Absent(out) {
		db, err := harness.OpenStore(out) // runs whose processes died become interrupted
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	merged, err := store.MergeAll(ctx, out, parts, store.Merging{Add: add, Open: bundle.OpenStore}, done)
	if err != nil {
		return nil, Idle(err)
	}
	return report.MergedSweeps(merged, out), nil
}

// checkMerge refuses what can be seen before the parts are read.
func checkMerge(out string, parts []string) error {
	if strings.HasSuffix(out, ".tar.gz") {
		return harness.Refuse(fmt.Errorf("%s has the name of a bundle, and a merge makes a store: name a file such as merged.db; caserun export --bundle makes a bundle of it", out))
	}
	if out == "-" {
		return harness.Refuse(fmt.Errorf("merge into -: a store cannot be standard output: name a file"))
	}
	if err := cmp.Or(userfile.CheckLink(out), userfile.CheckDirectory(out)); err != nil {
		return harness.Refuse(fmt.Errorf("merge into %s: %w", out, err))
	}
	for _, part := range parts {
		if userfile.Absent(part) {
			return fmt.Errorf("part %s: no such file: name the stores or bundles of the parts", part)
		}
	}
	return nil
}
