package regress

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results/stats"
)

// StoreHint says how a command that the user may enter finds a store: with a flag, " --db x.db" or none, and, behind the command, what to do
// before if the store is in a bundle.
type StoreHint struct{ Flag, Unpack string }

// Settle says how many repetitions would probably settle what the gate could not, and with which
// commands; nil if there is nothing to settle, or no number is known.
func (r Report) Settle(in StoreHint) []string {
	var needs []int
	for _, c := range r.Checks {
		if c.Class.Unsettled() {
			needs = append(needs, c.Settles)
		}
	}
	return settle(needs, "unsettled checks", in, r.Pairs)
}

// Settle is Report.Settle for the rows that are inconclusive.
func (r Result) Settle(in StoreHint) []string {
	var needs []int
	for _, row := range r.Rows {
		if row.Verdict == stats.Inconclusive {
			needs = append(needs, row.Settles)
		}
	}
	return settle(needs, "inconclusive results", in, r.pairs)
}

func settle(needs []int, what string, in StoreHint, compared []Pair) []string {
	known := slices.DeleteFunc(slices.Clone(needs), func(n int) bool { return n == 0 })
	if len(known) == 0 {
		return nil
	}
	n := slices.Max(known)
	text := fmt.Sprintf("about %d repetitions of each arm would settle %d of %d %s", n, len(known), len(needs), what)
	if commands := extending(compared, n, in.Flag); commands != "" {
		text += ": " + commands + in.Unpack
	}
	return []string{text}
}

// extending are the commands that give the compared arms n repetitions; empty if runs are of no sweep. An arm has its repetitions from all
// its sweeps together.
func extending(compared []Pair, n int, storeFlag string) string {
	wanted, made := map[int64]int{}, map[int64]int{} // repetitions of each arm, by sweep
	for _, p := range compared {
		for _, runs := range [][]Observation{p.ARuns, p.BRuns} {
			own := map[int64]int{}
			for _, o := range runs {
				if o.Sweep == nil {
					return ""
				}
				own[*o.Sweep]++
			}
			for id, runs := range own {
				wanted[id] = max(wanted[id], int(math.Ceil(float64(n)/float64(len(own)))))
				made[id] = max(made[id], runs)
			}
		}
	}
	var commands []string
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[id] > made[id] {
			commands = append(commands, fmt.Sprintf("caserun sweep --resume %d --reps %d%s", id, wanted[id], storeFlag))
		}
	}
	return strings.Join(commands, " && ")
}
