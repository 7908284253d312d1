package dispatch

import (
	"slices"

	"github.com/caserun/caserun/results"
)

// A Member takes what its node records, and passes it on with the numbers that jobs and devices have in the batch.

func (n *Member) someDevice(local *int) *int {
	if local == nil {
		return nil
	}
	return new(n.Device(*local))
}

func (n *Member) someJob(local *int) *int {
	if local == nil {
		return nil
	}
	return new(n.jobs[*local])
}

// Job takes the record of a job, or of a part of one.
func (n *Member) Job(j results.Job) {
	if n.gone[j.Index] || n.answered(&j) {
		return
	}
	local, had := j.Index, &n.of.Records[n.jobs[j.Index]]
	i, p := n.jobs[local], n.parts[local]
	if j.WaitS != nil {
		j.WaitS = new(*j.WaitS + (*j.ArrivalS - *had.ArrivalS)) // at the head, too
	}
	if on := j.On(); j.Devices != nil {
		for k := range on {
			on[k] = n.Device(on[k])
		}
		j.Devices = results.DeviceList(on)
	}
	j.Index, j.Device, j.ArrivalS, j.Command = i, n.someDevice(j.Device), had.ArrivalS, had.Command
	j.Suspects = slices.Clone(j.Suspects)
	for k, s := range j.Suspects {
		j.Suspects[k] = n.jobs[s]
	}
	if tries := n.of.places[i].tries; tries > 0 {
		if j.Restarts != nil {
			tries += *j.Restarts
		}
		j.Restarts = &tries
	}
	before := n.of.places[i].over
	if p != nil {
		before = p.record.Outcome != nil
	}
	ended := j.Outcome != nil && !before
	if ended {
		n.Left--
		n.Begins(local)
	}
	if p != nil {
		p.tells(j, ended)
		j = p.of.record()
		ended = ended && p.of.open == 0
	}
	*had = j
	n.of.Recorder.Job(j)
	if ended {
		n.of.over(i, n.node.Now())
	}
}

// seq is the number of a task within its job.
func (n *Member) seq(job, local int) int {
	if p := n.parts[job]; p != nil {
		return local*len(p.of.parts) + p.place
	}
	return n.before[job] + local
}

func (n *Member) Rank(r results.Rank) {
	r.Job = n.jobs[r.Job]
	n.of.Recorder.Rank(r)
}

func (n *Member) Task(t results.Task) {
	t.Seq = n.seq(t.Job, t.Seq)
	at := &n.of.places[n.jobs[t.Job]]
	at.tasks = max(at.tasks, t.Seq+1)
	t.Job, t.Device, t.PinnedDevice = n.jobs[t.Job], n.someDevice(t.Device), n.someDevice(t.PinnedDevice)
	n.of.Recorder.Task(t)
}

func (n *Member) Swap(s results.Swap) {
	s.Task = n.seq(s.Job, s.Task)
	s.Job, s.Device, s.ForJob = n.jobs[s.Job], n.Device(s.Device), n.someJob(s.ForJob)
	n.of.Recorder.Swap(s)
}

func (n *Member) Kernel(k results.Kernel) {
	if k.Task != nil {
		k.Task = new(n.seq(k.Job, *k.Task))
	}
	k.Job, k.Device = n.jobs[k.Job], n.Device(k.Device)
	n.of.Recorder.Kernel(k)
}

func (n *Member) Segment(s results.Segment) {
	s.Device = n.Device(s.Device)
	n.of.Recorder.Segment(s)
}

// Event leaves out that jobs are given to the node, and has once what the nodes all say.
func (n *Member) Event(e results.Event) {
	if e.Kind == results.EventGiven {
		return
	}
	said, once := n.of.said, e.Kind == results.EventCancelled || e.Kind == results.EventStuck
	if e.Job != nil && n.parts[*e.Job] != nil {
		said, once = n.parts[*e.Job].of.said, e.Kind == results.EventTimeout
	}
	if once && said[e.Kind] {
		return
	}
	if once {
		said[e.Kind] = true
	}
	e.Job, e.Device = n.someJob(e.Job), n.someDevice(e.Device)
	n.of.Recorder.Event(e)
}

func (*Member) Copy(results.Copy) {}
