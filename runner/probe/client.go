package probe

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// errGone means that the client's connection has ended. Handler.Closed has been called or will
// be called soon.
var errGone = errors.New("client is gone")

// errSlow means that the client's receive queue is full: the client does not read hundreds of
// replies.
var errSlow = errors.New("does not read its replies")

// task is what the connection knows of a live task.
type task struct {
	id       uint64 // the server's, which no other task has
	standing standing
	ticket   uint64 // of a revocation without an answer; 0: none
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

// Client is a copy of the library in a process of a job; a process usually has one. Its methods
// may be called from any goroutine and never block on the process.
type Client struct {
	server  *Server
	process *process

	// The loop's own.
	job      *job // nil before HELLO
	instance uint32
	image    image
	closed   bool

	mu        sync.Mutex
	fd        int   // -1 once the connection has ended
	err       error // why the server ended the connection
	ended     bool  // the server takes no more frames from the client
	bye       bool
	charged   bool            // it has had a device, or may have
	page      []byte          // the process's activity; nil: it shows none
	can       uint32          // its capabilities
	swapAsked bool            // SwapMore without an answer
	offered   uint64          // bytes of host memory that it was offered, less what it gave back
	recalled  bool            // what was offered, without an answer
	tasks     map[uint64]task // by the number that the process gave it
	out       [maxFrame]byte  // the frame being sent
	writer    cursor          // of out
}

// Job returns the job whose token the process showed.
func (c *Client) Job() int { return c.job.index }

// PID returns the process ID that the kernel recorded at connect (SO_PEERCRED).
func (c *Client) PID() int { return c.process.pid }

// Err returns why the server hung up on the client: a protocol error, or replies that the
// client did not read. It is nil if the client closed its connection. After an error the
// process may live on and is not served, so the run should end the job.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// SaidBye reports whether the process ended through exit rather than by a
// signal or _exit.
func (c *Client) SaidBye() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye
}

// grant answers the outstanding request of a task with yes. The process calls the task
// wire.
func (c *Client) grant(id, wire uint64, ordinal int, uuid [16]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.answerable(id, wire); err != nil {
		return c.failed("grant", wire, err)
	}
	if t := c.tasks[wire]; t.standing == resuming && t.ticket != 0 {
		return c.failed("grant", wire, errRevoking)
	}
	c.conclude(wire, true)
	if c.ended {
		return c.failed("grant", wire, errGone)
	}
	c.charged = true
	if err := c.send(&grantFrame{task: wire, uuid: uuid, ordinal: int32(ordinal)}); err != nil {
		return c.failed("grant", wire, err)
	}
	return nil
}

// refuse is grant with no.
func (c *Client) refuse(id, wire uint64, reason Reason, need, capacity uint64, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.answerable(id, wire); err != nil {
		return c.failed("refuse", wire, err)
	}
	c.conclude(wire, false)
	if c.ended {
		return c.failed("refuse", wire, errGone)
	}
	f := refuseFrame{task: wire, need: need, capacity: capacity, reason: reason}
	fill(f.text[:], text)
	if err := c.send(&f); err != nil {
		return c.failed("refuse", wire, err)
	}
	return nil
}

func (c *Client) answerable(id, wire uint64) error {
	switch t := c.tasks[wire]; {
	case t.id == id && t.standing.asks():
		return nil
	case c.ended:
		return errGone
	}
	return errNotAsked
}

var errNotAsked = errors.New("no request is outstanding")

func (c *Client) failed(what string, task uint64, err error) error {
	return fmt.Errorf("%s task %d of job %d (pid %d): %w", what, task, c.Job(), c.PID(), err)
}

// conclude, with mu held, ends the task's outstanding request.
func (c *Client) conclude(wire uint64, granted bool) {
	if granted || c.tasks[wire].standing != waiting {
		c.set(wire, held)
	} else {
		c.set(wire, 0)
	}
}

// set, with mu held, is the one place where a task's standing changes. It returns the task
// as it was or, if it is new, as it is.
func (c *Client) set(wire uint64, to standing) task {
	t := c.tasks[wire]
	from := t.standing
	if from == 0 && to != 0 {
		t.id = c.server.lastTask.Add(1)
		c.job.live.Add(1)
		c.charged = c.charged || c.job.decides // it may have its device before it says so
		c.server.noteTask(t.id, owner{c, wire})
	}
	if from.asks() {
		c.job.open.Add(-1)
	}
	if to.asks() {
		c.job.open.Add(1)
	}
	t.standing = to
	if to == 0 {
		c.job.live.Add(-1)
		c.server.noteEnd(t.id)
		delete(c.tasks, wire)
	} else {
		c.tasks[wire] = t
	}
	return t
}

// encode, with mu held, returns the frame's bytes, which are valid until the next call.
func (c *Client) encode(f wireFrame) []byte {
	clear(c.out[:])
	return c.writer.encode(f, c.out[:])
}

// send is called with mu held. A send that would block means errSlow. A task has at most one
// answer and one revocation on their way, so the queue of a client that reads is never full.
func (c *Client) send(f wireFrame, files ...int) error {
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
func (c *Client) hangUp(err error) {
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
func (c *Client) reject(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	f := refuseFrame{reason: reasonProtocol}
	fill(f.text[:], err.Error())
	_ = sendNow(c.fd, c.encode(&f)) // the connection ends even if this fails
	c.hangUp(err)
}

// stand moves a task to a new standing if it has the expected one, 0 being
// "not live" on both sides, and returns its id.
func (c *Client) stand(wire uint64, from, to standing) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, errGone
	}
	switch now := c.tasks[wire].standing; {
	case now == from:
	case from == 0:
		return 0, fmt.Errorf("begin of task %d, which is live", wire)
	case now == 0:
		return 0, fmt.Errorf("task %d is not live", wire)
	default:
		return 0, fmt.Errorf("task %d has a request outstanding", wire)
	}
	return c.set(wire, to).id, nil
}

// decide ends the task's outstanding request as the process itself has decided.
func (c *Client) decide(wire uint64, granted bool) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[wire]
	switch {
	case c.ended:
		return 0, errGone
	case !c.job.decides:
		return 0, errWhoDecides
	case !t.standing.asks():
		return 0, fmt.Errorf("task %d has no request outstanding", wire)
	}
	c.conclude(wire, granted)
	return t.id, nil
}

// step takes one frame from a client that is ready.
func (c *Client) step() {
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
func (c *Client) endOrEmpty() error {
	if !hungUp(c.fd) {
		return errors.New("empty frame")
	}
	return nil
}

// disconnect ends the connection. A process that has had a device and lives on keeps what it
// holds. Its client is silent until the process ends or connects again.
func (c *Client) disconnect() {
	withdrawn, charged := c.detach()
	if err := c.Err(); err != nil && c.job == nil {
		c.server.turnAway(fmt.Errorf("pid %d: %w", c.PID(), err))
	} else if err != nil {
		c.server.logf("probe: dropped job %d (pid %d): %v", c.Job(), c.PID(), err)
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
		c.server.handler.Free(c, task)
	}
	if !exits { // else Closed follows by itself
		c.server.handler.Silent(c)
	}
}

// detach closes the socket, and settles the tickets that came over it. It forgets and returns the
// tasks that wait for a device, because their process cannot be answered. A client that decides by itself has no such tasks.
func (c *Client) detach() (withdrawn []uint64, charged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		delete(c.server.clients, int32(c.fd))
		_ = unix.Close(c.fd) // which takes it out of the epoll set
	}
	c.fd, c.ended, c.swapAsked, c.recalled = -1, true, false, false
	for wire, t := range c.tasks {
		t.ticket = 0
		c.tasks[wire] = t
		if t.standing == waiting && !c.job.decides {
			withdrawn = append(withdrawn, t.id)
			c.set(wire, 0)
		}
	}
	slices.Sort(withdrawn)
	return withdrawn, c.charged
}

// close reports that the client is gone, with all that it had.
func (c *Client) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.detach()
	c.mu.Lock()
	for wire := range c.tasks { // set also takes them out of the job's counts
		c.set(wire, 0)
	}
	c.mu.Unlock()
	c.process.leave(c)
	if c.job != nil {
		c.job.clients--
		c.server.handler.Closed(c)
	}
	c.show(nil)
}

// greet takes the first frame, which must be HELLO with a token of this run.
func (c *Client) greet(b []byte) error {
	k, err := check(b)
	if err != nil {
		return err
	}
	if k != kindHello {
		return fmt.Errorf("%v before HELLO", k)
	}
	var f helloFrame // not a frame of the server's, because hearing out an older client reads frames too
	if err := c.server.reader.decode(&f, b); err != nil {
		return err
	}
	job := c.server.jobOf(f.token)
	if job == nil {
		return errors.New("HELLO with a token of no job of this run")
	}
	_, c.image = look(c.process.pid)
	if old := c.process.before(c, job, f.instance); old != nil {
		return old.resume(c, f.can)
	}
	if job.clients == jobClients {
		return fmt.Errorf("HELLO: job %d has %d processes connected already", job.index, jobClients)
	}
	job.clients++
	c.job, c.instance = job, f.instance
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.welcome(f.can)
}

// before is the client of the same copy of the library on an earlier connection, or nil. It
// closes clients of programs that the process ran before exec.
func (p *process) before(c *Client, job *job, instance uint32) (old *Client) {
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

// resume has c go on with the connection of as, which is the same copy of the library.
func (c *Client) resume(as *Client, can uint32) error {
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
func (c *Client) take(b []byte) error {
	k, err := check(b)
	if err != nil {
		return err
	}
	if c.SaidBye() {
		return fmt.Errorf("%v after BYE", k)
	}
	f := c.server.frames[k]
	if f == nil {
		return fmt.Errorf("%v: %w", k, errNotForClients)
	}
	if err = c.server.reader.decode(f, b); err == nil {
		err = c.dispatch(f)
	}
	if err != nil && err != errGone {
		return fmt.Errorf("%v: %w", k, err)
	}
	return nil
}

// dispatch hands a frame to the Handler. The frame is reused for the next packet.
func (c *Client) dispatch(frame wireFrame) error {
	h := c.server.handler
	switch f := frame.(type) {
	case *beginFrame:
		if decided := f.Flags&FlagDecided != 0; decided != c.job.decides {
			return errWhoDecides
		}
		if f.HostBytes > 0 && !c.CanEvict() {
			return errTakesNothing
		}
		id, err := c.stand(f.task, 0, waiting)
		if err != nil {
			return err
		}
		if refused, err := c.limited(id, f.task); refused {
			return err
		}
		h.Begin(c, id, f.Request)
	case *growFrame:
		id, err := c.stand(f.task, held, growing)
		if err != nil {
			return err
		}
		if refused, err := c.limited(id, f.task); refused {
			return err
		}
		h.Grow(c, id, f.bytes, f.wait)
	case *shrinkFrame:
		id, err := c.stand(f.task, held, held)
		if err != nil {
			return err
		}
		return h.Shrink(c, id, f.bytes)
	case *decidedFrame:
		id, err := c.decide(f.task, f.Reason == Granted)
		if err != nil {
			return err
		}
		return h.Decided(c, id, f.Outcome)
	case *shapeFrame:
		id, err := c.stand(f.task, held, held)
		if err != nil {
			return err
		}
		h.Shape(c, id, f.Shape)
	case *freeFrame:
		id, err := c.stand(f.task, held, 0)
		if err != nil {
			return err
		}
		h.Free(c, id)
	case *revokedFrame:
		id, err := c.revoked(f.task, f.Ticket)
		if err != nil {
			return err
		}
		f.Why = text(f.why[:])
		c.server.revoker.Revoked(c, id, f.Revoked)
	case *resumeFrame:
		if !c.CanEvict() {
			return errTakesNothing
		}
		id, err := c.stand(f.task, held, resuming)
		if err != nil {
			return err
		}
		if refused, err := c.limited(id, f.task); refused {
			return err
		}
		c.server.revoker.Resume(c, id, f.Resume)
	case *movedFrame:
		if !c.CanEvict() {
			return errTakesNothing
		}
		id, err := c.stand(f.task, held, held)
		if err != nil {
			return err
		}
		c.server.revoker.Moved(c, id, f.Moved)
	case *moreFrame:
		if err := c.askSwap(); err != nil {
			return err
		}
		c.server.revoker.SwapMore(c, f.bytes)
	case *keptFrame:
		back, err := c.kept(f.bytes)
		if err != nil {
			return err
		}
		c.server.revoker.SwapReturned(c, back)
	case *oomFrame:
		h.OOM(c, f.bytes, text(f.where[:]))
	case *faultFrame:
		at := c.server.At(int64(f.monotonicNS))
		h.Fault(c, f.code, at, text(f.where[:]))
	case *byeFrame:
		c.mu.Lock()
		c.bye = true
		c.mu.Unlock()
	default:
		return errNotForClients // a second HELLO
	}
	return nil
}

var errNotForClients = errors.New("not for a client to send, or not now")

var errWhoDecides = errors.New("the run and the process do not agree about who decides")

// limited refuses a request of a job that has too much open already. For a job that decides for
// itself the request is a breach of the protocol, because the server does not answer it.
func (c *Client) limited(id, wire uint64) (bool, error) {
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
		c.server.handler.Limited(c, why)
	}
	_ = c.refuse(id, wire, ReasonTooMany, 0, 0, why) // its error ends the connection
	return true, nil
}
