package nvml

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkGPUWake splits the cost of one wakeup, in real time. One operation is one period of
// 1 ms. It measures the sleep alone, the sleep with bare readings of GPU 0, and the whole sampler
// with GPU 0 as several devices. Each additional reading adds the driver's cost. The remaining
// cost is the kernel's and Go's cost of a sleeping thread.
func BenchmarkGPUWake(b *testing.B) {
	sources := openSources(b)
	for _, readings := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("bare/readings=%d", readings), func(b *testing.B) {
			wakes(b, func() {
				for range readings {
					if _, _, err := sources[0].Utilization(); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
	only := source{Utilization: sources[0].Utilization}
	for _, devices := range []int{1, 8} {
		b.Run(fmt.Sprintf("sampler/devices=%d", devices), func(b *testing.B) {
			all := make([]source, devices)
			for i := range all {
				all[i] = only
			}
			process := processCPU(b)
			s, err := start(Config{Consume: func(Segment) {}}, all)
			if err != nil {
				b.Fatal(err)
			}
			time.Sleep(time.Duration(b.N) * time.Millisecond)
			stats, err := s.Stop(10 * time.Second)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(stats.CPU.Seconds()*1e6/float64(stats.Ticks), "cpu-us/wake")
			b.ReportMetric((processCPU(b)-process).Seconds()*1e6/float64(stats.Ticks), "process-us/wake")
			b.ReportMetric(float64(stats.Missed), "missed")
		})
	}
}

// wakes sleeps on deadlines 1 ms apart and calls read after each.
func wakes(b *testing.B, read func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		b.Fatal(err)
	}
	clk, err := newClock(time.Now())
	if err != nil {
		b.Fatal(err)
	}
	process := processCPU(b)
	before, deadline := threadCPU(), clk.now()
	for range b.N {
		deadline += time.Millisecond
		if err := clk.sleepUntil(deadline); err != nil {
			b.Fatal(err)
		}
		read()
	}
	b.ReportMetric((threadCPU()-before).Seconds()*1e6/float64(b.N), "cpu-us/wake")
	b.ReportMetric((processCPU(b)-process).Seconds()*1e6/float64(b.N), "process-us/wake")
}
