package probe

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
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
		"a revocation unread": func(t *testing.T, d *probetest.Driver, r recorder) {
			e := evictingTask(t, d, r)
			if err := d.Cmd.Process.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			mustRevoke(t, e.c.server, e.c.idOf(1), 7, yielding)
		},
		"revoked": func(t *testing.T, d *probetest.Driver, r recorder) {
			revokedTask(t, d, r)
		},
		"revoked, and asks for swap space": func(t *testing.T, d *probetest.Driver, r recorder) {
			revokedTask(t, d, r)
			d.Say("answer swap")
			r.next(t, "more")
		},
		"before it answers a revocation": func(t *testing.T, d *probetest.Driver, r recorder) {
			revokedTask(t, d, r)
			d.Say("answer kill")
		},
		"after it has answered": func(t *testing.T, d *probetest.Driver, r recorder) {
			revokedTask(t, d, r)
			d.Say("answer done")
			r.next(t, "revoked")
		},
		"resuming": func(t *testing.T, d *probetest.Driver, r recorder) {
			revokedTask(t, d, r)
			d.Say("answer done")
			r.next(t, "revoked")
			d.Say("resume a 9")
			r.next(t, "resume")
		},
		"resuming, and revoked again": func(t *testing.T, d *probetest.Driver, r recorder) {
			e := revokedTask(t, d, r)
			d.Say("answer done")
			r.next(t, "revoked")
			d.Say("resume a 9")
			r.next(t, "resume")
			mustRevoke(t, e.c.server, e.c.idOf(1), 8, yielding)
			d.Hear("revoke 1 1 3221225472 250")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, r, _ := startRevoking(t)
			d := driveJob(t, s, 1)
			prepare(t, d, r)
			s.Settle()
			d.Kill() // returns when the process is reaped, so the socket is closed
			dead := time.Now()
			e := r.next(t, "gone")
			t.Logf("closed %v after the process was reaped", time.Since(dead).Round(time.Microsecond))
			if e.c.PID() != d.Cmd.Process.Pid || e.c.Err() != nil || e.c.SaidBye() {
				t.Errorf("closed %v: %v, bye %v", e, e.c.Err(), e.c.SaidBye())
			}
			r.none(t)
			if open, live := e.c.job.open.Load(), e.c.job.live.Load(); open != 0 || live != 0 {
				t.Errorf("%d requests and %d tasks are left", open, live)
			}
			if err := s.Revoke(1, 9, yielding, [16]byte{}); !errors.Is(err, errNoTask) {
				t.Errorf("revocation of a task of the dead: %v", err)
			}
		})
	}
}

// evictingTask has a process that can evict hold its task a.
func evictingTask(t *testing.T, d *probetest.Driver, r recorder) event {
	t.Helper()
	d.Say("evict")
	d.Hear("able 1")
	d.Say("begin a 1")
	e := r.next(t, "begin")
	mustGrant(t, e)
	d.Hear("a 0 3 171")
	return e
}

// revokedTask is evictingTask with a revocation that the process has begun.
func revokedTask(t *testing.T, d *probetest.Driver, r recorder) event {
	t.Helper()
	e := evictingTask(t, d, r)
	mustRevoke(t, e.c.server, e.c.idOf(1), 7, yielding)
	d.Hear("revoke 1 1 3221225472 250")
	return e
}

// The library and the server through a revocation of each outcome, and the return.
func TestLibraryRevocation(t *testing.T) {
	s, r, log := startRevoking(t)
	d := driveJob(t, s, 1)
	e := revokedTask(t, d, r)
	d.Say("permit a")
	d.Hear("a 0")
	d.Say("answer swap")
	if e := r.next(t, "more"); e.Bytes != 64<<20 {
		t.Fatalf("asked for %d bytes", e.Bytes)
	}
	if err := s.GiveSwap(e.Process, memfd(t, 32<<20, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	d.Hear("swap 1 33554432")
	d.Say("answer busy")
	if e := r.next(t, "revoked"); e.Answer() != (schedulers.Revoked{Ticket: 7, Outcome: schedulers.Busy, Resident: 1025, Fixed: 1025}) {
		t.Errorf("revoked %+v", e.Answer())
	}
	d.Say("resume a 9") // has changed nothing, so nothing is asked
	d.Hear("a 0 3 171")
	id := e.c.idOf(1)
	mustRevoke(t, s, id, 8, schedulers.Revocation{Action: schedulers.Yield})
	d.Hear("revoke 1 1 0 0")
	d.Say("answer unable")
	if e := r.next(t, "revoked"); e.Answer() != (schedulers.Revoked{Ticket: 8, Outcome: schedulers.Unable, Why: "told so", Resident: 1025, Fixed: 1025}) {
		t.Errorf("revoked %+v", e.Answer())
	}
	mustRevoke(t, s, id, 9, yielding)
	d.Hear("revoke 1 1 3221225472 250")
	d.Say("answer done")
	if e := r.next(t, "revoked"); e.Answer() != (schedulers.Revoked{Ticket: 9, Outcome: schedulers.Done, Moved: schedulers.Moved{Bytes: 1}, Resident: 1024, Fixed: 1024}) {
		t.Errorf("revoked %+v", e.Answer())
	}
	d.Say("resume a 9")
	if e := r.next(t, "resume"); e.Needs() != (runner.TaskResume{ID: id, Need: 9}) {
		t.Errorf("resume %+v", e.Needs())
	}
	if err := s.Grant(id, 2, [16]byte{7}); err != nil {
		t.Fatal(err)
	}
	d.Hear("a 0 2 7")
	d.Say("permit a")
	d.Hear("a 1")

	mustRevoke(t, s, id, 11, schedulers.Revocation{Action: schedulers.Evict, Bytes: 1}) // keeps its permission
	d.Hear("revoke 1 2 1 0")
	d.Say("answer done")
	r.next(t, "revoked")
	d.Say("permit a")
	d.Hear("a 1")

	d.Say("close") // while the reader waits
	d.Hear("closed")
	d.Say("oom 1 x") // needs the scheduler
	d.Hear("reported")
	r.next(t, "disconnected")
	if o := r.next(t, "oom"); o.c != e.c {
		t.Errorf("oom %v of another client", o)
	}
	mustRevoke(t, s, id, 10, yielding) // over the next connection
	d.Hear("revoke 1 1 3221225472 250")
	d.Say("answer done")
	r.next(t, "revoked")
	if stderr := d.Finish(); stderr != "" {
		t.Errorf("stderr %q", stderr)
	}
	if e := r.next(t, "gone"); e.c.Err() != nil || !e.c.SaidBye() {
		t.Errorf("closed: %v, bye %v", e.c.Err(), e.c.SaidBye())
	}
	if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "closed its connection") {
		t.Errorf("log %q", lines)
	}
}

// kill -9 in the middle of a burst leaves nothing behind, and a neighbour that
// is in the middle of its own goes on.
func TestKillInABurst(t *testing.T) {
	program := built(t, "build/roundtrip")
	held, begun := map[schedulers.Process]map[schedulers.TaskID]bool{}, 0
	busy, gone := make(chan struct{}), make(chan schedulers.Process, 100) // busy is closed at the 1,000th begin
	s := granter(t, func(e probetest.Event) {
		switch e.Kind {
		case "begin":
			if held[e.Process] == nil {
				held[e.Process] = map[schedulers.TaskID]bool{}
			}
			held[e.Process][e.ID] = true
			if begun++; begun == 1000 {
				close(busy)
			}
		case "free":
			delete(held[e.Process], e.ID)
		case "gone":
			delete(held, e.Process)
			gone <- e.Process
		}
	})
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
	case <-busy:
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
		case <-gone:
		case <-time.After(patience):
			t.Fatal("a client's end was not noticed")
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(held) != 0 {
		t.Errorf("%d clients hold something after their end", len(held))
	}
}
