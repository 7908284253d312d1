package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/scratch"
)

// serve serves a run of this process, as a run does.
func serve(t *testing.T, run int64, ask func(Verb, int) (runner.DeviceState, error)) (s *Server, dir string) {
	t.Helper()
	d, err := scratch.Make("run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	})
	if s, err = Listen(d.Path(), run, ask); err != nil {
		t.Fatal(err)
	}
	return s, d.Path()
}

// A client finds the run among the runs of its process, is answered, and hears that the run is over.
func TestAClientSpeaksToItsRun(t *testing.T) {
	other, _ := serve(t, 6, nil)
	defer other.Close()
	s, dir := serve(t, 7, func(do Verb, device int) (runner.DeviceState, error) {
		if device > 1 {
			return runner.DeviceState{}, fmt.Errorf("no device %d", device)
		}
		return runner.DeviceState{Closed: do == Drain, Left: []runner.Left{{Job: device}}}, nil
	})
	c, err := dial(t.Context(), 7, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	if state, err := c.ask(t.Context(), Drain, 1); err != nil || !state.Closed || state.Left[0].Job != 1 {
		t.Errorf("%+v, %v", state, err)
	}
	if _, err := c.ask(t.Context(), Look, 2); err == nil || err.Error() != "no device 2" {
		t.Error(err)
	}
	stopped, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	stop(why)
	busy, err := dial(t.Context(), 7, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.conn.Close()
	if err := busy.read(stopped, new(answer)); !errors.Is(err, why) {
		t.Errorf("a client that is stopped while it waits: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.ask(t.Context(), Look, 1); !errors.Is(err, errOver) {
		t.Errorf("of a run that is over: %v", err)
	}
	if _, err := dial(t.Context(), 7, os.Getpid()); err == nil || !strings.Contains(err.Error(), "has no control socket in "+filepath.Dir(dir)) {
		t.Errorf("without a socket: %v", err)
	}
}

// What is not the protocol is answered or cut off, and harms nobody. More connections than there may be are closed.
func TestAServerAmongOddClients(t *testing.T) {
	s, dir := serve(t, 1, func(do Verb, _ int) (runner.DeviceState, error) {
		return runner.DeviceState{}, fmt.Errorf("%q is asked", do)
	})
	defer s.Close()
	var first *net.UnixConn
	for i := range mostClients {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i == 0 {
			first = conn
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != `{"version":1,"run":1}`+"\n" {
			t.Fatalf("greeting %q (%v)", line, err)
		}
	}
	if _, err := connect(t.Context(), filepath.Join(dir, socketName), 1, os.Getpid()); !errors.Is(err, errGone) {
		t.Errorf("one client too many: %v", err)
	}
	lines := bufio.NewReader(first)
	for sent, want := range map[string]string{"[]\n": "cannot unmarshal", "nonsense\n": "invalid character", `{"do":"dance"}` + "\n": `\"dance\" is asked`} {
		if _, err := first.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want) {
			t.Errorf("%q is answered with %q (%v), want %q", sent, line, err, want)
		}
	}
	for range 2 { // the connection may be reset before it is read to its end
		if _, err := first.Write([]byte(strings.Repeat("x", 1<<17))); err != nil {
			break
		}
	}
	if line, err := lines.ReadString('\n'); err == nil {
		t.Errorf("a line without end is answered with %q", line)
	}
}

// Sockets of other programs are told apart.
func TestASocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		greets, want string
		pid          int
	}{
		{`{"version":2,"run":1}`, "run 1 is made by another version of caserun, whose control socket has version 2 and not 1", os.Getpid()},
		{`{"version":1,"run":2}`, "is of run 2", os.Getpid()},
		{"", "unexpected end of JSON input", os.Getpid()},
		{`{"version":1,"run":1}`, fmt.Sprintf("is of process %d", os.Getpid()), 1},
	} {
		go func() {
			if conn, err := l.Accept(); err == nil {
				fmt.Fprintln(conn, c.greets)
				conn.Close()
			}
		}()
		if _, err := connect(t.Context(), path, 1, c.pid); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.greets, err, c.want)
		}
	}
}

// A socket's path has a length that the system can take.
func TestAPathThatIsTooLong(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 108))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir, 1, nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v", err)
	}
}
