package probe

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/probe/wire"
)

// The end of a process, or of its program, is what gives back what it holds; the end of
// its connection is not.

// holder is a process with a task.
func holder(t *testing.T) (*Server, recorder, *logbook, *probetest.Driver, *client) {
	t.Helper()
	s, r, log := start(t)
	d := driveJob(t, s, 1)
	d.Say("begin a 1")
	e := r.next(t, "begin")
	mustGrant(t, e)
	d.Hear("a 0 3 171")
	return s, r, log, d, e.c
}

func TestClosedSocketKeepsTheTasks(t *testing.T) {
	for how, end := range map[string]func(d *probetest.Driver){
		"exit": func(d *probetest.Driver) { d.Finish() },
		"kill": func(d *probetest.Driver) { d.Kill() },
	} {
		t.Run(how, func(t *testing.T) {
			s, r, log, d, c := holder(t)
			d.Say("close")
			d.Hear("closed")
			if e := r.next(t, "disconnected"); e.c != c {
				t.Fatalf("disconnected %v", e)
			}
			s.Settle()
			r.none(t)
			if err := c.Grant(1, 0, [16]byte{}); err == nil {
				t.Error("a disconnected client took an answer")
			}
			end(d)
			s.Settle()
			if e := r.next(t, "gone"); e.c != c || c.Err() != nil || c.SaidBye() {
				t.Errorf("closed %v: %v, bye %v", e, c.Err(), c.SaidBye())
			}
			if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "closed its connection") {
				t.Errorf("log %q", lines)
			}
		})
	}
}

// The library goes on with its tasks over another connection, and leaves alone what has its
// descriptor's number now.
func TestLibraryConnectsAgain(t *testing.T) {
	s, r, _, d, c := holder(t)
	for range 3 {
		d.Say("reuse")
		d.Hear("reused")
		r.next(t, "disconnected")
		d.Say("grow a 7")
		e := r.next(t, "grow")
		if e.c != c || e.Task != 1 || e.Bytes != 7 {
			t.Fatalf("grow %v", e)
		}
		mustGrant(t, e)
		d.Hear("a 0 3 171")
		d.Say("stolen")
		d.Hear("stolen 0 1")
	}
	d.Say("close")
	d.Hear("closed")
	r.next(t, "disconnected")
	d.Say("free a")
	d.Hear("a 0")
	if e := r.next(t, "free"); e.c != c || e.Task != 1 {
		t.Fatalf("free %v", e)
	}
	if stderr := d.Finish(); stderr != "" {
		t.Errorf("stderr %q", stderr)
	}
	s.Settle()
	if e := r.next(t, "gone"); e.c != c || c.Err() != nil || !c.SaidBye() {
		t.Errorf("closed %v: %v, bye %v", e, c.Err(), c.SaidBye())
	}
}

// What a process says over its next connection counts, although it is gone before the server
// has seen that connection.
func TestLastWordsOverAnotherConnection(t *testing.T) {
	s, r, _, d, c := holder(t)
	busy := connect(t, s)
	s.Settle() // the connection is accepted
	s.mu.Lock()
	busy.send(helloOf(t, strings.Repeat("00", wire.TokenSize)))
	busy.taken() // the server has it, and waits for the lock
	d.Say("reuse")
	d.Hear("reused")
	d.Say("free a")
	d.Hear("a 0")
	d.Finish()
	s.mu.Unlock()
	s.Settle()
	e := r.next(t, "free")
	if e.c != c || e.Task != 1 {
		t.Fatalf("free %v", e)
	}
	if e := r.next(t, "gone"); e.c != c || c.Err() != nil || !c.SaidBye() {
		t.Errorf("closed %v: %v, bye %v", e, c.Err(), c.SaidBye())
	}
	r.none(t)
}

// exec closes the socket and ends the device's memory with the program that had it.
func TestExecReleases(t *testing.T) {
	_, r, _, d, c := holder(t)
	d.Say("exec")
	d.Hear("again")
	if e := r.next(t, "gone"); e.c != c {
		t.Fatalf("closed %v", e)
	}
	d.Say("begin a 1")
	if e := r.next(t, "begin"); e.c == c || e.c.PID() != c.PID() {
		t.Errorf("begin of the next program %v", e)
	}
}

// A child that keeps its parent's socket open keeps nothing of what the parent had.
func TestParentsEndReleases(t *testing.T) {
	s, r, _, d, c := holder(t)
	d.Say("oom 5 cudaMalloc")
	d.Hear("reported")
	d.Say("daemon")
	line := d.Line()
	var daemon int
	if _, err := fmt.Sscanf(line, "daemon %d", &daemon); err != nil {
		t.Fatalf("driver said %q: %v", line, err)
	}
	if err := d.Cmd.Process.Release(); err != nil { // nobody waits for what only the daemon lets end
		t.Fatal(err)
	}
	r.next(t, "oom")
	if e := r.next(t, "gone"); e.c != c {
		t.Fatalf("closed %v", e)
	}
	if err := unix.Kill(daemon, 0); err != nil {
		t.Errorf("the daemon is gone too (%v): the test tested nothing", err)
	}
	s.Settle()
	r.none(t)
	d.In.Close()
}

// A process that never had a device holds nothing.
func TestClosedSocketOfAProcessWithoutADevice(t *testing.T) {
	s, r, _ := start(t)
	d := driveJob(t, s, 1)
	d.Say("oom 5 cudaMalloc")
	d.Hear("reported")
	r.next(t, "oom")
	d.Say("close")
	d.Hear("closed")
	r.next(t, "gone")
}

// What a client that is gone waited for is granted to nobody.
func TestRequestsOfAClosedSocketAreWithdrawn(t *testing.T) {
	s, r, _ := startWith(t, Config{}, openProcess)
	c := greeted(t, s, 1)
	c.send(beginOf(1, 10))
	held := r.next(t, "begin")
	mustGrant(t, held)
	c.send(beginOf(2, 20))
	r.next(t, "begin")
	c.send(frame(&wire.Grow{Number: 1, Bytes: 5}))
	r.next(t, "grow")
	c.close()
	if e := r.next(t, "free"); e.Task != 2 {
		t.Fatalf("free %v", e)
	}
	r.next(t, "disconnected")
	if open, live := held.c.job.open.Load(), held.c.job.live.Load(); open != 1 || live != 1 {
		t.Errorf("%d requests and %d tasks are open, want 1 and 1: the growth", open, live)
	}
	_ = held.c.Grant(1, 0, [16]byte{}) // it is gone
	if open := held.c.job.open.Load(); open != 0 {
		t.Errorf("%d requests are open after the answer", open)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r.next(t, "gone")
	if live := held.c.job.live.Load(); live != 0 {
		t.Errorf("%d tasks are live after the end", live)
	}
}

// What a process decides by itself goes on while it has no connection, and it tells the outcome
// over the next one, even where it never had a device before.
func TestClosedSocketOfAProcessThatDecides(t *testing.T) {
	s, r, _ := startWith(t, Config{}, openProcess)
	token := s.RegisterDeciding(1)
	hello := edit(t, wire.KindHello, func(b []byte) { copy(b[16:], helloOf(t, token)[16:]) })
	c := connect(t, s)
	c.send(hello)
	c.send(decidingBegin(1, 10))
	first := r.next(t, "begin")
	c.close()
	r.next(t, "disconnected")
	again := connect(t, s)
	again.send(hello)
	again.send(granted(1, 2))
	if e := r.next(t, "decided"); e.c != first.c || e.Task != 1 {
		t.Errorf("decided %v of another client", e)
	}
	r.none(t)
}

// A protocol error of a process with a device leaves what it holds with it too.
func TestRejectedProcessKeepsItsTasks(t *testing.T) {
	s, r, _ := startWith(t, Config{}, openProcess)
	c := greeted(t, s, 1)
	c.send(beginOf(1, 10))
	e := r.next(t, "begin")
	mustGrant(t, e)
	c.expect(wire.KindGrant)
	c.send([]byte("nonsense"))
	c.expectHangUp()
	r.next(t, "disconnected")
	if e.c.Err() == nil {
		t.Error("no reason")
	}
	s.Settle()
	r.none(t)
}

// One process may not take the server's descriptors, nor a job all its time.
func TestConnectionsOfAProcessAreLimited(t *testing.T) {
	s, r, l := startWith(t, Config{}, openProcess)
	var open []*raw
	for range processConnections {
		open = append(open, connect(t, s))
	}
	for range 100 {
		c := connect(t, s)
		if why := c.expectHangUp(); !strings.Contains(why, "8 connections already") {
			t.Fatalf("told %q", why)
		}
		c.close()
	}
	if lines := l.all(); len(lines) == 0 || len(lines) > 20 {
		t.Errorf("the log has %d lines", len(lines))
	}
	open[0].close()
	s.Settle()
	c := greeted(t, s, 1)
	c.send(beginOf(1, 1))
	mustGrant(t, r.next(t, "begin"))
	c.expect(wire.KindGrant)
}

func TestClientsOfAJobAreLimited(t *testing.T) {
	s, r, _ := start(t)
	token := s.Register(1)
	var last *raw
	for range jobClients + 1 {
		last = connect(t, s)
		last.send(helloOf(t, token))
	}
	if why := last.expectHangUp(); !strings.Contains(why, "256 processes connected already") {
		t.Errorf("told %q", why)
	}
	r.none(t)
}

// Beyond its limit a job's requests are refused at once, and there is room again when some
// are answered.
func TestOpenRequestsOfAJobAreLimited(t *testing.T) {
	s, r, _ := start(t)
	c := greeted(t, s, 1)
	var first event
	for task := uint64(1); task <= jobRequests+3; task++ {
		c.send(beginOf(task, 1))
		if task > jobRequests {
			if task == jobRequests+1 {
				if e := r.next(t, "limited"); !strings.Contains(e.Text, "256 requests open") {
					t.Errorf("limited %v", e)
				}
			}
			var f wire.Refuse
			if err := decode(&f, c.expect(wire.KindRefuse)); err != nil || f.Number != task || f.Refusal.Cause != wire.TooMany {
				t.Fatalf("refuse %+v: %v", f, err)
			}
			continue
		}
		e := r.next(t, "begin")
		if task == 1 {
			first = e
		}
	}
	mustGrant(t, first)
	c.expect(wire.KindGrant)
	c.send(frame(&wire.Grow{Number: 1, Bytes: 1}))
	r.next(t, "grow")
	c.send(beginOf(jobRequests+1, 1)) // a refused id may come again
	c.expect(wire.KindRefuse)
	r.none(t)
	neighbour := greeted(t, s, 2)
	neighbour.send(beginOf(1, 1))
	mustGrant(t, r.next(t, "begin"))
	neighbour.expect(wire.KindGrant)
}

func TestLiveTasksOfAJobAreLimited(t *testing.T) {
	s, r, _ := start(t)
	c := greeted(t, s, 1)
	for task := uint64(1); task <= jobTasks; task++ {
		c.send(beginOf(task, 1))
		mustGrant(t, r.next(t, "begin"))
		c.expect(wire.KindGrant)
	}
	c.send(beginOf(jobTasks+1, 1))
	r.next(t, "limited")
	c.expect(wire.KindRefuse)
	c.send(frame(&wire.Free{Number: 1}))
	r.next(t, "free")
	c.send(beginOf(jobTasks+1, 1))
	r.next(t, "begin")
}

// A program is told from the one that takes its place, and a process that exits from one that
// lives on.
func TestLook(t *testing.T) {
	exits, own := look(os.Getpid())
	if _, again := look(os.Getpid()); exits || own == untold || again.differs(own) {
		t.Errorf("own process: exits %v, image %v, then %v", exits, own, again)
	}
	d := drive(t)
	d.Say("pid")
	d.Hear(fmt.Sprintf("pid %d", d.Cmd.Process.Pid))
	if _, other := look(d.Cmd.Process.Pid); !other.differs(own) {
		t.Errorf("another program's image %v is this one's", other)
	}
	if exits, i := look(1 << 30); !exits || i.differs(own) {
		t.Errorf("no process: exits %v, image %v", exits, i)
	}
}
