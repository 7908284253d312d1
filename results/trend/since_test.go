package trend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// season makes nights of two mixes, W1 and W2, under case-alg3, with seven repetitions and 1 % noise. level is the throughput of a mix in a
// night, beside 1.
type season struct {
	runs  []regress.Observation
	level func(mix string, night int) float64
	host  func(night int) string
	one   bool // W1 alone
}

func (s *season) add(rng *rand.Rand, night int) {
	mixes := []string{"W1", "W2"}
	if s.one {
		mixes = mixes[:1]
	}
	for _, mix := range mixes {
		for range 7 {
			r := results.Run{ID: int64(len(s.runs) + 1), Mix: mix, Scheduler: "case-alg3", Node: "local", Mode: results.Live, Jobs: 4, Status: results.Complete,
				Sweep: new(int64(night)), Tag: tag(night)}
			r.Provenance.Revision, r.Provenance.Host = fmt.Sprintf("r%d", night), "a"
			if s.host != nil {
				r.Provenance.Host = s.host(night)
			}
			throughput := 0.1 * s.level(mix, night) * math.Exp(0.01*rng.NormFloat64())
			r.Metrics.OK, r.Metrics.ThroughputJobsPerS, r.Metrics.TurnaroundMeanS = 4, &throughput, new(2/throughput)
			s.runs = append(s.runs, regress.Observation{Run: r})
		}
	}
}

func tag(night int) string { return fmt.Sprintf("night-%d", night) }

func (s *season) side(night int) regress.Side {
	out := regress.Side{Label: tag(night)}
	for _, o := range s.runs {
		if o.Tag == tag(night) {
			out.Runs = append(out.Runs, o)
		}
	}
	return out
}

func limits(t *testing.T, text string) []regress.Limit {
	t.Helper()
	out, err := regress.ParseLimits(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gate judges the last night against the first.
func (s *season) gate(t *testing.T, night int) regress.Report {
	t.Helper()
	a, b := s.side(1), s.side(night)
	r := regress.Gate(a, b, limits(t, "throughput=3%,turnaround=5%"), stats.DefaultAlpha)
	Explain(&r, a, b, s.runs)
	return r
}

// Every check that fails says since when, from the first night on, and as the trend's steps do. W2 gets 7 % slower in night 18.
func TestFailedChecksSaySince(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	s := season{level: func(mix string, night int) float64 {
		if mix == "W2" && night >= 18 {
			return 0.93
		}
		return 1
	}}
	said := 0
	for night := 1; night <= 24; night++ {
		s.add(rng, night)
		if night < 2 {
			continue
		}
		for _, c := range s.gate(t, night).Checks {
			if !c.Class.Fails() {
				if c.Since != nil {
					t.Errorf("night %d: %s %s passes since %+v", night, c.Arm, c.Limit, *c.Since)
				}
				continue
			}
			if c.Since == nil || c.Since.First != "night-18" || c.Since.After != "night-17" || c.Since.By != "night-18" || c.Since.Nights != night-17 ||
				c.Since.Revisions != [2]string{"r17", "r18"} || c.Since.Step != (night > 18) {
				t.Errorf("night %d: %s %s fails since %+v, want night 18", night, c.Arm, c.Limit, c.Since)
			}
			if c.Mixes == 1 {
				agrees(t, s.runs, c)
			}
			said++
		}
	}
	if said < 14 {
		t.Errorf("%d checks fail, want two in each of 7 nights at least", said)
	}
}

// agrees holds what a check says against the steps of the trend of the same arm.
func agrees(t *testing.T, runs []regress.Observation, c regress.Check) {
	t.Helper()
	of := Of(c.Limit.Metric, runs)
	line := of.Lines[slices.IndexFunc(of.Lines, func(l Line) bool { return l.Arm == c.Arm })]
	var steps []regress.Since
	for _, step := range line.Steps {
		steps = append(steps, regress.Since{First: line.Points[step.At].Label, Nights: c.Since.Nights, After: line.Points[step.Older].Label,
			By: line.Points[step.Last].Label, Revisions: [2]string{step.BeforeRevision, step.AfterRevision}, Step: true})
	}
	if slices.Contains(steps, *c.Since) != c.Since.Step || !c.Since.Step && len(steps) > 0 {
		t.Errorf("%s fails since %+v, and the trend has the steps %+v", c.Arm, *c.Since, steps)
	}
}

// What is said of shapes other than one step. Each is judged in its last night, against the first.
func TestSinceOfOtherShapes(t *testing.T) {
	after := func(night int, level float64) func(string, int) float64 {
		return func(_ string, n int) float64 {
			if n >= night {
				return level
			}
			return 1
		}
	}
	for name, tt := range map[string]struct {
		nights int
		level  func(string, int) float64
		host   func(int) string
		first  string
		step   bool
		after  string // empty: it does not matter
	}{
		"two nights alone":       {2, after(2, 0.9), nil, "night-2", false, "night-1"},
		"a second step":          {30, func(m string, n int) float64 { return after(12, 0.93)(m, n) * after(22, 0.93)(m, n) }, nil, "night-12", true, ""},
		"better, and then worse": {30, func(m string, n int) float64 { return after(10, 1.1)(m, n) * after(20, 0.8)(m, n) }, nil, "night-20", true, ""},
		"worse, and half of it back": {30, func(m string, n int) float64 { return after(10, 0.85)(m, n) * after(20, 1.08)(m, n) },
			nil, "night-10", true, ""},
		"one night that failed earlier": {9, func(_ string, n int) float64 { return map[bool]float64{true: 0.5, false: 1}[n == 5 || n == 9] },
			nil, "night-9", false, "night-8"},
		"two nights that failed earlier": {9, func(_ string, n int) float64 {
			return map[bool]float64{true: 0.93, false: 1}[n == 4 || n == 5 || n >= 8]
		},
			nil, "night-8", false, "night-7"},
		"a month that failed earlier": {30, func(_ string, n int) float64 {
			return map[bool]float64{true: 0.93, false: 1}[n >= 10 && n < 20 || n == 30]
		},
			nil, "night-30", false, "night-29"},
		"another machine": {12, after(10, 0.9), func(n int) string { return map[bool]string{true: "b", false: "a"}[n >= 10] }, "night-10", false, "night-9"},
	} {
		rng := rand.New(rand.NewPCG(22, 1))
		s := season{level: tt.level, host: tt.host}
		for night := 1; night <= tt.nights; night++ {
			s.add(rng, night)
		}
		failed := 0
		for _, c := range s.gate(t, tt.nights).Checks {
			if c.Class.Fails() {
				failed++
				if c.Since == nil || c.Since.First != tt.first || c.Since.Step != tt.step || tt.after != "" && c.Since.After != tt.after {
					t.Errorf("%s: %s %s fails since %+v, want %s", name, c.Arm, c.Limit, c.Since, tt.first)
				}
			}
		}
		if failed < 4 {
			t.Errorf("%s: %d checks fail, want all", name, failed)
		}
	}
}

// Sides of different arms have no line in common, and nothing is said.
func TestNoSinceAcrossArms(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 1))
	s := season{level: func(_ string, night int) float64 { return 1 - 0.1*float64(night) }}
	s.add(rng, 1)
	s.add(rng, 2)
	for i := range s.runs {
		if s.runs[i].Tag == "night-2" {
			s.runs[i].Parameters = "queue=fifo"
		}
	}
	a, b := s.side(1), s.side(2)
	a.Scheduler, b.Scheduler = "case-alg3", "case-alg3:queue=fifo"
	r := regress.Gate(a, b, limits(t, "throughput=3%"), stats.DefaultAlpha)
	Explain(&r, a, b, s.runs)
	if r.Failed() == 0 || slices.ContainsFunc(r.Checks, func(c regress.Check) bool { return c.Since != nil }) {
		t.Errorf("checks %+v, want failures of which nothing is said", r.Checks)
	}
}
