package sim

import (
	"fmt"
	"math/rand/v2"
)

// planLosses schedules the losses of nodes.
func (c *batchOfCluster) planLosses() {
	f := c.backend.failures
	for _, loss := range f.at {
		if loss.device == allDevices {
			c.plans.at(loss.at, func() { c.lose(c.nodes[loss.node]) })
		}
	}
	if f.every > 0 {
		r := rand.New(rand.NewPCG(c.Seed, failureStream))
		goesOn := func() bool { // else nothing else will happen any more
			_, coming := c.NextArrival()
			_, plans := c.plans.next()
			return coming || plans || len(c.due) > 0
		}
		c.plans.repeatAtRandom(r, f.every, len(c.nodes), goesOn, func() { c.lose(c.nodes[r.IntN(len(c.nodes))]) })
	}
}

// lose takes a node out until it is repaired.
func (c *batchOfCluster) lose(n *member) {
	if n.Lost {
		return
	}
	c.wrong = c.Lose(n.Member, fmt.Sprintf("node %d is lost (simulated)", n.Index))
	c.plans.at(c.Now+c.backend.failures.repair, func() {
		c.wrong = c.Return(n.Member, fmt.Sprintf("node %d is back (simulated)", n.Index))
	})
}
