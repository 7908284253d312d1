package sim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/dispatch"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// batchOfCluster is a batch on the nodes of a cluster. The head gives each job to a node when it arrives, or later, as its policy says. A
// node runs what it has got as if it were alone: it has a batch, an engine and a calendar of its own.
type batchOfCluster struct {
	harness.Batch
	*dispatch.Dispatcher
	backend  *Backend
	rec      harness.Recorder
	programs []harness.Decides // of the nodes, in their order
	nodes    []*member
	due      members          // by what each does next
	plans    calendar         // of nodes that are lost and come back
	working  int              // nodes that do something
	changed  time.Duration    // when a node did something else than kernels that never end
	wrong    error            // what could not be carried out of a plan
	meetings map[int]*meeting // of jobs on several nodes
}

// member is a node of a cluster.
type member struct {
	*dispatch.Member
	of       *batchOfCluster
	executor *Executor
	loop     *runner.Loop
	next     time.Duration // when something is due
	works    bool          // something else is due than looks
	at       int           // among members
}

// members are a heap of the nodes at which something is due, that of the next event first.
type members []*member

func (m members) Len() int { return len(m) }
func (m members) Less(i, j int) bool {
	a, b := m[i], m[j]
	return a.next < b.next || a.next == b.next && a.Index < b.Index
}
func (m members) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].at, m[j].at = i, j
}
func (m *members) Push(x any) {
	n := x.(*member)
	n.at = len(*m)
	*m = append(*m, n)
}
func (m *members) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	last.at = -1
	return last
}

// Execute runs the batch.
func (c *batchOfCluster) Execute(ctx context.Context, _ int64, _ time.Time) ([]results.Job, error) {
	for i := range c.Records {
		c.rec.Job(c.Records[i])
	}
	for _, e := range c.Notes {
		c.rec.Event(e)
	}
	if err := c.begin(ctx); err != nil {
		return c.Records, err
	}
	c.planLosses()
	err := c.run(ctx)
	for _, n := range c.nodes {
		n.loop.Post(c.Now, runner.NoMore{})
		n.executor.now = c.Now
		n.executor.end()
		if _, broken := n.loop.Finish(); !errors.As(broken, new(schedulers.PolicyError)) { // of which one follows
			err = errors.Join(broken, err)
		}
	}
	if failed := c.programFailed(); failed != nil {
		err = errors.Join(err, fmt.Errorf("scheduler: %w", failed))
	}
	if err == nil {
		c.sayRefused()
	}
	return c.Records, err
}

// sayRefused says what the program of a node answered, of the first job that the node refused.
func (c *batchOfCluster) sayRefused() {
	for i, r := range c.Records {
		if on := c.On(i); c.programs != nil && on != nil && r.Outcome != nil && *r.Outcome == results.Refused {
			c.SayRefused(r, c.programs[on.Index], harness.OnEmptyNode, c.rec)
			return
		}
	}
}

// begin makes the nodes.
func (c *batchOfCluster) begin(ctx context.Context) error {
	for _, k := range c.backend.kinds {
		for range k.Nodes {
			if err := c.beginNode(ctx, &k); err != nil {
				return err
			}
		}
	}
	return nil
}

// beginNode makes a node.
func (c *batchOfCluster) beginNode(ctx context.Context, k *Kind) error {
	scheduler, workers, program, err := c.OnNode(k.Count(), k.Host.Threads)
	if err != nil {
		return err
	}
	if program != nil {
		c.programs = append(c.programs, program)
	}
	config := c.Batch.Config(k.Devices(c.MPS()), k.Host.Cores)
	config.Jobs, config.Predictions, config.Notes, config.Open, config.Scheduler, config.Workers = nil, nil, nil, true, scheduler, workers
	n := &member{of: c, at: -1}
	n.Member = c.Add(k.Count(), n)
	config.JobNumber, config.DeviceNumber = n.Number, n.Device
	if n.executor, err = c.backend.executor(Config{Node: k.Node, MPS: c.MPS(), Profiles: c.Profiles, Revokes: scheduler.Swaps(), Checkpoints: scheduler.Checkpoints, Bursts: scheduler.Bursts,
		Seed: c.Seed, OfCluster: true, Failures: c.backend.failures.of(n.Index), FirstDevice: n.First, Begun: n.Begins, Number: n.Number, NIC: k.nic(), Woken: func() { c.expect(n) }, Outside: func() time.Duration { return c.outside(n) }}, mixes.Mix{}, fromNode{n.Member}); err != nil {
		return err
	}
	if n.loop, err = runner.NewLoop(ctx, config, n.executor, n.executor.rec); err != nil {
		return err
	}
	n.executor.begin(n.loop)
	c.nodes = append(c.nodes, n)
	c.expect(n)
	return nil
}

// run does what is due, at all nodes in the order of time, until all jobs have ended.
func (c *batchOfCluster) run(ctx context.Context) error {
	for c.Left > 0 {
		if err := context.Cause(ctx); err != nil && !c.Cancelled() {
			c.Cancel(err.Error())
			continue
		}
		if err := c.programFailed(); err != nil && !c.Cancelled() {
			c.Cancel(err.Error())
			continue
		}
		at, coming := c.NextArrival()
		planned, plans := c.plans.next()
		switch {
		case plans && !c.Cancelled() && !c.earlier(planned) && (!coming || planned <= at):
			c.Now = max(c.Now, planned)
			c.plans.step()
			if c.wrong != nil {
				return c.wrong
			}
		case coming && !c.Cancelled() && !c.earlier(at):
			c.Now = max(c.Now, at)
			if err := c.ArriveAll(at); err != nil {
				return err
			}
		case len(c.due) > 0:
			if err := c.step(c.due[0]); err != nil {
				return err
			}
		case !c.isStuck():
			return errIdle
		}
		if c.Cancelled() {
			continue
		}
		if err := c.Tell(); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// programFailed is why a program can decide no more, that of the head or of a node; nil: all can.
func (c *batchOfCluster) programFailed() error {
	for _, p := range c.programs {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return c.Head.Err()
}

// outside is a time before which neither the head nor the mix does anything with a node: the next arrival, and where a job waits at
// the head, a group for the one before, ranks here for those elsewhere, or a companion for all others, the next event of another node.
func (c *batchOfCluster) outside(n *member) time.Duration {
	until, coming := c.NextArrival()
	if !coming {
		until = schedulers.Never
	}
	if planned, plans := c.plans.next(); plans {
		until = min(until, planned)
	}
	if c.Independent(n.Member) {
		return until
	}
	others := c.working
	if n.works {
		others--
	}
	if others == 0 { // they only look again and again
		return until
	}
	for i := 0; i < min(len(c.due), 3); i++ { // the next of the others is the first, or the second behind it
		if other := c.due[i]; other != n {
			until = min(until, other.next)
		}
	}
	return until
}

// earlier reports whether a node does something before a time.
func (c *batchOfCluster) earlier(at time.Duration) bool {
	return len(c.due) > 0 && c.due[0].next < at
}

// step does what is due next at a node.
func (c *batchOfCluster) step(n *member) error {
	n.executor.step()
	c.Now = max(c.Now, n.executor.now)
	c.expect(n)
	if c.changed = max(c.changed, n.executor.changed); c.Now-c.changed >= longStanding {
		c.changed = c.Now
		c.isStuck()
	}
	return n.executor.wrong
}

// expect files a node anew, because what it does next has changed.
func (c *batchOfCluster) expect(n *member) {
	next, due := n.executor.next()
	if works := n.executor.works(); works != n.works {
		n.works = works
		c.working += map[bool]int{true: 1, false: -1}[works]
	}
	switch n.next = next; {
	case due && n.at < 0:
		heap.Push(&c.due, n)
	case due:
		heap.Fix(&c.due, n.at)
	case n.at >= 0:
		heap.Remove(&c.due, n.at)
	}
}

// isStuck ends all jobs, if nothing happens any more but kernels that never end.
func (c *batchOfCluster) isStuck() bool {
	var whys []string
	var all runner.Standings
	endless := map[*member][]int{}
	for _, n := range c.nodes {
		jobs, works := n.executor.endless()
		if works {
			return false
		}
		endless[n] = jobs
		whys = append(whys, n.executor.waiting()...)
	}
	for _, n := range c.nodes {
		if n.Left > 0 {
			here := n.loop.Standings(endless[n])
			all.Waits, all.Holds, all.Endless = append(all.Waits, here.Waits...), append(all.Holds, here.Holds...), append(all.Endless, here.Endless...)
		}
	}
	if len(all.Endless)+len(whys) == 0 {
		return false
	}
	c.EndAll(results.Refused, "the run was stuck before it got its turn", func(n *dispatch.Member) runner.Event {
		return runner.Stuck{Ranks: strings.Join(whys, "; "), Endless: endless[c.nodes[n.Index]], Cluster: &all}
	})
	return true
}

// Give gives the node jobs that it gets together.
func (n *member) Give(jobs []dispatch.Job) error {
	n.executor.now = n.of.Now
	n.executor.tell()
	for _, j := range jobs {
		if j.Part != nil {
			n.of.meet(j)
		}
		if _, err := n.executor.give(harness.Taken{Given: j.Given, Profiles: n.of.Profiles}, j.Whole); err != nil {
			return err
		}
	}
	n.executor.look()
	n.of.expect(n)
	return nil
}

// meet has the part of a job meet the others, which may be on their way.
func (c *batchOfCluster) meet(j dispatch.Job) {
	m, parts := c.meetings[j.Number], j.Part.Parts()
	if m == nil {
		m = newMeeting(j.Whole.Ranks)
		for _, p := range parts {
			m.add(p.Ranks)
		}
		c.meetings[j.Number] = m
	}
	for i, p := range parts {
		g := m.groups[i]
		if p.On == nil || g.x == c.nodes[p.On.Index].executor && g.job == p.Local {
			continue
		}
		if g.x != nil { // it has left a node
			delete(g.x.parts, g.job)
		}
		g.x, g.job = c.nodes[p.On.Index].executor, p.Local
		g.x.parts[g.job] = g
	}
}

// Post has an event happen in the node's batch.
func (n *member) Post(e runner.Event) error {
	n.executor.now = n.of.Now
	err := n.loop.TryPost(n.of.Now, e)
	n.of.expect(n)
	return err
}

// Now is the node's time.
func (n *member) Now() time.Duration { return n.executor.now }

// fromNode takes a node's records.
type fromNode struct{ *dispatch.Member }

func (fromNode) Copy(results.Copy) {}

// Devices are those of all nodes.
func (c *batchOfCluster) Devices() (devices []results.Device) {
	first, name := 0, nameOf(c.backend.kinds)
	if len(c.backend.kinds) > 1 { // it may be long
		name = prefix
	}
	for i, k := range c.backend.kinds {
		one := (&node{Batch: c.Batch, model: k.Node, whole: c.backend.whole[i].Node}).Devices()
		for n := first; n < first+k.Nodes; n++ {
			for i, d := range one {
				d.Node, d.Index = n, len(devices)
				d.UUID = fmt.Sprintf("%s/%d/%d", name, n, i)
				devices = append(devices, d)
			}
		}
		first += k.Nodes
	}
	return slices.Clip(devices)
}

func (c *batchOfCluster) Describe(run *results.Run) { describe(run, nameOf(c.backend.kinds)) }

func (*batchOfCluster) Helpers() map[string]<-chan struct{} { return nil }

// Close ends the programs of the nodes. They are alike, so one error says what all have.
func (c *batchOfCluster) Close(*results.Run) (errs []error) {
	for _, p := range c.programs {
		if err := p.Close(); err != nil && len(errs) == 0 {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkHead refuses a scheduler that has no policy for the head of a cluster, or one for a node that is alone.
func (b *Backend) checkHead(s policies.Scheduler) error {
	node := b.options.Node
	switch {
	case !b.isCluster && b.options.RetryLost:
		return fmt.Errorf("--retry-lost: %s is one node, and no node of it can be lost: leave it out", node)
	case !b.isCluster && s.Head == nil:
		return nil
	case !b.isCluster:
		return fmt.Errorf("--sched %s: %s gives jobs to the nodes of a cluster, and %s is one node: leave it out, or name a cluster such as sim:2x4xV100", s.Name, s.Head, node)
	case s.Head == nil:
		return fmt.Errorf("--sched %s: %s is a cluster: write also the policy by which its head gives jobs to nodes, as in cluster-rr/%s", s.Name, node, s.Name)
	}
	return nil
}

func (b *Backend) openCluster(batch harness.Batch, to harness.Recorder) (harness.Node, error) {
	if batch.Feed != nil {
		return nil, harness.Refuse(fmt.Errorf("%s: a simulated cluster has all jobs from its start", b.options.Node))
	}
	policy, _ := batch.Scheduler.Head.(cluster.Policy)
	c := &batchOfCluster{Batch: batch, backend: b, rec: to, meetings: map[int]*meeting{}}
	var nodes []cluster.Node
	for _, k := range b.kinds {
		one := cluster.Node{Devices: k.Count(), Weight: k.Weight}
		for _, m := range k.models() {
			one.Cores += m.SMs * coresPerSM[m.base().Name]
		}
		for range k.Nodes {
			one.Name = strconv.Itoa(len(nodes))
			nodes = append(nodes, one)
		}
	}
	head, err := cluster.New(policy, nodes)
	if err != nil {
		return nil, harness.Refuse(err)
	}
	c.Dispatcher = dispatch.New(dispatch.Config{Jobs: batch.Mix.Jobs, Predictions: batch.Predictions, Head: head, Exclusive: policy.Exclusive(), ReadsLoad: policy.ReadsLoad(), Again: batch.StartsAgain(), Recorder: to})
	return c, nil
}
