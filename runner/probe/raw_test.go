package probe

import (
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// raw is a client that sends whatever bytes the test wants.
type raw struct {
	t  *testing.T
	fd int
}

func connect(t *testing.T, s *Server) *raw {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &raw{t, fd}
	t.Cleanup(c.close)
	// A test that waits for ever for a reply would say less than this.
	limit := unix.NsecToTimeval(int64(patience))
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.Connect(fd, &unix.SockaddrUnix{Name: s.Path()})); err != nil {
		t.Fatal(err)
	}
	return c
}

// greeted connects as a process of the job.
func greeted(t *testing.T, s *Server, job int) *raw {
	t.Helper()
	c := connect(t, s)
	c.send(helloOf(t, s.Register(job)))
	return c
}

func helloOf(t *testing.T, token string) []byte {
	t.Helper()
	f := wire.Hello{PID: 1}
	if n, err := hex.Decode(f.Token[:], []byte(token)); err != nil || n != wire.TokenSize {
		t.Fatalf("token %q: %v", token, err)
	}
	return frame(&f)
}

func frame(f wire.Frame) []byte { return new(wire.Codec).Encode(f, make([]byte, wire.MaxFrame)) }

func decode(f wire.Frame, b []byte) error { return new(wire.Codec).Decode(f, b) }

// edit returns the fixture of k with one change.
func edit(tb testing.TB, k wire.Kind, change func(b []byte)) []byte {
	tb.Helper()
	b := probetest.Hex(tb, filepath.Join(nativeDir, "testdata", strings.ToLower(k.String())+".hex"))
	change(b)
	return b
}

func beginOf(task uint64, bytes int64) []byte {
	return frame(&wire.Begin{Number: task, Task: schedulers.Task{Bytes: bytes, Blocks: 1, ThreadsPerBlock: 32}})
}

func (c *raw) close() {
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

func (c *raw) send(b []byte) {
	c.t.Helper()
	if err := sendNow(c.fd, b); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// taken returns when the server has read everything that was sent.
func (c *raw) taken() {
	c.t.Helper()
	probetest.Await(c.t, "the server does not read what was sent", func() bool {
		unread, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
		if err != nil {
			c.t.Fatal(err)
		}
		return unread == 0
	})
}

// receive returns the next frame's kind, 0 at the end of the connection.
func (c *raw) receive() (wire.Kind, []byte) {
	c.t.Helper()
	b := make([]byte, wire.MaxFrame)
	for {
		n, err := unix.Read(c.fd, b)
		if err == unix.ECONNRESET || err == unix.EINTR {
			continue
		}
		if err != nil {
			c.t.Fatalf("receive: %v", err)
		}
		if n == 0 {
			return 0, nil
		}
		k, err := wire.Check(b[:n])
		if err != nil {
			c.t.Fatal(err)
		}
		return k, b[:n]
	}
}

func (c *raw) expect(want wire.Kind) []byte {
	c.t.Helper()
	k, b := c.receive()
	if k != want {
		c.t.Fatalf("received %v, want %v", k, want)
	}
	return b
}

// expectHangUp: the server says why, then ends the connection.
func (c *raw) expectHangUp() string {
	c.t.Helper()
	var f wire.Refuse
	if err := decode(&f, c.expect(wire.KindRefuse)); err != nil || f.Number != 0 || f.Refusal.Cause != wire.Protocol {
		c.t.Fatalf("last words %+v: %v", f, err)
	}
	c.expect(0)
	return wire.Printable(f.Refusal.Why)
}
