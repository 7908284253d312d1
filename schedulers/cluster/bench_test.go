package cluster_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
)

// BenchmarkDecision is the end of a job that runs, and the arrival of another, of one to eight ranks, on 10,000 nodes of
// four devices with 100,000 jobs: two decisions, so that the goal of 50 us for a decision is 100 us here. What waits and
// what runs depends on the policy; each job's node reports its load, too.
func BenchmarkDecision(b *testing.B) {
	const nodes, jobs = 10_000, 100_000
	for _, policy := range []string{"cluster-batch", "cluster-rr", "coloc", "coloc:nodes=2", "latency", "latency+offload"} {
		b.Run(policy, func(b *testing.B) {
			c := crowd{Rand: rand.New(rand.NewPCG(1, 2))}
			c.head = newHead(b, policy, slices.Repeat([]cluster.Node{{Name: "node", Devices: 4}}, nodes)...)
			for range jobs {
				c.submit()
			}
			b.ResetTimer()
			for range b.N {
				c.endOne()
				c.submit()
			}
			b.ReportMetric(float64(len(c.running)), "running")
			b.ReportMetric(float64(c.decisions)/float64(b.N+jobs), "decisions/job")
		})
	}
}

// crowd is a head with many jobs.
type crowd struct {
	*rand.Rand
	head      *cluster.Head
	last      schedulers.JobID
	running   []schedulers.JobID
	decisions int
}

func (c *crowd) submit() {
	c.last++
	c.enter(c.head.Submit(cluster.Job{ID: c.last, Ranks: 1 + c.IntN(8), Kind: cluster.Kind(c.IntN(2)), Class: cluster.Class(c.IntN(2))}))
}

func (c *crowd) endOne() {
	i := c.IntN(len(c.running))
	id := c.running[i]
	c.running[i] = c.running[len(c.running)-1]
	c.running = c.running[:len(c.running)-1]
	c.enter(c.head.JobEnded(id))
	node := c.IntN(10_000)
	c.enter(c.head.Load(node, c.IntN(20)))
}

func (c *crowd) enter(decided []cluster.Decision) {
	c.decisions += len(decided)
	for _, d := range decided {
		switch d := d.(type) {
		case cluster.Assign:
			c.running = append(c.running, d.Job)
		case cluster.Leave:
			again := c.head.Left(d.Job, d.Node)
			c.decisions += len(again)
			c.enter(again[1:]) // the first assigns it again
		}
	}
}
