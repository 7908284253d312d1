package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/dispatch"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/schedulers/cluster"
)

// batch is a batch on the nodes.
type batch struct {
	harness.Batch
	*dispatch.Dispatcher
	ranks
	questions questions
	backend   *Backend
	to        harness.Recorder
	members   []*member
	devices   []results.Device
	run       results.Run   // as the first node describes it
	arrival   time.Duration // by the head's clock
	desk      string        // as Preparing.Desk
	outputs   string        // directory of the run's output files
	broken    []error       // why measurements do not count
}

// member is a node of it.
type member struct {
	*dispatch.Member
	conn  *conn
	of    *batch
	jobs  []*mixes.Job  // by their numbers there
	last  []results.Job // their latest records
	ended bool          // its batch has
	gone  bool          // it answers no questions any more; under questions.mu
}

// Open prepares the nodes for a batch.
func (b *Backend) Open(ctx context.Context, of harness.Batch, to harness.Recorder) (harness.Node, error) {
	if of.Feed != nil {
		return nil, harness.Refuse(fmt.Errorf("%s: a cluster has all jobs from its start", b.options.Node))
	}
	if err := b.CheckMix(of.Mix, of.Probe, of.Profiles); err != nil && of.Cell == nil { // the jobs of a sweep fail on their nodes
		return nil, err
	}
	policy := of.Scheduler.Head.(cluster.Policy) // see CheckScheduler
	h := &batch{Batch: of, backend: b, to: to, ranks: ranks{hosts: map[int][]string{}, steps: map[int]*step{}, stepEnds: make(chan *step, len(of.Mix.Jobs))}}
	if b.conns[0].host != "" && b.Mode() == results.Live {
		h.desk = rand.Text()
	}
	_, sched := cluster.Cut(of.Sched)
	first := 0
	for _, c := range b.conns {
		of.Sched = sched
		c.to.Say(ToNode{Prepare: &Preparing{Configuration: of.Configuration, Mix: of.Mix.Name, FirstDevice: first, Started: of.Started, Desk: h.desk}})
		first += c.opened.Devices
	}
	prepared := map[*conn]*Prepared{}
	err := b.gather(ctx, "prepare its GPUs", func(c *conn, said FromNode) bool {
		if said.Prepared != nil {
			prepared[c] = said.Prepared
		}
		return said.Prepared != nil
	})
	if err != nil {
		return nil, errors.Join(append([]error{err}, h.Close(new(results.Run))...)...)
	}
	var nodes []cluster.Node
	for i, c := range b.conns {
		p := prepared[c]
		if i == 0 {
			h.run = p.Run
		}
		one := cluster.Node{Name: c.place.title(i), Devices: len(p.Devices), Weight: c.weight}
		for _, d := range p.Devices {
			d.Node, d.Index = i, len(h.devices)
			h.devices = append(h.devices, d)
			one.Cores += d.SMs
		}
		nodes = append(nodes, one)
	}
	head, err := cluster.New(policy, nodes)
	if err != nil {
		return nil, errors.Join(append([]error{harness.Refuse(err)}, h.Close(new(results.Run))...)...)
	}
	h.Dispatcher = dispatch.New(dispatch.Config{Jobs: of.Mix.Jobs, Predictions: of.Predictions, Head: head, Exclusive: policy.Exclusive(), ReadsLoad: policy.ReadsLoad(), RanksStay: true, Again: of.StartsAgain(), Recorder: to})
	for _, c := range b.conns {
		m := &member{conn: c, of: h}
		m.Member = h.Add(len(prepared[c].Devices), m)
		h.members = append(h.members, m)
	}
	return h, nil
}

// Devices are those of all nodes.
func (h *batch) Devices() []results.Device { return h.devices }

// Describe completes a run's row. What a node is like is said of the first.
func (h *batch) Describe(run *results.Run) {
	p := run.Provenance
	run.Node, run.Mode, run.Traced = h.backend.options.Node, h.backend.Mode(), h.Trace
	run.StartedAt = h.run.StartedAt
	p.PID, p.Binaries, p.Cores, p.Surroundings, p.Driver, p.CUDA = new(os.Getpid()), h.run.Provenance.Binaries, h.run.Provenance.Cores, h.run.Provenance.Surroundings, h.run.Provenance.Driver, h.run.Provenance.CUDA
	run.Provenance = p
}

func (*batch) Helpers() map[string]<-chan struct{} { return nil }

// Execute runs the batch.
func (h *batch) Execute(ctx context.Context, run int64, arrival time.Time) ([]results.Job, error) {
	h.arrival = arrival.Sub(h.backend.epoch)
	runs, err := filepath.Abs(h.backend.options.Runs)
	if err != nil {
		return nil, fmt.Errorf("output directory: %w", err)
	}
	h.outputs = filepath.Join(runs, live.OutputDir(run, h.Started))
	if h.backend.Mode() == results.Simulated {
		h.arrival = 0
	}
	if err := h.backend.compareClocks(ctx); err != nil {
		return h.Records, err
	}
	closes, err := h.listen(run)
	if err != nil {
		return h.Records, err
	}
	for i := range h.Records {
		h.to.Job(h.Records[i])
	}
	for _, e := range h.Notes {
		h.to.Event(e)
	}
	for _, m := range h.members {
		m.conn.to.Say(ToNode{Begin: &Beginning{Run: run, Zero: int64(h.arrival + m.conn.clock.offset)}})
	}
	err = errors.Join(h.drive(ctx), closes())
	h.tellClocks()
	if failed := h.Head.Err(); failed != nil {
		err = errors.Join(err, fmt.Errorf("scheduler: %w", failed))
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return h.Records, errors.Join(err, errors.Join(h.broken...))
}

// drive has the jobs arrive and takes what the nodes say, until all jobs have ended, and the nodes' batches.
func (h *batch) drive(ctx context.Context) error {
	looks := time.NewTicker(pingEvery)
	defer looks.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	stopped, noMore := ctx.Done(), false
	for h.Left > 0 || !h.allEnded() {
		h.Now = time.Since(h.backend.epoch) - h.arrival
		if !h.Cancelled() {
			if err := h.advance(due); err != nil {
				return h.fail(err)
			}
		}
		if !noMore && h.givesNoMore() {
			noMore = true
			h.tellAll(ToNode{NoMore: true})
			continue
		}
		select {
		case r := <-h.backend.in:
			h.Now = r.at - h.arrival
			if err := h.take(r); err != nil {
				return h.fail(err)
			}
		case s := <-h.stepEnds:
			if err := h.stepEnded(s); err != nil {
				return h.fail(err)
			}
		case <-looks.C:
			if err := h.look(); err != nil {
				return h.fail(err)
			}
		case <-due.C:
		case <-stopped:
			if stopped = nil; h.Left > 0 && !h.Cancelled() {
				h.Cancel(context.Cause(ctx).Error())
			}
		}
	}
	return nil
}

// fail has the nodes stop their jobs, because the batch cannot go on.
func (h *batch) fail(err error) error {
	h.Cancel(err.Error())
	return err
}

// givesNoMore reports whether the nodes get nothing more. The time of simulated nodes stands still until they know.
func (h *batch) givesNoMore() bool {
	return h.Left == 0 || h.backend.Mode() == results.Simulated && h.Arrived == len(h.Jobs) && h.Waiting == 0
}

// advance has jobs arrive, and tells the head what has happened.
func (h *batch) advance(due *time.Timer) error {
	at, coming := h.NextArrival()
	if coming && at <= h.Now {
		if err := h.ArriveAll(h.Now); err != nil {
			return err
		}
	}
	if err := h.Tell(); err != nil {
		return err
	}
	if err := h.Head.Err(); err != nil { // of the program that decides
		h.Cancel(err.Error())
		return nil
	}
	if waiting := h.Waiting; waiting > 0 && h.idle() {
		if h.RefuseWaiting("no node that is left can have it"); h.Waiting == waiting {
			return fmt.Errorf("dispatch: %d jobs wait for a node, and no node is at work", waiting)
		}
		return h.advance(due)
	}
	if at, coming = h.NextArrival(); coming {
		due.Reset(max(at-h.Now, 0))
	}
	return nil
}

// idle reports whether no node has a job.
func (h *batch) idle() bool {
	for _, m := range h.members {
		if m.Left > 0 {
			return false
		}
	}
	return true
}

func (h *batch) allEnded() bool {
	for _, m := range h.members {
		if !m.ended {
			return false
		}
	}
	return true
}

func (h *batch) tellAll(what ToNode) {
	for _, m := range h.members {
		m.conn.to.Say(what)
	}
}

// look pings the nodes. One that has been silent for long is lost.
func (h *batch) look() error {
	now := time.Since(h.backend.epoch)
	for _, m := range h.members {
		if m.conn.lost != "" {
			continue
		}
		if now-m.conn.heard > silence && len(h.backend.in) == 0 {
			m.conn.lose(fmt.Errorf("it has said nothing for %v", silence))
			if err := h.loses(m); err != nil {
				return err
			}
			continue
		}
		m.conn.to.Say(ToNode{Ping: new(int64(now))})
	}
	return nil
}

// loses has the jobs of a node that is lost end.
func (h *batch) loses(m *member) error {
	m.ended = true
	why := fmt.Sprintf("%s is lost: %s", m.conn.title, m.conn.lost)
	h.Say("%s", why)
	h.questions.end(m, why)
	return h.Lose(m.Member, why)
}

// take takes what a node says.
func (h *batch) take(r received) error {
	m := h.members[r.from.index]
	m.conn.heard = r.at
	said := r.said
	switch {
	case m.conn.lost != "":
	case r.err != nil:
		m.conn.lose(r.err)
		return h.loses(m)
	case said.Pong != nil:
		m.conn.clock.take(*said.Pong, r.at)
	case said.Say != "":
		h.Say("%s: %s", m.conn.title, said.Say)
	case said.Step != nil:
		if *said.Step < 0 || *said.Step >= len(h.Jobs) {
			m.conn.lose(errors.New("it wants a step for a job that there is not"))
			return h.loses(m)
		}
		return h.startStep(*said.Step)
	case said.Declined != nil:
		m.ends(said.Declined.Job, results.Refused, said.Declined.Why)
	case said.Controlled != nil:
		h.questions.take(*said.Controlled)
	case said.Ended != nil:
		m.ended = true
		h.questions.end(m, m.conn.title+" has ended its jobs")
		if said.Ended.Why != "" && !h.Cancelled() {
			h.broken = append(h.broken, said.Ended.of(m.conn))
			m.conn.lose(errors.New(said.Ended.Why))
			return h.loses(m)
		}
	case !m.has(said):
		m.conn.lose(errors.New("it tells of a job or a GPU that it does not have"))
		return h.loses(m)
	default:
		m.record(said)
	}
	return nil
}

// has reports whether a record is of a job and of a device that the node has.
func (m *member) has(said FromNode) bool {
	job, device := -1, -1
	switch {
	case said.Job != nil:
		job = said.Job.Index
	case said.Rank != nil:
		job = said.Rank.Job
	case said.Task != nil:
		job = said.Task.Job
	case said.Swap != nil:
		job, device = said.Swap.Job, said.Swap.Device
	case said.Kernel != nil:
		job, device = said.Kernel.Job, said.Kernel.Device
	case said.Copy != nil:
		job, device = said.Copy.Job, said.Copy.Device
	case said.Segment != nil:
		device = said.Segment.Device
	}
	return job >= -1 && job < len(m.jobs) && device >= -1 && device < m.Devices
}

// record takes a record of the node.
func (m *member) record(said FromNode) {
	switch {
	case said.Job != nil:
		j := *said.Job
		m.last[j.Index] = j
		if j.StartS != nil {
			m.Begins(j.Index)
		}
		m.tells(j)
	case said.Rank != nil:
		m.Rank(*said.Rank)
	case said.Task != nil:
		m.Task(*said.Task)
	case said.Swap != nil:
		m.Swap(*said.Swap)
	case said.Kernel != nil:
		m.Kernel(*said.Kernel)
	case said.Segment != nil:
		m.Segment(*said.Segment)
	case said.Event != nil:
		m.Event(*said.Event)
	case said.Copy != nil:
		c := *said.Copy
		c.Job, c.Device = m.Number(c.Job), m.Device(c.Device)
		m.of.to.Copy(c)
	}
}

// Give gives the node jobs that it gets together.
func (m *member) Give(jobs []dispatch.Job) error {
	for _, j := range jobs {
		r := runner.Records([]mixes.Job{*j.Whole})[0]
		r.Index, r.ArrivalS = len(m.jobs), new(m.of.Now.Seconds())
		m.jobs, m.last = append(m.jobs, j.Whole), append(m.last, r)
		j.FaultsAlone = m.of.FaultsAlone[j.Number]
		if err := m.of.prepareRanks(m, &j); err != nil {
			return err
		}
		m.conn.to.Say(ToNode{Given: &j.Given, Number: j.Number})
	}
	return nil
}

// Post has an event happen in the node's batch.
func (m *member) Post(e runner.Event) error {
	switch e := e.(type) {
	case runner.Limit:
		m.conn.to.Say(ToNode{Limit: &e})
	case runner.Withdraw:
		if m.conn.lost != "" {
			m.ends(e.Job, results.Lost, e.Why)
			return nil
		}
		m.conn.to.Say(ToNode{Withdraw: &e})
	case runner.OnlyCompanions:
		m.conn.to.Say(ToNode{Alone: true})
	case runner.Cancel:
		m.conn.to.Say(ToNode{Cancel: e.Why})
	default:
		return fmt.Errorf("dispatch: a node cannot have %T", e)
	}
	return nil
}

// Now is the time of the batch.
func (m *member) Now() time.Duration { return m.of.Now }

// ends ends a job of which the node says nothing more.
func (m *member) ends(job int, outcome results.Outcome, why string) {
	r := m.last[job]
	if r.Outcome != nil {
		return
	}
	r.Outcome, r.Detail, r.EndS = &outcome, why, new(m.of.Now.Seconds())
	if m.last[job] = r; r.StartS == nil {
		r.WaitS = new(*r.EndS - *r.ArrivalS)
	}
	m.tells(r)
}

// tells takes the record of a job.
func (m *member) tells(j results.Job) {
	job := m.Number(j.Index)
	before := m.of.Records[job].Outcome
	m.Job(j)
	if before == nil && m.of.Records[job].Outcome != nil {
		m.of.leaveRanks(job)
	}
}

// Close gives the nodes back.
func (h *batch) Close(run *results.Run) []error {
	b := h.backend
	for _, c := range b.conns {
		if c.lost == "" {
			c.to.Say(ToNode{Close: true})
		}
	}
	var problems []error
	err := b.gather(context.Background(), "give its GPUs back", func(c *conn, said FromNode) bool {
		switch {
		case said.Closed != nil:
			for _, p := range said.Closed.Problems {
				problems = append(problems, fmt.Errorf("%s: %s", c.title, p))
			}
			add(&run.Sampler, said.Closed.Run.Sampler)
			run.Tracer = said.Closed.Run.Tracer
			return true
		case h.members != nil && h.members[c.index].has(said):
			h.members[c.index].record(said)
		}
		return false
	})
	return append(problems, err, h.leaveAllRanks())
}

// add adds what a sampler did to that of others: all samples, and the worst of the rest.
func add(all *results.Sampler, one results.Sampler) {
	if all.Samples == nil {
		*all = one
		return
	}
	if one.Samples == nil {
		return
	}
	for _, n := range []struct{ to, from **int64 }{{&all.Samples, &one.Samples}, {&all.MissedDeadlines, &one.MissedDeadlines}, {&all.Errors, &one.Errors}} {
		if *n.to != nil && *n.from != nil {
			*n.to = new(**n.to + **n.from)
		}
	}
	if all.CPUS != nil && one.CPUS != nil {
		all.CPUS = new(*all.CPUS + *one.CPUS)
	}
	if all.LongestGapS != nil && one.LongestGapS != nil {
		all.LongestGapS = new(max(*all.LongestGapS, *one.LongestGapS))
	}
	if all.FirstError == nil {
		all.FirstError = one.FirstError
	}
}
