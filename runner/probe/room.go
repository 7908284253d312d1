package probe

import (
	"errors"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

var errNoRoom = errors.New("it has not asked for the room on a device")

func (c *client) room(f *wire.Room) error {
	if c.job.decides {
		return errWhoDecides
	}
	if err := c.askRoom(); err != nil {
		return err
	}
	return c.post(runner.RoomAsked{Process: c.who(), Device: int(f.Device)})
}

func (c *client) managed(f *wire.Managed) error {
	if c.job.decides {
		return errWhoDecides
	}
	if err := c.askRoom(); err != nil {
		return err
	}
	return c.post(runner.ManagedAsked{Process: c.who(), Device: int(f.Device), Bytes: f.Bytes, Beside: f.Beside, Free: f.Free})
}

func (c *client) askRoom() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return errGone
	case c.roomAsked:
		return errNoAnswerYet
	}
	c.roomAsked = true
	return nil
}

// TellRoom answers runner.RoomAsked: so many bytes more the process could have; or runner.ManagedAsked: so many it may have.
func (s *Server) TellRoom(p schedulers.Process, bytes int64) error {
	return s.telling("tell the room to", p, func(c *client) error {
		switch {
		case c.ended:
			return errGone
		case !c.roomAsked:
			return errNoRoom
		}
		c.roomAsked = false
		return c.send(&wire.RoomIs{Bytes: bytes})
	})
}
