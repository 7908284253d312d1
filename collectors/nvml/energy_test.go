package nvml

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/native/nativetest"
)

// onFakeNode runs a test on the fake NVML with two devices that have the given meters.
func onFakeNode(t *testing.T, meters string, test func(*testing.T, *Node)) {
	t.Helper()
	onFake(t, []string{"FAKE_METER=" + meters}, test)
}

// onFake runs a test on the fake NVML with two devices and the given environment. The test
// runs in a process of its own, because a process that has called one NVML calls no other.
func onFake(t *testing.T, env []string, test func(*testing.T, *Node)) {
	t.Helper()
	const variable = "CASERUN_TEST_ON_FAKE_NODE"
	if os.Getenv(variable) != "" {
		n, err := Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		test(t, n)
		return
	}
	dir := filepath.Join(nativetest.Build(t, "nvml"), "build")
	var name []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		name = append(name, "^"+regexp.QuoteMeta(part)+"$")
	}
	c := exec.Command(os.Args[0], "-test.v", "-test.run", strings.Join(name, "/"))
	c.Env = append(append(os.Environ(), variable+"=1", "LD_LIBRARY_PATH="+dir, "FAKE_GPUS=2"), env...)
	if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, text)
	}
}

// read makes readings of the node's meters and returns what was sampled.
func read(t *testing.T, n *Node, readings int) *bench {
	t.Helper()
	sources, free, err := n.sources()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, sources...)
	for range readings {
		b.readPower()
		b.at += 100 * time.Millisecond
	}
	b.flush()
	if err := free(); err != nil {
		t.Error(err)
	}
	return b
}

func TestMetersOfTheDriver(t *testing.T) {
	for _, tt := range []struct {
		meters  string
		counter bool
		watts   float64 // of device 0; 0: it has no power
	}{
		{"", false, 0},
		{"counter", true, 0},
		{"power", false, 100},
		{"power instant", false, 100.5},
		{"counter power", true, 100}, // whose power is not read
	} {
		t.Run(tt.meters, func(t *testing.T) {
			onFakeNode(t, tt.meters, func(t *testing.T, n *Node) {
				b := read(t, n, 5)
				if got := b.of(1, Energy); tt.counter != (len(got) > 0) {
					t.Errorf("segments of the counter: %+v", got)
				}
				var want []Segment
				if tt.watts > 0 && !tt.counter {
					want = []Segment{{Kind: Power, Last: 400 * time.Millisecond, Samples: 5, Value: tt.watts}}
				}
				if diff := cmp.Diff(want, b.of(0, Power)); diff != "" {
					t.Error(diff)
				}
				for i, d := range b.devices() {
					if d.Failures != 0 || d.Series[Energy].Supported != tt.counter || !tt.counter && d.Series[Power].Supported != (tt.watts > 0) {
						t.Errorf("GPU %d: %+v, want no failures, and as supported what it has", i, d)
					}
				}
			})
		})
	}
}

// A counter that stands still while the device draws power measures nothing. The power takes its place.
func TestCounterThatStandsStill(t *testing.T) {
	for _, tt := range []struct {
		name          string
		mJ, mW        uint64
		moves, counts bool
	}{
		{"at 0", 0, 100_000, false, false},
		{"elsewhere", 7_000_000, 100_000, false, false},
		{"and no power", 0, 0, false, true},
		{"not", 0, 100_000, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mJ := tt.mJ
			b := newBench(t, source{Energy: func() (uint64, error) { return mJ, nil }, Power: func() (uint64, error) { return tt.mW, nil }})
			for range 40 {
				b.readPower()
				b.at += 100 * time.Millisecond
				if tt.moves {
					mJ += 10_000
				}
			}
			b.flush()
			d := b.devices()[0]
			if counts := d.Series[Energy].Samples == 40; counts != tt.counts || counts != (d.Failures == 0) {
				t.Errorf("%d readings of the counter count, %d failed (%v)", d.Series[Energy].Samples, d.Failures, d.FirstError)
			}
			if !tt.counts && (d.Series[Power].Samples < 20 || !strings.Contains(d.FirstError.Error(), "stands still")) {
				t.Errorf("%d readings of the power, %v", d.Series[Power].Samples, d.FirstError)
			}
		})
	}
}

// A lost device loses its meters, is counted, and loses nothing else.
func TestLostMeterLosesNothingElse(t *testing.T) {
	onFakeNode(t, "counter power fails", func(t *testing.T, n *Node) {
		b := read(t, n, 3)
		for i, d := range b.devices() {
			if d.Series[Energy].Samples != 1 || d.Series[Power].Samples != 1 || d.Failures != 2 || // one each; the third turn is a rest
				!strings.Contains(fmt.Sprint(d.FirstError), "nvmlDeviceGetTotalEnergyConsumption") {
				t.Errorf("GPU %d: %+v, want one sample of each meter and a failure of each", i, d)
			}
		}
	})
}

func TestMetersAreRoundedToHundredths(t *testing.T) {
	b := newBench(t, source{Energy: func() (uint64, error) { return 1_234_565, nil }}, source{Power: func() (uint64, error) { return 70_004, nil }})
	b.readPower()
	b.flush()
	if e, p := b.of(0, Energy)[0].Value, b.of(1, Power)[0].Value; e != 1234.57 || p != 70 {
		t.Errorf("1234.565 J and 70.004 W are %v and %v", e, p)
	}
}

// The power is read only where the counter is missing or fails, and then at once.
func TestPowerStandsInForTheCounter(t *testing.T) {
	var fails error
	powers := 0
	b := newBench(t, source{
		Energy: func() (uint64, error) { return 1, fails },
		Power:  func() (uint64, error) { powers++; return 70_000, nil },
	})
	for i, c := range []struct {
		fails  error
		powers int
	}{
		{nil, 0},
		{errors.New("unknown error"), 1}, // the counter rests for a turn
		{nil, 2},
		{nil, 2},
		{errNotSupported, 3}, // a failure as any other, because it worked before
	} {
		fails = c.fails
		before := powers
		power := b.readPower()
		if powers != c.powers || power != (powers > before) {
			t.Errorf("turn %d: power was read %d times, and said to be %v, want %d", i, powers, power, c.powers)
		}
	}
}

// Counters rest for as long as keeps them within their part of a core, but for 5 s at most, and powers for as long as their integral allows.
func TestCostlyCountersAreReadRarely(t *testing.T) {
	cfg := Config{powerPeriod: 100 * time.Millisecond}
	for _, c := range []struct {
		took  time.Duration
		power bool
		want  time.Duration
	}{
		{50 * time.Microsecond, false, 100 * time.Millisecond},
		{2 * time.Millisecond, false, 400 * time.Millisecond},
		{13 * time.Millisecond, false, 2600 * time.Millisecond},
		{200 * time.Millisecond, false, 5 * time.Second}, // a driver's first call may be slow
		{13 * time.Millisecond, true, 500 * time.Millisecond},
		{50 * time.Microsecond, true, 100 * time.Millisecond},
	} {
		if got := cfg.powerRest(c.took, c.power); got != c.want {
			t.Errorf("a reading of %v, of power %v: rest %v, want %v", c.took, c.power, got, c.want)
		}
	}

	// A counter that costs nothing is read again and again. One that takes 50 ms of processor time rests for 5 s, and then
	// there are only the readings at the start and at the end.
	for _, costs := range []bool{false, true} {
		var readings, ticks int
		read, sampled := make(chan struct{}), make(chan struct{})
		s, err := start(Config{powerPeriod: time.Millisecond, Consume: func(Segment) {}}, []source{{
			Utilization: func() (int, int, error) {
				if ticks++; ticks == 50 {
					close(sampled)
				}
				return 1, 1, nil
			},
			Energy: func() (uint64, error) {
				if readings++; readings == 5 {
					close(read)
				}
				for before := threadCPU(); costs && threadCPU() < before+50*time.Millisecond; {
				}
				return uint64(readings), nil
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		<-sampled
		if !costs {
			<-read
		}
		if _, err := s.Stop(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		if costs && readings != 2 {
			t.Errorf("a costly counter was read %d times, want 2", readings)
		}
	}
}

// Readings of energy and power that hang do not delay utilization: it is read 50 times between
// the beginning and the end of one call. A sampler that reads both on one thread never ends this
// test.
func TestMetersDoNotDelayUtilization(t *testing.T) {
	for name, hang := range map[string]func(*source, func() (uint64, error)){
		"energy": func(s *source, f func() (uint64, error)) { s.Energy = f },
		"power":  func(s *source, f func() (uint64, error)) { s.Power = f },
	} {
		t.Run(name, func(t *testing.T) {
			entered, enough := make(chan struct{}), make(chan struct{})
			calls, during := 0, 0
			device := source{Utilization: func() (int, int, error) {
				select {
				case <-entered:
					if during++; during == 50 {
						close(enough)
					}
				default:
				}
				return 1, 1, nil
			}}
			hang(&device, func() (uint64, error) {
				if calls++; calls == 1 {
					close(entered)
					<-enough
				}
				return 0, errors.New("GPU is lost")
			})
			var got collector
			s, err := start(Config{Consume: got.add}, []source{device})
			if err != nil {
				t.Fatal(err)
			}
			<-enough
			stats, err := s.Stop(10 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if n := got.samples(0, GPUUtilization); n < 50 || n != stats.Ticks {
				t.Errorf("%d samples of utilization in %d ticks, want one in each", n, stats.Ticks)
			}
		})
	}
}
