package nvml

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// collector keeps segments; a Sampler calls add from one goroutine.
type collector struct {
	mu  sync.Mutex
	all []Segment
}

func (c *collector) add(s Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, s)
}

func (c *collector) samples(device int, kind Kind) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		if s.Device == device && s.Kind == kind {
			n += int64(s.Samples)
		}
	}
	return n
}

func TestSamplerDeliversWhatItTook(t *testing.T) {
	enough := make(chan struct{})
	var calls, stamped atomic.Int64
	sources := []source{steady(3, 4, 5), steady(6, 7, 8)}
	sources[1].Utilization = func() (int, int, error) {
		if calls.Add(1) == 50 {
			close(enough)
		}
		return int(calls.Load() / 10 % 2), 7, nil
	}
	sources[0].Buffered = func(time.Time) ([]bufferedSample, error) {
		stamped.Add(1)
		return []bufferedSample{{time.Now(), 40}}, nil
	}
	var got collector
	s, err := start(Config{Consume: got.add}, sources)
	if err != nil {
		t.Fatal(err)
	}
	<-enough
	stats, err := s.Stop(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Ticks < 50 || stats.Ticks != stats.Devices[1].Series[GPUUtilization].Samples {
		t.Errorf("%d ticks, %d samples, want at least 50 of each and as many", stats.Ticks, stats.Devices[1].Series[GPUUtilization].Samples)
	}
	for i, d := range stats.Devices {
		for k := range Kind(numKinds) {
			if n := got.samples(i, k); n != d.Series[k].Samples {
				t.Errorf("GPU %d %v: %d samples delivered, %d counted", i, k, n, d.Series[k].Samples)
			}
		}
	}
	if mem := stats.Devices[0].Series[MemoryUsed].Samples; mem < 2 {
		t.Errorf("%d readings of memory, want at least one at the start and one at the end", mem)
	}
	if n := stats.Devices[0].Series[BufferedGPUUtilization].Samples; n != stamped.Load() {
		t.Errorf("%d buffered samples, want %d", n, stamped.Load())
	}
	if stats.Elapsed < 49*time.Millisecond {
		t.Errorf("50 ticks of 1 ms took %v: deadlines are not waited for", stats.Elapsed)
	}
	if stats.CPU <= 0 || stats.CPU < stats.SlowCPU {
		t.Errorf("processor time %v of which slow %v", stats.CPU, stats.SlowCPU)
	}
	for _, seg := range got.all {
		if seg.First < 0 || seg.Last < seg.First || seg.Last > stats.Elapsed+time.Minute {
			t.Errorf("segment %+v is outside the run of %v", seg, stats.Elapsed)
		}
	}
}

func TestEpochIsWhereStampsStart(t *testing.T) {
	var got collector
	s, err := start(Config{Epoch: time.Now().Add(-time.Hour), Consume: got.add}, []source{steady(1, 1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stop(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Elapsed > time.Minute {
		t.Errorf("elapsed %v counts from the epoch, not from the start", stats.Elapsed)
	}
	for _, seg := range got.all {
		if seg.First < time.Hour {
			t.Errorf("segment starts %v after an epoch one hour ago", seg.First)
		}
	}
}

func TestSlowConsumerLosesSegmentsNotSamples(t *testing.T) {
	release := make(chan struct{})
	var n atomic.Int64
	enough := make(chan struct{})
	changing := source{Utilization: func() (int, int, error) {
		if n.Add(1) == 20 {
			close(enough)
		}
		return int(n.Load() % 100), 0, nil // a new segment each time
	}}
	var got collector
	s, err := start(Config{queue: 2, Consume: func(seg Segment) {
		<-release
		got.add(seg)
	}}, []source{changing})
	if err != nil {
		t.Fatal(err)
	}
	<-enough // the sampler went on while the consumer was blocked
	stats, err := s.Stop(time.Millisecond)
	if !errors.Is(err, ErrHung) {
		t.Errorf("stop under a blocked consumer: %v, want ErrHung", err)
	}
	if stats.LostSegments == 0 || stats.LostSamples < stats.LostSegments {
		t.Errorf("lost %d segments and %d samples, want some", stats.LostSegments, stats.LostSamples)
	}
	close(release)
	stats, err = s.Stop(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	d := stats.Devices[0]
	taken := d.Series[GPUUtilization].Samples + d.Series[MemoryUtilization].Samples
	if kept := got.samples(0, GPUUtilization) + got.samples(0, MemoryUtilization); kept+stats.LostSamples != taken {
		t.Errorf("%d samples delivered + %d lost, want %d taken", kept, stats.LostSamples, taken)
	}
}

func TestStopDoesNotHangOnADeadDriverCall(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	sources := []source{steady(1, 1, 1), {MemoryUsed: func() (uint64, error) {
		select {
		case <-release:
		default:
			close(entered)
			<-release
		}
		return 0, errors.New("GPU is lost")
	}}}
	s, err := start(Config{memoryPeriod: time.Hour, Consume: func(Segment) {}}, sources)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	stats, err := s.Stop(time.Millisecond)
	if !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "memory_used of GPU 1") {
		t.Errorf("stop: %v, want ErrHung that names the call and the device", err)
	}
	if stats.Devices[0].Series[MemoryUsed].Samples != 1 {
		t.Errorf("statistics under a hung call: %+v, want the one sample before it", stats.Devices[0].Series[MemoryUsed])
	}
	close(release)
	stats, err = s.Stop(10 * time.Second)
	if err != nil {
		t.Errorf("stop after the call came back: %v", err)
	}
	if stats.Devices[1].Failures != 1 {
		t.Errorf("%d failures, want 1", stats.Devices[1].Failures)
	}
}

func TestConfigErrors(t *testing.T) {
	consume := func(Segment) {}
	for _, tt := range []struct {
		name, want string
		cfg        Config
	}{
		{"no consumer", "no consumer", Config{}},
		{"negative period", "period is -1ns", Config{period: -1, Consume: consume}},
		{"negative queue", "queue is -1", Config{queue: -1, Consume: consume}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := start(tt.cfg, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
}

func TestClockPlacesWallTimes(t *testing.T) {
	clk, err := newClock(time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	before := clk.now()
	got := clk.stamp(time.Now().Round(0).Add(-10 * time.Second))
	after := clk.now()
	// stamp reads the wall clock itself, so the result is not exact.
	if got < before-10*time.Second-time.Second || got > after-10*time.Second+time.Second {
		t.Errorf("10 s ago is at %v, now is %v", got, after)
	}
	if err := clk.sleepUntil(clk.now() - time.Second); err != nil {
		t.Errorf("a deadline in the past: %v", err)
	}
}

func eightFakes() []source {
	out := make([]source, 8)
	for i := range out {
		turn := 0
		out[i] = steady(0, 0, 1<<30)
		out[i].Utilization = func() (int, int, error) {
			turn++
			return turn / 200 % 100, 0, nil // the H200's refresh, 200 ms
		}
	}
	return out
}

// BenchmarkTick measures the sampler's own work in one wakeup, without the wakeup and the driver.
func BenchmarkTick(b *testing.B) {
	c := newBench(b, eightFakes()...)
	c.emit = func(Segment) {}
	turn := 0
	b.ReportAllocs()
	for b.Loop() {
		c.tick()
		if turn%100 == 0 {
			c.readMemory()
		}
		c.at += time.Millisecond
		turn++
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1000, "cpu-s/s@1kHz")
}

// BenchmarkSampler measures the whole loop with fake devices in real time. One operation is one
// period of 1 ms.
func BenchmarkSampler(b *testing.B) {
	target, reached := int64(b.N), make(chan struct{})
	var turn int64
	sources := eightFakes()
	last := sources[7].Utilization
	sources[7].Utilization = func() (int, int, error) {
		if turn++; turn == target {
			close(reached)
		}
		return last()
	}
	before := processCPU(b)
	s, err := start(Config{Consume: func(Segment) {}}, sources)
	if err != nil {
		b.Fatal(err)
	}
	<-reached
	stats, err := s.Stop(10 * time.Second)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric((processCPU(b)-before).Seconds()/max(stats.Elapsed, time.Millisecond).Seconds(), "process-cpu-s/s")
	b.ReportMetric(stats.CPU.Seconds()/max(stats.Elapsed, time.Millisecond).Seconds(), "cpu-s/s")
	b.ReportMetric(float64(stats.Missed)/float64(stats.Ticks+stats.Missed), "missed/deadline")
}

func processCPU(b *testing.B) time.Duration {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
