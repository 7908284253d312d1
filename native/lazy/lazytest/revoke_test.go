package lazytest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/schedulers"
)

// taker is a scheduler that takes memory back at random moments from the processes of a lazyRun.
type taker struct {
	t       *testing.T
	server  *probe.Server
	random  *rand.Rand
	uuids   [][16]byte        // of the devices
	moves   bool              // processes go to other devices too
	moved   int               // times
	chunk   int64             // bytes, the unit in which memory moves
	area    func(n int) []int // gives chunks of host memory, as descriptors
	next    int               // the device of the next task
	tasks   map[name]*kept
	ticket  schedulers.Ticket
	chunks  int   // of host memory that were given,
	back    int   // and that came back, because they were offered and not used
	offers  int   // of host memory that are to come
	begun   int64 // bytes of tasks that began on the host
	short   bool  // host memory was refused
	revoked []schedulers.Revoked
	bursts  int // that have ended by themselves
}

// name is a task's: its process, and the process's number for it.
type name struct {
	p    schedulers.Process
	task uint64
}

// kept is what the scheduler knows of a task, as schedulers/engine counts it.
type kept struct {
	id       schedulers.TaskID
	home     int   // its device
	bytes    int64 // granted, heap included
	resident int64 // of these, on the device
	given    int64 // of these, given back since it was asked
	begins   bool  // a part begins on the host, and nothing has shown yet that it is there
	asked    *schedulers.Revocation
	ticket   schedulers.Ticket // of asked
	resumes  *event            // it wants to,
	needs    int64             // then this, in bytes
	stays    int64             // of which so many stay on the host
	grows    *event            // or more memory, and has a ticket
}

// endsBursts reports whether processes are to give up their permission when they have nothing submitted: with every
// other seed, or as the environment says (CASERUN_TEST_BURSTS=on or off).
func endsBursts(t *testing.T, seed uint64) bool {
	t.Helper()
	switch how := os.Getenv("CASERUN_TEST_BURSTS"); how {
	case "":
		return seed%2 == 1
	case "on", "off":
		return how == "on"
	default:
		t.Fatalf("CASERUN_TEST_BURSTS=%s: use on or off", how)
		return false
	}
}

// newTaker has a server for one program, whose memory moves in such chunks. ready is called once the
// program can be started.
func newTaker(t *testing.T, seed uint64, chunk int64, ready func(*probe.Server, recorder) *lazyRun) (*lazyRun, *taker) {
	t.Helper()
	s, r := startRevoking(t, probe.Config{Chunk: chunk, Window: moving.Window, Bursts: endsBursts(t, seed)})
	ticks, ended := time.NewTicker(500*time.Microsecond), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticks.C:
				r.events <- said("tick", "")
			case <-ended:
				return
			}
		}
	}()
	t.Cleanup(func() { ticks.Stop(); close(ended) })
	return ready(s, r).start(), &taker{t: t, server: s, random: rand.New(rand.NewPCG(seed, 1)), tasks: map[name]*kept{},
		uuids: [][16]byte{fakeUUID(0), fakeUUID(1)}, chunk: chunk, offers: 4, area: func(n int) []int { return fakeChunks(t, n, chunk) }}
}

// startTaking starts the program under a scheduler that takes memory back. The caller calls finish
// with answer.
func startTaking(t *testing.T, seed uint64, version, program string, env ...string) (*lazyRun, *taker) {
	t.Helper()
	return newTaker(t, seed, 2<<20, func(s *probe.Server, r recorder) *lazyRun {
		return prepareLazyAt(t, s, r, version, "lazy_program", program, append([]string{movable}, env...)...)
	})
}

// answer serves the process, and takes memory back at most of the ticks.
func (k *taker) answer(t *testing.T, e event) {
	of := name{e.Process, e.Task}
	task := k.tasks[of]
	switch e.Kind {
	case "begin":
		k.next = (k.next + 1) % len(k.uuids)
		task = &kept{id: e.ID, home: k.next}
		if e.Asks().OnDevice != nil {
			task.home = *e.Asks().OnDevice
		}
		k.tasks[of] = task
		task.bytes = e.Bytes + e.heap()
		host := e.host() + k.stays(e.Asks().Stays)
		task.resident = task.bytes - host
		task.begins = host > 0
		k.begun += host
		k.grant(e, task, host-e.host())
	case "grow":
		task.grows = &e
	case "shrink":
		task.bytes -= e.Bytes
		task.given += task.resident - min(task.resident, task.bytes)
		task.resident = min(task.resident, task.bytes)
	case "free":
		delete(k.tasks, of)
	case "resume":
		if e.Needs().Need > e.Needs().Referenced || e.Needs().Referenced > task.bytes || e.Needs().Need > task.bytes-task.resident {
			k.t.Errorf("%+v of task %d, which has %d bytes on the device, of %d", e.Needs(), e.Task, task.resident, task.bytes)
		}
		task.resumes, task.needs, task.stays = &e, e.Needs().Need, k.stays(e.Needs().Stays)
	case "room":
		if err := k.server.TellRoom(e.Process, k.bytes()); err != nil {
			k.t.Logf("room: %v", err) // it has ended meanwhile
		}
	case "yielded":
		k.bursts++
	case "revoked":
		k.hear(task, e.Answer())
	case "more":
		k.swap(e)
	case "returned":
		k.back += int(e.Bytes / k.chunk)
	case "gone", "disconnected":
		maps.DeleteFunc(k.tasks, func(of name, _ *kept) bool { return of.p == e.Process })
	case "tick":
		k.take()
	}
	if task != nil && task.grows != nil && task.asked == nil {
		task.bytes += task.grows.Bytes
		task.resident += task.grows.Bytes
		k.grant(*task.grows, task, 0)
		task.grows = nil
	}
	if task != nil && task.resumes != nil && task.asked == nil {
		task.resident = min(task.resident+task.needs-task.stays, task.bytes)
		k.grant(*task.resumes, task, task.stays)
		task.resumes = nil
	}
}

// stays is how much stays on the host of what may: mostly nothing.
func (k *taker) stays(most int64) int64 {
	if k.random.IntN(4) > 0 || most == 0 {
		return 0
	}
	return k.random.Int64N(most + 1)
}

// grant gives a task the device that it has, or gets, and what it asks for but for so many bytes.
func (k *taker) grant(e event, task *kept, host int64) {
	if err := e.grantPart(task.home, k.uuids[task.home], host); err != nil {
		k.t.Logf("%s: %v", e.Kind, err) // it has ended meanwhile
	}
}

// hear takes the answer to a revocation, which must be a possible one.
func (k *taker) hear(task *kept, was schedulers.Revoked) {
	r := *task.asked
	moves := r.Action == schedulers.Move
	possible := was.Ticket == task.ticket && was.Fixed <= was.Resident && was.Resident <= task.resident && (moves || was.Resident+was.Moved.Bytes <= task.resident+task.given)
	switch {
	case moves && was.Outcome == schedulers.Done:
		possible = possible && was.Why == "" && was.Resident+task.given >= task.resident
		task.home = r.Device
		k.moved++
	case was.Outcome == schedulers.Done: // enough, in whole chunks; or all that can move and the host has room for
		gave := max(was.Moved.Bytes, task.resident+task.given-was.Resident) // also what was not made yet
		enough := gave >= r.Bytes && was.Moved.Bytes-min(was.Moved.Bytes, r.Bytes) < k.chunk
		possible = possible && was.Why == "" && (enough || gave < r.Bytes && (k.short || was.Resident == was.Fixed))
	case was.Outcome == schedulers.Busy:
		possible = possible && was.Why == "" && was.Moved.Bytes == 0
	case was.Outcome == schedulers.Unable:
		possible = possible && unmovable.MatchString(was.Why) && was.Moved.Bytes == 0
	}
	if !possible {
		k.t.Errorf("%+v of a task with %d bytes on the device: %+v", r, task.resident, was)
	}
	task.asked = nil
	if task.resumes != nil && (r.Action == schedulers.Yield || r.Action == schedulers.Stop) { // what has left is to come back too, as far as it is used
		task.needs += min(task.resident-was.Resident, max(0, task.resumes.Needs().Referenced-task.needs))
	}
	task.resident = was.Resident
	task.begins = task.begins && was.Outcome != schedulers.Done
	k.revoked = append(k.revoked, was)
	k.short = false
}

// take revokes tasks that have no ticket, three times of four, and sometimes offers their processes host memory before.
func (k *taker) take() {
	for of, task := range k.tasks {
		if k.offers > 0 && k.random.IntN(8) == 0 {
			k.offers--
			files := k.area(1 + k.random.IntN(4))
			if err := k.server.OfferSwap(of.p, files...); err == nil {
				k.chunks += len(files)
			}
		}
		if k.random.IntN(32) == 0 {
			_ = k.server.RecallSwap(of.p)
		}
		if task.asked != nil || k.random.IntN(4) == 0 {
			continue
		}
		k.ticket++
		r := schedulers.Revocation{Action: []schedulers.Action{schedulers.Yield, schedulers.Evict, schedulers.Advise, schedulers.Stop}[k.random.IntN(4)], Bytes: k.bytes(), Deadline: time.Duration(max(0, k.random.IntN(60)-10)) * time.Millisecond}
		var to [16]byte
		if k.moves && k.random.IntN(2) == 0 {
			r.Action, r.Bytes, r.Device = schedulers.Move, task.bytes, (task.home+1+k.random.IntN(len(k.uuids)-1))%len(k.uuids)
			to = k.uuids[r.Device]
		}
		if err := k.server.Revoke(task.id, k.ticket, r, to); err == nil {
			task.asked, task.ticket, task.given = &r, k.ticket, 0
		}
	}
}

// bytes are none, some or more than any task has.
func (k *taker) bytes() int64 {
	switch k.random.IntN(5) {
	case 0:
		return 0
	case 1:
		return 1 + k.random.Int64N(64<<20)
	case 2:
		return math.MaxInt64
	}
	return k.random.Int64N(200) << 20
}

// swap gives the process chunks of the fakes' host memory, or sometimes none.
func (k *taker) swap(e event) {
	k.t.Helper()
	n := int(e.Bytes / k.chunk)
	asked, begins := false, false // a task that begins on the host needs what it asks for
	for _, task := range k.tasks {
		asked, begins = asked || task.asked != nil, begins || task.begins
	}
	wanted := n
	if asked && !begins && k.random.IntN(5) == 0 {
		n = 0
	}
	files := k.area(n)
	k.short = k.short || asked && len(files) < wanted // a real area can be used up
	k.chunks += giveSwap(k.t, e, files)
}

// fakeChunks makes chunks of so many bytes of the fakes' host memory, which are there until the test's end.
func fakeChunks(t *testing.T, n int, bytes int64) []int {
	t.Helper()
	var files []int
	for range n {
		fd, err := unix.MemfdCreate("fake CUDA memory of -1", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, bytes); err != nil {
			t.Fatal(err)
		}
		files = append(files, fd)
	}
	return files
}

// giveSwap gives the process these chunks, and returns how many it has got.
func giveSwap(t *testing.T, e event, files []int) int {
	t.Helper()
	if err := e.server.GiveSwap(e.Process, files...); err != nil {
		t.Logf("swap: %v", err) // it has ended meanwhile
		return 0
	}
	return len(files)
}

// count says how often memory was taken, and how much.
func (k *taker) count() (done int, freed int64) {
	for _, r := range k.revoked {
		if r.Outcome == schedulers.Done {
			done++
			freed += r.Moved.Bytes
		}
	}
	return done, freed
}

// wantSettled: the server has nothing of the process any more, and the process has not more host memory than it
// was given.
func (k *taker) wantSettled(p *lazyRun) {
	k.t.Helper()
	if len(k.tasks) != 0 {
		k.t.Errorf("%s: %d tasks are left: %v", p.program, len(k.tasks), p.events)
	}
	wantOver(k.t, p.events)
	for _, l := range p.lines {
		if at := strings.Index(l, " handles "); at >= 0 && strings.HasPrefix(l, "after: ") {
			var handles int
			if n, err := fmt.Sscanf(l[at:], " handles %d", &handles); n != 1 || handles > k.chunks {
				k.t.Errorf("%s: %s; %d chunks were given (%v)", p.program, l, k.chunks, err)
			}
		}
	}
}

// wantOnlySwapLeft: at its end the process has nothing but chunks of the swap area, each mapped once, and the fakes have
// seen nothing that a driver would not allow. Chunks that came together are in one reservation. One of them may be about to be mapped.
func (p *lazyRun) wantOnlySwapLeft() {
	p.t.Helper()
	for _, l := range p.lines {
		var allocations, handles, mappings, reservations, violations int
		at := strings.Index(l, " allocations ")
		if at < 0 || !strings.HasPrefix(l, "after: ") {
			continue
		}
		if n, err := fmt.Sscanf(l[at:], " allocations %d handles %d mappings %d reservations %d violations %d", &allocations, &handles, &mappings, &reservations, &violations); n != 5 ||
			allocations+violations > 0 || handles-mappings < 0 || handles-mappings > 1 || reservations > handles+1 {
			p.t.Errorf("left behind: %s (%v)\n%s", l, err, p.stderr.String())
		}
	}
}
