package probe

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// granter says yes to everything.
type granter struct{ tb testing.TB }

func (g granter) answer(c *Client, task uint64) {
	if err := c.server.Grant(task, 0, [16]byte{1}); err != nil {
		g.tb.Error(err)
	}
}

func (g granter) Begin(c *Client, task uint64, _ Request)       { g.answer(c, task) }
func (granter) Shape(*Client, uint64, Shape)                    {}
func (g granter) Grow(c *Client, task uint64, _ uint64, _ Wait) { g.answer(c, task) }
func (granter) Shrink(*Client, uint64, uint64) error            { return nil }
func (granter) Decided(*Client, uint64, Outcome) error          { return nil }
func (granter) Free(*Client, uint64)                            {}
func (g granter) OOM(*Client, uint64, string)                   { g.tb.Error("unexpected OOM") }
func (g granter) Fault(*Client, int32, time.Time, string)       { g.tb.Error("unexpected fault") }
func (g granter) Limited(_ *Client, why string)                 { g.tb.Errorf("unexpected limit: %s", why) }
func (g granter) Silent(c *Client)                              { g.tb.Errorf("process %d is silent", c.PID()) }
func (granter) Closed(*Client)                                  {}
func (granter) Starved(error)                                   {}

// BenchmarkRoundTrip measures case_task_begin in C processes against a server
// that grants at once. Clients run closed loops, so with 48 of them on two cores
// a request waits mostly for the other 47; paced clients pause 1 ms (one) or
// 10 ms (48) between requests, as jobs do that compute. The machine's own time for
// a packet to another C process and back stands beside them, and clients that can evict: a thread
// of theirs reads the answer and wakes the thread that waits.
func BenchmarkRoundTrip(b *testing.B) {
	client := filepath.Join(b.TempDir(), "roundtrip")
	for _, bench := range []struct {
		name    string
		clients int
		pauseUS int
		flags   []string
	}{
		{"processes=1", 1, 0, nil},
		{"evicts=1", 1, 0, []string{"-r"}},
		{"machine=1", 1, 0, []string{"-e"}},
		{"paced=1", 1, 1000, nil},
		{"paced-evicts=1", 1, 1000, []string{"-r"}},
		{"paced-machine=1", 1, 1000, []string{"-e"}},
		{"processes=48", 48, 0, nil},
		{"paced=48", 48, 10000, nil},
		{"threads=48", 48, 0, []string{"-t"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s, err := Listen(filepath.Join(b.TempDir(), "s"), granter{b}, b.Logf)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			each := max(1, b.N/bench.clients)
			cmd := exec.Command(client, append(bench.flags, "-n", strconv.Itoa(each),
				"-c", strconv.Itoa(bench.clients), "-i", strconv.Itoa(bench.pauseUS))...)
			cmd.Env = append(cmd.Environ(), "CASE_SOCKET="+s.Path(), "CASE_TOKEN="+s.Register(1), "CASE_REQUIRED=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
			var p50, p90, p99, worst, rate float64
			if _, err := fmt.Sscanf(string(out), "p50 p90 p99 max %f %f %f %f us requests_per_s %f", &p50, &p90, &p99, &worst, &rate); err != nil {
				b.Fatalf("%v in %q", err, out)
			}
			b.ReportMetric(p50, "p50-us")
			b.ReportMetric(p90, "p90-us")
			b.ReportMetric(p99, "p99-us")
			b.ReportMetric(worst, "max-us")
			b.ReportMetric(rate, "req/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

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

// revokingGranter is a granter of a run that takes memory back, and takes none.
type revokingGranter struct{ granter }

func (g revokingGranter) grant(c *Client, task uint64) {
	if err := c.server.Grant(task, 0, fakeUUID(0)); err != nil {
		g.tb.Error(err)
	}
}
func (g revokingGranter) Begin(c *Client, task uint64, _ Request)       { g.grant(c, task) }
func (g revokingGranter) Grow(c *Client, task uint64, _ uint64, _ Wait) { g.grant(c, task) }
func (g revokingGranter) Revoked(*Client, uint64, Revoked)              { g.tb.Error("unexpected answer") }
func (g revokingGranter) Resume(c *Client, task uint64, _ Resume)       { g.grant(c, task) }
func (g revokingGranter) Moved(*Client, uint64, Moved)                  {}
func (g revokingGranter) SwapMore(*Client, uint64)                      { g.tb.Error("unexpected request") }
func (g revokingGranter) SwapReturned(*Client, uint64)                  { g.tb.Error("unexpected answer") }

// figuresOf returns what runs a program under the lazy runtime, beside a server that grants everything, and reads the
// figures that it prints.
func figuresOf(b *testing.B) func(program string, figures []any, format string, env ...string) {
	b.Helper()
	library := absolute(b, lazyDir, "libcase.so")
	s, err := ListenRevoking(filepath.Join(b.TempDir(), "s"), revokingGranter{granter{b}}, Welcome{Chunk: 32 << 20}, b.Logf)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
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
// memory, each in a process of its own and in turn. CUDA's own part is left out. The least of all rounds is reported,
// because other work only adds to it, and how much more movable memory costs.
func BenchmarkLazyGate(b *testing.B) {
	run := figuresOf(b)
	launches := map[string][]float64{}
	for b.Loop() {
		for _, arm := range []string{"CASE_MOVABLE=0", movable} {
			var ns float64
			run("launch_rate", []any{&ns}, "launch %f", arm)
			launches[arm] = append(launches[arm], ns)
		}
	}
	off, on := slices.Min(launches["CASE_MOVABLE=0"]), slices.Min(launches[movable])
	b.ReportMetric(off, "launch-ns")
	b.ReportMetric(on, "movable-launch-ns")
	b.ReportMetric(on-off, "more-ns")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLazyAllocations measures an allocation of a bound process that has few others, and of one that has thousands.
func BenchmarkLazyAllocations(b *testing.B) {
	run := figuresOf(b)
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
