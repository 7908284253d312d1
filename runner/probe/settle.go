package probe

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Settle returns when every event, ProcessGone included, was posted of the processes that
// ended before the call. Without it a process that connects, reports an error and exits can be
// gone before its connection is accepted.
func (s *Server) Settle() {
	done := make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.settling = append(s.settling, done)
	s.wakeLoop() // with the lock held: Close has not begun, so the descriptor is ours
	s.mu.Unlock()
	<-done
}

func (s *Server) openWake() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if err := s.watch(fd); err != nil {
		_ = unix.Close(fd)
		return err
	}
	s.wake = fd
	return nil
}

func (s *Server) wakeLoop() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s.wake, one[:]) // fails only if the loop was woken 2^64-2 times and has not read the count
}

// settle runs on the loop. It accepts connections that wait, and then hears out clients that
// hung up and processes that ended.
func (s *Server) settle() {
	var count [8]byte
	_, _ = unix.Read(s.wake, count[:])
	s.mu.Lock()
	settling := s.settling
	s.settling = nil
	s.mu.Unlock()
	s.mend()
	s.acceptWaiting()
	s.hearReports()
	polls := make([]unix.PollFd, 0, len(s.clients)+len(s.handles))
	for fd := range s.clients {
		polls = append(polls, unix.PollFd{Fd: fd, Events: unix.POLLRDHUP})
	}
	for fd := range s.handles {
		polls = append(polls, unix.PollFd{Fd: fd, Events: unix.POLLIN})
	}
	poll(polls)
	for _, p := range polls {
		if p.Revents == 0 {
			continue
		}
		if gone := s.handles[p.Fd]; gone != nil {
			s.processEnded(gone)
		} else if c := s.clients[p.Fd]; c != nil {
			c.hearOut()
		}
	}
	for _, done := range settling {
		close(done)
	}
}

// acceptWaiting accepts the connections that wait, at most backlog of them.
func (s *Server) acceptWaiting() {
	for range backlog {
		if s.isClosed() || !ready(int32(s.fd)) {
			return
		}
		if err := s.accept(); err != nil {
			s.config.Warn("probe: accept: %v", err)
			s.config.AcceptFailed(err)
			return
		}
	}
}

// ready reports whether fd has something to take: a frame, an end, a connection.
func ready(fd int32) bool {
	return poll([]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}) > 0
}

// poll is poll(2) that does not wait. A signal, such as the Go runtime sends to its threads,
// interrupts even such a poll, which then shows nothing as ready.
func poll(fds []unix.PollFd) (ready int) {
	n, err := unix.Poll(fds, 0)
	for err == unix.EINTR {
		n, err = unix.Poll(fds, 0)
	}
	return max(n, 0)
}
