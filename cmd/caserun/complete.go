package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// inList makes of the completion of a name that of the last name of a list. Shells
// drop what does not begin with all that is typed.
func inList(name cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		names, directive := name(c, args, typed[len(before):])
		var lists []string
		for _, n := range names {
			lists = append(lists, before+n)
		}
		return lists, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// fromStore completes with what offer finds in the configured store, and with nothing
// where that fails.
func fromStore(offer func(context.Context, *store.Store) ([]string, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
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
		out, err := offer(c.Context(), db)
		if err != nil {
			return nil, done
		}
		return out, done
	}
}

// offerSweeps are the sweeps of a store, the last one first.
func offerSweeps(ctx context.Context, db *store.Store) ([]string, error) {
	sweeps, err := db.Sweeps(ctx)
	out := []string{"latest\tthe last sweep"}
	for _, s := range slices.Backward(sweeps) {
		out = append(out, fmt.Sprintf("%d\t%s", s.ID, strings.TrimSpace(fmt.Sprintf("%s %s on %s", s.Name, s.Status, s.Node))))
	}
	return out, err
}

// offerRuns are the last runs of a store, the last one first.
func offerRuns(ctx context.Context, db *store.Store) ([]string, error) {
	runs, err := db.Runs(ctx, store.Filter{Last: lookedAt})
	out := []string{"latest\tthe last run"}
	for _, r := range slices.Backward(runs) {
		out = append(out, fmt.Sprintf("%d\t%s", r.ID, results.ArmOf(r)))
	}
	return out, err
}

// lookedAt is how many runs are looked through: a completion must not take long.
const lookedAt = 1000

// offerTags are the tags of the last runs and of all sweeps, the last one first.
func offerTags(ctx context.Context, db *store.Store) ([]string, error) {
	runs, err := db.Runs(ctx, store.Filter{Last: lookedAt, Warmups: true})
	if err != nil {
		return nil, err
	}
	sweeps, err := db.Sweeps(ctx)
	var tags []string
	add := func(tag string) {
		if tag != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	for _, r := range slices.Backward(runs) {
		add(r.Tag)
	}
	for _, s := range slices.Backward(sweeps) {
		add(s.Tag)
	}
	return tags, err
}
