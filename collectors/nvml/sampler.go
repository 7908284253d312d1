package nvml

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Config says how to sample. Zero fields take the defaults.
type Config struct {
	// Epoch is the instant from which stamps count; default: the start.
	Epoch time.Time
	// period is the time between two readings of utilization; default 1 ms.
	period time.Duration
	// memoryPeriod is the time between two readings of the memory in use; default 100 ms. A
	// reading costs 5 to 30 us, a reading of utilization 0.25 us (H200, driver 580).
	memoryPeriod time.Duration
	// bufferPeriod is the time between two fetches of the driver's own samples; default 4 s.
	// After 4 s a fetch still returned all samples (H200, driver 580: 20 samples of 200 ms). A
	// fetch costs 1.4 to 2.5 ms.
	bufferPeriod time.Duration
	// ActivityPeriod is the window of GPM's SM activity, at least 100 ms, because shorter
	// windows read 0; default: no GPM. A reading costs 0.24 ms.
	ActivityPeriod time.Duration
	// powerPeriod is the least time between two readings of the energy counters; default 100 ms, which is near
	// the driver's own refresh. It is longer where a reading takes long (powerShare). The power of a device without a counter
	// is read in its place.
	powerPeriod time.Duration
	// maxGap is the longest time without a sample inside a segment; default 50 ms, well below
	// the driver's fastest refresh of 1/6 s.
	maxGap time.Duration
	// maxSpan is the longest duration of a segment; default 5 s.
	maxSpan time.Duration
	// queue is the number of segments that may wait for Consume; default 8192.
	queue int
	// Consume receives each segment in the order of completion, from one of the sampler's
	// goroutines. It may block: sampling continues, and segments that do not fit into the queue
	// are counted as lost.
	Consume func(Segment)
	// hangLimit is how long a driver call may take before its device counts as lost; default 30 s.
	hangLimit time.Duration
	// Lost, where not nil, is called once for each device that falls off the bus, or whose driver call does not return. It must not block.
	Lost func(device int, err error)
}

const minActivityPeriod = 100 * time.Millisecond

// The readings of all energy counters may take this part of a core, but they are read every longestRest at least. With a reading of counter and power every 100 ms, the sampler took
// 9 % of a core for two GPUs, and 20 % for four (H100 and H200, driver 580); without them 2 %.
const powerShare = 0.005

// A counter loses nothing between two readings, but jobs' shares of the energy get coarser. longestPowerRest is for power. It is well below
// the time for which a sample of power counts (results.LongestHoldS), because the energy is its integral.
const (
	longestRest      = 5 * time.Second
	longestPowerRest = 500 * time.Millisecond
)

// powerRest is how long the energy counters rest after a reading that took so much processor time.
func (c Config) powerRest(took time.Duration, power bool) time.Duration {
	longest := longestRest
	if power {
		longest = longestPowerRest
	}
	return max(min(time.Duration(float64(took)/powerShare), longest), c.powerPeriod)
}

func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"period", &c.period, time.Millisecond},
		{"memory period", &c.memoryPeriod, 100 * time.Millisecond},
		{"buffer period", &c.bufferPeriod, 4 * time.Second},
		{"power period", &c.powerPeriod, 100 * time.Millisecond},
		{"longest gap", &c.maxGap, 50 * time.Millisecond},
		{"longest segment", &c.maxSpan, 5 * time.Second},
		{"longest driver call", &c.hangLimit, 30 * time.Second},
	} {
		if *d.v < 0 {
			return c, fmt.Errorf("sampler: %s is %v, want more than 0", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if p := c.ActivityPeriod; p != 0 && p < minActivityPeriod {
		return c, fmt.Errorf("sampler: activity period is %v, want none or at least %v", p, minActivityPeriod)
	}
	if c.queue < 0 {
		return c, fmt.Errorf("sampler: queue is %d, want more than 0", c.queue)
	}
	if c.queue == 0 {
		c.queue = 8192
	}
	if c.Consume == nil {
		return c, errors.New("sampler: no consumer of segments")
	}
	return c, nil
}

// ErrHung is wrapped by Stop if a driver call or the consumer has not returned within Stop's
// limit. The blocked goroutine ends when the call returns.
var ErrHung = errors.New("has not returned")

// sampler reads devices periodically from two threads of its own. The fast thread reads
// utilization, which the driver answers in a microsecond or two. The slow thread makes all other
// calls, which take longer and wait for the driver's locks.
//
// Two threads were measured to be necessary while other processes created contexts (H200, driver
// 580). With memory on the fast thread and the buffer fetched every 100 ms, gaps reached 110 ms
// and a tenth of the deadlines were missed. With two threads gaps reached 2 ms and one deadline
// in 4000 was missed.
type sampler struct {
	cfg   Config
	core  *core
	clock clock
	queue chan Segment

	lostSegments, lostSamples atomic.Int64

	stopOnce sync.Once
	stopping chan struct{} // closed by the first Stop
	sampled  chan struct{} // closed when both loops have ended
	consumed chan struct{} // closed when Consume has had every segment

	mu      sync.Mutex
	sched   schedule
	start   time.Duration
	cpu     [2]time.Duration // fast, slow
	sleeper error            // why the fast loop ended early
}

// start samples the sources until Stop.
func start(cfg Config, sources []source) (*sampler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Epoch.IsZero() {
		cfg.Epoch = time.Now()
	}
	clk, err := newClock(cfg.Epoch)
	if err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	s := &sampler{
		cfg: cfg, clock: clk,
		queue:    make(chan Segment, cfg.queue),
		stopping: make(chan struct{}),
		sampled:  make(chan struct{}),
		consumed: make(chan struct{}),
		start:    clk.now(),
	}
	s.sched = schedule{period: cfg.period, next: s.start}
	s.core = newCore(sources, cfg, s.emit)
	s.core.now, s.core.stamp = clk.now, clk.stamp

	var loops sync.WaitGroup
	loops.Go(s.fastLoop)
	loops.Go(s.slowLoop)
	go s.watchCalls()
	go func() {
		loops.Wait()
		s.core.flush()
		close(s.queue)
		close(s.sampled)
	}()
	go func() {
		defer close(s.consumed)
		for seg := range s.queue {
			cfg.Consume(seg)
		}
	}()
	return s, nil
}

func (s *sampler) emit(seg Segment) {
	select {
	case s.queue <- seg:
	default:
		s.lostSegments.Add(1)
		s.lostSamples.Add(int64(seg.Samples))
	}
}

// cpuEvery is the number of turns of the fast loop between two readings of its processor time,
// each of which is a system call.
const cpuEvery = 64

// yieldEvery is the number of turns of the fast loop between two calls of runtime.Gosched.
//
// The runtime's monitor (sysmon) retakes the P of a goroutine that was not rescheduled for
// 10 ms, as if the goroutine blocked in a system call. sysmon looks every 20 us while it finds
// such a goroutine (Go 1.26, runtime/proc.go, retake). This cost the process 20 to 25 us in each
// period on an H200's host, and 11 to 15 us with yields.
const yieldEvery = 8

func (s *sampler) fastLoop() {
	// Never unlocked, so that no other goroutine gets the thread with its timer slack: the
	// runtime ends a thread whose goroutine ends while locked.
	runtime.LockOSThread()
	// The default slack lets the kernel wake a thread 50 us late. If the call fails, wakeups
	// are less even, and Stats shows it.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)

	for deadline := s.start; ; {
		if err := s.clock.sleepUntil(deadline); err != nil {
			s.mu.Lock()
			s.sleeper = fmt.Errorf("sampler: wait for a deadline: %w", err)
			s.mu.Unlock()
			return
		}
		select {
		case <-s.stopping:
			s.account(0)
			return
		default:
		}
		now := s.clock.now()
		s.mu.Lock()
		s.sched.wake(now)
		deadline = s.sched.next
		turn := s.sched.ticks
		s.mu.Unlock()

		s.core.tick()
		if turn%cpuEvery == 0 {
			s.account(0)
		}
		if turn%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
}

func (s *sampler) slowLoop() {
	runtime.LockOSThread()
	defer s.account(1)
	memory := time.NewTicker(s.cfg.memoryPeriod)
	defer memory.Stop()
	buffer := time.NewTicker(s.cfg.bufferPeriod)
	defer buffer.Stop()
	var activity <-chan time.Time
	if s.cfg.ActivityPeriod > 0 {
		t := time.NewTicker(s.cfg.ActivityPeriod)
		defer t.Stop()
		activity = t.C
	}
	power := time.NewTimer(s.readPower()) // first, because a run's energy counts from this reading
	defer power.Stop()
	s.core.readMemory()
	s.core.readActivity()
	for {
		select {
		case <-memory.C:
			s.core.readMemory()
		case <-power.C:
			power.Reset(s.readPower())
		case <-buffer.C:
			s.core.readBuffers()
		case <-activity:
			s.core.readActivity()
		case <-s.stopping:
			// Read what changed since the last turn.
			s.core.readPower()
			s.core.readMemory()
			s.core.readBuffers()
			return
		}
		s.account(1)
	}
}

// readPower returns when to read again.
func (s *sampler) readPower() time.Duration {
	before := threadCPU()
	power := s.core.readPower()
	return s.cfg.powerRest(threadCPU()-before, power)
}

func (s *sampler) account(loop int) {
	used := threadCPU()
	s.mu.Lock()
	s.cpu[loop] = used
	s.mu.Unlock()
}

// Stats returns the counts so far. It may be called at any time.
func (s *sampler) Stats() Stats {
	s.mu.Lock()
	out := Stats{
		Period: s.cfg.period,
		Ticks:  s.sched.ticks, Missed: s.sched.missed, LongestGap: s.sched.longest,
		CPU: s.cpu[0] + s.cpu[1], SlowCPU: s.cpu[1],
	}
	if s.sched.ticks > 0 {
		out.Elapsed = s.sched.woke - s.start
	}
	s.mu.Unlock()
	out.LostSegments, out.LostSamples = s.lostSegments.Load(), s.lostSamples.Load()
	out.Devices = s.core.devices()
	return out
}

// Stop ends the sampling, waits up to limit until the consumer has taken every segment, and
// returns the final counts. If a driver call or the consumer does not return in time, Stop
// returns the counts so far and an error that wraps ErrHung and names the call. A second Stop
// behaves like the first.
func (s *sampler) Stop(limit time.Duration) (Stats, error) {
	s.stopOnce.Do(func() { close(s.stopping) })
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.sampled:
	case <-timer.C:
		return s.Stats(), fmt.Errorf("stop sampler: %s %w within %v", s.hungIn(), ErrHung, limit)
	}
	select {
	case <-s.consumed:
	case <-timer.C:
		return s.Stats(), fmt.Errorf("stop sampler: the consumer of segments %w within %v", ErrHung, limit)
	}
	s.mu.Lock()
	err := s.sleeper
	s.mu.Unlock()
	return s.Stats(), err
}

// watchCalls says that a device is lost whose driver call does not return.
func (s *sampler) watchCalls() {
	// Several looks, because after a sleep of the machine the next look comes at once.
	const looks = 3
	tick := time.NewTicker(s.cfg.hangLimit / looks)
	defer tick.Stop()
	loops := []*running{&s.core.inFast, &s.core.inSlow}
	calls, same := make([]int64, len(loops)), make([]int, len(loops))
	for {
		select {
		case <-tick.C:
		case <-s.sampled:
			return
		case <-s.stopping:
			return
		}
		for i, r := range loops {
			n := r.calls.Load()
			device, kind, inCall := r.call()
			if !inCall || n != calls[i] {
				calls[i], same[i] = n, 0
				continue
			}
			if same[i]++; same[i] == looks {
				s.core.lose(device, fmt.Errorf("the driver call for %v %w within %v", kind, ErrHung, s.cfg.hangLimit))
			}
		}
	}
}

func (s *sampler) hungIn() string {
	for _, r := range []*running{&s.core.inFast, &s.core.inSlow} {
		if device, kind, ok := r.call(); ok {
			return fmt.Sprintf("the driver call for %v of GPU %d", kind, device)
		}
	}
	return "a sampling thread"
}
