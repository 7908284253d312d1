package sim

import (
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// A move takes a process to another device (schedulers.Move): what it has on its device is copied there, and what is on the host stays
// there. Objects keep their addresses, so nothing else of the model changes.

// contextSeconds is how long a process takes for a context on a device where it has none. It was measured on H200s.
const contextSeconds = 0.1

// switchSeconds is how long a process takes to make its streams and events again, and to switch to the other device: estimated. So
// no policy moves processes for ever at one time.
const switchSeconds = 0.001

// peerShare is the part of its NVLink's rate that a copy from one H200 to another reached: 389 of 450 GB/s.
const peerShare = 389. / 450

// nvlink is what devices of a model send to another of the node over NVLink, in bytes per second, by the vendor's data sheets. Others
// copy through the host.
var nvlink = map[string]float64{"A100": 300e9, "H100": 450e9, "H200": 450e9, "B200": 900e9}

// canMove reports whether the process can go to another device.
func (p *process) canMove() bool { return p.movable && p.managed == 0 && len(p.mirrors) == 0 }

// leg is a part of a move, in a pool.
type leg struct {
	in *pool
	move
}

// legs are the parts of a move of so many bytes from one device to another. filled of them have contents, and the host lacks those of
// newer.
func legs(from, to *device, bytes, filled, newer int64, makesContext bool) []leg {
	var all []leg
	if rate := nvlink[from.model.Name]; bytes > 0 && rate > 0 && from.model.Name == to.model.Name {
		all = append(all, leg{from.peers, moveOf(bytes, float64(filled)/rate, peerShare)})
	} else if bytes > 0 {
		all = append(all, leg{from.link, from.model.move(bytes, newer)}, leg{to.link, to.model.move(bytes, filled)})
	}
	own := switchSeconds
	if makesContext {
		own += contextSeconds
	}
	return append(all, leg{to.peers, move{step: step{soloS: own}}})
}

// arrival is what a process that moves has taken on the other device.
type arrival struct {
	to    *device
	bytes int64
}

// leave carries out a move.
func (p *process) leave() {
	w, from, to := &p.swap, p.x.devices[p.device], p.x.devices[p.swap.ticket.Revocation.Device]
	var bytes, filled, newer int64
	for _, o := range p.task.objects {
		bytes += o.resident
		if o.filled {
			filled += o.resident
		}
		if o.newer {
			newer += o.resident
		}
	}
	drain, known, need := p.x.now-w.asked, slices.Contains(p.contexts, to), bytes
	if !known {
		need += to.model.context()
	}
	if !p.takeOn(to, need) {
		p.answer(schedulers.Busy, schedulers.Moved{Drain: drain})
		return
	}
	if !known {
		p.contexts = append(p.contexts, to)
	}
	p.recordKernels() // of the device that it leaves
	w.arrives = &arrival{to, bytes}
	p.travel(legs(from, to, bytes, filled, newer, !known), schedulers.Moved{Bytes: bytes, Drain: drain}, func(took schedulers.Moved) {
		from.free += bytes
		p.device, w.arrives = to.index, nil
		p.gaveWay(took)
	})
}

// travel does the parts of a move one after another. Until the last is done, the gate is closed.
func (p *process) travel(legs []leg, took schedulers.Moved, over func(schedulers.Moved)) {
	w, begun := &p.swap, p.x.now
	if len(legs) == 0 {
		w.moving, w.in = nil, nil
		over(took)
		return
	}
	l := legs[0]
	w.in = l.in
	w.moving = p.x.share(l.in, &activity{demand: l.demand, solo: l.soloS, done: func() {
		part := l.took(0, p.x.now-begun)
		took.Copy, took.Bookkeeping = took.Copy+part.Copy, took.Bookkeeping+part.Bookkeeping
		p.travel(legs[1:], took, over)
	}})
}

// gaveWay answers a revocation that is carried out, and opens the gate.
func (p *process) gaveWay(took schedulers.Moved) {
	held := p.swap.held
	p.swap.held = nil
	p.answer(schedulers.Done, took)
	if held != nil {
		held()
	}
}

// stay ends a move to the host or to another device together with its process.
func (p *process) stay() {
	w := &p.swap
	if w.moving != nil {
		p.x.leave(w.in, w.moving)
	}
	if w.arrives != nil {
		w.arrives.to.free += w.arrives.bytes
	}
	w.moving, w.in, w.arrives = nil, nil, nil
}
