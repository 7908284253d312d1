package nvml

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

// bench drives a core with a clock that advances by one period in each tick.
type bench struct {
	*core
	at       time.Duration
	segments []Segment
}

func newBench(t interface{ Fatal(...any) }, sources ...source) *bench {
	cfg, err := Config{ActivityPeriod: 100 * time.Millisecond, Consume: func(Segment) {}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{}
	b.core = newCore(sources, cfg, func(s Segment) { b.segments = append(b.segments, s) })
	b.now = func() time.Duration { return b.at }
	b.stamp = func(w time.Time) time.Duration { return w.Sub(time.Unix(1000, 0)) }
	return b
}

func (b *bench) ticks(n int) {
	for range n {
		b.tick()
		b.readMemory()
		b.at += time.Millisecond
	}
}

func (b *bench) of(device int, kind Kind) []Segment {
	var out []Segment
	for _, s := range b.segments {
		if s.Device == device && s.Kind == kind {
			out = append(out, s)
		}
	}
	return out
}

func steady(gpu, mem int, used uint64) source {
	return source{
		Utilization: func() (int, int, error) { return gpu, mem, nil },
		MemoryUsed:  func() (uint64, error) { return used, nil },
	}
}

func TestSeriesAreSeparate(t *testing.T) {
	used := uint64(1 << 30)
	s := steady(37, 5, 0)
	s.MemoryUsed = func() (uint64, error) { return used, nil }
	b := newBench(t, steady(0, 0, 7), s)
	b.ticks(3)
	used = 2 << 30
	b.ticks(2)
	b.flush()
	const ms = time.Millisecond
	if diff := cmp.Diff([]Segment{
		{Device: 1, Kind: GPUUtilization, First: 0, Last: 4 * ms, Samples: 5, Value: 0.37},
	}, b.of(1, GPUUtilization)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Segment{
		{Device: 1, Kind: MemoryUsed, First: 0, Last: 2 * ms, Samples: 3, Value: 1 << 30},
		{Device: 1, Kind: MemoryUsed, First: 3 * ms, Last: 4 * ms, Samples: 2, Value: 2 << 30},
	}, b.of(1, MemoryUsed)); diff != "" {
		t.Error(diff)
	}
	if got := b.of(0, MemoryUsed); len(got) != 1 || got[0].Value != 7 {
		t.Errorf("device 0's memory segments are %+v, want one of 7 bytes", got)
	}
}

func TestUnsupportedSeriesIsAbsent(t *testing.T) {
	calls := 0
	s := steady(1, 1, 1)
	s.Utilization = func() (int, int, error) {
		calls++
		return 0, 0, fmt.Errorf("utilization under MIG: %w", errNotSupported)
	}
	b := newBench(t, s)
	b.ticks(10)
	b.flush()
	d := b.devices()[0]
	if d.Series[GPUUtilization].Supported || d.Series[SMActivity].Supported {
		t.Error("a series that the device does not offer says it is supported")
	}
	if !d.Series[MemoryUsed].Supported || d.Series[MemoryUsed].Samples != 10 {
		t.Errorf("memory: %+v, want 10 samples", d.Series[MemoryUsed])
	}
	if calls != 1 {
		t.Errorf("an unsupported call was made %d times, want once", calls)
	}
	if d.Failures != 0 || d.FirstError != nil {
		t.Errorf("unsupported counted as failure: %d, %v", d.Failures, d.FirstError)
	}
	if got := b.of(0, GPUUtilization); got != nil {
		t.Errorf("unsupported series has segments %+v", got)
	}
}

func TestLostDeviceLeavesTheOthers(t *testing.T) {
	lost := errors.New("GPU is lost")
	broken, calls := false, 0
	s := steady(50, 0, 1)
	s.Utilization = func() (int, int, error) {
		calls++
		if broken {
			return 0, 0, fmt.Errorf("call %d: %w", calls, lost)
		}
		return 50, 0, nil
	}
	b := newBench(t, steady(10, 0, 1), s)
	b.ticks(5)
	broken = true
	b.ticks(1000)
	broken = false
	b.ticks(1100)
	b.flush()

	d := b.devices()
	if got := d[0].Series[GPUUtilization].Samples; got != 2105 {
		t.Errorf("the healthy device has %d samples, want 2105", got)
	}
	// Turns 6, 8, 11, 16, ...: after failure n the call rests for 2^(n-1) turns.
	if d[1].Failures != 10 {
		t.Errorf("%d failures in 1000 turns, want 10 with a doubling rest", d[1].Failures)
	}
	if !errors.Is(d[1].FirstError, lost) || d[1].FirstError.Error() != "call 6: GPU is lost" {
		t.Errorf("first error %v, want that of call 6", d[1].FirstError)
	}
	segments := b.of(1, GPUUtilization)
	if len(segments) != 2 || segments[0].Samples != 5 || segments[0].Last != 4*time.Millisecond {
		t.Fatalf("segments %+v, want one of the 5 samples before the loss and one after", segments)
	}
	if segments[1].First < 1005*time.Millisecond {
		t.Errorf("second segment starts at %v, while the device was lost", segments[1].First)
	}
	if got := d[1].Series[MemoryUsed].Samples; got != 2105 {
		t.Errorf("the lost call took memory samples with it: %d, want 2105", got)
	}
}

func TestBufferedSamplesAreTakenOnce(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	history := []bufferedSample{
		{at(-300), 99}, {at(-100), 98}, // before the epoch
		{at(100), 10}, {at(300), 10}, {at(500), 20},
	}
	var asked []time.Time
	visible := 3
	b := newBench(t, source{Buffered: func(after time.Time) ([]bufferedSample, error) {
		asked = append(asked, after)
		return history[:visible], nil // a driver that returns earlier samples again
	}})
	b.readBuffers()
	visible = 5
	b.readBuffers()
	b.readBuffers()
	b.flush()
	want := []Segment{
		{Kind: BufferedGPUUtilization, First: 100 * time.Millisecond, Last: 300 * time.Millisecond, Samples: 2, Value: 0.1},
		{Kind: BufferedGPUUtilization, First: 500 * time.Millisecond, Last: 500 * time.Millisecond, Samples: 1, Value: 0.2},
	}
	if diff := cmp.Diff(want, b.segments); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]time.Time{{}, at(100), at(500)}, asked); diff != "" {
		t.Errorf("asked for samples after:\n%s", diff)
	}
}

func TestSMActivityWaitsForAWindow(t *testing.T) {
	calls := 0
	b := newBench(t, source{SMActivity: func() (float64, bool, error) {
		calls++
		return 0.25, calls > 1, nil
	}})
	b.readActivity()
	b.at = 100 * time.Millisecond
	b.readActivity()
	b.flush()
	want := []Segment{{Kind: SMActivity, First: b.at, Last: b.at, Samples: 1, Value: 0.25}}
	if diff := cmp.Diff(want, b.segments); diff != "" {
		t.Error(diff)
	}
}

func TestSegmentsAccountForEverySample(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		value := rapid.IntRange(0, 2)
		fail := rapid.IntRange(0, 9)
		var sources []source
		for range rapid.IntRange(1, 3).Draw(t, "devices") {
			sources = append(sources, source{
				Utilization: func() (int, int, error) {
					if fail.Draw(t, "fails") == 0 {
						return 0, 0, errors.New("failed")
					}
					return value.Draw(t, "gpu"), value.Draw(t, "mem"), nil
				},
				MemoryUsed: func() (uint64, error) { return uint64(value.Draw(t, "used")), nil },
			})
		}
		b := newBench(t, sources...)
		b.ticks(rapid.IntRange(0, 60).Draw(t, "ticks"))
		b.flush()
		for i, d := range b.devices() {
			for k := range Kind(numKinds) {
				var samples, segments int64
				for _, s := range b.of(i, k) {
					samples += int64(s.Samples)
					segments++
				}
				if st := d.Series[k]; samples != st.Samples || segments != st.Segments {
					t.Errorf("GPU %d %v: %d samples in %d segments, counted %d in %d",
						i, k, samples, segments, st.Samples, st.Segments)
				}
			}
		}
	})
}
