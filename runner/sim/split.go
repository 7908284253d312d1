package sim

import (
	"fmt"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// split is a job with ranks on several nodes.
type split struct {
	parts []*part // by their first ranks
	open  int     // parts without an outcome
	ends  *part   // the first that did not end well; nil: none
	said  map[results.EventKind]bool
}

// part is the ranks of such a job on one node.
type part struct {
	*group
	of     *split
	place  int // among the parts
	on     *member
	record results.Job // the latest of its node
}

// tells takes the record of the part, which may have ended now. The first that does not end well ends the others.
func (p *part) tells(r results.Job, ended bool) {
	p.record = r
	if !ended {
		return
	}
	if p.of.open--; p.of.open == 0 {
		for _, q := range p.of.parts {
			q.on.meet--
		}
	}
	if r.EndedOK() || p.of.ends != nil && p.of.ends != p {
		return
	}
	p.of.ends = p
	why := fmt.Sprintf("ended because its ranks on node %d had not ended well", p.on.index)
	for _, other := range p.of.parts {
		if x, job := other.x, other.job; other != p {
			p.x.have(x, p.x.now, func() { x.post(runner.Withdraw{Job: job, Why: why}) })
		}
	}
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
