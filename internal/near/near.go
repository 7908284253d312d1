// Package near finds the names that a misspelt name may stand for.
package near

import (
	"cmp"
	"slices"
	"strings"
)

// most is how many names are offered at most.
const most = 3

// mostAlike is how many are offered at most if more than that are as near as the last of them.
const mostAlike = 8

// fold makes names alike that differ in case and in what stands between their words.
var fold = strings.NewReplacer("-", "", "_", "", " ", "")

// alike are the candidates that resemble name, the nearest first: at most three, or eight if the third and the next are
// equally near. Case, hyphens, underscores and spaces do not count. A candidate resembles a name that it differs from in a
// third of the letters or less, and a name of three letters or more that it begins or ends with.
func alike(name string, candidates []string) []string {
	type scored struct {
		name string
		far  int
	}
	name = fold.Replace(strings.ToLower(name))
	var found []scored
	for _, candidate := range candidates {
		c := fold.Replace(strings.ToLower(candidate))
		far := distance(name, c)
		part := len(name) >= 3 && (strings.HasPrefix(c, name) || strings.HasSuffix(c, name))
		if part || far <= max(1, min(len(name), len(c))/3) && far < max(len(name), len(c)) {
			found = append(found, scored{candidate, far})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(a.far, b.far) })
	var names []string
	offered := min(len(found), most)
	for offered < len(found) && found[offered].far == found[most-1].far {
		offered++
	}
	if offered > mostAlike {
		offered = most
	}
	for _, f := range found[:offered] {
		names = append(names, f.name)
		if f.far == 0 {
			break
		}
	}
	return names
}

// DidYouMean asks whether one of the candidates that resemble name is meant, each with a prefix such as --. It is empty
// if none does.
func DidYouMean(prefix, name string, candidates []string) string {
	names := alike(name, candidates)
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}

// OrKnown is DidYouMean, or all candidates if none resembles name.
func OrKnown(name string, candidates []string) string {
	if hint := DidYouMean("", name, candidates); hint != "" {
		return hint
	}
	return "known are " + strings.Join(candidates, ", ")
}

// distance is the optimal string alignment distance in bytes: how many letters are inserted, removed,
// replaced, or exchanged with the next one. For long names, which resemble no candidate, it is the longer length.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
