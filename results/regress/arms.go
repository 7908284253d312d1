package regress

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
)

// Side is one side of a comparison: runs and the user's name for them.
type Side struct {
	Label string
	Runs  []Observation
	Notes []string // what a reader must know of how the runs were found
	// Scheduler is the one that the user named, perhaps with parameters; empty if the runs may be under
	// several.
	Scheduler string
	// Doubted takes doubtful runs in, which may not have measured their jobs.
	Doubted bool
}

// under is the user's name for the side's runs under one scheduler.
func (s Side) under(scheduler string) string {
	label := s.Label
	if s.Scheduler != "" {
		label = strings.TrimSuffix(label, "/"+s.Scheduler)
	}
	return label + "/" + scheduler
}

// arms groups the side's complete runs by arm and adds their settings. Incomplete runs are not
// measurements, doubtful ones may be none, and copies are not samples of their own.
func (s Side) arms() map[results.Arm][]Observation {
	arms := map[results.Arm][]Observation{}
	copies := results.Copies(Rows(s.Runs))
	for i, o := range s.Runs {
		if o.Status == results.Complete && !copies[i] && (s.Doubted || o.Doubts == "") {
			o.settings = results.SettingsOf(o.Run)
			arm := results.ArmOf(o.Run)
			arms[arm] = append(arms[arm], o)
		}
	}
	return arms
}

// Rows are the rows of runs in the store.
func Rows(runs []Observation) []results.Run {
	out := make([]results.Run, len(runs))
	for i, o := range runs {
		out[i] = o.Run
	}
	return out
}

// namesOf names the arms of both sides.
func namesOf(a, b map[results.Arm][]Observation) results.Names {
	return results.NamesOf(ofArms(a), ofArms(b))
}

// ofArms are the rows of all arms' runs, in the order of the store.
func ofArms(arms map[results.Arm][]Observation) []results.Run {
	var runs []results.Run
	for _, arm := range slices.SortedFunc(maps.Keys(arms), results.Arm.Compare) {
		runs = append(runs, Rows(arms[arm])...)
	}
	slices.SortStableFunc(runs, func(x, y results.Run) int { return cmp.Compare(x.ID, y.ID) })
	return runs
}

// notes returns what a reader must know of the side.
func (s Side) notes(arms map[results.Arm][]Observation, names results.Names) []string {
	notes := slices.Clone(s.Notes)
	incomplete, again, doubtful := 0, 0, 0
	for i, copied := range results.Copies(Rows(s.Runs)) {
		switch {
		case copied:
			again++
		case s.Runs[i].Status != results.Complete:
			incomplete++
		case s.Runs[i].Doubts != "":
			doubtful++
		}
	}
	if doubtful > 0 && s.Doubted {
		notes = append(notes, fmt.Sprintf("runs of %s that are doubtful, and are taken in: %d; caserun report of one says why", s.Label, doubtful))
	} else if doubtful > 0 {
		notes = append(notes, fmt.Sprintf("runs of %s that are doubtful, and are left out: %d; caserun report of one says why, and --doubted takes them in", s.Label, doubtful))
	}
	if again > 0 {
		notes = append(notes, s.Label+": "+results.SaysCopies(again))
	}
	if incomplete > 0 {
		notes = append(notes, fmt.Sprintf("runs of %s that are not complete, and are left out: %d", s.Label, incomplete))
	}
	deadRuns := 0
	for _, runs := range arms {
		for _, o := range runs {
			if o.Metrics.OK == 0 {
				deadRuns++
			}
		}
	}
	if deadRuns > 0 {
		notes = append(notes, fmt.Sprintf("runs of %s in which no job ended ok: %d; they have no turnaround, makespan and energy", s.Label, deadRuns))
	}
	notes = append(notes, sizes(s.Label, arms)...)
	notes = append(notes, contents(s.Label, arms, names)...)
	if found := machines(s.Runs); found != "" {
		notes = append(notes, fmt.Sprintf("runs of %s are of several machines (%s)", s.Label, found))
	}
	return notes
}

// ofOpenLoad says which of the arms are of open load.
func (s Side) ofOpenLoad(arms map[results.Arm][]Observation) []string {
	open := openLoads(arms)
	if open == "" {
		return nil
	}
	return []string{fmt.Sprintf("runs of %s are of open load (%s): makespan and throughput say mostly when jobs arrive, so compare turnaround, the time in the system", s.Label, open)}
}

// openLoads are the mixes whose jobs arrive at times of their own, marked where the backlog grew.
func openLoads(arms map[results.Arm][]Observation) string {
	grew := map[string]int{}
	for _, observed := range arms {
		for _, o := range observed {
			if o.Arrivals == nil {
				continue
			}
			n := grew[o.Mix]
			if o.BacklogGrows() {
				n++
			}
			grew[o.Mix] = n
		}
	}
	var out []string
	for _, mix := range slices.Sorted(maps.Keys(grew)) {
		if n := grew[mix]; n > 0 {
			mix += fmt.Sprintf(", whose backlog grew in %s: such times are not steady", size.Count(n, "run"))
		}
		out = append(out, mix)
	}
	return strings.Join(out, "; ")
}

// sizes returns a note for each mix whose runs have different numbers of jobs, as after
// --isolate-faults.
func sizes(label string, arms map[results.Arm][]Observation) []string {
	found := map[string][]int{}
	for arm := range arms {
		found[arm.Mix] = append(found[arm.Mix], arm.Jobs)
	}
	var notes []string
	for _, mix := range slices.Sorted(maps.Keys(found)) {
		slices.Sort(found[mix])
		if jobs := slices.Compact(found[mix]); len(jobs) > 1 {
			notes = append(notes, fmt.Sprintf("runs of %s called %s have different numbers of jobs (%s), and are compared with runs of as many only",
				label, mix, strings.Trim(fmt.Sprint(jobs), "[]")))
		}
	}
	return notes
}

// contents returns a note for the arms whose runs are of different mixes of the same name, or ran with different settings: each
// note once, with the first of its arms.
func contents(label string, arms map[results.Arm][]Observation, names results.Names) []string {
	var order []string
	about := map[string][]string{}
	say := func(arm results.Arm, text string) {
		if about[text] == nil {
			order = append(order, text)
		}
		about[text] = append(about[text], names.Of(arm))
	}
	for _, arm := range names.Sorted(maps.Keys(arms)) {
		if found := mixes(arms[arm]); found != "" {
			say(arm, fmt.Sprintf("are of different mixes of that name (%s), and are taken together", found))
		}
		if found := severalSettings(arms[arm]); found != "" {
			say(arm, fmt.Sprintf("have different settings (%s), and are taken together", found))
		}
	}
	for i, text := range order {
		order[i] = fmt.Sprintf("runs of %s called %s %s", label, size.Few(about[text], 1, ", "), text)
	}
	return order
}

// ErrNotApart means that both sides have runs in common and both have further runs, or that
// they are the same runs.
var ErrNotApart = errors.New("each side needs runs of its own")

// Apart gives runs that are on both sides to the side that has no other runs, so that no run is
// compared with itself. For example, a tag is compared with one of its sweeps: the tag's side
// keeps only the runs outside the sweep.
func Apart(a, b Side) (Side, Side, error) {
	ofA, ofB := a.without(b), b.without(a)
	n := len(a.Runs) - len(ofA)
	switch {
	case n == 0:
		return a, b, nil
	case len(ofA) > 0 && len(ofB) > 0:
		return a, b, fmt.Errorf("%w: %s and %s have runs in common (%d), and each has others", ErrNotApart, a.Label, b.Label, n)
	case len(ofA) > 0:
		a.Runs, a.Notes = withoutSlowdowns(ofA, b), append(slices.Clone(a.Notes), leftToOther(a, b, n))
	case len(ofB) > 0:
		b.Runs, b.Notes = withoutSlowdowns(ofB, a), append(slices.Clone(b.Notes), leftToOther(b, a, n))
	default:
		return a, b, fmt.Errorf("%w: %s and %s are the same runs", ErrNotApart, a.Label, b.Label)
	}
	return a, b, nil
}

// withoutSlowdowns removes the slowdowns that were computed against runs that belong to the
// other side now.
func withoutSlowdowns(runs []Observation, other Side) []Observation {
	gone := map[results.Arm]bool{}
	for _, o := range other.Runs {
		if arm := results.ArmOf(o.Run); o.Scheduler == "sa" && o.Traced {
			gone[arm.Alone()] = true
		}
	}
	for i, o := range runs {
		if gone[results.ArmOf(o.Run).Alone()] {
			runs[i].Metrics.Slowdown = nil
		}
	}
	return runs
}

func leftToOther(s, other Side, n int) string {
	return fmt.Sprintf("runs that are in both %s and %s are left out of %s: %d", s.Label, other.Label, s.Label, n)
}

// ErrModes means that live runs would be compared with simulated ones.
var ErrModes = errors.New("live and SIMULATED runs are not compared with each other")

// OneMode returns an error that wraps ErrModes if some complete runs of the sides are live and
// others are simulated.
func OneMode(sides ...Side) error {
	var says []string
	found := map[results.Mode]bool{}
	for _, s := range sides {
		n := map[results.Mode]int{}
		for _, o := range s.Runs {
			if o.Status == results.Complete {
				n[o.Mode]++
				found[o.Mode] = true
			}
		}
		says = append(says, fmt.Sprintf("%s has %d live and %d SIMULATED", s.Label, n[results.Live], n[results.Simulated]))
	}
	if len(found) < 2 {
		return nil
	}
	return fmt.Errorf("%w: %s: measure on GPUs (caserun sweep --require-live), or add --allow-simulated", ErrModes, strings.Join(says, ", "))
}

// without returns the side's runs that the other side lacks.
func (s Side) without(other Side) []Observation {
	ids := map[int64]bool{}
	for _, o := range other.Runs {
		ids[o.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(s.Runs), func(o Observation) bool { return ids[o.ID] })
}

// Pair is an arm of each side to compare.
type Pair struct {
	A, B         results.Arm
	ARuns, BRuns []Observation
	// Warnings say how the arms or their environments differ.
	Warnings []string
	// environment has the differences that can change a figure without a change of caserun.
	environment []Difference

	noiseFree bool // a side is one sample, because it was simulated without noise
	byNights  bool // the nights of a side differ, so that they are the sample, and not their runs
}

// ErrAmbiguous means that it is not clear which of the sides' arms to compare.
var ErrAmbiguous = errors.New("which arms to compare is not clear")

// exactPairs pairs equal arms of both sides, and returns the arms that only one side has.
func exactPairs(a, b map[results.Arm][]Observation, names results.Names) (pairs []Pair, onlyA, onlyB []results.Arm) {
	for _, arm := range names.Sorted(maps.Keys(a)) {
		if _, both := b[arm]; both {
			pairs = append(pairs, newPair(arm, arm, a[arm], b[arm], names))
		} else {
			onlyA = append(onlyA, arm)
		}
	}
	for _, arm := range names.Sorted(maps.Keys(b)) {
		if _, both := a[arm]; !both {
			onlyB = append(onlyB, arm)
		}
	}
	return pairs, onlyA, onlyB
}

// pairsOf uses the first of these rules that gives pairs:
//   - equal arms are a pair;
//   - if each side has one arm, the two arms are a pair;
//   - arms that differ only in the scheduler and the probe are a pair.
func pairsOf(a, b map[results.Arm][]Observation, names results.Names) (pairs []Pair, onlyA, onlyB []results.Arm, err error) {
	if pairs, onlyA, onlyB = exactPairs(a, b, names); len(pairs) > 0 {
		return pairs, onlyA, onlyB, nil
	}
	if len(a) == 1 && len(b) == 1 {
		x, y := names.Sorted(maps.Keys(a))[0], names.Sorted(maps.Keys(b))[0]
		return []Pair{newPair(x, y, a[x], b[y], names)}, nil, nil, nil
	}
	return batchPairs(a, b, names)
}

// pairsOfGate are equal arms. If there are none and the user named one scheduler on each side, its arms
// are paired as batchPairs does, if that is clear.
func pairsOfGate(baseline, candidate Side, a, b map[results.Arm][]Observation, names results.Names) (pairs []Pair, onlyA, onlyB []results.Arm) {
	pairs, onlyA, onlyB = exactPairs(a, b, names)
	if len(pairs) > 0 || baseline.Scheduler == "" || candidate.Scheduler == "" {
		return pairs, onlyA, onlyB
	}
	if named, restA, restB, err := batchPairs(a, b, names); err == nil {
		return named, restA, restB
	}
	return pairs, onlyA, onlyB
}

// batchPairs pairs arms that differ only in the scheduler and the probe.
func batchPairs(a, b map[results.Arm][]Observation, names results.Names) (pairs []Pair, onlyA, onlyB []results.Arm, err error) {
	ambiguous := func(arm, one, other results.Arm) error {
		return fmt.Errorf("%w: %s could be %s or %s; name one scheduler, as in sweep:3/%s",
			ErrAmbiguous, names.Of(arm), names.Of(one), names.Of(other), names.Scheduler(one))
	}
	partners := map[results.Arm][]results.Arm{}
	for _, arm := range names.Sorted(maps.Keys(b)) {
		partners[arm.Batch()] = append(partners[arm.Batch()], arm)
	}
	taken := map[results.Arm]results.Arm{}
	for _, x := range names.Sorted(maps.Keys(a)) {
		found := partners[x.Batch()]
		if len(found) == 0 {
			onlyA = append(onlyA, x)
			continue
		}
		other, twice := taken[found[0]]
		switch {
		case len(found) > 1:
			return nil, nil, nil, ambiguous(x, found[0], found[1])
		case twice:
			return nil, nil, nil, ambiguous(found[0], x, other)
		}
		taken[found[0]] = x
		pairs = append(pairs, newPair(x, found[0], a[x], b[found[0]], names))
	}
	for _, y := range names.Sorted(maps.Keys(b)) {
		if _, paired := taken[y]; !paired {
			onlyB = append(onlyB, y)
		}
	}
	return pairs, onlyA, onlyB, nil
}

func newPair(a, b results.Arm, aRuns, bRuns []Observation, names results.Names) Pair {
	aRuns, bRuns, leftOut := sameMachines(aRuns, bRuns)
	common := Machines(aRuns)
	p := Pair{A: a, B: b, ARuns: aRuns, BRuns: bRuns, noiseFree: results.AllNoiseFree(Rows(aRuns)) || results.AllNoiseFree(Rows(bRuns))}
	warn := func(differs bool, format string, args ...any) {
		if differs {
			p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
		}
	}
	warn(a.Mode != b.Mode, "SIMULATED figures are compared with measured ones: %s and %s", names.Of(a), names.Of(b))
	warn(a.Traced != b.Traced, "traced runs are compared with untraced ones, and tracing costs time: %s and %s", names.Of(a), names.Of(b))
	warn(a.Open != b.Open, "a batch is compared with an open load: %s and %s", names.Of(a), names.Of(b))
	warn(a.Mix != b.Mix || a.Jobs != b.Jobs, "the batches differ: %s (%s) and %s (%s)", a.Mix, size.Count(a.Jobs, "job"), b.Mix, size.Count(b.Jobs, "job"))
	warn(a.Node != b.Node && a.Mode == b.Mode, "the nodes differ: %s and %s", a.Node, b.Node)
	warn(a.Scheduler == b.Scheduler && a.Parameters != b.Parameters, "parameters of %s differ: %s and %s", a.Scheduler, a.Parameters, b.Parameters)
	warn(a.Probe != b.Probe, "the probes differ: %s and %s", a.Probe, b.Probe)
	warn(p.noiseFree, results.NoNoise)
	warn(!p.noiseFree && p.shared() > 0, "simulated runs of both sides have the same seeds, and so the same noise: give each side a --seed of its own")
	warn(leftOut != "", "%s", leftOut)
	warn(len(common) > 1 && slices.Equal(common, Machines(bRuns)), "compared machine by machine, on %d", len(common))
	warn(sameNights(aRuns, bRuns), "compared night by night, over %d", len(distinctBlocks(aRuns, nightOf)))
	p.environment = environment(aRuns, bRuns)
	for _, d := range p.environment {
		p.Warnings = append(p.Warnings, d.String())
	}
	from, other := distinct(aRuns, source), distinct(bRuns, source)
	_, said := jobs(aRuns, bRuns)
	warn(a.Mix == b.Mix && from != other && !said, "the mixes called %s have the same commands and come from different places: %s and %s", a.Mix, from, other)
	for _, d := range versions(aRuns, bRuns) {
		p.Warnings = append(p.Warnings, d.String())
	}
	if lost(aRuns)+lost(bRuns) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("jobs crashed (%d and %d): turnaround is over the others, and makespan and throughput are of less work", lost(aRuns), lost(bRuns)))
	}
	return p
}

// shared counts the simulated runs that drew the same noise on both sides.
func (p Pair) shared() int {
	seeds := map[uint64]bool{}
	for _, o := range p.ARuns {
		seeds[o.Seed] = o.Mode == results.Simulated
	}
	n := 0
	for _, o := range p.BRuns {
		if p.A == p.B && seeds[o.Seed] {
			n++
		}
	}
	return n
}

func lost(runs []Observation) int {
	n := 0
	for _, o := range runs {
		n += o.Metrics.Crashed
	}
	return n
}

// title names the arm, or both arms if they differ.
func (p Pair) title(names results.Names) string {
	if p.A == p.B {
		return names.Of(p.A)
	}
	return names.Of(p.A) + " and " + names.Of(p.B)
}

// remarks returns each warning of the pairs once. A warning that does not apply to all pairs
// names the pairs.
func remarks(pairs []Pair, names results.Names) []string {
	var order []string
	about := map[string][]string{}
	for _, p := range pairs {
		for _, w := range p.Warnings {
			if len(about[w]) == 0 {
				order = append(order, w)
			}
			about[w] = append(about[w], p.title(names))
		}
	}
	for i, w := range order {
		if len(about[w]) != len(pairs) {
			order[i] = size.Few(about[w], 1, ", ") + ": " + w
		}
	}
	return order
}
