package probe

import (
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var welcomed = Welcome{Chunk: 32 << 20, Window: 50 * time.Millisecond}

func startRevoking(t *testing.T, w Welcome) (*Server, recorder, *logbook) {
	t.Helper()
	r, l := newRecorder(), &logbook{}
	s, err := newServer(r, l.logf, ownUnseen).revoking(r, w)
	if err != nil {
		t.Fatal(err)
	}
	return serving(t, s), r, l
}

func evicting(t *testing.T, token string) []byte {
	t.Helper()
	return hello(t, token, 5, canEvict|canPrepare)
}

func hello(t *testing.T, token string, instance, can uint32) []byte {
	t.Helper()
	f := helloFrame{pid: 1, instance: instance, can: can}
	if _, err := hex.Decode(f.token[:], []byte(token)); err != nil {
		t.Fatal(err)
	}
	return frame(&f)
}

// welcome is a client that can evict and has been told so.
func (c *raw) welcome(token string) *raw {
	c.t.Helper()
	c.send(evicting(c.t, token))
	c.expect(kindWelcome)
	return c
}

func evictor(t *testing.T, s *Server) *raw { return connect(t, s).welcome(s.Register(1)) }

// holds has the client's task granted.
func (c *raw) holds(r recorder, task uint64) (id uint64, at *Client) {
	c.t.Helper()
	c.send(beginOf(task, 10))
	e := r.next(c.t, "begin")
	mustGrant(c.t, e)
	c.expect(kindGrant)
	return e.c.idOf(task), e.c
}

func yielding(ticket uint64) Revocation {
	return Revocation{Ticket: ticket, Action: Yield, Bytes: 3 << 30, Deadline: 250 * time.Millisecond}
}

func mustRevoke(t *testing.T, s *Server, task uint64, r Revocation) {
	t.Helper()
	if err := s.Revoke(task, r); err != nil {
		t.Fatal(err)
	}
}

func (c *raw) expectRevoke(want revokeFrame) {
	c.t.Helper()
	var f revokeFrame
	if err := decode(&f, c.expect(kindRevoke)); err != nil || f != want {
		c.t.Fatalf("told %+v (%v), want %+v", f, err, want)
	}
}

func done(task, ticket uint64) []byte {
	return frame(&revokedFrame{task: task, Revoked: Revoked{Ticket: ticket, Ended: Done}})
}

func TestRevocation(t *testing.T) {
	s, r, log := startRevoking(t, welcomed)
	c := connect(t, s)
	c.send(evicting(t, s.Register(3)))
	var w welcomeFrame
	if err := decode(&w, c.expect(kindWelcome)); err != nil || w != (welcomeFrame{chunk: 32 << 20, windowUS: 50000}) {
		t.Fatalf("welcome %+v: %v", w, err)
	}
	id, _ := c.holds(r, 5)
	mustRevoke(t, s, id, yielding(9))
	c.expectRevoke(revokeFrame{task: 5, ticket: 9, bytes: 3 << 30, action: Yield, deadlineMS: 250})
	answer := revokedFrame{task: 5, Revoked: Revoked{Ticket: 9, Ended: Done, Freed: 4 << 30, Resident: 2 << 30, Fixed: 1 << 20,
		Drain: 1, Copy: 2, Bookkeeping: 3}}
	c.send(frame(&answer))
	if e := r.next(t, "revoked"); e.task != 5 || e.was != answer.Revoked {
		t.Fatalf("revoked %v %+v", e, e.was)
	}
	mustRevoke(t, s, id, Revocation{Ticket: 10, Action: Yield})
	c.expectRevoke(revokeFrame{task: 5, ticket: 10, action: Yield})
	no := revokedFrame{task: 5, Revoked: Revoked{Ticket: 10, Ended: Unable}}
	fill(no.why[:], "the area\tis full")
	c.send(frame(&no))
	if e := r.next(t, "revoked"); e.was != (Revoked{Ticket: 10, Ended: Unable, Why: "the area?is full"}) {
		t.Fatalf("revoked %v %+v", e, e.was)
	}

	c.send(frame(&resumeFrame{5, Resume{Bytes: 7, Referenced: 6}}))
	e := r.next(t, "resume")
	if e.task != 5 || e.need != (Resume{Bytes: 7, Referenced: 6}) {
		t.Fatalf("resume %v %+v", e, e.need)
	}
	if err := s.Refuse(id, ReasonDeviceFull, 7, 6, "no"); err != nil {
		t.Fatal(err)
	}
	c.expect(kindRefuse)
	moved := Moved{Way: In, Bytes: 5, Copy: 2, Bookkeeping: 3}
	c.send(frame(&movedFrame{5, moved}))
	if e := r.next(t, "moved"); e.task != 5 || e.moved != moved {
		t.Fatalf("moved in %v %+v", e, e.moved)
	}
	c.send(frame(&resumeFrame{5, Resume{Bytes: 7}})) // the task has stayed
	r.next(t, "resume")
	mustRevoke(t, s, id, yielding(11)) // a task that waits may have to give more
	c.expect(kindRevoke)
	if err := s.Grant(id, 0, [16]byte{}); !errors.Is(err, errRevoking) {
		t.Errorf("grant before the ticket is answered: %v", err)
	}
	c.send(done(5, 11))
	r.next(t, "revoked")
	mustGrant(t, e)
	c.expect(kindGrant)

	mustRevoke(t, s, id, yielding(12))
	c.send(frame(&freeFrame{5})) // they cross
	r.next(t, "free")
	if err := s.Revoke(id, yielding(13)); !errors.Is(err, errNoTask) {
		t.Errorf("revocation of a task that is over: %v", err)
	}
	c.send(frame(&byeFrame{}))
	c.close()
	if e := r.next(t, "closed"); e.c.Err() != nil {
		t.Errorf("closed: %v", e.c.Err())
	}
	if lines := log.all(); len(lines) != 0 {
		t.Errorf("log %q", lines)
	}
}

// What cannot be sent is not, and leaves no ticket.
func TestRevocationsThatAreNotSent(t *testing.T) {
	s, r, _ := startRevoking(t, welcomed)
	plain := greeted(t, s, 1)
	id, _ := plain.holds(r, 1)
	if err := s.Revoke(id, yielding(1)); !errors.Is(err, errUnable) {
		t.Errorf("of a process that cannot evict: %v", err)
	}
	c := evictor(t, s)
	c.send(beginOf(1, 10))
	e := r.next(t, "begin")
	if err := s.Revoke(e.c.idOf(1), yielding(1)); !errors.Is(err, errNoDevice) {
		t.Errorf("of a task that waits: %v", err)
	}
	mustGrant(t, e)
	c.expect(kindGrant)
	id = e.c.idOf(1)
	for want, wrong := range map[string]Revocation{
		"ticket 0":      {Action: Evict, Bytes: 1},
		"action 3":      {Ticket: 1, Action: 3},
		" bytes":        {Ticket: 1, Action: Yield, Bytes: 1 << 63},
		"deadline":      {Ticket: 1, Action: Evict, Deadline: -1},
		"a deadline of": {Ticket: 1, Action: Evict, Deadline: 1 << 62},
	} {
		if err := s.Revoke(id, wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	mustRevoke(t, s, id, yielding(1))
	if err := s.Revoke(id, yielding(2)); !errors.Is(err, errRevoking) {
		t.Errorf("of a task with a ticket: %v", err)
	}
	c.expectRevoke(revokeFrame{task: 1, ticket: 1, bytes: 3 << 30, action: Yield, deadlineMS: 250})
	c.send(frame(&byeFrame{}))
	s.Settle()
	if err := s.Revoke(id, yielding(3)); !errors.Is(err, errGone) {
		t.Errorf("after BYE: %v", err)
	}
	for name, w := range map[string]Welcome{
		"no chunk":             {},
		"a long window":        {Chunk: 1, Window: 1 << 62},
		"too many descriptors": {Chunk: 1, Swap: make([]int, maxFiles+1)},
	} {
		if s, err := ListenRevoking(filepath.Join(t.TempDir(), "s"), r, w, nil); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A job that decides for itself, and a run that takes nothing back, say so in WELCOME.
func TestWelcomeOfARunThatTakesNothingBack(t *testing.T) {
	plain, pr, _ := start(t)
	revoking, _, _ := startRevoking(t, welcomed)
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
			var w welcomeFrame
			if err := decode(&w, c.expect(kindWelcome)); err != nil || w != (welcomeFrame{}) {
				t.Fatalf("welcome %+v: %v", w, err)
			}
			c.send(frame(&resumeFrame{1, Resume{}}))
			if why := c.expectHangUp(); !strings.Contains(why, "takes nothing back") {
				t.Errorf("told %q", why)
			}
		})
	}
	pr.next(t, "closed")
}

func TestProtocolErrorsOfRevocation(t *testing.T) {
	s, r, _ := startRevoking(t, welcomed)
	live := func(c *raw) { c.holds(r, 1) }
	revoking := func(c *raw) {
		id, _ := c.holds(r, 1)
		mustRevoke(t, s, id, yielding(7))
		c.expect(kindRevoke)
	}
	resuming := func(c *raw) { live(c); c.send(frame(&resumeFrame{1, Resume{}})); r.next(t, "resume") }
	recalled := func(c *raw) {
		_, at := c.holds(r, 1)
		if err := at.RecallSwap(); err != nil {
			t.Fatal(err)
		}
		c.expect(kindRecall)
	}
	asking := func(c *raw) { c.send(frame(&moreFrame{1})); r.next(t, "more") }
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
		{"answered after free", "not live", func(c *raw) { revoking(c); c.send(frame(&freeFrame{1})); r.next(t, "free") }, done(1, 7)},
		{"resume of unknown", "not live", func(*raw) {}, frame(&resumeFrame{1, Resume{}})},
		{"resume twice", "outstanding", resuming, frame(&resumeFrame{1, Resume{}})},
		{"resume of waiting", "outstanding", func(c *raw) { c.send(beginOf(1, 1)); r.next(t, "begin") }, frame(&resumeFrame{1, Resume{}})},
		{"resumed while resuming", "outstanding", resuming, frame(&movedFrame{1, Moved{Way: In}})},
		{"resumed of unknown", "not live", func(*raw) {}, frame(&movedFrame{1, Moved{Way: In}})},
		{"free while resuming", "outstanding", resuming, frame(&freeFrame{1})},
		{"more twice", "no answer yet", asking, frame(&moreFrame{1})},
		{"WELCOME", "not for a client", live, frame(&welcomeFrame{})},
		{"REVOKE", "not for a client", live, frame(&revokeFrame{})},
		{"SWAP_SPACE", "not for a client", live, frame(&spaceFrame{})},
		{"SWAP_RECALL", "not for a client", live, frame(&recallFrame{})},
		{"SWAP_KEPT unasked", "nothing was recalled", live, frame(&keptFrame{})},
		{"SWAP_KEPT too much", "of 0 bytes that it was offered", recalled, frame(&keptFrame{32 << 20})},
		{"SWAP_KEPT of a part", "of 0 bytes that it was offered", recalled, frame(&keptFrame{1})},
		{"SWAP_KEPT twice", "nothing was recalled", func(c *raw) { recalled(c); c.send(frame(&keptFrame{})); r.next(t, "returned") }, frame(&keptFrame{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := evictor(t, s)
			test.before(c)
			c.send(test.frame)
			if why := c.expectHangUp(); !strings.Contains(why, test.why) {
				t.Errorf("told %q, want %q", why, test.why)
			}
			if e := r.next(t, "closed"); e.c.Err() == nil {
				t.Error("no reason")
			}
			r.none(t)
		})
	}
	c := greeted(t, s, 1)
	c.holds(r, 1)
	c.send(frame(&moreFrame{1}))
	if why := c.expectHangUp(); !strings.Contains(why, "cannot evict") {
		t.Errorf("a process that cannot evict: told %q", why)
	}
}

// A resumption counts as a request: a job with too many is refused.
func TestResumptionsAreLimited(t *testing.T) {
	s, r, _ := startRevoking(t, welcomed)
	c := evictor(t, s)
	for task := uint64(1); task <= jobRequests+1; task++ {
		c.holds(r, task)
	}
	for task := uint64(1); task <= jobRequests; task++ {
		c.send(frame(&resumeFrame{task, Resume{}}))
		r.next(t, "resume")
	}
	c.send(frame(&resumeFrame{jobRequests + 1, Resume{}}))
	r.next(t, "limited")
	var f refuseFrame
	if err := decode(&f, c.expect(kindRefuse)); err != nil || f.task != jobRequests+1 || f.reason != ReasonTooMany {
		t.Errorf("refused %+v: %v", f, err)
	}
}

// startSeeing is startRevoking, but sees the processes of its clients: a client may be silent, and live.
func startSeeing(t *testing.T) (*Server, recorder) {
	t.Helper()
	r, l := newRecorder(), &logbook{}
	s, err := newServer(r, l.logf, openProcess).revoking(r, welcomed)
	if err != nil {
		t.Fatal(err)
	}
	serving(t, s)
	return s, r
}

// The end of a connection settles its tickets, and what the process says of them later is of no
// connection.
func TestConnectionsEndSettlesTickets(t *testing.T) {
	s, r := startSeeing(t)
	token := s.Register(1)
	c := connect(t, s).welcome(token)
	id, at := c.holds(r, 1)
	c.send(frame(&moreFrame{64 << 20}))
	r.next(t, "more")
	mustRevoke(t, s, id, yielding(7))
	c.expect(kindRevoke)
	c.close()
	r.next(t, "silent")
	if err := s.Revoke(id, yielding(8)); !errors.Is(err, errGone) {
		t.Errorf("of a silent process: %v", err)
	}
	if err := at.GiveSwap(0, 0); !errors.Is(err, errGone) {
		t.Errorf("swap space of a silent process: %v", err)
	}
	again := connect(t, s).welcome(token)
	again.send(frame(&resumeFrame{1, Resume{Bytes: 3}})) // it had given its memory back
	e := r.next(t, "resume")
	if e.c != at || e.task != 1 {
		t.Fatalf("resume %v of another client", e)
	}
	mustRevoke(t, s, id, yielding(9)) // none is outstanding
	again.expect(kindRevoke)
	again.send(done(1, 9))
	r.next(t, "revoked")
	mustGrant(t, e)
	again.expect(kindGrant)
	if err := at.GiveSwap(0, 0); !errors.Is(err, errNoSwap) {
		t.Errorf("a request of the earlier connection has stayed: %v", err)
	}

	again.close()
	r.next(t, "silent")
	weak := connect(t, s) // the same library, which could not start its thread
	f := helloFrame{}
	if err := decode(&f, evicting(t, token)); err != nil {
		t.Fatal(err)
	}
	f.can = 0
	weak.send(frame(&f))
	weak.send(frame(&shrinkFrame{1, 1}))
	r.next(t, "shrink")
	if err := s.Revoke(id, yielding(10)); !errors.Is(err, errUnable) {
		t.Errorf("after HELLO without capabilities: %v", err)
	}
	weak.send([]byte("nonsense"))
	weak.expectHangUp()
	r.next(t, "silent")
}

// files receives a frame and its descriptors.
func (c *raw) files(want kind) ([]byte, []int) {
	c.t.Helper()
	b, control := make([]byte, maxFrame), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, used, _, _, err := unix.Recvmsg(c.fd, b, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		c.t.Fatal(err)
	}
	if k, err := check(b[:n]); err != nil || k != want {
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
	w := welcomed
	w.Swap = area
	s, r, _ := startRevoking(t, w)
	c := connect(t, s)
	c.send(evicting(t, s.Register(1)))
	b, files := c.files(kindWelcome)
	var f welcomeFrame
	if err := decode(&f, b); err != nil || f.files != 2 {
		t.Fatalf("welcome %+v: %v", f, err)
	}
	same(t, files, area)

	c.send(frame(&moreFrame{96 << 20}))
	e := r.next(t, "more")
	if e.bytes != 96<<20 {
		t.Fatalf("asked for %d bytes", e.bytes)
	}
	for _, wrong := range [][]int{make([]int, maxFiles+1), {-1}} {
		if err := e.c.GiveSwap(1, 0, wrong...); err == nil {
			t.Errorf("%d wrong descriptors are passed on", len(wrong))
		}
	}
	if err := e.c.GiveSwap(64<<20, 0, area[1]); err != nil {
		t.Fatal(err)
	}
	b, files = c.files(kindSpace)
	var space spaceFrame
	if err := decode(&space, b); err != nil || space != (spaceFrame{bytes: 64 << 20, files: 1}) {
		t.Fatalf("space %+v: %v", space, err)
	}
	same(t, files, area[1:])
	if err := e.c.GiveSwap(0, 0); !errors.Is(err, errNoSwap) {
		t.Errorf("an answer to nothing: %v", err)
	}
	c.send(frame(&moreFrame{32 << 20}))
	r.next(t, "more")
	if err := e.c.GiveSwap(32<<20, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := decode(&space, c.expect(kindSpace)); err != nil || space != (spaceFrame{bytes: 32 << 20, offset: 64 << 20}) {
		t.Errorf("space %+v: %v", space, err)
	}
}

// Host memory is offered to a process that takes it unasked, and that has read all before.
func TestOffers(t *testing.T) {
	file := memfd(t, 1<<20, 0, 0, 0)
	s, r := startSeeing(t)
	token := s.Register(1)
	plain, ready := connect(t, s), connect(t, s).welcome(token)
	plain.send(hello(t, token, 6, canEvict))
	plain.expect(kindWelcome)
	_, at := plain.holds(r, 1)
	if err := errors.Join(at.OfferSwap(file), at.RecallSwap()); strings.Count(err.Error(), errNoOffer.Error()) != 2 {
		t.Errorf("a process that takes nothing unasked: %v", err)
	}
	_, at = ready.holds(r, 1)
	for _, wrong := range [][]int{nil, make([]int, maxFiles+1), {-1}} {
		if err := at.OfferSwap(wrong...); err == nil {
			t.Errorf("%d wrong descriptors are passed on", len(wrong))
		}
	}
	offered := func(offset uint64) {
		t.Helper()
		if err := at.OfferSwap(file, file); err != nil {
			t.Fatal(err)
		}
		if err := at.OfferSwap(file); !errors.Is(err, errUnread) {
			t.Errorf("a process that has not read the offer before: %v", err)
		}
		b, files := ready.files(kindSpace)
		var space spaceFrame
		if err := decode(&space, b); err != nil || space != (spaceFrame{bytes: 64 << 20, offset: offset, files: 2, offered: 1}) {
			t.Fatalf("space %+v: %v", space, err)
		}
		same(t, files, []int{file, file})
	}
	recalled := func(keeps, back uint64) {
		t.Helper()
		if err := at.RecallSwap(); err != nil {
			t.Fatal(err)
		}
		ready.expect(kindRecall)
		if err := errors.Join(at.OfferSwap(file), at.RecallSwap()); strings.Count(err.Error(), errRecalled.Error()) != 2 {
			t.Errorf("a process that has not answered: %v", err)
		}
		ready.send(frame(&keptFrame{keeps}))
		if e := r.next(t, "returned"); e.bytes != back {
			t.Errorf("%d bytes came back; want %d", e.bytes, back)
		}
	}
	offered(0)
	offered(64 << 20)
	recalled(96<<20, 32<<20)
	recalled(96<<20, 0)
	offered(96 << 20)
	recalled(0, 160<<20)
	offered(0)
	if err := at.RecallSwap(); err != nil {
		t.Fatal(err)
	}
	ready.close() // which withdraws it
	r.next(t, "silent")
	if err := errors.Join(at.OfferSwap(file), at.RecallSwap()); strings.Count(err.Error(), errGone.Error()) != 2 {
		t.Errorf("a process that has closed its connection: %v", err)
	}
	ready = connect(t, s).welcome(token)
	offered(64 << 20)
	recalled(32<<20, 96<<20)
}

// A library of version 3 is told in its own words why it is not served: REFUSE is as it was then.
func TestOlderVersionIsToldWhy(t *testing.T) {
	s, r, _ := startRevoking(t, welcomed)
	c := connect(t, s)
	c.send(hexFile(t, "hello_v3"))
	k, b := c.receive()
	if k != kindRefuse || len(b) != 160 || le.Uint64(b[8:]) != 0 || le.Uint32(b[32:]) != uint32(reasonProtocol) {
		t.Fatalf("received %v % x", k, b)
	}
	if why := text(b[40:]); why != "HELLO of protocol version 3; this scheduler speaks 4" {
		t.Errorf("told %q", why)
	}
	c.expect(0)
	s.Settle()
	r.none(t)
}
