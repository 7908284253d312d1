package engine

import "github.com/caserun/caserun/schedulers"

// A move (schedulers.Move) takes a task from its device to another. Until its process has answered, the task and the
// context of its process are charged on both, and the context has a permit on both if it has one. If it waits for one, it has that where it
// goes. A move that is not
// done leaves everything as it was. The context on the device that the task has left stays until its process exits.

// lent is what a context has on a device only for moves to it that are under way.
type lent struct{ context, permit bool }

// canMove reports whether h may go to a device now.
func (e *Engine) canMove(h *holding, to int) bool {
	if to < 0 || to >= len(e.devices) || to == h.at.Device || h.at.Exclusive {
		return false
	}
	d := &e.state.devices[to]
	return d.Open(h.task) && h.bytes <= d.FreeBytes()-d.ContextBytes(h.task) &&
		(h.resume == nil || e.couldResume(h, d.limits)) && (h.growth == nil || e.couldGrow(h, h.growth.bytes, d.limits))
}

// beginMove charges h on the device where its ticket wants it.
func (e *Engine) beginMove(h *holding) {
	from, to, p := &e.state.devices[h.at.Device], &e.state.devices[h.ticket.Device], h.task.Process()
	has := to.lent[p]
	has.context = has.context || !to.contexts[p]
	permitted := from.permitted(p) || h.resume != nil
	has.permit = has.permit || permitted && !to.permitted(p)
	to.lend(p, has)
	e.state.enter(to.index, p)
	if permitted {
		to.permit(p, permit{since: e.now, ranks: h.task.Terms.OrNone().Ranks})
	}
	to.join(h.task, schedulers.Placement{Device: to.index})
	e.state.charge(to.index, h.ticket.Bytes)
	to.arriving++
}

// endMove ends the move of h, which is on the other device if it is done.
func (e *Engine) endMove(h *holding, done bool) {
	from, to, p := &e.state.devices[h.at.Device], &e.state.devices[h.ticket.Device], h.task.Process()
	to.arriving--
	if !done {
		e.state.charge(to.index, -h.ticket.Bytes)
		to.gaveBack(p)
		to.part(h.task, schedulers.Placement{Device: to.index})
		e.takeBack(to, h)
		return
	}
	if h.growth != nil {
		e.uncount(h.growth)
	}
	e.state.charge(from.index, -h.bytes)
	from.gaveBack(p)
	from.part(h.task, h.at)
	from.unlist(h)
	h.at, h.got, h.kept = schedulers.Placement{Device: to.index}, e.now, 0
	to.list(h)
	if h.growth != nil {
		e.count(h.growth)
	}
	has := to.lent[p]
	has.context = false
	if from.permitted(p) {
		has.permit = false
		to.permit(p, permit{since: e.now, ranks: h.task.Terms.OrNone().Ranks})
		if !from.hasTaskOf(p) {
			from.unpermit(p)
		}
	}
	to.lend(p, has)
	e.takeBack(to, h)
	if h.resume != nil {
		h.resume.task.OnDevice = &to.index
	}
}

// takeBack ends what the context of moved's process has on d for moves, unless others of it are under way.
func (e *Engine) takeBack(d *device, moved *holding) {
	p := moved.task.Process()
	has := d.lent[p]
	if has == (lent{}) {
		return
	}
	for h := range e.listed() {
		if h != moved && h.task.Process() == p && h.movesTo(d.index) {
			return
		}
	}
	if has.permit {
		d.unpermit(p)
	}
	d.lend(p, lent{})
	if has.context {
		e.state.leave(p.Job, func(c context) bool { return c.process == p && c.device == d.index })
	}
}

// lend sets what the context of p has here only for moves.
func (d *device) lend(p schedulers.Process, has lent) {
	switch {
	case has == (lent{}):
		delete(d.lent, p)
	case d.lent == nil:
		d.lent = map[schedulers.Process]lent{p: has}
	default:
		d.lent[p] = has
	}
}

// moves reports whether h has a ticket to move.
func (h *holding) moves() bool {
	return h.revocable != nil && h.ticket != nil && h.ticket.Action == schedulers.Move
}

// movesTo reports whether h has a ticket to move to a device.
func (h *holding) movesTo(device int) bool { return h.moves() && h.ticket.Device == device }

// stranded refuses what h waits for, which it asked for while it moved, and its new device could never give.
func (e *Engine) stranded(h *holding) []schedulers.Decision {
	const why = "the device to which its task has moved is too small"
	var decisions []schedulers.Decision
	on := e.devices[h.at.Device]
	if h.resume != nil && !e.couldResume(h, on) {
		decisions = append(decisions, e.resumeRefused(e.queue.take(h.resume), schedulers.TooLarge, why))
	}
	if g := h.growth; g != nil && !e.couldGrow(h, g.bytes, on) {
		e.endGrowth(g)
		decisions = append(decisions, e.growRefused(h, g.bytes, schedulers.DeviceFull, why))
	}
	return decisions
}
