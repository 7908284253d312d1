package dispatch

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// split is a job with ranks on several nodes.
type split struct {
	job   *mixes.Job // with the ranks that the nodes were given
	parts []*Part    // by their first ranks
	open  int        // parts without an outcome
	ends  *Part      // the first that did not end well; nil: none
	said  map[results.EventKind]bool
}

// partOn is the part on a node, which has one.
func (s *split) partOn(n *Member) *Part {
	return s.parts[slices.IndexFunc(s.parts, func(p *Part) bool { return p.On == n })]
}

// Part is the ranks of such a job on one node.
type Part struct {
	FirstRank int // the others follow it
	Ranks     int
	On        *Member // nil: it is on its way
	Local     int     // its number there

	of     *split
	place  int         // among the parts
	record results.Job // the latest of its node
}

// Job is the whole job, with the ranks that the nodes were given.
func (p *Part) Job() *mixes.Job { return p.of.job }

// Parts are all parts of the job, by their first ranks.
func (p *Part) Parts() []*Part { return p.of.parts }

// tells takes the record of the part, which may have ended now. The first that does not end well ends the others.
func (p *Part) tells(r results.Job, ended bool) {
	p.record = r
	if !ended {
		return
	}
	if p.of.open--; p.of.open == 0 {
		for _, q := range p.of.parts {
			q.On.Meet--
		}
	}
	if r.EndedOK() || p.of.ends != nil && p.of.ends != p {
		return
	}
	p.of.ends = p
	p.On.of.toEnd = append(p.On.of.toEnd, p)
}

// endParts ends the other parts of jobs of which one has not ended well.
func (d *Dispatcher) endParts() error {
	for len(d.toEnd) > 0 {
		p := d.toEnd[0]
		d.toEnd = d.toEnd[1:]
		why := fmt.Sprintf("ended because its ranks on node %d had not ended well", p.On.Index)
		for _, other := range p.of.parts {
			if other == p || other.record.Outcome != nil {
				continue
			}
			if err := other.On.node.Post(runner.Withdraw{Job: other.Local, Why: why}); err != nil {
				return err
			}
		}
	}
	return nil
}

// record is that of the job. It starts with its first part, and ends with its last, as the part did that did not end well first. It waits for
// as long as the part that waits longest, and uses what its parts use at most.
func (s *split) record() results.Job {
	first := s.ends
	if first == nil {
		first = s.parts[0]
	}
	all := first.record
	all.StartS, all.EndS, all.WaitS, all.UsedBytes, all.LostS = nil, nil, nil, nil, nil
	var devices []int
	for _, p := range s.parts {
		r := &p.record
		all.StartS, all.EndS, all.WaitS = least(all.StartS, r.StartS), most(all.EndS, r.EndS), most(all.WaitS, r.WaitS)
		all.UsedBytes, all.LostS = sum(all.UsedBytes, r.UsedBytes), sum(all.LostS, r.LostS)
		devices = append(devices, r.On()...)
	}
	if len(devices) > 0 {
		all.Device = &devices[0]
	}
	if all.Devices = results.DeviceList(devices); s.open > 0 {
		all.Outcome, all.EndS, all.ExitStatus, all.Signal, all.Detail, all.StderrTail = nil, nil, nil, nil, "", ""
	}
	return all
}

func least(a, b *float64) *float64 {
	return pick(a, b, func(a, b float64) float64 { return min(a, b) })
}
func most(a, b *float64) *float64 { return pick(a, b, func(a, b float64) float64 { return max(a, b) }) }
func sum[N int64 | float64](a, b *N) *N {
	return pick(a, b, func(a, b N) N { return a + b })
}

// pick is one of what is known, or what comes of both.
func pick[N any](a, b *N, of func(a, b N) N) *N {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(of(*a, *b))
}
