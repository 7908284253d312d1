package main

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/nodes"
)

// Offers are those of package config, or of a store.

// words completes with offers.
func words(offer func(typed string) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return offer(typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// fixed completes with some of the same words.
func fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// noSpace completes with offers to which more may be added.
func noSpace(offer func(typed string) []string, directive cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return offer(typed), directive | cobra.ShellCompDirectiveNoSpace
	}
}

// inList completes the last name of a list as name completes a name, with names that the list does not have.
func inList(name cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) (lists []string, directive cobra.ShellCompDirective) {
		lists = config.InList(func(typed string) (offers []string) {
			offers, directive = name(c, args, typed)
			return offers
		}, typed)
		return lists, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// others completes with what is not an argument yet.
func others(name cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		offers, directive := name(c, args, typed)
		return config.Without(args, offers), directive
	}
}

// atMost completes the first n arguments.
func atMost(n int, name cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return name(c, args, typed)
	}
}

// fromStore completes with what offer finds in the configured store, and with nothing if that fails.
func fromStore(offer func(ctx context.Context, db *store.Store, typed string) ([]string, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		settings, err := load(c)
		if err != nil {
			return nil, directive
		}
		db, done, err := bundle.OpenWith(c.Context(), settings.DB, store.OpenReadOnly) // which changes no store of an earlier version
		if err != nil {
			return nil, directive
		}
		defer done() //nolint:errcheck // nobody reads errors of completion
		out, err := offer(c.Context(), db, typed)
		if err != nil {
			return nil, directive
		}
		return out, directive
	}
}

// completeScheduler completes a scheduler's name, and behind its colon its parameters.
func completeScheduler(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(typed, ":") {
		return config.OfferScheduler(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return config.OfferScheduler(typed), cobra.ShellCompDirectiveNoFileComp
}

// completeMix completes a mix of the catalog, or a mix's file.
func completeMix(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return config.OfferMix(typed), cobra.ShellCompDirectiveDefault
}

// flagCompletions are those of flags, by name. A command whose flag takes something else registers that.
func flagCompletions() map[string]cobra.CompletionFunc {
	sweeps, runs, compared := fromStore(selection.OfferSweeps), fromStore(selection.OfferRuns), fromStore(selection.OfferSides)
	return map[string]cobra.CompletionFunc{
		"format": words(config.OfferFormat), "node": noSpace(nodes.Offer, cobra.ShellCompDirectiveDefault), "probe": words(config.OfferProbe),
		"probes": inList(words(config.OfferProbe)), "mix": completeMix, "mixes": noSpace(config.OfferCatalogMixes, cobra.ShellCompDirectiveNoFileComp),
		"sched": completeScheduler, "scheds": noSpace(config.OfferSchedulers, cobra.ShellCompDirectiveNoFileComp),
		"tag": fromStore(selection.OfferTags), "sweep": sweeps, "resume": sweeps, "baseline": fromStore(selection.OfferBaselines), "candidate": compared,
		"before": runs, "slowdown": runs, "except": fromStore(selection.OfferMixes), "trend": words(config.OfferMetric), "metrics": inList(words(config.OfferMetric)),
		"max-regression": inList(noSpace(config.OfferLimit, cobra.ShellCompDirectiveNoFileComp)),
		"only":           inList(fixed(regress.Kinds...)), "by": fixed(byMix),
	}
}

// completeFlags completes the flags of a command and its subcommands that have no completion of their own.
func completeFlags(c *cobra.Command, by map[string]cobra.CompletionFunc) {
	for _, sub := range c.Commands() {
		completeFlags(sub, by)
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if by[f.Name] != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, by[f.Name])
		}
	})
}

// plainUsages takes the backticks out of what flags say of themselves. They mark the values' names for help, and completion would show them.
func plainUsages(c *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	c.Flags().VisitAll(plain)
	c.PersistentFlags().VisitAll(plain)
	for _, sub := range c.Commands() {
		plainUsages(sub)
	}
}

// printCompletions has the commands of completion print each shell's script where the program prints. cobra's have
// settled that before the program is told.
func printCompletions(root *cobra.Command) {
	for shell, generate := range map[string]func(w io.Writer, descriptions bool) error{
		"bash": root.GenBashCompletionV2,
		"fish": root.GenFishCompletion,
		"zsh": func(w io.Writer, descriptions bool) error {
			if descriptions {
				return root.GenZshCompletion(w)
			}
			return root.GenZshCompletionNoDesc(w)
		},
		"powershell": func(w io.Writer, descriptions bool) error {
			if descriptions {
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return root.GenPowerShellCompletion(w)
		},
	} {
		c, _, err := root.Find([]string{"completion", shell})
		if err != nil {
			panic(err) // it has just been made
		}
		c.RunE = func(c *cobra.Command, _ []string) error {
			bare, _ := c.Flags().GetBool("no-descriptions")
			var script bytes.Buffer
			err := generate(&script, !bare)
			if err == nil {
				_, err = bareCommas.WriteString(c.OutOrStdout(), script.String())
			}
			if err != nil {
				return workError{err}
			}
			return nil
		}
	}
}

// bareCommas makes the completion of bash take lists. cobra's script compares what is typed with offers in which
// printf %q has put a backslash before each comma, and offers nothing behind the first comma. Typed commas have no
// backslash, and need none. It adds, behind what quotes offers, what takes the commas' backslashes out.
var bareCommas = strings.NewReplacer(
	`|| comp=$(printf "%q" "${compline%%$tab*}")`+"\n", `|| comp=$(printf "%q" "${compline%%$tab*}")`+"; comp=${comp//\\\\,/,}\n",
	`COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]%%$tab*}")`+"\n", `COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]%%$tab*}")`+"; COMPREPLY[0]=${COMPREPLY[0]//\\\\,/,}\n",
	`COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]}")`+"\n", `COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]}")`+"; COMPREPLY[0]=${COMPREPLY[0]//\\\\,/,}\n",
	`< <(printf "%q\n" "${COMPREPLY[@]}")`+"\n", `< <(printf "%q\n" "${COMPREPLY[@]}"); COMPREPLY=("${COMPREPLY[@]//\\,/,}")`+"\n",
)
