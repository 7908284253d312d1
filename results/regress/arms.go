package regress

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
)

// Arm is what repetitions repeat. Traced runs are arms of their own, because
// tracing costs time; so are runs of a part of a mix.
type Arm struct {
	Mix, Scheduler, Parameters, Node string
	Mode                             results.Mode
	Jobs                             int
	Traced                           bool
}

func armOf(r results.Run) Arm {
	return Arm{r.Mix, r.Scheduler, r.Parameters, r.Node, r.Mode, r.Jobs, r.Traced}
}

// String is "W7 under case-alg3 on local, traced".
func (a Arm) String() string {
	s := fmt.Sprintf("%s under %s on %s", a.Mix, a.Scheduler, a.Node)
	if a.Mode == results.Simulated {
		s += ", simulated"
	}
	if a.Traced {
		s += ", traced"
	}
	return s
}

func (a Arm) compare(b Arm) int {
	traced := func(a Arm) int {
		if a.Traced {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Mix, b.Mix), cmp.Compare(a.Scheduler, b.Scheduler), cmp.Compare(a.Parameters, b.Parameters),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(traced(a), traced(b)))
}

// Side is one side of a comparison: runs and what the user called them.
type Side struct {
	Label string
	Runs  []Observation
	Notes []string // what a reader must know of how the runs were found
}

// arms groups the side's measurements. A run that is not complete is none.
func (s Side) arms() (arms map[Arm][]Observation, notes []string) {
	arms = map[Arm][]Observation{}
	incomplete := 0
	for _, o := range s.Runs {
		if o.Status != results.Complete {
			incomplete++
			continue
		}
		arm := armOf(o.Run)
		arms[arm] = append(arms[arm], o)
	}
	notes = slices.Clone(s.Notes)
	if incomplete > 0 {
		notes = append(notes, fmt.Sprintf("runs of %s that are not complete, and are left out: %d", s.Label, incomplete))
	}
	if found := machines(s.Runs); found != "" {
		notes = append(notes, fmt.Sprintf("runs of %s are of several machines (%s): what differs between those is in its figures", s.Label, found))
	}
	return arms, notes
}

// shared tells how many runs are on both sides.
func shared(a, b Side) []string {
	ids := map[int64]bool{}
	for _, o := range a.Runs {
		ids[o.ID] = o.ID != 0
	}
	n := 0
	for _, o := range b.Runs {
		if ids[o.ID] {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("runs in both %s and %s, which are therefore not independent: %d", a.Label, b.Label, n)}
}

// Pair is an arm of each side, to be compared.
type Pair struct {
	A, B         Arm
	ARuns, BRuns []Observation
	// Warnings say in what the arms or their environments differ.
	Warnings []string
	// Environment is the part of them that can change a figure by itself.
	Environment []Difference
}

// ErrAmbiguous: the sides do not say which of their arms to compare.
var ErrAmbiguous = errors.New("which arms to compare is not clear")

// exactPairs pairs arms that are the same on both sides, and returns those that
// only one side has.
func exactPairs(a, b map[Arm][]Observation) (pairs []Pair, onlyA, onlyB []Arm) {
	for _, arm := range sorted(a) {
		if _, both := b[arm]; both {
			pairs = append(pairs, newPair(arm, arm, a[arm], b[arm]))
		} else {
			onlyA = append(onlyA, arm)
		}
	}
	for _, arm := range sorted(b) {
		if _, both := a[arm]; !both {
			onlyB = append(onlyB, arm)
		}
	}
	return pairs, onlyA, onlyB
}

// pairsOf pairs the same arms; where there are none, arms that differ in the
// scheduler alone; where each side has but one, these.
func pairsOf(a, b map[Arm][]Observation) (pairs []Pair, onlyA, onlyB []Arm, err error) {
	if pairs, onlyA, onlyB = exactPairs(a, b); len(pairs) > 0 {
		return pairs, onlyA, onlyB, nil
	}
	if len(a) == 1 && len(b) == 1 {
		x, y := sorted(a)[0], sorted(b)[0]
		return []Pair{newPair(x, y, a[x], b[y])}, nil, nil, nil
	}
	loose := func(arm Arm) Arm {
		arm.Scheduler, arm.Parameters = "", ""
		return arm
	}
	partners := map[Arm][]Arm{}
	for _, arm := range sorted(b) {
		partners[loose(arm)] = append(partners[loose(arm)], arm)
	}
	taken := map[Arm]Arm{}
	onlyA, onlyB = nil, nil
	for _, x := range sorted(a) {
		found := partners[loose(x)]
		if len(found) == 0 {
			onlyA = append(onlyA, x)
			continue
		}
		other, twice := taken[found[0]]
		switch {
		case len(found) > 1:
			return nil, nil, nil, fmt.Errorf("%w: %s could be %s or %s; name one scheduler, as in sweep:3/%s",
				ErrAmbiguous, x, found[0], found[1], found[0].Scheduler)
		case twice:
			return nil, nil, nil, fmt.Errorf("%w: %s could be %s or %s; name one scheduler, as in sweep:3/%s",
				ErrAmbiguous, found[0], other, x, x.Scheduler)
		}
		taken[found[0]] = x
		pairs = append(pairs, newPair(x, found[0], a[x], b[found[0]]))
	}
	for _, y := range sorted(b) {
		if _, paired := taken[y]; !paired {
			onlyB = append(onlyB, y)
		}
	}
	return pairs, onlyA, onlyB, nil
}

func sorted(arms map[Arm][]Observation) []Arm {
	out := make([]Arm, 0, len(arms))
	for arm := range arms {
		out = append(out, arm)
	}
	slices.SortFunc(out, Arm.compare)
	return out
}

func newPair(a, b Arm, aRuns, bRuns []Observation) Pair {
	p := Pair{A: a, B: b, ARuns: aRuns, BRuns: bRuns}
	warn := func(differs bool, format string, args ...any) {
		if differs {
			p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
		}
	}
	warn(a.Mode != b.Mode, "SIMULATED figures are compared with measured ones: %s and %s", a, b)
	warn(a.Traced != b.Traced, "traced runs are compared with untraced ones, and tracing costs time: %s and %s", a, b)
	warn(a.Mix != b.Mix || a.Jobs != b.Jobs, "the batches differ: %s (%d jobs) and %s (%d jobs)", a.Mix, a.Jobs, b.Mix, b.Jobs)
	warn(a.Node != b.Node && a.Mode == b.Mode, "the nodes differ: %s and %s", a.Node, b.Node)
	warn(a.Scheduler == b.Scheduler && a.Parameters != b.Parameters, "parameters of %s differ: %s and %s", a.Scheduler, a.Parameters, b.Parameters)
	warn(repeatsItself(aRuns) || repeatsItself(bRuns),
		"a simulated run without noise repeats itself: its repetitions are one, and p means nothing (sweep with --sim-noise)")
	p.Environment = environment(aRuns, bRuns)
	for _, d := range p.Environment {
		p.Warnings = append(p.Warnings, d.String())
	}
	for _, d := range versions(aRuns, bRuns) {
		p.Warnings = append(p.Warnings, d.String())
	}
	if lost(aRuns)+lost(bRuns) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("jobs crashed (%d and %d): turnaround is over the others", lost(aRuns), lost(bRuns)))
	}
	return p
}

// repeatsItself reports whether repetitions are copies of one simulated run.
func repeatsItself(runs []Observation) bool {
	for _, o := range runs {
		first := runs[0].Metrics
		if o.Mode != results.Simulated || o.Metrics.MakespanS == nil || first.MakespanS == nil || *o.Metrics.MakespanS != *first.MakespanS {
			return false
		}
	}
	return len(runs) > 1
}

func lost(runs []Observation) int {
	n := 0
	for _, o := range runs {
		n += o.Metrics.Crashed
	}
	return n
}

// Title names the arm, or both where they differ.
func (p Pair) Title() string {
	if p.A == p.B {
		return p.A.String()
	}
	return p.A.String() + " and " + p.B.String()
}

// remarks are the warnings of pairs, each once, with the pairs that it is about
// unless it is about all.
func remarks(pairs []Pair) []string {
	var order []string
	about := map[string][]string{}
	for _, p := range pairs {
		for _, w := range p.Warnings {
			if len(about[w]) == 0 {
				order = append(order, w)
			}
			about[w] = append(about[w], p.Title())
		}
	}
	for i, w := range order {
		switch n := len(about[w]); {
		case n == len(pairs):
		case n == 1:
			order[i] = about[w][0] + ": " + w
		default:
			order[i] = fmt.Sprintf("%s and %d more: %s", about[w][0], n-1, w)
		}
	}
	return order
}
