package probe

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/caserun/caserun/runner/probe/probetest"
)

// granter says yes to everything, and hands every event to also.
func granter(tb testing.TB, also func(probetest.Event)) *Server {
	tb.Helper()
	var s *Server
	record := probetest.NewRecorder(func(e probetest.Event) error {
		switch e.Kind {
		case "begin", "grow":
			also(e)
			_ = s.Grant(e.ID, 0, [16]byte{1}) // its process may be gone
		case "oom", "fault", "limited", "disconnected", "misbehaved":
			tb.Errorf("unexpected %+v", e)
		default:
			also(e)
		}
		return nil
	})
	c := newRecorder().config(filepath.Join(tb.TempDir(), "s"), &logbook{})
	c.Post, c.Swap = record.Post, record
	s, err := newServer(c, openProcess)
	if err == nil {
		s, err = s.listen()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkRoundTrip measures case_task_begin in C processes against a server
// that grants at once. Clients run closed loops, so with 48 of them on two cores
// a request waits mostly for the other 47; paced clients pause 1 ms (one) or
// 10 ms (48) between requests, as jobs do that compute. The machine's own time for
// a packet to another C process and back stands beside them, and clients that can evict: a thread
// of theirs reads the answer and wakes the thread that waits.
func BenchmarkRoundTrip(b *testing.B) {
	client := built(b, "build/roundtrip")
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
			s := granter(b, func(probetest.Event) {})
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
