package regress

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results/stats"
)

// StoreHint says how a command that the user may enter finds a store: with a flag, " --db x.db" or none, and, behind the
// command, what to do before if the store is in a bundle. Sweep says which of its sweeps can be extended; nil: all.
type StoreHint struct {
	Flag, Unpack string
	Sweep        func(id int64) SweepHint
}

// SweepHint says whether a sweep can be given more repetitions that repeat its runs: by the same build, on the same
// machine, of the same jobs.
type SweepHint struct {
	Fixed string // why not; empty: it can
	Again string // the command that measures the same anew, without its repetitions, tag and store; empty: unknown
}

// Settle says how many repetitions would probably settle what the gate could not, and with which
// commands; nil if there is nothing to settle, or no number is known.
func (r Report) Settle(in StoreHint) []string {
	var needs []int
	for _, c := range r.Checks {
		if c.Class.Unsettled() {
			needs = append(needs, c.Settles)
		}
	}
	return settle(needs, "unsettled check", in, r.Pairs)
}

// Settle is Report.Settle for the rows that are inconclusive.
func (r Result) Settle(in StoreHint) []string {
	var needs []int
	for _, row := range r.Rows {
		if row.Verdict == stats.Inconclusive {
			needs = append(needs, row.Settles)
		}
	}
	return settle(needs, "inconclusive result", in, r.pairs)
}

func settle(needs []int, what string, in StoreHint, compared []Pair) []string {
	known := slices.DeleteFunc(slices.Clone(needs), func(n int) bool { return n == 0 })
	if len(known) == 0 {
		return nil
	}
	n := slices.Max(known)
	text := fmt.Sprintf("about %s of each arm would settle %d of %s", size.Count(n, "repetition"), len(known), size.Count(len(needs), what))
	commands, fixed := extending(compared, n, in)
	if commands != "" {
		text += ": " + commands + in.Unpack
	}
	return append([]string{text}, fixed...)
}

// lack is a sweep of a side that has fewer repetitions than are wanted.
type lack struct {
	sweep        int64
	wanted, made int
	tag          string
	baseline     bool
	elsewhere    string // in what its runs differ from the other side's
}

// lacking are the sweeps that need more runs, if the compared arms are to have n repetitions; nil if runs are of no
// sweep. An arm has its repetitions from all its sweeps together.
func lacking(compared []Pair, n int) []lack {
	found := map[int64]*lack{}
	for _, p := range compared {
		for side, runs := range [][]Observation{p.ARuns, p.BRuns} {
			own := map[int64]int{}
			for _, o := range runs {
				if o.Sweep == nil {
					return nil
				}
				own[*o.Sweep]++
				if found[*o.Sweep] == nil {
					found[*o.Sweep] = &lack{sweep: *o.Sweep, tag: o.Tag, baseline: side == 0}
				}
			}
			for id, runs := range own {
				l := found[id]
				l.wanted, l.made = max(l.wanted, int(math.Ceil(float64(n)/float64(len(own))))), max(l.made, runs)
				if l.baseline {
					l.elsewhere = cmp.Or(l.elsewhere, elsewhere(p))
				}
			}
		}
	}
	var out []lack
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if l := found[id]; l.wanted > l.made {
			out = append(out, *l)
		}
	}
	return out
}

// elsewhere names in what the environment of B's runs differs from A's, so that A cannot have more runs where B
// was measured. Jobs and settings come with the plan of a sweep.
func elsewhere(p Pair) string {
	for _, d := range p.environment {
		if d.Kind != "jobs" && d.Kind != "settings" {
			return d.String()
		}
	}
	return ""
}

// extending are the commands that give the compared arms n repetitions, and notes on sweeps that cannot be
// extended, each with the command that measures anew. Runs of another build, another machine or other jobs are
// never added to a sweep.
func extending(compared []Pair, n int, in StoreHint) (commands string, fixed []string) {
	var extend []string
	said := map[string]bool{} // of each side and reason one sweep is named
	for _, l := range lacking(compared, n) {
		var hint SweepHint
		if in.Sweep != nil {
			hint = in.Sweep(l.sweep)
		}
		if hint.Fixed == "" {
			hint.Fixed = l.elsewhere
		}
		if hint.Fixed == "" {
			extend = append(extend, fmt.Sprintf("caserun sweep --resume %d --reps %d%s", l.sweep, l.wanted, in.Flag))
			continue
		}
		what := "Measure the candidate anew"
		if l.baseline {
			what = "Make a new baseline"
		}
		if said[what+hint.Fixed] {
			continue
		}
		said[what+hint.Fixed] = true
		text := fmt.Sprintf("sweep %d (%s) cannot be extended: %s. %s", l.sweep, cmp.Or(l.tag, "no tag"), hint.Fixed, what)
		if hint.Again != "" {
			tag := fmt.Sprintf("%s-%d", cmp.Or(l.tag, "again"), n)
			text += fmt.Sprintf(", of the tag %s: %s --reps %d --tag %s%s", tag, hint.Again, n, input.ShellWord(tag), in.Flag)
		}
		fixed = append(fixed, text+in.Unpack)
	}
	return strings.Join(extend, " && "), fixed
}
