// Package dispatch gives the jobs of one batch to several nodes, as the head of a cluster decides, and makes one run of what the nodes
// record. It is a state machine without a clock: who drives it, in virtual time or with real nodes, says what happens, and when.
package dispatch

import (
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/engine"
)

// Config is what a Dispatcher is made of.
type Config struct {
	Jobs        []mixes.Job
	Predictions []*schedulers.Prediction // of each job; empty: the schedulers of the nodes ask for none
	Head        *cluster.Head
	Exclusive   bool // a job shares its device with nobody
	ReadsLoad   bool // the head reads how many ranks wait at each node
	RanksStay   bool // jobs with ranks do not leave nodes
	// Again reports whether a job starts again that a lost node takes along; nil: none does.
	Again    func(*mixes.Job) bool
	Recorder runner.Recorder
}

// Node is a node as a Dispatcher sees it. Its methods are called one at a time. Of what comes of them the node's Member is told.
type Node interface {
	// Give gives the node jobs that it gets together. The batch there numbers them by their order.
	Give(jobs []Job) error
	// Post has an event happen in the node's batch.
	Post(e runner.Event) error
	// Now is the time of the node, since the batch's arrival.
	Now() time.Duration
}

// Job is what a node gets: a job, or a part of one.
type Job struct {
	runner.Given
	Number int        // in the mix
	Whole  *mixes.Job // as the mix has it
	Part   *Part      // nil: the node has all of it
}

// Dispatcher is a batch on several nodes.
type Dispatcher struct {
	Config
	Now time.Duration // of the batch: who drives it sets it before each call

	Records []results.Job // as the nodes say, with the numbers of the batch
	Members []*Member
	Left    int // jobs that have not ended
	Arrived int // jobs of the mix that have arrived: the first ones
	Waiting int // jobs that have arrived, and are on no node

	groupAt    time.Duration // when the latest group arrived
	lastEnd    time.Duration // of a job
	places     []place       // of the jobs
	giving     []*Member     // nodes that get jobs now
	ended      []int         // jobs that have ended since the head was told
	again      []int         // jobs that start again. The head has yet to be told
	answers    []answer      // of nodes. The head has yet to be told
	toEnd      []*Part       // whose jobs end, because another part has not ended well
	others     int           // jobs that have arrived and not ended, without companions
	alone      bool          // the nodes know that only companions are left
	cancelled  bool          // the head decides nothing more
	companions bool          // there are companions
	busier     []*Member     // nodes of which the head is to be told
	said       map[results.EventKind]bool
}

// place is where a job is.
type place struct {
	on    *Member // nil: on no node yet, or split
	local int     // its number there
	split *split
	over  bool
	tries int // that ended with their nodes
	tasks int // of the tries so far
}

// Member is a node of the batch. It is the Recorder of what happens there, by the numbers of the node.
type Member struct {
	Index   int
	Devices int // how many it has
	First   int // the number of its first device
	Left    int // jobs there that have no outcome
	Meet    int // parts there of jobs that have no outcome
	Lost    bool

	of     *Dispatcher
	node   Node
	jobs   []int              // by their numbers there
	parts  map[int]*Part      // jobs of which others are on other nodes too
	coming []Job              // that it gets now
	waits  map[int]int        // ranks of the jobs that have not started, by their numbers there; only if the head reads that
	crowd  int                // these ranks
	begun  []schedulers.JobID // jobs that have started or ended since the head was told
	busier bool               // a job has come, started or ended since then
	asked  map[int]string     // jobs that are to leave, if they have not started, and why, by their numbers there
	gone   map[int]bool       // jobs that have left, by their numbers there
	before map[int]int        // tasks of earlier tries, by the jobs' numbers there
}

// New returns a batch of which nothing has arrived, without nodes.
func New(c Config) *Dispatcher {
	return &Dispatcher{Config: c, Records: runner.Records(c.Jobs), places: make([]place, len(c.Jobs)), Left: len(c.Jobs), said: map[results.EventKind]bool{},
		companions: slices.ContainsFunc(c.Jobs, func(j mixes.Job) bool { return j.UntilOthersEnd })}
}

// Add adds a node with so many devices behind those that were added before, in the order of the head's.
func (d *Dispatcher) Add(devices int, node Node) *Member {
	n := &Member{Index: len(d.Members), Devices: devices, of: d, node: node, parts: map[int]*Part{}, asked: map[int]string{}, gone: map[int]bool{}, before: map[int]int{}, waits: map[int]int{}}
	if n.Index > 0 {
		last := d.Members[n.Index-1]
		n.First = last.First + last.Devices
	}
	d.Members = append(d.Members, n)
	return n
}

// Number is a job's number in the batch.
func (n *Member) Number(local int) int { return n.jobs[local] }

// Device is the number of a device in the batch.
func (n *Member) Device(local int) int { return n.First + local }

// On is the node that has a job, whole; nil: none has.
func (d *Dispatcher) On(job int) *Member { return d.places[job].on }

// Cancelled reports whether all jobs are being ended.
func (d *Dispatcher) Cancelled() bool { return d.cancelled }

// NextArrival is when the next job of the mix arrives; false: all have, or its group waits for the one before.
func (d *Dispatcher) NextArrival() (time.Duration, bool) {
	if d.Arrived == len(d.Jobs) {
		return 0, false
	}
	next := &d.Jobs[d.Arrived]
	if d.beginsGroup() {
		return d.lastEnd + next.At, len(d.Jobs)-d.Left == d.Arrived
	}
	return d.groupAt + next.At, true
}

// beginsGroup reports whether the job that arrives next is the first of its group.
func (d *Dispatcher) beginsGroup() bool {
	return d.Arrived == 0 || d.Jobs[d.Arrived-1].Group != d.Jobs[d.Arrived].Group
}

// Independent reports whether nodes have nothing to do with each other before the next job arrives.
func (d *Dispatcher) Independent(n *Member) bool {
	_, coming := d.NextArrival()
	return d.Waiting+n.Meet == 0 && !d.ReadsLoad && !d.companions && (coming || d.Arrived == len(d.Jobs))
}

// ArriveAll has the jobs arrive whose time has come.
func (d *Dispatcher) ArriveAll(at time.Duration) error {
	for next, coming := at, true; coming && next <= at; next, coming = d.NextArrival() {
		if err := d.arrive(); err != nil {
			return err
		}
	}
	return d.give()
}

// arrive has the next job arrive, at its own time or, if that is unknown, now.
func (d *Dispatcher) arrive() error {
	i := d.Arrived
	at, _ := d.NextArrival()
	job := &d.Jobs[i]
	if d.beginsGroup() {
		d.groupAt = d.lastEnd
	}
	d.Arrived++
	if !job.UntilOthersEnd {
		d.others++
	}
	d.Records[i].ArrivalS = new(at.Seconds())
	d.Recorder.Job(d.Records[i])
	d.Waiting++
	return d.submit(i)
}

// submit gives the head a job.
func (d *Dispatcher) submit(i int) error {
	job := &d.Jobs[i]
	known := cluster.Job{ID: schedulers.JobID(i), Name: job.Name, Ranks: ranksOf(job), Whole: job.GPUs > 1}
	if job.Long {
		known.Class = cluster.Long
	}
	if job.Computes {
		known.Kind = cluster.Computation
	}
	return d.carryOut(d.Head.Submit(known))
}

// Tell tells the head what it has to know, and carries out what it decides, until nothing follows any more. It follows all that happens,
// unless the batch is cancelled.
func (d *Dispatcher) Tell() error {
	for {
		if err := d.tellAnswers(); err != nil {
			return err
		}
		if err := d.endParts(); err != nil {
			return err
		}
		for ; len(d.again) > 0; d.again = d.again[1:] {
			if err := d.submit(d.again[0]); err != nil {
				return err
			}
		}
		if err := d.give(); err != nil {
			return err
		}
		if len(d.ended) == 0 {
			if told, err := d.tellLoads(); err != nil {
				return err
			} else if !told {
				return d.endCompanions()
			}
			continue
		}
		i := d.ended[0]
		d.ended = d.ended[1:]
		if err := d.carryOut(d.Head.JobEnded(schedulers.JobID(i))); err != nil {
			return err
		}
	}
}

// endCompanions ends the companions, if only they are left of the jobs that have arrived, and no more of their group come.
func (d *Dispatcher) endCompanions() error {
	if d.others > 0 || d.alone || d.Arrived < len(d.Jobs) && !d.beginsGroup() {
		return nil
	}
	d.alone = true
	for _, n := range d.Members {
		if n.Left == 0 {
			continue
		}
		if err := n.node.Post(runner.OnlyCompanions{}); err != nil {
			return err
		}
	}
	return nil
}

// ranksOf is how many ranks a job has for the head.
func ranksOf(j *mixes.Job) int { return max(j.Processes(), j.GPUs) }

func (d *Dispatcher) carryOut(decisions []cluster.Decision) error {
	for _, decided := range decisions {
		var err error
		switch decided := decided.(type) {
		case cluster.Assign:
			d.assign(int(decided.Job), decided.Shares)
		case cluster.Limit:
			err = d.limit(int(decided.Job), decided.Node, decided.Devices)
		case cluster.Leave:
			err = d.ask(decided)
		case cluster.Withdraw:
			err = d.withdraw(decided)
		case cluster.Refuse:
			d.endHere(int(decided.Job), results.Refused, decided.Reason)
		default:
			err = fmt.Errorf("dispatch: the head decides %T", decided)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assign has a job go to its nodes.
func (d *Dispatcher) assign(job int, shares []cluster.Share) {
	d.Waiting--
	if s := d.places[job].split; s != nil { // one of its parts has left a node
		left := s.parts[slices.IndexFunc(s.parts, func(p *Part) bool { return p.On == nil })]
		d.sendPart(d.Members[shares[0].Node], job, left)
		return
	}
	ranks := 0
	for _, share := range shares {
		ranks += share.Ranks
	}
	has := ranksOf(&d.Jobs[job])
	if len(shares) == 1 && ranks == has {
		n, at := d.Members[shares[0].Node], &d.places[job]
		at.on, at.local = n, d.send(n, Job{Number: job})
		return
	}
	s := &split{job: &d.Jobs[job], open: len(shares), said: map[results.EventKind]bool{}}
	if ranks > has { // under a literal listing
		more := *s.job
		more.Ranks, s.job = ranks, &more
	}
	d.places[job].split = s
	first := 0
	for i, share := range shares {
		p := &Part{FirstRank: first, Ranks: share.Ranks, of: s, place: i, record: d.Records[job]}
		first += share.Ranks
		s.parts = append(s.parts, p)
		d.sendPart(d.Members[share.Node], job, p)
	}
}

// sendPart has a node get a part of a job.
func (d *Dispatcher) sendPart(n *Member, job int, p *Part) {
	local := d.send(n, Job{Number: job, Part: p})
	p.On, p.Local = n, local
	n.parts[local] = p
	n.Meet++
}

// send has a node get a job, and returns its number there.
func (d *Dispatcher) send(n *Member, what Job) (local int) {
	local = len(n.jobs)
	n.jobs = append(n.jobs, what.Number)
	n.Left++
	if tasks := d.places[what.Number].tasks; tasks > 0 {
		n.before[local] = tasks
	}
	if d.ReadsLoad {
		n.awaits(local, what)
	}
	if len(n.coming) == 0 {
		d.giving = append(d.giving, n)
	}
	n.coming = append(n.coming, what)
	return local
}

// give gives nodes the jobs that go there now, together.
func (d *Dispatcher) give() error {
	for _, n := range d.giving {
		d.alone = false
		for k := range n.coming {
			what := &n.coming[k]
			if what.Whole = &d.Jobs[what.Number]; what.Part != nil {
				what.Whole = what.Part.Job()
			}
			what.Given = runner.Given{Job: *what.Whole, More: k+1 < len(n.coming)}
			what.Job.Isolate = what.Job.Isolate || d.Exclusive
			if p := what.Part; p != nil {
				what.Job.Ranks, what.Span = p.Ranks, &runner.Span{First: p.FirstRank, Of: p.of.job.Ranks}
			}
			if what.Number < len(d.Predictions) {
				what.Expected = d.Predictions[what.Number]
			}
		}
		if err := n.node.Give(n.coming); err != nil {
			return err
		}
		n.coming = n.coming[:0]
	}
	d.giving = d.giving[:0]
	return nil
}

// limit says how many devices of a node a job may use there.
func (d *Dispatcher) limit(job, node, devices int) error {
	if err := d.give(); err != nil { // the job may be among these
		return err
	}
	n, local := d.Members[node], d.places[job].local
	if s := d.places[job].split; s != nil {
		local = s.partOn(n).Local
	}
	if devices == n.Devices {
		devices = engine.NoLimit
	}
	return n.node.Post(runner.Limit{Job: local, Devices: devices})
}

// endHere ends a job that is on no node.
func (d *Dispatcher) endHere(job int, outcome results.Outcome, why string) {
	r := &d.Records[job]
	r.Outcome, r.Detail = &outcome, why
	if outcome == results.Refused {
		r.EndS = new(d.Now.Seconds())
	}
	d.Recorder.Job(*r)
	if r.ArrivalS != nil {
		d.Waiting--
	}
	d.over(job, d.Now)
}

// RefuseWaiting ends the jobs that have arrived and are on no node.
func (d *Dispatcher) RefuseWaiting(why string) {
	for i := range d.Arrived {
		if p := d.places[i]; p.on == nil && p.split == nil && !p.over {
			d.endHere(i, results.Refused, why)
		}
	}
}

// over notes that a job has its outcome since then.
func (d *Dispatcher) over(job int, at time.Duration) {
	if d.places[job].over {
		return
	}
	d.places[job].over, d.lastEnd = true, at
	d.Left--
	if r := &d.Records[job]; r.ArrivalS != nil && !d.Jobs[job].UntilOthersEnd {
		d.others--
	}
	d.ended = append(d.ended, job)
}

// Cancel stops the jobs that run, and gives the others their outcome.
func (d *Dispatcher) Cancel(why string) {
	if !d.said[results.EventCancelled] { // by a node
		d.said[results.EventCancelled] = true
		d.Recorder.Event(results.Event{AtS: d.Now.Seconds(), Kind: results.EventCancelled, Detail: why})
	}
	d.EndAll(results.Cancelled, why, func(*Member) runner.Event { return runner.Cancel{Why: why} })
}

// EndAll has an event end the jobs of each node, and gives the others their outcome.
func (d *Dispatcher) EndAll(outcome results.Outcome, why string, event func(*Member) runner.Event) {
	d.cancelled = true
	for _, n := range d.Members {
		if n.Left > 0 {
			_ = n.node.Post(event(n)) // a batch that has ended has nothing to end
		}
	}
	for i, p := range d.places {
		if p.on == nil && p.split == nil && !p.over {
			d.endHere(i, outcome, why)
		}
	}
}
