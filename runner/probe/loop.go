package probe

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// One goroutine serves all connections from an epoll set of its own.
// BenchmarkRoundTrip led to that: with a goroutine for each connection, whether
// it blocks in recv or in the runtime's poller, a client that asks again at once
// keeps the processor that serves it, and the others wait for milliseconds
// (poller) or hundreds of them (recv), because the Go scheduler looks at the
// poller, or takes a processor back, only when it has nothing else to run. Here
// each round takes one frame from every client that is ready.

func (s *Server) openPoll() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	s.epoll = fd
	if err := s.watch(s.fd); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if err := s.openWake(); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if err := s.openReport(); err != nil {
		return errors.Join(err, unix.Close(s.wake), unix.Close(fd))
	}
	s.openNotice()
	return nil
}

func (s *Server) watch(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil && err != unix.EEXIST {
		return fmt.Errorf("add to epoll: %w", err)
	}
	return nil
}

// yieldEvery is how many turns of the loop pass between two calls of
// runtime.Gosched. Without them the runtime's monitor takes the goroutine's P
// away 20 us into every wait (as collectors/nvml's sampler has it too), and the
// next request has to get one back before it is read: p50 40 us and p99 99 us
// with requests 1 ms apart, against 18 and 54 (2 cores, 5 interleaved pairs).
const yieldEvery = 8

// serve runs until Close.
func (s *Server) serve() {
	timeout := forever
	for turn := 1; ; turn++ {
		if turn%yieldEvery == 0 {
			runtime.Gosched()
		}
		n, err := unix.EpollWait(s.epoll, s.events[:], timeout)
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("probe: epoll_wait: %v", err)) // a bug: EBADF, EFAULT or EINVAL
		}
		if timeout != forever {
			timeout = forever
			if err := s.watch(s.fd); err != nil {
				timeout = retryMS
			}
		}
		for _, event := range s.events[:max(n, 0)] {
			switch event.Fd {
			case int32(s.wake):
				s.settle()
			case int32(s.reports):
				s.hearReports()
			case int32(s.notice):
				s.hearNotices()
			case int32(s.fd):
				if s.isClosed() {
					s.hangUpAll()
					s.settle()
					return
				}
				if err := s.accept(); err != nil {
					// No descriptors or no memory. The connection stays in the
					// backlog; asking again at once would spin.
					s.config.Warn("probe: accept: %v", err)
					s.config.AcceptFailed(err)
					_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, s.fd, nil)
					timeout = retryMS
				}
			default:
				if c := s.clients[event.Fd]; c != nil {
					c.step()
				} else if p := s.handles[event.Fd]; p != nil && !p.lives() {
					s.processEnded(p)
				}
			}
		}
	}
}

const (
	forever = -1
	retryMS = 10 // until accept is tried again after it failed
)

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) hangUpAll() {
	for _, c := range s.clients {
		c.mu.Lock()
		c.hangUp(nil)
		c.mu.Unlock()
		c.close()
	}
	for _, p := range s.handles { // the disconnected ones
		for _, c := range slices.Clone(p.clients) {
			c.close()
		}
	}
}

// accept admits one connection if it comes from this user. An error is the
// listener's, not the connection's.
func (s *Server) accept() error {
	fd, _, err := unix.Accept4(s.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	switch err {
	case nil:
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED:
		return nil
	default:
		return err
	}
	if fd >= s.limit {
		s.config.AcceptFailed(unix.EMFILE) // before the peer hears of it
		_ = unix.Close(fd)
		return nil
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && peer.Uid != s.uid {
		err = fmt.Errorf("pid %d has uid %d, not %d", peer.Pid, peer.Uid, s.uid)
	}
	if err == nil {
		err = s.watch(fd)
	}
	if err != nil {
		s.turnAway(err)
		_ = unix.Close(fd)
		return nil
	}
	// As many unread replies as the system allows before a client is slow.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
	p := s.processOf(fd, int(peer.Pid))
	c := &client{server: s, process: p, fd: fd, tasks: map[uint64]*task{}}
	s.clients[int32(fd)] = c
	p.clients = append(p.clients, c)
	if len(p.clients) > processConnections {
		c.reject(fmt.Errorf("the process has %d connections already", processConnections))
		c.disconnect()
	}
	return nil
}

// turnAway logs why a connection that showed no token was ended. It logs only the first such
// connections, because a program may try again without end.
func (s *Server) turnAway(why error) {
	const heard = 20
	s.turned++
	switch {
	case s.turned < heard:
		s.config.Warn("probe: connection refused: %v", why)
	case s.turned == heard:
		s.config.Warn("probe: connection refused: %v; further ones are not reported", why)
	}
}

// receive and sendNow are called with descriptors and flags that never block,
// so they need not tell the Go scheduler that they might.

// receive returns the length of the next packet, which may be more than fits b
// (MSG_TRUNC). ECONNRESET comes once when a client dies with replies unread, in
// front of frames that it sent before, such as FREE or OOM (Linux
// net/unix/af_unix.c, unix_release_sock), so it is not the end.
func receive(fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_TRUNC|unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR, unix.ECONNRESET:
		default:
			return 0, errno
		}
	}
}

func sendNow(fd int, b []byte) error {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// sendFiles is sendNow with descriptors.
func sendFiles(fd int, b []byte, files []int) error {
	rights := unix.UnixRights(files...)
	for {
		_, err := unix.SendmsgN(fd, b, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}
