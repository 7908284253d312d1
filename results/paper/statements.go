package paper

import (
	"errors"
	"fmt"
	"math"

	"github.com/caserun/caserun/results"
)

// Statement is what a paper says in words, as a condition: a metric of all systems, workloads and schedulers is within bounds.
type Statement struct {
	Says                           string
	Source                         string // where: "section IV.B"
	Metric                         string
	Systems, Workloads, Schedulers []string
	Most, Least                    *float64
	Share                          float64  // of the cases for which it must be so; 0: all
	Than                           []string // other workloads: the metric is divided by the largest of theirs under the same scheduler
}

// Answer says whether a statement is so on a system.
type Answer struct {
	Statement
	System   string
	Answer   string   // yes, no or not measured
	Number   *float64 // the case that decides: the nearest to a bound, or the furthest beyond it
	Case     string   // "bfs under mfit"
	Cases    int
	Measured int    // cases that have a value
	Holds    int    // measured cases for which it is so
	Stuck    int    // cases without a value, because jobs of a run stood still
	Node     string // empty if nothing was measured
	Mode     results.Mode
	Missing  string // why a case was not measured
}

// Wants is the condition in words.
func (s Statement) Wants() string {
	in := ""
	if s.Share > 0 {
		in = fmt.Sprintf(" in %g %% of the cases", 100*s.Share)
	}
	switch {
	case s.Most == nil:
		return fmt.Sprintf("at least %g", *s.Least) + in
	case s.Least == nil:
		return fmt.Sprintf("at most %g", *s.Most) + in
	}
	return fmt.Sprintf("%g to %g", *s.Least, *s.Most) + in
}

// beyond is how far a value is outside the bounds, as the logarithm of a factor; below 0: inside.
func (s Statement) beyond(v float64) float64 {
	far := math.Inf(-1)
	if s.Most != nil {
		far = factor(v, *s.Most)
	}
	if s.Least != nil {
		far = max(far, factor(*s.Least, v))
	}
	return far
}

// factor is the logarithm of a factor between numbers that may be 0.
func factor(a, b float64) float64 {
	if a == b {
		return 0
	}
	return math.Log(a / b)
}

// answers are those to all statements, on each system.
func (p *Paper) answers(all map[string]*arms) (out []Answer, err error) {
	for _, s := range p.Statements {
		for _, system := range s.Systems {
			on := s
			on.Schedulers = p.system(system).schedulers(s.Schedulers)
			answer, err := p.answer(on, system, all[system])
			if err != nil {
				return nil, err
			}
			out = append(out, answer)
		}
	}
	return out, nil
}

func (p *Paper) answer(s Statement, system string, a *arms) (Answer, error) {
	out := Answer{Statement: s, System: system, Answer: "not measured"}
	cases, err := p.cases(s, s.Workloads, a)
	if err != nil {
		return out, err
	}
	others, err := p.cases(s, s.Than, a)
	if err != nil {
		return out, err
	}
	largest := map[string]float64{} // of the others, by scheduler
	for _, c := range others {
		out.note(c)
		largest[c.scheduler] = max(largest[c.scheduler], c.value)
	}
	furthest := math.Inf(-1)
	for _, c := range cases {
		out.Cases++
		out.note(c)
		against := 1.0
		if len(s.Than) > 0 {
			against = largest[c.scheduler]
		}
		if c.missing != "" || against == 0 {
			continue
		}
		out.Measured++
		value := c.value / against
		far := s.beyond(value)
		if far <= 0 {
			out.Holds++
		}
		if far > furthest || out.Number == nil {
			furthest, out.Number, out.Case = far, &value, c.label
		}
	}
	if out.Number != nil {
		out.Node, out.Mode = a.node.Name, a.node.Mode
		out.Answer = map[bool]string{true: "yes", false: "no"}[furthest <= 0 || s.Share > 0 && float64(out.Holds) >= s.Share*float64(out.Measured)]
	}
	return out, nil
}

// note takes in why a case has no value.
func (a *Answer) note(c one) {
	if c.missing != "" {
		a.Missing = c.missing
	}
	if c.stuck {
		a.Stuck++
	}
}

// one is a case of a statement.
type one struct {
	label, scheduler string
	value            float64
	missing          string // why it has no value
	stuck            bool   // that is why
}

func (p *Paper) cases(s Statement, workloads []string, a *arms) (out []one, err error) {
	for _, workload := range workloads {
		for _, scheduler := range s.Schedulers {
			c := one{label: Row{Workload: workload, Scheduler: scheduler}.label(), scheduler: scheduler}
			found, err := p.value(a, workload, scheduler, p.Metrics[s.Metric])
			var broken fatal
			switch {
			case errors.As(err, &broken):
				return nil, broken.error
			case err != nil:
				c.missing, c.stuck = err.Error(), errors.As(err, new(stuckRun))
			default:
				c.value = summarize(found.values).Median
			}
			out = append(out, c)
		}
	}
	return out, nil
}
