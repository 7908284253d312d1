package nvml

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// source reads one device. The device does not offer a series if its function is nil or if the
// function's first call fails with errNotSupported.
type source struct {
	// Utilization returns the percentages of the GPU and of its memory.
	Utilization func() (gpu, memory int, err error)
	// MemoryUsed returns bytes.
	MemoryUsed func() (uint64, error)
	Memory     uint64 // all that the device has, in bytes; 0: unknown
	// Buffered returns the driver's own samples that are newer than after, oldest
	// first. The stamps are the driver's.
	Buffered func(after time.Time) ([]bufferedSample, error)
	// SMActivity returns the ratio over the time since the last call that returned a ratio; ok
	// is false if it has no window yet.
	SMActivity func() (ratio float64, ok bool, err error)
	// Energy returns millijoules since the driver was loaded.
	Energy func() (uint64, error)
	// Power returns milliwatts.
	Power func() (uint64, error)
	// Alive asks the device again after a call said that it is lost. Its error wraps ErrLost if that is so. It may be nil.
	Alive func() error
}

// bufferedSample is one entry of the driver's sample buffer.
type bufferedSample struct {
	At      time.Time // wall clock, with a resolution of 1 us
	Percent int
}

// maxRest is the longest time between two attempts of a failing call. Attempts must be rare,
// because a lost GPU answers slowly and would delay the samples of the other GPUs.
const maxRest = time.Second

// retry decides when a failed call is due again. After the n-th failure in a row the call rests
// for 2^(n-1) turns of its loop, but at most for most turns.
type retry struct {
	most       int
	wait, left int
	off        bool // not supported or not requested
}

// newRetries returns a retry for each of n devices in a loop of the given period.
func newRetries(n int, period time.Duration) []retry {
	out := make([]retry, n)
	for i := range out {
		out[i].off = period == 0
		if !out[i].off {
			out[i].most = max(1, int(maxRest/period))
		}
	}
	return out
}

func (r *retry) due() bool {
	if r.off {
		return false
	}
	if r.left > 0 {
		r.left--
		return false
	}
	return true
}

func (r *retry) failed() {
	r.wait = min(max(1, 2*r.wait), r.most)
	r.left = r.wait
}

func (r *retry) worked() { r.wait = 0 }

// running names the driver call that a loop is executing, so that Stop can report a call that
// does not return. 0 means none.
type running struct {
	v     atomic.Int64
	calls atomic.Int64
}

func (r *running) enter(device int, kind Kind) {
	r.calls.Add(1)
	r.v.Store(int64(device)<<8 | int64(kind) + 1)
}
func (r *running) leave() { r.v.Store(0) }

func (r *running) call() (device int, kind Kind, ok bool) {
	v := r.v.Load()
	return int(v >> 8), Kind(v&0xff - 1), v != 0
}

// core takes samples and counts them. It gets its clocks, sources and consumer from outside, so
// that tests need neither a GPU nor real time. tick may run concurrently with one of the other
// readings and with devices. No lock is held during a call of a source.
type core struct {
	now     func() time.Duration          // since the epoch
	stamp   func(time.Time) time.Duration // of a wall clock time, since the epoch
	emit    func(Segment)                 // called with mu held; must not block
	sources []source

	util, mem, buf, gpm, energy, power []retry
	newest                             []time.Time // newest buffered sample per device
	counters                           []counter   // of energy
	lost                               func(device int, err error)

	inFast, inSlow running

	mu       sync.Mutex
	gone     []bool              // the device is lost, and lost was called
	series   [][numKinds]*series // nil: not offered
	failures []int64
	first    []error
}

// bufferGap is longer than the driver's slowest refresh of 1 s (nvmlUtilization_t), so that
// equal consecutive entries of its buffer form one segment.
const bufferGap = 2500 * time.Millisecond

func newCore(sources []source, cfg Config, emit func(Segment)) *core {
	n := len(sources)
	c := &core{
		emit: emit, sources: sources,
		util: newRetries(n, cfg.period), mem: newRetries(n, cfg.memoryPeriod),
		buf: newRetries(n, cfg.bufferPeriod), gpm: newRetries(n, cfg.ActivityPeriod),
		energy: newRetries(n, cfg.powerPeriod), power: newRetries(n, cfg.powerPeriod),
		newest: make([]time.Time, n), counters: make([]counter, n), lost: cfg.Lost, gone: make([]bool, n),
		series: make([][numKinds]*series, n), failures: make([]int64, n), first: make([]error, n),
	}
	for i, s := range sources {
		offer := func(kind Kind, ok bool, step, gap time.Duration) {
			if ok {
				c.series[i][kind] = newSeries(i, kind, step, gap, cfg.maxSpan)
			}
		}
		gap := max(cfg.maxGap, 3*cfg.period)
		offer(GPUUtilization, s.Utilization != nil, cfg.period, gap)
		offer(MemoryUtilization, s.Utilization != nil, cfg.period, gap)
		offer(MemoryUsed, s.MemoryUsed != nil, cfg.memoryPeriod, max(cfg.maxGap, 3*cfg.memoryPeriod))
		offer(BufferedGPUUtilization, s.Buffered != nil, time.Millisecond, bufferGap)
		offer(SMActivity, s.SMActivity != nil && cfg.ActivityPeriod > 0, cfg.ActivityPeriod, max(cfg.maxGap, 3*cfg.ActivityPeriod))
		offer(Energy, s.Energy != nil, cfg.powerPeriod, max(cfg.maxGap, 3*cfg.powerPeriod))
		offer(Power, s.Power != nil, cfg.powerPeriod, max(cfg.maxGap, 3*cfg.powerPeriod))
	}
	return c
}

// tick reads every device's utilization.
func (c *core) tick() {
	for i, s := range c.sources {
		if s.Utilization != nil && c.util[i].due() {
			c.inFast.enter(i, GPUUtilization)
			gpu, mem, err := s.Utilization()
			at := c.now()
			c.inFast.leave()
			if err == nil {
				err = percentInRange("a utilization", gpu, mem)
			}
			c.mu.Lock()
			if c.ok(&c.util[i], i, err, GPUUtilization, MemoryUtilization) {
				c.series[i][GPUUtilization].add(at, float64(gpu)/100, c.emit)
				c.series[i][MemoryUtilization].add(at, float64(mem)/100, c.emit)
			}
			c.mu.Unlock()
		}
	}
}

func (c *core) readMemory() {
	for i, s := range c.sources {
		c.readOne(&c.mem[i], i, MemoryUsed, s.MemoryUsed, func(bytes uint64) float64 { return float64(bytes) },
			func(_ time.Duration, bytes uint64) error { return usedInRange(bytes, s.Memory) })
	}
}

// readPower reads the energy counter of each device. If a device has no counter, or its counter fails or stands still, readPower reads its power. It
// reports whether it read the power of any device.
func (c *core) readPower() (power bool) {
	// Hundredths, because the store packs them. nvml.h's only accuracy is 5 % of the power.
	hundredths := func(thousandths uint64) float64 { return float64((thousandths+5)/10) / 100 }
	for i, s := range c.sources {
		c.readOne(&c.energy[i], i, Energy, s.Energy, hundredths, c.counters[i].inRange)
		counts, counter := s.Energy != nil && !c.energy[i].off && c.energy[i].wait == 0, &c.counters[i]
		if counts && !counter.stands() {
			continue
		}
		c.readOne(&c.power[i], i, Power, s.Power, hundredths, func(_ time.Duration, mW uint64) error {
			err := powerInRange(mW)
			counter.stopped = counter.stopped || counts && err == nil && mW > 0
			return err
		})
		power = power || s.Power != nil && !c.power[i].off
	}
	return power
}

// readOne adds one value of a series, if the device offers the series and its call is due.
func (c *core) readOne(r *retry, device int, kind Kind, read func() (uint64, error), value func(uint64) float64,
	inRange func(at time.Duration, v uint64) error) {
	if read == nil || !r.due() {
		return
	}
	c.inSlow.enter(device, kind)
	v, err := read()
	at := c.now()
	c.inSlow.leave()
	if err == nil {
		err = inRange(at, v)
	}
	defer c.look(device, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ok(r, device, err, kind) {
		c.series[device][kind].add(at, value(v), c.emit)
	}
}

func (c *core) readBuffers() {
	for i, s := range c.sources {
		if s.Buffered == nil || !c.buf[i].due() {
			continue
		}
		c.inSlow.enter(i, BufferedGPUUtilization)
		got, err := s.Buffered(c.newest[i])
		c.inSlow.leave()
		good, wrong := c.sorted(got)
		if err == nil && len(good) == 0 {
			err = wrong
		}
		c.mu.Lock()
		if c.ok(&c.buf[i], i, err, BufferedGPUUtilization) {
			c.buffered(i, good)
			if wrong != nil {
				c.failed(i, wrong)
			}
		}
		c.mu.Unlock()
		c.look(i, err)
	}
}

func (c *core) readActivity() {
	for i, s := range c.sources {
		if s.SMActivity == nil || !c.gpm[i].due() {
			continue
		}
		c.inSlow.enter(i, SMActivity)
		ratio, window, err := s.SMActivity()
		at := c.now()
		c.inSlow.leave()
		if err == nil && window {
			err = ratioInRange("an SM activity", ratio)
		}
		c.mu.Lock()
		if c.ok(&c.gpm[i], i, err, SMActivity) && window {
			c.series[i][SMActivity].add(at, min(ratio, 1), c.emit)
		}
		c.mu.Unlock()
		c.look(i, err)
	}
}

// sorted returns the entries that are possible, and an error if there are others.
func (c *core) sorted(got []bufferedSample) (good []bufferedSample, wrong error) {
	now := c.now()
	for _, b := range got {
		err := percentInRange("a utilization in its sample buffer", b.Percent)
		if err == nil && c.stamp(b.At) > now+clockSlack {
			err = outOfRange("a sample", "the future, "+b.At.UTC().Format(time.RFC3339))
		}
		if err == nil {
			good = append(good, b)
		} else if wrong == nil {
			wrong = err
		}
	}
	return good, wrong
}

// buffered adds new entries. It skips entries from before the epoch, because they belong to
// earlier work on the device, and entries that an adjustment of the wall clock puts before earlier ones.
func (c *core) buffered(device int, got []bufferedSample) {
	for _, b := range got {
		if !b.At.After(c.newest[device]) {
			continue
		}
		c.newest[device] = b.At
		series := c.series[device][BufferedGPUUtilization]
		if at := c.stamp(b.At); at >= 0 && series.after(at) {
			series.add(at, float64(b.Percent)/100, c.emit)
		}
	}
}

// ok records the result of a call and reports whether there are values to add. A failure ends
// the segments of the call's series, because the values in between are unknown. mu must be held.
func (c *core) ok(r *retry, device int, err error, kinds ...Kind) bool {
	if err == nil {
		r.worked()
		return true
	}
	all := &c.series[device]
	if errors.Is(err, errNotSupported) && all[kinds[0]].stats.Samples == 0 {
		r.off = true
		for _, k := range kinds {
			all[k] = nil
		}
		return false
	}
	r.failed()
	for _, k := range kinds {
		all[k].flush(c.emit)
	}
	c.failed(device, err)
	return false
}

// failed counts a failed reading. mu must be held.
func (c *core) failed(device int, err error) {
	c.failures[device]++
	if c.first[device] == nil {
		c.first[device] = err
	}
}

// look says once that a device is lost, if err says so and the device answers nothing else either. It is for the slow loop.
func (c *core) look(device int, err error) {
	s := c.sources[device]
	if c.lost == nil || s.Alive == nil || c.isGone(device) || !errors.Is(err, ErrLost) {
		return
	}
	if err := s.Alive(); errors.Is(err, ErrLost) {
		c.lose(device, err)
	}
}

func (c *core) isGone(device int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[device]
}

// lose says once that a device is lost.
func (c *core) lose(device int, err error) {
	c.mu.Lock()
	again := c.gone[device]
	c.gone[device] = true
	c.mu.Unlock()
	if !again && c.lost != nil {
		c.lost(device, err)
	}
}

// flush ends every open segment.
func (c *core) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.series {
		for _, s := range c.series[i] {
			if s != nil {
				s.flush(c.emit)
			}
		}
	}
}

func (c *core) devices() []DeviceStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]DeviceStats, len(c.series))
	for i := range c.series {
		out[i].Failures, out[i].FirstError = c.failures[i], c.first[i]
		for k, s := range c.series[i] {
			if s != nil {
				out[i].Series[k] = s.summary()
			}
		}
	}
	return out
}
