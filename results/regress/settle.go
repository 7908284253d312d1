package regress

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// StoreHint says how a command that the user may enter finds a store: with a flag, " --db x.db" or none, and, behind the command, what to do
// before if the store is in a bundle.
type StoreHint struct{ Flag, Unpack string }

// Settle says how many repetitions would probably settle what the gate could not, and with which
// commands; nil if there is nothing to settle, or no number is known.
func (r Report) Settle(in StoreHint, sides ...Side) []string {
	var needs []int
	for _, c := range r.Checks {
		if c.Class.Unsettled() {
			needs = append(needs, c.Settles)
		}
	}
	return settle(needs, "unsettled checks", in, sides)
}

// Settle is Report.Settle for the rows that are inconclusive.
func (r Result) Settle(in StoreHint, sides ...Side) []string {
	var needs []int
	for _, row := range r.Rows {
		if row.Verdict == stats.Inconclusive {
			needs = append(needs, row.Settles)
		}
	}
	return settle(needs, "inconclusive results", in, sides)
}

func settle(needs []int, what string, in StoreHint, sides []Side) []string {
	known := slices.DeleteFunc(slices.Clone(needs), func(n int) bool { return n == 0 })
	if len(known) == 0 {
		return nil
	}
	n := slices.Max(known)
	text := fmt.Sprintf("about %d repetitions of each arm would settle %d of %d %s", n, len(known), len(needs), what)
	if commands := extending(sides, n, in.Flag); commands != "" {
		text += ": " + commands + in.Unpack
	}
	return []string{text}
}

// extending are the commands that give the sides' arms n repetitions; empty if runs are of no sweep.
func extending(sides []Side, n int, storeFlag string) string {
	var commands []string
	for _, s := range sides {
		var sweeps []int64
		for _, o := range s.Runs {
			switch {
			case o.Status != results.Complete:
			case o.Sweep == nil:
				return ""
			case !slices.Contains(sweeps, *o.Sweep):
				sweeps = append(sweeps, *o.Sweep)
			}
		}
		slices.Sort(sweeps)
		for _, id := range sweeps {
			each := int(math.Ceil(float64(n) / float64(len(sweeps))))
			command := fmt.Sprintf("caserun sweep --resume %d --reps %d%s", id, each, storeFlag)
			if !slices.Contains(commands, command) {
				commands = append(commands, command)
			}
		}
	}
	return strings.Join(commands, " && ")
}
