package lazytest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caserun/caserun/runner/probe"
)

// BenchmarkLazyCalls measures CUDA calls of a bound process on the fake runtime,
// natively and with the lazy runtime in between: the difference is what it adds
// to each. Page-locked memory is made and written before the process is bound.
func BenchmarkLazyCalls(b *testing.B) {
	library := absolute(b, lazyDir, "libcase.so")
	for _, bench := range []struct {
		name string
		env  []string
	}{
		{"native", nil},
		{"passive", []string{"LD_PRELOAD=" + library, "CASE_BINDING=job"}},
		{"task", []string{"LD_PRELOAD=" + library, "CASE_BINDING=task"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				out, err := lazyCommand(b, "13", "rate", bench.env...).Output()
				if err != nil {
					b.Fatal(err)
				}
				var launch, transfer, pair, pinned float64
				if _, err := fmt.Sscanf(string(out), "launch %f copy %f malloc_free %f pinned_mib %f", &launch, &transfer, &pair, &pinned); err != nil {
					b.Fatalf("%v in %q", err, out)
				}
				b.ReportMetric(launch, "launch-ns")
				b.ReportMetric(transfer, "copy-ns")
				b.ReportMetric(pair, "malloc+free-ns")
				b.ReportMetric(pinned/1e3, "pinned-us/MiB")
			}
		})
	}
}

// figuresOf returns what runs a program under the lazy runtime, beside a server that grants everything, and reads the
// figures that it prints.
func figuresOf(b *testing.B, bursts bool) func(program string, figures []any, format string, env ...string) {
	b.Helper()
	library := absolute(b, lazyDir, "libcase.so")
	s, r := startRevoking(b, probe.Config{Chunk: 32 << 20, Bursts: bursts})
	go func() { // until the benchmark's process ends
		for e := range r.events {
			if e.Kind == "begin" || e.Kind == "grow" || e.Kind == "resume" {
				if err := e.grant(0, fakeUUID(0)); err != nil {
					b.Error(err)
				}
			}
		}
	}()
	return func(program string, figures []any, format string, env ...string) {
		b.Helper()
		out, err := lazyCommand(b, "13", program, append(env, "LD_PRELOAD="+library, "CASE_BINDING=task", "CASE_SOCKET="+s.Path(),
			"CASE_TOKEN="+s.Register(1), "CASE_REQUIRED=1")...).Output()
		if _, scanErr := fmt.Sscanf(string(out), format, figures...); err != nil || scanErr != nil {
			b.Fatalf("%v, %v in %q", err, scanErr, out)
		}
	}
}

// BenchmarkLazyGate measures what the library spends on a launch through the open gate, with and without movable
// memory, each in a process of its own and in turn, in the default stream and in one of the program's. CUDA's own part is
// left out. The least of all rounds is reported, because other work only adds to it, and how much more movable memory costs.
func BenchmarkLazyGate(b *testing.B) {
	run := figuresOf(b, false)
	launches, inStream := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for _, arm := range []string{"CASE_MOVABLE=0", movable} {
			var ns, streamed float64
			run("launch_rate", []any{&ns, &streamed}, "launch %f in_stream %f", arm)
			launches[arm], inStream[arm] = append(launches[arm], ns), append(inStream[arm], streamed)
		}
	}
	off, on := slices.Min(launches["CASE_MOVABLE=0"]), slices.Min(launches[movable])
	b.ReportMetric(off, "launch-ns")
	b.ReportMetric(on, "movable-launch-ns")
	b.ReportMetric(on-off, "more-ns")
	b.ReportMetric(slices.Min(inStream["CASE_MOVABLE=0"]), "stream-launch-ns")
	b.ReportMetric(slices.Min(inStream[movable]), "movable-stream-launch-ns")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLazyBursts measures a launch after a phase on the host, which has ended the burst or not: the least of all
// rounds. The difference is what it takes to get the permission again, from a server that grants at once.
func BenchmarkLazyBursts(b *testing.B) {
	for _, bursts := range []bool{false, true} {
		b.Run(fmt.Sprintf("bursts=%v", bursts), func(b *testing.B) {
			run := figuresOf(b, bursts)
			var all []float64
			for b.Loop() {
				var us float64
				run("burst_rate", []any{&us}, "launch %f", movable)
				all = append(all, us)
			}
			b.ReportMetric(slices.Min(all), "launch-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLazyAllocations measures an allocation of a bound process that has few others, and of one that has thousands.
func BenchmarkLazyAllocations(b *testing.B) {
	run := figuresOf(b, false)
	for _, arm := range []string{"CASE_MOVABLE=0", movable} {
		b.Run(arm, func(b *testing.B) {
			for b.Loop() {
				var few, many float64
				run("allocation_rate", []any{&few, &many}, "few %f many %f", "FAKE_CUDA_MEMORY=100000000000", arm)
				b.ReportMetric(few, "few-ns")
				b.ReportMetric(many, "many-ns")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
