package selection

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers/policies"
)

// Span are the times between which runs and sweeps began. A zero time sets no limit.
type Span struct{ Since, Before time.Time }

// has reports whether a time lies in the span. A time that is unknown lies in one without limits alone.
func (s Span) has(at *time.Time) bool {
	if at == nil {
		return s == Span{}
	}
	return !at.Before(s.Since) && (s.Before.IsZero() || at.Before(s.Before))
}

// Kept are runs and sweeps that a user names to list, mark or remove them: also warm-ups, duplicates, excluded and damaged
// ones, and those that are not complete.
type Kept struct {
	Runs    []results.Run   // by number
	Sweeps  []results.Sweep // that are named as a whole, by number
	Undated int             // runs and sweeps that a span leaves out because they have no date
}

// Chosen are their numbers.
func (k Kept) Chosen() (c store.Chosen) {
	for _, r := range k.Runs {
		c.Runs = append(c.Runs, r.ID)
	}
	for _, w := range k.Sweeps {
		c.Sweeps = append(c.Sweeps, w.ID)
	}
	return c
}

// Modes are those of the runs and the sweeps.
func (k Kept) Modes() (modes []results.Mode) {
	for _, r := range k.Runs {
		modes = append(modes, r.Mode)
	}
	for _, w := range k.Sweeps {
		modes = append(modes, w.Mode)
	}
	slices.Sort(modes)
	return slices.Compact(modes)
}

// everything is a filter that leaves nothing out.
var everything = store.Filter{Warmups: true, Duplicates: true, Excluded: true, Unchecked: true}

// Keep finds the runs and sweeps that names mean as sides of a comparison, or all, and that began in a span.
func Keep(ctx context.Context, db *store.Store, names []string, span Span) (k Kept, err error) {
	if len(names) == 0 {
		if k.Runs, err = db.Runs(ctx, everything); err == nil {
			k.Sweeps, err = db.Sweeps(ctx)
		}
	}
	for _, name := range names {
		one, failed := keep(ctx, db, input.Name(name))
		if failed == nil && len(one.Runs)+len(one.Sweeps) == 0 {
			failed = Refuse("%s", WhyEmpty(ctx, db, name, db.Path()))
		}
		if failed != nil {
			return k, failed
		}
		k.Runs, k.Sweeps = append(k.Runs, one.Runs...), append(k.Sweeps, one.Sweeps...)
	}
	return k.in(span), err
}

// in are the runs and sweeps that began in a span, each once.
func (k Kept) in(span Span) (out Kept) {
	seen := map[int64]bool{}
	for _, r := range k.Runs {
		at := results.Dated(r.StartedAt, r.Tag)
		switch {
		case seen[r.ID]:
		case span.has(at):
			out.Runs = append(out.Runs, r)
		case at == nil:
			out.Undated++
		}
		seen[r.ID] = true
	}
	clear(seen)
	for _, w := range k.Sweeps {
		at := results.Dated(w.CreatedAt, w.Tag)
		switch {
		case seen[w.ID]:
		case span.has(at):
			out.Sweeps = append(out.Sweeps, w)
		case at == nil:
			out.Undated++
		}
		seen[w.ID] = true
	}
	slices.SortFunc(out.Runs, func(a, b results.Run) int { return int(a.ID - b.ID) })
	slices.SortFunc(out.Sweeps, func(a, b results.Sweep) int { return int(a.ID - b.ID) })
	return out
}

// keep finds what one name means, in the order of Select.
func keep(ctx context.Context, db *store.Store, name string) (k Kept, err error) {
	if id, notNumber := input.Int64(name); notNumber == nil {
		f := everything
		f.IDs = []int64{id}
		run, err := db.Runs(ctx, f)
		if err != nil || len(run) > 0 {
			return Kept{Runs: run}, err
		}
		return keepTag(ctx, db, name)
	}
	if tag, explicit := strings.CutPrefix(name, "tag:"); explicit || isTag(name) {
		return keepTag(ctx, db, tag)
	}
	of, scheduler, under := strings.Cut(name, "/")
	if under {
		if err := checkScheduler(name, of, scheduler); err != nil {
			return k, err
		}
	}
	w, err := Sweep(ctx, db, strings.TrimPrefix(of, "sweep:"))
	if err != nil {
		return k, err
	}
	f := everything
	f.Sweep = w.ID
	if k.Runs, err = db.Runs(ctx, f); err != nil || under {
		return k.under(scheduler), err
	}
	k.Sweeps = []results.Sweep{w}
	return k, nil
}

// keepTag finds the runs and sweeps with a tag. If nothing has it, what follows its last slash is a scheduler.
func keepTag(ctx context.Context, db *store.Store, tag string) (k Kept, err error) {
	f := everything
	f.Tag = tag
	runs, err := db.Runs(ctx, f)
	sweeps, failed := db.Sweeps(ctx)
	if err := errors.Join(err, failed); err != nil {
		return k, err
	}
	k.Runs = runs
	for _, w := range sweeps {
		if w.Tag == tag {
			k.Sweeps = append(k.Sweeps, w)
		}
	}
	at := strings.LastIndex(tag, "/")
	if at < 0 || len(k.Runs)+len(k.Sweeps) > 0 {
		return k, nil
	}
	if err := checkScheduler(tag, tag[:at], tag[at+1:]); err != nil {
		return k, err
	}
	k, err = keepTag(ctx, db, tag[:at])
	return Kept{Runs: k.Runs}.under(tag[at+1:]), err
}

// under are the runs under a scheduler.
func (k Kept) under(scheduler string) Kept {
	k.Runs = slices.DeleteFunc(k.Runs, func(r results.Run) bool {
		return !results.ArmOf(r).IsUnder(scheduler, policies.Omitted(r.Scheduler))
	})
	return k
}

// Again reads the runs and sweeps anew, after they were changed.
func (k Kept) Again(ctx context.Context, db *store.Store) (Kept, error) {
	f, c := everything, k.Chosen()
	var err error
	if f.IDs = c.Runs; len(f.IDs) > 0 {
		k.Runs, err = db.Runs(ctx, f)
	}
	for i, id := range c.Sweeps {
		w, failed := db.Sweep(ctx, id)
		k.Sweeps[i], err = w, errors.Join(err, failed)
	}
	return k, err
}
