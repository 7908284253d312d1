package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// sweepOptions are what a sweep has beside the settings of its runs.
type sweepOptions struct {
	Name    string
	Mixes   []string // one each
	Scheds  []string
	Reps    int // 0: by default
	Warmups int // -1: by default
	Jobs    int
}

// addPlanned adds the flags of what a sweep's file may have too, and sets what
// they give by default.
func (o *sweepOptions) addPlanned(f *pflag.FlagSet) {
	o.Warmups = -1
	addMixesFlag(f, &o.Mixes, "`LIST` of mixes: names, ranges as W1..W8, patterns as D-* and files, split at commas; may be given again", splitMixes)
	f.Func("scheds", "`LIST` of schedulers as sa,case-alg3:queue=fifo,age-limit=8,cg: key=value belongs to the scheduler before it; may be given again", func(list string) error {
		return appendTo(&o.Scheds, splitScheds, list)
	})
	f.Var(atLeast{&o.Reps, 1}, "reps", fmt.Sprintf("repetitions of each mix under each scheduler; by default %d, or %d on a simulated node without noise", defaultReps, defaultSimReps))
	f.Var(atLeast{&o.Warmups, 0}, "warmups", "runs of each mix, under the first scheduler, that come first and are not counted; by default 1, or 0 on a simulated node")
	f.StringVar(&o.Name, "name", "", "`TEXT` to call the sweep by")
}

// addMixesFlag adds --mixes, which may be given again.
func addMixesFlag(f *pflag.FlagSet, names *[]string, usage string, split func(string) ([]string, error)) {
	f.Func("mixes", usage, func(list string) error { return appendTo(names, split, list) })
}

// addCatalogMixesFlag adds --mixes to a command that takes mixes of the catalog alone.
func addCatalogMixesFlag(c *cobra.Command, names *[]string, usage string) {
	addMixesFlag(c.Flags(), names, usage, splitCatalogMixes)
	_ = c.RegisterFlagCompletionFunc("mixes", inList(func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		names, _ := completeMixes(c, args, typed)
		return names, cobra.ShellCompDirectiveNoFileComp
	}))
}

// appendTo appends what split makes of a list.
func appendTo(all *[]string, split func(string) ([]string, error), list string) error {
	items, err := split(list)
	*all = append(*all, items...)
	return err
}

// atLeast is a flag's whole number. Below min it stands for what is not given.
type atLeast struct {
	n   *int
	min int
}

func (a atLeast) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < a.min {
		return fmt.Errorf("want a whole number, %d or more", a.min)
	}
	*a.n = n
	return nil
}

func (a atLeast) String() string {
	if a.n == nil || *a.n < a.min {
		return ""
	}
	return strconv.Itoa(*a.n)
}

func (atLeast) Type() string { return "number" }

// Validate checks what needs no node. A sweep that is new takes mixes and
// schedulers.
func (o *sweepOptions) Validate(isNew bool) error {
	if isNew && (len(o.Mixes) == 0 || len(o.Scheds) == 0) {
		return usageError(errors.New("a sweep takes mixes and schedulers: give --mixes W1..W8 --scheds sa,case-alg3, or a FILE with both"))
	}
	for _, list := range []struct {
		key   string
		items []string
	}{{"mixes", o.Mixes}, {"scheds", o.Scheds}} {
		for i, item := range list.items {
			if slices.Contains(list.items[:i], item) {
				return usageError(fmt.Errorf("--%s: %s is named twice, which would be one arm: leave one out", list.key, item))
			}
		}
	}
	return checkText("name", o.Name)
}

// print prints what was asked for, as a sweep's file has it.
func (o *sweepOptions) print(w io.Writer) error {
	var asked yaml.MapSlice
	add := func(key string, value any, given bool) {
		if given {
			asked = append(asked, yaml.MapItem{Key: key, Value: value})
		}
	}
	add("name", o.Name, o.Name != "")
	add("mixes", o.Mixes, len(o.Mixes) > 0)
	add("scheds", o.Scheds, len(o.Scheds) > 0)
	add("reps", o.Reps, o.Reps > 0)
	add("warmups", o.Warmups, o.Warmups >= 0)
	if len(asked) == 0 {
		return nil
	}
	text, err := yaml.Marshal(asked)
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// fit refuses options that a node cannot have.
func (o *sweepOptions) fit(mode results.Mode, node string) error {
	if mode == results.Live && o.Jobs > 1 {
		return usageError(fmt.Errorf("--jobs %d: runs on %s have its GPUs to themselves, one at a time: leave --jobs out, or name a simulated node", o.Jobs, node))
	}
	return nil
}

// splitMixes splits a list at commas and spreads ranges and patterns of the catalog.
func splitMixes(list string) ([]string, error) {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		names, err := spreadMixes(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	return out, nil
}

// splitCatalogMixes is splitMixes for a flag that takes no files.
func splitCatalogMixes(list string) ([]string, error) {
	names, err := splitMixes(list)
	if i := slices.IndexFunc(names, isMixFile); i >= 0 {
		return nil, fmt.Errorf("%s is a file: name mixes of the catalog", names[i])
	}
	return names, err
}

// spreadMixes is a mix, or those of a range such as W1..W8 or of a pattern such as D-*, in
// the catalog's order.
func spreadMixes(item string) ([]string, error) {
	first, last, isRange := strings.Cut(item, "..")
	switch {
	case item == "":
		return nil, errMissingName
	case isRange && !isMixFile(item):
		names, err := mixRange(first, last)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		return names, nil
	case !isMixFile(item) && strings.ContainsAny(item, "*?["):
		return mixes.Match(item)
	case !isMixFile(item):
		if _, err := mixes.Lookup(item); err != nil {
			return nil, err
		}
	}
	return []string{item}, nil
}

var errMissingName = errors.New("a name is missing")

// mixRange is the names from first to last, which differ in the number at their
// end.
func mixRange(first, last string) ([]string, error) {
	prefix := strings.TrimRight(first, "0123456789")
	from, errFrom := strconv.Atoi(first[len(prefix):])
	rest, samePrefix := strings.CutPrefix(last, prefix)
	to, errTo := strconv.Atoi(rest)
	if errFrom != nil || errTo != nil || !samePrefix || from > to {
		return nil, errors.New("want a range of mixes as W1..W8")
	}
	for _, end := range []string{first, last} { // also bounds the range by the catalog's
		if _, err := mixes.Lookup(end); err != nil {
			return nil, err
		}
	}
	var names []string
	for n := from; n <= to; n++ {
		names = append(names, prefix+strconv.Itoa(n))
	}
	return names, nil
}

// splitScheds splits a list at the commas before a scheduler's name: key=value
// after a comma is one more parameter of the scheduler before it.
func splitScheds(list string) ([]string, error) {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		key, _, isParameter := strings.Cut(item, "=")
		isParameter = isParameter && !strings.Contains(key, ":")
		switch {
		case item == "":
			return nil, errMissingName
		case isParameter && len(out) == 0:
			return nil, fmt.Errorf("%s is a parameter of no scheduler: write sa,case-alg3:queue=fifo,age-limit=8", item)
		case isParameter && strings.Contains(out[len(out)-1], ":"):
			out[len(out)-1] += "," + item
		case isParameter:
			out[len(out)-1] += ":" + item
		default:
			out = append(out, item)
		}
	}
	return out, nil
}
