// Package probe is the scheduler's end of the socket that jobs' probes (libcase,
// native/probe) talk to. It posts what processes say as events of the batch, and
// answers them; it decides nothing about placement.
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

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// Config is what a Server needs of its run.
type Config struct {
	Dir   string    // of the socket: made with mode 0700, or one that only this user can enter
	Start time.Time // time zero of events; it must carry a monotonic reading
	// Post takes events, one at a time, those of one process in order, on the server's goroutine. All processes wait while it
	// runs, so it must not block (writing to a disk or a store belongs on another goroutine), nor call Server.Close. The
	// server numbers the tasks of all processes: a number is never used again. Each TaskBegin, TaskGrow and TaskResume is
	// answered with Server.Grant or Server.Refuse, during the call or later and from any goroutine, unless the job decides
	// for itself (RegisterDeciding). Every ticket of Server.Revoke ends once: with TaskRevoked, or without an answer with the
	// end of its task, its connection or its process. An error says that the event cannot be.
	Post func(at time.Duration, e runner.Event) error
	// Warn hears of every connection that the server ended and why. Several goroutines call it.
	Warn func(format string, args ...any)
	// AcceptFailed hears that connections cannot be accepted, because this process or the machine lacks something. They wait, or
	// are closed after the call.
	AcceptFailed func(err error)
	// Mended hears that the socket had been removed, replaced or locked. It is in its place again, or err says why not.
	Mended func(err error)
	// Stray takes the event of a job that is not known, because a process did not show its token. session is what the process
	// says of itself.
	Stray func(session int, event func(job int) runner.Event)

	Chunk  int64         // bytes, the unit in which memory moves; 0: the run takes nothing back
	Window time.Duration // with Chunk: at most so much work is to be submitted at a time; whole microseconds
	Bursts bool          // with Chunk: a task gives up its permission when it has nothing submitted
	Swap   Swap          // with Chunk
}

func (c Config) validate() error {
	switch {
	case c.Chunk < 0:
		return fmt.Errorf("chunks of %d bytes", c.Chunk)
	case c.Window < 0 || c.Window.Microseconds() > math.MaxUint32:
		return fmt.Errorf("a window of %v", c.Window)
	}
	return nil
}

// Reserved is how many of the process's descriptors connections leave free for other uses.
const Reserved = 32

// socketName is short because a socket's path holds 107 bytes.
const socketName = "probe"

// backlog is how many connections may wait to be accepted.
const backlog = unix.SOMAXCONN

// Server is a listening probe socket.
type Server struct {
	config  Config
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
	jobs     map[[wire.TokenSize]byte]*job
	ranks    map[[wire.TokenSize]byte]int // of the tokens that name one
	settling []chan struct{}
	tasks    map[schedulers.TaskID]*task    // live ones
	known    map[schedulers.Process]*client // that events have named, and that are not gone
	heard    int                            // clients that were ever known
	asked    map[int]bool                   // their PIDs
	hungUp   map[int]bool                   // jobs that have a process on which the server hung up
	changed  *sync.Cond                     // known has lost one

	lastTask atomic.Uint64 // id of the task that began last

	loop      sync.WaitGroup     // the goroutine that owns what follows
	clients   map[int32]*client  // connected ones, by descriptor
	processes map[int]*process   // those with a handle, by number
	handles   map[int32]*process // the same, by handle
	turned    int                // connections turned away that the log has heard of
	in        [wire.MaxFrame]byte
	reader    wire.Codec // of in
	takes     [wire.Kinds]take
	events    [64]unix.EpollEvent
}

// job is what the clients of a job share.
type job struct {
	index      int
	registered time.Duration // when
	decides    bool          // its processes decide for themselves, and tell how
	bound      bool          // its processes see one device
	clients    int           // the loop's own
	limited    bool          // Limited has come; the loop's own
	warned     bool          // Warn has heard that one of its clients is disconnected; the loop's own
	open       atomic.Int64  // requests without an answer
	live       atomic.Int64  // tasks
}

// One process or one job must not take what the others need: the server's descriptors, and the
// time of the engine, which looks through the queue of requests.
const (
	processConnections = 8 // one for each copy of the library, as a rule one
	jobClients         = 256
	jobRequests        = 256
	jobTasks           = 4096
)

// Listen serves until Close.
func Listen(c Config) (*Server, error) {
	s, err := newServer(c, openProcess)
	if err != nil {
		return nil, err
	}
	return s.listen()
}

func newServer(c Config, open func(fd, pid int) int) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("welcome processes that can give memory back: %w", err)
	}
	s := &Server{
		config: c, path: filepath.Join(c.Dir, socketName), reports: -1, notice: -1, uid: uint32(os.Geteuid()),
		open: open, jobs: map[[wire.TokenSize]byte]*job{}, ranks: map[[wire.TokenSize]byte]int{}, tasks: map[schedulers.TaskID]*task{},
		known: map[schedulers.Process]*client{}, asked: map[int]bool{}, hungUp: map[int]bool{},
		clients: map[int32]*client{}, processes: map[int]*process{}, handles: map[int32]*process{}, takes: newTakes(),
	}
	s.changed = sync.NewCond(&s.mu)
	return s, nil
}

func (s *Server) listen() (*Server, error) {
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
	err := os.Mkdir(s.config.Dir, 0o700)
	if err == nil {
		s.madeDir = true
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(s.config.Dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || owner.Uid != s.uid {
		return fmt.Errorf("%s (%v) is not a directory that only this user can enter", s.config.Dir, info.Mode())
	}
	return nil
}

func (s *Server) removeDir() error {
	if !s.madeDir {
		return nil
	}
	return os.Remove(s.config.Dir)
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
// of the job that connects with it is known by a number of its own.
func (s *Server) Register(index int) (token string) { return s.register(&job{index: index}) }

// RegisterBound is Register for a job that the run has bound to a device, which is the only one that its processes see.
func (s *Server) RegisterBound(index int) (token string) {
	return s.register(&job{index: index, bound: true})
}

// RegisterDeciding is Register for a job whose processes decide for themselves. Their requests
// are not answered.
func (s *Server) RegisterDeciding(index int) (token string) {
	return s.register(&job{index: index, decides: true})
}

func (s *Server) register(j *job) (token string) {
	t := newToken()
	j.registered = s.now()
	s.mu.Lock()
	s.jobs[t] = j
	s.mu.Unlock()
	return hex.EncodeToString(t[:])
}

func newToken() (t [wire.TokenSize]byte) {
	_, _ = rand.Read(t[:]) // never fails: crypto/rand ends the program instead
	return t
}

// Ranks returns other tokens of a job that a token names, one for each of so many of its ranks, from first on. Processes with such
// a token are told to be of the rank (runner.RankJoined).
func (s *Server) Ranks(token string, first, count int) (tokens []string) {
	var whole [wire.TokenSize]byte
	_, _ = hex.Decode(whole[:], []byte(token)) // it is ours
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range count {
		t := newToken()
		s.jobs[t], s.ranks[t] = s.jobs[whole], first+i
		tokens = append(tokens, hex.EncodeToString(t[:]))
	}
	return tokens
}

// Close stops accepting, hangs up on every client, waits until that is
// posted and removes the socket, if no job has. A second Close does nothing.
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
// device with this number (PCI bus order) and UUID.
func (s *Server) Grant(id schedulers.TaskID, device int, uuid [16]byte) error {
	return s.GrantPart(id, device, uuid, 0)
}

// GrantPart is Grant of which so many bytes stay on the host, where the process's kernels use them (schedulers.Decision.Host).
func (s *Server) GrantPart(id schedulers.TaskID, device int, uuid [16]byte, host int64) error {
	return s.tell("grant", id, func(t *task) error {
		c := t.client
		if t.standing == resuming && t.ticket != 0 {
			return errRevoking
		}
		if c.job.bound {
			device = 0 // the only one that it sees
		}
		return t.answer(true, &wire.Grant{Number: t.number, UUID: uuid, Device: int32(device), Host: host})
	})
}

// Refuse answers the task's outstanding request with no. A refused begin
// ends the task; a refused grow or resume leaves it as it was. The bytes
// and the first 119 bytes of Why reach the user's stderr.
func (s *Server) Refuse(id schedulers.TaskID, r schedulers.Refusal) error {
	return s.tell("refuse", id, func(t *task) error { return t.answer(false, &wire.Refuse{Number: t.number, Refusal: r}) })
}

// answer, with mu held, answers the task's outstanding request.
func (t *task) answer(granted bool, f wire.Frame) error {
	if !t.standing.asks() {
		return errNotAsked
	}
	t.conclude(granted)
	c := t.client
	if c.ended {
		return errGone
	}
	c.charged = c.charged || granted
	return c.send(f)
}

// tell does something about a live task, with its client's mu held.
func (s *Server) tell(what string, id schedulers.TaskID, do func(*task) error) error {
	t := s.task(id)
	if t == nil {
		return fmt.Errorf("%s task %d: %w", what, id, errNoTask)
	}
	c := t.client
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errNoTask // it has ended just now
	if t.standing != 0 {
		err = do(t)
	}
	if err != nil {
		return fmt.Errorf("%s task %d of job %d (pid %d): %w", what, t.number, c.Job(), c.PID(), err)
	}
	return nil
}

func (s *Server) task(id schedulers.TaskID) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[id]
}

// jobOf returns the job that a token names, and which rank of it, if it names one.
func (s *Server) jobOf(token [wire.TokenSize]byte) (j *job, rank int, ranked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rank, ranked = s.ranks[token]
	return s.jobs[token], rank, ranked
}
