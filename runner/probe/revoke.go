package probe

import (
	"errors"
	"fmt"
	"maps"
	"math"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// Swap hands out host memory, to which device memory moves. Its methods are called as Config.Post is.
type Swap interface {
	// More asks for bytes more for a process. It is answered with Server.GiveSwap, during the call or later.
	More(p schedulers.Process, bytes int64)
	// Returned answers Server.RecallSwap: the last bytes of all that the process was offered, and has not
	// given back before, are not its any more.
	Returned(p schedulers.Process, bytes int64)
	// Active says how many bytes of the process on its devices can move. It comes before Ticks, from any goroutine.
	Active(p schedulers.Process, bytes int64)
	// Disconnected withdraws what the process asks for and was asked for, and Ended takes all that it has.
	Disconnected(p schedulers.Process)
	Ended(p schedulers.Process)
}

// Revoke sends a revocation to a task that has a device. uuid is that of r.Device, of a Move. An error says that
// nothing was sent, and that the ticket does not count.
func (s *Server) Revoke(id schedulers.TaskID, ticket schedulers.Ticket, r schedulers.Revocation, uuid [16]byte) error {
	return s.tell("revoke", id, func(t *task) error {
		c := t.client
		switch {
		case c.ended || c.bye:
			return errGone
		case r.Action > 0 && !wire.Actions(c.can).Has(r.Action):
			return errUnable
		case t.standing == waiting:
			return errNoDevice
		case t.ticket != 0:
			return errRevoking
		case ticket == 0 || r.Action == 0 || r.Bytes < 0 || r.Device < 0 || r.Deadline < 0 || r.Deadline.Milliseconds() > math.MaxUint32:
			return fmt.Errorf("ticket %d, %+v", ticket, r)
		}
		if err := c.send(&wire.Revoke{Number: t.number, Ticket: ticket, Revocation: r, UUID: uuid, Device: int32(r.Device)}); err != nil {
			return err
		}
		t.ticket = ticket
		return nil
	})
}

var (
	errNoDevice = errors.New("it has no device")
	errUnable   = errors.New("its process has not said that it can do that")
	errRevoking = errors.New("a revocation of it is not answered yet")
	errNoSwap   = errors.New("its process did not ask")
	errNoOffer  = errors.New("its process takes nothing unasked")
	errUnread   = errors.New("it has not read yet what was sent before")
	errRecalled = errors.New("it has not given back yet what it was offered")
)

// CanEvict reports whether the process can be told to give memory back.
func (c *client) CanEvict() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.can&wire.CanEvict != 0
}

// actions is what its process can be asked for.
func (c *client) actions() schedulers.Actions {
	c.mu.Lock()
	defer c.mu.Unlock()
	return wire.Actions(c.can)
}

func (c *client) revoked(f *wire.Revoked) error {
	t, err := c.answered(f.Number, f.Answer.Ticket)
	if err != nil {
		return err
	}
	f.Answer.Why = wire.Printable(f.Answer.Why)
	return c.post(runner.TaskRevoked{ID: t.id, Answer: f.Answer})
}

// answered takes the answer to the task's ticket.
func (c *client) answered(number uint64, ticket schedulers.Ticket) (*task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[number]
	switch {
	case c.ended:
		return nil, errGone
	case t == nil:
		return nil, fmt.Errorf("task %d is not live", number)
	case t.ticket == 0 || t.ticket != ticket:
		return nil, fmt.Errorf("ticket %d of task %d is not outstanding", ticket, number)
	}
	t.ticket = 0
	return t, nil
}

var errTakesNothing = errors.New("the process cannot evict, or the run takes nothing back")

var errNoAnswerYet = errors.New("the one before has no answer yet")

func (c *client) more(f *wire.More) error {
	if err := c.askSwap(); err != nil {
		return err
	}
	c.server.config.Swap.More(c.who(), f.Bytes)
	return nil
}

func (c *client) askSwap() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return errGone
	case c.can&wire.CanEvict == 0:
		return errTakesNothing
	case c.swapAsked:
		return errNoAnswerYet
	}
	c.swapAsked = true
	return nil
}

// telling tells a process something about its memory, with its client's mu held.
func (s *Server) telling(what string, p schedulers.Process, do func(*client) error) error {
	s.mu.Lock()
	c := s.known[p]
	s.mu.Unlock()
	if c == nil {
		return fmt.Errorf("%s process %v: %w", what, p, errGone)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := do(c); err != nil {
		return fmt.Errorf("%s job %d (pid %d): %w", what, p.Job, c.PID(), err)
	}
	return nil
}

// space is the frame of host memory: a chunk in each of the files.
func (s *Server) space(files []int) (*wire.Space, error) {
	if len(files) > wire.MaxFiles {
		return nil, fmt.Errorf("%d files", len(files))
	}
	return &wire.Space{Bytes: int64(len(files)) * s.config.Chunk, Files: uint32(len(files))}, nil
}

// GiveSwap answers Swap.More with host memory: a chunk in each of the descriptors, at most 64. Without descriptors it says that no memory is left. An
// error says that the process does not have the memory, and may be answered otherwise while it lives. The caller keeps its
// descriptors.
func (s *Server) GiveSwap(p schedulers.Process, files ...int) error {
	return s.telling("give swap space to", p, func(c *client) error {
		f, err := s.space(files)
		switch {
		case err != nil:
			return err
		case c.ended:
			return errGone
		case !c.swapAsked:
			return errNoSwap
		}
		err = c.send(f, files...)
		c.swapAsked = err != nil
		return err
	})
}

// OfferSwap gives the process host memory, as GiveSwap does, for which it has not asked, so that it is ready for a
// revocation. It has the memory to its end, or until it is recalled.
func (s *Server) OfferSwap(p schedulers.Process, files ...int) error {
	return s.telling("offer swap space to", p, func(c *client) error {
		f, err := s.space(files)
		switch {
		case err != nil:
			return err
		case len(files) == 0:
			return errors.New("no files")
		}
		if err := c.canTake(); err != nil {
			return err
		}
		f.Offset, f.Offered = c.offered, 1
		if err := c.send(f, files...); err != nil {
			return err
		}
		c.offered += f.Bytes
		return nil
	})
}

// RecallSwap asks the process to give back what it was offered and has not used. Its answer is Swap.Returned. Nothing is
// offered until then. An error says that nothing was sent.
func (s *Server) RecallSwap(p schedulers.Process) error {
	return s.telling("recall swap space of", p, func(c *client) error {
		if err := c.canTake(); err != nil && err != errUnread { // the frame is small, and there is one at most
			return err
		}
		if err := c.send(&wire.Recall{}); err != nil {
			return err
		}
		c.recalled = true
		return nil
	})
}

func (c *client) kept(f *wire.Kept) error {
	back, err := c.keeps(f.Bytes)
	if err != nil {
		return err
	}
	c.server.config.Swap.Returned(c.who(), back)
	return nil
}

// keeps takes how much the process keeps of what it was offered, and returns what it gives back.
func (c *client) keeps(bytes int64) (back int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return 0, errGone
	case !c.recalled:
		return 0, errors.New("nothing was recalled")
	case bytes > c.offered || bytes%c.server.config.Chunk != 0:
		return 0, fmt.Errorf("it keeps %d of %d bytes that it was offered", bytes, c.offered)
	}
	back, c.offered, c.recalled = c.offered-bytes, bytes, false
	return back, nil
}

// canTake, with mu held, is why the process can be sent nothing about offers. One that has not read all that was sent may not
// read what comes next either, and a send that would block ends its connection.
func (c *client) canTake() error {
	switch {
	case c.ended || c.bye:
		return errGone
	case c.can&wire.CanPrepare == 0:
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
func (c *client) welcome(can uint32) error {
	if can == 0 {
		c.can = 0
		return nil
	}
	var f wire.Welcome
	if s := c.server; s.config.Chunk > 0 && !c.job.decides {
		f = wire.Welcome{Chunk: s.config.Chunk, WindowUS: uint32(s.config.Window.Microseconds())}
		if s.config.Bursts {
			f.Bursts = 1
		}
	} else {
		can = 0
	}
	c.can = can
	if err := c.send(&f); err != errGone { // else the loop sees the end
		return err
	}
	return nil
}

// PostActivity posts what processes show of the tasks that memory can be taken from. A process is
// running while it is in a call that gives its device work or waits for it, and busy until what it has submitted is over.
func (s *Server) PostActivity() {
	if s.config.Chunk == 0 {
		return
	}
	s.mu.Lock()
	tasks := maps.Clone(s.tasks)
	s.mu.Unlock()
	for id, t := range tasks {
		if !t.client.CanEvict() {
			continue
		}
		a, known := t.client.Activity()
		now := schedulers.Activity{Running: !known || a.Calls > 0, Busy: a.Submissions > a.Ended, Ended: uint64(a.Ended), Referenced: a.Referenced, Fixed: a.Fixed}
		if !a.LastCall.IsZero() {
			now.Last = max(0, a.LastCall.Sub(s.config.Start))
		}
		_ = s.config.Post(s.now(), runner.TaskActive{ID: id, Activity: now})
		s.config.Swap.Active(t.client.who(), a.Resident-a.Fixed)
	}
}
