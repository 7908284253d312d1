package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/sides"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers/policies"
)

// inList completes the last name of a list as name completes a name. Shells drop what does not
// begin with all that is typed.
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

// fromStore completes with what offer finds in the configured store, and with nothing if that
// fails.
func fromStore(offer func(context.Context, *store.Store) ([]string, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		const done = cobra.ShellCompDirectiveNoFileComp
		settings, err := load(c)
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

// offerSides are the sweeps of a store and its tags, as sides of a comparison.
func offerSides(ctx context.Context, db *store.Store) ([]string, error) {
	sweeps, err := db.Sweeps(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{"latest\tthe last sweep"}
	for _, s := range slices.Backward(sweeps) {
		out = append(out, fmt.Sprintf("sweep:%d\t%s on %s", s.ID, s.Name, s.Node))
	}
	tags, err := offerTags(ctx, db)
	for _, tag := range tags {
		out = append(out, sides.OfTag(tag))
	}
	return out, err
}

// completeSchedulers completes a scheduler's name, and behind its colon the parameters that are not
// given yet.
func completeSchedulers(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	var offers []string
	name, parameters, begun := strings.Cut(text, ":")
	given := parameters[:strings.LastIndex(parameters, ",")+1]
	for _, s := range policies.All() {
		if !begun {
			offers = append(offers, s.Name+"\t"+s.Rule)
			continue
		}
		for _, p := range s.Params {
			if s.Name == name && !strings.Contains(","+given, ","+p.Name+"=") {
				offers = append(offers, fmt.Sprintf("%s:%s%s=\t%s (%s)", name, given, p.Name, p.Help, p.Default))
			}
		}
	}
	if begun {
		return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func completeMixes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names, _ := completeCatalog(nil, nil, "")
	return names, cobra.ShellCompDirectiveDefault
}

// completeCatalog is completeMixes where files do not count.
func completeCatalog(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, m := range mixes.Catalog() {
		names = append(names, m.Name+"\t"+m.Description)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func completeProbes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return results.Probes(), cobra.ShellCompDirectiveNoFileComp
}

func completeProbe(c *cobra.Command) { _ = c.RegisterFlagCompletionFunc("probe", completeProbes) }

func completeNode(c *cobra.Command) {
	_ = c.RegisterFlagCompletionFunc("node", cobra.FixedCompletions(
		[]string{"local", "sim:4xV100", "sim:2xP100", "sim:4xH200", "sim:8xA100"}, cobra.ShellCompDirectiveNoFileComp))
}

// addFormatFlag adds --format with its completion, and -v for wide tables unless the command
// has a -v of its own.
func addFormatFlag(c *cobra.Command) {
	config.AddFormatFlag(c.Flags())
	if c.Flags().Lookup("verbose") == nil {
		c.Flags().BoolP("verbose", "v", false, "print every column of tables")
	}
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(config.Formats, cobra.ShellCompDirectiveNoFileComp))
}

// addCatalogMixesFlag adds --mixes with its completion to a command that takes mixes of the
// catalog alone.
func addCatalogMixesFlag(c *cobra.Command, names *[]string, usage string) {
	config.AddCatalogMixesFlag(c.Flags(), names, usage)
	_ = c.RegisterFlagCompletionFunc("mixes", inList(completeCatalog))
}

// filterFlags are the flags that select runs of a store.
type filterFlags struct{ sides.Filter }

// addTo adds the flags, which are not settings even if they have a setting's name, and their
// completions.
func (f *filterFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Mix, "mix", "", "only runs of this `MIX`")
	flags.StringVar(&f.Sched, "sched", "", "only runs under this `SCHEDULER`")
	flags.StringVar(&f.Node, "node", "", "only runs on this `NODE`")
	flags.StringVar(&f.Sweep, "sweep", "", "only runs of this `SWEEP`: its number, or latest")
	flags.StringVar(&f.Tag, "tag", "", "only runs with this `TAG`")
	flags.IntVar(&f.Last, "last", 0, "only the last `N` of the selected runs")
	flags.BoolVar(&f.Warmups, "warmups", false, "also the warm-up runs of sweeps, which are not measurements")
	config.NoSetting(flags, "sched", "node", "tag")
	_ = c.RegisterFlagCompletionFunc("mix", completeMixes)
	_ = c.RegisterFlagCompletionFunc("sched", completeSchedulers)
	_ = c.RegisterFlagCompletionFunc("sweep", fromStore(offerSweeps))
	_ = c.RegisterFlagCompletionFunc("tag", fromStore(offerTags))
}

// named takes an argument for each name. An error says which argument is missing.
func named(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing: %s", names[len(args)], c.UseLine())
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q is one argument too many: %s", args[len(names)], c.UseLine())
		}
		return nil
	}
}
