package sim

import (
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
)

// Jobs that have not started may leave a crowded node, if the policy of the head offloads.

// isBusier notes that the head is to be told how many ranks wait at a node.
func (c *batchOfCluster) isBusier(n *member) {
	if c.leave && !n.busier {
		n.busier = true
		c.busier = append(c.busier, n)
	}
}

// awaits notes that a node gets a job, or a part of one, that has not started there.
func (c *batchOfCluster) awaits(n *member, local int, what coming) {
	ranks := max(c.Mix.Jobs[what.job].Processes(), c.Mix.Jobs[what.job].GPUs)
	if what.part != nil {
		ranks = what.part.count
	}
	n.waits[local] = ranks
	n.crowd += ranks
	c.isBusier(n)
}

// begins notes that a job starts, or has ended.
func (c *batchOfCluster) begins(n *member, local int) {
	ranks, waited := n.waits[local]
	if !waited {
		return
	}
	delete(n.waits, local)
	n.crowd -= ranks
	n.begun = append(n.begun, schedulers.JobID(n.jobs[local]))
	c.isBusier(n)
}

// tellLoads tells the head how many ranks wait at nodes, and carries out what it decides. false: there was nothing to tell.
func (c *batchOfCluster) tellLoads() (told bool, err error) {
	emptier := false
	for ; len(c.busier) > 0; told = true {
		n := c.busier[0]
		c.busier, n.busier = c.busier[1:], false
		started := n.begun
		n.begun = nil
		emptier = emptier || len(started) > 0
		if err := c.carryOutAll(c.head.Load(n.index, n.crowd, started...)); err != nil {
			return told, err
		}
	}
	if emptier { // jobs of others may go there
		err = c.carryOutAll(c.head.Tick())
	}
	return told, err
}

func (c *batchOfCluster) carryOutAll(decisions []cluster.Decision) error {
	if err := c.carryOut(decisions); err != nil {
		return err
	}
	return c.give()
}

// leaves has a job, or a part of one, leave a node before it starts there. Where it goes follows.
func (c *batchOfCluster) leaves(d cluster.Withdraw) error {
	job, n := int(d.Job), c.nodes[d.Shares[0].Node]
	at := &c.places[job]
	local := at.local
	if s := at.split; s != nil {
		p := s.parts[slices.IndexFunc(s.parts, func(p *part) bool { return p.on == n })]
		local, p.on = p.job, nil
		n.meet--
		delete(n.executor.parts, local)
	}
	at.on = nil
	c.waiting++
	n.left--
	n.gone[local] = true
	n.crowd -= n.waits[local]
	delete(n.waits, local)
	n.executor.now = c.now
	err := n.loop.TryPost(c.now, runner.Withdraw{Job: local, Why: d.Reason})
	c.expect(n)
	c.rec.Event(results.Event{AtS: c.now.Seconds(), Kind: results.EventOffloaded, Job: &job, Detail: d.Reason})
	return err
}
