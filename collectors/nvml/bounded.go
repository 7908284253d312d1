package nvml

import (
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
	if limit == 0 {
		limit = callLimit
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := call()
		done <- result{v, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.v, r.err
	case <-timer.C:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stuck == nil {
		n.stuck = map[int]bool{}
	}
	n.stuck[h.number], n.hung = true, true
	return none, fmt.Errorf("a driver call of it %w within %v", ErrHung, limit)
}
