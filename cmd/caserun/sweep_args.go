package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// sweepOptions are what a sweep has beside the settings of its runs.
type sweepOptions struct {
	Name    string
	Mixes   []string // one each, after Validate
	Scheds  []string
	Reps    int // 0: by default
	Warmups int // -1: by default
	Jobs    int
}

// Validate splits the lists and checks what needs no node. A sweep that is new
// takes both.
func (o *sweepOptions) Validate(isNew bool) error {
	var err error
	if o.Mixes, err = splitMixes(o.Mixes); err != nil {
		return usageError(fmt.Errorf("--mixes: %w", err))
	}
	if o.Scheds, err = splitScheds(o.Scheds); err != nil {
		return usageError(fmt.Errorf("--scheds: %w", err))
	}
	switch {
	case isNew && (len(o.Mixes) == 0 || len(o.Scheds) == 0):
		return usageError(errors.New("a sweep takes mixes and schedulers: give --mixes W1..W8 --scheds sa,case-alg3, or a FILE with both"))
	case o.Reps < 0:
		return usageError(fmt.Errorf("--reps %d: want 1 or more", o.Reps))
	case o.Warmups < -1:
		return usageError(fmt.Errorf("--warmups %d: want 0 or more", o.Warmups))
	case o.Jobs < 1:
		return usageError(fmt.Errorf("--jobs %d: want 1 or more", o.Jobs))
	}
	return nil
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

// splitMixes splits lists at commas and spreads ranges of the catalog, such as
// W1..W8, in the catalog's order.
func splitMixes(lists []string) ([]string, error) {
	var out []string
	for _, list := range lists {
		for item := range strings.SplitSeq(list, ",") {
			first, last, isRange := strings.Cut(item, "..")
			switch {
			case item == "":
				return nil, fmt.Errorf("%q: a name is missing between commas", list)
			case isRange && !isMixFile(item):
				names, err := mixRange(first, last)
				if err != nil {
					return nil, fmt.Errorf("%q: %w", item, err)
				}
				out = append(out, names...)
			default:
				out = append(out, item)
			}
		}
	}
	return out, nil
}

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

// splitScheds splits lists at the commas before a scheduler's name: key=value
// after a comma is one more parameter of the scheduler before it.
func splitScheds(lists []string) ([]string, error) {
	var out []string
	for _, list := range lists {
		named := false // a scheduler of this list came before
		for item := range strings.SplitSeq(list, ",") {
			key, _, isParameter := strings.Cut(item, "=")
			isParameter = isParameter && !strings.Contains(key, ":")
			switch {
			case item == "":
				return nil, fmt.Errorf("%q: a name is missing between commas", list)
			case isParameter && !named:
				return nil, fmt.Errorf("%q: %s is a parameter of no scheduler: write sa,case-alg3:queue=fifo,age-limit=8", list, item)
			case isParameter && strings.Contains(out[len(out)-1], ":"):
				out[len(out)-1] += "," + item
			case isParameter:
				out[len(out)-1] += ":" + item
			default:
				out, named = append(out, item), true
			}
		}
	}
	return out, nil
}
