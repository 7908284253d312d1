package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// appendTo appends what split makes of a list.
func appendTo[T any](all *[]T, split func(string) ([]T, error), list string) error {
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
	n, err := input.Int(text)
	switch {
	case errors.Is(err, strconv.ErrRange) && !strings.HasPrefix(text, "-"):
		return fmt.Errorf("want a whole number from %d to %d", a.min, math.MaxInt)
	case err != nil || n < a.min:
		return fmt.Errorf("want a whole number, %d or more%s", a.min, spelling(text))
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

// splitProbes splits a list at commas.
func splitProbes(list string) (out []results.Probe, err error) {
	items, err := input.List(list)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		var p results.Probe
		if err := p.UnmarshalText([]byte(item)); err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// probeValue is a flag's probe.
type probeValue struct{ results.Probe }

func (p *probeValue) Set(text string) error { return p.UnmarshalText([]byte(text)) }

func (*probeValue) Type() string { return "string" }

// splitMixes splits a list at commas and spreads ranges and patterns of the catalog.
func splitMixes(list string) ([]string, error) {
	items, err := input.List(list)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, item := range items {
		names, err := spreadMixes(item)
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
	if i := slices.IndexFunc(names, suites.IsMixFile); i >= 0 {
		return nil, fmt.Errorf("%s is a file: name mixes of the catalog", names[i])
	}
	return names, err
}

// spreadMixes is a mix, or the mixes of a range such as W1..W8 or of a pattern such as D-*, in
// the catalog's order.
func spreadMixes(item string) ([]string, error) {
	first, last, isRange := strings.Cut(item, "..")
	if ends := hyphenRange.FindStringSubmatch(item); ends != nil { // W1-W8, as people write it too
		first, last, isRange = ends[1], ends[2], true
	}
	switch {
	case isRange && !suites.IsMixFile(item):
		names, err := mixRange(first, last)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		return names, nil
	case !suites.IsMixFile(item) && strings.ContainsAny(item, "*?["):
		return mixes.Match(item)
	case !suites.IsMixFile(item):
		if _, err := suites.Lookup(item); err != nil {
			return nil, err
		}
	}
	return []string{item}, nil
}

// hyphenRange matches two names with a number at their end and a hyphen between. No mix of the catalog does, and no
// pattern.
var hyphenRange = regexp.MustCompile(`^([^-*?[]*[0-9])-([^-*?[]*[0-9])$`)

// NoRange refuses a range of mixes where a command takes one mix.
func NoRange(item string) error {
	names, err := spreadMixes(item)
	switch {
	case errors.As(err, new(backwardsError)):
		return err
	case err == nil && len(names) > 1:
		return fmt.Errorf("%s is %d mixes: name one; caserun sweep --mixes takes several", item, len(names))
	}
	return nil
}

// backwardsError is a range whose end comes before its begin.
type backwardsError struct{ first, last string }

func (e backwardsError) Error() string {
	return fmt.Sprintf("the range is backwards: want %s..%s", e.last, e.first)
}

// mixRange is the names from first to last, which differ in the number at their end.
func mixRange(first, last string) ([]string, error) {
	prefix := strings.TrimRight(first, "0123456789")
	from, errFrom := input.Int(first[len(prefix):])
	rest, samePrefix := strings.CutPrefix(last, prefix)
	if strings.Trim(last, "0123456789") == "" { // W1..8
		rest, samePrefix, last = last, true, prefix+last
	}
	to, errTo := input.Int(rest)
	if errFrom != nil || errTo != nil || !samePrefix {
		return nil, errors.New("want a range of mixes as W1..W8")
	}
	for _, end := range []string{first, last} { // also bounds the range by the catalog's
		if _, err := mixes.Lookup(end); err != nil {
			return nil, err
		}
	}
	if from > to {
		return nil, backwardsError{first, last}
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
	items, err := input.List(list)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, item := range items {
		key, _, isParameter := strings.Cut(item, "=")
		isParameter = isParameter && !strings.Contains(key, ":")
		if meant := policies.NameMeant(item); meant != "" {
			return nil, fmt.Errorf("%s: %s", item, meant)
		}
		switch {
		case isParameter && len(out) == 0:
			return nil, fmt.Errorf("%s is a parameter without a scheduler: write sa,case-alg3:queue=fifo,age-limit=8", item)
		case isParameter:
			out[len(out)-1] = policies.With(out[len(out)-1], item)
		default:
			out = append(out, item)
		}
	}
	return spreadScheds(out)
}

// spreadScheds spreads schedulers whose parameters have several values.
func spreadScheds(texts []string) (out []string, err error) {
	for _, text := range texts {
		if err = appendTo(&out, cluster.Spread, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}
