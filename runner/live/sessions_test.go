package live

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// TestSessions leads the probe server, the executor, the batch and the engine through random
// sessions: processes of several jobs connect, ask, give back, report, break the protocol,
// close their sockets, exec and die, in any order. After each step no device has more than
// its capacity in the hands of living processes, and at the end the books are at zero. Where
// the processes decide for themselves, the test is what they share.
func TestSessions(t *testing.T) {
	checkSessions(t, nil, []string{"case-alg3", "case-alg2", "schedgpu:arch=shared", "plan:search=20"}, func(m *sessions) map[string]func(*rapid.T) {
		return map[string]func(*rapid.T){"decide": m.decide}
	})
}

// TestRevokingSessions is TestSessions where the scheduler takes memory back. Processes answer what they like. What is
// on the host does not count.
func TestRevokingSessions(t *testing.T) {
	area := newSwapArea(t, 64)
	var answered int
	checkSessions(t, area, []string{"demand", "vgpu:n=2", "vgpu:n=4,victims=0"}, func(m *sessions) map[string]func(*rapid.T) {
		m.answered = &answered
		for range 5 { // a crowd: most of it waits
			m.start(m.rt)
			for range 3 {
				m.begin(m.rt)
			}
		}
		return map[string]func(*rapid.T){
			"begin again": m.begin, "idle": m.idle, "idle too": m.idle, "idle again": m.idle, "answer": m.answer, "answer too": m.answer,
			"answer again": m.answer, "resume": m.resume, "resume too": m.resume, "move": m.move, "swap": m.swap,
		}
	})
	if t.Logf("%d answers", answered); answered == 0 {
		t.Error("nothing was taken back")
	}
}

// checkSessions has the sessions of these schedulers do some things more. Where the area is not nil, they take memory
// back.
func checkSessions(t *testing.T, area *swaparea.Area, scheds []string, more func(*sessions) map[string]func(*rapid.T)) {
	t.Helper()
	program := testProgram(t, "peer")
	dir := t.TempDir()
	chance.Check(t, func(rt *rapid.T) {
		m := newSessions(rt, program, dir, rapid.SampledFrom(scheds).Draw(rt, "scheduler"), area)
		defer m.abandon()
		actions := map[string]func(*rapid.T){
			"nothing":   func(*rapid.T) {}, // all jobs but one may have ended, and so have all processes
			"start":     m.start,
			"connect":   m.connect,
			"begin":     m.begin,
			"begin too": m.begin, // more often than the others
			"grow":      m.grow,
			"shrink":    m.shrink,
			"overdraw":  m.overdraw,
			"shape":     m.shape,
			"free":      m.free,
			"report":    m.report,
			"nonsense":  m.nonsense,
			"close":     m.closeSocket,
			"bye":       m.bye,
			"exec":      m.exec,
			"kill":      m.kill,
			"end job":   m.endJob,
			"at once":   m.atOnce,
			"":          m.check,
		}
		maps.Copy(actions, more(m))
		rt.Repeat(actions)
		m.finish(rt)
	})
}

const (
	sessionJobs     = 6 // the last one is the auditor's
	sessionDevices  = 2
	sessionCapacity = 1000
	sessionContext  = 50
)

// stage is the executor with processes that the test starts and ends.
type stage struct {
	*Executor
	ready   chan struct{} // closed when the server listens and the jobs have started
	started sync.WaitGroup

	mu      sync.Mutex
	stopped map[int]bool // jobs that the batch wants stopped
}

func (s *stage) Run(_ context.Context, l *runner.Loop) error {
	s.loop = l
	closes, err := s.listen()
	if err != nil {
		return err
	}
	s.post(runner.Arrive{})
	s.started.Wait()
	close(s.ready)
	<-l.Done()
	return closes()
}

func (s *stage) Start(job int, devices []int) {
	s.bound[job] = devices
	s.started.Go(func() { s.post(runner.JobStarted{Job: job}) })
}

func (s *stage) Stop(job int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped[job] = true
}

// sessions is the test's own view: what the processes know.
type sessions struct {
	rt       *rapid.T
	program  string
	decides  bool           // the processes, for themselves
	area     *swaparea.Area // where the scheduler takes memory back; else nil
	stage    *stage
	rec      *tape
	run      chan error
	tokens   []string
	jobs     []int // that go on, the auditor's not among them
	peers    []*peer
	pages    []int // descriptors
	answered *int  // revocations
	count    int   // of peers so far, which tells them apart
	notes    int   // of quiesce
	opened   int   // descriptors before
	running  int   // goroutines before
}

// peer is a process.
type peer struct {
	number, job int
	cmd         *exec.Cmd
	control     int // its standard input
	clients     []*session
	contexts    [sessionDevices]bool
}

// session is a connection, and those that go on with it.
type session struct {
	peer     *peer
	fd       int // -1: closed
	instance uint32
	page     int  // its activity page; -1: it can give nothing back
	swaps    bool // it waits for host memory
	broken   bool // it has said nonsense
	bye      bool
	charged  bool
	lastTask uint64
	tasks    map[uint64]*sessionTask
}

// sessionTask is what a process knows of a task of its own.
type sessionTask struct {
	device  int // -1: it waits for one
	bytes   int64
	growing int64 // asked for and not answered
	wait    uint32
	host    int64 // of bytes, what is not on the device
	resumes bool  // it asked for `need` bytes more of them there, of those that it references
	need    int64
	most    int64 // that `need` can be
	ticket  uint64
	yields  bool // the ticket says
	unsure  bool // an answer was lost with its connection, or comes over the next one
}

func newSessions(rt *rapid.T, program, dir, sched string, area *swaparea.Area) *sessions {
	m := &sessions{rt: rt, program: program, area: area, run: make(chan error, 1), opened: openDescriptors(rt), running: runtime.NumGoroutine()}
	jobs := slices.Repeat([]mixes.Job{{Name: "session", Program: program}}, sessionJobs)
	device := schedulers.Device{Name: "paper", CapacityBytes: sessionCapacity, ContextBytes: sessionContext, SMs: 4, WarpsPerSM: 64, BlocksPerSM: 32}
	devices := slices.Repeat([]schedulers.Device{device}, sessionDevices)
	s, err := policies.Parse(sched, len(devices))
	if err != nil {
		rt.Fatal(err)
	}
	x, err := NewExecutor(Config{Jobs: jobs, IDs: make([][16]byte, len(devices)), Dir: dir, Swap: area, Warn: func(string, ...any) {}, Start: time.Now()})
	if err != nil {
		rt.Fatal(err)
	}
	m.decides = s.ClientsDecide
	m.stage = &stage{Executor: x, ready: make(chan struct{}), stopped: map[int]bool{}}
	m.rec = &tape{jobs: map[int]results.Job{}, tasks: map[[2]int]results.Task{}}
	go func() {
		_, err := runner.Run(context.Background(), runner.Config{Jobs: jobs, Devices: devices, Scheduler: s}, m.stage, m.rec)
		m.run <- err
	}()
	select {
	case <-m.stage.ready:
	case err := <-m.run:
		rt.Fatalf("run: %v", err)
	}
	register := x.server.Register
	if m.decides {
		register = x.server.RegisterDeciding
	}
	for job := range sessionJobs {
		m.tokens = append(m.tokens, register(job))
		if job < sessionJobs-1 {
			m.jobs = append(m.jobs, job)
		}
	}
	return m
}

func openDescriptors(rt *rapid.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		rt.Fatal(err)
	}
	return len(entries)
}

// spawn starts a process of the job.
func (m *sessions) spawn(job int) *peer {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		m.rt.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "peer")
	defer theirs.Close()
	m.count++
	p := &peer{number: m.count, job: job, control: pair[0], cmd: exec.Command(m.program, m.stage.server.Path())}
	p.cmd.Stdin = theirs
	if err := p.cmd.Start(); err != nil {
		m.rt.Fatal(err)
	}
	m.peers = append(m.peers, p)
	m.say(p, "")
	return p
}

// say has the process do something, and returns what it passes on when it has, or -1.
func (m *sessions) say(p *peer, what string) (fd int) {
	if what != "" {
		if _, err := unix.Write(p.control, []byte(what)); err != nil {
			m.rt.Fatal(err)
		}
	}
	var said [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	n, controls, _, _, err := unix.Recvmsg(p.control, said[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n != 1 {
		m.rt.Fatalf("process %d does not answer: %v", p.number, err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		m.rt.Fatal(err)
	}
	for _, message := range messages {
		if fds, err := unix.ParseUnixRights(&message); err == nil && len(fds) == 1 {
			return fds[0]
		}
	}
	return -1
}

// frame is one of native/probe/wire.h; only what differs from zero is set.
func frameOf(kind uint16, size int, set func(b []byte)) []byte {
	b := make([]byte, size)
	binary.LittleEndian.PutUint16(b, kind)
	binary.LittleEndian.PutUint16(b[2:], wire.Version)
	binary.LittleEndian.PutUint32(b[4:], uint32(size))
	if set != nil {
		set(b)
	}
	return b
}

func word(b []byte, at int, value uint64) { binary.LittleEndian.PutUint64(b[at:], value) }

func (m *sessions) send(c *session, b []byte) {
	for {
		err := unix.Send(c.fd, b, unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && !c.broken {
			m.rt.Fatalf("process %d of job %d: send: %v", c.peer.number, c.peer.job, err)
		}
		return
	}
}

// hello opens a connection of the process and says who it is. It goes on with the session
// of that instance, if there is one that the server knows yet.
func (m *sessions) hello(p *peer, instance uint32) *session {
	fd := m.say(p, "c")
	if fd < 0 {
		m.rt.Fatal("no connection")
	}
	hello := func(c *session) {
		frame := frameOf(1, 40, func(b []byte) {
			binary.LittleEndian.PutUint32(b[12:], instance)
			_, _ = hex.Decode(b[16:], []byte(m.tokens[p.job])) // as Register made it
		})
		if c.page < 0 {
			m.send(c, frame)
			return
		}
		binary.LittleEndian.PutUint32(frame[32:], 1)
		if err := unix.Sendmsg(c.fd, frame, unix.UnixRights(c.page), nil, unix.MSG_NOSIGNAL); err != nil {
			m.rt.Fatal(err)
		}
	}
	for _, c := range p.clients {
		if c.instance == instance && instance != 0 && !c.broken {
			if before := m.lose(c); rapid.Bool().Draw(m.rt, "somebody has the old socket yet") {
				defer func() { m.quiesce(); _ = unix.Close(before) }()
			} else {
				_ = unix.Close(before)
			}
			if c.charged {
				c.fd = fd
				hello(c)
				return c
			}
			break
		}
	}
	c := &session{peer: p, fd: fd, instance: instance, page: -1, tasks: map[uint64]*sessionTask{}}
	if m.area != nil && rapid.IntRange(0, 9).Draw(m.rt, "evicts") > 0 {
		c.page = m.activity()
	}
	p.clients = append(p.clients, c)
	hello(c)
	return c
}

// activity makes an activity page.
func (m *sessions) activity() int {
	page, err := unix.MemfdCreate("activity", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(page, 4096)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(page), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	}
	if err != nil {
		m.rt.Fatal(err)
	}
	m.pages = append(m.pages, page)
	return page
}

// lose takes the socket from the session, which withdraws what waits when it is closed.
func (m *sessions) lose(c *session) (fd int) {
	if c.fd >= 0 {
		m.quiesce()
		m.hear(c)
	}
	fd, c.fd = c.fd, -1
	for id, task := range c.tasks {
		if m.decides { // it goes on to wait for the others, not for the server
			continue
		}
		if task.device < 0 {
			delete(c.tasks, id)
		}
		task.unsure = task.unsure || task.growing != 0 || task.resumes
		task.ticket = 0 // withdrawn
	}
	c.swaps = false
	if !c.charged { // nothing is kept for it
		c.peer.clients = slices.DeleteFunc(c.peer.clients, func(o *session) bool { return o == c })
	}
	return fd
}

// quiesce returns when the server has taken everything that was sent, and the last words of
// those that are gone, and what the batch makes of it has been carried out: by a goroutine of
// another event, it may be, such as a tick's. A note goes behind all that.
func (m *sessions) quiesce() {
	for _, c := range m.open(func(*session) bool { return true }) {
		for {
			unread, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
			if err != nil {
				m.rt.Fatal(err)
			}
			if unread == 0 {
				break
			}
			runtime.Gosched()
		}
	}
	m.stage.server.Settle()
	m.notes++
	m.stage.post(runner.Note{Event: results.Event{AtS: m.stage.now().Seconds(), Kind: quiet}})
	for m.rec.count(quiet) < m.notes {
		runtime.Gosched()
	}
}

// quiet is the kind of an event that the test makes.
const quiet results.EventKind = "quiet"

// open lists the sessions with a connection.
func (m *sessions) open(of func(*session) bool) []*session {
	var out []*session
	for _, p := range m.peers {
		for _, c := range p.clients {
			if c.fd >= 0 && of(c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// hear takes the answers.
func (m *sessions) hear(c *session) {
	var b [256]byte
	for c.fd >= 0 {
		n, _, err := unix.Recvfrom(c.fd, b[:], unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNRESET):
			continue
		case err != nil:
			m.rt.Fatal(err)
		case n == 0:
			if !c.broken {
				m.rt.Fatalf("the server hung up on process %d of job %d", c.peer.number, c.peer.job)
			}
			return
		}
		m.take(c, binary.LittleEndian.Uint16(b[:]), b[:n])
	}
}

func (m *sessions) take(c *session, kind uint16, b []byte) {
	id := binary.LittleEndian.Uint64(b[8:])
	task := c.tasks[id]
	if kind == 4 && id == 0 {
		if !c.broken {
			m.rt.Fatalf("process %d of job %d is told %q", c.peer.number, c.peer.job, strings.TrimRight(string(b[40:]), "\x00"))
		}
		return
	}
	switch {
	case c.page >= 0 && kind == 13:
		return
	case c.swaps && kind == 18:
		c.swaps = false
		return
	case c.page >= 0 && kind == 14 && (task == nil || task.device >= 0):
		if task != nil { // else it crossed the end of the task
			task.ticket, task.yields = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint32(b[32:]) == 1
		}
		return
	}
	if m.decides || task == nil || task.device >= 0 && task.growing == 0 && !task.resumes {
		m.rt.Fatalf("process %d of job %d: an answer to no request of task %d", c.peer.number, c.peer.job, id)
	}
	task.unsure = false
	device := int(int32(binary.LittleEndian.Uint32(b[32:])))
	switch reason := binary.LittleEndian.Uint32(b[32:]); {
	case kind == 4:
		if task.device < 0 && reason == 1 && task.bytes+sessionContext <= sessionCapacity {
			m.rt.Fatalf("a task of %d bytes is called too large", task.bytes)
		}
		if reason == 3 && task.wait == 0 {
			m.rt.Fatalf("a request that waits for ever is told that its wait is over")
		}
		c.refused(id)
	case task.device >= 0 && device != task.device:
		m.rt.Fatalf("task %d grew on device %d and has device %d", id, device, task.device)
	default:
		c.granted(id, device)
	}
}

// refused and granted are how the task's request ended.
func (c *session) refused(id uint64) {
	if task := c.tasks[id]; task.device < 0 {
		delete(c.tasks, id)
	} else {
		task.growing, task.resumes = 0, false
	}
}

func (c *session) granted(id uint64, device int) {
	task := c.tasks[id]
	if task.device < 0 {
		task.device, c.charged, c.peer.contexts[device] = device, true, true
		return
	}
	if task.resumes {
		task.host -= task.need
		task.resumes = false
	}
	task.bytes += task.growing
	task.growing = 0
}

// pick is one of the sessions, or the end of the action.
func (m *sessions) pick(rt *rapid.T, of func(*session) bool) *session {
	all := m.open(func(c *session) bool { return !c.broken && !c.bye && of(c) })
	if len(all) == 0 {
		rt.Skip("no such session")
	}
	return rapid.SampledFrom(all).Draw(rt, "session")
}

// pickTask is a task that has its device and waits for nothing.
func (m *sessions) pickTask(rt *rapid.T) (*session, uint64, *sessionTask) {
	idle := func(c *session) []uint64 {
		ids := slices.Sorted(maps.Keys(c.tasks))
		return slices.DeleteFunc(ids, func(id uint64) bool {
			task := c.tasks[id]
			return task.device < 0 || task.growing != 0 || task.resumes || task.unsure
		})
	}
	c := m.pick(rt, func(c *session) bool { return len(idle(c)) > 0 })
	id := rapid.SampledFrom(idle(c)).Draw(rt, "task")
	return c, id, c.tasks[id]
}

func (m *sessions) pickPeer(rt *rapid.T) *peer {
	if len(m.peers) == 0 {
		rt.Skip("no process")
	}
	return rapid.SampledFrom(m.peers).Draw(rt, "process")
}

func (m *sessions) start(rt *rapid.T) {
	if len(m.jobs) == 0 || len(m.peers) == 8 {
		rt.Skip("no job goes on, or enough processes are there")
	}
	m.hello(m.spawn(rapid.SampledFrom(m.jobs).Draw(rt, "job")), 1)
}

func (m *sessions) connect(rt *rapid.T) {
	p := m.pickPeer(rt)
	if len(p.clients) >= 6 {
		rt.Skip("enough connections")
	}
	m.hello(p, rapid.SampledFrom([]uint32{1, 1, 2, 0}).Draw(rt, "instance"))
}

func (m *sessions) begin(rt *rapid.T) {
	c := m.pick(rt, func(c *session) bool { return len(c.tasks) < 20 })
	c.lastTask++
	task := &sessionTask{device: -1, bytes: int64(rapid.IntRange(0, sessionCapacity+100).Draw(rt, "bytes")), wait: drawWait(rt)}
	if rapid.Bool().Draw(rt, "small") {
		task.bytes /= 10
	}
	heap := task.bytes / 3
	flags, device := uint32(0), uint32(rapid.IntRange(0, sessionDevices-1).Draw(rt, "device"))
	if rapid.IntRange(0, 3).Draw(rt, "pinned") == 0 {
		flags = 2
	} else {
		device = 0
	}
	if m.decides {
		flags |= 4
		c.charged = true
	}
	if c.page >= 0 && rapid.Bool().Draw(rt, "begins on the host") {
		task.host = rapid.Int64Range(0, task.bytes-heap).Draw(rt, "host")
	}
	blocks := uint64(rapid.IntRange(0, 100).Draw(rt, "blocks"))
	c.tasks[c.lastTask] = task
	m.send(c, frameOf(2, 80, func(b []byte) {
		word(b, 8, c.lastTask)
		word(b, 16, uint64(task.bytes-heap))
		word(b, 24, blocks)
		word(b, 32, uint64(heap))
		binary.LittleEndian.PutUint32(b[40:], 64)
		binary.LittleEndian.PutUint32(b[44:], flags)
		binary.LittleEndian.PutUint32(b[52:], device)
		binary.LittleEndian.PutUint32(b[56:], task.wait)
		word(b, 64, uint64(task.host))
	}))
}

// drawWait is for ever, no time at all, and some time.
func drawWait(rt *rapid.T) uint32 {
	return rapid.SampledFrom([]uint32{0, 0, math.MaxUint32, 1, 20}).Draw(rt, "wait")
}

func (m *sessions) grow(rt *rapid.T) {
	c, id, task := m.pickTask(rt)
	task.growing, task.wait = int64(rapid.IntRange(1, sessionCapacity/2).Draw(rt, "bytes")), drawWait(rt)
	m.send(c, frameOf(5, 32, func(b []byte) {
		word(b, 8, id)
		word(b, 16, uint64(task.growing))
		binary.LittleEndian.PutUint32(b[24:], task.wait)
	}))
}

func (m *sessions) shrink(rt *rapid.T) {
	c, id, task := m.pickTask(rt)
	bytes := rapid.Int64Range(0, task.bytes).Draw(rt, "bytes")
	task.bytes -= bytes
	task.host = max(0, task.host-bytes)
	m.send(c, frameOf(11, 24, func(b []byte) { word(b, 8, id); word(b, 16, uint64(bytes)) }))
}

// overdraw gives back more than there is, which breaks the protocol.
func (m *sessions) overdraw(rt *rapid.T) {
	c, id, task := m.pickTask(rt)
	c.broken = true
	m.send(c, frameOf(11, 24, func(b []byte) { word(b, 8, id); word(b, 16, uint64(task.bytes+1)) }))
}

// decide ends a request as the processes have settled it among themselves: where there is room.
func (m *sessions) decide(rt *rapid.T) {
	if !m.decides {
		rt.Skip("the server decides")
	}
	open := func(c *session) []uint64 {
		ids := slices.Sorted(maps.Keys(c.tasks))
		return slices.DeleteFunc(ids, func(id uint64) bool { return c.tasks[id].device >= 0 && c.tasks[id].growing == 0 })
	}
	c := m.pick(rt, func(c *session) bool { return len(open(c)) > 0 })
	id := rapid.SampledFrom(open(c)).Draw(rt, "task")
	task, device, more := c.tasks[id], c.tasks[id].device, c.tasks[id].growing
	if device < 0 {
		device, more = rapid.IntRange(0, sessionDevices-1).Draw(rt, "device"), task.bytes
		if !c.peer.contexts[device] {
			more += sessionContext
		}
	}
	if m.used()[device]+more <= sessionCapacity {
		m.send(c, decidedFrame(id, 0, device))
		c.granted(id, device)
		return
	}
	m.send(c, decidedFrame(id, rapid.SampledFrom([]uint32{1, 2, 3}).Draw(rt, "reason"), 0))
	c.refused(id)
}

func decidedFrame(task uint64, reason uint32, device int) []byte {
	return frameOf(12, 40, func(b []byte) {
		word(b, 8, task)
		if reason != 0 {
			word(b, 16, 2*sessionCapacity)
			word(b, 24, sessionCapacity)
		}
		binary.LittleEndian.PutUint32(b[32:], reason)
		binary.LittleEndian.PutUint32(b[36:], uint32(device))
	})
}

// idle lets the time of some ticks pass, after all processes have done something with their devices.
func (m *sessions) idle(rt *rapid.T) {
	m.quiesce()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		rt.Fatal(err)
	}
	for _, page := range m.pages {
		if _, err := unix.Pwrite(page, binary.LittleEndian.AppendUint64(nil, uint64(now.Nano())), 24); err != nil {
			rt.Fatal(err)
		}
	}
	time.Sleep(7 * time.Millisecond)
}

// pickOf is one of the tasks of a session that are so.
func (m *sessions) pickOf(rt *rapid.T, of func(*sessionTask) bool) (*session, uint64, *sessionTask) {
	all := func(c *session) []uint64 {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(c.tasks)), func(id uint64) bool { return !of(c.tasks[id]) })
	}
	c := m.pick(rt, func(c *session) bool { return len(all(c)) > 0 })
	id := rapid.SampledFrom(all(c)).Draw(rt, "task")
	return c, id, c.tasks[id]
}

// answer answers a revocation.
func (m *sessions) answer(rt *rapid.T) {
	c, id, task := m.pickOf(rt, func(task *sessionTask) bool { return task.ticket != 0 })
	outcome, freed := rapid.SampledFrom([]uint32{1, 1, 1, 2, 3}).Draw(rt, "outcome"), int64(0)
	if outcome == 1 {
		freed = rapid.Int64Range(0, task.bytes-task.host).Draw(rt, "freed")
	}
	*m.answered++
	ticket, yields := task.ticket, task.yields
	task.ticket = 0
	task.host += freed
	if task.resumes && yields {
		task.need = min(task.need+freed, task.most)
	}
	resident := task.bytes - task.host
	fixed := rapid.Int64Range(0, resident).Draw(rt, "fixed")
	m.send(c, frameOf(15, 168, func(b []byte) {
		word(b, 8, id)
		word(b, 16, ticket)
		word(b, 24, uint64(freed))
		word(b, 32, uint64(resident))
		word(b, 40, uint64(fixed))
		binary.LittleEndian.PutUint32(b[80:], outcome)
		if outcome == 3 {
			copy(b[88:], "not now")
		}
	}))
}

// resume asks for the permission to give the device work, which a task need not have lost.
func (m *sessions) resume(rt *rapid.T) {
	c, id, task := m.pickTask(rt)
	if c.page < 0 {
		rt.Skip("it can give nothing back")
	}
	task.resumes = true
	task.need = rapid.Int64Range(0, task.host).Draw(rt, "need")
	task.most = rapid.Int64Range(task.need, task.bytes).Draw(rt, "referenced")
	m.send(c, frameOf(16, 40, func(b []byte) {
		word(b, 8, id)
		word(b, 16, uint64(task.need))
		word(b, 24, uint64(task.most))
	}))
}

// move says that memory has moved.
func (m *sessions) move(rt *rapid.T) {
	c, id, _ := m.pickTask(rt)
	if c.page < 0 {
		rt.Skip("it can give nothing back")
	}
	m.send(c, frameOf(19, 48, func(b []byte) {
		word(b, 8, id)
		word(b, 16, uint64(rapid.IntRange(0, 1<<30).Draw(rt, "bytes")))
		binary.LittleEndian.PutUint32(b[40:], uint32(rapid.IntRange(1, 2).Draw(rt, "way")))
	}))
}

// swap asks for host memory. The descriptors go unread.
func (m *sessions) swap(rt *rapid.T) {
	c := m.pick(rt, func(c *session) bool { return c.page >= 0 && !c.swaps })
	c.swaps = true
	m.send(c, frameOf(17, 16, func(b []byte) { word(b, 8, uint64(rapid.IntRange(1, 3*swaparea.PieceBytes).Draw(rt, "bytes"))) }))
}

func (m *sessions) shape(rt *rapid.T) {
	c, id, _ := m.pickTask(rt)
	m.send(c, frameOf(10, 32, func(b []byte) {
		word(b, 8, id)
		word(b, 16, uint64(rapid.IntRange(0, 200).Draw(rt, "blocks")))
		binary.LittleEndian.PutUint32(b[24:], uint32(rapid.IntRange(1, 1024).Draw(rt, "threads")))
	}))
}

func (m *sessions) free(rt *rapid.T) {
	c, id, _ := m.pickTask(rt)
	delete(c.tasks, id)
	m.send(c, frameOf(6, 16, func(b []byte) { word(b, 8, id) }))
}

// report says that memory is missing or that something is wrong, more often than anybody
// wants to know, and at any time.
func (m *sessions) report(rt *rapid.T) {
	c := m.pick(rt, func(*session) bool { return true })
	at := rapid.SampledFrom([]uint64{0, 1, 1 << 40, math.MaxInt64}).Draw(rt, "time")
	for range rapid.IntRange(1, 30).Draw(rt, "reports") {
		m.send(c, frameOf(7, 136, func(b []byte) { word(b, 8, 1<<30); copy(b[16:], "cudaMalloc") }))
		m.send(c, frameOf(8, 144, func(b []byte) {
			word(b, 8, at)
			binary.LittleEndian.PutUint32(b[16:], 700)
			copy(b[24:], "cudaMemcpy")
		}))
	}
}

// nonsense costs the sender its connection, and its job the rest.
func (m *sessions) nonsense(rt *rapid.T) {
	c := m.pick(rt, func(*session) bool { return true })
	b := rapid.SampledFrom([][]byte{
		[]byte("nonsense"),
		{},
		make([]byte, 1000),
		frameOf(1, 40, nil), // a second HELLO
		frameOf(2, 80, nil), // task 0
		frameOf(3, 40, nil),
		frameOf(6, 16, func(b []byte) { word(b, 8, 1<<40) }), // nobody's task
		frameOf(12, 40, nil),  // of task 0
		frameOf(15, 168, nil), // REVOKED and TASK_RESUME of task 0, and no SWAP_MORE at all
		frameOf(16, 40, nil),
		frameOf(17, 16, nil),
		frameOf(99, 16, nil),
	}).Draw(rt, "frame")
	c.broken = true
	m.send(c, b)
}

func (m *sessions) closeSocket(rt *rapid.T) {
	_ = unix.Close(m.lose(m.pick(rt, func(*session) bool { return true })))
}

func (m *sessions) bye(rt *rapid.T) {
	c := m.pick(rt, func(*session) bool { return true })
	c.bye = true
	m.send(c, frameOf(9, 8, nil))
}

// exec puts another program in the process's place, which may find a socket open.
func (m *sessions) exec(rt *rapid.T) {
	p := m.pickPeer(rt)
	m.quiesce() // what was granted before is the old program's
	for _, c := range p.clients {
		m.hear(c)
	}
	m.say(p, "x")
	if slices.ContainsFunc(p.clients, func(c *session) bool { return c.broken }) {
		m.stage.Stop(p.job) // it is or will be
	}
	inherits := rapid.Bool().Draw(rt, "sockets stay open")
	p.contexts = [sessionDevices]bool{}
	old := p.clients
	p.clients = nil
	if inherits {
		m.hello(p, 1)
	}
	m.quiesce()
	for _, c := range old {
		if c.fd >= 0 {
			_ = unix.Close(c.fd)
		}
	}
}

func (m *sessions) kill(rt *rapid.T) { m.end(m.pickPeer(rt), rapid.Bool().Draw(rt, "kill")) }

// end ends a process, by a signal or by itself.
func (m *sessions) end(p *peer, kill bool) {
	if kill {
		_ = p.cmd.Process.Kill()
	}
	_ = unix.Close(p.control)
	_ = p.cmd.Wait() // whatever it ended with
	for _, c := range p.clients {
		if c.fd >= 0 { // this process has the socket, as a child may; it is none of the dead one's
			_ = unix.Close(c.fd)
		}
	}
	m.peers = slices.DeleteFunc(m.peers, func(o *peer) bool { return o == p })
}

func (m *sessions) endJob(rt *rapid.T) {
	if len(m.jobs) == 0 || rapid.IntRange(0, 9).Draw(rt, "rarely") > 0 {
		rt.Skip("not now")
	}
	m.over(rapid.SampledFrom(m.jobs).Draw(rt, "job"))
}

// over ends the job with its processes, as the executor does.
func (m *sessions) over(job int) {
	for _, p := range slices.Clone(m.peers) {
		if p.job == job {
			m.end(p, true)
		}
	}
	m.stage.server.Settle()
	if len(m.stage.server.PIDs(job)) > 0 {
		m.rt.Fatalf("job %d has clients after the end of its processes", job)
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(o int) bool { return o == job })
	m.stage.post(runner.JobEnded{Job: job, Exit: runner.Exit{Signal: new("SIGKILL")}})
}

// atOnce does several things before the server has done with the first.
func (m *sessions) atOnce(rt *rapid.T) {
	for range rapid.IntRange(2, 6).Draw(rt, "things") {
		all := m.open(func(c *session) bool { return !c.broken && !c.bye && len(c.tasks) < 20 })
		if len(all) == 0 {
			rt.Skip("no session")
		}
		switch rapid.IntRange(0, 2).Draw(rt, "thing") {
		case 0, 1:
			m.begin(rt)
		case 2:
			if p := m.pickPeer(rt); len(m.peers) > 1 {
				m.end(p, true)
			}
		}
	}
}

// check compares what the processes know with what there is.
func (m *sessions) check(rt *rapid.T) {
	m.quiesce()
	for _, p := range m.peers {
		for _, c := range slices.Clone(p.clients) {
			m.hear(c)
			if c.broken {
				m.stage.mu.Lock()
				stopped := m.stage.stopped[p.job]
				m.stage.mu.Unlock()
				if !stopped {
					rt.Fatalf("job %d goes on after process %d broke the protocol", p.job, p.number)
				}
			}
			for _, task := range c.tasks {
				if waits := task.device < 0 || task.growing != 0; waits && task.wait == math.MaxUint32 && !m.decides && !task.unsure && !c.broken && c.fd >= 0 {
					rt.Fatalf("a request that does not wait has no answer")
				}
			}
		}
	}
	for device, bytes := range m.used() {
		if bytes > sessionCapacity {
			rt.Fatalf("processes hold %d bytes of device %d, which has %d", bytes, device, sessionCapacity)
		}
	}
	m.stage.mu.Lock()
	stopped := slices.Collect(maps.Keys(m.stage.stopped))
	clear(m.stage.stopped)
	m.stage.mu.Unlock()
	for _, job := range stopped {
		if slices.Contains(m.jobs, job) {
			m.over(job)
		}
	}
	m.checkRecords(rt)
}

// used is what the processes know to hold of each device.
func (m *sessions) used() (used [sessionDevices]int64) {
	for _, p := range m.peers {
		for _, c := range p.clients {
			for _, task := range c.tasks {
				if task.device >= 0 {
					used[task.device] += task.bytes - task.host
				}
			}
		}
		for device, has := range p.contexts {
			if has {
				used[device] += sessionContext
			}
		}
	}
	return used
}

func (m *sessions) checkRecords(rt *rapid.T) {
	m.rec.mu.Lock()
	defer m.rec.mu.Unlock()
	now, rows := m.stage.now().Seconds(), map[[2]any]int{}
	for _, e := range m.rec.events {
		if e.AtS < 0 || e.AtS > now {
			rt.Fatalf("event %+v is not within the run, which is %v s old", e, now)
		}
		if e.Kind == results.EventOOM || e.Kind == results.EventFault {
			rows[[2]any{*e.Job, e.Kind}]++
		}
	}
	for of, n := range rows {
		if n > 65 {
			rt.Fatalf("%d events of %v", n, of)
		}
	}
}

// finish ends everything but the auditor's job, whose process is then granted all there
// is: the books are at zero.
func (m *sessions) finish(rt *rapid.T) {
	for _, p := range slices.Clone(m.peers) {
		m.end(p, rapid.Bool().Draw(rt, "kill"))
	}
	m.stage.server.Settle()
	for device := range sessionDevices {
		auditor := m.hello(m.spawn(sessionJobs-1), 1)
		task := &sessionTask{device: -1, bytes: sessionCapacity - sessionContext}
		auditor.tasks[1] = task
		flags := uint32(2)
		if m.decides {
			flags |= 4
		}
		m.send(auditor, frameOf(2, 80, func(b []byte) {
			word(b, 8, 1)
			word(b, 16, uint64(task.bytes))
			word(b, 24, 1)
			binary.LittleEndian.PutUint32(b[40:], 32)
			binary.LittleEndian.PutUint32(b[44:], flags)
			binary.LittleEndian.PutUint32(b[52:], uint32(device))
		}))
		if m.decides {
			m.send(auditor, decidedFrame(1, 0, device))
			auditor.granted(1, device)
		}
		m.quiesce()
		m.hear(auditor)
		if task.device != device {
			rt.Fatalf("device %d is not free when all processes are gone", device)
		}
	}
	for _, job := range append(slices.Clone(m.jobs), sessionJobs-1) {
		m.over(job)
	}
	if err := <-m.run; err != nil {
		rt.Fatalf("run: %v", err)
	}
	for job := range sessionJobs {
		if left := m.stage.server.PIDs(job); len(left) > 0 {
			rt.Fatalf("processes %v are left of job %d", left, job)
		}
	}
	for key, task := range m.rec.tasks {
		if task.GrantS != nil && task.ReleaseS == nil {
			rt.Fatalf("task %v was granted and never released", key)
		}
	}
	m.checkRecords(rt)
	m.closePages()
	if m.area != nil {
		all := m.area.Take(math.MaxInt)
		m.area.Give(all)
		if got, want := int64(len(all))*swaparea.PieceBytes, m.area.Bytes(); got != want {
			rt.Fatalf("%d bytes of the swap area came back; want %d", got, want)
		}
	}
	m.count = -1 // it is over
	for deadline := time.Now().Add(ample); openDescriptors(rt) > m.opened || runtime.NumGoroutine() > m.running; runtime.Gosched() {
		if time.Now().After(deadline) {
			rt.Fatalf("%d descriptors and %d goroutines, before there were %d and %d", openDescriptors(rt), runtime.NumGoroutine(), m.opened, m.running)
		}
	}
}

func (m *sessions) closePages() {
	for _, page := range m.pages {
		_ = unix.Close(page)
	}
	m.pages = nil
}

// abandon ends what a failure, or an action that rapid gave up, has left.
func (m *sessions) abandon() {
	if m.count < 0 {
		return
	}
	for _, p := range slices.Clone(m.peers) {
		m.end(p, true)
	}
	m.closePages()
	for _, job := range append(slices.Clone(m.jobs), sessionJobs-1) {
		m.stage.post(runner.JobEnded{Job: job})
	}
	if err := <-m.run; err != nil {
		m.rt.Log(err)
	}
}
