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

// tellLoads tells the head how many ranks wait at nodes, and carries out what it decides.
func (c *batchOfCluster) tellLoads() error {
	for emptier := false; len(c.busier) > 0 || emptier; {
		if len(c.busier) == 0 {
			emptier = false
			if err := c.carryOutAll(c.head.Tick()); err != nil { // others may go there
				return err
			}
			continue
		}
		n := c.busier[0]
		c.busier, n.busier = c.busier[1:], false
		before := n.crowd
		started := c.lookAtWaiting(n)
		emptier = emptier || n.crowd < before
		if err := c.carryOutAll(c.head.Load(n.index, n.crowd, started...)); err != nil {
			return err
		}
	}
	return nil
}

func (c *batchOfCluster) carryOutAll(decisions []cluster.Decision) error {
	if err := c.carryOut(decisions); err != nil {
		return err
	}
	return c.give()
}

// lookAtWaiting counts the ranks that wait at a node, and returns the jobs that have started.
func (c *batchOfCluster) lookAtWaiting(n *member) (started []schedulers.JobID) {
	n.crowd = 0
	n.waits = slices.DeleteFunc(n.waits, func(local int) bool {
		job := n.jobs[local]
		ranks, over := max(c.Mix.Jobs[job].Processes(), c.Mix.Jobs[job].GPUs), c.places[job].over
		if p := n.parts[local]; p != nil {
			ranks, over = p.count, over || p.record.Outcome != nil
		}
		if n.gone[local] || over {
			return true
		}
		for range n.executor.processesOf(local) {
			started = append(started, schedulers.JobID(job))
			return true
		}
		n.crowd += ranks
		return false
	})
	return started
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
	n.executor.now = c.now
	err := n.loop.TryPost(c.now, runner.Withdraw{Job: local, Why: d.Reason})
	c.expect(n)
	c.rec.Event(results.Event{AtS: c.now.Seconds(), Kind: results.EventOffloaded, Job: &job, Detail: d.Reason})
	return err
}
