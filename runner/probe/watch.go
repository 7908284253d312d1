package probe

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
)

// reportPrefix begins the name of the report socket.
const reportPrefix = "caserun-"

// mostReport is the longest report in bytes, and mostReports how many are read at a time.
const (
	mostReport  = 768
	mostReports = 64
)

// openReport opens the socket on which processes say that they cannot reach the server. It has an
// abstract name (unix(7)), which holds whatever a process can see of the file system.
func (s *Server) openReport() error {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	s.report = reportPrefix + hex.EncodeToString(name[:])
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("report socket: %w", err)
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + s.report})
	}
	if err == nil {
		err = s.watch(fd)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("report socket: %w", err), unix.Close(fd))
	}
	s.reports = fd
	return nil
}

// Report returns the name of the report socket, for CASE_REPORT.
func (s *Server) Report() string { return s.report }

// hearReports reads what the report socket has (link_report of native/probe/link.h). Each user of the machine can find the
// socket, so other users are heard only with a job's token.
func (s *Server) hearReports() {
	report, sender := make([]byte, mostReport), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for range mostReports {
		n, size, _, _, err := unix.Recvmsg(s.reports, report, sender, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		token, rest, _ := strings.Cut(string(report[:n]), " ")
		session, rest, _ := strings.Cut(rest, " ")
		kind, what, _ := strings.Cut(rest, " ")
		leader, _ := strconv.Atoi(session)
		index := -1
		var key [wire.TokenSize]byte
		if _, err := hex.Decode(key[:], []byte(token)); len(token) == hex.EncodedLen(wire.TokenSize) && err == nil {
			if j, _, _ := s.jobOf(key); j != nil {
				index = j.index
			}
		}
		what = wire.Printable(what)
		var event func(job int) runner.Event
		switch kind {
		case "unreached":
			event = func(job int) runner.Event { return runner.Unreached{Job: job, Why: what} }
		case "hint":
			event = func(job int) runner.Event { return runner.Hint{Job: job, What: what} }
		default:
			continue
		}
		if index >= 0 {
			_ = s.config.Post(s.now(), event(index))
		} else if isOf(s.uid, sender[:size]) {
			s.config.Stray(leader, event)
		}
	}
}

// isOf reports whether the credentials that came with a message are a user's.
func isOf(uid uint32, credentials []byte) bool {
	messages, err := unix.ParseSocketControlMessage(credentials)
	if err != nil || len(messages) == 0 {
		return false
	}
	sender, err := unix.ParseUnixCredentials(&messages[0])
	return err == nil && sender.Uid == uid
}

// openNotice has the loop hear of changes beside the socket. Where that is not possible, Mend finds them.
func (s *Server) openNotice() {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return
	}
	if s.watch(fd) != nil {
		_ = unix.Close(fd)
		return
	}
	s.notice = fd
	s.noticeAgain()
}

func (s *Server) noticeAgain() {
	if s.notice >= 0 {
		_, _ = unix.InotifyAddWatch(s.notice, s.config.Dir, unix.IN_DELETE|unix.IN_MOVE|unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	}
}

// hearNotices runs on the loop.
func (s *Server) hearNotices() {
	var events [4096]byte
	for {
		if n, err := unix.Read(s.notice, events[:]); n <= 0 && err != unix.EINTR {
			break
		}
	}
	s.mend()
}

// Mend puts the socket back in its place if it is not there. It returns when that is done, and Config.Mended has heard
// of what was done.
func (s *Server) Mend() { s.Settle() }

// intact reports whether clients find the socket.
func (s *Server) intact() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dir, socket unix.Stat_t
	return s.closed || s.path == "" || unix.Lstat(s.config.Dir, &dir) == nil && dir.Mode&(unix.S_IFMT|0o700) == unix.S_IFDIR|0o700 &&
		unix.Lstat(s.path, &socket) == nil && socket.Dev == s.at.Dev && socket.Ino == s.at.Ino && socket.Mode&s.at.Mode == s.at.Mode
}

// mend runs on the loop. Clients that wait at the old socket are taken first.
func (s *Server) mend() {
	if s.intact() {
		return
	}
	s.acceptWaiting()
	err := s.again()
	if err != nil {
		s.config.Warn("probe: a job has removed or replaced the socket %s, and it cannot be made again: %v", s.path, err)
	}
	s.noticeAgain()
	s.config.Mended(err)
}

func (s *Server) again() error {
	if err := s.clear(); err != nil {
		return err
	}
	fd, at, err := s.openSocket()
	if err != nil {
		return err
	}
	if err := s.watch(fd); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // Close has woken the loop through the old socket
		return unix.Close(fd)
	}
	old := s.fd
	s.fd, s.at = fd, at
	return unix.Close(old)
}

// clear makes room for the socket: its directory and the one above are as they were, and nothing has its name.
func (s *Server) clear() error {
	for _, dir := range []string{filepath.Dir(s.config.Dir), s.config.Dir} {
		info, err := os.Lstat(dir)
		if err == nil && !info.IsDir() {
			if err := os.Remove(dir); err != nil {
				return err
			}
			err = os.ErrNotExist
		}
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = os.MkdirAll(dir, 0o700)
		case err == nil && info.Mode().Perm()&0o700 != 0o700:
			err = os.Chmod(dir, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return os.RemoveAll(s.path)
}
