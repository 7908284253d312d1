package probe

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a process that has connections. Its end is the release on death. The end of a
// connection is not, because a process can close its socket, live on and use device memory.
type process struct {
	pid     int
	handle  int       // a pidfd; -1: the process cannot be seen from here, and the end of its socket counts as its end
	clients []*client // connected, or disconnected
	ending  bool      // it is being heard out
}

// processOf is the process at the other end of the connection.
func (s *Server) processOf(fd, pid int) *process {
	p := s.processes[pid]
	if p != nil && p.lives() {
		return p
	}
	next := &process{pid: pid, handle: s.open(fd, pid)}
	if p != nil && !next.lives() { // the last connection of the same process
		next.release()
		return p
	}
	if p != nil { // another process has the PID now, and may have connected meanwhile
		s.processEnded(p)
		if p = s.processes[pid]; p != nil {
			next.release()
			return p
		}
	}
	p = next
	if p.handle >= 0 {
		if err := s.watch(p.handle); err != nil {
			s.config.Warn("probe: watch process %d: %v; the end of its connection counts as its end", pid, err)
			p.release()
			return p
		}
		s.processes[pid], s.handles[int32(p.handle)] = p, p
	}
	return p
}

// openProcess returns a pidfd of the process that connected, which has the number pid here.
// -1: it is gone, or of a PID namespace that cannot be seen from here.
func openProcess(fd, pid int) int {
	if pid <= 0 {
		return -1
	}
	if handle, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil { // since Linux 6.5
		return handle
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	if hungUp(fd) { // the number may be another process's
		_ = unix.Close(handle)
		return -1
	}
	return handle
}

// hungUp reports whether the other end of the connection is closed.
func hungUp(fd int) bool {
	return poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}) > 0
}

// lives reports whether the process is known to live.
func (p *process) lives() bool { return p.handle >= 0 && !ready(int32(p.handle)) }

func (p *process) release() {
	if p.handle >= 0 {
		_ = unix.Close(p.handle) // which takes it out of the epoll set
		p.handle = -1
	}
}

// processEnded hears the process out, over connections too that it made last, and gives back
// what it had.
func (s *Server) processEnded(p *process) {
	if p.ending {
		return
	}
	p.ending = true
	s.acceptWaiting()
	for open := true; open; {
		open = false
		for _, c := range slices.Clone(p.clients) {
			open = open || c.fd >= 0
			c.hearOut()
		}
	}
	for _, c := range slices.Clone(p.clients) {
		c.close()
	}
}

// hearOut takes what the client has sent. A process that still has the other end can send
// nothing more.
func (c *client) hearOut() {
	if c.fd >= 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_RD)
	}
	for c.fd >= 0 && ready(int32(c.fd)) {
		c.step()
	}
}

// leave takes a closed client out of its process. After the last client the handle is closed.
func (p *process) leave(c *client) {
	p.clients = slices.DeleteFunc(p.clients, func(o *client) bool { return o == c })
	if s := c.server; len(p.clients) == 0 && p.handle >= 0 {
		if s.processes[p.pid] == p {
			delete(s.processes, p.pid)
		}
		delete(s.handles, int32(p.handle))
		p.release()
	}
}

// image distinguishes programs that a process ran one after another (exec). It is where the
// kernel placed the program's code and stack; stack is 0 while exec is under way.
type image struct{ code, stack uint64 }

// untold is the image of a process that other processes may not inspect.
var untold = image{code: 1}

func (i image) differs(from image) bool { return i != from && i != untold && from != untold }

// look says whether the process has begun to exit, and which program it runs.
func look(pid int) (exits bool, i image) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true, untold // collected already
	}
	// proc(5): pid (comm) state ... flags(9) ... startcode(26) endcode startstack(28); comm may hold anything
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 26 {
		return false, untold
	}
	number := func(field int) uint64 {
		n, _ := strconv.ParseUint(fields[field-3], 10, 64)
		return n
	}
	const exiting = 4 // PF_EXITING of linux/sched.h
	if number(9)&exiting != 0 {
		return true, untold
	}
	return false, image{number(26), number(28)}
}
