package probe

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Revoker is the Handler of a run that takes device memory back from processes that can give it
// (ListenRevoking). Every ticket of Server.Revoke ends once: with Revoked, or without an answer
// with Free of its task, or with Silent or Closed of its client.
type Revoker interface {
	Handler
	// Revoked is what became of a revocation.
	Revoked(c *Client, task uint64, r Revoked)
	// Resume asks that a task may submit work again. The handler answers as it answers Begin. The
	// server grants it only while the task has no ticket unanswered. A refused task keeps what
	// it has.
	Resume(c *Client, task uint64, r Resume)
	// Moved says that memory of a task has moved, other than for a revocation.
	Moved(c *Client, task uint64, m Moved)
	// SwapMore asks for bytes more of host memory. The handler answers with Client.GiveSwap, during
	// the call or later. Silent and Closed withdraw the request.
	SwapMore(c *Client, bytes uint64)
	// SwapReturned answers Client.RecallSwap: the last `bytes` of all that the process was offered, and has not
	// given back before, are not its any more. Silent and Closed withdraw the request.
	SwapReturned(c *Client, bytes uint64)
}

// Welcome is what processes that can give memory back are told when they connect.
type Welcome struct {
	Chunk  uint64        // bytes, the unit in which memory moves; not 0
	Window time.Duration // at most so much work is to be submitted at a time; whole microseconds
	// Swap is the descriptors of the swap area, which each process gets, if all share one area:
	// at most 64. The caller keeps them open until Close.
	Swap []int
}

func (w Welcome) validate() error {
	switch {
	case w.Chunk == 0 || w.Chunk > math.MaxInt64:
		return fmt.Errorf("chunks of %d bytes", w.Chunk)
	case w.Window < 0 || w.Window.Microseconds() > math.MaxUint32:
		return fmt.Errorf("a window of %v", w.Window)
	case len(w.Swap) > maxFiles:
		return fmt.Errorf("%d descriptors of the swap area; a frame holds %d", len(w.Swap), maxFiles)
	}
	return nil
}

// Action is what Revoke asks of a task (enum case_wire_action).
type Action uint32

const (
	Yield Action = 1 // move memory to the host, and submit no more work
	Evict Action = 2 // move memory to the host
)

// Revocation takes device memory and, with Yield, a task's permission to submit work: the task
// asks with Resume before it submits work again.
type Revocation struct {
	Ticket   uint64 // not 0; Revoked has it
	Action   Action
	Bytes    uint64        // at least so many leave the device; below 2^63
	Deadline time.Duration // how long work that is running may take to end; whole milliseconds
}

func (r Revocation) validate() error {
	switch {
	case r.Ticket == 0:
		return errors.New("ticket 0")
	case r.Action != Evict && r.Action != Yield:
		return fmt.Errorf("action %d", r.Action)
	case r.Bytes > math.MaxInt64:
		return fmt.Errorf("%d bytes", r.Bytes)
	case r.Deadline < 0 || r.Deadline.Milliseconds() > math.MaxUint32:
		return fmt.Errorf("a deadline of %v", r.Deadline)
	}
	return nil
}

// Ended is how a revocation ended (enum case_wire_outcome).
type Ended uint32

const (
	Done   Ended = 1
	Busy   Ended = 2 // work did not end by the deadline; nothing has changed
	Unable Ended = 3 // Revoked.Why says why; nothing has changed
)

func (e Ended) String() string {
	switch e {
	case Done:
		return "done"
	case Busy:
		return "busy"
	case Unable:
		return "unable"
	}
	return "outcome " + strconv.Itoa(int(e))
}

// Revoked is a process's answer to a Revocation. Bytes are what the process says.
type Revoked struct {
	Ticket                   uint64
	Ended                    Ended
	Freed                    uint64 // of the device's bytes; 0 unless Done
	Resident, Fixed          uint64 // bytes of the task on the device; those of them that cannot be moved
	Drain, Copy, Bookkeeping time.Duration
	Why                      string // printable; of Unable
}

// Resume is what a task needs to submit work again.
type Resume struct {
	Bytes      uint64 // of the task that must be on the device; below 2^63
	Referenced uint64 // that the work which waits is known to touch; below 2^63
}

// Way is a direction in which memory moves.
type Way uint32

// Values of enum case_wire_direction.
const (
	In  Way = 1 // onto the device
	Out Way = 2
)

// Moved is memory of a task that came back onto its device after a Resume that was granted, or that changed
// places for a launch. Bytes and times are what the process says.
type Moved struct {
	Way               Way
	Bytes             uint64
	Copy, Bookkeeping time.Duration
}

// Revoke sends a revocation to a task that has a device. An error says that nothing was sent, and
// that the ticket does not count.
func (s *Server) Revoke(task uint64, r Revocation) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("revoke task %d: %w", task, err)
	}
	o, ok := s.owner(task)
	if !ok {
		return fmt.Errorf("revoke task %d: %w", task, errNoTask)
	}
	return o.client.revoke(task, o.wire, r)
}

var (
	errNoTask   = errors.New("no such task")
	errNoDevice = errors.New("it has no device")
	errUnable   = errors.New("its process cannot give memory back")
	errRevoking = errors.New("a revocation of it is not answered yet")
	errNoSwap   = errors.New("its process did not ask")
	errNoOffer  = errors.New("its process takes nothing unasked")
	errUnread   = errors.New("it has not read yet what was sent before")
	errRecalled = errors.New("it has not given back yet what it was offered")
)

func (c *Client) revoke(id, wire uint64, r Revocation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[wire]
	var err error
	switch {
	case c.ended || c.bye:
		err = errGone
	case t.id != id:
		err = errNoTask
	case c.can&canEvict == 0:
		err = errUnable
	case t.standing == waiting:
		err = errNoDevice
	case t.ticket != 0:
		err = errRevoking
	default:
		err = c.send(&revokeFrame{task: wire, ticket: r.Ticket, bytes: r.Bytes, action: r.Action, deadlineMS: uint32(r.Deadline.Milliseconds())})
	}
	if err != nil {
		return c.failed("revoke", wire, err)
	}
	t.ticket = r.Ticket
	c.tasks[wire] = t
	return nil
}

// CanEvict reports whether the process can be told to give memory back.
func (c *Client) CanEvict() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.can&canEvict != 0
}

// revoked takes the answer to the task's ticket.
func (c *Client) revoked(wire, ticket uint64) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[wire]
	switch {
	case c.ended:
		return 0, errGone
	case t.standing == 0:
		return 0, fmt.Errorf("task %d is not live", wire)
	case t.ticket == 0 || t.ticket != ticket:
		return 0, fmt.Errorf("ticket %d of task %d is not outstanding", ticket, wire)
	}
	t.ticket = 0
	c.tasks[wire] = t
	return t.id, nil
}

var errTakesNothing = errors.New("the process cannot evict, or the run takes nothing back")

func (c *Client) askSwap() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return errGone
	case c.can&canEvict == 0:
		return errTakesNothing
	case c.swapAsked:
		return errors.New("the one before has no answer yet")
	}
	c.swapAsked = true
	return nil
}

// GiveSwap answers the client's SwapMore with host memory: bytes of it at offset of the area of
// Welcome.Swap or, with files, in equal parts of these descriptors, at most 64. 0 bytes: there is no
// more. An error says that the process does not have the memory, and may be answered otherwise while
// it lives. The caller keeps its descriptors.
func (c *Client) GiveSwap(bytes, offset uint64, files ...int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	switch {
	case bytes > math.MaxInt64 || offset > math.MaxInt64-bytes || len(files) > maxFiles || len(files) > 0 && offset != 0:
		err = fmt.Errorf("%d bytes at %d in %d files", bytes, offset, len(files))
	case c.ended:
		err = errGone
	case !c.swapAsked:
		err = errNoSwap
	default:
		err = c.send(&spaceFrame{bytes: bytes, offset: offset, files: uint32(len(files))}, files...)
	}
	c.swapAsked = c.swapAsked && err != nil
	if err != nil {
		return fmt.Errorf("give swap space to job %d (pid %d): %w", c.Job(), c.PID(), err)
	}
	return nil
}

// OfferSwap gives the process host memory, a chunk (Welcome.Chunk) in each of 1 to 64 descriptors, for which it has not asked,
// so that it is ready for a revocation. An error says that the process does not have the memory. It has it to its end, as that
// of GiveSwap, or until it is recalled. The caller keeps its descriptors.
func (c *Client) OfferSwap(files ...int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.canTake()
	if len(files) == 0 || len(files) > maxFiles {
		err = fmt.Errorf("%d files", len(files))
	}
	bytes := uint64(len(files)) * c.server.welcome.Chunk
	if err == nil {
		err = c.send(&spaceFrame{bytes: bytes, offset: c.offered, files: uint32(len(files)), offered: 1}, files...)
	}
	if err != nil {
		return fmt.Errorf("offer swap space to job %d (pid %d): %w", c.Job(), c.PID(), err)
	}
	c.offered += bytes
	return nil
}

// RecallSwap asks the process to give back what it was offered and has not used. Its answer is SwapReturned. Nothing is offered
// until then. An error says that nothing was sent.
func (c *Client) RecallSwap() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.canTake()
	if err == nil || err == errUnread { // the frame is small, and there is one at most
		err = c.send(&recallFrame{})
	}
	if err != nil {
		return fmt.Errorf("recall swap space of job %d (pid %d): %w", c.Job(), c.PID(), err)
	}
	c.recalled = true
	return nil
}

// kept takes how much the process keeps of what it was offered, and returns what it gives back.
func (c *Client) kept(bytes uint64) (back uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return 0, errGone
	case !c.recalled:
		return 0, errors.New("nothing was recalled")
	case bytes > c.offered || bytes%c.server.welcome.Chunk != 0:
		return 0, fmt.Errorf("it keeps %d of %d bytes that it was offered", bytes, c.offered)
	}
	back, c.offered, c.recalled = c.offered-bytes, bytes, false
	return back, nil
}

// canTake, with mu held, is why the process can be sent nothing about offers. One that has not read all that was sent may not
// read what comes next either, and a send that would block ends its connection.
func (c *Client) canTake() error {
	switch {
	case c.ended || c.bye:
		return errGone
	case c.can&canPrepare == 0:
		return errNoOffer
	case c.recalled:
		return errRecalled
	}
	if unread, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ); err != nil || unread > 0 {
		return errUnread
	}
	return nil
}

// welcome, with mu held, answers a HELLO with capabilities. In a run that takes nothing back, and
// for a job that decides for itself, the capabilities count for nothing.
func (c *Client) welcome(can uint32) error {
	if can == 0 {
		c.can = 0
		return nil
	}
	var f welcomeFrame
	var files []int
	if w := c.server.welcome; c.server.revoker != nil && !c.job.decides {
		f = welcomeFrame{chunk: w.Chunk, windowUS: uint32(w.Window.Microseconds()), files: uint32(len(w.Swap))}
		files = w.Swap
	} else {
		can = 0
	}
	c.can = can
	if err := c.send(&f, files...); err != errGone { // else the loop sees the end
		return err
	}
	return nil
}
