package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
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
	v, err := within(context.Background(), limit, call)
	if !errors.Is(err, errLeft) {
		return v, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stuck == nil {
		n.stuck = map[int]bool{}
	}
	n.stuck[h.number], n.hung = true, true
	return none, fmt.Errorf("a driver call of it %w", err)
}

// whole returns what a call that concerns no single device returns. A call that does not return in time, or before ctx ends, is left.
func whole[T any](ctx context.Context, n *Node, name string, call func() (T, nvml.Return)) (T, error) {
	v, err := within(ctx, n.limit, func() (T, error) {
		v, ret := call()
		return v, check(ret, name, "")
	})
	if errors.Is(err, errLeft) {
		n.mu.Lock()
		n.hung = true
		n.mu.Unlock()
		err = fmt.Errorf("%s %w", name, err)
	}
	return v, err
}

// errLeft is wrapped if a call was left, because it takes too long or because its caller stopped waiting.
var errLeft = fmt.Errorf("%w", ErrHung)

// within returns what call returns, or an error that wraps errLeft if it takes longer than the limit. 0: callLimit.
func within[T any](ctx context.Context, limit time.Duration, call func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := call()
		done <- result{v, err}
	}()
	limit = cmp.Or(limit, callLimit)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var none T
	select {
	case r := <-done:
		return r.v, r.err
	case <-timer.C:
		return none, fmt.Errorf("%w within %v", errLeft, limit)
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", errLeft, context.Cause(ctx))
	}
}
