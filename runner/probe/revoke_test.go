package probe

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

func evicting(t *testing.T, token string) []byte {
	t.Helper()
	return hello(t, token, 5, wire.CanEvict|wire.CanPrepare)
}

func hello(t *testing.T, token string, instance, can uint32) []byte {
	t.Helper()
	f := wire.Hello{PID: 1, Instance: instance, Can: can}
	if _, err := hex.Decode(f.Token[:], []byte(token)); err != nil {
		t.Fatal(err)
	}
	return frame(&f)
}

// welcome is a client that can evict and has been told so.
func (c *raw) welcome(token string) *raw {
	c.t.Helper()
	c.send(evicting(c.t, token))
	c.expect(wire.KindWelcome)
	return c
}

func evictor(t *testing.T, s *Server) *raw { return connect(t, s).welcome(s.Register(1)) }

// holds has the client's task granted.
func (c *raw) holds(r recorder, task uint64) (id schedulers.TaskID, at *client) {
	c.t.Helper()
	c.send(beginOf(task, 10))
	e := r.next(c.t, "begin")
	mustGrant(c.t, e)
	c.expect(wire.KindGrant)
	return e.c.idOf(task), e.c
}

var yielding = schedulers.Revocation{Action: schedulers.Yield, Bytes: 3 << 30, Deadline: 250 * time.Millisecond}

func mustRevoke(t *testing.T, s *Server, task schedulers.TaskID, ticket schedulers.Ticket, r schedulers.Revocation) {
	t.Helper()
	if err := s.Revoke(task, ticket, r, [16]byte{}); err != nil {
		t.Fatal(err)
	}
}

func (c *raw) expectRevoke(want wire.Revoke) {
	c.t.Helper()
	var f wire.Revoke
	if err := decode(&f, c.expect(wire.KindRevoke)); err != nil || f != want {
		c.t.Fatalf("told %+v (%v), want %+v", f, err, want)
	}
}

func done(task uint64, ticket schedulers.Ticket) []byte {
	return frame(&wire.Revoked{Number: task, Answer: schedulers.Revoked{Ticket: ticket, Outcome: schedulers.Done}})
}

func TestRevocation(t *testing.T) {
	s, r, log := startRevoking(t)
	c := connect(t, s)
	c.send(evicting(t, s.Register(3)))
	var w wire.Welcome
	if err := decode(&w, c.expect(wire.KindWelcome)); err != nil || w != (wire.Welcome{Chunk: 32 << 20, WindowUS: 50000}) {
		t.Fatalf("welcome %+v: %v", w, err)
	}
	id, _ := c.holds(r, 5)
	mustRevoke(t, s, id, 9, yielding)
	c.expectRevoke(wire.Revoke{Number: 5, Ticket: 9, Revocation: yielding})
	answer := wire.Revoked{Number: 5, Answer: schedulers.Revoked{Ticket: 9, Outcome: schedulers.Done, Resident: 2 << 30, Fixed: 1 << 20,
		Moved: schedulers.Moved{Bytes: 4 << 30, Drain: 1, Copy: 2, Bookkeeping: 3}}}
	c.send(frame(&answer))
	if e := r.next(t, "revoked"); e.Task != 5 || e.Answer() != answer.Answer {
		t.Fatalf("revoked %v %+v", e, e.Answer())
	}
	mustRevoke(t, s, id, 10, schedulers.Revocation{Action: schedulers.Yield})
	c.expectRevoke(wire.Revoke{Number: 5, Ticket: 10, Revocation: schedulers.Revocation{Action: schedulers.Yield}})
	no := wire.Revoked{Number: 5, Answer: schedulers.Revoked{Ticket: 10, Outcome: schedulers.Unable, Why: "the area\tis full"}}
	c.send(frame(&no))
	if e := r.next(t, "revoked"); e.Answer() != (schedulers.Revoked{Ticket: 10, Outcome: schedulers.Unable, Why: "the area?is full"}) {
		t.Fatalf("revoked %v %+v", e, e.Answer())
	}

	c.send(frame(&wire.Resume{Number: 5, Need: 7, Referenced: 6}))
	e := r.next(t, "resume")
	if e.Task != 5 || e.Needs() != (runner.TaskResume{ID: id, Need: 7, Referenced: 6}) {
		t.Fatalf("resume %v %+v", e, e.Needs())
	}
	if err := s.Refuse(id, schedulers.Refusal{Cause: schedulers.DeviceFull, NeedBytes: 7, CapacityBytes: 6, Why: "no"}); err != nil {
		t.Fatal(err)
	}
	c.expect(wire.KindRefuse)
	moved := schedulers.Moved{Bytes: 5, Copy: 2, Bookkeeping: 3}
	c.send(frame(&wire.Moved{Number: 5, Direction: schedulers.In, Moved: moved}))
	if e := r.next(t, "moved"); e.Posted != (runner.TaskMoved{ID: id, Direction: schedulers.In, Moved: moved}) {
		t.Fatalf("moved in %v %+v", e, e.Posted)
	}
	c.send(frame(&wire.Resume{Number: 5, Need: 7})) // the task has stayed
	r.next(t, "resume")
	mustRevoke(t, s, id, 11, yielding) // a task that waits may have to give more
	c.expect(wire.KindRevoke)
	if err := s.Grant(id, 0, [16]byte{}); !errors.Is(err, errRevoking) {
		t.Errorf("grant before the ticket is answered: %v", err)
	}
	c.send(done(5, 11))
	r.next(t, "revoked")
	mustGrant(t, e)
	c.expect(wire.KindGrant)

	mustRevoke(t, s, id, 12, yielding)
	c.send(frame(&wire.Free{Number: 5})) // they cross
	r.next(t, "free")
	if err := s.Revoke(id, 13, yielding, [16]byte{}); !errors.Is(err, errNoTask) {
		t.Errorf("revocation of a task that is over: %v", err)
	}
	c.send(frame(&wire.Bye{}))
	c.close()
	if e := r.next(t, "gone"); e.c.Err() != nil {
		t.Errorf("closed: %v", e.c.Err())
	}
	if lines := log.all(); len(lines) != 0 {
		t.Errorf("log %q", lines)
	}
}

// What cannot be sent is not, and leaves no ticket.
func TestRevocationsThatAreNotSent(t *testing.T) {
	s, r, _ := startRevoking(t)
	plain := greeted(t, s, 1)
	id, _ := plain.holds(r, 1)
	if err := s.Revoke(id, 1, yielding, [16]byte{}); !errors.Is(err, errUnable) {
		t.Errorf("of a process that cannot evict: %v", err)
	}
	c := evictor(t, s)
	c.send(beginOf(1, 10))
	e := r.next(t, "begin")
	if err := s.Revoke(e.c.idOf(1), 1, yielding, [16]byte{}); !errors.Is(err, errNoDevice) {
		t.Errorf("of a task that waits: %v", err)
	}
	mustGrant(t, e)
	c.expect(wire.KindGrant)
	id = e.c.idOf(1)
	if err := s.Revoke(id, 0, yielding, [16]byte{}); err == nil {
		t.Error("ticket 0 is sent")
	}
	for _, wrong := range []schedulers.Revocation{
		{Bytes: 1},
		{Action: schedulers.Yield, Bytes: -1},
		{Action: schedulers.Evict, Deadline: -1},
		{Action: schedulers.Evict, Deadline: 1 << 62},
		{Action: schedulers.Evict, Device: -1},
	} {
		if err := s.Revoke(id, 1, wrong, [16]byte{}); err == nil || !strings.Contains(err.Error(), "ticket 1, ") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	mustRevoke(t, s, id, 1, yielding)
	if err := s.Revoke(id, 2, yielding, [16]byte{}); !errors.Is(err, errRevoking) {
		t.Errorf("of a task with a ticket: %v", err)
	}
	c.expectRevoke(wire.Revoke{Number: 1, Ticket: 1, Revocation: yielding})
	c.send(frame(&wire.Bye{}))
	s.Settle()
	if err := s.Revoke(id, 3, yielding, [16]byte{}); !errors.Is(err, errGone) {
		t.Errorf("after BYE: %v", err)
	}
	for name, c := range map[string]Config{"chunks": {Chunk: -1}, "a long window": {Chunk: 1, Window: 1 << 62}} {
		if s, err := Listen(c); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A job that decides for itself, and a run that takes nothing back, say so in WELCOME.
func TestWelcomeOfARunThatTakesNothingBack(t *testing.T) {
	plain, pr, _ := start(t)
	revoking, _, _ := startRevoking(t)
	for name, test := range map[string]struct {
		s     *Server
		token string
	}{
		"run": {plain, plain.Register(1)},
		"job": {revoking, revoking.RegisterDeciding(1)},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, test.s)
			c.send(evicting(t, test.token))
			var w wire.Welcome
			if err := decode(&w, c.expect(wire.KindWelcome)); err != nil || w != (wire.Welcome{}) {
				t.Fatalf("welcome %+v: %v", w, err)
			}
			c.send(frame(&wire.Resume{Number: 1}))
			if why := c.expectHangUp(); !strings.Contains(why, "takes nothing back") {
				t.Errorf("told %q", why)
			}
		})
	}
	pr.next(t, "gone")
}

func TestProtocolErrorsOfRevocation(t *testing.T) {
	s, r, _ := startRevoking(t)
	live := func(c *raw) { c.holds(r, 1) }
	revoking := func(c *raw) {
		id, _ := c.holds(r, 1)
		mustRevoke(t, s, id, 7, yielding)
		c.expect(wire.KindRevoke)
	}
	resuming := func(c *raw) { live(c); c.send(frame(&wire.Resume{Number: 1})); r.next(t, "resume") }
	recalled := func(c *raw) {
		_, at := c.holds(r, 1)
		if err := s.RecallSwap(at.who()); err != nil {
			t.Fatal(err)
		}
		c.expect(wire.KindRecall)
	}
	asking := func(c *raw) { c.send(frame(&wire.More{Bytes: 1})); r.next(t, "more") }
	for _, test := range []struct {
		name, why string
		before    func(*raw)
		frame     []byte
	}{
		{"revoked unasked", "ticket 7 of task 1 is not outstanding", live, done(1, 7)},
		{"ticket 0", "not outstanding", live, done(1, 0)},
		{"another ticket", "ticket 8 of task 1", revoking, done(1, 8)},
		{"another task", "task 2 is not live", revoking, done(2, 7)},
		{"answered twice", "not outstanding", func(c *raw) { revoking(c); c.send(done(1, 7)); r.next(t, "revoked") }, done(1, 7)},
		{"answered after free", "not live", func(c *raw) { revoking(c); c.send(frame(&wire.Free{Number: 1})); r.next(t, "free") }, done(1, 7)},
		{"resume of unknown", "not live", func(*raw) {}, frame(&wire.Resume{Number: 1})},
		{"resume twice", "outstanding", resuming, frame(&wire.Resume{Number: 1})},
		{"resume of waiting", "outstanding", func(c *raw) { c.send(beginOf(1, 1)); r.next(t, "begin") }, frame(&wire.Resume{Number: 1})},
		{"resumed while resuming", "outstanding", resuming, frame(&wire.Moved{Number: 1, Direction: schedulers.In})},
		{"resumed of unknown", "not live", func(*raw) {}, frame(&wire.Moved{Number: 1, Direction: schedulers.In})},
		{"free while resuming", "outstanding", resuming, frame(&wire.Free{Number: 1})},
		{"more twice", "no answer yet", asking, frame(&wire.More{Bytes: 1})},
		{"ROOM twice", "no answer yet", func(c *raw) { c.send(frame(&wire.Room{})); r.next(t, "room") }, frame(&wire.Room{})},
		{"ROOM_IS", "not for a client", live, frame(&wire.RoomIs{})},
		{"TASK_YIELDED", "has not asked tasks to end their bursts", live, frame(&wire.Yielded{Number: 1})},
		{"WELCOME", "not for a client", live, frame(&wire.Welcome{})},
		{"REVOKE", "not for a client", live, frame(&wire.Revoke{})},
		{"SWAP_SPACE", "not for a client", live, frame(&wire.Space{})},
		{"SWAP_RECALL", "not for a client", live, frame(&wire.Recall{})},
		{"SWAP_KEPT unasked", "nothing was recalled", live, frame(&wire.Kept{})},
		{"SWAP_KEPT too much", "of 0 bytes that it was offered", recalled, frame(&wire.Kept{Bytes: 32 << 20})},
		{"SWAP_KEPT of a part", "of 0 bytes that it was offered", recalled, frame(&wire.Kept{Bytes: 1})},
		{"SWAP_KEPT twice", "nothing was recalled", func(c *raw) { recalled(c); c.send(frame(&wire.Kept{})); r.next(t, "returned") }, frame(&wire.Kept{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := evictor(t, s)
			test.before(c)
			c.send(test.frame)
			if why := c.expectHangUp(); !strings.Contains(why, test.why) {
				t.Errorf("told %q, want %q", why, test.why)
			}
			if e := r.next(t, "gone"); e.c.Err() == nil {
				t.Error("no reason")
			}
			r.none(t)
		})
	}
	c := greeted(t, s, 1)
	c.holds(r, 1)
	c.send(frame(&wire.More{Bytes: 1}))
	if why := c.expectHangUp(); !strings.Contains(why, "cannot evict") {
		t.Errorf("a process that cannot evict: told %q", why)
	}
}

// A resumption counts as a request: a job with too many is refused.
func TestResumptionsAreLimited(t *testing.T) {
	s, r, _ := startRevoking(t)
	c := evictor(t, s)
	for task := uint64(1); task <= jobRequests+1; task++ {
		c.holds(r, task)
	}
	for task := uint64(1); task <= jobRequests; task++ {
		c.send(frame(&wire.Resume{Number: task}))
		r.next(t, "resume")
	}
	c.send(frame(&wire.Resume{Number: jobRequests + 1}))
	r.next(t, "limited")
	var f wire.Refuse
	if err := decode(&f, c.expect(wire.KindRefuse)); err != nil || f.Number != jobRequests+1 || f.Refusal.Cause != wire.TooMany {
		t.Errorf("refused %+v: %v", f, err)
	}
}

// startSeeing is startRevoking, but sees the processes of its clients: a client may be disconnected, and live.
func startSeeing(t *testing.T) (*Server, recorder) {
	t.Helper()
	s, r, _ := startWith(t, welcomed, openProcess)
	return s, r
}

// The end of a connection settles its tickets, and what the process says of them later is of no
// connection.
func TestConnectionsEndSettlesTickets(t *testing.T) {
	s, r := startSeeing(t)
	token := s.Register(1)
	c := connect(t, s).welcome(token)
	id, at := c.holds(r, 1)
	c.send(frame(&wire.More{Bytes: 64 << 20}))
	r.next(t, "more")
	mustRevoke(t, s, id, 7, yielding)
	c.expect(wire.KindRevoke)
	c.close()
	r.next(t, "disconnected")
	if err := s.Revoke(id, 8, yielding, [16]byte{}); !errors.Is(err, errGone) {
		t.Errorf("of a disconnected process: %v", err)
	}
	if err := s.GiveSwap(at.who()); !errors.Is(err, errGone) {
		t.Errorf("swap space of a disconnected process: %v", err)
	}
	again := connect(t, s).welcome(token)
	again.send(frame(&wire.Resume{Number: 1, Need: 3})) // it had given its memory back
	e := r.next(t, "resume")
	if e.c != at || e.Task != 1 {
		t.Fatalf("resume %v of another client", e)
	}
	mustRevoke(t, s, id, 9, yielding) // none is outstanding
	again.expect(wire.KindRevoke)
	again.send(done(1, 9))
	r.next(t, "revoked")
	mustGrant(t, e)
	again.expect(wire.KindGrant)
	if err := s.GiveSwap(at.who()); !errors.Is(err, errNoSwap) {
		t.Errorf("a request of the earlier connection has stayed: %v", err)
	}

	again.close()
	r.next(t, "disconnected")
	weak := connect(t, s) // the same library, which could not start its thread
	f := wire.Hello{}
	if err := decode(&f, evicting(t, token)); err != nil {
		t.Fatal(err)
	}
	f.Can = 0
	weak.send(frame(&f))
	weak.send(frame(&wire.Shrink{Number: 1, Bytes: 1}))
	r.next(t, "shrink")
	if err := s.Revoke(id, 10, yielding, [16]byte{}); !errors.Is(err, errUnable) {
		t.Errorf("after HELLO without capabilities: %v", err)
	}
	weak.send([]byte("nonsense"))
	weak.expectHangUp()
	r.next(t, "disconnected")
}

// files receives a frame and its descriptors.
func (c *raw) files(want wire.Kind) ([]byte, []int) {
	c.t.Helper()
	b, control := make([]byte, wire.MaxFrame), make([]byte, unix.CmsgSpace(4*wire.MaxFiles))
	n, used, _, _, err := unix.Recvmsg(c.fd, b, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		c.t.Fatal(err)
	}
	if k, err := wire.Check(b[:n]); err != nil || k != want {
		c.t.Fatalf("received %v, %v", k, err)
	}
	var files []int
	messages, err := unix.ParseSocketControlMessage(control[:used])
	if err == nil && len(messages) == 1 {
		files, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		for _, f := range files {
			unix.Close(f)
		}
	})
	return b[:n], files
}

func same(t *testing.T, got, want []int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d descriptors, want %d", len(got), len(want))
	}
	for i := range got {
		var a, b unix.Stat_t
		if err := errors.Join(unix.Fstat(got[i], &a), unix.Fstat(want[i], &b)); err != nil || a.Ino != b.Ino {
			t.Errorf("descriptor %d names another file (%v)", i, err)
		}
	}
}

func TestSwapSpace(t *testing.T) {
	area := []int{memfd(t, 1<<20, 0, 0, 0), memfd(t, 1<<20, 0, 0, 0)}
	s, r, _ := startRevoking(t)
	c := evictor(t, s)
	c.send(frame(&wire.More{Bytes: 96 << 20}))
	e := r.next(t, "more")
	if e.Bytes != 96<<20 {
		t.Fatalf("asked for %d bytes", e.Bytes)
	}
	for _, wrong := range [][]int{make([]int, wire.MaxFiles+1), {-1}} {
		if err := s.GiveSwap(e.Process, wrong...); err == nil {
			t.Errorf("%d wrong descriptors are passed on", len(wrong))
		}
	}
	if err := s.GiveSwap(e.Process, area...); err != nil {
		t.Fatal(err)
	}
	b, files := c.files(wire.KindSpace)
	var space wire.Space
	if err := decode(&space, b); err != nil || space != (wire.Space{Bytes: 64 << 20, Files: 2}) {
		t.Fatalf("space %+v: %v", space, err)
	}
	same(t, files, area)
	if err := s.GiveSwap(e.Process); !errors.Is(err, errNoSwap) {
		t.Errorf("an answer to nothing: %v", err)
	}
	c.send(frame(&wire.More{Bytes: 32 << 20}))
	r.next(t, "more")
	if err := s.GiveSwap(e.Process); err != nil { // no memory is left
		t.Fatal(err)
	}
	if err := decode(&space, c.expect(wire.KindSpace)); err != nil || space != (wire.Space{}) {
		t.Errorf("space %+v: %v", space, err)
	}
}

// Host memory is offered to a process that takes it unasked, and that has read all before.
func TestOffers(t *testing.T) {
	file := memfd(t, 1<<20, 0, 0, 0)
	s, r := startSeeing(t)
	token := s.Register(1)
	plain, ready := connect(t, s), connect(t, s).welcome(token)
	plain.send(hello(t, token, 6, wire.CanEvict))
	plain.expect(wire.KindWelcome)
	_, at := plain.holds(r, 1)
	if err := errors.Join(s.OfferSwap(at.who(), file), s.RecallSwap(at.who())); strings.Count(err.Error(), errNoOffer.Error()) != 2 {
		t.Errorf("a process that takes nothing unasked: %v", err)
	}
	_, at = ready.holds(r, 1)
	for _, wrong := range [][]int{nil, make([]int, wire.MaxFiles+1), {-1}} {
		if err := s.OfferSwap(at.who(), wrong...); err == nil {
			t.Errorf("%d wrong descriptors are passed on", len(wrong))
		}
	}
	offered := func(offset int64) {
		t.Helper()
		if err := s.OfferSwap(at.who(), file, file); err != nil {
			t.Fatal(err)
		}
		if err := s.OfferSwap(at.who(), file); !errors.Is(err, errUnread) {
			t.Errorf("a process that has not read the offer before: %v", err)
		}
		b, files := ready.files(wire.KindSpace)
		var space wire.Space
		if err := decode(&space, b); err != nil || space != (wire.Space{Bytes: 64 << 20, Offset: offset, Files: 2, Offered: 1}) {
			t.Fatalf("space %+v: %v", space, err)
		}
		same(t, files, []int{file, file})
	}
	recalled := func(keeps, back int64) {
		t.Helper()
		if err := s.RecallSwap(at.who()); err != nil {
			t.Fatal(err)
		}
		ready.expect(wire.KindRecall)
		if err := errors.Join(s.OfferSwap(at.who(), file), s.RecallSwap(at.who())); strings.Count(err.Error(), errRecalled.Error()) != 2 {
			t.Errorf("a process that has not answered: %v", err)
		}
		ready.send(frame(&wire.Kept{Bytes: keeps}))
		if e := r.next(t, "returned"); e.Bytes != back {
			t.Errorf("%d bytes came back; want %d", e.Bytes, back)
		}
	}
	offered(0)
	offered(64 << 20)
	recalled(96<<20, 32<<20)
	recalled(96<<20, 0)
	offered(96 << 20)
	recalled(0, 160<<20)
	offered(0)
	if err := s.RecallSwap(at.who()); err != nil {
		t.Fatal(err)
	}
	ready.close() // which withdraws it
	r.next(t, "disconnected")
	if err := errors.Join(s.OfferSwap(at.who(), file), s.RecallSwap(at.who())); strings.Count(err.Error(), errGone.Error()) != 2 {
		t.Errorf("a process that has closed its connection: %v", err)
	}
	ready = connect(t, s).welcome(token)
	offered(64 << 20)
	recalled(32<<20, 96<<20)
}

// A process is asked for what it has announced, and for nothing else. The device of a move is named as in GRANT.
func TestActionsThatAProcessAnnounces(t *testing.T) {
	s, r, _ := startRevoking(t)
	c, weak := connect(t, s), evictor(t, s)
	c.send(hello(t, s.Register(1), 5, wire.CanEvict|wire.CanMove|wire.CanStop))
	c.expect(wire.KindWelcome)
	c.send(beginOf(5, 10))
	e := r.next(t, "begin")
	if can := e.Asks().Can; can != schedulers.Movable|1<<schedulers.Move|1<<schedulers.Stop {
		t.Errorf("it can do %b", can)
	}
	mustGrant(t, e)
	c.expect(wire.KindGrant)
	move, to := schedulers.Revocation{Action: schedulers.Move, Device: 1}, [16]byte{1, 2, 3}
	if err := s.Revoke(e.ID, 1, move, to); err != nil {
		t.Fatal(err)
	}
	c.expectRevoke(wire.Revoke{Number: 5, Ticket: 1, Revocation: schedulers.Revocation{Action: schedulers.Move}, UUID: to, Device: 1})
	c.send(frame(&wire.Revoked{Number: 5, Answer: schedulers.Revoked{Ticket: 1, Outcome: schedulers.Unable, Why: "not yet"}}))
	if e := r.next(t, "revoked"); e.Answer().Outcome != schedulers.Unable || e.Answer().Why != "not yet" {
		t.Errorf("answer %+v", e.Answer())
	}
	if err := s.Revoke(e.ID, 2, schedulers.Revocation{Action: schedulers.Advise}, [16]byte{}); !errors.Is(err, errUnable) {
		t.Errorf("advice to a process that has not announced it: %v", err)
	}
	id, _ := weak.holds(r, 1)
	if err := s.Revoke(id, 1, move, to); !errors.Is(err, errUnable) {
		t.Errorf("a move of a process that has not announced it: %v", err)
	}
}

// A task gives up its permission by itself where the run wants that. The frame may cross a revocation, which is answered.
func TestBursts(t *testing.T) {
	c := welcomed
	c.Bursts = true
	s, r, _ := startWith(t, c, ownUnseen)
	a := connect(t, s)
	a.send(evicting(t, s.Register(1)))
	var w wire.Welcome
	if err := decode(&w, a.expect(wire.KindWelcome)); err != nil || w.Bursts != 1 {
		t.Fatalf("welcome %+v: %v", w, err)
	}
	id, _ := a.holds(r, 1)
	yielded := func() {
		t.Helper()
		a.send(frame(&wire.Yielded{Number: 1}))
		if e := r.next(t, "yielded"); e.Posted != (runner.TaskYielded{ID: id}) {
			t.Errorf("yielded %+v", e.Posted)
		}
	}
	yielded()
	a.send(frame(&wire.Resume{Number: 1}))
	mustGrant(t, r.next(t, "resume"))
	a.expect(wire.KindGrant)
	mustRevoke(t, s, id, 1, yielding)
	yielded()
	a.expect(wire.KindRevoke)
	a.send(done(1, 1))
	r.next(t, "revoked")

	a.send(frame(&wire.Resume{Number: 1}))
	r.next(t, "resume")
	a.send(frame(&wire.Yielded{Number: 1}))
	if why := a.expectHangUp(); !strings.Contains(why, "request outstanding") {
		t.Errorf("it yields while it asks: told %q", why)
	}
	r.next(t, "gone")
	plain := greeted(t, s, 2)
	plain.holds(r, 1)
	plain.send(frame(&wire.Yielded{Number: 1}))
	if why := plain.expectHangUp(); !strings.Contains(why, "cannot evict") {
		t.Errorf("a process that cannot evict: told %q", why)
	}
}

// A library of an older version is told in its own words why it is not served: REFUSE is as it was then.
func TestOlderVersionIsToldWhy(t *testing.T) {
	s, r, _ := startRevoking(t)
	for _, version := range []string{"3", "4", "5"} {
		c := connect(t, s)
		c.send(probetest.Hex(t, filepath.Join(nativeDir, "testdata", "hello_v"+version+".hex")))
		k, b := c.receive()
		if k != wire.KindRefuse || len(b) != 160 || binary.LittleEndian.Uint64(b[8:]) != 0 || binary.LittleEndian.Uint32(b[32:]) != uint32(wire.Protocol) {
			t.Fatalf("received %v % x", k, b)
		}
		if why := wire.Printable(string(b[40:])); why != "HELLO of protocol version "+version+"; this scheduler speaks 6" {
			t.Errorf("told %q", why)
		}
		c.expect(0)
	}
	s.Settle()
	r.none(t)
}
