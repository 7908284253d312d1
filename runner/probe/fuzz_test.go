package probe

import (
	"maps"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// FuzzServer plays any frames of up to three connections of one job, in any order, against a
// handler that answers, revokes and gives swap space as the input says (step). Nothing may panic,
// and after each step the server's tasks, requests and tickets must be those of a plain model of the
// protocol. Nothing may be left when all connections have ended. The input's first byte says whether
// the run takes memory back, whether the process can be seen, so that its connections resume, and whether tasks end
// their bursts.
func FuzzServer(f *testing.F) {
	const (
		hello, begin, revoked, resume, more, free, bye, yielded = 0, 1, 2, 3, 4, 5, 10, 13
		grant, refuse, revoke, give, hangUp, move               = 20, 21, 22, 23, 25, 32 + 22
		done, busy                                              = 1, 2
	)
	for how := range byte(8) {
		for _, steps := range [][]byte{
			{hello, begin, 1, 0, grant, 1, free, 1},
			{hello, begin, 1, 0, grant, 1, revoke, 1, revoked, 1, done, 1, resume, 1, 0, grant, 1, free, 1},
			{hello, begin, 1, 0, grant, 1, revoke, 1, revoke, 1, revoked, 1, busy, 1, revoke, 1, free, 1},
			{hello, begin, 1, 0, grant, 1, revoke, 1, hangUp, hello, resume, 1, 0, revoke, 1, grant, 1, revoked, 2, done, 1, refuse, 1, bye},
			{hello, begin, 1, 0, grant, 1, revoke, 1, revoked, 9, done, 1},
			{hello, begin, 1, 0, grant, 1, begin, 2, 0, revoke, 1, grant, 2, revoke, 2, revoked, 2, done, 2, revoked, 1, done, 2},
			{hello, begin, 1, 0, grant, 1, more, 1, give, 2, more, 1, hangUp, hello, more, 1, give, 0},
			{hello, begin, 1, 0, grant, 1, yielded, 1, resume, 1, 0, grant, 1, revoke, 1, yielded, 1, revoked, 1, done, 1, move, 1},
		} {
			f.Add(append([]byte{how}, steps...))
		}
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 0 && len(input) < 1<<12 {
			newPlay(t, input[0]).run(input[1:])
		}
	})
}

// play is a server without its loop, and a model of what it must keep.
type play struct {
	t     *testing.T
	s     *Server
	token [wire.TokenSize]byte
	seen  *process // what connections are of, if they are of one process
	ends  [3]int   // the process's, of each connection; -1: none
	input []byte

	tasks   map[schedulers.TaskID]*client           // live, by id
	asked   map[schedulers.TaskID]bool              // of these, with a request
	tickets map[schedulers.TaskID]schedulers.Ticket // of these, by id
	more    map[*client]bool                        // asked for swap space
	last    schedulers.Ticket

	offered  map[*client]int64 // bytes of swap space
	recalled map[*client]bool  // was asked for them
}

func newPlay(t *testing.T, how byte) *play {
	p := &play{t: t, ends: [3]int{-1, -1, -1}, tasks: map[schedulers.TaskID]*client{}, asked: map[schedulers.TaskID]bool{},
		tickets: map[schedulers.TaskID]schedulers.Ticket{}, more: map[*client]bool{}, offered: map[*client]int64{}, recalled: map[*client]bool{}}
	record := probetest.NewRecorder(p.take)
	c := newRecorder().config("", &logbook{})
	c.Post, c.Swap = record.Post, record
	if how&1 != 0 {
		c.Chunk, c.Window, c.Bursts = welcomed.Chunk, welcomed.Window, how&4 != 0
	}
	var err error
	if p.s, err = newServer(c, openProcess); err != nil {
		t.Fatal(err)
	}
	p.s.fd = -1 // nobody listens
	p.s.jobs[p.token] = &job{}
	if how&2 != 0 {
		handle, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			t.Fatal(err)
		}
		p.seen = &process{pid: os.Getpid(), handle: handle}
		p.s.processes[p.seen.pid], p.s.handles[int32(handle)] = p.seen, p.seen
	}
	return p
}

func (p *play) byte() byte {
	if len(p.input) == 0 {
		return 0
	}
	b := p.input[0]
	p.input = p.input[1:]
	return b
}

// connect makes connection i, if it has none.
func (p *play) connect(i int) {
	if p.ends[i] >= 0 {
		return
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	of := p.seen
	if of == nil || of.handle < 0 {
		of = &process{pid: 1, handle: -1}
	}
	c := &client{server: p.s, process: of, fd: pair[0], tasks: map[uint64]*task{}}
	p.s.clients[int32(pair[0])] = c
	of.clients = append(of.clients, c)
	p.ends[i] = pair[1]
}

// settle has the server take all that was sent, and drops what it answered.
func (p *play) settle() {
	for busy := true; busy; {
		busy = false
		for _, c := range p.s.clients {
			if ready(int32(c.fd)) {
				c.step()
				busy = true
				break // the step may have changed the map
			}
		}
	}
	b := make([]byte, wire.MaxFrame)
	for i, end := range p.ends {
		for end >= 0 {
			n, err := receive(end, b)
			if err == unix.EAGAIN {
				break
			}
			if err != nil || n == 0 {
				unix.Close(end)
				p.ends[i] = -1
				break
			}
			if _, err := wire.Check(b[:n]); err != nil {
				p.t.Fatalf("the server sent %v", err)
			}
		}
	}
}

func (p *play) run(input []byte) {
	p.input = input
	for len(p.input) > 0 {
		p.step(p.byte())
		p.settle()
		p.compare()
	}
	for i, end := range p.ends {
		if end >= 0 {
			unix.Close(end)
			p.ends[i] = -1
		}
	}
	p.settle()
	if p.seen != nil {
		p.s.processEndedForGood(p.seen)
	}
	if len(p.tasks)+len(p.tickets)+len(p.asked)+len(p.more) > 0 || len(p.s.tasks)+len(p.s.known)+len(p.s.clients)+len(p.s.handles) > 0 {
		p.t.Fatalf("left in the end: tasks %v, requests %v, tickets %v, for swap space %v; of the server: tasks %v, %d clients, %d handles",
			p.tasks, p.asked, p.tickets, p.more, p.s.tasks, len(p.s.clients), len(p.s.handles))
	}
}

// processEndedForGood does what processEnded does, for a server without a loop and without a
// listening socket.
func (s *Server) processEndedForGood(p *process) {
	for len(p.clients) > 0 {
		p.clients[0].close()
	}
	if p.handle >= 0 { // no client ever joined it
		delete(s.handles, int32(p.handle))
		p.release()
	}
}

// step does what its byte says: 5 bits for what, one to change a bit of the frame, two for the
// connection. Connections, tasks and numbers are small, so that they meet.
func (p *play) step(b byte) {
	i := int(b>>6) % 3
	switch what := b % 32; {
	case what < 14:
		p.connect(i)
		f := frame(p.frame(what))
		if b&32 != 0 {
			at := int(p.byte())
			f[at%len(f)] ^= 1 << (at % 8)
		}
		_ = sendNow(p.ends[i], f)
	case what < 16: // any bytes
		p.connect(i)
		n := min(int(p.byte())%(wire.MaxFrame+2), len(p.input))
		if n > 0 {
			_ = sendNow(p.ends[i], p.input[:n])
			p.input = p.input[n:]
		}
	case what == 20:
		p.answer(schedulers.TaskID(p.byte()), true)
	case what == 21:
		p.answer(schedulers.TaskID(p.byte()), false)
	case what == 22:
		id := schedulers.TaskID(p.byte())
		p.last++
		c, live := p.tasks[id]
		r := schedulers.Revocation{Action: schedulers.Evict, Bytes: 1}
		if b&32 != 0 {
			r.Action = schedulers.Move
		}
		err := p.s.Revoke(id, p.last, r, [16]byte{})
		if err == nil && (!live || !c.actions().Has(r.Action) || p.tickets[id] != 0) {
			p.t.Fatalf("task %d of %v was told to %v", id, c, r.Action)
		}
		if err == nil {
			p.tickets[id] = p.last
		}
	case what == 23:
		for c := range p.more {
			if err := p.s.GiveSwap(c.who(), []int{0, 0, 0}[:p.byte()%4]...); err == nil {
				delete(p.more, c)
			}
			break
		}
	case what == 24:
		p.offer(i, p.byte())
	case what == 25:
		if p.ends[i] >= 0 {
			unix.Close(p.ends[i])
			p.ends[i] = -1
		}
	}
}

func (p *play) frame(what byte) wire.Frame {
	task := func() uint64 { return uint64(p.byte() % 4) }
	bytes := func() int64 { return int64(p.byte()) }
	switch what {
	case 0:
		return &wire.Hello{Instance: 5, Token: p.token, Can: wire.CanEvict | wire.CanPrepare}
	case 1:
		return &wire.Begin{Number: task(), Task: schedulers.Task{Bytes: bytes()}}
	case 2:
		ticket := schedulers.Ticket(p.byte())
		outcome := []schedulers.Outcome{"", schedulers.Done, schedulers.Busy, schedulers.Unable, ""}[p.byte()%5]
		return &wire.Revoked{Number: task(), Answer: schedulers.Revoked{Ticket: ticket, Outcome: outcome}}
	case 3:
		return &wire.Resume{Number: task(), Need: bytes()}
	case 4:
		return &wire.More{Bytes: bytes()}
	case 5:
		return &wire.Free{Number: task()}
	case 6:
		return &wire.Grow{Number: task(), Bytes: bytes()}
	case 7:
		return &wire.Shrink{Number: task(), Bytes: bytes()}
	case 8:
		return &wire.Shape{Number: task()}
	case 9:
		return &wire.Decided{Number: task()}
	case 10:
		return &wire.Bye{}
	case 11:
		return &wire.Kept{Bytes: welcomed.Chunk * (bytes() % 8) / 2}
	case 12:
		return &wire.Moved{Number: task(), Direction: []schedulers.Direction{schedulers.In, schedulers.Out}[p.byte()%2], Moved: schedulers.Moved{Bytes: bytes()}}
	case 13:
		return &wire.Yielded{Number: task()}
	case 14:
		return &wire.Room{Device: int32(bytes())}
	case 15:
		return &wire.Managed{Bytes: bytes(), Beside: bytes(), Device: int32(bytes())}
	}
	return &wire.Hello{Instance: uint32(p.byte()), Token: p.token, Can: uint32(p.byte() % 32)}
}

// offer offers swap space to the client of connection i, or recalls it.
func (p *play) offer(i int, how byte) {
	fds := slices.Sorted(maps.Keys(p.s.clients))
	fds = slices.DeleteFunc(fds, func(fd int32) bool { return p.s.clients[fd].serial == 0 }) // which no handler knows yet
	if len(fds) == 0 {
		return
	}
	c := p.s.clients[fds[i%len(fds)]]
	if files := []int{0, 0, 0}[:how%4]; len(files) > 0 {
		err := p.s.OfferSwap(c.who(), files...)
		if err == nil && (c.can&wire.CanPrepare == 0 || p.recalled[c]) {
			p.t.Fatal("a client was offered swap space that takes none, or is to give back some")
		}
		if err == nil {
			p.offered[c] += welcomed.Chunk * int64(len(files))
		}
		return
	}
	err := p.s.RecallSwap(c.who())
	if err == nil && (c.can&wire.CanPrepare == 0 || p.recalled[c]) {
		p.t.Fatal("swap space of a client was recalled that takes none, or twice")
	}
	p.recalled[c] = p.recalled[c] || err == nil
}

func (p *play) answer(id schedulers.TaskID, yes bool) {
	standing := standing(0)
	if c := p.tasks[id]; c != nil {
		standing = p.s.task(id).standing
	}
	was, kept := p.asked[id], standing
	var err error
	if yes {
		err = p.s.Grant(id, 0, [16]byte{})
	} else {
		err = p.s.Refuse(id, schedulers.Refusal{Cause: schedulers.DeviceFull, Why: "no"})
	}
	if yes && standing == resuming && p.tickets[id] != 0 {
		if err == nil {
			p.t.Fatalf("task %d may go on and has ticket %d", id, p.tickets[id])
		}
		return
	}
	if !was && err == nil {
		p.t.Fatalf("task %d got an answer that it had not asked for", id)
	}
	delete(p.asked, id)
	if !yes && kept == waiting {
		p.free(id)
	}
}

// compare: the server's books and the model's are the same.
func (p *play) compare() {
	open := 0
	for id, c := range p.tasks {
		t := p.s.task(id)
		if t == nil || t.client != c || c.tasks[t.number] != t || t.id != id || t.ticket != p.tickets[id] || t.standing.asks() != p.asked[id] {
			p.t.Fatalf("task %d is %+v, want ticket %d, asks %v", id, t, p.tickets[id], p.asked[id])
		}
		if t.standing.asks() {
			open++
		}
	}
	for _, c := range p.s.clients {
		if c.offered != p.offered[c] || c.recalled != p.recalled[c] {
			p.t.Fatalf("a client was offered %d bytes, recalled %v; want %d, %v", c.offered, c.recalled, p.offered[c], p.recalled[c])
		}
		if c.swapAsked != p.more[c] {
			p.t.Fatalf("a client waits for swap space: %v, want %v", c.swapAsked, p.more[c])
		}
	}
	j := p.s.jobs[p.token]
	if len(p.s.tasks) != len(p.tasks) || int(j.live.Load()) != len(p.tasks) || int(j.open.Load()) != open {
		p.t.Fatalf("the server has %d tasks, and the job %d of them and %d requests; want %d and %d",
			len(p.s.tasks), j.live.Load(), j.open.Load(), len(p.tasks), open)
	}
}

func (p *play) take(e probetest.Event) error {
	c, id := p.s.clientOf(e.Process), e.ID
	switch e.Kind {
	case "begin":
		p.tasks[id] = c
		fallthrough
	case "grow", "resume":
		if p.tasks[id] != c || p.asked[id] {
			p.t.Fatalf("request of task %d, which is %v's and has a request: %v", id, p.tasks[id], p.asked[id])
		}
		p.asked[id] = true
	case "decided":
		panic("of a job that does not decide")
	case "revoked":
		if ticket := e.Answer().Ticket; ticket == 0 || p.tickets[id] != ticket {
			p.t.Fatalf("task %d answers ticket %d, and has %d", id, ticket, p.tickets[id])
		}
		delete(p.tickets, id)
	case "moved", "yielded":
		if p.tasks[id] == nil || p.asked[id] {
			p.t.Fatalf("task %d has %s: it is unknown, or waits", id, e.Kind)
		}
	case "more":
		if p.more[c] {
			p.t.Fatal("asked for swap space twice")
		}
		p.more[c] = true
	case "returned":
		if !p.recalled[c] || e.Bytes > p.offered[c] {
			p.t.Fatalf("%d of %d bytes came back that were recalled: %v", e.Bytes, p.offered[c], p.recalled[c])
		}
		p.offered[c] -= e.Bytes
		delete(p.recalled, c)
	case "free":
		p.free(id)
	case "disconnected", "gone":
		delete(p.more, c)
		delete(p.recalled, c)
		for id, of := range p.tasks {
			if of == c && e.Kind == "gone" {
				p.free(id)
			} else if of == c {
				delete(p.tickets, id)
			}
		}
	}
	return nil
}

func (p *play) free(id schedulers.TaskID) {
	delete(p.tasks, id)
	delete(p.asked, id)
	delete(p.tickets, id)
}
