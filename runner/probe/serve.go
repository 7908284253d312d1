package probe

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// step takes one frame from a client that is ready.
func (c *Client) step() {
	in := c.server.in[:]
	var n int
	var err error
	if c.job != nil {
		n, err = receive(c.fd, in)
	} else {
		n, c.page, err = receiveFirst(c.fd, in)
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

// endOrEmpty tells the end of the connection (nil) from a packet of no bytes,
// which reads the same.
func (c *Client) endOrEmpty() error {
	if !hungUp(c.fd) {
		return errors.New("empty frame")
	}
	return nil
}

// disconnect ends the connection. A process that has had a device and lives on keeps what
// it holds: it is silent until it is gone or connects again.
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

// detach closes the socket and returns the tasks that wait for a device, which nobody can
// be told of any more, and which it forgets. Of a client that decides by itself there are none.
func (c *Client) detach() (withdrawn []uint64, charged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		delete(c.server.clients, int32(c.fd))
		_ = unix.Close(c.fd) // which takes it out of the epoll set
	}
	c.fd, c.ended = -1, true
	for task, s := range c.tasks {
		if s == waiting && !c.job.decides {
			withdrawn = append(withdrawn, task)
			c.set(task, 0)
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
	for task := range c.tasks { // which the job's counts are rid of
		c.set(task, 0)
	}
	c.mu.Unlock()
	c.process.leave(c)
	if c.job != nil {
		c.job.clients--
		c.server.handler.Closed(c)
	}
	c.forget()
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
	var f helloFrame
	f.decode(b)
	job := c.server.jobOf(f.token)
	if job == nil {
		return errors.New("HELLO with a token of no job of this run")
	}
	_, c.image = look(c.process.pid)
	if old := c.process.before(c, job, f.instance); old != nil {
		return old.resume(c)
	}
	if job.clients == jobClients {
		return fmt.Errorf("HELLO: job %d has %d processes connected already", job.index, jobClients)
	}
	job.clients++
	c.job, c.instance = job, f.instance
	return nil
}

// before is the client that the same copy of the library was until it lost its descriptor,
// or nil. Whatever else the process was before it ran another program is closed.
func (p *process) before(c *Client, job *job, instance uint32) (old *Client) {
	for _, o := range slices.Clone(p.clients) {
		same := o.job == job && o.instance == instance && instance != 0
		switch {
		case o == c || o.job == nil:
		case c.image.differs(o.image):
			o.close()
		case same:
			o.hearOut() // somebody else may have the descriptor yet
			if !o.closed {
				old = o
			}
		}
	}
	return old
}

// resume goes on with the connection of the new client, who is the same one.
func (c *Client) resume(as *Client) error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("HELLO again of a process that broke the protocol: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fd, c.ended = as.fd, false
	c.server.clients[int32(c.fd)] = c
	as.fd = -1
	c.forget()
	c.page, as.page = as.page, nil
	c.process.leave(as)
	return nil
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
	if err := c.dispatch(k, b); err != nil && err != ErrGone {
		return fmt.Errorf("%v: %w", k, err)
	}
	return nil
}

func (c *Client) dispatch(k kind, b []byte) error {
	h := c.server.handler
	switch k {
	case kindBegin:
		var f beginFrame
		if err := f.decode(b); err != nil {
			return err
		}
		if decided := f.Flags&FlagDecided != 0; decided != c.job.decides {
			return errWhoDecides
		}
		if err := c.stand(f.task, 0, waiting); err != nil {
			return err
		}
		if refused, err := c.limited(f.task); refused {
			return err
		}
		h.Begin(c, f.task, f.Request)
	case kindGrow:
		var f growFrame
		if err := f.decode(b); err != nil {
			return err
		}
		if err := c.stand(f.task, held, growing); err != nil {
			return err
		}
		if refused, err := c.limited(f.task); refused {
			return err
		}
		h.Grow(c, f.task, f.bytes, f.wait)
	case kindShrink:
		var f shrinkFrame
		if err := f.decode(b); err != nil {
			return err
		}
		if err := c.stand(f.task, held, held); err != nil {
			return err
		}
		return h.Shrink(c, f.task, f.bytes)
	case kindDecided:
		var f decidedFrame
		if err := f.decode(b); err != nil {
			return err
		}
		if err := c.decide(f.task, f.Reason == Granted); err != nil {
			return err
		}
		return h.Decided(c, f.task, f.Outcome)
	case kindShape:
		var f shapeFrame
		if err := f.decode(b); err != nil {
			return err
		}
		if err := c.stand(f.task, held, held); err != nil {
			return err
		}
		h.Shape(c, f.task, f.Shape)
	case kindFree:
		var f freeFrame
		f.decode(b)
		if err := c.stand(f.task, held, 0); err != nil {
			return err
		}
		h.Free(c, f.task)
	case kindOOM:
		var f oomFrame
		if err := f.decode(b); err != nil {
			return err
		}
		h.OOM(c, f.bytes, text(f.where[:]))
	case kindFault:
		var f faultFrame
		if err := f.decode(b); err != nil {
			return err
		}
		at := c.server.At(int64(f.monotonicNS))
		h.Fault(c, f.code, at, text(f.where[:]))
	case kindBye:
		c.mu.Lock()
		c.bye = true
		c.mu.Unlock()
	default:
		return errors.New("not for a client to send, or not now")
	}
	return nil
}

var errWhoDecides = errors.New("the run and the process do not agree about who decides")

// limited refuses the request of a job that has too much open already. One that decides for
// itself cannot be refused: it breaks the protocol.
func (c *Client) limited(task uint64) (bool, error) {
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
	_ = c.Refuse(task, ReasonTooMany, 0, 0, why) // its error ends the connection
	return true, nil
}
