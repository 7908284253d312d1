package engine

import (
	"math"
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// measures knows how large a task of each kind may be on each device of a state. It asks a
// schedulers.Measurer once for each kind and device, and again when the device has changed.
type measures struct {
	measurer schedulers.Measurer
	state    *state
	kinds    []*kind
	byLike   map[likeness]*kind
	latest   *kind // that kindOf found there
	others   *kind // of the tasks that came when all kinds were taken: any size may fit anywhere
}

// mostKinds limits what is kept for each device, and what a change of a device costs.
const mostKinds = 64

// kind is the tasks that a policy measures alike.
type kind struct {
	likeness
	fresh rooms   // bytes that a task may have on each device if its job has nothing there
	known []int64 // bytes, by device, that it may have if its job has a context there
	line  line    // the waiting tasks of the kind
	least *int64  // of a kind of tasks for several devices: what room returns; nil: fresh has changed since
}

// likeness is what the tasks of a kind have in common.
type likeness struct {
	task    schedulers.Task // as the policy says, without terms
	devices int
	share   int
}

// room is how large a task of the kind may be so that it may fit on as many devices as it asks for.
func (k *kind) room() int64 {
	if k.devices < 2 {
		return k.fresh.largest()
	}
	if k.least == nil {
		k.least = new(k.fresh.nthLargest(k.devices))
	}
	return *k.least
}

func newMeasures(m schedulers.Measurer, s *state) *measures {
	all := &measures{measurer: m, state: s, byLike: map[likeness]*kind{}}
	all.others = all.newKind(likeness{})
	for i := range s.devices {
		all.others.fresh.set(i, math.MaxInt64)
	}
	return all
}

func (m *measures) newKind(like likeness) *kind {
	return &kind{likeness: like, fresh: newRooms(m.state.Len()), known: make([]int64, m.state.Len())}
}

// kindOf returns the kind of t, which has been measured on each device.
func (m *measures) kindOf(t schedulers.Task) *kind {
	terms := t.Terms.OrNone()
	like := likeness{m.measurer.Like(t), terms.Devices, terms.Share}
	like.task.Isolate, like.task.Terms = t.Isolate, nil
	if m.latest != nil && m.latest.likeness == like {
		return m.latest
	}
	if k := m.byLike[like]; k != nil {
		m.latest = k
		return k
	}
	if len(m.kinds) == mostKinds {
		m.latest = nil
		m.kinds = slices.DeleteFunc(m.kinds, func(k *kind) bool {
			if k.line.len == 0 {
				delete(m.byLike, k.likeness)
			}
			return k.line.len == 0
		})
	}
	if len(m.kinds) == mostKinds {
		return m.others
	}
	k := m.newKind(like)
	m.kinds, m.byLike[like] = append(m.kinds, k), k
	for i := range m.state.devices {
		m.measure(k, i)
	}
	return k
}

// refresh measures the devices that have changed. It calls roomier for each of them that may have
// more room for the jobs that are there than for others.
func (m *measures) refresh(roomier func(device int)) {
	for _, i := range m.state.changed {
		m.state.devices[i].isChanged = false
		more := false
		for _, k := range m.kinds {
			m.measure(k, i)
			more = more || k.known[i] > k.fresh.of(i)
		}
		if more {
			roomier(i)
		}
	}
	m.state.changed = m.state.changed[:0]
}

func (m *measures) measure(k *kind, i int) {
	d, fresh, known := &m.state.devices[i], int64(-1), int64(-1)
	if d.phase != gone && d.claimed == 0 && d.closers == 0 {
		fresh, known = m.measurer.Measure(k.task, m.state, i)
		if d.phase == closing || d.sealed || len(d.jobs) > 0 && (d.isolated || k.task.Isolate) || d.shares > schedulers.WholeDevice-k.share {
			fresh = -1
		}
	}
	k.known[i], k.least = known, nil
	k.fresh.set(i, max(-1, fresh))
}

// where returns a device that t may have, or nil if there is none, and whether there are several.
// The state has not changed since refresh.
func (m *measures) where(t schedulers.Task) (one *int, several bool) {
	k := m.kindOf(t)
	may := func(i int) {
		index := &m.state.devices[i].index
		several = several || one != nil && one != index
		one = index
	}
	if t.OnDevice == nil {
		for i, ok := k.fresh.next(0, t.Bytes); ok && !several; i, ok = k.fresh.next(i+1, t.Bytes) {
			may(i)
		}
	} else if i := *t.OnDevice; i >= 0 && i < m.state.Len() && t.Bytes <= k.fresh.of(i) {
		may(i)
	}
	for _, c := range m.state.contextsOf(t.Job) {
		closing := t.OnDevice == nil && m.state.devices[c.device].phase == closing // and t is not asked to be there
		if t.Bytes <= k.known[c.device] && !closing && (t.OnDevice == nil || *t.OnDevice == c.device) {
			may(c.device)
		}
	}
	return one, several
}
