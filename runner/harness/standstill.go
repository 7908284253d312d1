package harness

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// The harness reads its clocks so often, and stood still if a reading comes so late. SIGSTOP, the machine's sleep and a frozen virtual
// machine stop it for seconds. Jobs that take all cores delay it by some milliseconds.
const (
	pulsePeriod = 100 * time.Millisecond
	stillBound  = time.Second
)

// instant is a reading of both clocks. They differ by the time in which the machine was suspended.
type instant struct{ monotonic, boot time.Duration }

func readClocks() (instant, error) {
	var monotonic, boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic); err != nil {
		return instant{}, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return instant{}, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
	}
	return instant{time.Duration(monotonic.Nano()), time.Duration(boot.Nano())}, nil
}

// still says how long the harness stood still between two readings, and of that how long the machine was suspended; 0: it did not.
func still(before, after instant) (stood, suspended time.Duration) {
	suspended = (after.boot - before.boot) - (after.monotonic - before.monotonic)
	stood = after.boot - before.boot - pulsePeriod
	if suspended < pulsePeriod { // the clocks are not read at one time
		suspended = 0
	}
	if stood < stillBound {
		return 0, 0
	}
	return stood, suspended
}

// pulse watches whether the harness stands still.
type pulse struct {
	said func(detail string) // takes each standstill
	stop chan struct{}
	done sync.WaitGroup
}

// watchPulse begins. Stop must follow a success.
func watchPulse(said func(detail string)) (*pulse, error) {
	last, err := readClocks()
	if err != nil {
		return nil, err
	}
	p := &pulse{said: said, stop: make(chan struct{})}
	p.done.Go(func() {
		tick := time.NewTicker(pulsePeriod)
		defer tick.Stop()
		for {
			over := false
			select {
			case <-tick.C:
			case <-p.stop:
				over = true
			}
			now, err := readClocks()
			if err == nil {
				p.beat(last, now)
				last = now
			}
			if over {
				return
			}
		}
	})
	return p, nil
}

func (p *pulse) beat(last, now instant) {
	stood, suspended := still(last, now)
	switch {
	case stood == 0:
	case suspended > 0:
		p.said(fmt.Sprintf("the harness stood still for %.1f s, of which the machine slept %.1f s: the run's times and energy may include that time", stood.Seconds(), suspended.Seconds()))
	default:
		p.said(fmt.Sprintf("the harness stood still for %.1f s, as after SIGSTOP or in a frozen virtual machine: the run's times and energy may include that time", stood.Seconds()))
	}
}

// Stop ends the watch. A standstill until now has been said.
func (p *pulse) Stop() {
	close(p.stop)
	p.done.Wait()
}

// stoodStill notes that the harness stood still, which settle records.
func (t *tracker) stoodStill(detail string) {
	t.stills = append(t.stills, results.Event{AtS: t.elapsed(), Kind: results.EventDoubt, Detail: detail})
}
