package nvml

import (
	"cmp"
	"fmt"
	"time"
)

// callLimit is how long a call outside of the sampler may take. The driver answers in milliseconds, and in seconds where it initializes
// a device. On a lost device a call may never return.
const callLimit = 10 * time.Second

// bounded returns what call returns of a device. A call that does not return in time is left, and no further call of the device is made.
func bounded[T any](n *Node, h handle, call func() (T, error)) (T, error) {
	var none T
	n.mu.Lock()
	stuck, limit := n.stuck[h.number], n.limit
	n.mu.Unlock()
	if stuck {
		return none, fmt.Errorf("an earlier driver call of it %w", ErrHung)
	}
	v, err, returned := within(limit, call)
	if returned {
		return v, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stuck == nil {
		n.stuck = map[int]bool{}
	}
	n.stuck[h.number], n.hung = true, true
	return none, fmt.Errorf("a driver call of it %w within %v", ErrHung, cmp.Or(limit, callLimit))
}

// within returns what call returns, unless it takes longer than the limit. 0: callLimit.
func within[T any](limit time.Duration, call func() (T, error)) (v T, err error, returned bool) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := call()
		done <- result{v, err}
	}()
	timer := time.NewTimer(cmp.Or(limit, callLimit))
	defer timer.Stop()
	select {
	case r := <-done:
		return r.v, r.err, true
	case <-timer.C:
		return v, nil, false
	}
}
