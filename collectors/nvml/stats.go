package nvml

import (
	"time"
)

// Stats says how well the sampling worked. Readers need it beside every number that is computed
// from the segments.
type Stats struct {
	Period  time.Duration
	Elapsed time.Duration // from the first deadline to the last wakeup

	Ticks      int64         // wakeups, each of which reads every device
	Missed     int64         // deadlines that passed without a wakeup of their own
	LongestGap time.Duration // longest time between two wakeups

	// CPU is the processor time of both sampling threads, driver calls included. SlowCPU is the
	// part of the slow thread, which reads everything except utilization. CPU does not include
	// what the Go runtime spends on other threads because a thread sleeps and wakes so often;
	// BenchmarkSampler measures both.
	CPU, SlowCPU time.Duration

	// LostSegments and their LostSamples were dropped because the consumer fell behind.
	LostSegments, LostSamples int64

	Devices []DeviceStats // by position in PCI bus order
}

// DeviceStats counts one device's samples. Series[kind].Samples is the sum of Samples over the
// delivered and the lost segments of the kind.
type DeviceStats struct {
	Series   [numKinds]SeriesStats // indexed by Kind
	Failures int64                 // driver calls that failed since the start
	// FirstError is the error of the first failure; nil if no call failed.
	FirstError error
}

// SeriesStats counts one series.
type SeriesStats struct {
	Supported bool
	Samples   int64
	Segments  int64 // ended so far
	Changes   int64 // samples whose value differs from the previous value
	// Refresh is the median time between changes of value, with the resolution of one sampling
	// period. It is an upper bound of the source's refresh interval. Nil before the second change.
	Refresh *time.Duration
}

// refreshBins bounds the memory of a series: intervals of refreshBins periods or more share the
// last bin.
const refreshBins = 4096

// series is the encoder of one kind on one device with its counts.
type series struct {
	enc     encoder
	step    time.Duration // width of one bin of intervals
	bins    []uint32      // times between changes, in steps; nil until the second change
	changed time.Duration // stamp of the last change
	last    float64
	stats   SeriesStats
}

func newSeries(device int, kind Kind, step, maxGap, maxSpan time.Duration) *series {
	return &series{
		step:  step,
		stats: SeriesStats{Supported: true},
		enc: encoder{
			maxGap: maxGap, maxSpan: maxSpan,
			open: Segment{Device: device, Kind: kind},
		},
	}
}

func (s *series) add(at time.Duration, value float64, emit func(Segment)) {
	if s.stats.Samples > 0 && value != s.last {
		s.stats.Changes++
		if s.stats.Changes > 1 {
			s.interval(at - s.changed)
		}
		s.changed = at
	}
	s.last = value
	s.stats.Samples++
	if done, ok := s.enc.add(at, value); ok {
		s.stats.Segments++
		emit(done)
	}
}

// after reports whether at comes after the last sample.
func (s *series) after(at time.Duration) bool { return s.stats.Samples == 0 || at > s.enc.newest }

func (s *series) flush(emit func(Segment)) {
	if done, ok := s.enc.flush(); ok {
		s.stats.Segments++
		emit(done)
	}
}

func (s *series) interval(d time.Duration) {
	if s.bins == nil {
		s.bins = make([]uint32, refreshBins)
	}
	bin := int((d + s.step/2) / s.step)
	s.bins[min(max(bin, 0), refreshBins-1)]++
}

func (s *series) summary() SeriesStats {
	out := s.stats
	var total, seen uint32
	for _, n := range s.bins {
		total += n
	}
	if total == 0 {
		return out
	}
	for bin, n := range s.bins {
		if seen += n; 2*uint64(seen) >= uint64(total) {
			d := time.Duration(bin) * s.step
			out.Refresh = &d
			break
		}
	}
	return out
}

// schedule holds the absolute deadlines of a periodic loop.
type schedule struct {
	period, next time.Duration
	woke         time.Duration // last wakeup
	ticks        int64
	missed       int64
	longest      time.Duration
}

// wake records a wakeup at now for the deadline next and moves next to the first deadline after
// now. A deadline that is at least a period in the past is missed, because reading twice at once
// would not recover its sample.
func (s *schedule) wake(now time.Duration) {
	if s.ticks > 0 {
		s.longest = max(s.longest, now-s.woke)
	}
	s.woke = now
	s.ticks++
	passed := int64(max(0, now-s.next) / s.period)
	s.missed += passed
	s.next += time.Duration(passed+1) * s.period
}
