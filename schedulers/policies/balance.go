package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Load balancing (dissertation, section 3.7.1.3): while a device is idle and nothing waits, a context moves there from a slower device. A device is
// idle if no context has a slot there. Ours: it comes from the slowest device that has one which can move and fits, and there it is the one that has had its
// slot longest, and for at least balanceRest, so that none moves twice within that time. A context of several tasks stays.

const (
	balanceRest  = time.Second            // after which a context may move
	balanceEvery = 100 * time.Millisecond // how often it is looked whether one may
)

const (
	balanceOn   = "on"
	balanceOff  = "off"
	weightSpeed = "speed"
)

var (
	paramBalance = Param{Name: "balance", Default: balanceOff, Values: []string{balanceOn, balanceOff}, OmitDefault: true,
		Help: "on: while a device is idle and nothing waits, a process moves there from a slower device, if it can move"}
	paramWeights = Param{Name: "weights", Default: weightSpeed, OmitDefault: true,
		Help: "with balance=on, how fast each device is beside the others, as in 4:4:1; speed: as its SMs and their clock say"}
)

// weights reads the parameter; nil: the devices' speeds.
func (s settings) weights() (out []float64, err error) {
	if s["weights"] == weightSpeed {
		return nil, nil
	}
	if s["balance"] != balanceOn {
		return nil, fmt.Errorf("weights=%s: they count only with balance=on", s["weights"])
	}
	for text := range strings.SplitSeq(s["weights"], ":") {
		w, err := strconv.ParseFloat(text, 64)
		if err != nil || !(w > 0 && w < 1e9) {
			return nil, fmt.Errorf("weights=%s: %q: want a number above 0 for each device, as in 4:4:1", s["weights"], text)
		}
		out = append(out, w)
	}
	return out, nil
}

// weight says how fast a device is beside others.
func (p virtualGPUs) weight(device int, v schedulers.View) float64 {
	limits := v.Device(device).Limits()
	switch {
	case p.weights != nil:
		return p.weights[device]
	case limits.Speed > 0:
		return limits.Speed
	}
	return float64(limits.SMs)
}

// balancing returns the moves that may be made by a time.
func (p virtualGPUs) balancing(waiting []schedulers.Request, v schedulers.View, by time.Duration) (moves []schedulers.Revocation) {
	if !p.balances || len(waiting) > 0 || v.Len() == 1 {
		return nil
	}
	var idle, used []int // the fastest idle device first, and the slowest of the others
	for i := range v.Len() {
		if v.Device(i).Permits() == 0 {
			idle = append(idle, i)
		} else {
			used = append(used, i)
		}
	}
	faster := func(a, b int) int { return cmp.Compare(p.weight(b, v), p.weight(a, v)) }
	slices.SortStableFunc(idle, faster)
	slices.SortStableFunc(used, func(a, b int) int { return faster(b, a) })
	for _, to := range idle {
		for _, from := range used {
			if p.weight(from, v) >= p.weight(to, v) {
				break
			}
			if t, found := longest(v.Device(from), v.Device(to), by, moves); found {
				moves = append(moves, schedulers.Revocation{Task: t, Action: schedulers.Move, Deadline: balanceRest, For: schedulers.Nobody, Device: to})
				break
			}
		}
	}
	return moves
}

// longest returns the task on a device whose context has had its slot longest by a time, among those that can go to another and do not go
// elsewhere.
func longest(from, to schedulers.DeviceView, by time.Duration, moves []schedulers.Revocation) (id schedulers.TaskID, found bool) {
	var since time.Duration
	for t := range from.TaskViews() {
		switch {
		case !t.Permit || !t.Can.Has(schedulers.Move) || t.PermitSince > by-balanceRest || found && t.PermitSince >= since:
		case !to.Open(t.Task) || t.Resident > to.FreeBytes()-to.ContextBytes(t.Task) || !isAlone(t, from):
		case slices.ContainsFunc(moves, func(r schedulers.Revocation) bool { return r.Task == t.Task.ID }):
		default:
			id, since, found = t.Task.ID, t.PermitSince, true
		}
	}
	return id, found
}

// isAlone reports whether t is the only task of its process on d.
func isAlone(t schedulers.TaskView, d schedulers.DeviceView) bool {
	for o := range d.TaskViews() {
		if o.Task.Process() == t.Task.Process() && o.Task.ID != t.Task.ID {
			return false
		}
	}
	return true
}

// NextTick looks for a move as long as one may be made later.
func (p virtualGPUs) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	if len(p.balancing(waiting, v, schedulers.Never)) == 0 {
		return schedulers.Never
	}
	return now.Truncate(balanceEvery) + balanceEvery
}
