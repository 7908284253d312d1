package probe

import (
	"encoding/hex"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
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
	f := helloFrame{pid: 1}
	if n, err := hex.Decode(f.token[:], []byte(token)); err != nil || n != tokenSize {
		t.Fatalf("token %q: %v", token, err)
	}
	return frame(&f)
}

func frame(f wireFrame) []byte { return encode(f, make([]byte, maxFrame)) }

func beginOf(task, bytes uint64) []byte {
	return frame(&beginFrame{task, Request{Bytes: bytes, Blocks: 1, ThreadsPerBlock: 32}})
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
	await(c.t, "the server does not read what was sent", func() bool {
		unread, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
		if err != nil {
			c.t.Fatal(err)
		}
		return unread == 0
	})
}

// receive returns the next frame's kind, 0 at the end of the connection.
func (c *raw) receive() (kind, []byte) {
	c.t.Helper()
	b := make([]byte, maxFrame)
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
		k, err := check(b[:n])
		if err != nil {
			c.t.Fatal(err)
		}
		return k, b[:n]
	}
}

func (c *raw) expect(want kind) []byte {
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
	var f refuseFrame
	if err := decode(&f, c.expect(kindRefuse)); err != nil || f.task != 0 || f.reason != reasonProtocol {
		c.t.Fatalf("last words %+v: %v", f, err)
	}
	c.expect(0)
	return text(f.text[:])
}
