package regress

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/schedulers/policies"
)

// Matrix has the schedulers of one side beside one another: every metric of every mix as a ratio
// to one of the schedulers, the base, and the geometric mean of these ratios over the mixes. All
// its runs are on one node and of one mode, all traced or all not, and all batches or all open loads.
type Matrix struct {
	Label   string
	Of      results.Arm   // what all arms have in common beside the mix
	Mixes   []results.Arm // batches that the base ran
	Metrics []results.Metric
	Rows    []Standing    // the base first
	Names   results.Names // of all arms of the side
	Alpha   float64       // 1 - the confidence of every interval
	Notes   []string
}

// Standing is how one scheduler, with its parameters and probe, does beside the base.
type Standing struct {
	Name  string
	Arm   results.Arm // without a mix
	Base  bool
	Mixes int     // of the matrix, that it ran
	Cells []Cell  // one for each mix of the matrix
	Over  []Level // one for each metric: over the mixes that it ran
	Count
}

// Cell is a scheduler's arm of one mix.
type Cell struct {
	Count
	Levels []Level // one for each metric
}

// Count is what runs lost.
type Count struct{ Runs, Jobs, Crashed int }

// CrashRate is the share of jobs that crashed; nil without jobs.
func (c Count) CrashRate() *float64 {
	if c.Jobs == 0 {
		return nil
	}
	return new(float64(c.Crashed) / float64(c.Jobs))
}

// Level is a metric of one scheduler.
type Level struct {
	// Summary is of a cell's runs. Of a standing it has the geometric mean of the mixes' means, or if the metric is
	// Absolute their mean, without an interval.
	stats.Summary
	// Ratio is to the base. It is unknown if the metric is Absolute, because such metrics may
	// be 0.
	Ratio Ratio
	// Survivors says that the figure is another one because jobs crashed, here or under the
	// base: see results.Metric.
	Survivors bool
	// LostMore says that the ratio is not comparable: it is better here and significantly more jobs
	// crashed here, or it is better under the base and significantly more crashed there.
	LostMore bool
}

// Figure is the number by which a metric's levels are compared: the median if the metric is Absolute, else the ratio.
func (l Level) Figure(of results.Metric) float64 {
	if of.Absolute {
		return l.Median
	}
	return l.Ratio.Value
}

// Ratio is a quotient with its confidence interval.
type Ratio struct {
	Value     float64 // NaN: unknown
	Low, High float64 // infinite: too few values
}

// String is the one form of a ratio and its interval: "1.84× (1.82 to 1.86)".
func (r Ratio) String() string {
	if math.IsNaN(r.Value) {
		return ""
	}
	text := RatioText(r.Value) + "×"
	if interval := r.Interval(); interval != "" {
		text += " (" + interval + ")"
	}
	return text
}

// Interval is "1.82 to 1.86"; empty if there is none.
func (r Ratio) Interval() string {
	if !r.Bounded() {
		return ""
	}
	return RatioText(r.Low) + " to " + RatioText(r.High)
}

// RatioText is "1.84", with as many digits as a small ratio needs.
func RatioText(v float64) string {
	if v != 0 && math.Abs(v) < 0.1 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Bounded reports whether there were enough values for the interval.
func (r Ratio) Bounded() bool { return !math.IsInf(r.Low, 0) && !math.IsInf(r.High, 0) }

// BaseError says that no scheduler, or more than one, is what the user called the base.
type BaseError struct{ why string }

func (e *BaseError) Error() string { return e.why }

// Matrices compares the schedulers of a side with a base: the one that the user names, or if the
// name is empty sa, or if that did not run the first in the order given. There is a matrix for each node,
// mode, kind of tracing and of load, also if one scheduler alone ran there.
func Matrices(s Side, base string, o Options) ([]Matrix, error) {
	if o.Alpha == 0 {
		o.Alpha = stats.DefaultAlpha
	}
	all := s.arms()
	names := results.NamesOf(ofArms(all))
	apart := map[results.Arm]map[results.Arm][]Observation{}
	for arm, runs := range all {
		k := arm.Batch().WithoutMix()
		if apart[k] == nil {
			apart[k] = map[results.Arm][]Observation{}
		}
		apart[k][arm] = runs
	}
	var out []Matrix
	found := base == ""
	for _, k := range slices.SortedFunc(maps.Keys(apart), results.Arm.Compare) {
		rows := standings(apart[k], names)
		at, err := baseOf(rows, base, names)
		if err != nil {
			return nil, err
		}
		m := Matrix{Label: s.Label, Of: k, Names: names, Alpha: o.Alpha}
		if base != "" && at < 0 {
			at, _ = baseOf(rows, "", names)
			m.Notes = append(m.Notes, fmt.Sprintf("%s has no run under %s: ratios are to %s", m.Place(), base, rows[at].Name))
		} else {
			found = true
		}
		own := rows[at]
		own.Base = true
		m.Rows = slices.Insert(slices.Delete(rows, at, at+1), 0, own)
		m.choose(apart[k], o.metrics(k.Open))
		m.fill(apart[k])
		for _, metric := range o.Metrics {
			if m.IndexOf(metric) < 0 {
				m.Notes = append(m.Notes, noValue(metric))
			}
		}
		if len(out) == 0 {
			m.Notes = slices.Concat(m.Notes, names.Notes(), s.notes(all, names))
		}
		m.Notes = append(m.Notes, s.ofOpenLoad(apart[k])...)
		out = append(out, m)
	}
	if !found && len(out) > 0 {
		var known []string
		for _, m := range out {
			for _, row := range m.Rows {
				if !slices.Contains(known, row.Name) {
					known = append(known, row.Name)
				}
			}
		}
		return nil, &BaseError{fmt.Sprintf("--base %s: %s has no run under it: want one of %s", base, s.Label, strings.Join(known, ", "))}
	}
	return out, nil
}

// standings are the schedulers that ran any of the arms, in the order given.
func standings(arms map[results.Arm][]Observation, names results.Names) []Standing {
	seen := map[results.Arm]bool{}
	var rows []Standing
	for _, arm := range names.Sorted(maps.Keys(arms)) {
		name := names.Scheduler(arm)
		if arm = arm.WithoutMix(); !seen[arm] {
			seen[arm] = true
			rows = append(rows, Standing{Name: name, Arm: arm})
		}
	}
	slices.SortStableFunc(rows, func(a, b Standing) int { return names.CompareSchedulers(a.Arm, b.Arm) })
	return rows
}

// baseOf finds the base among rows; -1 if nothing is called so.
func baseOf(rows []Standing, name string, names results.Names) (int, error) {
	if name == "" {
		return max(0, slices.IndexFunc(rows, func(s Standing) bool { return s.Arm.Scheduler == "sa" })), nil
	}
	if results.HasEmptyPart(name) {
		return -1, &BaseError{fmt.Sprintf("--base %q has an empty part: want SCHEDULER or SCHEDULER:KEY=VALUE", name)}
	}
	if at := slices.IndexFunc(rows, func(s Standing) bool { return s.Name == name }); at >= 0 {
		return at, nil
	}
	at := -1
	under := names.Under(name, policies.Omitted)
	for i, row := range rows {
		switch {
		case !under(row.Arm):
		case at >= 0:
			return -1, &BaseError{fmt.Sprintf("--base %s could be %s or %s: name one of them", name, rows[at].Name, row.Name)}
		default:
			at = i
		}
	}
	return at, nil
}

// Place names the node, as "local, traced".
func (m Matrix) Place() string {
	place := m.Of.Node
	if m.Of.Traced {
		place += ", traced"
	}
	if m.Of.Open {
		place += ", open load"
	}
	return place
}

// arm is the arm of a row for a batch.
func (s Standing) arm(batch results.Arm) results.Arm {
	batch.Scheduler, batch.Parameters, batch.Probe = s.Arm.Scheduler, s.Arm.Parameters, s.Arm.Probe
	return batch
}

// choose finds the mixes that the base ran, and the metrics that an arm has.
func (m *Matrix) choose(arms map[results.Arm][]Observation, metrics []results.Metric) {
	var left []string
	for _, arm := range m.Names.Sorted(maps.Keys(arms)) {
		k := arm.Batch()
		_, ran := arms[m.Rows[0].arm(k)]
		if name := m.Names.Mix(arm); !ran && !slices.Contains(left, name) {
			left = append(left, name)
		}
		if ran && !slices.Contains(m.Mixes, k) {
			m.Mixes = append(m.Mixes, k)
		}
	}
	if len(left) > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("mixes that %s did not run are left out: %s", m.Rows[0].Name, strings.Join(left, ", ")))
	}
	for _, metric := range metrics {
		if slices.ContainsFunc(slices.Collect(maps.Values(arms)), func(runs []Observation) bool { return len(valuesOf(metric)(runs)) > 0 }) {
			m.Metrics = append(m.Metrics, metric)
		}
	}
}

// fill computes the cells and what they are over all mixes.
func (m *Matrix) fill(arms map[results.Arm][]Observation) {
	var pairs []Pair
	noiseFree := false
	sets := make([][][]Pair, len(m.Rows)) // of each row each mix, and last all of them
	for i := range m.Rows {
		row := &m.Rows[i]
		row.Cells = make([]Cell, len(m.Mixes))
		strata := make([][]stats.Stratum, len(m.Metrics))
		sets[i] = make([][]Pair, len(m.Mixes)+1)
		for n, batch := range m.Mixes {
			base, own := arms[m.Rows[0].arm(batch)], arms[row.arm(batch)]
			row.Cells[n] = m.cell(base, own, row.Base)
			if len(own) == 0 {
				continue
			}
			row.Mixes++
			row.add(row.Cells[n].Count)
			baseHere, ownHere, _ := sameMachines(base, own)
			for j, metric := range m.Metrics {
				strata[j] = append(strata[j], byBlock(baseHere, ownHere, valuesOf(metric))...)
			}
			noiseFree = noiseFree || results.AllNoiseFree(Rows(own))
			if !row.Base {
				p := Pair{A: m.Rows[0].arm(batch), B: row.arm(batch), ARuns: baseHere, BRuns: ownHere, Warnings: differences(base, own),
					noiseFree: results.AllNoiseFree(Rows(base)) || results.AllNoiseFree(Rows(own))}
				pairs = append(pairs, p)
				sets[i][n], sets[i][len(m.Mixes)] = []Pair{p}, append(sets[i][len(m.Mixes)], p)
			}
		}
		for j, metric := range m.Metrics {
			row.Over = append(row.Over, m.over(metric, *row, strata[j]))
		}
	}
	m.markLosses(sets)
	for _, row := range m.Rows {
		var died []string
		for _, batch := range m.Mixes {
			if dead(arms[row.arm(batch)]) {
				died = append(died, m.Names.Mix(batch))
			}
		}
		if len(died) > 0 {
			m.Notes = append(m.Notes, fmt.Sprintf("no job of %s ended ok, so its throughput has no ratio: %s", row.Name, strings.Join(died, ", ")))
		}
	}
	if noiseFree {
		m.Notes = append(m.Notes, results.NoNoise)
	}
	m.Notes = append(m.Notes, remarks(pairs, m.Names)...)
	m.Notes = append(m.Notes, m.nights(arms)...)
	for _, row := range m.Rows {
		if row.Mixes < len(m.Mixes) {
			m.Notes = append(m.Notes, fmt.Sprintf("%s ran %d of the %d mixes, and its means are over these", row.Name, row.Mixes, len(m.Mixes)))
		}
	}
}

// markLosses marks the ratios that would be better for who lost significantly more jobs. sets has the pairs
// of each row in each mix, and last in all mixes.
func (m *Matrix) markLosses(sets [][][]Pair) {
	var tested [][]Pair
	for _, of := range sets {
		for n, set := range of {
			if len(set) > 1 || n < len(m.Mixes) && len(set) == 1 {
				tested = append(tested, set)
			}
		}
	}
	lost := lossesOf(tested, m.Alpha)
	for i, row := range m.Rows {
		for n, set := range sets[i] {
			if len(set) == 0 {
				continue
			}
			levels, base := row.Over, m.Base().Over
			if n < len(m.Mixes) {
				levels, base = row.Cells[n].Levels, m.Base().Cells[n].Levels
			}
			more := lost.more(set)
			for j := range levels {
				ratio := levels[j].Ratio.Value
				if metric := m.Metrics[j]; metric.Absolute && metric.OfSurvivors {
					ratio = levels[j].Median / base[j].Median
				}
				levels[j].LostMore = Flatters(ratio, m.Metrics[j].HigherIsBetter, more)
			}
		}
	}
}

func (c *Count) add(more Count) {
	c.Runs, c.Jobs, c.Crashed = c.Runs+more.Runs, c.Jobs+more.Jobs, c.Crashed+more.Crashed
}

// LevelOf is a metric of an arm in the matrix of its place. Its ratio is unknown if no matrix has it.
func LevelOf(ms []Matrix, arm results.Arm, metric results.Metric) Level {
	batch := arm.Batch()
	for _, m := range ms {
		if m.Of != batch.WithoutMix() {
			continue
		}
		mix := slices.Index(m.Mixes, batch)
		row := slices.IndexFunc(m.Rows, func(s Standing) bool { return s.arm(batch) == arm })
		at := m.IndexOf(metric)
		if mix >= 0 && row >= 0 && at >= 0 {
			return m.Level(row, mix, at)
		}
	}
	return Level{Summary: stats.Summarize(nil, 1-stats.DefaultAlpha), Ratio: unknownRatio}
}

// unknownRatio is the ratio of what was not measured.
var unknownRatio = Ratio{math.NaN(), math.Inf(-1), math.Inf(1)}

// differences says how the environments of two arms differ.
func differences(base, own []Observation) []string {
	var out []string
	for _, d := range slices.Concat(environment(base, own), versions(base, own)) {
		out = append(out, d.String())
	}
	return out
}

func (m *Matrix) cell(base, own []Observation, isBase bool) Cell {
	c := Cell{Count: Count{Runs: len(own), Crashed: lost(own)}}
	for _, o := range own {
		c.Jobs += o.Jobs
	}
	baseHere, ownHere, _ := sameMachines(base, own)
	for _, metric := range m.Metrics {
		values := valuesOf(metric)(own)
		l := Level{Summary: stats.Summarize(values, 1-m.Alpha), Survivors: metric.OfSurvivors && lost(base)+c.Crashed > 0}
		l.Ratio = ratio(metric, isBase, byBlock(baseHere, ownHere, valuesOf(metric)), 1, m.Alpha)
		c.Levels = append(c.Levels, l)
	}
	return c
}

// over is a metric over all mixes that the row ran.
func (m *Matrix) over(metric results.Metric, row Standing, strata []stats.Stratum) Level {
	l := Level{Summary: stats.Summarize(nil, 1-m.Alpha), Ratio: ratio(metric, row.Base, strata, row.Mixes, m.Alpha)}
	own := make([][]float64, len(strata))
	for i, s := range strata {
		own[i] = s.B
	}
	if metric.Absolute {
		l.Summary = stats.MeanOver(own, m.Alpha)
	} else {
		l.Median = geometricMean(own)
	}
	for _, c := range row.Cells {
		for _, own := range c.Levels {
			l.Survivors = l.Survivors || metric.OfSurvivors && own.Survivors
		}
	}
	return l
}

// geometricMean is over the means of blocks.
func geometricMean(blocks [][]float64) float64 {
	sum := 0.0
	for _, values := range blocks {
		sum += math.Log(stats.Mean(values))
	}
	return math.Exp(sum / float64(len(blocks)))
}

// ratio is a metric's ratio to the base over strata, which are so many mixes, each on each machine. This function alone decides
// what the ratios and intervals of a matrix are.
func ratio(metric results.Metric, ofBase bool, strata []stats.Stratum, mixes int, alpha float64) Ratio {
	if metric.Absolute || len(strata) == 0 || slices.ContainsFunc(strata, func(s stats.Stratum) bool { return len(s.A) == 0 || len(s.B) == 0 }) {
		return unknownRatio
	}
	if ofBase {
		if slices.ContainsFunc(strata, func(s stats.Stratum) bool { return !(slices.Max(s.A) > 0) }) {
			return unknownRatio // 0/0
		}
		return Ratio{1, unknownRatio.Low, unknownRatio.High} // by definition, so without an interval
	}
	pair := stats.Pair{Strata: strata, Options: stats.Options{Alpha: alpha, Paired: len(strata) > mixes}}
	if len(strata) == 1 {
		pair.A, pair.B, pair.Strata = strata[0].A, strata[0].B, nil
	}
	c := stats.CompareAll([]stats.Pair{pair})[0]
	if !(c.Change > -1) || math.IsInf(c.Change, 0) {
		return unknownRatio
	}
	return Ratio{1 + c.Change, 1 + c.Low, 1 + c.High}
}

// IndexOf is the index of a metric; -1 if the matrix does not have it.
func (m Matrix) IndexOf(metric results.Metric) int {
	return slices.IndexFunc(m.Metrics, func(has results.Metric) bool { return has.Name == metric.Name })
}

// Overall is, in place of the index of a mix, all mixes together.
const Overall = -1

// Level is a metric of a row, in a mix or Overall.
func (m Matrix) Level(row, mix, metric int) Level {
	if mix == Overall {
		return m.Rows[row].Over[metric]
	}
	return m.Rows[row].Cells[mix].Levels[metric]
}

// Ranked are the rows whose figures of a metric are comparable, the best first and equal ones in their order. A row is not
// comparable if one of it and the base lost more jobs (LostMore), or if it did not run every mix and mix is Overall.
func (m Matrix) Ranked(metric, mix int) []int {
	of := m.Metrics[metric]
	figure := func(row int) float64 { return m.Level(row, mix, metric).Figure(of) }
	var rows []int
	for i, row := range m.Rows {
		if l := m.Level(i, mix, metric); !math.IsNaN(l.Figure(of)) && !l.LostMore && (mix != Overall || row.Mixes == len(m.Mixes)) {
			rows = append(rows, i)
		}
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		if of.HigherIsBetter {
			a, b = b, a
		}
		return cmp.Compare(figure(a), figure(b))
	})
	return rows
}

// Simulated reports whether the figures come from a model.
func (m Matrix) Simulated() bool { return m.Of.Mode == results.Simulated }

// Base is the scheduler to which ratios are.
func (m Matrix) Base() Standing { return m.Rows[0] }

// nights says how the ratios were taken over several nights, and whose ratios differ between them.
func (m Matrix) nights(arms map[results.Arm][]Observation) (notes []string) {
	most := 0
	for _, row := range m.Rows[1:] {
		of, bases := map[results.Arm][]Observation{}, map[results.Arm][]Observation{}
		for _, batch := range m.Mixes {
			base, own := arms[m.Rows[0].arm(batch)], arms[row.arm(batch)]
			if sameNights(base, own) {
				of[row.arm(batch)], bases[row.arm(batch)] = own, base
				most = max(most, len(distinctBlocks(own, nightOf)))
			}
		}
		found := differingNights(of, bases, Options{Alpha: m.Alpha, Metrics: m.Metrics})
		notes = append(notes, nightsDiffer(fmt.Sprintf("the ratio of %s to %s", row.Name, m.Rows[0].Name), found, m.Names)...)
	}
	if most > 0 {
		notes = append(notes, fmt.Sprintf("compared night by night, over %d", most))
	}
	return notes
}
