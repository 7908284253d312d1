package selection

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// These offer words that name runs of a store, to complete what is typed. An offer is a word and, behind a tab, its
// description. Shells drop offers that do not begin with what is typed.

// OfferSweeps are the sweeps of a store, the last one first.
func OfferSweeps(ctx context.Context, db *store.Store, _ string) ([]string, error) {
	sweeps, err := db.Sweeps(ctx)
	out := []string{"latest\tthe last sweep"}
	for _, s := range slices.Backward(sweeps) {
		out = append(out, fmt.Sprintf("%d\t%s", s.ID, describe(s)))
	}
	return out, err
}

// describe says in a line what a sweep is.
func describe(s results.Sweep) string {
	words := []string{s.Name, s.Tag, string(s.Status), "on", s.Node}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// lookedAt is how many runs are looked through: a completion must not take long. shownRuns is how
// many are offered: a longer list is not read.
const (
	lookedAt  = 1000
	shownRuns = 50
)

// OfferRuns are the last runs of a store, the last one first.
func OfferRuns(ctx context.Context, db *store.Store, _ string) ([]string, error) {
	out := []string{"latest\tthe last run"}
	numbers, err := offerNumbers(ctx, db)
	return append(out, numbers...), err
}

func offerNumbers(ctx context.Context, db *store.Store) (out []string, err error) {
	runs, err := db.Runs(ctx, store.Filter{Last: shownRuns, Unchecked: true})
	names := results.NamesOf(runs)
	for _, r := range slices.Backward(runs) {
		out = append(out, fmt.Sprintf("%d\t%s", r.ID, names.Of(results.ArmOf(r))))
	}
	return out, err
}

// OfferMixes are the mixes of the last runs, the last one first, with how many runs have them.
func OfferMixes(ctx context.Context, db *store.Store, _ string) ([]string, error) {
	return offerEach(ctx, db, func(r results.Run) string { return r.Mix })
}

// OfferArms are the schedulers of the last runs and the names that the user gave to arms, the last one first.
func OfferArms(ctx context.Context, db *store.Store, _ string) ([]string, error) {
	arms, err := offerEach(ctx, db, func(r results.Run) string { return r.Arm })
	if err != nil {
		return nil, err
	}
	schedulers, err := offerEach(ctx, db, func(r results.Run) string { return r.Scheduler })
	return append(arms, schedulers...), err
}

// OfferNodes are the nodes of the last runs, the last one first, with how many runs have them.
func OfferNodes(ctx context.Context, db *store.Store, _ string) ([]string, error) {
	return offerEach(ctx, db, func(r results.Run) string { return r.Node })
}

func offerEach(ctx context.Context, db *store.Store, of func(results.Run) string) ([]string, error) {
	runs, err := db.Runs(ctx, store.Filter{Last: lookedAt, Warmups: true, Unchecked: true})
	return countedOffers(runs, of), err
}

func countedOffers(runs []results.Run, of func(results.Run) string) (out []string) {
	var order []string
	times := map[string]int{}
	for _, r := range slices.Backward(runs) {
		value := of(r)
		if times[value]++; times[value] == 1 && value != "" {
			order = append(order, value)
		}
	}
	for _, value := range order {
		plural := "s"
		if times[value] == 1 {
			plural = ""
		}
		out = append(out, fmt.Sprintf("%s\t%d run%s", value, times[value], plural))
	}
	return out
}

// OfferTags are the tags of the last runs and of all sweeps, the last one first.
func OfferTags(ctx context.Context, db *store.Store, _ string) ([]string, error) {
	out, err := offerEach(ctx, db, func(r results.Run) string { return r.Tag })
	if err != nil {
		return nil, err
	}
	sweeps, err := db.Sweeps(ctx)
	for _, s := range slices.Backward(sweeps) {
		if s.Tag != "" && !slices.ContainsFunc(out, func(o string) bool { return strings.HasPrefix(o, s.Tag+"\t") }) {
			out = append(out, s.Tag+"\t"+describe(s))
		}
	}
	return out, err
}

// OfferSides are the sweeps of a store, its tags and its runs, as sides of a comparison; behind the
// slash of a sweep or a tag, the schedulers of its runs. A tag may have a slash of its own.
func OfferSides(ctx context.Context, db *store.Store, typed string) ([]string, error) {
	if slash := strings.LastIndex(typed, "/"); slash >= 0 {
		under, err := offerSchedulersOf(ctx, db, typed[:slash])
		if err != nil || len(under) > 0 {
			return under, err
		}
	}
	sweeps, err := db.Sweeps(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{"latest\tthe last sweep"}
	for _, s := range slices.Backward(sweeps) {
		side := fmt.Sprintf("sweep:%d", s.ID)
		out = append(out, side+"\t"+describe(s))
		if strings.HasPrefix(side, typed) && strings.Contains(typed, ":") { // or the shell takes the sweep as whole
			under, err := offerSchedulersOf(ctx, db, side)
			if err != nil {
				return nil, err
			}
			out = append(out, under...)
		}
	}
	tags, err := OfferTags(ctx, db, typed)
	if err != nil {
		return nil, err
	}
	for _, o := range tags {
		tag, description, _ := strings.Cut(o, "\t")
		out = append(out, OfTag(tag)+"\t"+description)
	}
	numbers, err := offerNumbers(ctx, db)
	return append(out, numbers...), err
}

// OfferBaselines are OfferSides, and the last nights that passed.
func OfferBaselines(ctx context.Context, db *store.Store, typed string) ([]string, error) {
	sides, err := OfferSides(ctx, db, typed)
	if last := rolling + "14"; err == nil && strings.HasPrefix(last, typed) {
		sides = append([]string{last + "\tthe last 14 nights that passed"}, sides...)
	}
	return sides, err
}

// offerSchedulersOf are the schedulers of a sweep or a tag, each as a side of a comparison.
func offerSchedulersOf(ctx context.Context, db *store.Store, side string) (out []string, err error) {
	var f store.Filter
	name, isSweep := strings.CutPrefix(side, "sweep:")
	switch {
	case name == Latest:
		last, err := db.LatestSweep(ctx)
		if err != nil {
			return nil, err
		}
		f.Sweep = last.ID
	case isSweep:
		if f.Sweep, err = strconv.ParseInt(name, 10, 64); err != nil {
			return nil, err
		}
	default:
		f.Tag = strings.TrimPrefix(side, "tag:")
	}
	f.Unchecked = true
	runs, err := db.Runs(ctx, f)
	names := results.NamesOf(runs)
	for _, o := range countedOffers(runs, func(r results.Run) string { return names.Scheduler(results.ArmOf(r)) }) {
		out = append(out, side+"/"+o)
	}
	return out, err
}
