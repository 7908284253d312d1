package nvml

import (
	"errors"
	"os"
	"testing"
	"time"
)

// openGPU skips the test, with the reason, only if the node has no GPU. With
// CASERUN_REQUIRE_GPU=1 it fails the test instead.
func openGPU(t *testing.T) *Node {
	t.Helper()
	n, err := Open(t.Context())
	if errors.Is(err, ErrNoGPU) && os.Getenv("CASERUN_REQUIRE_GPU") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestGPUDevices(t *testing.T) {
	n := openGPU(t)
	v, err := n.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", v)
	devices, err := n.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range devices {
		t.Logf("%+v", d)
		if d.Index != i || d.Name == "" || d.BusID == "" || d.UUIDBytes == [16]byte{} {
			t.Errorf("GPU %d has an incomplete identity: %+v", i, d)
		}
		if i > 0 && d.BusID <= devices[i-1].BusID {
			t.Errorf("GPU %d at %s comes after %s", i, d.BusID, devices[i-1].BusID)
		}
		if d.Memory.Total == 0 || d.Memory.Free > d.Memory.Total || d.Memory.Used > d.Memory.Total {
			t.Errorf("GPU %d memory %+v", i, d.Memory)
		}
		if d.ComputeMajor == 9 && (d.SMs == nil || *d.SMs < 100 || *d.SMs > 144 || *d.MaxWarpsPerSM != 64) {
			t.Errorf("GPU %d: a Hopper GPU with SMs %v", i, d.SMs)
		}
		procs, err := n.Processes(i)
		if err != nil {
			t.Error(err)
		}
		t.Logf("GPU %d processes: %+v", i, procs)
	}
}

func TestGPUSampler(t *testing.T) {
	t.Run("default", func(t *testing.T) { sampleGPU(t, Config{}) })
	t.Run("activity", func(t *testing.T) { sampleGPU(t, Config{ActivityPeriod: 500 * time.Millisecond}) })
}

func sampleGPU(t *testing.T, cfg Config) {
	n := openGPU(t)
	var got collector
	cfg.Consume = got.add
	s, err := n.StartSampler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err == nil {
		t.Error("the node closed under a running sampler")
	}
	for s.Stats().Ticks < 4000 {
		time.Sleep(100 * time.Millisecond)
	}
	stats, err := s.Stop(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ticks, %d missed, longest gap %v, %.2f%% of a core (slow part %.2f%%), %v elapsed",
		stats.Ticks, stats.Missed, stats.LongestGap,
		100*stats.CPU.Seconds()/stats.Elapsed.Seconds(), 100*stats.SlowCPU.Seconds()/stats.Elapsed.Seconds(), stats.Elapsed)
	for i, d := range stats.Devices {
		if d.Failures > 0 {
			t.Errorf("GPU %d: %d failures, first: %v", i, d.Failures, d.FirstError)
		}
		for k := range Kind(numKinds) {
			st := d.Series[k]
			if n := got.samples(i, k); n+stats.LostSamples < st.Samples {
				t.Errorf("GPU %d %v: %d samples delivered, %d taken", i, k, n, st.Samples)
			}
			refresh := "unknown"
			if st.Refresh != nil {
				refresh = st.Refresh.String()
			}
			t.Logf("GPU %d %v: supported %t, %d samples in %d segments, %d changes, refresh %s",
				i, k, st.Supported, st.Samples, st.Segments, st.Changes, refresh)
		}
		if activity := d.Series[SMActivity]; cfg.ActivityPeriod == 0 && (activity.Supported || activity.Samples > 0) {
			t.Errorf("GPU %d: GPM ran although it was not asked for", i)
		}
		if d.Series[GPUUtilization].Supported && d.Series[GPUUtilization].Samples != stats.Ticks {
			t.Errorf("GPU %d: %d samples of utilization in %d ticks", i, d.Series[GPUUtilization].Samples, stats.Ticks)
		}
	}
	counted := map[int]float64{}
	for _, seg := range got.all {
		switch {
		case seg.Kind == MemoryUsed:
		case seg.Kind == Power:
			if seg.Value <= 0 || seg.Value > 2000 {
				t.Errorf("power out of range: %+v", seg)
			}
		case seg.Kind == Energy:
			if seg.Value < counted[seg.Device] {
				t.Errorf("the energy counter fell from %v: %+v", counted[seg.Device], seg)
			}
			counted[seg.Device] = seg.Value
		case seg.Value < 0 || seg.Value > 1:
			t.Errorf("ratio out of range: %+v", seg)
		}
	}
}

// openSources opens the node's GPUs for a benchmark. It skips the benchmark only if the node has
// no GPU.
func openSources(b *testing.B) []source {
	b.Helper()
	n, err := Open(b.Context())
	if errors.Is(err, ErrNoGPU) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	sources, free, err := n.sources()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(free(), n.Close()); err != nil {
			b.Error(err)
		}
	})
	return sources
}

// optionalCall makes a call that the driver may lack.
func optionalCall(call func() (uint64, error)) error {
	if call == nil {
		return errNotSupported
	}
	_, err := call()
	return err
}

// BenchmarkGPUCalls measures what one call of each source costs on GPU 0.
func BenchmarkGPUCalls(b *testing.B) {
	sources := openSources(b)
	s := sources[0]
	newest := time.Now()
	activity := func() error {
		if s.SMActivity == nil {
			return errNotSupported
		}
		_, _, err := s.SMActivity()
		return err
	}
	node, err := Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	for name, f := range map[string]func() error{
		"Users":       func() error { _, _, err := node.Users(0, false); return err },
		"Utilization": func() error { _, _, err := s.Utilization(); return err },
		"SMActivity":  activity,
		"MemoryUsed":  func() error { _, err := s.MemoryUsed(); return err },
		"Energy":      func() error { return optionalCall(s.Energy) },
		"Power":       func() error { return optionalCall(s.Power) },
		"BufferedNew": func() error { _, err := s.Buffered(newest); return err },
		"BufferedAll": func() error { _, err := s.Buffered(time.Time{}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if name == "SMActivity" { // it answers once in a window
					b.StopTimer()
					time.Sleep(minActivityPeriod)
					b.StartTimer()
				}
				if err := f(); errors.Is(err, errNotSupported) {
					b.Skip(err)
				} else if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
