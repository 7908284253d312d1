package regress

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/cluster"
)

// Limit is how much worse than the baseline a candidate may be.
type Limit struct {
	Mix, Scheduler string // of the arms that it is for; empty: all
	Metric         results.Metric
	Bound          float64 // a ratio; a difference if the metric is absolute; jobs per run for crashes
	None           bool    // the arms are not checked

	implied bool           // the user did not say it
	names   *results.Names // of the arms that are judged
}

// String returns the limit in the form that ParseLimits reads.
func (l Limit) String() string {
	selector := l.Scheduler
	if l.Mix != "" {
		selector = l.Mix + "/" + cmp.Or(l.Scheduler, anyScheduler)
	}
	if selector != "" {
		selector += ":"
	}
	return selector + l.Metric.Name + "=" + l.Bounds()
}

const (
	anyScheduler = "*" // and any mix
	noLimit      = "none"
)

// Bounds returns the limit without its metric's name, such as 3%.
func (l Limit) Bounds() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case l.None:
		return noLimit
	case l.Metric.Exact:
		return number(l.Bound)
	case l.Metric.Absolute:
		return number(round(l.Bound*100)) + "pp"
	}
	return number(round(l.Bound*100)) + "%"
}

// unit is that of changes of the metric.
func (l Limit) unit() string {
	if l.Metric.Absolute {
		return "pp"
	}
	return "%"
}

// round removes the rounding error of a percentage that was divided by 100.
func round(v float64) float64 { return math.Round(v*1e9) / 1e9 }

// fits reports whether a limit is for an arm. A scheduler may have parameters, which the arm must
// have, as in cg:workers=8.
func (l Limit) fits(arm results.Arm) bool {
	if l.Mix != "" && !strings.EqualFold(l.Mix, arm.Mix) {
		return false
	}
	name, parameters, _ := strings.Cut(l.Scheduler, ":")
	if name == "" {
		return true
	}
	return (name == arm.Scheduler || l.isNamed() && name == l.names.Chosen(arm)) &&
		(parameters == "" || slices.Contains(append(strings.Split(arm.Parameters, ","), "probe="+arm.Probe.String()), parameters))
}

// isNamed reports whether a limit is for an arm that the user named.
func (l Limit) isNamed() bool {
	name, _, _ := strings.Cut(l.Scheduler, ":")
	return l.names != nil && l.names.Given(name)
}

// UnknownScheduler returns the first of the limits that is for a scheduler which the check refuses, and whose name no arm of the
// sides has.
func UnknownScheduler(limits []Limit, check func(string) error, sides ...Side) (Limit, error) {
	var runs []results.Run
	for _, s := range sides {
		runs = append(runs, Rows(s.Runs)...)
	}
	names := results.NamesOf(runs)
	for _, l := range limits {
		if l.names = &names; l.Scheduler == "" || l.isNamed() {
			continue
		}
		if err := check(l.Scheduler); err != nil {
			return l, err
		}
	}
	return Limit{}, nil
}

// limitsOf returns the limit of each metric for an arm, in the order of the limits: the limit that names
// most of the arm, and of several such limits the last.
func limitsOf(limits []Limit, arm results.Arm) []Limit {
	named := func(l Limit) int {
		n := strings.Count(l.Scheduler, ":")
		if l.Mix != "" {
			n++
		}
		if l.Scheduler != "" {
			n++
		}
		if l.isNamed() {
			n += 2 // it says every parameter
		}
		return n
	}
	var out []Limit
	for _, l := range limits {
		if !l.fits(arm) {
			continue
		}
		at := slices.IndexFunc(out, func(o Limit) bool { return o.Metric.Name == l.Metric.Name })
		switch {
		case at < 0:
			out = append(out, l)
		case named(l) >= named(out[at]):
			out[at] = l
		}
	}
	return slices.DeleteFunc(out, func(l Limit) bool { return l.None })
}

// ParseLimits reads "throughput=3%,cg:crashes=2,W7/cg:throughput=10%,zero:crashes=none".
func ParseLimits(text string) ([]Limit, error) {
	parts, err := input.List(text)
	if err != nil {
		return nil, fmt.Errorf("limits %q: %w: want METRIC=LIMIT,..., such as throughput=3%%", text, err)
	}
	var out []Limit
	for _, part := range parts {
		l, err := parseLimit(part)
		if err != nil {
			return nil, fmt.Errorf("limit %q: %w", part, err)
		}
		if slices.ContainsFunc(out, func(o Limit) bool {
			return o.Metric.Name == l.Metric.Name && o.Mix == l.Mix && o.Scheduler == l.Scheduler
		}) {
			return nil, fmt.Errorf("limit %q: %s has a limit already", part, strings.TrimSuffix(l.String(), "="+l.Bounds()))
		}
		out = append(out, l)
	}
	return out, nil
}

// CheckLimits refuses limits, which a user gave as text, that no candidate could break.
func CheckLimits(limits []Limit, text string) error {
	if !slices.ContainsFunc(limits, func(l Limit) bool { return !l.None }) {
		return fmt.Errorf("%s: none of these is a limit, so that nothing would be checked: add one, such as throughput=3%%", text)
	}
	for _, l := range limits {
		if m := l.Metric; m.HigherIsBetter && !m.Absolute && l.Bound >= 1 {
			return fmt.Errorf("%s: %s cannot fall by more than all of it, so that no run would fail the check: want less than 100%%", l, m.Name)
		}
	}
	return nil
}

// WithCrashes adds crashes=0 to limits that say nothing of crashes of all arms: a gate checks lost jobs
// unless the user has said crashes=none.
func WithCrashes(limits []Limit) []Limit {
	said := func(l Limit) bool { return l.Metric.Counts() && l.Mix == "" && l.Scheduler == "" }
	if slices.ContainsFunc(limits, said) {
		return limits
	}
	return append(slices.Clone(limits), Limit{Metric: results.MetricNamed("crashes"), implied: true})
}

func parseLimit(text string) (l Limit, err error) {
	at := strings.LastIndex(text, "=")
	if at < 0 {
		return l, fmt.Errorf("want METRIC=LIMIT, such as throughput=3%%")
	}
	name, bound := text[:at], text[at+1:]
	if at := strings.LastIndex(name, ":"); at >= 0 {
		selector := name[:at]
		name = name[at+1:]
		mix, scheduler, found := strings.Cut(selector, "/")
		if head, _ := cluster.Cut(selector); head != "" { // of a cluster, as in coloc/case-alg3
			found = false
		}
		if !found {
			mix, scheduler = "", selector
		}
		if scheduler == "" || found && mix == "" {
			return l, fmt.Errorf("want SCHEDULER:METRIC=LIMIT or MIX/SCHEDULER:METRIC=LIMIT, such as cg:crashes=2 or W7/%s:throughput=10%%", anyScheduler)
		}
		if scheduler != anyScheduler {
			l.Scheduler = scheduler
		}
		if mix != anyScheduler {
			l.Mix = mix
		}
	}
	if l.Metric, err = LookupMetric(name); err != nil {
		return l, err
	}
	if bound == noLimit {
		l.None = true
		return l, nil
	}
	l.Bound, err = parseBound(l.Metric, bound)
	return l, err
}

// Limits of a bound in its unit. Within them a number is quoted as it was written.
const (
	maxBound  = 1_000_000
	maxDigits = 6
)

func parseBound(m results.Metric, text string) (float64, error) {
	suffix, scale, want := "%", 100.0, "a plain percentage such as 3% or 0.5%"
	switch {
	case m.Exact:
		suffix, scale, want = "", 1, "a plain number of jobs per run, such as 0 or 0.5"
	case m.Absolute:
		suffix, want = "pp", "plain percentage points, such as 1pp or 0.5pp"
	}
	number, ok := strings.CutSuffix(text, suffix)
	v, err := input.Float(number)
	if !ok || err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("want %s, not negative, or %s for no check", want, noLimit)
	}
	if _, fraction, _ := strings.Cut(number, "."); v > maxBound || len(fraction) > maxDigits { // which could not be quoted as it is
		return 0, fmt.Errorf("want %s, at most %d and with at most %d digits after the point, or %s for no check", want, maxBound, maxDigits, noLimit)
	}
	return v / scale, nil
}
