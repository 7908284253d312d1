package probe

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/probe/probetest"
)

// However a process dies, its end is noticed; how fast is logged, not judged.
func TestKill(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, d *probetest.Driver, r recorder){
		"connected": func(t *testing.T, d *probetest.Driver, r recorder) {
			d.Say("oom 1 x")
			r.next(t, "oom")
		},
		"waiting": func(t *testing.T, d *probetest.Driver, r recorder) {
			d.Say("begin a 1")
			r.next(t, "begin")
		},
		"holding": func(t *testing.T, d *probetest.Driver, r recorder) {
			d.Say("begin a 1")
			mustGrant(t, r.next(t, "begin"))
			d.Hear("a 0 3 171")
		},
		"growing": func(t *testing.T, d *probetest.Driver, r recorder) {
			d.Say("begin a 1")
			mustGrant(t, r.next(t, "begin"))
			d.Hear("a 0 3 171")
			d.Say("grow a 1")
			r.next(t, "grow")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, r, _ := start(t)
			d := driveJob(t, s, 1)
			prepare(t, d, r)
			d.Kill() // returns when the process is reaped, so the socket is closed
			dead := time.Now()
			e := r.next(t, "closed")
			t.Logf("closed %v after the process was reaped", time.Since(dead).Round(time.Microsecond))
			if e.c.PID() != d.Cmd.Process.Pid || e.c.Err() != nil || e.c.SaidBye() {
				t.Errorf("closed %v: %v, bye %v", e, e.c.Err(), e.c.SaidBye())
			}
			r.none(t)
		})
	}
}

// counter grants at once and keeps what is held.
type counter struct {
	granter
	held   map[*Client]map[uint64]bool
	busy   chan struct{} // closed at the 1,000th begin
	begun  int
	closed chan *Client
}

func (h *counter) Begin(c *Client, task uint64, _ Request) {
	if h.held[c] == nil {
		h.held[c] = map[uint64]bool{}
	}
	h.held[c][task] = true
	if h.begun++; h.begun == 1000 {
		close(h.busy)
	}
	_ = c.server.Grant(task, 0, [16]byte{}) // may be gone: it is killed in the middle
}

func (h *counter) Free(c *Client, task uint64) { delete(h.held[c], task) }

func (h *counter) Closed(c *Client) {
	delete(h.held, c)
	h.closed <- c
}

// kill -9 in the middle of a burst leaves nothing behind, and a neighbour that
// is in the middle of its own goes on.
func TestKillInABurst(t *testing.T) {
	program := filepath.Join(t.TempDir(), "roundtrip")
	compile(t, program, "bench/roundtrip.c")
	h := &counter{granter: granter{t}, held: map[*Client]map[uint64]bool{}, busy: make(chan struct{}), closed: make(chan *Client, 100)}
	s, err := Listen(filepath.Join(t.TempDir(), "s"), h, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	burst := func(requests string) *exec.Cmd {
		cmd := exec.Command(program, "-t", "-c", "4", "-n", requests)
		cmd.Env = []string{"CASE_SOCKET=" + s.Path(), "CASE_TOKEN=" + s.Register(1), "CASE_REQUIRED=1"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	victim, neighbour := burst("100000000"), burst("5000")
	select {
	case <-h.busy:
	case <-time.After(patience):
		t.Error("no requests")
	}
	_ = victim.Process.Kill()
	_ = victim.Wait() // it was killed
	if err := neighbour.Wait(); err != nil {
		t.Errorf("neighbour: %v", err)
	}
	for range 2 {
		select {
		case <-h.closed:
		case <-time.After(patience):
			t.Fatal("a client's end was not noticed")
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(h.held) != 0 {
		t.Errorf("%d clients hold something after their end", len(h.held))
	}
}
