package live

import (
	"fmt"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/schedulers"
)

// window is how much work a process that can give memory back has submitted at most, so that a
// revocation need not wait long (policies: twice as long).
const window = 50 * time.Millisecond

// serve opens the probe's socket. A job whose connection cannot be taken is not measured, which ends the run.
func (x *Executor) serve(dir string) (err error) {
	c := probe.Config{Dir: dir, Start: x.config.Start, Post: x.hear, Warn: x.config.Warn, Mended: x.socketMended, Stray: x.stray,
		AcceptFailed: func(err error) { x.fail(lack(fmt.Errorf("take a connection of a job: %w", err))) }}
	var space *swapSpace
	if x.config.Swap != nil {
		space = newSwapSpace(x.config.Swap)
		c.Swap, c.Chunk, c.Window, c.Bursts = space, x.config.Swap.Piece(), window, x.config.Bursts
	}
	x.server, err = probe.Listen(c)
	if space != nil {
		space.server = x.server
	}
	return err
}

// hear posts what a process says. Who has the memory that an allocation lacked, a look can still show before its job ends.
func (x *Executor) hear(at time.Duration, e runner.Event) error {
	if _, full := e.(runner.OutOfMemory); full {
		select {
		case x.hurry <- struct{}{}:
		default:
		}
	}
	return x.loop.TryPost(at, e)
}

// Answer carries out runner.Answer. Errors are ignored, because the end of its process releases what a task
// was granted that is gone.
func (x *Executor) Answer(d schedulers.Decision) {
	if job, whole := runner.WholeJob(d.Task.ID); whole {
		x.answerJob(job, d)
	} else if d.Reason != nil {
		_ = x.server.Refuse(d.Task.ID, *d.Reason)
	} else {
		_ = x.server.GrantPart(d.Task.ID, d.Device, x.config.IDs[d.Device], d.Host)
	}
}

// Revoke carries out runner.Revoke. The end of the task withdraws a revocation that nobody has
// heard of.
func (x *Executor) Revoke(d schedulers.Decision) {
	if job, whole := runner.WholeJob(d.Task.ID); whole {
		x.clean.Go(func() { x.takeOut(job, d) })
		return
	}
	var to [16]byte
	if d.Revocation.Action == schedulers.Move {
		to = x.config.IDs[d.Revocation.Device]
	}
	_ = x.server.Revoke(d.Task.ID, d.Ticket, *d.Revocation, to)
}

// TellRoom carries out runner.TellRoom. The process may be gone.
func (x *Executor) TellRoom(p schedulers.Process, bytes int64) { _ = x.server.TellRoom(p, bytes) }

var (
	_ runner.Revoker  = (*Executor)(nil)
	_ runner.Informer = (*Executor)(nil)
)
