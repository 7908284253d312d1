package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers/policies"
)

// An offer is a word and, behind a tab, its description. Shells drop offers that do not begin with
// what is typed.

// wordOf is an offer without its description.
func wordOf(offer string) string {
	word, _, _ := strings.Cut(offer, "\t")
	return word
}

// without leaves out the offers of given words.
func without(given, offers []string) []string {
	return slices.DeleteFunc(offers, func(o string) bool { return slices.Contains(given, wordOf(o)) })
}

// inList completes the last name of a list as name completes a name, with names that the list does
// not have.
func inList(name cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		offers, directive := name(c, args, typed[len(before):])
		var lists []string
		for _, o := range without(strings.Split(before, ","), offers) {
			lists = append(lists, before+o)
		}
		return lists, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// others completes with what is not an argument yet.
func others(name cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		offers, directive := name(c, args, typed)
		return without(args, offers), directive
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

// offer finds offers for a typed word in a store.
type offer func(ctx context.Context, db *store.Store, typed string) ([]string, error)

// fromStore completes with what offer finds in the configured store, and with nothing if that
// fails.
func fromStore(find offer) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		settings, err := load(c)
		if err != nil {
			return nil, directive
		}
		db, done, err := openWith(c.Context(), settings.DB, store.OpenReadOnly) // which changes no store of an earlier version
		if err != nil {
			return nil, directive
		}
		defer done() //nolint:errcheck // nobody reads errors of completion
		out, err := find(c.Context(), db, typed)
		if err != nil {
			return nil, directive
		}
		return out, directive
	}
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

// offerSweeps are the sweeps of a store, the last one first.
func offerSweeps(ctx context.Context, db *store.Store, _ string) ([]string, error) {
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
// many are offered: nobody reads more.
const (
	lookedAt  = 1000
	shownRuns = 50
)

// offerRuns are the last runs of a store, the last one first.
func offerRuns(ctx context.Context, db *store.Store, _ string) ([]string, error) {
	out := []string{"latest\tthe last run"}
	numbers, err := offerNumbers(ctx, db)
	return append(out, numbers...), err
}

func offerNumbers(ctx context.Context, db *store.Store) (out []string, err error) {
	runs, err := db.Runs(ctx, store.Filter{Last: shownRuns, Unchecked: true})
	for _, r := range slices.Backward(runs) {
		out = append(out, fmt.Sprintf("%d\t%s", r.ID, results.ArmOf(r)))
	}
	return out, err
}

// offerEach are the values that the last runs have, the last one first, with how many have them.
func offerEach(of func(results.Run) string) offer {
	return func(ctx context.Context, db *store.Store, _ string) ([]string, error) {
		runs, err := db.Runs(ctx, store.Filter{Last: lookedAt, Warmups: true, Unchecked: true})
		return countedOffers(runs, of), err
	}
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

// offerTags are the tags of the last runs and of all sweeps, the last one first.
func offerTags(ctx context.Context, db *store.Store, typed string) ([]string, error) {
	out, err := offerEach(func(r results.Run) string { return r.Tag })(ctx, db, typed)
	if err != nil {
		return nil, err
	}
	sweeps, err := db.Sweeps(ctx)
	for _, s := range slices.Backward(sweeps) {
		if s.Tag != "" && !slices.ContainsFunc(out, func(o string) bool { return wordOf(o) == s.Tag }) {
			out = append(out, s.Tag+"\t"+describe(s))
		}
	}
	return out, err
}

// offerSides are the sweeps of a store, its tags and its runs, as sides of a comparison; behind the
// slash of a sweep or a tag, the schedulers of its runs. A tag may have a slash of its own.
func offerSides(ctx context.Context, db *store.Store, typed string) ([]string, error) {
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
	tags, err := offerTags(ctx, db, typed)
	if err != nil {
		return nil, err
	}
	for _, o := range tags {
		tag, description, _ := strings.Cut(o, "\t")
		out = append(out, selection.OfTag(tag)+"\t"+description)
	}
	numbers, err := offerNumbers(ctx, db)
	return append(out, numbers...), err
}

// offerSchedulersOf are the schedulers of a sweep or a tag, each as a side of a comparison.
func offerSchedulersOf(ctx context.Context, db *store.Store, side string) (out []string, err error) {
	var f store.Filter
	name, isSweep := strings.CutPrefix(side, "sweep:")
	switch {
	case name == selection.Latest:
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
	for _, o := range countedOffers(runs, func(r results.Run) string { return r.Scheduler }) {
		out = append(out, side+"/"+o)
	}
	return out, err
}

// completeSchedulers completes a scheduler's name, and behind its colon the parameters that are not
// given yet.
func completeSchedulers(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	var offers []string
	name, parameters, begun := strings.Cut(text, ":")
	given := parameters[:strings.LastIndex(parameters, ",")+1]
	for _, s := range policies.Listed() {
		if !begun {
			offers = append(offers, s.Name+"\t"+s.Brief)
			continue
		}
		if s.External && s.Name == name {
			offers = append(offers, offerPrograms(name+":", parameters)...)
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

// offerPrograms are the files that can decide, and the folders in which there may be some, for an
// external scheduler's first parameter or its path=.
func offerPrograms(before, parameters string) (offers []string) {
	item := parameters[strings.LastIndex(parameters, ",")+1:]
	typed, named := strings.CutPrefix(item, "path=")
	if !named && item != parameters {
		return nil
	}
	folder, _ := filepath.Split(typed) // as it is typed, ./ included
	before += parameters[:len(parameters)-len(typed)] + folder
	entries, _ := os.ReadDir(filepath.Clean(folder)) // of "" it is .
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(folder, e.Name()))
		switch {
		case err != nil || strings.ContainsAny(e.Name(), ",\t\n"):
		case info.IsDir():
			offers = append(offers, before+e.Name()+"/\ta folder")
		case info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			offers = append(offers, before+e.Name()+"\ta program")
		}
	}
	return offers
}

// completeSchedulerList completes the last scheduler of a list, or begins another. A comma may also
// be one between parameters.
func completeSchedulerList(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	offers, directive := inList(completeSchedulers)(c, args, typed)
	items := strings.Split(typed, ",")
	last := len(items) - 1
	begin, at := 0, 0 // of the scheduler before the last item, and of an item
	for _, item := range items[:last] {
		if strings.Contains(item, ":") || !strings.Contains(item, "=") {
			begin = at
		}
		at += len(item) + 1
	}
	if at > 0 && !strings.Contains(items[last], ":") && strings.Contains(typed[begin:], ":") {
		parameters, _ := completeSchedulers(c, args, typed[begin:])
		for _, p := range parameters {
			offers = append(offers, typed[:begin]+p)
		}
	}
	return offers, directive
}

// completeMixes completes a mix of the catalog, or a mix's file.
func completeMixes(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	offers, _ := completeCatalog(c, args, typed)
	found, _ := filepath.Glob(escapeGlob(typed) + "*")
	for _, path := range found {
		if suites.IsMixFile(path) {
			offers = append(offers, path+"\ta file")
		}
	}
	return offers, cobra.ShellCompDirectiveDefault
}

// escapeGlob makes the characters of a path stand for themselves.
var escapeGlob = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace

// completeCatalog completes a mix of the catalog.
func completeCatalog(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, m := range mixes.Catalog() {
		names = append(names, m.Name+"\t"+m.Description)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// orRange completes also the end of a range of mixes, such as W1..W8 or W1-W8.
func orRange(mix cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		first, _, isRange := strings.Cut(typed, "..")
		to := ".."
		if before, _, hyphen := strings.Cut(typed, "-"); hyphen && strings.TrimRight(before, "0123456789") != before {
			first, to, isRange = before, "-", true
		}
		if !isRange {
			return mix(c, args, typed)
		}
		var ranges []string
		prefix := strings.TrimRight(first, "0123456789")
		from, err := strconv.Atoi(first[len(prefix):])
		for _, m := range mixes.Catalog() {
			number, samePrefix := strings.CutPrefix(m.Name, prefix)
			if last, notNumber := strconv.Atoi(number); err == nil && notNumber == nil && samePrefix && last > from {
				ranges = append(ranges, fmt.Sprintf("%s%s%s\t%d mixes", first, to, m.Name, last-from+1))
			}
		}
		return ranges, cobra.ShellCompDirectiveDefault
	}
}

func completeProbes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	whose := map[string]string{
		results.Lazy.String():     "unmodified programs",
		results.Static.String():   "programs that casecc compiled",
		results.Explicit.String(): "programs that call the task API",
	}
	var offers []string
	for _, p := range results.Probes() {
		offers = append(offers, p+"\ttasks of "+whose[p])
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func completeProbe(c *cobra.Command) { _ = c.RegisterFlagCompletionFunc("probe", completeProbes) }

func completeNode(c *cobra.Command) {
	_ = c.RegisterFlagCompletionFunc("node", cobra.FixedCompletions(
		[]string{"local\tthe GPUs of this machine", "sim:4xV100\tfour simulated V100s", "sim:2xP100\ttwo simulated P100s",
			"sim:4xH200\tfour simulated H200s", "sim:8xA100\teight simulated A100s"}, cobra.ShellCompDirectiveNoFileComp))
}

func completeFormats(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var offers []string
	for _, f := range report.Formats() {
		offers = append(offers, string(f)+"\t"+f.About())
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
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
