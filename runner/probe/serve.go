package probe

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// step takes one frame from a client that is ready.
func (c *Client) step(in []byte) {
	n, err := receive(c.fd, in)
	switch {
	case err == unix.EAGAIN:
		return
	case err != nil:
		err = fmt.Errorf("receive: %w", err)
	case n == 0:
		if err = c.endOrEmpty(); err == nil {
			c.close()
			return
		}
	case n > len(in):
		err = fmt.Errorf("oversized frame of %d bytes", n)
	case c.greeted:
		err = c.take(in[:n])
	default:
		err = c.greet(in[:n])
	}
	if err != nil {
		c.reject(err)
		c.close()
	}
}

// endOrEmpty tells the end of the connection (nil) from a packet of no bytes,
// which reads the same.
func (c *Client) endOrEmpty() error {
	poll := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLRDHUP}}
	if n, err := unix.Poll(poll, 0); n == 0 && err == nil {
		return errors.New("empty frame")
	}
	return nil
}

// close ends the connection for good and reports it.
func (c *Client) close() {
	c.mu.Lock()
	c.ended = true
	err := c.err
	delete(c.server.clients, int32(c.fd))
	_ = unix.Close(c.fd) // which takes it out of the epoll set
	c.fd = -1
	c.mu.Unlock()
	if err != nil {
		c.server.logf("probe: dropped job %d (pid %d): %v", c.job, c.pid, err)
	}
	if c.greeted {
		c.server.handler.Closed(c)
	}
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
	if err := f.decode(b); err != nil {
		return fmt.Errorf("%v: %w", k, err)
	}
	job, ok := c.server.jobOf(f.token)
	if !ok {
		return errors.New("HELLO with a token of no job of this run")
	}
	c.job, c.greeted = job, true
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
		if err := c.stand(f.task, 0, waiting); err != nil {
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
		h.Grow(c, f.task, f.bytes)
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
