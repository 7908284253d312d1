// Package probe is the scheduler's end of the socket that jobs' probes (libcase,
// native/probe) talk to. It turns frames into calls of a Handler and answers
// into frames; it decides nothing about placement.
package probe

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Request is what a task asks for (struct case_need in native/probe/case.h).
// Bytes+HeapBytes and Blocks are below 2^63; Blocks × warps per block can
// exceed 64 bits.
type Request struct {
	Bytes, Blocks   uint64
	ThreadsPerBlock uint32
	HeapBytes       uint64
	Flags           uint32
	BlocksPerSM     uint32 // 0: unknown
	Device          int32  // ordinal as GRANT has it; with FlagDevice, else 0
	Wait            Wait
	HostBytes       uint64 // of Bytes, that are on the host at first; 0 unless Client.CanEvict
}

// Outcome is how a request ended of which its process decided.
type Outcome struct {
	Reason         Reason // Granted, ReasonTooLarge, ReasonDeviceFull or ReasonTimeout
	Ordinal        int32  // of the device, where it was granted
	Need, Capacity uint64 // bytes below 2^63, where it was refused
}

// Shape is a task's largest kernel so far (case_task_shape).
type Shape struct {
	Blocks          uint64 // below 2^63
	ThreadsPerBlock uint32
	BlocksPerSM     uint32 // 0: unknown
}

// Handler gets the clients' events, one at a time, those of one client in order,
// on the server's goroutine. All clients wait while it runs, so it must not
// block (writing to a disk or a store belongs on another goroutine), nor call
// Server.Close. The server numbers the tasks of all clients: a number is never used again.
// The handler answers each Begin and Grow with Server.Grant or Server.Refuse, during the
// call or later and from any goroutine, unless the job decides for itself
// (RegisterDeciding). An error of a method that returns one says that the client broke
// the protocol, and ends the connection.
type Handler interface {
	Begin(c *Client, task uint64, r Request)
	Grow(c *Client, task uint64, bytes uint64, wait Wait)
	// Shrink says that a task gave back part of what it holds.
	Shrink(c *Client, task uint64, bytes uint64) error
	// Decided answers a Begin or Grow of a job that decides for itself.
	Decided(c *Client, task uint64, o Outcome) error
	// Shape corrects what Begin said of a task that has its device.
	Shape(c *Client, task uint64, s Shape)
	// Free says that the task is over. A ticket of it is settled.
	Free(c *Client, task uint64)
	OOM(c *Client, bytes uint64, where string)
	// Fault: at is when the process saw the error. Times of all clients are on
	// one clock, so they order culprit and collateral exactly.
	Fault(c *Client, code int32, at time.Time, where string)
	// Starved says that connections cannot be taken, because this process or the
	// machine lacks something. They wait, or are closed after the call.
	Starved(err error)
	// Limited says that the server refuses what the client asks for, because its job has
	// too many requests or tasks open. It comes once for a job.
	Limited(c *Client, why string)
	// Silent says that the connection has ended and the process lives on. The process has had a
	// device, and keeps what it holds. Tasks that waited for a device have been freed (Free).
	// A request to grow or to resume is still to be answered, and a process that decides by itself
	// goes on to decide. Tickets of its tasks (Server.Revoke) are settled without an answer: the
	// process may have given memory back or not, and has no permission to submit work until
	// it asks. The process may connect again and go on.
	Silent(c *Client)
	// Closed comes last and exactly once for each client that had any other event or said
	// HELLO. Its process has ended, runs another program, or has never had a device.
	// Everything that the client held or waited for is free, swap space included.
	Closed(c *Client)
}

// Reserved is how many of the process's descriptors connections leave free for other uses.
const Reserved = 32

// socketName is short because a socket's path holds 107 bytes.
const socketName = "probe"

// backlog is how many connections may wait to be accepted.
const backlog = unix.SOMAXCONN

// Server is a listening probe socket.
type Server struct {
	handler Handler
	revoker Revoker // the same; nil: the run takes nothing back
	watcher Watcher // the same; nil: it does not listen to that
	welcome Welcome
	logf    func(format string, args ...any)
	dir     string
	madeDir bool
	path    string
	fd      int         // listens
	at      unix.Stat_t // of the socket's file
	report  string      // abstract name of the socket of
	reports int         // reports
	notice  int         // an inotify instance; -1: none
	epoll   int
	limit   int // connections have smaller descriptors
	wake    int // an eventfd: somebody waits for Settle
	uid     uint32
	started time.Time // the same instant as startedNS
	// startedNS is CLOCK_MONOTONIC, which clients stamp faults with.
	startedNS int64

	open func(fd, pid int) (handle int) // openProcess; tests set another

	mu       sync.Mutex
	closed   bool
	jobs     map[[tokenSize]byte]*job
	settling []chan struct{}
	tasks    map[uint64]owner // live ones, by id

	lastTask atomic.Uint64 // id of the task that began last

	loop      sync.WaitGroup     // the goroutine that owns what follows
	clients   map[int32]*Client  // connected ones, by descriptor
	processes map[int]*process   // those with a handle, by number
	handles   map[int32]*process // the same, by handle
	turned    int                // connections turned away that the log has heard of
	in        [maxFrame]byte
	reader    cursor                 // of in
	frames    [len(frames)]wireFrame // clientFrames
	events    [64]unix.EpollEvent
}

// owner is whose task it is, and the number that the process gave it.
type owner struct {
	client *Client
	wire   uint64
}

// job is what the clients of a job share.
type job struct {
	index   int
	decides bool         // its processes decide for themselves, and tell how
	clients int          // the loop's own
	limited bool         // Limited has come; the loop's own
	open    atomic.Int64 // requests without an answer
	live    atomic.Int64 // tasks
}

// One process or one job must not take what the others need: the server's descriptors, and the
// time of the engine, which looks through the queue of requests.
const (
	processConnections = 8 // one for each copy of the library, as a rule one
	jobClients         = 256
	jobRequests        = 256
	jobTasks           = 4096
)

// Listen makes the directory dir with mode 0700, or takes one that only this
// user can enter, and serves on a socket in it until Close. logf, which may be
// nil and is called from several goroutines, hears of every connection that the
// server ended and why.
func Listen(dir string, h Handler, logf func(format string, args ...any)) (*Server, error) {
	return newServer(h, logf, openProcess).listen(dir)
}

// ListenRevoking is Listen for a run that takes device memory back.
func ListenRevoking(dir string, h Revoker, w Welcome, logf func(format string, args ...any)) (*Server, error) {
	s, err := newServer(h, logf, openProcess).revoking(h, w)
	if err != nil {
		return nil, err
	}
	return s.listen(dir)
}

func newServer(h Handler, logf func(format string, args ...any), open func(fd, pid int) int) *Server {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	watcher, _ := h.(Watcher)
	return &Server{
		handler: h, watcher: watcher, reports: -1, notice: -1, logf: logf, uid: uint32(os.Geteuid()),
		open: open, jobs: map[[tokenSize]byte]*job{}, tasks: map[uint64]owner{},
		clients: map[int32]*Client{}, processes: map[int]*process{}, handles: map[int32]*process{}, frames: clientFrames(),
	}
}

func (s *Server) revoking(h Revoker, w Welcome) (*Server, error) {
	if err := w.validate(); err != nil {
		return nil, fmt.Errorf("welcome processes that can give memory back: %w", err)
	}
	s.revoker, s.welcome = h, w
	return s, nil
}

func (s *Server) listen(dir string) (*Server, error) {
	s.dir, s.path = dir, filepath.Join(dir, socketName)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	s.limit = int(min(files.Cur, math.MaxInt32)) - Reserved
	var err error
	if s.started, s.startedNS, err = sameInstant(); err != nil {
		return nil, err
	}
	if err := s.bind(); err != nil {
		return nil, fmt.Errorf("listen on probe socket %s: %w", s.path, err)
	}
	s.loop.Go(s.serve)
	return s, nil
}

// At is the time at which CLOCK_MONOTONIC read so many nanoseconds.
func (s *Server) At(monotonicNS int64) time.Time {
	return s.started.Add(time.Duration(monotonicNS - s.startedNS))
}

// sameInstant reads both clocks. A process can lose its processor between two
// readings, so it takes the closest of several pairs.
func sameInstant() (at time.Time, monotonicNS int64, err error) {
	closest := time.Duration(math.MaxInt64)
	for range 8 {
		var now unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return at, 0, fmt.Errorf("read the monotonic clock: %w", err)
		}
		if gap := time.Since(before); gap < closest {
			closest, at, monotonicNS = gap, before.Add(gap/2), now.Nano()
		}
	}
	return at, monotonicNS, nil
}

func (s *Server) bind() error {
	if max := len(unix.RawSockaddrUnix{}.Path) - 1; len(s.path) > max {
		return fmt.Errorf("the path has %d bytes and a Unix socket's holds %d: choose a shorter directory (of a run: TMPDIR)", len(s.path), max)
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	var err error
	if s.fd, s.at, err = s.openSocket(); err != nil {
		return errors.Join(err, s.removeDir())
	}
	if err = s.openPoll(); err != nil {
		return errors.Join(err, unix.Close(s.fd), os.Remove(s.path), s.removeDir())
	}
	return nil
}

// openSocket makes the socket, and says what its file is.
func (s *Server) openSocket() (fd int, at unix.Stat_t, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, at, fmt.Errorf("socket: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: s.path})
	if err == unix.EADDRINUSE && stale(s.path) {
		if err = os.Remove(s.path); err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: s.path})
		}
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err == nil {
		err = unix.Lstat(s.path, &at)
	}
	if err != nil {
		return -1, at, errors.Join(err, unix.Close(fd))
	}
	return fd, at, nil
}

func (s *Server) makeDir() error {
	err := os.Mkdir(s.dir, 0o700)
	if err == nil {
		s.madeDir = true
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || owner.Uid != s.uid {
		return fmt.Errorf("%s (%v) is not a directory that only this user can enter", s.dir, info.Mode())
	}
	return nil
}

func (s *Server) removeDir() error {
	if !s.madeDir {
		return nil
	}
	return os.Remove(s.dir)
}

// stale reports whether path is a socket that nobody listens on, as a server
// leaves behind that was killed. Another kind of file refuses connections too.
func stale(path string) bool {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	_ = unix.Close(fd)
	return err == unix.ECONNREFUSED
}

// Path returns the socket's path, for CASE_SOCKET.
func (s *Server) Path() string { return s.path }

// Register returns a new token, for CASE_TOKEN, that names the job. Each process
// of the job that connects with it becomes a Client of its own.
func (s *Server) Register(index int) (token string) { return s.register(&job{index: index}) }

// RegisterDeciding is Register for a job whose processes decide for themselves. Their requests
// are not answered.
func (s *Server) RegisterDeciding(index int) (token string) {
	return s.register(&job{index: index, decides: true})
}

func (s *Server) register(j *job) (token string) {
	var t [tokenSize]byte
	_, _ = rand.Read(t[:]) // never fails: crypto/rand ends the program instead
	s.mu.Lock()
	s.jobs[t] = j
	s.mu.Unlock()
	return hex.EncodeToString(t[:])
}

// Close stops accepting, hangs up on every client, waits until the Handler has
// heard of it and removes the socket, if no job has. A second Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // makes it ready
	s.mu.Unlock()
	s.loop.Wait()
	_ = os.Remove(s.path)
	_ = s.removeDir()
	if s.notice >= 0 {
		_ = unix.Close(s.notice)
	}
	if err := errors.Join(unix.Close(s.fd), unix.Close(s.epoll), unix.Close(s.wake), unix.Close(s.reports)); err != nil {
		return fmt.Errorf("close probe socket %s: %w", s.path, err)
	}
	return nil
}

// Grant answers the task's outstanding request with yes: it runs on the
// device with this ordinal (PCI bus order) and UUID.
func (s *Server) Grant(task uint64, ordinal int, uuid [16]byte) error {
	o, ok := s.owner(task)
	if !ok {
		return fmt.Errorf("grant task %d: %w", task, errNotAsked)
	}
	return o.client.grant(task, o.wire, ordinal, uuid)
}

// Refuse answers the task's outstanding request with no. A refused begin
// ends the task; a refused grow or resume leaves it as it was. need and capacity, in
// bytes, and the first 119 bytes of text reach the user's stderr.
func (s *Server) Refuse(task uint64, reason Reason, need, capacity uint64, text string) error {
	o, ok := s.owner(task)
	if !ok {
		return fmt.Errorf("refuse task %d: %w", task, errNotAsked)
	}
	return o.client.refuse(task, o.wire, reason, need, capacity, text)
}

func (s *Server) owner(task uint64) (owner, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.tasks[task]
	return o, ok
}

func (s *Server) noteTask(task uint64, o owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[task] = o
}

func (s *Server) noteEnd(task uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, task)
}

func (s *Server) jobOf(token [tokenSize]byte) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[token]
}
