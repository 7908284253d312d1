package results

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
)

// Arm is what repetitions repeat. Traced runs are an arm of their own, because tracing costs
// time. So are runs of a part of a mix (as --isolate-faults makes them): their Jobs differs. An open load says other things
// than a batch, so the two are never one figure.
type Arm struct {
	Mix, Scheduler, Parameters, Node string
	Mode                             Mode
	Jobs                             int
	Traced, Open                     bool
	Probe                            Probe
}

// ArmOf returns the arm of which a run is a repetition. Parameters that had no effect do not count.
func ArmOf(r Run) Arm {
	return Arm{r.Mix, r.Scheduler, schedulers.WithoutRetired(r.Scheduler, r.Parameters), r.Node, r.Mode, r.Jobs, r.Traced, r.Arrivals != nil, r.Probe}
}

// Batch returns the arm without its scheduler and its probe. Arms with equal batches differ only
// in how their tasks are made and placed.
func (a Arm) Batch() Arm {
	a.Scheduler, a.Parameters, a.Probe = "", "", Lazy
	return a
}

// WithoutMix returns the arm without its mix: what arms that differ in their mixes alone have in common.
func (a Arm) WithoutMix() Arm {
	a.Mix, a.Jobs = "", 0
	return a
}

// Alone returns the arm under sa whose kernels are the baseline of this arm's. It has the arm's
// probe, because casecc's kernels are not those of the CUDA compiler. When jobs arrived does not matter.
func (a Arm) Alone() Arm {
	alone := a.Batch()
	alone.Scheduler, alone.Probe, alone.Open = "sa", a.Probe, false
	return alone
}

// IsUnder reports whether the arm is under a scheduler with all the parameters that the user
// named, as in "cg:workers=2". The probe counts as one. omitted are the parameters of the scheduler, as k=v, that a run's
// record leaves out while they have these values.
func (a Arm) IsUnder(scheduler string, omitted []string) bool {
	name, parameters, _ := strings.Cut(scheduler, ":")
	if a.Scheduler != name {
		return false
	}
	has := append(strings.Split(a.Parameters, ","), "probe="+a.Probe.String())
	for _, p := range omitted {
		key, _, _ := strings.Cut(p, "=")
		if !slices.ContainsFunc(has, func(own string) bool { return strings.HasPrefix(own, key+"=") }) {
			has = append(has, p)
		}
	}
	for p := range strings.SplitSeq(parameters, ",") {
		if p != "" && !slices.Contains(has, p) {
			return false
		}
	}
	return true
}

// HasEmptyPart reports whether a part of a scheduler as IsUnder takes it is empty. It may be an unset variable, which never
// means all.
func HasEmptyPart(scheduler string) bool {
	name, parameters, more := strings.Cut(scheduler, ":")
	empty := name == "" || name[0] == '/' || name[len(name)-1] == '/' || name[len(name)-1] == '@'
	for more && !empty {
		var parameter string
		parameter, parameters, more = strings.Cut(parameters, ",")
		key, value, assigned := strings.Cut(parameter, "=")
		empty = key == "" || assigned && value == ""
	}
	return empty
}

// String names an arm that is not listed with others.
func (a Arm) String() string { return Names{}.Of(a) }

// Names are the names of arms that are shown together, and their order. No two arms get the same name: a name has the number
// of jobs if another arm runs the same mix with a different number. An arm that the user named has that name; another one has
// its scheduler, with the parameters that another arm of the scheduler lacks. All that shows arms takes names and order from here.
type Names struct {
	arms  []Arm
	mixes map[string]int     // their places
	ways  map[way]int        // their places
	given map[variant]string // by the user
	twice map[string]bool    // names that are given to several
}

// variant is a scheduler with its parameters, which a user may have named.
type variant struct{ scheduler, parameters string }

func (a Arm) variant() variant { return variant{a.Scheduler, a.Parameters} }

// way is how the tasks of an arm are made and placed.
type way struct {
	variant
	probe Probe
}

func (a Arm) way() way { return way{a.variant(), a.Probe} }

// Place is where a run's mix, and its scheduler with its probe, stand in the plan of its sweep.
type Place struct{ Mix, Way int }

// NamesOf names the arms of the runs that are shown together. The arms of a sweep are in the order of its plan; sweeps, and runs
// outside of sweeps, are in the order of the runs. Further lists, as those of another store, follow the first one.
func NamesOf(lists ...[]Run) Names {
	n := Names{mixes: map[string]int{}, ways: map[way]int{}, given: map[variant]string{}, twice: map[string]bool{}}
	seen := map[Arm]bool{}
	for _, runs := range lists {
		for _, r := range runs {
			a := ArmOf(r)
			if !seen[a] {
				seen[a], n.arms = true, append(n.arms, a)
			}
			if r.Arm != "" { // the last one, if the user has changed it
				n.given[a.variant()] = r.Arm
			}
		}
		for _, r := range inOrder(runs, func(p Place) int { return p.Mix }) {
			addNew(n.mixes, r.Mix)
		}
		for _, r := range inOrder(runs, func(p Place) int { return p.Way }) {
			addNew(n.ways, ArmOf(r).way())
		}
	}
	n.findTwice()
	return n
}

// NameOf is the name of the arm of a run that stands alone.
func NameOf(r Run) string { return NamesOf([]Run{r}).Scheduler(ArmOf(r)) }

// inOrder puts each sweep's runs together, and in the order of its plan.
func inOrder(runs []Run, place func(Place) int) []Run {
	first := map[int64]int{} // of a sweep, by number
	begin := make([]int, len(runs))
	order := make([]int, len(runs))
	for i, r := range runs {
		order[i], begin[i] = i, i
		if r.Sweep == nil {
			continue
		}
		if at, known := first[*r.Sweep]; known {
			begin[i] = at
		} else {
			first[*r.Sweep] = i
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(begin[i], begin[j]), cmp.Compare(place(runs[i].Place), place(runs[j].Place)))
	})
	out := make([]Run, len(runs))
	for i, at := range order {
		out[i] = runs[at]
	}
	return out
}

// addNew gives x the next place, unless it has one.
func addNew[T comparable](places map[T]int, x T) {
	if _, has := places[x]; !has {
		places[x] = len(places)
	}
}

// findTwice finds names that the user gave to several schedulers with parameters, or to one that is not the scheduler of that name.
func (n *Names) findTwice() {
	of := map[string]variant{}
	for _, a := range n.arms {
		for _, name := range []string{n.given[a.variant()], a.Scheduler} {
			v, isScheduler := a.variant(), name == a.Scheduler
			if isScheduler {
				v = variant{scheduler: name}
			}
			if other, has := of[name]; has && other != v {
				n.twice[name] = true
			}
			of[name] = v
		}
	}
	delete(n.twice, "")
}

// Notes says which names the user gave to several arms.
func (n Names) Notes() (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(n.twice)) {
		notes = append(notes, fmt.Sprintf("several arms are named %s, so they are called by their schedulers here", name))
	}
	return notes
}

// Compare orders arms as the user gave them: first by mix, then by scheduler.
func (n Names) Compare(a, b Arm) int {
	return cmp.Or(n.CompareMixes(a, b), n.CompareSchedulers(a, b), a.Compare(b))
}

// CompareMixes is Compare of the mixes alone.
func (n Names) CompareMixes(a, b Arm) int { return comparePlaces(n.mixes, a.Mix, b.Mix) }

// CompareSchedulers is Compare without mixes, and 0 for arms of one scheduler with equal parameters and probe.
func (n Names) CompareSchedulers(a, b Arm) int { return comparePlaces(n.ways, a.way(), b.way()) }

// Sorted are arms in the order of Compare.
func (n Names) Sorted(arms iter.Seq[Arm]) []Arm { return slices.SortedFunc(arms, n.Compare) }

func comparePlaces[T comparable](places map[T]int, a, b T) int {
	of := func(x T) int {
		if at, has := places[x]; has {
			return at
		}
		return len(places)
	}
	return cmp.Compare(of(a), of(b))
}

// Under returns whether an arm is what a text names: a name that the user gave, or a scheduler, either with parameters that it has
// (see Arm.IsUnder). A scheduler means its arms without names, if there are any. omitted are as for IsUnder.
func (n Names) Under(text string, omitted func(scheduler string) []string) func(Arm) bool {
	head, parameters, more := strings.Cut(text, ":")
	if more {
		parameters = ":" + parameters
	}
	under := func(a Arm) bool { return a.IsUnder(text, omitted(a.Scheduler)) }
	unnamed := slices.ContainsFunc(n.arms, func(a Arm) bool { return n.given[a.variant()] == "" && under(a) })
	return func(a Arm) bool {
		switch name := n.given[a.variant()]; {
		case name == head:
			return a.IsUnder(a.Scheduler+parameters, omitted(a.Scheduler))
		case name != "" && unnamed:
			return false
		}
		return under(a)
	}
}

// Of returns a name such as "W7 under case-alg3 on local, traced".
func (n Names) Of(a Arm) string {
	s := fmt.Sprintf("%s under %s on %s", n.Mix(a), n.Scheduler(a), a.Node)
	if a.Mode == Simulated {
		s += ", simulated"
	}
	if a.Traced {
		s += ", traced"
	}
	return s
}

// Mix returns the arm's mix, as "W7", "W7 (4 jobs)", or "W7 (open load)" beside a batch of that name.
func (n Names) Mix(a Arm) string {
	var apart []string
	differs := func(by func(Arm) bool) bool {
		return slices.ContainsFunc(n.arms, func(o Arm) bool { return o.Mix == a.Mix && by(o) })
	}
	if differs(func(o Arm) bool { return o.Jobs != a.Jobs }) {
		apart = append(apart, size.Count(a.Jobs, "job"))
	}
	if a.Open && differs(func(o Arm) bool { return !o.Open }) {
		apart = append(apart, "open load")
	}
	if len(apart) == 0 {
		return a.Mix
	}
	return fmt.Sprintf("%s (%s)", a.Mix, strings.Join(apart, ", "))
}

// Given reports whether the user gave a name to any arm.
func (n Names) Given(name string) bool {
	return slices.Contains(slices.Collect(maps.Values(n.given)), name)
}

// Chosen is the name that the user gave the arm's scheduler with its parameters; empty without.
func (n Names) Chosen(a Arm) string {
	if name := n.given[a.variant()]; !n.twice[name] {
		return name
	}
	return ""
}

// Scheduler returns the arm's name without its mix: what the user chose, or its scheduler, as "cg" or "cg:workers=2". The probe is
// named as a parameter is, as "case-alg3:probe=static", if it is not the default or another arm of the same name has another.
func (n Names) Scheduler(a Arm) string {
	chosen := n.Chosen(a)
	alike := func(o Arm) bool { return n.Chosen(o) == chosen && (chosen != "" || o.Scheduler == a.Scheduler) }
	name := chosen
	if chosen == "" {
		name = a.Scheduler
		var own []string
		for p := range strings.SplitSeq(a.Parameters, ",") {
			lacks := func(o Arm) bool { return alike(o) && !slices.Contains(strings.Split(o.Parameters, ","), p) }
			if p != "" && slices.ContainsFunc(n.arms, lacks) {
				own = append(own, p)
			}
		}
		if len(own) > 0 {
			name += ":" + strings.Join(own, ",")
		}
	}
	if slices.ContainsFunc(n.arms, func(o Arm) bool { return alike(o) && o.Probe != a.Probe }) {
		return addProbe(name, a.Probe)
	}
	return WithProbe(name, a.Probe)
}

// addProbe adds a probe to the name of a scheduler, as "case-alg3:queue=fifo,probe=static".
func addProbe(scheduler string, p Probe) string {
	if strings.Contains(scheduler, ":") {
		return scheduler + ",probe=" + p.String()
	}
	return scheduler + ":probe=" + p.String()
}

// WithProbe is the name of a scheduler, with a probe that is not the default, as
// "case-alg3:probe=static".
func WithProbe(scheduler string, p Probe) string {
	if p == Lazy {
		return scheduler
	}
	return addProbe(scheduler, p)
}

// Compare orders arms by mix, then by scheduler.
func (a Arm) Compare(b Arm) int {
	number := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Mix, b.Mix), cmp.Compare(a.Scheduler, b.Scheduler), cmp.Compare(a.Parameters, b.Parameters),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(number(a.Traced), number(b.Traced)), cmp.Compare(number(a.Open), number(b.Open)), cmp.Compare(a.Probe, b.Probe))
}
