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
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// batchOfCluster is a batch on the nodes of a cluster. The head gives each job to a node when it arrives, or later, as its policy says. A
// node runs what it has got as if it were alone: it has a batch, an engine and a calendar of its own.
type batchOfCluster struct {
	harness.Batch
	backend *Backend
	rec     harness.Recorder
	head    *cluster.Head
	// exclusive: a job shares its device with nobody.
	exclusive     bool
	nodes         []*member
	due           members       // by what each does next
	plans         calendar      // of nodes that are lost and come back
	now           time.Duration // when something happened last
	records       []results.Job // as the nodes say, with the numbers of the batch
	arrived       int           // jobs of the mix that have arrived: the first ones
	groupAt       time.Duration // when the latest group arrived
	lastEnd       time.Duration // of a job
	places        []place       // of the jobs
	waiting       int           // jobs that have arrived, and are on no node
	giving        []*member     // nodes that get jobs now
	ended         []int         // jobs that have ended since the head was told
	left          int           // jobs that have not
	others        int           // jobs that have arrived and not ended, without companions
	alone         bool          // the nodes know that only companions are left
	working       int           // nodes that do something
	changed       time.Duration // when a node did something else than kernels that never end
	cancelled     bool          // the head decides nothing more
	wrong         error         // what could not be carried out of a plan
	leave         bool          // jobs that wait at a node may go to another
	hasCompanions bool          // there are companions
	busier        []*member     // nodes of which the head is to be told
	said          map[results.EventKind]bool
}

// place is where a job is.
type place struct {
	on    *member // nil: on no node yet, or split
	local int     // its number there
	split *split
	over  bool
}

// member is a node of a cluster.
type member struct {
	index    int
	devices  int // how many it has
	first    int // the number of its first device
	executor *Executor
	loop     *runner.Loop
	jobs     []int              // by their numbers here
	parts    map[int]*part      // jobs of which others are on other nodes too
	left     int                // jobs here that have no outcome
	meet     int                // parts here of jobs that have no outcome
	coming   []coming           // jobs that it gets now
	waits    map[int]int        // ranks of the jobs that have not started, by their numbers here; only if jobs may leave
	crowd    int                // these ranks
	begun    []schedulers.JobID // jobs that have started or ended since the head was told
	busier   bool               // a job has come, started or ended since then
	gone     map[int]bool       // jobs that have left, by their numbers here
	lost     bool               // until it is repaired
	next     time.Duration      // when something is due
	works    bool               // something else is due than looks
	at       int                // among members
}

// coming is a job that a node gets, or a part of it.
type coming struct {
	job  int
	part *part // nil: it is whole
}

// number is a job's number in the batch.
func (n *member) number(job int) int { return n.jobs[job] }

// members are a heap of the nodes at which something is due, that of the next event first.
type members []*member

func (m members) Len() int { return len(m) }
func (m members) Less(i, j int) bool {
	a, b := m[i], m[j]
	return a.next < b.next || a.next == b.next && a.index < b.index
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
	c.records, c.places, c.left = runner.Records(c.Mix.Jobs), make([]place, len(c.Mix.Jobs)), len(c.Mix.Jobs)
	for i := range c.records {
		c.rec.Job(c.records[i])
	}
	for _, e := range c.Notes {
		c.rec.Event(e)
	}
	if err := c.begin(ctx); err != nil {
		return c.records, err
	}
	c.planLosses()
	err := c.run(ctx)
	for _, n := range c.nodes {
		n.loop.Post(c.now, runner.NoMore{})
		n.executor.now = c.now
		n.executor.end()
		_, broken := n.loop.Finish()
		err = errors.Join(broken, err)
	}
	return c.records, err
}

// begin makes the nodes.
func (c *batchOfCluster) begin(ctx context.Context) error {
	first := 0
	for _, k := range c.backend.kinds {
		for range k.Nodes {
			if err := c.beginNode(ctx, &k, first); err != nil {
				return err
			}
			first += k.Count()
		}
	}
	return nil
}

// beginNode makes a node.
func (c *batchOfCluster) beginNode(ctx context.Context, k *Kind, first int) error {
	scheduler, workers, err := c.Request.Scheduler(k.Count(), k.Host.Threads)
	if err != nil {
		return err
	}
	config := c.Config(k.Devices(c.MPS()), k.Host.Cores)
	config.Jobs, config.Predictions, config.Notes, config.Open, config.Scheduler, config.Workers = nil, nil, nil, true, scheduler, workers
	n := &member{index: len(c.nodes), devices: k.Count(), first: first, at: -1, parts: map[int]*part{}, gone: map[int]bool{}, waits: map[int]int{}}
	records := fromNode{of: c, node: n}
	config.JobNumber, config.DeviceNumber = n.number, records.device
	if n.executor, err = c.backend.executor(Config{Node: k.Node, MPS: c.MPS(), Profiles: c.Profiles, Revokes: scheduler.Swaps(), Checkpoints: scheduler.Checkpoints, Bursts: scheduler.Bursts,
		Seed: c.Seed, OfCluster: true, Begun: func(local int) { c.begins(n, local) }, Number: n.number, NIC: k.nic(), Woken: func() { c.expect(n) }, Outside: func() time.Duration { return c.outside(n) }}, mixes.Mix{}, records); err != nil {
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
	for c.left > 0 {
		if err := context.Cause(ctx); err != nil && !c.cancelled {
			c.cancel(err.Error())
			continue
		}
		at, coming := c.nextArrival()
		planned, plans := c.plans.next()
		switch {
		case plans && !c.cancelled && !c.earlier(planned) && (!coming || planned <= at):
			c.now = max(c.now, planned)
			c.plans.step()
			if c.wrong != nil {
				return c.wrong
			}
		case coming && !c.cancelled && !c.earlier(at):
			c.now = max(c.now, at)
			if err := c.arriveAll(at); err != nil {
				return err
			}
		case len(c.due) > 0:
			if err := c.step(c.due[0]); err != nil {
				return err
			}
		case !c.isStuck():
			return errIdle
		}
		if c.cancelled {
			continue
		}
		if err := c.tell(); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// outside is a time before which neither the head nor the mix does anything with a node: the next arrival, and where a job waits at
// the head, a group for the one before, ranks here for those elsewhere, or a companion for all others, the next event of another node.
func (c *batchOfCluster) outside(n *member) time.Duration {
	until, coming := c.nextArrival()
	if !coming {
		until = schedulers.Never
	}
	if planned, plans := c.plans.next(); plans {
		until = min(until, planned)
	}
	if c.waiting+n.meet == 0 && !c.leave && !c.hasCompanions && (coming || c.arrived == len(c.Mix.Jobs)) {
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
	c.now = max(c.now, n.executor.now)
	c.expect(n)
	if c.changed = max(c.changed, n.executor.changed); c.now-c.changed >= longStanding {
		c.changed = c.now
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
		if n.left > 0 {
			here := n.loop.Standings(endless[n])
			all.Waits, all.Holds, all.Endless = append(all.Waits, here.Waits...), append(all.Holds, here.Holds...), append(all.Endless, here.Endless...)
		}
	}
	if len(all.Endless)+len(whys) == 0 {
		return false
	}
	c.endAll(results.Refused, "the run was stuck before it got its turn", func(n *member) runner.Event {
		return runner.Stuck{Ranks: strings.Join(whys, "; "), Endless: endless[n], Cluster: &all}
	})
	return true
}

// nextArrival is when the next job of the mix arrives; false: all have, or its group waits for the one before.
func (c *batchOfCluster) nextArrival() (time.Duration, bool) {
	jobs := c.Mix.Jobs
	if c.arrived == len(jobs) {
		return 0, false
	}
	next := &jobs[c.arrived]
	if c.beginsGroup() {
		return c.lastEnd + next.At, len(jobs)-c.left == c.arrived
	}
	return c.groupAt + next.At, true
}

// beginsGroup reports whether the job that arrives next is the first of its group.
func (c *batchOfCluster) beginsGroup() bool {
	return c.arrived == 0 || c.Mix.Jobs[c.arrived-1].Group != c.Mix.Jobs[c.arrived].Group
}

// arriveAll has the jobs arrive whose time is now.
func (c *batchOfCluster) arriveAll(at time.Duration) error {
	for next, coming := at, true; coming && next <= at; next, coming = c.nextArrival() {
		if err := c.arrive(at); err != nil {
			return err
		}
	}
	return c.give()
}

// arrive has the next job arrive.
func (c *batchOfCluster) arrive(at time.Duration) error {
	i := c.arrived
	job := &c.Mix.Jobs[i]
	if c.beginsGroup() {
		c.groupAt = c.lastEnd
	}
	c.arrived++
	if !job.UntilOthersEnd {
		c.others++
	}
	c.records[i].ArrivalS = new(at.Seconds())
	c.rec.Job(c.records[i])
	c.waiting++
	known := cluster.Job{ID: schedulers.JobID(i), Name: job.Name, Ranks: max(job.Processes(), job.GPUs), Whole: job.GPUs > 1}
	if job.Long {
		known.Class = cluster.Long
	}
	if job.Computes {
		known.Kind = cluster.Computation
	}
	return c.carryOut(c.head.Submit(known))
}

// tell tells the head what it has to know, until nothing follows any more.
func (c *batchOfCluster) tell() error {
	for {
		if err := c.give(); err != nil {
			return err
		}
		if len(c.ended) == 0 {
			if told, err := c.tellLoads(); err != nil || !told {
				return errors.Join(err, c.endCompanions())
			}
			continue
		}
		i := c.ended[0]
		c.ended = c.ended[1:]
		if err := c.carryOut(c.head.JobEnded(schedulers.JobID(i))); err != nil {
			return err
		}
	}
}

// endCompanions ends the companions, if only they are left of the jobs that have arrived, and no more of their group come.
func (c *batchOfCluster) endCompanions() error {
	if c.others > 0 || c.alone || c.arrived < len(c.Mix.Jobs) && !c.beginsGroup() {
		return nil
	}
	c.alone = true
	for _, n := range c.nodes {
		if n.left == 0 {
			continue
		}
		n.executor.now = c.now
		err := n.loop.TryPost(c.now, runner.OnlyCompanions{})
		if c.expect(n); err != nil {
			return err
		}
	}
	return nil
}

func (c *batchOfCluster) carryOut(decisions []cluster.Decision) error {
	for _, d := range decisions {
		var err error
		switch d := d.(type) {
		case cluster.Assign:
			err = c.assign(int(d.Job), d.Shares)
		case cluster.Limit:
			err = c.limit(int(d.Job), d.Node, d.Devices)
		case cluster.Withdraw:
			err = c.withdraw(d)
		case cluster.Refuse:
			c.endHere(int(d.Job), results.Refused, d.Reason)
		default:
			err = fmt.Errorf("simulate: the head decides %T", d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assign has a job go to its nodes.
func (c *batchOfCluster) assign(job int, shares []cluster.Share) error {
	c.waiting--
	if s := c.places[job].split; s != nil { // one of its parts has left a node
		left := s.parts[slices.IndexFunc(s.parts, func(p *part) bool { return p.on == nil })]
		c.sendPart(c.nodes[shares[0].Node], job, left)
		return nil
	}
	if len(shares) == 1 {
		n := c.nodes[shares[0].Node]
		c.places[job] = place{on: n, local: c.send(n, coming{job: job})}
		return nil
	}
	s, meeting := &split{open: len(shares), said: map[results.EventKind]bool{}}, newMeeting(c.Mix.Jobs[job].Ranks)
	c.places[job].split = s
	for i, share := range shares {
		p := &part{of: s, place: i, group: meeting.add(share.Ranks), record: c.records[job]}
		s.parts = append(s.parts, p)
		c.sendPart(c.nodes[share.Node], job, p)
	}
	return nil
}

// sendPart has a node get a part of a job.
func (c *batchOfCluster) sendPart(n *member, job int, p *part) {
	local := c.send(n, coming{job, p})
	p.on, p.x, p.job = n, n.executor, local
	n.parts[local], n.executor.parts[local] = p, p.group
	n.meet++
}

// send has a node get a job, and returns its number there.
func (c *batchOfCluster) send(n *member, what coming) (local int) {
	local = len(n.jobs)
	n.jobs = append(n.jobs, what.job)
	n.left++
	if c.leave {
		c.awaits(n, local, what)
	}
	if len(n.coming) == 0 {
		c.giving = append(c.giving, n)
	}
	n.coming = append(n.coming, what)
	return local
}

// give gives nodes the jobs that go there now, together.
func (c *batchOfCluster) give() error {
	for _, n := range c.giving {
		c.alone = false
		n.executor.now = c.now
		n.executor.tell()
		for k, what := range n.coming {
			whole := &c.Mix.Jobs[what.job]
			given := runner.Given{Job: *whole, More: k+1 < len(n.coming)}
			given.Job.Isolate = given.Job.Isolate || c.exclusive
			if p := what.part; p != nil {
				given.Job.Ranks, given.FirstRank = p.count, &p.first
			}
			if what.job < len(c.Predictions) {
				given.Expected = c.Predictions[what.job]
			}
			if _, err := n.executor.give(harness.Taken{Given: given, Profiles: c.Profiles}, whole); err != nil {
				return err
			}
		}
		n.coming = n.coming[:0]
		n.executor.look()
		c.expect(n)
	}
	c.giving = c.giving[:0]
	return nil
}

// limit says how many devices of a node a job may use there.
func (c *batchOfCluster) limit(job, node, devices int) error {
	if err := c.give(); err != nil { // the job may be among these
		return err
	}
	n, local := c.nodes[node], c.places[job].local
	if s := c.places[job].split; s != nil {
		local = s.parts[slices.IndexFunc(s.parts, func(p *part) bool { return p.on == n })].job
	}
	if devices == n.devices {
		devices = engine.NoLimit
	}
	n.executor.now = c.now
	err := n.loop.TryPost(c.now, runner.Limit{Job: local, Devices: devices})
	c.expect(n)
	return err
}

// endHere ends a job that is on no node.
func (c *batchOfCluster) endHere(job int, outcome results.Outcome, why string) {
	r := &c.records[job]
	r.Outcome, r.Detail = &outcome, why
	if outcome == results.Refused {
		r.EndS = new(c.now.Seconds())
	}
	c.rec.Job(*r)
	if r.ArrivalS != nil {
		c.waiting--
	}
	c.over(job, c.now)
}

// over notes that a job has its outcome since then.
func (c *batchOfCluster) over(job int, at time.Duration) {
	if !c.places[job].over {
		c.places[job].over, c.lastEnd = true, at
		c.left--
		if r := &c.records[job]; r.ArrivalS != nil && !c.Mix.Jobs[job].UntilOthersEnd {
			c.others--
		}
		c.ended = append(c.ended, job)
	}
}

// cancel stops the jobs that run, and gives the others their outcome.
func (c *batchOfCluster) cancel(why string) {
	c.said[results.EventCancelled] = true
	c.rec.Event(results.Event{AtS: c.now.Seconds(), Kind: results.EventCancelled, Detail: why})
	c.endAll(results.Cancelled, why, func(*member) runner.Event { return runner.Cancel{Why: why} })
}

// endAll has an event end the jobs of each node, and gives the others their outcome.
func (c *batchOfCluster) endAll(outcome results.Outcome, why string, event func(*member) runner.Event) {
	c.cancelled = true
	for _, n := range c.nodes {
		if n.left > 0 {
			n.executor.now = c.now
			n.executor.post(event(n))
			c.expect(n)
		}
	}
	for i, p := range c.places {
		if p.on == nil && p.split == nil && !p.over {
			c.endHere(i, outcome, why)
		}
	}
}

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

func (*batchOfCluster) Close(*results.Run) []error { return nil }

// checkHead refuses a scheduler that has no policy for the head of a cluster, or one for a node that is alone.
func (b *Backend) checkHead(s policies.Scheduler) error {
	node := b.options.Node
	switch {
	case !b.isCluster && s.Head == nil:
		return nil
	case !b.isCluster:
		return fmt.Errorf("--sched %s: %s gives jobs to the nodes of a cluster, and %s is one node: leave it out, or name a cluster such as sim:2x4xV100", s.Name, s.Head, node)
	case s.Head == nil:
		return fmt.Errorf("--sched %s: %s is a cluster: write also the policy by which its head gives jobs to nodes, as in cluster-rr/%s", s.Name, node, s.Name)
	case s.Program != nil || s.Plans != nil:
		return fmt.Errorf("--sched %s: nodes of a simulated cluster have schedulers that neither plan nor are programs", s.Name)
	case s.Head.(cluster.Policy).Literal() && s.Head.(cluster.Policy).Name == "cluster-rr":
		return fmt.Errorf("--sched %s: the printed listing gives ranks to nodes that the job does not have, which simulated nodes cannot do: leave literal out", s.Name)
	}
	return nil
}

func (b *Backend) openCluster(batch harness.Batch, to harness.Recorder) (harness.Node, error) {
	if batch.Feed != nil {
		return nil, harness.Refuse(fmt.Errorf("%s: a simulated cluster has all jobs from its start", b.options.Node))
	}
	policy, _ := batch.Scheduler.Head.(cluster.Policy)
	c := &batchOfCluster{Batch: batch, exclusive: policy.Exclusive(), leave: policy.Offloads(),
		hasCompanions: slices.ContainsFunc(batch.Mix.Jobs, func(j mixes.Job) bool { return j.UntilOthersEnd }), backend: b, rec: to, said: map[results.EventKind]bool{}}
	var nodes []cluster.Node
	for _, k := range b.kinds {
		one := cluster.Node{Devices: k.Count(), Weight: k.Weight}
		for _, m := range k.models() {
			one.Cores += m.SMs * coresPerSM[m.Name]
		}
		for range k.Nodes {
			one.Name = strconv.Itoa(len(nodes))
			nodes = append(nodes, one)
		}
	}
	var err error
	if c.head, err = cluster.New(policy, nodes); err != nil {
		return nil, harness.Refuse(err)
	}
	return c, nil
}
