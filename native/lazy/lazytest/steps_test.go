package lazytest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
)

// Programs of native/lazy/tests/programs/revoked.cc: what happens in the middle of a revocation, and of
// the way back.

// swapArea is host memory that the test hands out in chunks.
type swapArea struct {
	t      *testing.T
	chunk  int64 // bytes
	chunks []int // descriptors
}

// give answers a process's SwapMore.
func (a *swapArea) give(e event) {
	a.t.Helper()
	if err := e.server.GiveSwap(e.Process, a.make(int(e.Bytes/a.chunk))...); err != nil {
		a.t.Fatal(err)
	}
}

// make makes so many chunks.
func (a *swapArea) make(n int) []int {
	a.t.Helper()
	from := len(a.chunks)
	for range n {
		fd, err := unix.MemfdCreate("fake CUDA memory of -1", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, a.chunk); err != nil {
			a.t.Fatal(err)
		}
		a.chunks = append(a.chunks, fd)
	}
	return a.chunks[from:]
}

// wantUnmapped: nobody has the chunks mapped. Otherwise the kernel would not seal them.
func (a *swapArea) wantUnmapped() {
	a.t.Helper()
	for _, fd := range a.chunks {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != nil {
			a.t.Errorf("a chunk of host memory is mapped by somebody: %v", err)
		}
	}
}

// revocable is a program of revoked.cc under a scheduler that does what the test says, and grants
// everything else.
type revocable struct {
	*lazyRun
	moves int64 // bytes that can move
	area  swapArea
	task  event // its begin
}

// twoChunks and elevenChunks are the units in which memory moves: 10 MiB in a chunk of 8 MiB and one of 2 MiB, which is
// as small as one that moves can be; and 22 MiB in chunks of 2 MiB, which take more than one batch.
const (
	twoChunks    = 8 << 20
	elevenChunks = 2 << 20
)

// startRevocable returns when the program waits to be revoked. Beside the memory that can move it has 10 MiB, a
// granule and the device heap. A kernel is under way.
func startRevocable(t *testing.T, way string, env ...string) *revocable {
	t.Helper()
	return startRevocableIn(t, twoChunks, way, env...)
}

// startRevocableIn is the same with memory that moves in such chunks.
func startRevocableIn(t *testing.T, chunk int64, way string, env ...string) *revocable {
	t.Helper()
	moves := map[int64]int64{twoChunks: 10 << 20, elevenChunks: 22 << 20}[chunk]
	trace := filepath.Join(t.TempDir(), "trace")
	for _, e := range env {
		if own, ok := strings.CutPrefix(e, "FAKE_CUDA_TRACE="); ok {
			trace = own
		}
	}
	p := startServed(t, chunk, "revoked "+way, append([]string{fmt.Sprintf("MOVES_MIB=%d", moves>>20), "FAKE_CUDA_TRACE=" + trace}, env...)...)
	p.moves = moves
	p.wantSaid("bound")
	if way == "again" {
		awaitLook(t, trace)
	}
	return p
}

// startServed starts a program, and returns when its task has begun.
func startServed(t *testing.T, chunk int64, program string, env ...string) *revocable {
	t.Helper()
	return startServedAs(t, probe.Config{Chunk: chunk, Window: moving.Window}, program, env...)
}

func startServedAs(t *testing.T, how probe.Config, program string, env ...string) *revocable {
	t.Helper()
	return serve(t, how, "lazy_program", program, env...)
}

// serve is startServedAs of another binary with such programs.
func serve(t *testing.T, how probe.Config, binary, program string, env ...string) *revocable {
	t.Helper()
	s, r := startRevoking(t, how)
	p := &revocable{lazyRun: prepareLazyAt(t, s, r, "13", binary, program, append([]string{movable}, env...)...), area: swapArea{t: t, chunk: how.Chunk}}
	p.start()
	go func() {
		for {
			line, err := p.out.ReadString('\n')
			if err != nil {
				break
			}
			r.events <- said("said", strings.TrimSuffix(line, "\n"))
		}
		p.err = p.wait()
		s.Settle()
		r.events <- said("ended", "")
	}()
	p.task = p.next("begin")
	p.grant(p.task)
	return p
}

// awaitLook waits until the thread that looks at the device's work has put its event there (task/burst.cc). From then on it
// only asks about the event, so that the calls of a revocation have the same numbers each time.
func awaitLook(t *testing.T, trace string) {
	t.Helper()
	probetest.Await(t, "nobody looks at the device's work", func() bool {
		text, err := os.ReadFile(trace)
		return err == nil && strings.Contains(string(text), looking)
	})
}

// looking is what the thread asks again and again.
const looking = "cuEventQuery"

// next is the next event of these kinds. Others are answered.
func (p *revocable) next(kinds ...string) event {
	p.t.Helper()
	for {
		var e event
		select {
		case next := <-p.r.events:
			e = *next
		case <-time.After(patience):
			_ = p.cmd.Process.Kill()
			p.t.Fatalf("%s: no %s; events %v\nstdout %q", p.program, strings.Join(kinds, " or "), p.events, p.lines)
		}
		p.events = append(p.events, e)
		if e.Kind == "said" {
			p.lines = append(p.lines, e.Text)
		}
		switch {
		case slices.Contains(kinds, e.Kind):
			return e
		case e.Kind == "begin" || e.Kind == "grow" || e.Kind == "resume":
			p.grant(e)
		case e.Kind == "more":
			p.area.give(e)
		case e.Kind == "ended":
			p.t.Fatalf("%s: no %s; events %v\nstdout %q\nstderr:\n%s", p.program, strings.Join(kinds, " or "), p.events, p.lines, p.stderr.String())
		}
	}
}

func (p *revocable) grant(e event) {
	p.t.Helper()
	if err := e.grant(grantedDevice, fakeUUID(grantedDevice)); err != nil {
		p.t.Errorf("grant: %v", err)
	}
}

func (p *revocable) wantSaid(line string) {
	p.t.Helper()
	if e := p.next("said"); e.Text != line {
		p.t.Fatalf("the program said %q, want %q\nstderr:\n%s", e.Text, line, p.stderr.String())
	}
}

// wantSaidBeside is wantSaid for what a thread says while another asks for something.
func (p *revocable) wantSaidBeside(line, kind string) event {
	p.t.Helper()
	var asked, said event
	for asked.Kind == "" || said.Kind == "" {
		if e := p.next("said", kind); e.Kind == "said" {
			said = e
		} else {
			asked = e
		}
	}
	if said.Text != line {
		p.t.Fatalf("the program said %q, want %q", said.Text, line)
	}
	return asked
}

// revoke takes all of the memory. The answer comes as an event.
func (p *revocable) revoke(action schedulers.Action) {
	p.t.Helper()
	p.revokeIn(patience, action)
}

func (p *revocable) revokeIn(deadline time.Duration, action schedulers.Action) {
	p.t.Helper()
	mustRevoke(p.t, p.server, p.task.ID, 1, schedulers.Revocation{Action: action, Bytes: 1 << 40, Deadline: deadline})
}

// revoked has all of the memory taken.
func (p *revocable) revoked(action schedulers.Action) schedulers.Revoked {
	p.t.Helper()
	p.revoke(action)
	return p.next("revoked").Answer()
}

func (p *revocable) mustBeTaken(action schedulers.Action) {
	p.t.Helper()
	if was := p.revoked(action); was.Outcome != schedulers.Done || was.Moved.Bytes != p.moves || was.Resident != 10<<20 || was.Fixed != 10<<20 {
		p.t.Fatalf("%s: revoked %+v", p.program, was)
	}
}

// end is the process's end. Nothing of it is left on the server, and nothing in host memory.
func (p *revocable) end() {
	p.t.Helper()
	p.next("ended")
	for len(p.r.events) > 0 {
		p.events = append(p.events, *<-p.r.events)
	}
	wantOver(p.t, append([]event{p.task}, p.events...))
	p.area.wantUnmapped()
}

// endsWell: the process ends by itself with this output, and says nothing to the user. All that is left on
// the device is what the test has given.
func (p *revocable) endsWell(lines ...string) {
	p.t.Helper()
	p.end()
	p.mustSucceed()
	if p.stderr.Len() > 0 {
		p.t.Errorf("%s %q: stderr:\n%s", p.program, p.env, p.stderr.String())
	}
	if got := results(p.lines); !slices.Equal(got, append([]string{"bound"}, lines...)) {
		p.t.Errorf("%s %q: output %q, want %q", p.program, p.env, got, lines)
	}
	p.wantOnlySwapLeft()
}

// shown is what such a program shows when its kernels have added so much.
func (p *revocable) shown(by int64) string {
	once, _ := showns.LoadOrStore([2]int64{p.moves, by}, sync.OnceValue(func() string {
		all := int64(0)
		for i := range p.moves / 4 {
			all = all*31 + 7 + i*i%97 + by
		}
		return fmt.Sprintf("x %d", all)
	}))
	return once.(func() string)()
}

// showns has a func() string for what moves and how much is added.
var showns sync.Map

// A call that is under way may need the library's lock before it is over, and gets it.
func TestLazyIsAskedDuringACallThatLocks(t *testing.T) {
	p := startRevocable(t, "larger")
	p.goOn()
	p.wantSaid("launching")
	p.revokeIn(patience/2, schedulers.Yield)
	p.goOn()
	p.wantSaid("launched")
	if was := p.next("revoked").Answer(); was.Outcome != schedulers.Done {
		t.Errorf("%+v", was)
	}
	p.goOn()
	p.endsWell("launching", "launched", p.shown(2))
}

// Memory goes and comes back, with work under way. A process asks for as much host memory as it needs,
// whatever the scheduler wants to have.
func TestLazyMemoryGoesAndComesBack(t *testing.T) {
	p := startRevocable(t, "again")
	p.mustBeTaken(schedulers.Yield)
	p.goOn()
	if e := p.next("resume"); e.Needs().Need != p.moves {
		t.Errorf("resume %+v", e.Needs())
	} else {
		p.grant(e)
	}
	p.wantSaid("computed")
	p.mustBeTaken(schedulers.Evict)
	p.goOn()
	p.endsWell("computed", p.shown(6))
	if more := p.of("more"); len(more) != 1 || more[0].Bytes != 24<<20 {
		t.Errorf("asked for host memory: %v", more)
	}
}

// wantMapped: the process has so many chunks of host memory mapped at addresses of the program's, beside the windows of all.
func (p *revocable) wantMapped(chunks int) {
	p.t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	if n := strings.Count(string(maps), "memfd:fake CUDA memory of -1") - len(p.area.chunks); n != chunks {
		p.t.Errorf("%d chunks are mapped from the host, want %d; maps:\n%s", n, chunks, maps)
	}
}

// What has left the device is mapped from the host only where the program can reach it: while it may give work, and before
// a call that may look at it. The end of the wait maps what does not come back.
func TestLazyMapsFromTheHostOnlyWhatCanBeReached(t *testing.T) {
	p := startRevocable(t, "names")
	p.mustBeTaken(schedulers.Yield)
	p.wantMapped(0)
	p.goOn()
	p.wantSaid("named")
	p.wantMapped(2)
	p.goOn()
	p.endsWell("named", p.shown(1))

	p = startRevocable(t, "again")
	p.mustBeTaken(schedulers.Evict)
	p.wantMapped(2)
	p.goOn()
	p.wantSaid("computed")
	p.goOn()
	p.endsWell("computed", p.shown(6))

	p = startRevocable(t, "again")
	p.mustBeTaken(schedulers.Yield)
	p.goOn()
	e := p.next("resume")
	p.wantMapped(0)
	if err := e.refuse(schedulers.DeviceFull, p.moves, 0, "device 1 is full"); err != nil {
		t.Fatal(err)
	}
	p.wantSaid("computed")
	p.wantMapped(2)
	p.goOn()
	p.end()
	p.mustSucceed()
	if got := results(p.lines); !slices.Equal(got, []string{"bound", "computed", p.shown(6)}) {
		t.Errorf("refused: output %q", got)
	}
}

// The device reaches host memory of a batch in one call: here of eight chunks before they are copied, and of the others
// while they are.
func TestLazyReachesHostMemoryWhileItCopies(t *testing.T) {
	var before, after int
	copies := false
	for _, s := range callSteps(t, elevenChunks) {
		switch {
		case s.after:
		case s.call == "cuMemcpyAsync":
			copies = true
		case s.call == "cuMemSetAccess" && copies:
			after++
		case s.call == "cuMemSetAccess":
			before++
		}
	}
	if before != 1 || after != 1 {
		t.Errorf("the device reaches host memory in %d calls before the first copy, and in %d after it", before, after)
	}
}

// callsIn is how often the trace of the fakes has the call.
func callsIn(t *testing.T, trace, call string) int {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n"+call)
}

// A process whose memory is to be taken gets host memory before, and its device reaches it then. It asks for none, and the
// device reaches none, when memory is taken.
func TestLazyIsReadyForARevocation(t *testing.T) {
	const chunk = elevenChunks
	trace := filepath.Join(t.TempDir(), "trace")
	accesses := func() int { return callsIn(t, trace, "cuMemSetAccess") }
	p := startRevocableIn(t, chunk, "again", "FAKE_CUDA_TRACE="+trace)
	before := accesses()
	p.offers(fakeChunks(t, 8, chunk), fakeChunks(t, 4, chunk))
	probetest.Await(t, "the device does not reach what was offered", func() bool { return accesses() >= before+2 })
	p.mustBeTaken(schedulers.Yield)
	if after := accesses(); after != before+2 || len(p.area.chunks) > 0 {
		t.Errorf("when memory is taken the device reaches host memory in %d calls, and the process asks for %d chunks", after-before-2, len(p.area.chunks))
	}
	p.goOn()
	p.wantSaid("computed")
	p.goOn()
	p.end()
	p.mustSucceed()
}

// offers offers the process host memory, each time when it has read what came before.
func (p *revocable) offers(chunks ...[]int) {
	p.t.Helper()
	for _, files := range chunks {
		var err error
		probetest.Await(p.t, "the process does not read what was sent", func() bool {
			err = p.server.OfferSwap(p.task.Process, files...)
			return err == nil || !strings.HasSuffix(err.Error(), "it has not read yet what was sent before")
		})
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// recalled is how many bytes the process gives back when it is asked for what it was offered.
func (p *revocable) recalled() int64 {
	p.t.Helper()
	if err := p.server.RecallSwap(p.task.Process); err != nil {
		p.t.Fatal(err)
	}
	return p.next("returned").Bytes
}

// What was offered and is not used goes back when it is recalled. The process does not have it mapped any more.
func TestLazyGivesBackWhatItDoesNotUse(t *testing.T) {
	const chunk = elevenChunks
	p := startRevocableIn(t, chunk, "again")
	p.offers(p.area.make(8), p.area.make(8), p.area.make(8))
	p.mustBeTaken(schedulers.Yield) // chunks are reached eight at a time
	if back := p.recalled(); back != 8*chunk {
		t.Fatalf("%d bytes came back. 24 chunks were offered, and the process needs 11", back)
	}
	returned := swapArea{t: t, chunks: p.area.chunks[16:]}
	returned.wantUnmapped()
	if back := p.recalled(); back != 0 {
		t.Errorf("%d bytes came back twice", back)
	}
	for n := range 3 { // nothing of it piles up
		p.offers(p.area.make(8), p.area.make(3))
		if back := p.recalled(); back != 11*chunk {
			t.Errorf("%d bytes came back the %d. time, of 11 chunks", back, n+2)
		}
	}
	p.goOn()
	p.wantSaid("computed")
	p.goOn()
	p.endsWell("computed", p.shown(6))
	if last := p.lines[len(p.lines)-1]; !strings.Contains(last, " handles 16 mappings 16 reservations 2 ") {
		t.Errorf("two offers of eight chunks were used; left: %s", last)
	}
}

// Memory that was offered once goes back although the driver cannot unmap all of it: not what is mapped still.
func TestLazyKeepsWhatTheDriverDoesNotUnmap(t *testing.T) {
	const chunk = elevenChunks
	p := startRevocableIn(t, chunk, "again", "FAKE_CUDA_FAIL=cuMemUnmap:3=1")
	p.offers(p.area.make(8))
	if back := p.recalled(); back != 2*chunk {
		t.Fatalf("%d bytes came back; want two chunks, because the third is not unmapped", back)
	}
	p.mustBeTaken(schedulers.Yield)
	if n := len(p.area.chunks); n <= 8 || n > 16 {
		t.Errorf("the process asked for %d chunks beside the six that it kept, for eleven", n-8)
	}
	p.goOn()
	p.wantSaid("computed")
	p.goOn()
	p.end()
	p.mustSucceed()
}

// A process that ends waits until the driver has made what was offered, because the driver ends too.
func TestLazyEndsWhileHostMemoryIsOffered(t *testing.T) {
	const chunk = elevenChunks
	trace := filepath.Join(t.TempDir(), "trace")
	imports := func() int { return callsIn(t, trace, "cuMemImportFromShareableHandle") }
	p := startRevocableIn(t, chunk, "again", "FAKE_CUDA_TRACE="+trace, "FAKE_CUDA_DELAY_US=cuMemImportFromShareableHandle=200000")
	if err := p.server.OfferSwap(p.task.Process, fakeChunks(t, 8, chunk)...); err != nil {
		t.Fatal(err)
	}
	probetest.Await(t, "nothing is imported", func() bool { return imports() > 0 })
	p.goOn()
	p.wantSaid("computed")
	p.goOn()
	p.end()
	p.mustSucceed()
	if n := imports(); n != 8 {
		t.Errorf("the process has ended when %d of 8 chunks were imported", n)
	}
}

// A program whose memory cannot be mapped ends before it gives work to the device.
func TestLazyEndsWhereTheDriverMapsNothing(t *testing.T) {
	steps := callSteps(t, twoChunks)
	first := steps[slices.IndexFunc(steps, func(s callStep) bool { return s.after && s.call == "cuMemSetAccess" })]
	p := startRevocable(t, "again", fmt.Sprintf("FAKE_CUDA_FAIL=cuMemSetAccess:%d+=2", first.nth))
	p.mustBeTaken(schedulers.Yield)
	p.goOn()
	e := p.next("resume")
	if err := e.refuse(schedulers.DeviceFull, p.moves, 0, "device 1 is full"); err != nil {
		t.Fatal(err)
	}
	if e := p.next("oom"); e.Bytes != p.moves || e.Text != "mapping memory of the host" {
		t.Errorf("reported %+v", e)
	}
	p.end()
	if p.err == nil || p.err.Error() != "signal: aborted" || !strings.Contains(p.stderr.String(), "no memory left for page tables") {
		t.Errorf("ended: %v; stderr:\n%s", p.err, p.stderr.String())
	}
	if got := results(p.lines); !slices.Equal(got, []string{"bound"}) {
		t.Errorf("output %q", got)
	}
}

// A part of the program that calls a function past the gate may give work at once, so all memory is mapped then.
func TestLazyMapsMemoryBeforeWorkCanPassTheGate(t *testing.T) {
	p := startRevocable(t, "looks_up")
	p.goOn()
	p.wantSaid("looked up")
	p.mustBeTaken(schedulers.Yield)
	p.goOn()
	p.wantSaid("called")
	p.wantMapped(2)
	p.goOn()
	p.endsWell("looked up", "called", p.shown(1))
}

// No memory leaves while CUDA may look at it, in a call that gives no work.
func TestLazyTakesNoMemoryWhileCUDAMayLookAtIt(t *testing.T) {
	p := startRevocable(t, "interrupted")
	p.goOn()
	p.wantSaid("calling")
	p.revokeIn(2*time.Second, schedulers.Yield)
	if was := p.next("revoked").Answer(); was.Outcome != schedulers.Busy || was.Moved.Bytes != 0 {
		_ = p.cmd.Process.Kill()
		t.Fatalf("revoked %+v", was)
	}
	p.goOn()
	p.wantSaid("called")
	p.mustBeTaken(schedulers.Yield)
	p.goOn()
	p.endsWell("calling", "called", p.shown(1))
}

// What the driver does not map on the way back is not given to a kernel either.
func TestLazyEndsWhereTheDriverMapsNothingOnTheWayBack(t *testing.T) {
	steps := callSteps(t, twoChunks)
	for _, call := range []string{"cuMemMap", "cuMemSetAccess"} {
		first := steps[slices.IndexFunc(steps, func(s callStep) bool { return s.after && s.call == call })]
		p := startRevocable(t, "again", fmt.Sprintf("FAKE_CUDA_FAIL=%s:%d+=2", call, first.nth))
		p.mustBeTaken(schedulers.Yield)
		p.goOn()
		if e := p.next("oom", "said"); e.Kind != "oom" || e.Bytes != p.moves || e.Text != "mapping memory of the host" {
			_ = p.cmd.Process.Kill()
			t.Errorf("%s: %+v", call, e)
			continue
		}
		p.end()
		if p.err == nil || p.err.Error() != "signal: aborted" {
			t.Errorf("%s: ended: %v; stderr:\n%s", call, p.err, p.stderr.String())
		}
	}
}

// Memory that is away is the device's for the program, also where it asks the driver.
func TestLazyMemoryThatIsAwayIsTheDevices(t *testing.T) {
	p := startRevocable(t, "asks")
	p.mustBeTaken(schedulers.Yield)
	p.goOn()
	p.endsWell(fmt.Sprintf("device %d type 2 at %d of %d same 1", grantedDevice, p.moves/2, p.moves), p.shown(1))
}

// An allocation brings memory to the device, so it waits for the permission that was taken, also with room in the grant.
func TestLazyAllocationWaitsForPermission(t *testing.T) {
	for _, way := range []string{"allocates", "allocates_from_driver", "allocates_managed", "allocates_array"} {
		p := startRevocable(t, way)
		p.mustBeTaken(schedulers.Yield)
		p.goOn()
		if e := p.next("resume", "said"); e.Kind != "resume" {
			t.Errorf("%s: %q without permission", way, e.Text)
		} else {
			p.grant(e)
			p.wantSaid("allocated")
		}
		p.goOn()
		p.endsWell("allocated", p.shown(1))
	}
}

// A task whose last object is freed, and a device that is reset, while a thread waits to give the task
// work: what is over is over for the scheduler too.
func TestLazyTaskEndsWhileAThreadResumes(t *testing.T) {
	for way, events := range map[string]string{"free": "begin more revoked resume free begin free gone", "reset_in_thread": "begin more revoked resume free begin gone"} {
		p := startRevocable(t, way)
		p.mustBeTaken(schedulers.Yield)
		p.goOn()
		waiting := p.wantSaidBeside("launching", "resume")
		p.goOn()
		for p.next("said").Text != "meanwhile" {
		}
		p.grant(waiting)
		p.endsWell("launching", "meanwhile", "noticed 1")
		p.wantHeard(events)
	}
}

// wantHeard: the scheduler has heard these events.
func (p *revocable) wantHeard(kinds string) {
	p.t.Helper()
	p.events = slices.DeleteFunc(p.events, func(e event) bool { return e.Kind == "said" || e.Kind == "ended" || e.Kind == "grow" })
	p.wantEvents(kinds)
}

func TestLazyResetsADeviceWhoseMemoryIsTaken(t *testing.T) {
	for _, action := range []schedulers.Action{schedulers.Yield, schedulers.Evict} {
		p := startRevocable(t, "reset")
		p.mustBeTaken(action)
		p.goOn()
		p.endsWell(p.shown(0))
		p.wantHeard("begin more revoked free begin free gone")
	}
}

// A thread that waits for more memory keeps nobody from taking what the task has.
func TestLazyMemoryIsTakenWhileTheTaskGrows(t *testing.T) {
	p := startRevocable(t, "grow")
	p.goOn()
	waiting := p.wantSaidBeside("growing", "grow")
	p.mustBeTaken(schedulers.Yield)
	p.goOn()
	p.grant(waiting)
	p.endsWell("growing", "more 1", p.shown(1))
}

// Memory that is not granted yet, or not made yet, can leave the device as soon as it is there: it never counts as what cannot.
func TestLazyMemoryThatIsNotMadeYetIsNotFixed(t *testing.T) {
	const fixed = 10 << 20
	p := startRevocable(t, "grow")
	p.goOn()
	waiting := p.wantSaidBeside("growing", "grow")
	if a, _ := p.server.Activity(p.task.Process); a.Fixed != fixed || a.Resident != fixed+p.moves {
		t.Errorf("while it waits to grow it shows %+v", a)
	}
	p.revoke(schedulers.Evict)
	more := p.next("more") // the submit gate is closed
	p.grant(waiting)
	p.area.give(more)
	if was := p.next("revoked").Answer(); was.Outcome != schedulers.Done || was.Moved.Bytes != p.moves || was.Resident != fixed+p.moves || was.Fixed != fixed {
		t.Errorf("revoked in the middle of a growth: %+v", was)
	}
	p.goOn()
	p.endsWell("growing", "more 1", p.shown(1))
}

// A kernel faults while the memory is on the host: the next revocation is told so, and the program sees
// the error.
func TestLazyFaultsWhileItsMemoryIsTaken(t *testing.T) {
	p := startRevocable(t, "fault")
	p.mustBeTaken(schedulers.Evict)
	p.goOn()
	p.wantSaid("faulting")
	if was := p.revoked(schedulers.Yield); was.Outcome != schedulers.Unable || was.Why != "the device has failed with error 700" || was.Resident != 10<<20 {
		t.Errorf("revoked %+v", was)
	}
	p.goOn()
	p.endsWell("faulting", "synchronized 700", "freed 700")
	if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 {
		t.Errorf("events %v", p.events)
	}
}

// The process forks, starts another program or ends while a thread of the library waits for host memory, in the
// middle of a revocation.
func TestLazyEndsInTheMiddleOfARevocation(t *testing.T) {
	for _, way := range []string{"fork", "exec", "exit", "exit_in_thread", "reset"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := startRevocable(t, way)
			p.revoke(schedulers.Yield)
			waiting := p.next("more")
			p.goOn()
			switch way {
			case "fork":
				p.wantSaid("forked")
				p.area.give(waiting)
				if was := p.next("revoked").Answer(); was.Outcome != schedulers.Done || was.Moved.Bytes != p.moves {
					t.Errorf("revoked %+v", was)
				}
				p.goOn()
				p.endsWell("forked", p.shown(1))
			case "exec":
				p.endsWell(results(native(t, "13", "basic"))...)
			case "reset": // which waits for the revocation
				p.area.give(waiting)
				p.endsWell(p.shown(0))
			default:
				p.endsWell()
			}
		})
	}
}

// The scheduler ends in the middle: the program goes on with its memory where it is.
func TestLazyLosesItsSchedulerInTheMiddleOfARevocation(t *testing.T) {
	p := startRevocable(t, "again")
	p.revoke(schedulers.Yield)
	p.next("more")
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	p.goOn()
	p.wantSaid("computed")
	p.goOn()
	p.end()
	p.mustSucceed()
	if got := results(p.lines); !slices.Equal(got, []string{"bound", "computed", p.shown(6)}) || !strings.Contains(p.stderr.String(), "lost the scheduler") {
		t.Errorf("output %q\nstderr:\n%s", got, p.stderr.String())
	}
	p.wantOnlySwapLeft()
}

// The scheduler does not know of memory of the lazy runtime's in a task that the program has asked for.
func TestLazyTakesNoMemoryForTheProgramsOwnTask(t *testing.T) {
	s, r := startRevoking(t, moving)
	p := prepareLazyAt(t, s, r, "13", partly, "taken", movable).start()
	grant(t, r.next(t, "begin"))
	p.hear("lazy 1")
	own := r.next(t, "begin")
	grant(t, own)
	p.hear("both")
	mustRevoke(t, s, own.ID, 3, yielding)
	if was := r.next(t, "revoked").Answer(); was.Outcome != schedulers.Unable || was.Why != "the program itself has asked for the task" {
		t.Errorf("revoked %+v", was)
	}
	p.goOn()
	p.finish(grant)
	p.mustSucceed()
	p.wantLine("static 1")
	p.wantNothingLeft()
}

// callStep is a call of CUDA's in the middle of a revocation or of the way back.
type callStep struct {
	call  string
	nth   int  // of the process
	after bool // the memory has been taken
}

// callSteps are all calls that a process makes from a revocation to the end of the way back.
func callSteps(t *testing.T, chunk int64) []callStep {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	counts := map[string]int{}
	var all []callStep
	read := 0
	more := func(keep, after bool) {
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text[read:])) {
			call := strings.Fields(line)[0]
			counts[call]++
			if keep && call != looking && call != "cuThreadExchangeStreamCaptureMode" {
				all = append(all, callStep{call, counts[call], after})
			}
		}
		read = len(text)
	}
	p := startRevocableIn(t, chunk, "again", "FAKE_CUDA_TRACE="+trace)
	more(false, false)
	p.mustBeTaken(schedulers.Yield)
	more(true, false)
	p.goOn()
	p.wantSaid("computed")
	more(true, true)
	p.goOn()
	p.end()
	if len(all) < 20 {
		t.Fatalf("steps %v", all)
	}
	return all
}

// reach brings the program to the step.
func (s callStep) reach(t *testing.T, chunk int64, setting string) *revocable {
	t.Helper()
	p := startRevocableIn(t, chunk, "again", fmt.Sprintf(setting, s.call, s.nth))
	if s.after {
		p.mustBeTaken(schedulers.Yield)
		p.goOn()
	} else {
		p.revoke(schedulers.Yield)
	}
	return p
}

// firstSteps leaves the first call of each function, before the memory has been taken and after.
func firstSteps(all []callStep) []callStep {
	return firstOfEach(all, func(s callStep) callStep { return callStep{call: s.call, after: s.after} })
}

func allSteps(all []callStep) []callStep { return all }

// The process is killed in each function.
func TestLazyIsKilledInTheMiddleOfARevocation(t *testing.T) {
	isKilledInTheMiddleOfARevocation(t, firstSteps)
}

func isKilledInTheMiddleOfARevocation(t *testing.T, of func([]callStep) []callStep) {
	t.Helper()
	for _, s := range of(callSteps(t, twoChunks)) {
		t.Run(fmt.Sprint(s.call, " ", s.nth), func(t *testing.T) {
			t.Parallel()
			p := s.reach(t, twoChunks, "FAKE_CUDA_KILL=%s:%d")
			p.mustBeKilled()
		})
	}
}

// mustBeKilled: the process has been killed, which the scheduler learns, and nothing else.
func (p *revocable) mustBeKilled() {
	p.t.Helper()
	p.end()
	if p.err == nil || p.err.Error() != "signal: killed" {
		p.t.Errorf("ended: %v; events %v", p.err, p.events)
	}
	if e := p.of("gone"); len(e) != 1 || e[0].Posted.(runner.ProcessGone).SaidBye || len(p.of("misbehaved")) > 0 {
		p.t.Errorf("closed: %v", e)
	}
}

// The driver refuses a call: less memory moves, or it stays on the host, and nothing is lost. The memory moves in
// two batches.
func TestLazyMemoryStaysWhereTheDriverRefuses(t *testing.T) {
	memoryStaysWhereTheDriverRefuses(t, firstSteps)
}

func memoryStaysWhereTheDriverRefuses(t *testing.T, of func([]callStep) []callStep) {
	t.Helper()
	const chunk = elevenChunks
	moves := regexp.MustCompile(`^cu(Mem|StreamCreate|Event)`)
	for _, s := range of(callSteps(t, chunk)) {
		if !moves.MatchString(s.call) || s.call == "cuMemRelease" || s.call == "cuEventDestroy_v2" {
			continue
		}
		t.Run(fmt.Sprint(s.call, " ", s.nth), func(t *testing.T) {
			t.Parallel()
			p := s.reach(t, chunk, "FAKE_CUDA_FAIL=%s:%d=2")
			if !s.after {
				if was := p.next("revoked").Answer(); was.Outcome != schedulers.Done || was.Moved.Bytes+was.Resident != p.moves+(10<<20) {
					t.Errorf("revoked %+v", was)
				}
				p.goOn()
			}
			p.wantSaid("computed")
			p.goOn()
			p.endsWell("computed", p.shown(6))
		})
	}
}
