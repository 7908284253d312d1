package regress

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// Class is the result of a check, by cause.
type Class string

const (
	Passed             Class = "ok"
	Regression         Class = "regression"
	EnvironmentChanged Class = "environment changed" // a regression that the changed environment may have caused
	Crash              Class = "crash"
	Noise              Class = "noise" // too few repetitions or too much scatter to decide
	// NotComparable is of a metric that flatters the candidate, because it lost more jobs, or blames it,
	// because the baseline lost more.
	NotComparable   Class = "not comparable"
	NothingMeasured Class = "nothing measured"
)

// Fails reports whether the candidate is shown to be worse than its limit.
func (c Class) Fails() bool { return c == Regression || c == EnvironmentChanged || c == Crash }

// Unsettled reports whether too little was measured to decide.
func (c Class) Unsettled() bool { return c == Noise || c == NotComparable || c == NothingMeasured }

// Kinds are what a list of checks can be narrowed to.
var Kinds = []string{"failed", "unsettled", "ok"}

// Kind is the one of Kinds that the class belongs to.
func (c Class) Kind() string { return Kinds[c.rank()] }

// rank is the place of a class in a list of checks: what failed comes first.
func (c Class) rank() int {
	switch {
	case c.Fails():
		return 0
	case c.Unsettled():
		return 1
	}
	return 2
}

// Check is one limit applied to one arm, or to an arm over all its mixes.
type Check struct {
	Arm   results.Arm // over several mixes, Mix names them together and Jobs is 0
	Mixes int         // over which it is; 1: one arm
	Limit Limit
	Class Class
	Text  string // what was found, in one sentence
	Short string // Text in a few words, beside a limit and both values
	// Comparison is nil if neither side measured anything. Of crashes it compares jobs per run.
	Comparison *stats.Comparison
	// Crashed is the number of crashed jobs among Jobs, in the number of Runs, of baseline and
	// candidate.
	Crashed [2]int
	Jobs    [2]int
	Runs    [2]int
	// Spread says that the arms lose jobs by chance, so that the figures are held to their own spread.
	Spread bool
	// Settles is about how many repetitions of each arm would decide an unsettled check; 0: unknown.
	Settles int
	Since   *Since // of a check that fails; nil: unknown

	note      string // what Short means
	brief     string // the change, without a reason
	byChance  bool   // the scheduler loses jobs by chance
	noiseFree bool
	apart     bool    // the change is beyond the limit, and every value of the candidate is worse than the baseline's
	excess    float64 // crashed jobs per run, of the candidate less the baseline, the mean over mixes
	dead      [2]bool // no job of a side ended ok
}

// Counted reports whether the check counted crashed jobs.
func (c Check) Counted() bool { return c.Limit.Metric.Counts() && c.Class != NothingMeasured }

// Rate is the share of a side's jobs that crashed.
func (c Check) Rate(side int) float64 { return float64(c.Crashed[side]) / float64(c.Jobs[side]) }

// Report is the gate's answer.
type Report struct {
	Baseline, Candidate string
	limits              []Limit
	Alpha               float64
	Checks              []Check // failures first, then what is unsettled; of these, those over several mixes first
	Pairs               []Pair
	Names               results.Names // of the arms of both sides
	Notes               []string
}

// Gate checks the candidate's arms against limits relative to the baseline's arms, each arm and
// each scheduler over all its mixes. A check fails if the candidate is significantly worse and the
// estimated change exceeds the limit; docs/reference/statistics.md says why. The p values of all checks are
// adjusted together. Lost jobs are tested in any case, because other metrics count only beside them, and are
// a check of their own if the limits say so: see WithCrashes.
func Gate(baseline, candidate Side, limits []Limit, alpha float64) Report {
	r := Report{Baseline: baseline.Label, Candidate: candidate.Label, limits: slices.Clone(limits), Alpha: alpha}
	aArms, bArms := baseline.arms(), candidate.arms()
	r.Names = namesOf(aArms, bArms)
	names := r.Names
	for i := range r.limits {
		r.limits[i].names = &names
	}
	pairs, onlyA, onlyB := pairsOfGate(baseline, candidate, aArms, bArms, r.Names)
	r.Pairs = pairs
	r.Notes = slices.Concat(r.Names.Notes(), together(baseline.notes(aArms, r.Names), candidate.notes(bArms, r.Names)), together(baseline.ofOpenLoad(aArms), candidate.ofOpenLoad(bArms)), remarks(pairs, r.Names))
	r.noteOthers(baseline, candidate, onlyA, onlyB, aArms)
	unequal := r.sayNights(baseline, candidate)
	r.judge(r.ask(aArms), unequal)
	r.notMeasured(onlyA, onlyB, aArms, bArms)
	r.withoutArms(aArms)
	slices.SortStableFunc(r.Checks, func(x, y Check) int {
		return cmp.Or(x.Class.rank()-y.Class.rank(), min(y.Mixes, 2)-min(x.Mixes, 2))
	})
	return r
}

// noteOthers says which pairs are of different schedulers, and which arms have no partner that no check names. onlyA and
// onlyB are the arms without a partner, and all has the baseline's arms.
func (r *Report) noteOthers(baseline, candidate Side, onlyA, onlyB []results.Arm, all map[results.Arm][]Observation) {
	for _, p := range r.Pairs {
		if note := fmt.Sprintf("the schedulers differ: %s and %s", p.A.Scheduler, p.B.Scheduler); p.A.Scheduler != p.B.Scheduler && !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
	for _, arm := range onlyA {
		if others := otherParameters(arm, onlyB); len(others) > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("other parameters are compared with --baseline %s --candidate %s",
				baseline.under(r.Names.Scheduler(arm)), candidate.under(r.Names.Scheduler(others[0]))))
			break
		}
	}
	for _, arm := range onlyB {
		if len(otherParameters(arm, onlyA)) > 0 || len(otherNodes(arm, onlyA)) > 0 {
			continue // a check says so
		}
		if sizes := otherSizes(arm, all); sizes != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is new: %s ran it with %s", r.Names.Of(arm), baseline.Label, sizes))
			continue
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s is new: %s has no run of it", r.Names.Of(arm), baseline.Label))
	}
}

// ask lists what is checked: each pair by its limits, each block of pairs, and the lost jobs of all. all has the baseline's arms.
func (r *Report) ask(all map[results.Arm][]Observation) (asked []limitedBlock) {
	for _, p := range r.Pairs {
		for _, l := range limitsOf(r.limits, p.A) {
			if l.applies(p.A, all) {
				asked = append(asked, limitedBlock{[]Pair{p}, l})
			}
		}
	}
	return withLosses(slices.Concat(asked, r.blocksByLimit(r.Pairs, all)))
}

// judge makes the checks. unequal are the candidate's arms whose nights differ.
func (r *Report) judge(asked []limitedBlock, unequal []spread) {
	byChance := losingByChance(r.Pairs)
	samples := make([]stats.Pair, len(asked))
	r.Checks = make([]Check, len(asked))
	for i, block := range asked {
		r.Checks[i], samples[i] = newCheck(block.pairs, block.limit, byChance[block.pairs[0].A.WithoutMix()], r.Alpha)
	}
	environments := map[results.Arm][]Difference{}
	for _, p := range r.Pairs {
		environments[p.A] = p.environment
	}
	for _, block := range blocks(r.Pairs) {
		all := merged(block)
		environments[all.A] = all.environment
	}
	found := stats.CompareAll(samples)
	var lost losses
	for i, c := range r.Checks {
		if c.Limit.Metric.Counts() {
			lost = append(lost, loss{asked[i].pairs, c.excess, found[i].Significant})
		}
	}
	for i, c := range found {
		check := &r.Checks[i]
		own := r.Checks[slices.IndexFunc(asked, asked[i].isOfItsLosses)]
		check.judge(c, environments[check.Arm], r.Alpha, lost.more(asked[i].pairs), own)
		check.doubt(asked[i].pairs, unequal)
		check.Settles *= onEach(samples[i], check.Mixes)
	}
	for i, block := range asked { // what a check over several mixes has shown
		if len(block.pairs) > 1 {
			r.settleBy(i, r.checksOf(block))
		}
	}
	r.Checks = slices.DeleteFunc(r.Checks, func(c Check) bool { return c.Limit.None })
}

// limitedBlock is a block of pairs with one limit for all.
type limitedBlock struct {
	pairs []Pair
	limit Limit
}

// isOfItsLosses reports whether another block is of the lost jobs of the same pairs.
func (b limitedBlock) isOfItsLosses(other limitedBlock) bool {
	return other.limit.Metric.Counts() && slices.EqualFunc(b.pairs, other.pairs, func(p, q Pair) bool { return p.A == q.A })
}

// withLosses adds the lost jobs of pairs of which another metric is checked, without a limit, if none was
// asked for.
func withLosses(asked []limitedBlock) []limitedBlock {
	for _, block := range asked {
		if !slices.ContainsFunc(asked, block.isOfItsLosses) {
			asked = append(asked, limitedBlock{block.pairs, Limit{Metric: results.MetricNamed("crashes"), None: true}})
		}
	}
	return asked
}

// blocksByLimit are the blocks of pairs for each limit that applies to two of their mixes at least.
func (r *Report) blocksByLimit(pairs []Pair, arms map[results.Arm][]Observation) (out []limitedBlock) {
	for _, block := range blocks(pairs) {
		var order []Limit
		by := map[string][]Pair{}
		for _, p := range block {
			for _, l := range limitsOf(r.limits, p.A) {
				key := l.String()
				if !l.applies(p.A, arms) || len(valuesOf(l.Metric)(p.ARuns)) == 0 || len(valuesOf(l.Metric)(p.BRuns)) == 0 {
					continue
				}
				if dead(p.ARuns) && !l.Metric.Counts() {
					continue
				}
				if by[key] == nil {
					order = append(order, l)
				}
				by[key] = append(by[key], p)
			}
		}
		for _, l := range order {
			if found := by[l.String()]; len(found) > 1 {
				out = append(out, limitedBlock{found, l})
			}
		}
	}
	return out
}

// checksOf are the checks of the single arms of a block, for its limit.
func (r *Report) checksOf(block limitedBlock) (out []int) {
	for i, c := range r.Checks {
		if c.Mixes == 1 && c.Limit.Metric.Name == block.limit.Metric.Name &&
			slices.ContainsFunc(block.pairs, func(p Pair) bool { return p.A == c.Arm }) {
			out = append(out, i)
		}
	}
	return out
}

// settleBy lets what a check over all mixes has shown stand for the single arms that cannot show it
// alone. An arm is not settled if its candidate is beyond the limit and worse in every repetition,
// which lacks repetitions only, nor if some mixes are shown to gain and others to lose.
func (r *Report) settleBy(block int, single []int) {
	if r.Checks[block].Class != Passed || r.Checks[block].Comparison.Divided() {
		return
	}
	for _, i := range single {
		c := &r.Checks[i]
		if c.Class == Noise && !c.apart && !c.noiseFree && !c.died() {
			c.settle(Passed, "ok over all mixes", fmt.Sprintf("%s; settled over %s", c.brief, r.Checks[block].Arm.Mix), saysSettled)
			c.Settles = 0
		}
	}
}

// newCheck is the check of a limit over pairs that differ in their mixes alone, and what is to be
// compared for it.
func newCheck(pairs []Pair, l Limit, byChance bool, alpha float64) (Check, stats.Pair) {
	c := Check{Arm: pairs[0].A, Limit: l, Mixes: len(pairs), noiseFree: !anyNoise(pairs), dead: [2]bool{true, true},
		byChance: byChance, Spread: byChance && l.ownSpread()}
	values := valuesOf(l.Metric)
	if l.Metric.Counts() {
		values = numbersLost
	}
	for _, p := range pairs {
		c.apart = len(pairs) == 1
		for _, s := range byBlock(p.ARuns, p.BRuns, values) {
			c.apart = c.apart && allWorse(s.A, s.B, l)
		}
		for side, runs := range [][]Observation{p.ARuns, p.BRuns} {
			c.dead[side] = c.dead[side] && dead(runs)
			c.Runs[side] += len(runs)
			c.Crashed[side] += lost(runs)
			for _, o := range runs {
				c.Jobs[side] += o.Jobs
			}
		}
	}
	if len(pairs) > 1 {
		c.Arm = merged(pairs).A
	}
	if l.Metric.Counts() {
		var sample stats.Pair
		sample, c.excess = lossSample(pairs, alpha)
		return c, sample
	}
	return c, blockSample(pairs, values, stats.Options{Alpha: alpha, MinEffect: l.Bound, HigherIsBetter: l.Metric.HigherIsBetter, Absolute: l.Metric.Absolute, NoiseFree: c.noiseFree})
}

// allWorse reports whether every value of b is worse than every value of a. Numbers of crashed
// jobs are by more than the limit.
func allWorse(a, b []float64, l Limit) bool {
	switch {
	case len(a) == 0 || len(b) == 0:
		return false
	case l.Metric.Counts():
		return slices.Min(b) > slices.Max(a)+l.Bound
	case l.Metric.HigherIsBetter:
		return slices.Max(b) < slices.Min(a)
	}
	return slices.Min(b) > slices.Max(a)
}

// applies reports whether a limit applies to an arm. Times of traced runs count only if the arm
// has no untraced runs. A slowdown needs a trace and is defined against sa.
func (l Limit) applies(arm results.Arm, arms map[results.Arm][]Observation) bool {
	switch {
	case l.Metric.Name == "slowdown":
		return arm.Traced && arm.Scheduler != "sa"
	case l.Metric.Counts() || !arm.Traced:
		return true
	}
	arm.Traced = false
	_, other := arms[arm]
	return !other
}

// notMeasured adds checks for arms that the candidate should have measured but did not. onlyB are arms of the
// candidate alone, and all has the baseline's arms.
func (r *Report) notMeasured(arms, onlyB []results.Arm, all, candidate map[results.Arm][]Observation) {
	for _, arm := range arms {
		short, text := r.whyNotMeasured(arm, onlyB, candidate)
		for _, l := range limitsOf(r.limits, arm) {
			if l.applies(arm, all) {
				r.Checks = append(r.Checks, Check{Arm: arm, Mixes: 1, Limit: l, Class: NothingMeasured, Runs: [2]int{len(all[arm]), 0}, Short: short, Text: text, note: fmt.Sprintf("%s: %s", short, text)})
			}
		}
	}
}

// whyNotMeasured says what the candidate ran in place of an arm of the baseline.
func (r *Report) whyNotMeasured(arm results.Arm, onlyB []results.Arm, candidate map[results.Arm][]Observation) (short, text string) {
	if nodes := otherNodes(arm, onlyB); len(nodes) > 0 {
		return "ran on another node", fmt.Sprintf("%s ran on %s, and %s on %s", r.Candidate, strings.Join(nodes, " and "), r.Baseline, arm.Node)
	}
	if others := otherParameters(arm, onlyB); len(others) > 0 {
		return "other parameters", fmt.Sprintf("%s ran with other parameters (%s before, %s now): name one scheduler on each side", arm.Scheduler, parametersOf(r.Names, arm), parametersOf(r.Names, others...))
	}
	if sizes := otherSizes(arm, candidate); sizes != "" {
		return "another mix", fmt.Sprintf("the mix differs: %s in %s, and %s in %s", size.Count(arm.Jobs, "job"), r.Baseline, sizes, r.Candidate)
	}
	return "no complete run", fmt.Sprintf("%s has no complete run of it", r.Candidate)
}

// withoutArms adds checks for limits of which neither side has runs, or a note where other limits are checked and a limit names its
// arms: it is perhaps a slip of the pen, and nothing is checked less for it. all has the baseline's arms.
func (r *Report) withoutArms(all map[results.Arm][]Observation) {
	named := func(l Limit) bool { return l.Mix != "" || l.Scheduler != "" }
	others := slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Limit.implied }) ||
		slices.ContainsFunc(r.limits, func(l Limit) bool { return !named(l) && !l.implied })
	for _, l := range r.limits {
		checked := slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Limit.String() == l.String() })
		if l.None || checked || r.replaced(l, all) {
			continue
		}
		if named(l) && others {
			if l.Mix != "" || strings.Contains(l.Scheduler, ":") {
				r.Notes = append(r.Notes, fmt.Sprintf("no arm of both sides is of the limit %s", l))
			}
			continue
		}
		c := Check{Limit: l, Mixes: 1, Class: NothingMeasured, Short: "no runs in common", Text: fmt.Sprintf("%s and %s have no complete runs in common", r.Baseline, r.Candidate)}
		if l.Metric.Name == "slowdown" && len(r.Pairs) > 0 {
			c.Short, c.Text = "no traced runs", "no traced runs: measure with --trace, under sa too"
			c.note = c.Text
		}
		r.Checks = append(r.Checks, c)
	}
}

// replaced reports whether arms are of a limit, and every one has a limit that names more of it.
func (r *Report) replaced(l Limit, arms map[results.Arm][]Observation) bool {
	found := false
	for arm := range arms {
		if !l.fits(arm) || !l.applies(arm, arms) {
			continue
		}
		if slices.ContainsFunc(limitsOf(r.limits, arm), func(o Limit) bool { return o.String() == l.String() }) {
			return false
		}
		found = true
	}
	return found
}

// otherSizes returns the numbers of jobs, as "4 jobs or 8 jobs", of the arms that differ from
// arm only in the number of jobs.
func otherSizes(arm results.Arm, arms map[results.Arm][]Observation) string {
	var found []string
	for _, other := range slices.SortedFunc(maps.Keys(arms), results.Arm.Compare) {
		alike := other
		if alike.Jobs = arm.Jobs; alike == arm && other != arm {
			found = append(found, size.Count(other.Jobs, "job"))
		}
	}
	return strings.Join(found, " or ")
}

// otherNodes are the nodes of the arms that differ from arm in their node alone, or in its mode.
func otherNodes(arm results.Arm, arms []results.Arm) (nodes []string) {
	for _, other := range arms {
		alike := other
		if alike.Node, alike.Mode = arm.Node, arm.Mode; alike == arm && !slices.Contains(nodes, other.Node) {
			nodes = append(nodes, other.Node)
		}
	}
	return nodes
}

// otherParameters are those of the arms that differ from arm only in the parameters of the scheduler, or
// in its probe.
func otherParameters(arm results.Arm, arms []results.Arm) (out []results.Arm) {
	for _, o := range arms {
		if o.Scheduler == arm.Scheduler && o.Batch() == arm.Batch() {
			out = append(out, o)
		}
	}
	return out
}

// parametersOf names the parameters of arms of one scheduler.
func parametersOf(names results.Names, arms ...results.Arm) string {
	var out []string
	for _, arm := range arms {
		_, parameters, _ := strings.Cut(names.Scheduler(arm), ":")
		out = append(out, cmp.Or(parameters, "none"))
	}
	return strings.Join(out, " or ")
}

// count judges numbers of crashed jobs. What no test finds passes, because some schedulers lose
// jobs by chance. But first crashes of what never lost a job do not pass.
func (c *Check) count(found stats.Comparison, alpha float64) {
	c.Comparison = &found
	crashed, short := "no job crashed", "no job crashed"
	if c.Crashed != [2]int{} {
		crashed = fmt.Sprintf("%s of jobs crashed, %s before", share(c.Rate(1)), share(c.Rate(0)))
		short = fmt.Sprintf("%+.1f pp", 100*(c.Rate(1)-c.Rate(0)))
	}
	c.brief = crashed
	switch {
	case !c.lostTooMany():
		c.settle(Passed, short, crashed, "")
	case found.Significant && c.died():
		c.settle(Crash, "no job ended ok", crashed+": no job ended ok", "")
	case found.Significant:
		c.settle(Crash, short, crashed, "")
	case c.noiseFree:
		c.settle(Noise, short+", one sample", crashed+c.oneSample(), saysOneSample)
	case c.Crashed[0] == 0 && !c.byChance:
		c.settle(Noise, short+", first crashes", crashed+": the first crashes, and too few to tell them from chance", saysFirstCrashes)
	case found.Needed > 0:
		c.settle(Noise, fmt.Sprintf("too few: measure %d", found.Needed), fmt.Sprintf("%s: too few repetitions to tell it from chance; measure %d of each", crashed, found.Needed), saysTooFew)
	case c.died():
		c.settle(Noise, "no job ended ok", crashed+": no job ended ok, which chance may explain", "")
	default:
		c.settle(Passed, short+", chance", crashed+": no more than chance explains", saysByChance)
	}
	if c.Class == Noise && !c.noiseFree {
		c.Settles = max(found.Needed, found.RepetitionsFor(c.excess, alpha))
	}
}

// lostTooMany reports whether the candidate of a check of lost jobs lost more than the limit, rounding errors aside. No
// limit allows it to lose all jobs.
func (c *Check) lostTooMany() bool { return c.excess > c.Limit.Bound+1e-9 || c.died() }

// died reports whether no job of the candidate ended ok, and jobs of the baseline did.
func (c *Check) died() bool { return c.dead[1] && !c.dead[0] }

// oneSample is why figures without noise settle nothing.
func (c *Check) oneSample() string {
	if c.Mixes > 1 {
		return ": one sample of each mix, because there is no noise; measure again with noise"
	}
	return ": one sample of each, because there is no noise"
}

func share(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// judge settles a check. lost says which sides lost significantly more jobs, and losses is the check of
// the numbers of lost jobs.
func (c *Check) judge(found stats.Comparison, environment []Difference, alpha float64, lost [2]bool, losses Check) {
	c.Comparison = &found
	if c.Limit.Metric.Counts() {
		c.count(found, alpha)
		return
	}
	if why := c.nothing(found); why != "" {
		c.settle(NothingMeasured, "no value", why, "no value: "+strings.TrimPrefix(why, "no value: "))
		return
	}
	worse := found.Change
	if c.Limit.Metric.HigherIsBetter {
		worse = -worse
	}
	beyond := worse > 0 && worse >= c.Limit.Bound
	fails := found.Significant && beyond && !found.Divided() && c.clear(found)
	c.apart = c.apart && beyond
	change := describe(found, c.Limit)
	c.brief = change
	allowed := losses.Limit.Bound > 0 && !losses.lostTooMany()
	switch {
	case fails && lost[0]:
		c.settle(NotComparable, "baseline lost more jobs", fmt.Sprintf("%s: the baseline lost more jobs (%s, and %s now)", change, share(c.Rate(0)), share(c.Rate(1))), saysLostMore)
	case fails && len(environment) > 0:
		var kinds []string
		for _, d := range environment {
			kinds = append(kinds, d.Kind)
		}
		c.settle(EnvironmentChanged, shortly(found, c.Limit), fmt.Sprintf("worse: %s, and the environment is another one (%s)", change, strings.Join(kinds, ", ")),
			fmt.Sprintf("%s: %s", saysEnvironment, strings.Join(kinds, ", ")))
	case fails:
		c.settle(Regression, shortly(found, c.Limit), "worse: "+change, "")
	case lost[1] && !allowed:
		c.settle(NotComparable, "lost more jobs", fmt.Sprintf("%s: the candidate lost more jobs (%s, %s before)", change, share(c.Rate(1)), share(c.Rate(0))), saysLostMore)
	default:
		c.pass(found, worse, alpha, lost[1], losses.Limit)
	}
}

// pass lets a check pass that did not fail, unless it could not have failed. lostMore says that the candidate lost
// more jobs, as a limit allows.
func (c *Check) pass(found stats.Comparison, worse, alpha float64, lostMore bool, allows Limit) {
	change, beyond := c.brief, worse > 0 && worse >= c.Limit.Bound
	better := worse <= 0 && found.Significant && !found.Divided()
	short, alone := shortly(found, c.Limit), changed(found, c.Limit)
	room := c.Limit.Bound // what the interval must not exceed
	switch {
	case c.noiseFree:
		c.settle(Noise, alone+", one sample", change+c.oneSample(), saysOneSample)
	case found.Needed > 0:
		c.settle(Noise, fmt.Sprintf("too few: measure %d", found.Needed), fmt.Sprintf("%s: too few repetitions to tell it from noise; measure %d of each", change, found.Needed), saysTooFew)
	case better && lostMore:
		c.settle(Passed, short+", allowed", fmt.Sprintf("%s, with more lost jobs, as %s allows", change, allows), saysAllowed)
	case better:
		c.settle(Passed, short, "better: "+change, "")
	case c.Spread:
		c.settle(Passed, short, change+", no more than its own spread", "")
	case beyond && found.Divided():
		c.settle(Noise, alone+", mixes differ", change+": beyond the limit, but the blocks differ in different directions; measure more repetitions", saysMixesDiffer)
		room = worse
	case beyond && found.Significant:
		c.settle(Noise, alone+", not shown", change+": beyond the limit, but it scatters too much to say; measure more repetitions", saysNotShown)
		room = max(c.Limit.Bound, worse-c.Limit.Bound)
	case beyond:
		c.settle(Noise, alone+", not shown", change+": beyond the limit, but not significant; measure more repetitions", saysNotShown)
		room = worse
	case found.Resolution() > c.Limit.Bound:
		c.settle(Noise, fmt.Sprintf("too noisy: ±%.1f %s", 100*found.Resolution(), c.Limit.unit()),
			fmt.Sprintf("%s: it scatters so much that a regression of the limit would not stand out; measure more repetitions, or allow more than %s", change, c.Limit.Bounds()), saysTooNoisy)
	default:
		c.settle(Passed, short, change, "")
	}
	if c.Class == Noise && !c.noiseFree {
		c.Settles = max(found.Needed, found.RepetitionsFor(room, alpha))
	}
}

// clear reports whether the interval of a change that is beyond the limit leaves no doubt of it: all of it is beyond, or
// it is narrower than the limit and the figures scatter no more than by noise. The test alone takes a night of more
// noise than the baseline's for a slower one too often.
func (c *Check) clear(found stats.Comparison) bool {
	least := found.Low
	if c.Limit.Metric.HigherIsBetter {
		least = -found.High
	}
	return !found.Bounded() || least >= c.Limit.Bound || found.Resolution() <= c.Limit.Bound && !c.Spread
}

// nothing says why there is nothing to compare; it is empty if there is. Without a job that ended ok a
// baseline is none, though its throughput is 0.
func (c *Check) nothing(found stats.Comparison) string {
	ofBaseline, ofCandidate := size.Count(c.Runs[0], "run")+" of the baseline", size.Count(c.Runs[1], "run")+" of the candidate"
	none := [2]bool{found.A.N == 0 || c.dead[0], found.B.N == 0}
	runs := ofBaseline
	switch {
	case none[0] && none[1]:
		c.Comparison = nil
		runs = fmt.Sprintf("%s and %d of the candidate", ofBaseline, c.Runs[1])
	case none[1]:
		runs = ofCandidate
	case !none[0] && math.IsNaN(found.Change):
		return "no value: 0 in both, and 0/0 is none"
	case !none[0]:
		return ""
	}
	if none[0] && c.dead[0] || none[1] && c.dead[1] {
		return "no value, because no job ended ok in " + runs
	}
	return "no value in " + runs + c.Limit.Metric.Needs
}

// describe is "-0.4 % (-1.6 to +0.8), limit 3%".
func describe(c stats.Comparison, l Limit) string {
	return fmt.Sprintf("%s, limit %s", briefly(c, l), l.Bounds())
}

// briefly is "-0.4 % (-1.6 to +0.8)".
func briefly(c stats.Comparison, l Limit) string {
	if math.IsInf(c.Change, 0) || !c.Bounded() {
		return changed(c, l)
	}
	return fmt.Sprintf("%s (%+.1f to %+.1f)", changed(c, l), 100*c.Low, 100*c.High)
}

// shortly is briefly, or if that is long "-14.4 % (-26 to -2.4)".
func shortly(c stats.Comparison, l Limit) string {
	const most = len("-5.4 % (-6.5 to -4.3)")
	text := briefly(c, l)
	if len(text) > most {
		text = fmt.Sprintf("%s (%s to %s)", changed(c, l), rounded(100*c.Low), rounded(100*c.High))
	}
	return text
}

// rounded is "-2.4", or from 10 on "-26".
func rounded(v float64) string {
	if math.Abs(v) >= 10 {
		return fmt.Sprintf("%+.0f", v)
	}
	return fmt.Sprintf("%+.1f", v)
}

// changed is "-0.4 %".
func changed(c stats.Comparison, l Limit) string {
	if math.IsInf(c.Change, 0) {
		return "up from 0"
	}
	return fmt.Sprintf("%+.1f %s", 100*c.Change, l.unit())
}

// Failed counts the checks that fail, Unsettled the checks that measured too little to decide.
func (r Report) Failed() int { return r.countClass(Class.Fails) }

func (r Report) Unsettled() int { return r.countClass(Class.Unsettled) }

func (r Report) countClass(is func(Class) bool) int {
	n := 0
	for _, c := range r.Checks {
		if is(c.Class) {
			n++
		}
	}
	return n
}

// Simulated reports whether any figure comes from a model.
func (r Report) Simulated() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Arm.Mode == results.Simulated })
}

// Summary returns the result in one line.
func (r Report) Summary() string {
	of := fmt.Sprintf(" (of %d)", len(r.Checks))
	switch failed, unsettled := r.Failed(), r.Unsettled(); {
	case failed > 0:
		return size.Count(failed, "check") + " failed" + of
	case unsettled > 0 && unsettled == r.countClass(func(c Class) bool { return c == NotComparable }):
		return size.Count(unsettled, "check") + " cannot be compared, because a side lost more jobs" + of
	case unsettled > 0:
		return size.Count(unsettled, "check") + " measured too little to say" + of
	case len(r.Checks) == 0:
		return "nothing was checked, because the limits of all arms are none"
	case len(r.Checks) == 1:
		return "the check passes"
	}
	return fmt.Sprintf("all %d checks pass", len(r.Checks))
}
