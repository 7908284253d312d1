package nvml

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Readings that cannot be are unknown: they are counted, and no segment has them.
func TestReadingsOutOfRange(t *testing.T) {
	const total = 16 << 30
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		name   string
		source func(odd bool) source
		kind   Kind
		want   float64 // the value that is left
	}{
		{"utilization of 4294967295 %", func(odd bool) source { return steady(pick(odd, math.MaxUint32, 40), 5, 1) }, GPUUtilization, 0.4},
		{"utilization of 101 %", func(odd bool) source { return steady(pick(odd, 101, 100), 5, 1) }, GPUUtilization, 1},
		{"memory's utilization of 250 %", func(odd bool) source { return steady(40, pick(odd, 250, 5), 1) }, MemoryUtilization, 0.05},
		{"memory above all memory", func(odd bool) source {
			return source{Memory: total, MemoryUsed: func() (uint64, error) { return pick[uint64](odd, total+1, total), nil }}
		}, MemoryUsed, total},
		{"memory where its size is unknown", func(odd bool) source {
			return source{MemoryUsed: func() (uint64, error) { return pick[uint64](odd, math.MaxUint64, 7), nil }}
		}, MemoryUsed, 7},
		{"power", func(odd bool) source {
			return source{Power: func() (uint64, error) { return pick[uint64](odd, math.MaxUint32, 700_000), nil }}
		}, Power, 700},
		{"energy", func(odd bool) source {
			return source{Energy: func() (uint64, error) { return pick[uint64](odd, math.MaxUint32, 100_000), nil }}
		}, Energy, 100},
		{"energy of all ones", func(odd bool) source {
			return source{Energy: func() (uint64, error) { return pick[uint64](odd, math.MaxUint64, 100_000), nil }}
		}, Energy, 100},
		{"SM activity", func(odd bool) source {
			return source{SMActivity: func() (float64, bool, error) { return pick(odd, 2.5, 0.25), true, nil }}
		}, SMActivity, 0.25},
		{"SM activity that is not a number", func(odd bool) source {
			return source{SMActivity: func() (float64, bool, error) { return pick(odd, math.NaN(), 0.25), true, nil }}
		}, SMActivity, 0.25},
		{"SM activity of less than nothing", func(odd bool) source {
			return source{SMActivity: func() (float64, bool, error) { return pick(odd, -1, 0.0), true, nil }}
		}, SMActivity, 0},
		{"a buffered utilization", func(odd bool) source {
			return source{Buffered: func(after time.Time) ([]bufferedSample, error) {
				return []bufferedSample{{At: now, Percent: pick(odd, 250, 60)}}, nil
			}}
		}, BufferedGPUUtilization, 0.6},
		{"a buffered sample of the future", func(odd bool) source {
			return source{Buffered: func(after time.Time) ([]bufferedSample, error) {
				return []bufferedSample{{At: pick(odd, now.Add(time.Hour), now), Percent: 60}}, nil
			}}
		}, BufferedGPUUtilization, 0.6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.source(false))
			for _, odd := range []bool{false, true, false} {
				now = now.Add(100 * time.Millisecond)
				b.at = now.Sub(time.Unix(1000, 0))
				b.sources[0] = tt.source(odd)
				for range 2 { // a failed call rests for a turn
					b.tick()
					b.readMemory()
					b.readPower()
					b.readBuffers()
					b.readActivity()
				}
			}
			b.flush()
			got := b.of(0, tt.kind)
			if len(got) == 0 || slices.ContainsFunc(got, func(s Segment) bool { return s.Value != tt.want }) {
				t.Errorf("segments %+v, want only %v", got, tt.want)
			}
			if d := b.devices()[0]; d.Failures == 0 || !errors.Is(d.FirstError, errOutOfRange) {
				t.Errorf("%d failures, %v; want those of the odd readings", d.Failures, d.FirstError)
			}
		})
	}
}

func pick[T any](odd bool, a, b T) T {
	if odd {
		return a
	}
	return b
}

// A counter whose first reading was wrong has one reading at most.
func TestCounterThatBeganWrong(t *testing.T) {
	var c counter
	const step = 100 * time.Millisecond
	if err := c.inRange(0, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 { // until maxPowerW would have brought the counter here
		if c.inRange(time.Duration(i+1)*step, 5_000_000_000+uint64(i)*70_000) == nil {
			t.Fatalf("reading %d counts", i)
		}
	}
	c = counter{}
	for i := range 100 { // 1000 W, and a wrong reading now and then
		odd := i%10 == 5
		if err := c.inRange(time.Duration(i)*step, pick(odd, uint64(math.MaxUint32), 1_000_000+uint64(i)*100_000)); odd != (err != nil) {
			t.Fatalf("reading %d: %v", i, err)
		}
	}
}

// An adjustment of the wall clock does not turn segments around.
func TestBufferedSamplesStayInOrder(t *testing.T) {
	var got []bufferedSample
	b := newBench(t, source{Buffered: func(time.Time) ([]bufferedSample, error) { return got, nil }})
	shift := time.Duration(0)
	b.stamp = func(w time.Time) time.Duration { return w.Sub(time.Unix(1000, 0)) - shift }
	b.at = time.Minute
	for i := range 8 {
		if i == 4 {
			shift = 500 * time.Millisecond
		}
		got = []bufferedSample{{At: time.Unix(1000, int64(i)*1e8), Percent: 60}}
		b.readBuffers()
	}
	b.flush()
	for _, s := range b.of(0, BufferedGPUUtilization) {
		if s.Last < s.First {
			t.Errorf("%+v ends before it begins", s)
		}
	}
}

func TestOddDriver(t *testing.T) {
	onFake(t, []string{"FAKE_METER=counter power", "FAKE_NVML_ODD=rates memory samples clock energy watts"}, func(t *testing.T, n *Node) {
		sources, free, err := n.sources()
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t, sources...)
		for range 5 {
			b.ticks(1)
			b.readPower()
			b.stamp = func(time.Time) time.Duration { return b.at }
			b.readBuffers()
		}
		b.flush()
		if err := free(); err != nil {
			t.Error(err)
		}
		for _, s := range b.segments {
			if s.Kind != BufferedGPUUtilization || s.Value != 0.6 {
				t.Errorf("a segment has %+v", s)
			}
		}
		if d, err := n.Devices(); err != nil || d[0].Memory != (Memory{Total: 16 << 30, Free: 16 << 30}) {
			t.Errorf("memory in use that cannot be: %+v, %v", d, err)
		}
	})
}

func TestMemoryIsCompleted(t *testing.T) {
	const odd = math.MaxUint64
	for _, tt := range []struct {
		m, want Memory
		ok      bool
	}{
		{Memory{10, 4, 5}, Memory{10, 4, 5}, true},
		{Memory{10, odd, 5}, Memory{10, 5, 5}, true},
		{Memory{10, 4, 11}, Memory{10, 4, 6}, true},
		{Memory{10, odd, odd}, Memory{10, odd, odd}, false},
		{Memory{0, 0, 0}, Memory{0, 0, 0}, false},
		{Memory{odd, odd, odd}, Memory{odd, odd, odd}, false},
	} {
		if got := tt.m.completed(); got != tt.want || (got.inRange() == nil) != tt.ok {
			t.Errorf("%+v: %+v, %v", tt.m, got, got.inRange())
		}
	}
}

func TestOddNumberOfProcesses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	onFake(t, []string{"FAKE_NVML_ODD=processes", "FAKE_NVML_PROCESSES=" + none}, func(t *testing.T, n *Node) {
		if err := n.Select("1", ""); err != nil {
			t.Fatal(err)
		}
		if found, err := n.Processes(0); !errors.Is(err, errOutOfRange) || !strings.HasPrefix(err.Error(), "list processes of GPU 1: ") {
			t.Errorf("%v, %v; want an error of GPU 1", found, err)
		}
	})
}

func TestOddMemoryOfAProcess(t *testing.T) {
	d := Device{ID: "1", Memory: Memory{Total: 64}}
	for bytes, want := range map[uint64]bool{0: true, 64: true, 65: false, 1<<64 - 2: false} {
		err := d.CheckUse([]Process{{PID: 1}, {PID: 2, UsedBytes: &bytes}})
		if errors.Is(err, errOutOfRange) == want || !want && !strings.HasPrefix(err.Error(), "look at process 2 on GPU 1: ") {
			t.Errorf("%d bytes of 64: %v", bytes, err)
		}
	}
}

func TestOddClock(t *testing.T) {
	onFake(t, []string{"FAKE_NVML_ODD=clock"}, func(t *testing.T, n *Node) {
		if d, err := n.Devices(); err != nil || d[0].SMClockHz != nil || d[0].MaxSMClockHz != nil {
			t.Errorf("%+v, %v; want unknown clocks", d, err)
		}
	})
}

func TestMaxClock(t *testing.T) {
	onFake(t, nil, func(t *testing.T, n *Node) {
		if d, err := n.Devices(); err != nil || *d[0].MaxSMClockHz != 1980e6 {
			t.Errorf("%+v, %v; want a clock of 1980 MHz", d, err)
		}
	})
}
