package dispatch

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers/cluster"
)

// A node that is lost takes along the jobs that have ranks there. It comes back empty.

// Lose takes a node out. why says what has happened to it.
func (d *Dispatcher) Lose(n *Member, why string) error {
	if n.Lost {
		return nil
	}
	n.Lost = true
	lost := d.Head.NodeDown(n.Index)
	var names []string
	for _, decided := range lost {
		if w, is := decided.(cluster.Withdraw); is {
			names = append(names, runner.Title(int(w.Job), d.Jobs[w.Job].Name))
		}
	}
	if len(names) > 0 {
		why += ", and with it " + size.Few(names, mostNamed, ", ")
	}
	d.Recorder.Event(results.Event{AtS: d.Now.Seconds(), Kind: results.EventNodeLost, Detail: why})
	return d.carryOutAll(lost)
}

// Return has a node come back that was lost.
func (d *Dispatcher) Return(n *Member, why string) error {
	n.Lost = false
	d.Recorder.Event(results.Event{AtS: d.Now.Seconds(), Kind: results.EventNodeBack, Detail: why})
	return d.carryOutAll(d.Head.NodeUp(n.Index))
}

// mostNamed is how many jobs an event names.
const mostNamed = 20

// withdraw ends a job that is lost with one of its nodes.
func (d *Dispatcher) withdraw(w cluster.Withdraw) error {
	if err := d.give(); err != nil { // the job may be among these
		return err
	}
	at := d.places[w.Job]
	if at.split == nil {
		if d.Again != nil && at.tries < mostTries && d.Again(&d.Jobs[w.Job]) {
			d.startsAgain(int(w.Job), w.Reason)
		}
		return at.on.node.Post(runner.Withdraw{Job: at.local, Why: w.Reason, Lost: true})
	}
	parts := at.split.parts
	if here := slices.IndexFunc(parts, func(p *Part) bool { return p.On.Lost && p.record.Outcome == nil }); here >= 0 { // it ends the others
		at.split.ends, parts = parts[here], parts[here:here+1]
	}
	for _, p := range parts {
		if err := p.On.node.Post(runner.Withdraw{Job: p.Local, Why: w.Reason, Lost: true}); err != nil {
			return err
		}
	}
	return nil
}

// LoseJob has a job end that is on nodes, because what it needs there is lost.
func (d *Dispatcher) LoseJob(job int, why string) error {
	at := d.places[job]
	w := runner.Withdraw{Job: at.local, Why: why, Lost: true}
	switch {
	case at.on != nil:
		return at.on.node.Post(w)
	case at.split == nil: // it has left meanwhile
		return nil
	}
	for _, p := range at.split.parts {
		w.Job = p.Local
		if err := p.On.node.Post(w); err != nil {
			return err
		}
	}
	return nil
}

// mostTries is how often a job starts again. Then it is lost, because it would go on for ever.
const mostTries = 1000

// startsAgain has a job wait at the head as if it had not started, because its node is lost.
func (d *Dispatcher) startsAgain(job int, why string) {
	at, had := &d.places[job], d.Records[job]
	at.on.leaves(at.local)
	at.on = nil
	at.tries++
	d.Waiting++
	again := runner.Records(d.Jobs[job : job+1])[0]
	again.Index, again.ArrivalS, again.Restarts = job, had.ArrivalS, new(at.tries)
	d.Records[job] = again
	d.Recorder.Job(again)
	why += "; it starts again"
	if had.StartS != nil {
		why += fmt.Sprintf(", and %.3f s of it are lost", d.Now.Seconds()-*had.StartS)
	}
	d.Recorder.Event(results.Event{AtS: d.Now.Seconds(), Kind: results.EventRepeated, Job: &job, Detail: why})
	d.again = append(d.again, job)
}
