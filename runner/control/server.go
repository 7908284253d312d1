// Package control lets a user speak to a run while it runs, over a socket in the run's own directory: caserun drain.
//
// Both sides send JSON, one object a line. The run greets with its number and the version of the protocol. Each request has
// one answer. A run that ends says so instead.
package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
)

const (
	// version is of the protocol.
	version = 1
	// socketName is the socket's in the run's directory.
	socketName = "control"
	// mostClients bounds connections at one time, because jobs can open some too.
	mostClients = 16
	// writing bounds how long a client may take to read an answer.
	writing = 5 * time.Second
)

// Verb is what is asked about a device.
type Verb string

const (
	Drain Verb = "drain" // take it out of the run
	Undo  Verb = "undo"  // put it back
	Look  Verb = "look"  // say how it stands
)

type greeting struct {
	Version int   `json:"version"`
	Run     int64 `json:"run"`
}

type request struct {
	Do     Verb `json:"do"`
	Device int  `json:"device"` // its place in node order
}

type answer struct {
	State runner.DeviceState `json:"state"`
	Error string             `json:"error,omitempty"`
	Over  bool               `json:"over,omitempty"` // the run has ended
}

// Server is the socket of one run.
type Server struct {
	run      int64
	ask      func(Verb, int) (runner.DeviceState, error)
	listener *net.UnixListener
	serving  sync.WaitGroup

	mu      sync.Mutex
	clients map[*net.UnixConn]bool
	closed  bool
}

// Listen serves the run of a number until Close, from a socket in dir, which only this user can enter. ask answers requests;
// it may be called by several goroutines at once, and must answer before a client's patience ends. Close waits for it.
func Listen(dir string, run int64, ask func(Verb, int) (runner.DeviceState, error)) (*Server, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on the run's control socket: %w", err)
	}
	s := &Server{run: run, ask: ask, listener: l, clients: map[*net.UnixConn]bool{}}
	s.serving.Go(s.accept)
	return s, nil
}

// Close tells clients that the run is over, and removes the socket.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.clients {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // which ends its goroutine
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if s.admit(c) {
			s.serving.Go(func() { s.serve(c) })
		} else {
			_ = c.Close()
		}
	}
}

// admit takes in a client, unless it is another user's or one too many.
func (s *Server) admit(c *net.UnixConn) bool {
	peer, err := peerOf(c)
	if err != nil || peer.Uid != uint32(os.Geteuid()) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.clients) == mostClients {
		return false
	}
	s.clients[c] = true
	return true
}

func (s *Server) serve(c *net.UnixConn) {
	defer func() {
		s.mu.Lock()
		delete(s.clients, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	if send(c, greeting{version, s.run}) != nil {
		return
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		var r request
		var a answer
		err := json.Unmarshal(lines.Bytes(), &r)
		if err == nil {
			a.State, err = s.ask(r.Do, r.Device)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if send(c, a) != nil {
			return
		}
	}
	if errors.Is(lines.Err(), os.ErrDeadlineExceeded) {
		_ = send(c, answer{Over: true})
	}
}

// send writes one line.
func send(c *net.UnixConn, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(writing)); err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}

// peerOf is the process at the other end.
func peerOf(c *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer, errors.Join(failed, err)
}
