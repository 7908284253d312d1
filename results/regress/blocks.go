package regress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// blocks groups pairs that differ in their mixes alone, so that what they share is tested over all
// their mixes. A group has two mixes at least; of a mix and a part of that mix, it has the one with
// more jobs. The order is that of the groups' first pairs.
func blocks(pairs []Pair) [][]Pair {
	type way struct{ a, b results.Arm }
	var order []way
	groups := map[way][]Pair{}
	for _, p := range pairs {
		w := way{p.A.WithoutMix(), p.B.WithoutMix()}
		if groups[w] == nil {
			order = append(order, w)
		}
		switch at := slices.IndexFunc(groups[w], func(o Pair) bool { return o.A.Mix == p.A.Mix || o.B.Mix == p.B.Mix }); {
		case at < 0:
			groups[w] = append(groups[w], p)
		case p.A.Jobs > groups[w][at].A.Jobs:
			groups[w][at] = p
		}
	}
	var out [][]Pair
	for _, w := range order {
		if len(groups[w]) > 1 {
			out = append(out, groups[w])
		}
	}
	return out
}

// single is a block for each pair.
func single(pairs []Pair) (out [][]Pair) {
	for _, p := range pairs {
		out = append(out, []Pair{p})
	}
	return out
}

// merged is the pair of the arms over all mixes of a block.
func merged(block []Pair) Pair {
	out := Pair{A: block[0].A, B: block[0].B}
	var a, b []string
	for _, p := range block {
		out.byNights = out.byNights || p.byNights
		out.ARuns, out.BRuns = append(out.ARuns, p.ARuns...), append(out.BRuns, p.BRuns...)
		a, b = append(a, p.A.Mix), append(b, p.B.Mix)
		for _, d := range p.environment {
			if !slices.ContainsFunc(out.environment, func(o Difference) bool { return o.Kind == d.Kind }) {
				out.environment = append(out.environment, d)
			}
		}
	}
	out.A.Mix, out.A.Jobs, out.B.Mix, out.B.Jobs = spanOf(a), 0, spanOf(b), 0
	return out
}

// spanOf names mixes, as W1..W8, or as "3 mixes" if their names are not in a row.
func spanOf(mixes []string) string {
	last := mixes[len(mixes)-1]
	letters := strings.TrimRight(mixes[0], "0123456789")
	var first int
	if _, err := fmt.Sscanf(strings.TrimPrefix(mixes[0], letters), "%d", &first); err == nil && len(mixes) > 2 {
		inRow := true
		for i, mix := range mixes {
			inRow = inRow && mix == fmt.Sprintf("%s%d", letters, first+i)
		}
		if inRow {
			return mixes[0] + ".." + last
		}
	}
	if names := strings.Join(mixes, ", "); len(names) <= 12 {
		return names
	}
	return fmt.Sprintf("%d mixes", len(mixes))
}

// strata are a metric's values in each mix of a block, on each machine. Mixes without noise are left out
// if others have noise: their one sample has no interval.
func strata(block []Pair, values func([]Observation) []float64) []stats.Stratum {
	var out []stats.Stratum
	for _, p := range block {
		if !p.noiseFree || !anyNoise(block) {
			out = append(out, byBlock(p.ARuns, p.BRuns, values)...)
		}
	}
	return out
}

// anyNoise reports whether a block has a mix whose figures have noise.
func anyNoise(block []Pair) bool {
	return slices.ContainsFunc(block, func(p Pair) bool { return !p.noiseFree })
}
