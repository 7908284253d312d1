package probe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// taker is a scheduler that takes memory back at random moments from the processes of a lazyRun.
type taker struct {
	t       *testing.T
	server  *Server
	random  *rand.Rand
	uuids   [][16]byte        // of the devices
	chunks  func(n int) []int // of the swap area
	next    int               // the device of the next task
	home    map[uint64]int    // the devices of tasks, by the process's number
	tasks   map[uint64]uint64 // live ones: the server's number
	asked   map[uint64]bool   // that have a ticket
	waits   map[uint64]event  // that want to resume and have a ticket
	ticket  uint64
	revoked []Revoked
}

// newTaker has a server for one program. ready is called once the program can be started.
func newTaker(t *testing.T, seed uint64, ready func(*Server, recorder) *lazyRun) (*lazyRun, *taker) {
	t.Helper()
	s, r, _ := startRevoking(t, welcomed)
	ticks, ended := time.NewTicker(2*time.Millisecond), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticks.C:
				r.events <- event{kind: "tick"}
			case <-ended:
				return
			}
		}
	}()
	t.Cleanup(func() { ticks.Stop(); close(ended) })
	return ready(s, r).start(), &taker{t: t, server: s, random: rand.New(rand.NewPCG(seed, 1)), home: map[uint64]int{},
		tasks: map[uint64]uint64{}, asked: map[uint64]bool{}, waits: map[uint64]event{},
		uuids: [][16]byte{fakeUUID(0), fakeUUID(1)}, chunks: func(n int) []int { return fakeChunks(t, n) }}
}

// startTaking starts the program under a scheduler that takes memory back. The caller calls finish
// with answer.
func startTaking(t *testing.T, seed uint64, version, program string, env ...string) (*lazyRun, *taker) {
	t.Helper()
	return newTaker(t, seed, func(s *Server, r recorder) *lazyRun {
		return prepareLazyAt(t, s, r, version, "lazy_program", program, append([]string{movable}, env...)...)
	})
}

// answer serves the process, and takes memory back at most of the ticks.
func (k *taker) answer(t *testing.T, e event) {
	switch e.kind {
	case "begin":
		k.next = (k.next + 1) % len(k.uuids)
		k.home[e.task] = k.next
		if e.r.Flags&FlagDevice != 0 {
			k.home[e.task] = int(e.r.Device)
		}
		k.tasks[e.task] = e.c.idOf(e.task)
		k.grant(e)
	case "grow":
		k.grant(e)
	case "free":
		delete(k.tasks, e.task)
		delete(k.asked, e.task)
		delete(k.waits, e.task)
	case "resume":
		k.waits[e.task] = e
	case "revoked":
		delete(k.asked, e.task)
		k.revoked = append(k.revoked, e.was)
	case "more":
		k.swap(e)
	case "closed", "silent":
		clear(k.tasks)
		clear(k.asked)
		clear(k.waits)
	}
	for task, w := range k.waits {
		if !k.asked[task] {
			delete(k.waits, task)
			k.grant(w)
		}
	}
	if e.kind == "tick" {
		k.take()
	}
}

// grant gives a task the device that it has, or gets.
func (k *taker) grant(e event) {
	if err := e.c.Grant(e.task, k.home[e.task], k.uuids[k.home[e.task]]); err != nil {
		k.t.Logf("%s: %v", e.kind, err) // it has ended meanwhile
	}
}

// take revokes a task that has no ticket, three times of four.
func (k *taker) take() {
	for task, id := range k.tasks {
		if k.asked[task] || k.random.IntN(4) == 0 {
			continue
		}
		k.ticket++
		r := Revocation{Ticket: k.ticket, Action: []Action{Yield, Evict}[k.random.IntN(2)], Bytes: uint64(k.random.IntN(200)) << 20, Deadline: time.Duration(k.random.IntN(50)) * time.Millisecond}
		if err := k.server.Revoke(id, r); err == nil {
			k.asked[task] = true
		}
	}
}

// swap gives the process chunks of the fakes' host memory, or sometimes none.
func (k *taker) swap(e event) {
	k.t.Helper()
	n := int(e.bytes / welcomed.Chunk)
	if k.random.IntN(5) == 0 {
		n = 0
	}
	giveSwap(k.t, e, k.chunks(n))
}

// fakeChunks makes chunks of the fakes' host memory, which are there until the test's end.
func fakeChunks(t *testing.T, n int) []int {
	t.Helper()
	var files []int
	for range n {
		fd, err := unix.MemfdCreate("fake CUDA memory of -1", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, int64(welcomed.Chunk)); err != nil {
			t.Fatal(err)
		}
		files = append(files, fd)
	}
	return files
}

// giveSwap gives the process these chunks.
func giveSwap(t *testing.T, e event, files []int) {
	t.Helper()
	if err := e.c.GiveSwap(uint64(len(files))*welcomed.Chunk, 0, files...); err != nil {
		t.Logf("swap: %v", err) // it has ended meanwhile
	}
}

// count says how often memory was taken, and how much.
func (k *taker) count() (done int, freed uint64) {
	for _, r := range k.revoked {
		if r.Ended == Done {
			done++
			freed += r.Freed
		}
	}
	return done, freed
}

// wantOnlySwapLeft: at its end the process has nothing but chunks of the swap area, each mapped once,
// and the fakes have seen nothing that a driver would not allow.
func (p *lazyRun) wantOnlySwapLeft() {
	p.t.Helper()
	for _, l := range p.lines {
		var allocations, handles, mappings, reservations, violations int
		at := strings.Index(l, " allocations ")
		if at < 0 || !strings.HasPrefix(l, "after: ") {
			continue
		}
		if n, err := fmt.Sscanf(l[at:], " allocations %d handles %d mappings %d reservations %d violations %d", &allocations, &handles, &mappings, &reservations, &violations); n != 5 ||
			allocations+violations > 0 || handles != mappings || mappings != reservations {
			p.t.Errorf("left behind: %s (%v)\n%s", l, err, p.stderr.String())
		}
	}
}

// Programs compute the same while the scheduler takes their memory and gives it back. A revocation
// waits for the device, so that work is over earlier than the program has waited for. Two programs do
// not wait: they vary without the lazy runtime too, where streams execute by themselves.
func TestLazyKeepsResultsWhenMemoryIsTaken(t *testing.T) {
	vary := []string{"freed_in_capture", "reuse copy_2d"}
	for n, program := range append([]string{"swapped"}, programs...) {
		if slices.Contains(vary, program) {
			continue
		}
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			version := cudaVersions[n%2]
			p, k := startTaking(t, uint64(n), version, program)
			p.finish(k.answer)
			if want := native(t, version, program); p.err != nil || !slices.Equal(results(p.lines), results(want)) {
				t.Errorf("CUDA %s: %v\n%s\nstderr:\n%s", version, p.err, firstDifference(p.lines, want), p.stderr.String())
			}
			p.wantOnlySwapLeft()
			done, freed := k.count()
			t.Logf("%d of %d revocations done, %d MiB freed", done, len(k.revoked), freed>>20)
			if program == "swapped" && (done < 3 || freed == 0) {
				t.Errorf("%d revocations done, %d bytes freed: want some: %+v", done, freed, k.revoked)
			}
		})
	}
}

// The same for programs that are made up from a seed, also where streams execute by themselves. Those of
// several threads vary there without the lazy runtime too.
func TestLazyKeepsResultsOfRandomProgramsWhoseMemoryIsTaken(t *testing.T) {
	const each = 16
	for n := range 8 {
		version := cudaVersions[n%2]
		program := fmt.Sprintf("random %d,%d,1", 40001+each*n, each)
		var env []string
		if n/2%2 == 0 {
			env = append(env, "FAKE_CUDA_KERNEL_US=30")
		}
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p, k := startTaking(t, uint64(n), version, program, env...)
			p.finish(k.answer)
			if want := native(t, version, program); p.err != nil || !slices.Equal(p.lines, want) {
				t.Errorf("CUDA %s, %q: %v\n%s\nstderr:\n%s", version, env, p.err, firstDifference(p.lines, want), p.stderr.String())
			}
			done, freed := k.count()
			t.Logf("%d of %d revocations done, %d MiB freed", done, len(k.revoked), freed>>20)
		})
	}
}

// The thread that serves revocations makes no data race with the program's.
func TestLazyHasNoDataRaceWhenMemoryIsTaken(t *testing.T) {
	for n, program := range []string{"threads", "churn", "random 5,1,4"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p, k := newTaker(t, uint64(n), func(s *Server, r recorder) *lazyRun { return sanitizedAt(t, s, r, program, movable) })
			p.finish(k.answer).wantNoRaces()
			done, freed := k.count()
			t.Logf("%d of %d revocations done, %d MiB freed", done, len(k.revoked), freed>>20)
		})
	}
}
