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

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

func mustGrant(t *testing.T, e event) {
	t.Helper()
	if err := e.c.Grant(e.Task, 3, [16]byte{0xab}); err != nil {
		t.Fatal(err)
	}
}

func TestTaskLife(t *testing.T) {
	s, r, log := start(t)
	c := greeted(t, s, 12)
	want := schedulers.Task{Bytes: 1<<40 + 8<<20, Need: new(int64(1<<40 + 8<<20)), Blocks: 1 << 50, ThreadsPerBlock: 16, Managed: true, OnDevice: new(2), BlocksPerSM: 6, Wait: new(time.Duration(0))}
	c.send(frame(&wire.Begin{Number: 5, Task: want, HeapBytes: 8 << 20}))
	e := r.next(t, "begin")
	want.ID, want.Job, want.Serial = e.ID, 12, 1
	if diff := cmp.Diff(runner.TaskBegin{Task: want, HeapBytes: 8 << 20}, e.Posted); diff != "" || e.Task != 5 || e.c.PID() != os.Getpid() {
		t.Fatalf("begin %v (-want +got):\n%s", e, diff)
	}
	mustGrant(t, e)
	var g wire.Grant
	if err := decode(&g, c.expect(wire.KindGrant)); err != nil || g != (wire.Grant{Number: 5, UUID: [16]byte{0xab}, Device: 3}) {
		t.Fatalf("grant %+v: %v", g, err)
	}
	if err := e.c.Grant(5, 3, g.UUID); err == nil || errors.Is(err, errGone) {
		t.Errorf("second grant of one request: %v", err)
	}

	c.send(frame(&wire.Grow{Number: 5, Bytes: 1 << 20, Wait: new(250 * time.Millisecond)}))
	if e := r.next(t, "grow"); e.Task != 5 || e.Bytes != 1<<20 || *e.Posted.(runner.TaskGrow).Wait != 250*time.Millisecond {
		t.Fatalf("grow %v", e)
	}
	if err := e.c.Refuse(5, schedulers.Refusal{Cause: schedulers.DeviceFull, NeedBytes: 2, CapacityBytes: 1, Why: strings.Repeat("long ", 100)}); err != nil {
		t.Fatal(err)
	}
	var f wire.Refuse
	if err := decode(&f, c.expect(wire.KindRefuse)); err != nil || f.Refusal.Cause != schedulers.DeviceFull || f.Refusal.NeedBytes != 2 || f.Refusal.CapacityBytes != 1 {
		t.Fatalf("refuse %+v: %v", f, err)
	}
	c.send(frame(&wire.Grow{Number: 5, Bytes: 1})) // the refused grow left the task as it was
	mustGrant(t, r.next(t, "grow"))
	c.expect(wire.KindGrant)
	c.send(frame(&wire.Shape{Number: 5, Blocks: 1 << 50, ThreadsPerBlock: 1024, BlocksPerSM: 2}))
	if e := r.next(t, "shape"); e.Task != 5 || e.Posted != (runner.TaskShape{ID: e.ID, Blocks: 1 << 50, ThreadsPerBlock: 1024, BlocksPerSM: 2}) {
		t.Fatalf("shape %v %+v", e, e.Posted)
	}
	c.send(frame(&wire.Shrink{Number: 5, Bytes: 100}))
	if e := r.next(t, "shrink"); e.Task != 5 || e.Bytes != 100 {
		t.Fatalf("shrink %v", e)
	}
	c.send(frame(&wire.Free{Number: 5})) // a shape or a shrink has no answer, so nothing is outstanding
	if e := r.next(t, "free"); e.Task != 5 {
		t.Fatalf("free %v", e)
	}

	c.send(beginOf(5, 9)) // a freed id may come again
	if err := r.next(t, "begin").c.Refuse(5, schedulers.Refusal{Cause: schedulers.TooLarge, NeedBytes: 9, CapacityBytes: 8, Why: "no"}); err != nil {
		t.Fatal(err)
	}
	c.expect(wire.KindRefuse)
	c.send(beginOf(5, 0)) // so may a refused one; nothing is wrong with 0 bytes
	mustGrant(t, r.next(t, "begin"))
	c.send(frame(&wire.Bye{}))
	c.close()
	if closed := r.next(t, "gone"); closed.c != e.c || closed.c.Err() != nil || !closed.c.SaidBye() {
		t.Errorf("closed %v, err %v, bye %v", closed, closed.c.Err(), closed.c.SaidBye())
	}
	if err := e.c.Grant(5, 0, g.UUID); !errors.Is(err, errNoTask) {
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
	b.expect(wire.KindGrant)
	mustGrant(t, ea)
	a.expect(wire.KindGrant)
	b.close()
	if e := r.next(t, "gone"); e.c != eb.c {
		t.Fatalf("closed %v", e)
	}
	a.send(frame(&wire.Free{Number: 1}))
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
	late.send(helloOf(t, strings.Repeat("00", wire.TokenSize))) // needs the lock
	c.send(frame(&wire.OOM{Bytes: 77, Where: "cudaMalloc"}))
	c.close()
	e.c.server.mu.Unlock()
	if got := r.next(t, "oom"); got.Bytes != 77 || got.Text != "cudaMalloc" {
		t.Errorf("oom %v", got)
	}
	r.next(t, "gone")
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
	if e := r.next(t, "gone"); e.c.Job() != 1 || !errors.Is(e.c.Err(), errSlow) {
		t.Errorf("closed %v: %v", e, e.c.Err())
	}
	other.send(beginOf(1, 1))
	mustGrant(t, r.next(t, "begin"))
	other.expect(wire.KindGrant)
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
			c.expect(wire.KindGrant)
		}
		c.close()
		r.next(t, "gone")
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
		c.expect(wire.KindGrant)
		c.close()
	}
	seen := map[*client]bool{}
	for range clients {
		if e := r.next(t, "gone"); seen[e.c] {
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
	c.expect(wire.KindGrant)
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
	probetest.Await(t, "nothing logged", func() bool { return len(log.all()) > 0 })
	c.send(frame(&wire.Free{Number: 1}))
	r.next(t, "free")
	restore()
	late.send(helloOf(t, s.Register(2)))
	late.send(beginOf(1, 1))
	if e := r.next(t, "begin"); e.c.Job() != 2 {
		t.Errorf("begin %v", e)
	}
}

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
	r, starved := newRecorder(), make(chan error, peers)
	c := r.config(filepath.Join(t.TempDir(), "s"), &logbook{})
	c.AcceptFailed = func(err error) { starved <- err }
	s := serving(t, r, c, ownUnseen)
	for _, fd := range sockets {
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: s.Path()}); err != nil {
			t.Fatal(err)
		}
	}
	probetest.Await(t, "all connections are taken", func() bool { return len(starved) > 0 })
	if err := <-starved; !errors.Is(err, unix.EMFILE) {
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
	if closed := r.next(t, "gone"); closed.c != e.c || closed.c.Err() != nil {
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
			if err := e.c.Grant(e.Task, 0, [16]byte{}); err != nil && !errors.Is(err, errNoTask) && !errors.Is(err, errGone) {
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
			if e.Kind == "begin" {
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
