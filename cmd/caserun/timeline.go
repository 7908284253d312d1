package main

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/perfetto"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
)

// mostTraced is the most runs that one trace shows: each has a group of tracks for each job.
const mostTraced = 16

// writeTrace does the export for ui.perfetto.dev.
func (o exportOptions) writeTrace(ctx context.Context, db *store.Store, f store.Filter, w, stderr io.Writer, say harness.Say) (err error) {
	runs, err := db.Runs(ctx, f)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Mode == results.Live && !r.Traced {
			say("run %d was not traced: its timeline has no kernels and copies, which caserun mix --trace records", r.ID)
		}
	}
	if strings.HasSuffix(o.perfetto, ".gz") {
		compressed := gzip.NewWriter(w)
		defer func() { err = errors.Join(err, compressed.Close()) }()
		w = compressed
	}
	all := perfetto.Records(runs)
	progress := newRecordProgress(stderr, "kernels and copies written", time.Now())
	defer progress.stop()
	return perfetto.Write(ctx, db, untilStopped{ctx, w}, runs, func(n int64) { progress.done(n, all, time.Now()) })
}
