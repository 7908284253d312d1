package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
)

// sideHelp says what a side of a comparison may be.
const sideHelp = `  12                  run 12
  sweep:3             the runs of sweep 3; latest means the last sweep
  nightly-2026-11-21  the runs with this tag; or tag:nightly-2026-11-21
  sweep:3/case-alg3   those under one scheduler, of a sweep or a tag; parameters
                      may follow, as in latest/case-alg3:queue=fifo`

func sideError(text string) error {
	return usageError(fmt.Errorf("%q: want the number of a run, sweep:N, latest, or tag:TEXT", text))
}

// selectSide finds the runs that text names. A number that does not exist is an
// error, a tag without runs is a side without runs.
func selectSide(ctx context.Context, db *store.Store, text string) (regress.Side, error) {
	side := regress.Side{Label: text}
	if id, err := strconv.ParseInt(text, 10, 64); err == nil {
		run, err := db.Run(ctx, id)
		if err != nil {
			return side, notFound(err)
		}
		side.Label = "run " + text
		return observe(ctx, db, side, store.Filter{IDs: []int64{id}, Warmups: run.Warmup}, "")
	}
	if tag, explicit := strings.CutPrefix(text, "tag:"); explicit || text != "latest" && !strings.HasPrefix(text, "sweep:") && !strings.HasPrefix(text, "latest/") {
		return selectTag(ctx, db, side, tag)
	}
	name, scheduler, _ := strings.Cut(text, "/")
	var sweep results.Sweep
	var err error
	if number := strings.TrimPrefix(name, "sweep:"); number == "latest" {
		sweep, err = db.LatestSweep(ctx)
		side.Label = fmt.Sprintf("sweep:%d", sweep.ID)
		if scheduler != "" {
			side.Label += "/" + scheduler
		}
	} else {
		id, parseErr := strconv.ParseInt(number, 10, 64)
		if parseErr != nil {
			return side, sideError(text)
		}
		sweep, err = db.Sweep(ctx, id)
	}
	if err != nil {
		return side, notFound(err)
	}
	if sweep.Status != results.Complete {
		side.Notes = append(side.Notes, fmt.Sprintf("sweep %d is %s: some of its runs are missing", sweep.ID, sweep.Status))
	}
	if sweep.Note != "" {
		side.Notes = append(side.Notes, fmt.Sprintf("sweep %d: %s", sweep.ID, sweep.Note))
	}
	return observe(ctx, db, side, store.Filter{Sweep: sweep.ID}, scheduler)
}

// selectTag takes what is behind the last slash as a scheduler where no run has
// the whole as its tag.
func selectTag(ctx context.Context, db *store.Store, side regress.Side, tag string) (regress.Side, error) {
	whole, err := observe(ctx, db, side, store.Filter{Tag: tag}, "")
	at := strings.LastIndex(tag, "/")
	if err != nil || len(whole.Runs) > 0 || at < 0 {
		return whole, err
	}
	return observe(ctx, db, side, store.Filter{Tag: tag[:at]}, tag[at+1:])
}

// observe reads the selected runs, if need be only those under a scheduler, with
// what their comparison needs.
func observe(ctx context.Context, db *store.Store, side regress.Side, f store.Filter, scheduler string) (regress.Side, error) {
	if f.Sweep == 0 && f.Tag == "" && len(f.IDs) == 0 {
		return side, sideError(side.Label)
	}
	runs, err := db.Runs(ctx, f)
	if err != nil {
		return side, infrastructureError(err)
	}
	devices, err := db.DevicesOf(ctx, f)
	if err != nil {
		return side, infrastructureError(err)
	}
	slowdowns, err := kernelSlowdowns(ctx, db, runs)
	if err != nil {
		return side, infrastructureError(err)
	}
	for _, r := range runs {
		if scheduler == "" || isUnder(r, scheduler) {
			side.Runs = append(side.Runs, regress.Observation{Run: r, Devices: devices[r.ID], Slowdown: slowdowns[r.ID]})
		}
	}
	return side, nil
}

// isUnder reports whether a run is under a scheduler as the user wrote it: with
// all parameters that are named.
func isUnder(r results.Run, scheduler string) bool {
	name, parameters, _ := strings.Cut(scheduler, ":")
	if r.Scheduler != name {
		return false
	}
	has := strings.Split(r.Parameters, ",")
	for p := range strings.SplitSeq(parameters, ",") {
		if p != "" && !slices.Contains(has, p) {
			return false
		}
	}
	return true
}

// kernelSlowdowns gives the kernel slowdown of each traced run against those of
// the same mix and node under sa, pooled.
func kernelSlowdowns(ctx context.Context, db *store.Store, runs []results.Run) (map[int64]*float64, error) {
	type batch struct {
		mix, node string
		jobs      int
	}
	of := func(r results.Run) batch { return batch{r.Mix, r.Node, r.Jobs} }
	usable := func(r results.Run) bool { return r.Traced && r.Status == results.Complete }
	alone := map[batch]results.Traced{}
	for _, r := range runs {
		if !usable(r) || r.Scheduler != "sa" {
			continue
		}
		more, err := traced(ctx, db, r.ID)
		if err != nil {
			return nil, err
		}
		alone[of(r)] = pool(alone[of(r)], more)
	}
	out := map[int64]*float64{}
	for _, r := range runs {
		base, ok := alone[of(r)]
		if !ok || !usable(r) || r.Scheduler == "sa" {
			continue
		}
		own, err := traced(ctx, db, r.ID)
		if err != nil {
			return nil, err
		}
		out[r.ID] = results.KernelSlowdown(own, base).Mean
	}
	return out, nil
}

func traced(ctx context.Context, db *store.Store, run int64) (results.Traced, error) {
	jobs, err := db.Jobs(ctx, run)
	if err != nil {
		return results.Traced{}, err
	}
	kernels, err := db.Kernels(ctx, run)
	return results.Traced{Jobs: jobs, Kernels: kernels}, err
}

// pool adds a run's jobs to those of others, as jobs of their own.
func pool(all, more results.Traced) results.Traced {
	shift := len(all.Jobs)
	for _, j := range more.Jobs {
		j.Index += shift
		all.Jobs = append(all.Jobs, j)
	}
	for _, k := range more.Kernels {
		k.Job += shift
		all.Kernels = append(all.Kernels, k)
	}
	return all
}

// sameRuns reports whether both sides are the same runs.
func sameRuns(a, b regress.Side) bool {
	id := func(x, y regress.Observation) bool { return x.ID == y.ID }
	return len(a.Runs) > 0 && slices.EqualFunc(a.Runs, b.Runs, id)
}

// completeSides offers the sweeps of the configured store and their tags.
func completeSides(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp
	settings, err := loadConfig(c)
	if err != nil {
		return nil, done
	}
	db, err := store.OpenReadOnly(settings.DB)
	if err != nil {
		return nil, done
	}
	defer db.Close()
	sweeps, err := db.Sweeps(c.Context())
	if err != nil {
		return nil, done
	}
	out := []string{"latest\tthe last sweep"}
	for _, s := range slices.Backward(sweeps) {
		out = append(out, fmt.Sprintf("sweep:%d\t%s on %s", s.ID, s.Name, s.Node))
		if s.Tag != "" && !slices.Contains(out, s.Tag) {
			out = append(out, s.Tag)
		}
	}
	return out, done
}
