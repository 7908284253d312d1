package regress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// The limit that names most of an arm counts, and none means no check.
func TestLimitsOfArms(t *testing.T) {
	all := limits(t, "throughput=3%,crashes=0,cg:throughput=10%,W7/cg:throughput=20%,W7/*:crashes=1,zero:crashes=none,cg:workers=8:crashes=3")
	for arm, want := range map[results.Arm]string{
		{Mix: "W1", Scheduler: "sa"}:                              "throughput=3% crashes=0",
		{Mix: "W1", Scheduler: "cg"}:                              "cg:throughput=10% crashes=0",
		{Mix: "W7", Scheduler: "cg"}:                              "W7/cg:throughput=20% W7/*:crashes=1",
		{Mix: "W7", Scheduler: "sa"}:                              "throughput=3% W7/*:crashes=1",
		{Mix: "W1", Scheduler: "zero"}:                            "throughput=3%",
		{Mix: "W1", Scheduler: "cg", Parameters: "a=1,workers=8"}: "cg:throughput=10% cg:workers=8:crashes=3",
	} {
		var got []string
		for _, l := range limitsOf(all, arm) {
			got = append(got, l.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%+v: %q, want %q", arm, got, want)
		}
	}
	if every := limits(t, "*/*:makespan=5%,*/cg:throughput=5%"); every[0].String() != "makespan=5%" || every[1].String() != "cg:throughput=5%" {
		t.Errorf("* is any mix: %v", every)
	}
	equals := limits(t, "W7/*:throughput=5%,cg:throughput=10%,W7/sa:throughput=7%")
	if got := limitsOf(equals, results.Arm{Mix: "W7", Scheduler: "cg"}); len(got) != 1 || got[0].String() != "cg:throughput=10%" {
		t.Errorf("of two limits that name as much the last counts: %v", got)
	}
	for text, says := range map[string]string{":crashes=1": "SCHEDULER:METRIC", "/cg:crashes=1": "MIX/SCHEDULER", "cg:speed=1%": "one of throughput",
		"cg:crashes=1,cg:crashes=2": "cg:crashes has a limit already", "cg:crashes=x": "or none for no check"} {
		if _, err := ParseLimits(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// lossy changes runs to ones that lose these numbers of jobs, in turn.
func lossy(numbers ...int) func(*Observation) {
	i := 0
	return func(o *Observation) {
		n := numbers[i%len(numbers)]
		i++
		o.Metrics.OK, o.Metrics.Crashed = 32-n, n
	}
}

// Numbers of crashes are tested: as many as chance gives are not an alarm, more are, and the first
// crashes of what never lost a job neither pass nor fail.
func TestCrashesAreTested(t *testing.T) {
	for name, c := range map[string]struct {
		old, new []int
		limits   string
		class    Class
		says     string
	}{
		"chance":              {[]int{4, 2, 6, 3, 5, 4, 2}, []int{5, 3, 6, 2, 4, 6, 3}, "crashes=0", Passed, "12.9 % of jobs crashed, 11.6 % before: no more than chance explains"},
		"more":                {[]int{4, 2, 6, 3, 5, 4, 2}, []int{9, 8, 11, 7, 9, 8, 10}, "crashes=0", Crash, "27.7 % of jobs crashed, 11.6 % before"},
		"more, and allowed":   {[]int{4, 2, 6, 3, 5, 4, 2}, []int{9, 8, 11, 7, 9, 8, 10}, "cg:crashes=6", Passed, "27.7 %"},
		"fewer":               {[]int{9, 8, 11, 7, 9, 8, 10}, []int{4, 2, 6, 3, 5, 4, 2}, "crashes=0", Passed, "11.6 %"},
		"one run":             {[]int{0}, []int{0, 0, 12, 0, 0, 0, 0}, "crashes=0", Noise, "the first crashes, and too few to tell them from chance"},
		"none":                {[]int{0}, []int{0}, "crashes=0", Passed, "no job crashed"},
		"not checked":         {[]int{0}, []int{9}, "throughput=99%,cg:crashes=none", NotComparable, "limit 99%: the candidate lost more jobs (28.1 %, 0.0 % before)"},
		"another scheduler's": {[]int{0}, []int{9}, "crashes=0,sa:crashes=none", Crash, "28.1 %"},
	} {
		r := Gate(Side{Label: "old", Runs: runs("W1", "cg", 60, 7, lossy(c.old...))}, Side{Label: "new", Runs: runs("W1", "cg", 60, 7, lossy(c.new...))},
			limits(t, c.limits), stats.DefaultAlpha)
		if len(r.Checks) != 1 || r.Checks[0].Class != c.class || !strings.Contains(r.Checks[0].Text, c.says) {
			t.Errorf("%s: %+v, want %s %q", name, r.Checks, c.class, c.says)
		}
	}
}

// eight are both sides of W1 to W8 with five repetitions, where the candidate takes so many times
// as long in each mix.
func eight(longer func(mix int) float64) (a, b Side) {
	a, b = Side{Label: "old"}, Side{Label: "new"}
	for m := range 8 {
		mix, makespan := fmt.Sprint("W", m+1), 60*float64(m+1)
		a.Runs = append(a.Runs, runs(mix, "sa", makespan, 5, nil)...)
		b.Runs = append(b.Runs, runs(mix, "sa", makespan*longer(m), 5, nil)...)
	}
	return a, b
}

// Five repetitions are too few for a single mix among nine checks, and enough over eight mixes.
func TestGateOverMixes(t *testing.T) {
	for name, c := range map[string]struct {
		longer func(int) float64
		want   string // class of the check over all mixes, and the classes of the others
	}{
		"5 % in all mixes": {func(int) float64 { return 1 / 0.95 }, "regression, noise 8"},
		"no change":        {func(int) float64 { return 1 }, "ok, ok 8"},
		// Over all mixes it is 1.4 % less. The one mix is beyond its limit and worse each time.
		"12 % in one mix": {func(m int) float64 { return 1 + 0.12*float64(m/7) }, "ok, noise 1, ok 7"},
	} {
		a, b := eight(c.longer)
		r := Gate(a, b, limits(t, "throughput=3%"), stats.DefaultAlpha)
		var over string
		others := map[Class]int{}
		for _, check := range r.Checks {
			if check.Mixes == 8 {
				over = string(check.Class)
				if check.Arm.Mix != "W1..W8" {
					t.Errorf("%s: mixes called %q", name, check.Arm.Mix)
				}
				continue
			}
			others[check.Class]++
		}
		got := over
		for _, class := range []Class{Regression, Noise, Passed} {
			if others[class] > 0 {
				got += fmt.Sprintf(", %s %d", class, others[class])
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, got, c.want, r.Checks)
		}
		if !slices.IsSortedFunc(r.Checks, func(x, y Check) int { return x.Class.rank() - y.Class.rank() }) {
			t.Errorf("%s: what failed is not first", name)
		}
	}
}

// compare has two schedulers over all their mixes as well, with a ratio and its interval.
func TestCompareOverMixes(t *testing.T) {
	a, b := eight(func(m int) float64 { return 1 / (1.8 + 0.02*float64(m)) })
	for i := range b.Runs {
		b.Runs[i].Scheduler = "case-alg3"
	}
	r, err := Compare(a, b, Options{MinEffect: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	over := r.Rows[0]
	if over.Mixes != 8 || over.Metric.Name != "throughput" || over.Verdict != stats.Better || over.Low > 0.87 || over.High < 0.87 || over.Resolution() > 0.01 {
		t.Errorf("%+v", over)
	}
	at := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Mixes == 1 })
	if one := r.Rows[at]; one.Pair.A.Mix != "W1" || one.Verdict != stats.Inconclusive || one.Settles < 6 {
		t.Errorf("%+v", one)
	}
}

func TestSpanOf(t *testing.T) {
	for want, mixes := range map[string][]string{"W1..W8": {"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"}, "W1, W2": {"W1", "W2"},
		"W1, W3, W4": {"W1", "W3", "W4"}, "3 mixes": {"D-detect", "W1", "W2"}} {
		if diff := cmp.Diff(want, spanOf(mixes)); diff != "" {
			t.Error(diff)
		}
	}
}

// A mix and a part of that mix are not two mixes.
func TestPartsOfAMixAreNotAnother(t *testing.T) {
	part := func(o *Observation) { o.Jobs = 3 }
	both := Side{Runs: slices.Concat(runs("W1", "sa", 60, 5, nil), runs("W1", "sa", 60, 5, part))}
	r := Gate(both, both, limits(t, "throughput=3%"), stats.DefaultAlpha)
	if slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Mixes > 1 }) {
		t.Errorf("%+v", r.Checks)
	}
}

// If each side names one scheduler, its arms are compared whatever their parameters. Otherwise the gate says that
// they differ.
func TestGateOfOtherParameters(t *testing.T) {
	with := func(parameters string) func(*Observation) {
		return func(o *Observation) { o.Parameters = parameters }
	}
	a := Side{Label: "base", Runs: append(runs("W1", "cg", 60, 7, with("workers=2")), runs("W2", "cg", 60, 7, with("workers=2"))...)}
	b := Side{Label: "cand", Runs: append(runs("W1", "cg", 90, 7, with("workers=4")), runs("W2", "cg", 90, 7, with("workers=4"))...)}
	named := func(s Side, scheduler string) Side {
		s.Label, s.Scheduler = s.Label+"/"+scheduler, scheduler
		return s
	}
	other := Side{Label: "cand", Runs: runs("W1", "sa", 90, 7, nil)}
	several := Side{Label: "cand", Runs: append(runs("W1", "cg", 90, 7, with("workers=4")), runs("W1", "cg", 90, 7, with("workers=8"))...)}
	const hint = "other parameters are compared with --baseline base/cg:workers=2 --candidate cand/cg:workers=4"
	for name, c := range map[string]struct {
		a, b  Side
		class Class
		says  string
		note  string
	}{
		"named":             {named(a, "cg"), named(b, "cg:workers=4"), Regression, "worse: -33.3 %", "parameters of cg differ: workers=2 and workers=4"},
		"not named":         {a, b, NothingMeasured, "cg ran with other parameters (workers=2 before, workers=4 now): name one scheduler on each side", hint},
		"one side named":    {named(a, "cg"), b, NothingMeasured, "name one scheduler on each side", hint},
		"several now":       {a, several, NothingMeasured, "(workers=2 before, workers=4 or workers=8 now)", hint},
		"several of a name": {named(a, "cg"), named(several, "cg"), NothingMeasured, "(workers=2 before, workers=4 or workers=8 now)", hint},
		"other schedulers":  {named(a, "cg"), named(other, "sa"), Regression, "worse: -33.3 %", "the schedulers differ: cg and sa"},
		"not the name":      {a, other, NothingMeasured, "cand has no complete run of it", ""},
	} {
		r := Gate(c.a, c.b, limits(t, "throughput=3%"), stats.DefaultAlpha)
		if got := r.Checks[0]; got.Class != c.class || !strings.Contains(got.Text, c.says) || c.note != "" && !slices.Contains(r.Notes, c.note) {
			t.Errorf("%s: %s, %q with %q, want %s, %q with %q", name, got.Class, got.Text, r.Notes, c.class, c.says, c.note)
		}
		if slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "is new") }) != (name == "not the name") {
			t.Errorf("%s: %q", name, r.Notes)
		}
	}
}

// A limit may name an arm, and a name that no arm has is refused unless it is a scheduler's.
func TestLimitsOfNamedArms(t *testing.T) {
	fifo := Observation{Run: results.Run{Mix: "W1", Scheduler: "case-alg3", Parameters: "queue=fifo", Arm: "fifo"}}
	limits, err := ParseLimits("throughput=3%,fifo:throughput=5%,case-alg3:queue=fifo:throughput=7%")
	if err != nil {
		t.Fatal(err)
	}
	names := results.NamesOf([]results.Run{fifo.Run})
	for i := range limits {
		limits[i].names = &names
	}
	if got := limitsOf(limits, results.ArmOf(fifo.Run)); len(got) != 1 || got[0].Scheduler != "fifo" {
		t.Errorf("limits %v, want that of fifo", got)
	}
	refuse := func(text string) error { return errors.New("unknown " + text) }
	if l, err := UnknownScheduler(limits[:2], refuse, Side{Runs: []Observation{fifo}}); err != nil {
		t.Errorf("%s: %v", l, err)
	}
	if l, err := UnknownScheduler(limits, refuse, Side{}); err == nil || l.Scheduler != "fifo" {
		t.Errorf("%s, %v: want an error of fifo", l, err)
	}
}

// A night on another machine is found as such, and not as one that was not measured.
func TestANightOnAnotherNode(t *testing.T) {
	elsewhere := func(o *Observation) { o.Node = "sim:8xV100" }
	r := Gate(Side{Label: "base", Runs: runs("W1", "sa", 90, 7, nil)}, Side{Label: "night", Runs: runs("W1", "sa", 90, 7, elsewhere)}, limits(t, "throughput=3%"), stats.DefaultAlpha)
	if got, want := r.Checks[0], "night ran on sim:8xV100, and base on local"; len(r.Checks) != 1 || got.Class != NothingMeasured || got.Short != "ran on another node" || got.Text != want {
		t.Errorf("%s: %q, %q, want %q", got.Class, got.Short, got.Text, want)
	}
	if slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "is new") }) {
		t.Errorf("notes %q say that the arm is new", r.Notes)
	}
}
