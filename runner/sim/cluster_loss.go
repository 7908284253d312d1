package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers/cluster"
)

// A node that is lost takes along the jobs that have ranks there. It comes back empty.

// planLosses schedules the losses of nodes.
func (c *batchOfCluster) planLosses() {
	f := c.backend.failures
	for _, loss := range f.at {
		c.plans.at(loss.at, func() { c.lose(c.nodes[loss.of]) })
	}
	if f.every > 0 {
		r := rand.New(rand.NewPCG(c.Seed, failureStream))
		goesOn := func() bool { // else nothing else will happen any more
			_, coming := c.nextArrival()
			_, plans := c.plans.next()
			return coming || plans || len(c.due) > 0
		}
		c.plans.repeatAtRandom(r, f.every, len(c.nodes), goesOn, func() { c.lose(c.nodes[r.IntN(len(c.nodes))]) })
	}
}

// lose takes a node out until it is repaired.
func (c *batchOfCluster) lose(n *member) {
	if n.lost {
		return
	}
	n.lost = true
	lost := c.head.NodeDown(n.index)
	var names []string
	for _, d := range lost {
		if w, is := d.(cluster.Withdraw); is && w.Lost {
			names = append(names, title(int(w.Job), c.Mix.Jobs[w.Job].Name))
		}
	}
	detail := fmt.Sprintf("node %d is lost (simulated)", n.index)
	if len(names) > 0 {
		detail += ", and with it " + size.Few(names, mostNamed, ", ")
	}
	c.rec.Event(results.Event{AtS: c.now.Seconds(), Kind: results.EventNodeLost, Detail: detail})
	c.wrong = c.carryOutAll(lost)
	c.plans.at(c.now+c.backend.failures.repair, func() {
		n.lost = false
		c.rec.Event(results.Event{AtS: c.now.Seconds(), Kind: results.EventNodeBack, Detail: fmt.Sprintf("node %d is back (simulated)", n.index)})
		c.wrong = c.carryOutAll(c.head.NodeUp(n.index))
	})
}

// mostNamed is how many jobs an event names.
const mostNamed = 20

// withdraw takes back what nodes were given of a job: it goes elsewhere, or is lost with one of them.
func (c *batchOfCluster) withdraw(d cluster.Withdraw) error {
	if !d.Lost {
		return c.leaves(d)
	}
	if err := c.give(); err != nil { // the job may be among these
		return err
	}
	at := c.places[d.Job]
	if at.split == nil {
		return c.endLost(at.on, at.local, d.Reason)
	}
	here := slices.IndexFunc(at.split.parts, func(p *part) bool { return p.on.lost && p.record.Outcome == nil })
	if here >= 0 { // it ends the others
		at.split.ends = at.split.parts[here]
		return c.endLost(at.split.ends.on, at.split.ends.job, d.Reason)
	}
	for _, p := range at.split.parts {
		if err := c.endLost(p.on, p.job, d.Reason); err != nil {
			return err
		}
	}
	return nil
}

func (c *batchOfCluster) endLost(n *member, local int, why string) error {
	n.executor.now = c.now
	err := n.loop.TryPost(c.now, runner.Withdraw{Job: local, Why: why, Lost: true})
	c.expect(n)
	return err
}
