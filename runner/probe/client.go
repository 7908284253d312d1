package probe

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// errGone means that the client's connection has ended. ProcessGone has been posted or will
// be soon, or the process lives on.
var errGone = errors.New("client is gone")

// errSlow means that the client's receive queue is full: the client does not read hundreds of
// replies.
var errSlow = errors.New("does not read its replies")

// task is a task of a client, whose mu guards it.
type task struct {
	client   *client
	id       schedulers.TaskID // the server's, which no other task has
	number   uint64            // the process's
	standing standing          // 0: it is not live any more
	ticket   schedulers.Ticket // of a revocation without an answer; 0: none
}

type standing uint8

const (
	held     standing = iota + 1
	waiting           // begin without an answer
	growing           // held, grow without an answer
	resuming          // held, resume without an answer
)

// asks reports whether an answer is due.
func (s standing) asks() bool { return s >= waiting }

// client is a copy of the library in a process of a job; a process usually has one. Its methods
// may be called from any goroutine and never block on the process.
type client struct {
	server  *Server
	process *process

	// The loop's own.
	job      *job // nil before HELLO
	rank     int  // which the token named,
	ranked   bool // if it did
	serial   int  // of the process in events; 0: there was none
	instance uint32
	image    image
	closed   bool
	told     bool // the run knows that it has closed a connection
	dropped  bool // its job is being stopped, because the server hung up on it

	mu        sync.Mutex
	fd        int   // -1 once the connection has ended
	err       error // why the server ended the connection
	ended     bool  // the server takes no more frames from the client
	bye       bool
	charged   bool                // it has had a device, or may have
	page      []byte              // the process's activity; nil: it shows none
	can       uint32              // its capabilities
	swapAsked bool                // SWAP_MORE without an answer
	roomAsked bool                // ROOM without an answer
	offered   int64               // bytes of host memory that it was offered, less what it gave back
	recalled  bool                // what was offered, without an answer
	tasks     map[uint64]*task    // live ones, by number
	out       [wire.MaxFrame]byte // the frame being sent
	writer    wire.Codec          // of out
}

// Job returns the job whose token the process showed.
func (c *client) Job() int { return c.job.index }

// PID returns the process ID that the kernel recorded at connect (SO_PEERCRED).
func (c *client) PID() int { return c.process.pid }

// Err returns why the server hung up on the client: a protocol error, or replies that the
// client did not read. It is nil if the client closed its connection. After an error the
// process may live on and is not served, so the run should end the job.
func (c *client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// SaidBye reports whether the process ended through exit rather than by a
// signal or _exit.
func (c *client) SaidBye() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye
}

var (
	errNotAsked = errors.New("no request is outstanding")
	errNoTask   = errors.New("no such task")
)

// newTask is a task that becomes live.
func (c *client) newTask(number uint64) *task {
	s := c.server
	t := &task{client: c, id: schedulers.TaskID(s.lastTask.Add(1)), number: number}
	c.tasks[number] = t
	c.job.live.Add(1)
	c.charged = c.charged || c.job.decides // it may have its device before it says so
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[t.id] = t
	return t
}

// set, with mu held, is the one place where a task's standing changes.
func (t *task) set(to standing) {
	c := t.client
	if t.standing.asks() {
		c.job.open.Add(-1)
	}
	if to.asks() {
		c.job.open.Add(1)
	}
	t.standing = to
	if to == 0 {
		c.job.live.Add(-1)
		delete(c.tasks, t.number)
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		delete(c.server.tasks, t.id)
	}
}

// conclude, with mu held, ends the task's outstanding request.
func (t *task) conclude(granted bool) {
	if granted || t.standing != waiting {
		t.set(held)
	} else {
		t.set(0)
	}
}

// encode, with mu held, returns the frame's bytes, which are valid until the next call.
func (c *client) encode(f wire.Frame) []byte { return c.writer.Encode(f, c.out[:]) }

// send is called with mu held. A send that would block means errSlow. A task has at most one
// answer and one revocation on their way, so the queue of a client that reads is never full.
func (c *client) send(f wire.Frame, files ...int) error {
	var err error
	if b := c.encode(f); len(files) == 0 {
		err = sendNow(c.fd, b)
	} else {
		err = sendFiles(c.fd, b, files)
	}
	switch err {
	case nil:
		return nil
	case unix.EAGAIN, unix.ENOBUFS:
		c.hangUp(errSlow)
		return errSlow
	case unix.ETOOMANYREFS, unix.EBADF:
		return fmt.Errorf("pass %d descriptors: %w", len(files), err)
	default: // EPIPE or ECONNRESET; the reader sees the end by itself
		return errGone
	}
}

// hangUp, with mu held, ends the connection. The loop then wakes, closes the descriptor and
// reports. Err keeps the first error.
func (c *client) hangUp(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	if c.fd >= 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // fails only when the peer is gone already
	}
}

// reject ends the connection of a client that broke the protocol, and tells the client why if
// it still reads.
func (c *client) reject(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	f := &wire.Refuse{Refusal: schedulers.Refusal{Cause: wire.Protocol, Why: err.Error()}}
	_ = sendNow(c.fd, c.encode(f)) // the connection ends even if this fails
	c.hangUp(err)
}

// stand moves a task to a new standing if it has the expected one, 0 being "not live" on both sides.
func (c *client) stand(number uint64, from, to standing) (*task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[number]
	switch {
	case c.ended:
		return nil, errGone
	case t == nil && from == 0:
		t = c.newTask(number)
	case t == nil:
		return nil, fmt.Errorf("task %d is not live", number)
	case from == 0:
		return nil, fmt.Errorf("begin of task %d, which is live", number)
	case t.standing != from:
		return nil, fmt.Errorf("task %d has a request outstanding", number)
	}
	t.set(to)
	return t, nil
}

// decide ends the task's outstanding request as the process itself has decided.
func (c *client) decide(number uint64, granted bool) (*task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[number]
	switch {
	case c.ended:
		return nil, errGone
	case !c.job.decides:
		return nil, errWhoDecides
	case t == nil || !t.standing.asks():
		return nil, fmt.Errorf("task %d has no request outstanding", number)
	}
	t.conclude(granted)
	return t, nil
}

// step takes one frame from a client that is ready.
func (c *client) step() {
	in := c.server.in[:]
	var n int
	var err error
	if c.job != nil {
		n, err = receive(c.fd, in)
	} else {
		var page []byte
		n, page, err = receiveFirst(c.fd, in)
		c.show(page)
	}
	switch {
	case err == unix.EAGAIN:
		return
	case err != nil:
		err = fmt.Errorf("receive: %w", err)
	case n == 0:
		if err = c.endOrEmpty(); err == nil {
			c.disconnect()
			return
		}
	case n > len(in):
		err = fmt.Errorf("oversized frame of %d bytes", n)
	case c.job != nil:
		err = c.take(in[:n])
	default:
		err = c.greet(in[:n])
	}
	if err != nil {
		c.reject(err)
		c.disconnect()
	}
}

// endOrEmpty distinguishes the end of the connection (nil) from a packet of no bytes. A read
// returns 0 for both.
func (c *client) endOrEmpty() error {
	if !hungUp(c.fd) {
		return errors.New("empty frame")
	}
	return nil
}

// disconnect ends the connection. A process that has had a device and lives on keeps what it
// holds. Its client is disconnected until the process ends or connects again.
func (c *client) disconnect() {
	withdrawn, charged := c.detach()
	if err := c.Err(); err != nil && c.job == nil {
		c.server.turnAway(fmt.Errorf("pid %d: %w", c.PID(), err))
	}
	switch {
	case c.process.ending:
		return // processEnded closes it
	case !charged || c.process.handle < 0:
		c.close()
		return
	case !c.process.lives():
		c.server.processEnded(c.process)
		return
	}
	exits, now := look(c.process.pid)
	if now.differs(c.image) { // exec closed the socket, and the device's memory is gone with the program
		c.close()
		return
	}
	for _, task := range withdrawn {
		_ = c.post(runner.TaskFree{ID: task})
	}
	if !exits { // else ProcessGone follows by itself
		c.disconnected()
	}
}

// detach closes the socket, and settles the tickets that came over it. It forgets and returns the
// tasks that wait for a device, because their process cannot be answered. A client that decides by itself has no such tasks.
func (c *client) detach() (withdrawn []schedulers.TaskID, charged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		delete(c.server.clients, int32(c.fd))
		_ = unix.Close(c.fd) // which takes it out of the epoll set
	}
	c.fd, c.ended, c.swapAsked, c.roomAsked, c.recalled = -1, true, false, false, false
	for _, t := range c.tasks {
		t.ticket = 0
		if t.standing == waiting && !c.job.decides {
			withdrawn = append(withdrawn, t.id)
			t.set(0)
		}
	}
	slices.Sort(withdrawn)
	return withdrawn, c.charged
}

// close reports that the client is gone, with all that it had.
func (c *client) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.detach()
	c.mu.Lock()
	for _, t := range c.tasks { // set also takes them out of the job's counts
		t.set(0)
	}
	c.mu.Unlock()
	c.process.leave(c)
	if c.job != nil {
		c.job.clients--
		c.gone()
	}
	c.show(nil)
}

// greet takes the first frame, which must be HELLO with a token of this run.
func (c *client) greet(b []byte) error {
	k, err := wire.Check(b)
	if err != nil {
		return err
	}
	if k != wire.KindHello {
		return fmt.Errorf("%v before HELLO", k)
	}
	var f wire.Hello // not a frame of the server's, because hearing out an older client reads frames too
	if err := c.server.reader.Decode(&f, b); err != nil {
		return err
	}
	job, rank, ranked := c.server.jobOf(f.Token)
	if job == nil {
		return errors.New("HELLO with a token of no job of this run")
	}
	_, c.image = look(c.process.pid)
	if old := c.process.before(c, job, f.Instance); old != nil {
		return old.resume(c, f.Can)
	}
	if job.clients == jobClients {
		return fmt.Errorf("HELLO: job %d has %d processes connected already", job.index, jobClients)
	}
	job.clients++
	c.job, c.rank, c.ranked, c.instance = job, rank, ranked, f.Instance
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.welcome(f.Can)
}

// before is the client of the same copy of the library on an earlier connection, or nil. It
// closes clients of programs that the process ran before exec.
func (p *process) before(c *client, job *job, instance uint32) (old *client) {
	for _, o := range slices.Clone(p.clients) {
		same := o.job == job && o.instance == instance && instance != 0
		switch {
		case o == c || o.job == nil:
		case c.image.differs(o.image):
			o.close()
		case same:
			o.hearOut() // another process may still have the descriptor
			if !o.closed {
				old = o
			}
		}
	}
	return old
}

// resume has c take over the connection of as, which is the same copy of the library.
func (c *client) resume(as *client, can uint32) error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("HELLO again of a process that broke the protocol: %w", err)
	}
	c.show(as.page)
	as.page = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fd, c.ended = as.fd, false
	c.server.clients[int32(c.fd)] = c
	as.fd = -1
	c.process.leave(as)
	return c.welcome(can)
}

// take handles any frame after HELLO. An error costs the client its connection.
func (c *client) take(b []byte) error {
	k, err := wire.Check(b)
	if err != nil {
		return err
	}
	if c.SaidBye() {
		return fmt.Errorf("%v after BYE", k)
	}
	take := c.server.takes[k]
	if take == nil {
		return fmt.Errorf("%v: %w", k, errNotForClients)
	}
	err = take(c, b)
	if err != nil && err != errGone {
		return fmt.Errorf("%v: %w", k, err)
	}
	return nil
}

// limited refuses a request of a job that has too much open already. For a job that decides for
// itself the request is a breach of the protocol, because the server does not answer it.
func (c *client) limited(t *task) (bool, error) {
	why := ""
	switch {
	case c.job.open.Load() > jobRequests:
		why = fmt.Sprintf("its job has %d requests open already", jobRequests)
	case c.job.live.Load() > jobTasks:
		why = fmt.Sprintf("its job has %d tasks already", jobTasks)
	default:
		return false, nil
	}
	if c.job.decides {
		return true, errors.New(why)
	}
	if !c.job.limited {
		c.job.limited = true
		_ = c.post(runner.Limited{Job: c.job.index, Why: why})
	}
	_ = c.server.Refuse(t.id, schedulers.Refusal{Cause: wire.TooMany, Why: why}) // its error ends the connection
	return true, nil
}
