package mixes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns "did you mean X or Y?" with the candidates that are a few typing errors away
// from name. If there are none it lists all candidates.
func didYouMean(name string, candidates []string) string {
	type scored struct {
		name string
		far  int
	}
	var near []scored
	for _, c := range candidates {
		far := editDistance(strings.ToLower(name), strings.ToLower(c))
		if far <= max(1, min(len(name), len(c))/3) {
			near = append(near, scored{c, far})
		}
	}
	if len(near) == 0 {
		return "known are " + strings.Join(candidates, ", ")
	}
	slices.SortStableFunc(near, func(a, b scored) int { return cmp.Compare(a.far, b.far) })
	names := make([]string, 0, 3)
	for _, n := range near[:min(len(near), 3)] {
		names = append(names, n.name)
	}
	return fmt.Sprintf("did you mean %s?", strings.Join(names, " or "))
}

// editDistance is the Levenshtein distance in bytes. For long names, which cannot resemble a
// candidate, it returns the longer length.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
