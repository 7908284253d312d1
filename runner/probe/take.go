package probe

import (
	"errors"
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// take is what becomes of a frame. An error costs the client its connection.
type take func(c *client, b []byte) error

// newTakes has what becomes of each frame that a client may send after HELLO. Frames are reused: making one for each
// packet would take memory from the heap.
func newTakes() [wire.Kinds]take {
	return [wire.Kinds]take{
		wire.KindBegin: taking((*client).begin),
		wire.KindGrow: ofTask(held, growing, func(id schedulers.TaskID, f *wire.Grow) runner.Event {
			return runner.TaskGrow{ID: id, Bytes: f.Bytes, Wait: f.Wait}
		}),
		wire.KindShrink: ofTask(held, held, func(id schedulers.TaskID, f *wire.Shrink) runner.Event {
			return runner.TaskShrink{ID: id, Bytes: f.Bytes}
		}),
		wire.KindShape: ofTask(held, held, func(id schedulers.TaskID, f *wire.Shape) runner.Event {
			return runner.TaskShape{ID: id, Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock, BlocksPerSM: f.BlocksPerSM}
		}),
		wire.KindFree: ofTask(held, 0, func(id schedulers.TaskID, _ *wire.Free) runner.Event {
			return runner.TaskFree{ID: id}
		}),
		wire.KindResume: ofEvictor(ofTask(held, resuming, func(id schedulers.TaskID, f *wire.Resume) runner.Event {
			return runner.TaskResume{ID: id, Need: f.Need, Referenced: f.Referenced, Stays: f.Stays}
		})),
		wire.KindYielded: ofEvictor(ofBursts(ofTask(held, held, func(id schedulers.TaskID, _ *wire.Yielded) runner.Event {
			return runner.TaskYielded{ID: id}
		}))),
		wire.KindMoved: ofEvictor(ofTask(held, held, func(id schedulers.TaskID, f *wire.Moved) runner.Event {
			return runner.TaskMoved{ID: id, Direction: f.Direction, Moved: f.Moved}
		})),
		wire.KindDecided: taking((*client).decided),
		wire.KindRevoked: taking((*client).revoked),
		wire.KindMore:    taking((*client).more),
		wire.KindKept:    taking((*client).kept),
		wire.KindRoom:    taking((*client).room),
		wire.KindManaged: taking((*client).managed),
		wire.KindOOM: taking(func(c *client, f *wire.OOM) error {
			return c.post(runner.OutOfMemory{Process: c.who(), Bytes: f.Bytes, Where: wire.Printable(f.Where)})
		}),
		wire.KindFault: taking((*client).fault),
		wire.KindBye: taking(func(c *client, _ *wire.Bye) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.bye = true
			return nil
		}),
	}
}

// frameOf is a pointer to the frame F.
type frameOf[F any] interface {
	*F
	wire.Frame
}

// taking reads a frame and hands it to do.
func taking[F any, P frameOf[F]](do func(*client, P) error) take {
	f := P(new(F))
	return func(c *client, b []byte) error {
		if err := c.server.reader.Decode(f, b); err != nil {
			return err
		}
		return do(c, f)
	}
}

// ofTask posts an event of a task that stands as `from`, and then as `to`; 0 is not live.
func ofTask[F any, P frameOf[F]](from, to standing, event func(schedulers.TaskID, P) runner.Event) take {
	f := P(new(F))
	return func(c *client, b []byte) error {
		if err := c.server.reader.Decode(f, b); err != nil {
			return err
		}
		t, err := c.stand(wire.Number(b), from, to)
		if err != nil {
			return err
		}
		if to.asks() {
			if refused, err := c.limited(t); refused {
				return err
			}
		}
		return c.post(event(t.id, f))
	}
}

// ofEvictor is for a frame of processes that can evict.
func ofEvictor(do take) take {
	return func(c *client, b []byte) error {
		if !c.CanEvict() {
			return errTakesNothing
		}
		return do(c, b)
	}
}

// ofBursts is for a frame of runs in which tasks give up their permission by themselves.
func ofBursts(do take) take {
	return func(c *client, b []byte) error {
		if !c.server.config.Bursts {
			return errNoBursts
		}
		return do(c, b)
	}
}

var errNoBursts = errors.New("the run has not asked tasks to end their bursts")

var errNotForClients = errors.New("not for a client to send, or not now")

var errWhoDecides = errors.New("the run and the process do not agree about who decides")

func (c *client) begin(f *wire.Begin) error {
	if f.Decides != c.job.decides {
		return errWhoDecides
	}
	movable := c.CanEvict()
	if f.Task.Needs() < f.Task.Bytes && !movable {
		return errTakesNothing
	}
	p := c.who() // before others can see the task
	t, err := c.stand(f.Number, 0, waiting)
	if err != nil {
		return err
	}
	if refused, err := c.limited(t); refused {
		return err
	}
	asks := f.Task
	asks.ID, asks.Job, asks.Serial = t.id, p.Job, p.Serial
	if movable {
		asks.Can = c.actions()
	}
	if c.job.bound {
		asks.OnDevice = nil // it sees only its device, as number 0
	}
	return c.post(runner.TaskBegin{Task: asks, HeapBytes: f.HeapBytes, Early: f.Early})
}

func (c *client) decided(f *wire.Decided) error {
	t, err := c.decide(f.Number, f.Refusal == nil)
	if err != nil {
		return err
	}
	if f.Refusal != nil {
		f.Refusal.Why = "the process itself: " + f.Refusal.Cause.String()
	}
	return c.post(runner.TaskDecided{ID: t.id, Device: f.Device, Refusal: f.Refusal})
}

// fault posts when the process saw the error. Times of all clients are on one clock, so they order culprit and collateral
// exactly. A time before the job's start counts as the start, and a time to come counts as now.
func (c *client) fault(f *wire.Fault) error {
	s, e := c.server, runner.Fault{Process: c.who(), Code: int(f.Code), Where: wire.Printable(f.Where)}
	c.postWork()
	at := s.At(f.MonotonicNS).Sub(s.config.Start)
	return s.config.Post(min(max(at, c.job.registered), s.now()), e)
}

// who is the client's process in events. No other process of the run has its serial: a process id is also that of
// what the process becomes by exec.
func (c *client) who() schedulers.Process {
	p := schedulers.Process{Job: schedulers.JobID(c.job.index), Serial: c.serial}
	if c.serial > 0 {
		return p
	}
	s := c.server
	s.mu.Lock()
	s.heard++
	c.serial, p.Serial = s.heard, s.heard
	s.known[p] = c
	s.asked[c.PID()] = true
	s.mu.Unlock()
	if c.ranked {
		_ = s.config.Post(s.now(), runner.RankJoined{Process: p, Rank: c.rank})
	}
	return p
}

func (s *Server) now() time.Duration { return time.Since(s.config.Start) }

// post posts an event of now. An event that cannot be breaks the protocol. What a process says of memory that moves is
// the exception: the process is served until its job has been stopped.
func (c *client) post(e runner.Event) error {
	s, p := c.server, c.who()
	err := s.config.Post(s.now(), e)
	switch e.(type) {
	case runner.TaskRevoked, runner.TaskResume, runner.TaskYielded, runner.TaskMoved:
		if err != nil {
			err = s.config.Post(s.now(), runner.Misbehaved{Job: int(p.Job), Why: fmt.Sprintf("process %d: %v", c.PID(), err)})
		}
	}
	return err
}

// postWork tells since when kernels of the process run and when earlier ones had ended, where it shows that.
func (c *client) postWork() {
	a, known := c.Activity()
	if !known {
		return
	}
	w, start := runner.ProcessWork{Process: c.who()}, c.server.config.Start
	if !a.Busy.IsZero() {
		w.Since = new(a.Busy.Sub(start))
	}
	switch {
	case !a.Idle.IsZero():
		w.Until = new(a.Idle.Sub(start))
	case a.Busy.IsZero() && a.Submissions > 0: // a library of an earlier version does not say when
		w.Until = new(c.server.now())
	}
	_ = c.post(w)
}

// disconnected says that the connection has ended and the process lives on. The process has had a device, and keeps
// what it holds. A request to grow or to resume is still to be answered, and a process that decides by itself continues to
// decide. Tickets of its tasks are settled without an answer: the process may have given memory back or not, and has no
// permission to submit work until it asks. It may connect again and continue.
func (c *client) disconnected() {
	s, p := c.server, c.who()
	if s.config.Swap != nil {
		s.config.Swap.Disconnected(p)
	}
	if c.Err() != nil {
		c.stopJob()
		return
	}
	if c.told {
		return
	}
	c.told = true
	const what = "process %d closed its connection to the scheduler and lives on: what it was granted stays charged until it exits"
	now := s.now()
	_ = s.config.Post(now, runner.Note{Event: results.Event{AtS: now.Seconds(), Kind: results.EventSocketClosed, Job: &c.job.index,
		Detail: fmt.Sprintf(what+"; the program must not close descriptors that it did not open", c.PID())}})
	if !c.job.warned {
		c.job.warned = true
		s.config.Warn("job %d: "+what, c.job.index, c.PID())
	}
}

// gone comes last and once for each client. Its process has ended, runs another program, or has never had a device.
// Everything that it held or waited for is free.
func (c *client) gone() {
	s, p := c.server, c.who()
	c.postWork()
	if bytes, known := c.PeakBytes(); known {
		_ = c.post(runner.ProcessUse{Process: p, Bytes: bytes})
	}
	_ = c.post(runner.ProcessGone{Process: p, SaidBye: c.SaidBye()})
	if s.config.Swap != nil {
		s.config.Swap.Ended(p)
	}
	s.mu.Lock()
	delete(s.known, p)
	s.changed.Broadcast()
	s.mu.Unlock()
	c.stopJob()
}

// stopJob has the job of a client stopped that the server has hung up on. It does so once.
func (c *client) stopJob() {
	err := c.Err()
	if err == nil || c.dropped {
		return
	}
	c.dropped = true
	s, job := c.server, c.job.index
	s.mu.Lock()
	s.hungUp[job] = true
	s.mu.Unlock()
	why := fmt.Sprintf("the probe server hung up on process %d: %v", c.PID(), err)
	s.config.Warn("job %d: %s; the job is stopped", job, why)
	_ = s.config.Post(s.now(), runner.Misbehaved{Job: job, Why: why})
}
