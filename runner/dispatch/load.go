package dispatch

import (
	"slices"

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
	}
	if emptier { // jobs of others may go there
		err = d.carryOutAll(d.Head.Tick())
	}
	return told, err
}

func (d *Dispatcher) carryOutAll(decisions []cluster.Decision) error {
	if err := d.carryOut(decisions); err != nil {
		return err
	}
	return d.give()
}

// leaves has a job, or a part of one, leave a node before it starts there. Where it goes follows.
func (d *Dispatcher) leaves(w cluster.Withdraw) error {
	job, n := int(w.Job), d.Members[w.Shares[0].Node]
	at := &d.places[job]
	local := at.local
	if s := at.split; s != nil {
		p := s.parts[slices.IndexFunc(s.parts, func(p *Part) bool { return p.On == n })]
		local, p.On = p.Local, nil
		n.Meet--
	}
	at.on = nil
	d.Waiting++
	n.leaves(local)
	err := n.node.Post(runner.Withdraw{Job: local, Why: w.Reason})
	d.Recorder.Event(results.Event{AtS: d.Now.Seconds(), Kind: results.EventOffloaded, Job: &job, Detail: w.Reason})
	return err
}

// leaves notes that a job has left the node. What the node says of it counts no more.
func (n *Member) leaves(local int) {
	n.Left--
	n.gone[local] = true
	n.crowd -= n.waits[local]
	delete(n.waits, local)
}
