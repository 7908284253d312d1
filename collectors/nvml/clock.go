package nvml

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// clock counts from an epoch on CLOCK_MONOTONIC, the clock of absolute deadlines. now uses Go's
// monotonic reading, which is the same clock and needs no system call.
type clock struct {
	epoch    time.Time
	absolute time.Duration // CLOCK_MONOTONIC at the epoch
}

func newClock(epoch time.Time) (clock, error) {
	var ts unix.Timespec
	before := time.Since(epoch)
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return clock{}, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	return clock{epoch: epoch, absolute: time.Duration(ts.Nano()) - before}, nil
}

func (c clock) now() time.Duration { return time.Since(c.epoch) }

// stamp converts a wall clock time. It compares with the current wall clock, not with the wall
// clock at the epoch, so that an adjustment in between does no harm.
func (c clock) stamp(wall time.Time) time.Duration {
	now := time.Now()
	return now.Sub(c.epoch) - now.Round(0).Sub(wall.Round(0))
}

// sleepUntil returns when the clock reaches at, or at once if at has passed. A signal, such as
// the runtime's preemption signal, does not end the wait.
func (c clock) sleepUntil(at time.Duration) error {
	ts := unix.NsecToTimespec(int64(c.absolute + at))
	for {
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// threadCPU returns the processor time of the calling thread. The goroutine must be locked to
// the thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
