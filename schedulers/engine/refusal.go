package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/schedulers"
)

// tooLarge states t's need, its context included, and the capacity of the largest device that
// the policy would use for a smaller t.
func (e *Engine) tooLarge(t schedulers.Task) *schedulers.Refusal {
	bySize := make([]int, len(e.devices))
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(a, b int) int {
		return -cmp.Compare(e.devices[a].CapacityBytes, e.devices[b].CapacityBytes)
	})
	largest, usable := e.devices[bySize[0]], false
	for _, i := range bySize {
		probe := t
		probe.Bytes, probe.Need = e.devices[i].CapacityBytes-e.devices[i].ContextBytes, nil
		if t.Several() {
			if _, usable = e.together(probe, e.empty); usable {
				largest = e.devices[i]
				break
			}
		} else if p, ok := e.policy.Place(probe, e.empty); ok {
			largest, usable = e.devices[p.Device], true
			break
		}
	}
	return &schedulers.Refusal{Cause: schedulers.TooLarge, Why: whyTooLarge(t, usable, len(e.devices)) + e.withoutLost(),
		NeedBytes: sumBytes(t.Needs(), largest.ContextBytes), CapacityBytes: largest.CapacityBytes}
}

// refuse answers w. The caller has taken w out of the queue.
func (e *Engine) refuse(w *waiting, cause schedulers.Cause, why string) schedulers.Decision {
	if w.resumes != nil {
		return e.resumeRefused(w, cause, why)
	}
	r := e.tooLarge(w.task)
	r.Cause, r.Why = cause, why
	return schedulers.Decision{Kind: schedulers.Refused, Task: w.task, Device: -1, Passed: w.passed, Reason: r}
}

// withoutLost adds to why nothing fits that devices are lost.
func (e *Engine) withoutLost() string {
	var lost []string
	for _, d := range e.empty.devices {
		if d.phase == gone {
			lost = append(lost, strconv.Itoa(d.index))
		}
	}
	if len(lost) == 0 {
		return ""
	}
	return ", because the run has lost device " + strings.Join(lost, " and ")
}

func whyTooLarge(t schedulers.Task, usable bool, devices int) string {
	wants := t.Terms.OrNone().Devices
	switch {
	case wants > devices:
		return fmt.Sprintf("asks for %d devices at once, and the node has %d", wants, devices)
	case t.Several() && !usable:
		return fmt.Sprintf("the scheduler gives it no %d devices at once even when the node is empty, and would not if it needed less memory", wants)
	case t.Several():
		return fmt.Sprintf("does not fit on %d devices at once even when the node is empty", wants)
	case t.OnDevice == nil && !usable:
		return "the scheduler gives it no device even when the node is empty, and would not if it needed less memory"
	case t.OnDevice == nil:
		return "fits no device even when the node is empty"
	case *t.OnDevice < 0 || *t.OnDevice >= devices:
		return fmt.Sprintf("its process uses device %d, but the node has devices 0 to %d", *t.OnDevice, devices-1)
	case !usable:
		return fmt.Sprintf("its process uses device %d, which this scheduler does not", *t.OnDevice)
	}
	return fmt.Sprintf("its process uses device %d, which it does not fit even when the node is empty", *t.OnDevice)
}

// sumBytes adds sizes that are not negative and stops at the largest integer.
func sumBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
