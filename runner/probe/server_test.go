package probe

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mustGrant(t *testing.T, e event) {
	t.Helper()
	if err := e.c.Grant(e.task, 3, [16]byte{0xab}); err != nil {
		t.Fatal(err)
	}
}

func TestTaskLife(t *testing.T) {
	s, r, log := start(t)
	c := greeted(t, s, 12)
	want := Request{Bytes: 1 << 40, Blocks: 1 << 50, ThreadsPerBlock: 16, HeapBytes: 8 << 20, Flags: FlagManaged | FlagDevice, BlocksPerSM: 6, Device: 2, Wait: WaitNone}
	c.send(frame(&beginFrame{5, want}))
	e := r.next(t, "begin")
	if e.task != 5 || e.r != want || e.c.Job() != 12 || e.c.PID() != os.Getpid() {
		t.Fatalf("begin %v %+v", e, e.r)
	}
	mustGrant(t, e)
	var g grantFrame
	if err := decode(&g, c.expect(kindGrant)); err != nil || g != (grantFrame{5, [16]byte{0xab}, 3}) {
		t.Fatalf("grant %+v: %v", g, err)
	}
	if err := e.c.Grant(5, 3, g.uuid); err == nil || errors.Is(err, errGone) {
		t.Errorf("second grant of one request: %v", err)
	}

	c.send(frame(&growFrame{5, 1 << 20, 250}))
	if e := r.next(t, "grow"); e.task != 5 || e.bytes != 1<<20 || e.wait != 250 {
		t.Fatalf("grow %v, wait %v", e, e.wait)
	}
	if err := e.c.Refuse(5, ReasonDeviceFull, 2, 1, strings.Repeat("long ", 100)); err != nil {
		t.Fatal(err)
	}
	var f refuseFrame
	if err := decode(&f, c.expect(kindRefuse)); err != nil || f.reason != ReasonDeviceFull || f.need != 2 || f.capacity != 1 {
		t.Fatalf("refuse %+v: %v", f, err)
	}
	c.send(frame(&growFrame{5, 1, 0})) // the refused grow left the task as it was
	mustGrant(t, r.next(t, "grow"))
	c.expect(kindGrant)
	shape := Shape{Blocks: 1 << 50, ThreadsPerBlock: 1024, BlocksPerSM: 2}
	c.send(frame(&shapeFrame{5, shape}))
	if e := r.next(t, "shape"); e.task != 5 || e.shape != shape {
		t.Fatalf("shape %v %+v", e, e.shape)
	}
	c.send(frame(&shrinkFrame{5, 100}))
	if e := r.next(t, "shrink"); e.task != 5 || e.bytes != 100 {
		t.Fatalf("shrink %v", e)
	}
	c.send(frame(&freeFrame{5})) // a shape or a shrink has no answer, so nothing is outstanding
	if e := r.next(t, "free"); e.task != 5 {
		t.Fatalf("free %v", e)
	}

	c.send(beginOf(5, 9)) // a freed id may come again
	if err := r.next(t, "begin").c.Refuse(5, ReasonTooLarge, 9, 8, "no"); err != nil {
		t.Fatal(err)
	}
	c.expect(kindRefuse)
	c.send(beginOf(5, 0)) // so may a refused one; nothing is wrong with 0 bytes
	mustGrant(t, r.next(t, "begin"))
	c.send(frame(&byeFrame{}))
	c.close()
	if closed := r.next(t, "closed"); closed.c != e.c || closed.c.Err() != nil || !closed.c.SaidBye() {
		t.Errorf("closed %v, err %v, bye %v", closed, closed.c.Err(), closed.c.SaidBye())
	}
	if err := e.c.Grant(5, 0, g.uuid); !errors.Is(err, errGone) {
		t.Errorf("grant to a closed client: %v", err)
	}
	if lines := log.all(); len(lines) != 0 {
		t.Errorf("log %q", lines)
	}
}

// Task ids belong to a connection: equal ids of two clients are two tasks.
func TestTaskIDsArePerConnection(t *testing.T) {
	s, r, _ := start(t)
	a, b := greeted(t, s, 1), greeted(t, s, 2)
	a.send(beginOf(1, 10))
	ea := r.next(t, "begin")
	b.send(beginOf(1, 20))
	eb := r.next(t, "begin")
	mustGrant(t, eb)
	b.expect(kindGrant)
	mustGrant(t, ea)
	a.expect(kindGrant)
	b.close()
	if e := r.next(t, "closed"); e.c != eb.c {
		t.Fatalf("closed %v", e)
	}
	a.send(frame(&freeFrame{1}))
	if e := r.next(t, "free"); e.c != ea.c {
		t.Fatalf("free %v", e)
	}
}

// A client that dies with a reply unread resets the connection; what it sent
// before still counts.
func TestReportsSurviveAReset(t *testing.T) {
	s, r, _ := start(t)
	c := greeted(t, s, 1)
	c.send(beginOf(1, 1))
	e := r.next(t, "begin")
	mustGrant(t, e)
	// The server is kept busy, so that the end comes before the report is read.
	e.c.server.mu.Lock()
	late := connect(t, s)
	late.send(helloOf(t, strings.Repeat("00", tokenSize))) // needs the lock
	oom := &oomFrame{bytes: 77}
	fill(oom.where[:], "cudaMalloc")
	c.send(frame(oom))
	c.close()
	e.c.server.mu.Unlock()
	if got := r.next(t, "oom"); got.bytes != 77 || got.where != "cudaMalloc" {
		t.Errorf("oom %v", got)
	}
	r.next(t, "closed")
}

// Replies that nobody reads never block the caller of Grant.
func TestClientThatDoesNotReadIsDropped(t *testing.T) {
	s, r, log := start(t)
	deaf, other := greeted(t, s, 1), greeted(t, s, 2)
	var dropped error
	for task := uint64(1); dropped == nil; task++ {
		if task > 1<<14 {
			t.Fatal("no limit to unread replies")
		}
		if err := sendNow(deaf.fd, beginOf(task, 1)); err != nil {
			t.Fatal(err)
		}
		e := r.next(t, "begin")
		dropped = e.c.Grant(task, 0, [16]byte{})
	}
	if !errors.Is(dropped, errSlow) {
		t.Errorf("grant: %v", dropped)
	}
	if e := r.next(t, "closed"); e.c.Job() != 1 || !errors.Is(e.c.Err(), errSlow) {
		t.Errorf("closed %v: %v", e, e.c.Err())
	}
	other.send(beginOf(1, 1))
	mustGrant(t, r.next(t, "begin"))
	other.expect(kindGrant)
	if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "does not read") {
		t.Errorf("log %q", lines)
	}
}

// The prototype's ring had 4,096 slots that were never given back.
func TestNoSlotsToExhaust(t *testing.T) {
	s, r, _ := start(t)
	for range 2500 {
		c := greeted(t, s, 1)
		for task := uint64(1); task <= 4; task++ {
			c.send(beginOf(task, 1))
			mustGrant(t, r.next(t, "begin"))
			c.expect(kindGrant)
		}
		c.close()
		r.next(t, "closed")
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	s, r, _ := start(t)
	tokens := []string{s.Register(1), s.Register(2)}
	var clients []*raw
	for i := range 400 {
		c := connect(t, s)
		c.send(helloOf(t, tokens[i%2]))
		c.send(beginOf(1, 1))
		clients = append(clients, c)
	}
	for range clients {
		mustGrant(t, r.next(t, "begin"))
	}
	for _, c := range clients {
		c.expect(kindGrant)
		c.close()
	}
	seen := map[*Client]bool{}
	for range clients {
		if e := r.next(t, "closed"); seen[e.c] {
			t.Fatal("closed twice")
		} else {
			seen[e.c] = true
		}
	}
}

// Without descriptors the server keeps serving and accepts again afterwards.
func TestRunsOutOfDescriptors(t *testing.T) {
	s, r, log := start(t)
	c := greeted(t, s, 1)
	c.send(beginOf(1, 1))
	mustGrant(t, r.next(t, "begin"))
	c.expect(kindGrant)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	late := &raw{t, fd}
	t.Cleanup(late.close)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	restore := sync.OnceFunc(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
	defer restore()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: s.Path()}); err != nil {
		t.Fatal(err)
	}
	await(t, "nothing logged", func() bool { return len(log.all()) > 0 })
	c.send(frame(&freeFrame{1}))
	r.next(t, "free")
	restore()
	late.send(helloOf(t, s.Register(2)))
	late.send(beginOf(1, 1))
	if e := r.next(t, "begin"); e.c.Job() != 2 {
		t.Errorf("begin %v", e)
	}
}

// hungry hears when connections cannot be taken.
type hungry struct {
	recorder
	starved chan error
}

func (h hungry) Starved(err error) { h.starved <- err }

// Connections leave descriptors to the rest of the process.
func TestConnectionsLeaveDescriptorsFree(t *testing.T) {
	const peers = 16
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	sockets := make([]int, peers)
	for i := range sockets {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup((&raw{t, fd}).close)
		sockets[i] = fd
	}
	// The server's own descriptors and some connections can be below the limit of connections. All can be below the
	// process's.
	limit := unix.Rlimit{Cur: uint64(slices.Max(sockets)) + peers/2 + Reserved, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
	h, l := hungry{newRecorder(), make(chan error, peers)}, &logbook{}
	s := serving(t, newServer(h, l.logf, ownUnseen))
	for _, fd := range sockets {
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: s.Path()}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "all connections are taken", func() bool { return len(h.starved) > 0 })
	if err := <-h.starved; !errors.Is(err, unix.EMFILE) {
		t.Error(err)
	}
}

func TestCloseTellsEveryClient(t *testing.T) {
	s, r, log := start(t)
	c := greeted(t, s, 1)
	c.send(beginOf(1, 1))
	e := r.next(t, "begin")
	connect(t, s) // says nothing, so it is nobody's
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if closed := r.next(t, "closed"); closed.c != e.c || closed.c.Err() != nil {
		t.Errorf("closed %v: %v", closed, closed.c.Err())
	}
	r.none(t)
	c.expect(0)
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(s.Path())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's directory is still there: %v", err)
	}
	if lines := log.all(); len(lines) != 0 {
		t.Errorf("log %q", lines)
	}
}

// Answers come from other goroutines than the server's, while clients leave.
func TestAnswersFromOtherGoroutines(t *testing.T) {
	s, r, _ := start(t)
	var answers sync.WaitGroup
	answer := func(e event) {
		answers.Go(func() {
			if err := e.c.Grant(e.task, 0, [16]byte{}); err != nil && !errors.Is(err, errGone) {
				t.Error(err)
			}
		})
	}
	const clients = 50
	for range clients {
		c := greeted(t, s, 1)
		c.send(beginOf(1, 1))
		c.send(beginOf(2, 1))
		c.close()
	}
	for closed := 0; closed < clients; {
		select {
		case next := <-r.events:
			e := *next
			if e.kind == "begin" {
				answer(e)
			} else {
				closed++
			}
		case <-time.After(patience):
			t.Fatal("a client is missing")
		}
	}
	answers.Wait()
}
