package probe

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrGone is returned by Grant and Refuse when the client's connection has
// ended. Handler.Closed has been called or is about to be.
var ErrGone = errors.New("client is gone")

// errSlow: the client's receive queue is full. It has hundreds of replies to
// read and reads none.
var errSlow = errors.New("does not read its replies")

type standing uint8

const (
	held    standing = iota + 1
	waiting          // begin without an answer
	growing          // held, grow without an answer
)

// asks: an answer is due.
func (s standing) asks() bool { return s == waiting || s == growing }

// Client is one process of a job; several, where it has several copies of the library. Its
// methods may be called from any goroutine and never block on the process.
type Client struct {
	server  *Server
	process *process

	// The loop's own.
	job      *job // nil before HELLO
	instance uint32
	image    image
	page     []byte // the process's activity; nil: it shows none
	closed   bool

	mu      sync.Mutex
	fd      int   // -1 once the connection has ended
	err     error // why the server ended the connection
	ended   bool  // nothing more is taken from the client
	bye     bool
	charged bool // it has had a device, or may have
	tasks   map[uint64]standing
	out     [maxFrame]byte // the frame being sent
}

// Job returns the job whose token the process showed.
func (c *Client) Job() int { return c.job.index }

// PID returns the process ID that the kernel recorded at connect (SO_PEERCRED).
func (c *Client) PID() int { return c.process.pid }

// Err returns why the server hung up on the client: a protocol error, or that
// it did not read. It is nil when the client went by itself. After an error the
// process may be alive and is served no more, so the run should end the job.
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

// Grant answers the task's outstanding begin or grow with yes: it runs on the
// device with this ordinal (PCI bus order) and UUID.
func (c *Client) Grant(task uint64, ordinal int, uuid [16]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.answerable(task); err != nil {
		return c.failed("grant", task, err)
	}
	c.conclude(task, true)
	if c.ended {
		return c.failed("grant", task, ErrGone)
	}
	c.charged = true
	f := grantFrame{task: task, uuid: uuid, ordinal: int32(ordinal)}
	if err := c.send(f.encode(c.clearOut())); err != nil {
		return c.failed("grant", task, err)
	}
	return nil
}

// Refuse answers the task's outstanding begin or grow with no. A refused begin
// ends the task; a refused grow leaves it as it was. need and capacity, in
// bytes, and the first 119 bytes of text reach the user's stderr.
func (c *Client) Refuse(task uint64, reason Reason, need, capacity uint64, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.answerable(task); err != nil {
		return c.failed("refuse", task, err)
	}
	c.conclude(task, false)
	if c.ended {
		return c.failed("refuse", task, ErrGone)
	}
	f := refuseFrame{task: task, need: need, capacity: capacity, reason: reason}
	fill(f.text[:], text)
	if err := c.send(f.encode(c.clearOut())); err != nil {
		return c.failed("refuse", task, err)
	}
	return nil
}

func (c *Client) answerable(task uint64) error {
	switch {
	case c.tasks[task].asks():
		return nil
	case c.ended:
		return ErrGone
	}
	return errors.New("no request is outstanding")
}

func (c *Client) failed(what string, task uint64, err error) error {
	return fmt.Errorf("%s task %d of job %d (pid %d): %w", what, task, c.Job(), c.PID(), err)
}

// conclude, with mu held, ends the task's outstanding request.
func (c *Client) conclude(task uint64, granted bool) {
	if granted || c.tasks[task] == growing {
		c.set(task, held)
	} else {
		c.set(task, 0)
	}
}

// set, with mu held, is the one place where a task's standing changes.
func (c *Client) set(task uint64, to standing) {
	from := c.tasks[task]
	if from.asks() {
		c.job.open.Add(-1)
	}
	if to.asks() {
		c.job.open.Add(1)
	}
	if from == 0 && to != 0 {
		c.job.live.Add(1)
		c.charged = c.charged || c.job.decides // it may have its device before it says so
	}
	c.tasks[task] = to
	if to == 0 {
		c.job.live.Add(-1)
		delete(c.tasks, task)
	}
}

func (c *Client) clearOut() []byte {
	clear(c.out[:])
	return c.out[:]
}

// send is called with mu held. A send that would block means errSlow: replies
// are answers to requests, so a client that reads cannot have a full queue.
func (c *Client) send(frame []byte) error {
	switch err := sendNow(c.fd, frame); err {
	case nil:
		return nil
	case unix.EAGAIN, unix.ENOBUFS:
		c.hangUp(errSlow)
		return errSlow
	default: // EPIPE or ECONNRESET; the reader sees the end by itself
		return ErrGone
	}
}

// hangUp, with mu held, ends the connection; the reader then wakes, closes the
// descriptor and reports. The first error stays.
func (c *Client) hangUp(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	if c.fd >= 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // fails only when the peer is gone already
	}
}

// reject ends the connection of a client that broke the protocol, and tells it
// why where it still listens.
func (c *Client) reject(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	f := refuseFrame{reason: reasonProtocol}
	fill(f.text[:], err.Error())
	_ = sendNow(c.fd, f.encode(c.clearOut())) // a courtesy; it is dropped whatever comes of it
	c.hangUp(err)
}

// stand moves a task to a new standing if it has the expected one, 0 being
// "not live" on both sides.
func (c *Client) stand(task uint64, from, to standing) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return ErrGone
	}
	switch now := c.tasks[task]; {
	case now == from:
	case from == 0:
		return fmt.Errorf("begin of task %d, which is live", task)
	case now == 0:
		return fmt.Errorf("task %d is not live", task)
	default:
		return fmt.Errorf("task %d has a request outstanding", task)
	}
	c.set(task, to)
	return nil
}

// decide ends the task's outstanding request as the process itself has decided.
func (c *Client) decide(task uint64, granted bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return ErrGone
	case !c.job.decides:
		return errWhoDecides
	case !c.tasks[task].asks():
		return fmt.Errorf("task %d has no request outstanding", task)
	}
	c.conclude(task, granted)
	return nil
}
