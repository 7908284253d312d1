package dispatch

import (
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
)

// Jobs that have not started may leave a crowded node, if the policy of the head offloads.

// isBusier notes that the head is to be told how many ranks wait at the node.
func (n *Member) isBusier() {
	if n.of.ReadsLoad && !n.busier {
		n.busier = true
		n.of.busier = append(n.of.busier, n)
	}
}

// awaits notes that the node gets a job, or a part of one, that has not started there.
func (n *Member) awaits(local int, what Job) {
	ranks := ranksOf(&n.of.Jobs[what.Number])
	if what.Part != nil {
		ranks = what.Part.Ranks
	}
	n.waits[local] = ranks
	n.crowd += ranks
	n.isBusier()
}

// Begins notes that a job starts, or has ended.
func (n *Member) Begins(local int) {
	ranks, waited := n.waits[local]
	if !waited {
		return
	}
	delete(n.waits, local)
	n.crowd -= ranks
	n.begun = append(n.begun, schedulers.JobID(n.jobs[local]))
	n.isBusier()
}

// tellLoads tells the head how many ranks wait at nodes, and carries out what it decides. false: there was nothing to tell.
func (d *Dispatcher) tellLoads() (told bool, err error) {
	emptier := false
	for ; len(d.busier) > 0; told = true {
		n := d.busier[0]
		d.busier, n.busier = d.busier[1:], false
		started := n.begun
		n.begun = nil
		emptier = emptier || len(started) > 0
		if err := d.carryOutAll(d.Head.Load(n.Index, n.crowd, started...)); err != nil {
			return told, err
		}
		if err := d.tellAnswers(); err != nil {
			return told, err
		}
	}
	if emptier { // jobs of others may go there
		if err = d.carryOutAll(d.Head.Tick()); err == nil {
			err = d.tellAnswers()
		}
	}
	return told, err
}

func (d *Dispatcher) carryOutAll(decisions []cluster.Decision) error {
	if err := d.carryOut(decisions); err != nil {
		return err
	}
	return d.give()
}

// ask asks a node whether a job, or a part of one, leaves it before it starts there.
func (d *Dispatcher) ask(l cluster.Leave) error {
	job, n := int(l.Job), d.Members[l.Node]
	at := d.places[job]
	local := at.local
	if s := at.split; s != nil {
		local = s.partOn(n).Local
	}
	if d.RanksStay && d.Jobs[job].Ranks > 0 {
		d.answers = append(d.answers, answer{n, job, ""})
		return nil
	}
	if err := d.give(); err != nil { // the job may be among these
		return err
	}
	n.asked[local] = l.Reason
	return n.node.Post(runner.Withdraw{Job: local, Why: l.Reason, Unstarted: true})
}

// answer is that of a node.
type answer struct {
	of   *Member
	job  int
	left string // why it has left; "": it stays
}

// answered reports whether the record of a job says that it has left the node, which was asked. Then it counts no more.
func (n *Member) answered(r *results.Job) (left bool) {
	why, asked := n.asked[r.Index]
	if !asked || r.StartS == nil && r.Outcome == nil {
		return false
	}
	delete(n.asked, r.Index)
	job := n.jobs[r.Index]
	if r.StartS != nil || *r.Outcome != results.Cancelled || n.of.cancelled { // it stays, or has ended
		n.of.answers = append(n.of.answers, answer{n, job, ""})
		return false
	}
	at := &n.of.places[job]
	if s := at.split; s != nil {
		s.partOn(n).On = nil
		n.Meet--
	}
	at.on = nil
	n.of.Waiting++
	n.leaves(r.Index)
	n.of.answers = append(n.of.answers, answer{n, job, why})
	return true
}

// tellAnswers tells the head what nodes have answered, and carries out what it decides.
func (d *Dispatcher) tellAnswers() error {
	for len(d.answers) > 0 {
		a := d.answers[0]
		d.answers = d.answers[1:]
		tell := d.Head.Stayed
		if a.left != "" {
			tell = d.Head.Left
			d.Recorder.Event(results.Event{AtS: d.Now.Seconds(), Kind: results.EventOffloaded, Job: &a.job, Detail: a.left})
		}
		if err := d.carryOutAll(tell(schedulers.JobID(a.job), a.of.Index)); err != nil {
			return err
		}
	}
	return nil
}

// leaves notes that a job has left the node. What the node says of it counts no more.
func (n *Member) leaves(local int) {
	n.Left--
	n.gone[local] = true
	n.crowd -= n.waits[local]
	delete(n.waits, local)
}
