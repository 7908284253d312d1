// Package slurmstep has the ranks of a job take part in a step of Slurm, which connects them for MPI. srun starts a process for each
// rank on its node (Attend). It brings what the step gave it, its environment and its connection to PMI, to the node of the cluster
// there (Desk), which starts the rank with both as a child of its own. So a rank is started, watched and stopped as any process is.
package slurmstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is the hidden argument with which caserun attends for a rank. The name of the run's desks and the job's number follow.
const Command = "serve-rank"

// pmi is the variable that has the descriptor of a connection to PMI.
const pmi = "PMI_FD"

// opening is what Attend says first. The descriptor of the connection to PMI comes with it, if there is one.
type opening struct {
	Job, Rank int
	Env       []string
}

// address is the abstract socket of a desk, so no file has to be removed. It has the node's name, because the nodes of tests are on one machine.
func address(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: "@caserun-" + name + "-" + os.Getenv("SLURMD_NODENAME")}
}

// Desk is where the node of a cluster awaits the ranks that steps bring.
type Desk struct {
	l    *net.UnixListener
	want func(job int)

	mu      sync.Mutex
	seats   map[place]*Seat // that nobody has taken
	changed chan struct{}   // is closed when there are more
	closed  bool
}

type place struct{ job, rank int }

// Seat is what a step has for a rank.
type Seat struct {
	Env  []string // of the rank
	pmi  *os.File // its connection to PMI; nil: the step has none, or one that the environment tells of
	conn *net.UnixConn
}

// Open opens the desk of this node for the run that a name tells from others. want has a step brought that has the ranks of a job; it may be
// asked again.
func Open(name string, want func(job int)) (*Desk, error) {
	l, err := net.ListenUnix("unix", address(name))
	if err != nil {
		return nil, fmt.Errorf("await ranks of Slurm's steps: %w", err)
	}
	d := &Desk{l: l, want: want, seats: map[place]*Seat{}, changed: make(chan struct{})}
	go d.serve()
	return d, nil
}

func (d *Desk) serve() {
	for {
		conn, err := d.l.AcceptUnix()
		if err != nil {
			return // it is closed
		}
		go func() {
			if d.take(conn) != nil {
				_ = conn.Close()
			}
		}()
	}
}

// take takes what a step brings.
func (d *Desk) take(conn *net.UnixConn) error {
	if err := sameUser(conn); err != nil {
		return err
	}
	first, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	if _, n, _, _, err := conn.ReadMsgUnix(first, rights); err != nil {
		return err
	} else {
		rights = rights[:n]
	}
	s := &Seat{conn: conn}
	if messages, err := unix.ParseSocketControlMessage(rights); err != nil {
		return err
	} else if len(messages) > 0 {
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return err
		}
		unix.CloseOnExec(fds[0])
		s.pmi = os.NewFile(uintptr(fds[0]), "PMI")
	}
	var o opening
	err := json.NewDecoder(conn).Decode(&o)
	s.Env = o.Env
	d.mu.Lock()
	defer d.mu.Unlock()
	at := place{o.Job, o.Rank}
	if err == nil && (d.closed || d.seats[at] != nil) {
		err = errors.New("nobody awaits it")
	}
	if err != nil {
		s.leave()
		return err
	}
	d.seats[at] = s
	close(d.changed)
	d.changed = make(chan struct{})
	return nil
}

// Await waits until a step has brought a rank of a job. The caller must End the seat.
func (d *Desk) Await(ctx context.Context, job, rank int) (*Seat, error) {
	at := place{job, rank}
	d.want(job)
	for {
		d.mu.Lock()
		s, changed := d.seats[at], d.changed
		delete(d.seats, at)
		d.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Close has the steps end whose ranks nobody has taken.
func (d *Desk) Close() error {
	err := d.l.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, s := range d.seats {
		s.leave()
	}
	clear(d.seats)
	return err
}

// Lend gives a command, which is not started yet, the rank's connection to PMI.
func (s *Seat) Lend(cmd *exec.Cmd) {
	if s.pmi == nil {
		return
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, s.pmi)
	cmd.Env = append(cmd.Env, pmi+"="+strconv.Itoa(2+len(cmd.ExtraFiles)))
}

// Lent says that the command has been started: only the rank has the connection now.
func (s *Seat) Lent() {
	if s.pmi != nil {
		_ = s.pmi.Close()
		s.pmi = nil
	}
}

// End has the step's process end, because the rank has.
func (s *Seat) End() {
	_, _ = s.conn.Write([]byte{0}) // a step that is gone need not know
	s.leave()
}

func (s *Seat) leave() {
	s.Lent()
	_ = s.conn.Close()
}

// Attend brings the rank that this process was started for to the desk of its node, and returns once it has ended. args follow Command. How
// it ended the node knows: Slurm need not do anything about it.
func Attend(args []string) (err error) {
	// The head of the cluster knows what to do when these reach all processes of an allocation.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if len(args) != 2 {
		return fmt.Errorf("%s: want a name and a job", Command)
	}
	o := opening{Env: os.Environ()}
	if o.Job, err = strconv.Atoi(args[1]); err != nil {
		return fmt.Errorf("%s: job: %w", Command, err)
	}
	if o.Rank, err = strconv.Atoi(os.Getenv("SLURM_PROCID")); err != nil {
		return fmt.Errorf("SLURM_PROCID: %w", err)
	}
	conn, err := dial(args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	rights, err := o.rights()
	if err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, rights, nil); err != nil {
		return fmt.Errorf("tell the node's process: %w", err)
	}
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		return fmt.Errorf("tell the node's process: %w", err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return errors.New("the node's process is gone, or does not want the rank")
	}
	return nil
}

// dial connects to the desk of this node.
func dial(name string) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, address(name))
	if err != nil {
		return nil, fmt.Errorf("find the node's process: %w", err)
	}
	if err := sameUser(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// rights passes the connection to PMI on, and takes its descriptor, which is another one there, out of the environment.
func (o *opening) rights() ([]byte, error) {
	at := slices.IndexFunc(o.Env, func(entry string) bool { return strings.HasPrefix(entry, pmi+"=") })
	if at < 0 {
		return nil, nil
	}
	fd, err := strconv.Atoi(strings.TrimPrefix(o.Env[at], pmi+"="))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Env[at], err)
	}
	o.Env = slices.Delete(o.Env, at, at+1)
	return unix.UnixRights(fd), nil
}

// sameUser refuses a process of another user at the other end.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(failed, err); err == nil && peer.Uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("the process at the other end, %d, is of another user", peer.Pid)
	}
	return err
}
