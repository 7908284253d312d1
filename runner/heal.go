package runner

import (
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// ailment is a time in which the MPS server may not have served a device: from
// a client's fault or death there until the server was seen healthy. Seen on an
// H200 (driver 580): the server's state is FAULT within 30 ms of a fault and
// 150 ms of a kill -9 in mid-kernel, it turns new clients away with error 807
// while one of the old ones is left, and is ACTIVE again 60 ms after the last.
type ailment struct {
	device   int
	from, to time.Duration
	seen     time.Duration // when the server itself was first seen broken; Never: it was not
}

// during reports whether it lasted at that time.
func (a ailment) during(t time.Duration) bool { return a.from <= t && t <= a.to }

// unwell notes that trouble at time at may have broken the server on the devices of these
// stays, and has the executor look after it.
func (b *Batch) unwell(stays []stay, at time.Duration) {
	if !b.config.MPS || b.cancelled || b.ended == len(b.jobs) {
		return
	}
	found := false
	for _, s := range stays {
		if s.from > at || at > s.to {
			continue
		}
		found = true
		if a := b.ailing(s.device); a != nil {
			a.from = min(a.from, at)
			continue
		}
		b.ailments = append(b.ailments, ailment{device: s.device, from: at, to: schedulers.Never, seen: schedulers.Never})
	}
	switch {
	case !found:
	case b.healing:
		b.relapsed = true
	default:
		b.healing = true
		b.executor.Heal()
	}
}

// ailing is the device's ailment that has not ended, or nil.
func (b *Batch) ailing(device int) *ailment {
	for i, a := range b.ailments {
		if a.device == device && a.to == schedulers.Never {
			return &b.ailments[i]
		}
	}
	return nil
}

// hold keeps a grant back while the server is being healed: it turns new clients
// away, whatever their device (seen on two H200s, 1 ms after a fault on the other
// device). A client goes on where it was: the server waits for it to end.
// A process whose device was settled before it started has it.
func (b *Batch) hold(d schedulers.Decision) bool {
	j, client, here := b.jobs[d.Task.Job], false, false
	if j.binding != 0 && j.binding != d.Task.ID {
		return false
	}
	for _, s := range j.stays {
		if s.process == d.Task.Serial && s.open() {
			client, here = true, here || s.device == d.Device
		}
	}
	if !b.healing || client && (here || b.ailing(d.Device) == nil) {
		return false
	}
	b.held = append(b.held, d)
	return true
}

// turnsAway reports whether a CUDA error is the MPS server's answer to a client
// that it does not serve: no connection, a failed call, not ready (CUDA Runtime
// API, cudaErrorMpsConnectionFailed and the two that follow it), or devices
// unavailable, to one that came before the fault and makes its context after it.
func turnsAway(code int) bool { return code == 46 || 805 <= code && code <= 807 }

// ServerBroken says what is wrong with the MPS server that Heal looks after.
func (b *Batch) ServerBroken(why error, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seenBroken(now)
	b.serverEvent(results.EventMPSBroken, why, now)
}

// ServerFaulted says that the MPS server's own log shows a fault on a device, which it
// does some 25 ms before a client can be told (H200, driver 580).
func (b *Batch) ServerFaulted(device int, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unwell([]stay{{device: device, from: now, to: now}}, now)
	if a := b.ailing(device); a != nil {
		a.seen = min(a.seen, now)
	}
}

// seenBroken notes that the server was broken at that time.
func (b *Batch) seenBroken(now time.Duration) {
	for i, a := range b.ailments {
		if a.to == schedulers.Never {
			b.ailments[i].seen = min(a.seen, now)
		}
	}
}

// Healed says that the MPS server is healthy, or why nobody waits for it any
// longer: then jobs go on to start, and what befalls them on the devices
// concerned is collateral.
func (b *Batch) Healed(err error, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == len(b.jobs) {
		return // nobody waits
	}
	again := b.relapsed
	b.relapsed = false
	if err == nil && again {
		b.executor.Heal() // what happened meanwhile may show only now
		return
	}
	b.healing = false
	if err != nil {
		b.seenBroken(now)
		b.serverEvent(results.EventMPSNotRecovered, err, now)
	} else {
		for i := range b.ailments {
			b.ailments[i].to = min(b.ailments[i].to, now)
		}
		if b.sick {
			b.serverEvent(results.EventMPSRecovered, nil, now)
		}
	}
	b.sick = false
	held := slices.DeleteFunc(b.held, func(d schedulers.Decision) bool {
		return b.jobs[d.Task.Job].binding != d.Task.ID && b.tasks[d.Task.ID] == nil // freed meanwhile
	})
	b.held = nil
	b.carryOut(held, now)
	b.admit(now)
}

func (b *Batch) serverEvent(kind results.EventKind, why error, now time.Duration) {
	e := results.Event{AtS: seconds(now), Kind: kind}
	if why != nil {
		b.sick = true
		e.Detail, _, _ = strings.Cut(why.Error(), "\n") // without the server's log
	}
	b.recorder.Event(e)
}
