package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/scratch"
)

// patience is how long a run may take to answer. It may be busy.
const patience = 30 * time.Second

var (
	errOver = errors.New("the run has ended")     // as it says
	errGone = errors.New("its process has ended") // without a word
)

// client is a connection to a run.
type client struct {
	conn  *net.UnixConn
	lines *bufio.Scanner
}

// dial finds the socket of the run that a process makes. Of the directories of runs, one has a socket of that process.
func dial(ctx context.Context, run int64, pid int) (*client, error) {
	var failed error
	for _, dir := range scratch.Find("run", temporary(pid)) {
		c, err := connect(ctx, filepath.Join(dir, socketName), run, pid)
		if c != nil {
			return c, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("run %d: process %d has no control socket in %s: the run is just beginning or ending, or a job has removed the socket: try again: %w",
		run, pid, temporary(pid), failed)
}

// connect connects to the socket of a run; nil: it is of another run.
func connect(ctx context.Context, path string, run int64, pid int) (*client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	c := &client{conn.(*net.UnixConn), bufio.NewScanner(conn)}
	c.lines.Buffer(nil, 64<<20) // of a state with many jobs
	peer, err := peerOf(c.conn)
	var g greeting
	switch {
	case err != nil:
	case int(peer.Pid) != pid || peer.Uid != uint32(os.Geteuid()):
		err = fmt.Errorf("%s is of process %d", path, peer.Pid)
	default:
		err = c.read(ctx, &g)
	}
	switch {
	case err != nil:
	case g.Version != version:
		err = selection.Refuse("run %d is made by another version of caserun, whose control socket has version %d and not %d: use that one", run, g.Version, version)
	case g.Run != run:
		err = fmt.Errorf("%s is of run %d", path, g.Run)
	default:
		return c, nil
	}
	return nil, errors.Join(err, conn.Close())
}

// Ask has a run that a process makes do something, and returns how it stands with the device then.
func Ask(ctx context.Context, run int64, pid int, do Verb, device int) (runner.DeviceState, error) {
	c, err := dial(ctx, run, pid)
	if err != nil {
		return runner.DeviceState{}, err
	}
	defer c.conn.Close() //nolint:errcheck // nothing is written any more
	return c.ask(ctx, do, device)
}

// ask has the run do something, and returns how it stands with the device then. What the run refuses is wrong usage.
func (c *client) ask(ctx context.Context, do Verb, device int) (runner.DeviceState, error) {
	var a answer
	_ = send(c.conn, request{do, device}) // what the run has said before it ended is read
	if err := c.read(ctx, &a); err != nil {
		return a.State, err
	}
	switch {
	case a.Over:
		return a.State, errOver
	case a.Error != "":
		return a.State, selection.Refuse("%s", a.Error)
	}
	return a.State, nil
}

// read takes one line.
func (c *client) read(ctx context.Context, to any) error {
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })()
	if c.lines.Scan() {
		return json.Unmarshal(c.lines.Bytes(), to)
	}
	err := c.lines.Err()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return errGone
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the run has not answered for %v", patience)
	}
	return errGone // the connection was reset
}

// temporary is the directory for temporary files of a process.
func temporary(pid int) string {
	variables, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for variable := range strings.SplitSeq(string(variables), "\x00") {
		if dir, ok := strings.CutPrefix(variable, "TMPDIR="); ok && filepath.IsAbs(dir) {
			return dir
		}
	}
	return "/tmp"
}
