package probe

import (
	"fmt"
	"os/exec"
	"path/filepath"
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
