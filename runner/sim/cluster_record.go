package sim

import (
	"github.com/caserun/caserun/results"
)

// fromNode takes what a node records, with the numbers that its jobs and devices have in the batch.
type fromNode struct {
	of   *batchOfCluster
	node *member
}

func (f fromNode) device(local int) int { return f.node.first + local }

func (f fromNode) someDevice(local *int) *int {
	if local == nil {
		return nil
	}
	return new(f.device(*local))
}

func (f fromNode) someJob(local *int) *int {
	if local == nil {
		return nil
	}
	return new(f.node.jobs[*local])
}

// Job takes the record of a job, or of a part of one.
func (f fromNode) Job(j results.Job) {
	if f.node.gone[j.Index] {
		return
	}
	local, had := j.Index, &f.of.records[f.node.jobs[j.Index]]
	i, p := f.node.jobs[local], f.node.parts[local]
	if j.WaitS != nil {
		j.WaitS = new(*j.WaitS + (*j.ArrivalS - *had.ArrivalS)) // at the head, too
	}
	if on := j.On(); j.Devices != nil {
		for k := range on {
			on[k] = f.device(on[k])
		}
		j.Devices = results.DeviceList(on)
	}
	j.Index, j.Device, j.ArrivalS, j.Command = i, f.someDevice(j.Device), had.ArrivalS, had.Command
	before := f.of.places[i].over
	if p != nil {
		before = p.record.Outcome != nil
	}
	ended := j.Outcome != nil && !before
	if ended {
		f.node.left--
		f.of.begins(f.node, local)
	}
	if p != nil {
		p.tells(j, ended)
		j = p.of.record()
		ended = ended && p.of.open == 0
	}
	*had = j
	f.of.rec.Job(j)
	if ended {
		f.of.over(i, f.node.executor.now)
	}
}

// seq is the number of a task within its job.
func (f fromNode) seq(job, local int) int {
	if p := f.node.parts[job]; p != nil {
		return local*len(p.of.parts) + p.place
	}
	return local
}

func (f fromNode) Rank(r results.Rank) {
	r.Job = f.node.jobs[r.Job]
	f.of.rec.Rank(r)
}

func (f fromNode) Task(t results.Task) {
	t.Seq = f.seq(t.Job, t.Seq)
	t.Job, t.Device, t.PinnedDevice = f.node.jobs[t.Job], f.someDevice(t.Device), f.someDevice(t.PinnedDevice)
	f.of.rec.Task(t)
}

func (f fromNode) Swap(s results.Swap) {
	s.Task = f.seq(s.Job, s.Task)
	s.Job, s.Device, s.ForJob = f.node.jobs[s.Job], f.device(s.Device), f.someJob(s.ForJob)
	f.of.rec.Swap(s)
}

func (f fromNode) Kernel(k results.Kernel) {
	if k.Task != nil {
		k.Task = new(f.seq(k.Job, *k.Task))
	}
	k.Job, k.Device = f.node.jobs[k.Job], f.device(k.Device)
	f.of.rec.Kernel(k)
}

func (f fromNode) Segment(s results.Segment) {
	s.Device = f.device(s.Device)
	f.of.rec.Segment(s)
}

// Event leaves out that jobs are given to the node, and has once what the nodes all say.
func (f fromNode) Event(e results.Event) {
	if e.Kind == results.EventGiven {
		return
	}
	said, once := f.of.said, e.Kind == results.EventCancelled || e.Kind == results.EventStuck
	if e.Job != nil && f.node.parts[*e.Job] != nil {
		said, once = f.node.parts[*e.Job].of.said, e.Kind == results.EventTimeout
	}
	if once && said[e.Kind] {
		return
	}
	if once {
		said[e.Kind] = true
	}
	e.Job, e.Device = f.someJob(e.Job), f.someDevice(e.Device)
	f.of.rec.Event(e)
}

func (fromNode) Copy(results.Copy) {}
