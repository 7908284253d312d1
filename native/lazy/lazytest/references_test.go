package lazytest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/schedulers"
)

// drivenChunk is the unit in which the memory of such a program moves, in bytes (native/lazy/tests/programs/references.cc).
const drivenChunk = 4 << 20

// driven is a program that does what the test says, line by line, under a scheduler that does what the
// test says (native/lazy/tests/programs/references.cc).
type driven struct {
	*lazyRun
	said    chan string
	task    schedulers.TaskID
	chunks  int // that the scheduler has left to give
	ticket  schedulers.Ticket
	refuses bool  // requests to resume
	stays   int64 // bytes of each request that stay on the host, as far as they may
	begun   schedulers.Task
	resumed [][2]int64                     // bytes to come, and referenced
	moved   map[schedulers.Direction]int64 // bytes
	shrunk  int64                          // bytes that it said to have given back
	room    int64                          // bytes that the device has free
	asked   int                            // how often it asked for the room
}

func startDriven(t *testing.T, version, sizes string, chunks int, env ...string) *driven {
	t.Helper()
	s, r := startRevoking(t, probe.Config{Chunk: drivenChunk, Window: moving.Window})
	p := prepareLazyAt(t, s, r, version, "lazy_program", "driven "+sizes, append([]string{movable}, env...)...).start()
	d := &driven{lazyRun: p, said: make(chan string), chunks: chunks, moved: map[schedulers.Direction]int64{}}
	go func() {
		defer close(d.said)
		for {
			line, err := p.out.ReadString('\n')
			if err != nil {
				return
			}
			d.said <- strings.TrimSuffix(line, "\n")
		}
	}()
	return d
}

// next serves the program until it says something, or until an event of the kind has come.
func (d *driven) next(kind string) (string, event) {
	d.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line, ok := <-d.said:
			if !ok {
				d.t.Fatalf("the program has ended:\n%s", d.stderr.String())
			}
			return line, event{}
		case next := <-d.r.events:
			e := *next
			switch e.Kind {
			case "moved":
				moved := e.Posted.(runner.TaskMoved)
				d.moved[moved.Direction] += moved.Moved.Bytes
			case "shrink":
				d.shrunk += e.Bytes
			case "room":
				d.asked++
				tellRoom(d.t, e, d.room)
			case "begin", "grow", "resume":
				d.task = e.ID
				if e.Kind == "begin" {
					d.begun = e.Asks()
				}
				if e.Kind == "resume" {
					d.resumed = append(d.resumed, [2]int64{e.Needs().Need, e.Needs().Referenced})
					if d.refuses {
						if err := e.refuse(schedulers.TooLarge, e.Needs().Referenced, 1, "too much"); err != nil {
							d.t.Error(err)
						}
						break
					}
				}
				stays := int64(0)
				switch e.Kind {
				case "begin":
					stays = e.Asks().Stays
				case "resume":
					stays = e.Needs().Stays
				}
				if err := e.grantPart(grantedDevice, fakeUUID(grantedDevice), min(stays, d.stays)); err != nil {
					d.t.Error(err)
				}
			case "more":
				n := min(d.chunks, int(e.Bytes/drivenChunk))
				d.chunks -= n
				giveSwap(d.t, e, fakeChunks(d.t, n, drivenChunk))
			}
			if e.Kind == kind {
				return "", e
			}
		case <-timeout:
			d.t.Fatalf("neither a line nor %q:\n%s", kind, d.stderr.String())
		}
	}
}

// does has the program do each of the lines, and wants its answer to the last one.
func (d *driven) does(want string, lines ...string) {
	d.t.Helper()
	var got string
	for _, line := range lines {
		if _, err := io.WriteString(d.in, line+"\n"); err != nil {
			d.t.Fatal(err)
		}
		got, _ = d.next("")
	}
	if got != want {
		d.t.Errorf("%q: the program says %q, want %q\n%s", lines, got, want, d.stderr.String())
	}
}

// take revokes memory.
func (d *driven) take(a schedulers.Action, mib int64) schedulers.Revoked {
	d.t.Helper()
	d.ticket++
	mustRevoke(d.t, d.server, d.task, d.ticket, schedulers.Revocation{Action: a, Bytes: mib << 20, Deadline: patience})
	_, e := d.next("revoked")
	if e.Answer().Outcome != schedulers.Done {
		d.t.Errorf("take %d MiB: %+v", mib, e.Answer())
	}
	return e.Answer()
}

// revoke takes memory, and wants so many MiB.
func (d *driven) revoke(a schedulers.Action, mib int64) {
	d.t.Helper()
	if was := d.take(a, mib); was.Moved.Bytes != mib<<20 {
		d.t.Errorf("take %d MiB: %+v", mib, was)
	}
}

// end ends the program. Nothing may be left but chunks of the swap area.
func (d *driven) end() {
	d.t.Helper()
	if err := d.in.(io.Closer).Close(); err != nil {
		d.t.Error(err)
	}
	for line := range d.said {
		d.lines = append(d.lines, line)
	}
	if err := d.cmd.Wait(); err != nil || d.stderr.Len() != 0 && !d.refuses {
		d.t.Errorf("%v\n%s", err, d.stderr.String())
	}
	d.wantOnlySwapLeft()
	for d.server.Settle(); len(d.r.events) > 0; {
		switch e := *<-d.r.events; e.Kind {
		case "moved":
			moved := e.Posted.(runner.TaskMoved)
			d.moved[moved.Direction] += moved.Moved.Bytes
		case "shrink":
			d.shrunk += e.Bytes
		}
	}
}

// A revocation takes what kernels were not given for longest, whatever way they are given it.
func TestLazyEvictsTheLeastRecentlyReferencedFirst(t *testing.T) {
	for _, way := range []string{"plus", "in", "apart", "silent"} {
		for _, version := range cudaVersions {
			t.Run(way+"/"+version, func(t *testing.T) {
				d := startDriven(t, version, "4,6,4", 10)
				d.does("done", way+" 1", way+" 2", way+" 0", way+" 2")
				d.does("where d dd d", "where")
				d.revoke(schedulers.Evict, 4)
				d.does("where d hd d", "where")
				d.revoke(schedulers.Evict, 2)
				d.does("where d hh d", "where")
				d.revoke(schedulers.Evict, 4)
				d.does("where h hh d", "where")
				d.does("values 1 1 2", "values")
				d.end()
			})
		}
	}
}

// Of what one launch was given, a revocation takes first what fewer launches were given, and what was taken comes back last where
// not all of it has room.
func TestLazyKeepsWhatMoreLaunchesReference(t *testing.T) {
	for kept, want := range map[int][3]string{
		0: {"where dd hd", "where dd hh", "where dd dh"},
		1: {"where hd dd", "where hh dd", "where dh dd"},
	} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			d := startDriven(t, "13", "8,8", 10)
			d.does("done", fmt.Sprintf("plus %d", kept), "both 0 1")
			d.revoke(schedulers.Evict, 4)
			d.does(want[0], "where")
			d.revoke(schedulers.Evict, 4)
			d.does(want[1], "where")
			d.revoke(schedulers.Yield, 8)
			d.stays = 4 << 20
			d.does(want[2], "both 0 1", "where")
			d.end()
		})
	}
}

// Of a freed allocation the process keeps what is on the device for its next one, and gives back the rest.
func TestLazyGivesBackWhatWasAway(t *testing.T) {
	d := startDriven(t, "13", "8,4", 10)
	d.does("done", "plus 0", "plus 1", "idle 300")
	d.revoke(schedulers.Evict, 4)
	d.does("where hd d", "where")
	d.does("done", "free 0")
	d.end()
	if d.shrunk != 4<<20 {
		t.Errorf("%d bytes are given back, want 4 MiB", d.shrunk)
	}
}

// Where nobody tells a kernel's parameters, the kernel may be given anything.
func TestLazyCountsAllAsReferencedByUnknownKernels(t *testing.T) {
	d := startDriven(t, "13", "4,8", 10, "FAKE_CUDA_FAIL=cudaGetFuncBySymbol:1=98")
	d.does("done", "plus 0", "idle 300", "plus 0", "silent 1")
	d.revoke(schedulers.Yield, 12)
	d.does("where - --", "where")
	d.does("done", "plus 0")
	if want := ([2]int64{12 << 20, 14 << 20}); len(d.resumed) != 1 || d.resumed[0] != want {
		t.Errorf("resumed with %+v, want %+v", d.resumed, want)
	}
	d.does("where d dd", "where")
	d.end()
}

// TASK_RESUME says what the latest launches were given, with the launch that waits, and what of it is on the
// host. This comes back, and no more: the scheduler has no room for it.
func TestLazyResumesWithWhatIsReferenced(t *testing.T) {
	d := startDriven(t, "13", "8,4,6", 10)
	d.does("done", "plus 0", "plus 1", "plus 2", "idle 300", "plus 1")
	d.revoke(schedulers.Yield, 18)
	d.does("where -- - --", "where")
	d.does("done", "plus 2")
	// 4 and 6 MiB; the granule of the small allocations is not given to kernels.
	if want := ([2]int64{10 << 20, 10 << 20}); len(d.resumed) != 1 || d.resumed[0] != want {
		t.Errorf("resumed with %+v, want %+v", d.resumed, want)
	}
	d.does("where hh d dd", "where")
	d.does("values 1 2 2", "values")
	d.end()
}

// Within what a process has on the device, each kernel finds there what it is given. The process never has
// more than the scheduler left it. What goes out is what was not referenced for longest.
func TestLazySwapsWithinTheProcess(t *testing.T) {
	for _, env := range []string{"FAKE_CUDA_KERNEL_US=30", "CASE_RECORD_LIMIT=0"} {
		t.Run(env, func(t *testing.T) {
			d := startDriven(t, "13", "8,8,8", 10, env)
			d.does("done", "plus 2", "plus 1", "plus 0")
			d.revoke(schedulers.Evict, 16)
			d.does("where dd hh hh", "where")
			d.does("0 "+fmt.Sprint(deviceMiB(8)), "touches", "where", "touches")
			for range 3 {
				d.does("where hh dd hh", "plus 1", "where")
				d.does("where hh hh dd", "in 2", "where")
				d.does("where dd hh hh", "silent 0", "where")
			}
			d.does("0 "+fmt.Sprint(deviceMiB(8)), "touches")
			d.does("values 4 4 4", "values")
			if len(d.resumed) != 0 {
				t.Errorf("asked to resume: %+v", d.resumed)
			}
			d.end()
			if want := int64(9 * 8 << 20); d.moved[schedulers.In] != want || d.moved[schedulers.Out] != want {
				t.Errorf("%d bytes came and %d left, by what the scheduler is told; want %d", d.moved[schedulers.In], d.moved[schedulers.Out], want)
			}
		})
	}
}

// mapped counts how often memory was put behind addresses so far, by the fakes' trace.
func mapped(t *testing.T, trace string) int {
	t.Helper()
	calls, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(calls), "cuMemMap")
}

// Kernels that take turns with more memory than the process has on the device get all of it once the device has room. They get it
// again after all has been taken, however many launches are between two uses.
func TestLazyAsksForWhatKernelsTakeTurnsWith(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	d := startDriven(t, "13", "8,8,8", 10, "FAKE_CUDA_TRACE="+trace)
	d.does("done", "plus 0", "plus 1", "plus 2")
	d.revoke(schedulers.Evict, 16)
	turns := func(rounds int) (moves int) {
		before := mapped(t, trace)
		for range rounds {
			d.does("done", "plus 0", "idle 100", "plus 1", "idle 100", "plus 2", "idle 100")
		}
		return mapped(t, trace) - before
	}
	if moves := turns(4); moves < 4*2*4 || len(d.resumed) != 0 || d.asked == 0 || d.asked > 6 { // it lacks 16 MiB, and moves 96
		t.Errorf("without room: %d chunks moved, asked %d times for the room, resumed with %+v", moves, d.asked, d.resumed)
	}
	d.room = 16 << 20
	turns(2)
	if moves := turns(2); moves != 0 || len(d.resumed) != 1 || d.resumed[0][0] != 16<<20 {
		t.Errorf("with room: %d chunks moved, resumed with %+v", moves, d.resumed)
	}
	d.does("where dd dd dd", "where")
	d.revoke(schedulers.Yield, 24)
	d.does("done", "idle 1")
	if moves := turns(2); moves != 0 || len(d.resumed) != 2 || d.resumed[1][0] != 24<<20 {
		t.Errorf("after all was taken: %d chunks moved, resumed with %+v", moves, d.resumed)
	}
	d.does("values 11 11 11", "values")
	d.end()
}

// deviceMiB is what the program has on the device besides its arrays: the context, the granule of small
// allocations, and the margins'.
func deviceMiB(arrays int) int { return arrays + 8 + 2 + 2 }

// What no kernel's parameters show is used where it is: slowly, and with equal results.
func TestLazyUsesMemoryOnTheHost(t *testing.T) {
	for name, test := range map[string]struct {
		chunks  int // of the swap area
		use     string
		touches int
	}{
		"a pointer in memory":                       {10, "behind 0", 2},
		"a graph":                                   {10, "graph 0", 2},
		"no host memory to change places":           {2, "plus 0", 2}, // two kernels, of a chunk each
		"more than fits, and the scheduler refuses": {10, "both 0 1", 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDriven(t, "13", "8,4", test.chunks)
			d.refuses = true
			d.does("done", "plus 0", "plus 1")
			d.revoke(schedulers.Evict, 8)
			d.does("0 "+fmt.Sprint(deviceMiB(12)), "touches")
			d.does("done", test.use, test.use)
			d.does("where hh d", "where")
			d.does(fmt.Sprintf("%d %d", 2*test.touches, deviceMiB(4)), "touches")
			if len(d.resumed) > 1 {
				t.Errorf("asked again: %+v", d.resumed)
			}
			d.end()
		})
	}
}

// A kernel that is given more than the process has on the device has the process ask for more.
func TestLazyAsksForMoreOfTheDevice(t *testing.T) {
	for _, use := range []string{"plus 0", "both 0 1"} {
		d := startDriven(t, "13", "8,4", 10)
		d.does("done", "plus 0", "plus 1")
		d.revoke(schedulers.Evict, 8)
		d.does("where dd d", use, "where")
		if want := ([2]int64{8 << 20, 14 << 20}); len(d.resumed) != 1 || d.resumed[0] != want { // with the granule of small allocations
			t.Errorf("%s: resumed with %+v, want %+v", use, d.resumed, want)
		}
		d.does("done", use, "plus 1")
		if len(d.resumed) != 1 {
			t.Errorf("%s: asked again: %+v", use, d.resumed)
		}
		d.end()
	}
}

// A program that needs more than a device has, but not in one kernel, begins with what its first kernel is given on
// the device, and as much of the rest as fits. Its kernels then find on the device what they are given.
func TestLazyBeginsOnTheHostWhatNoDeviceHasRoomFor(t *testing.T) {
	for _, version := range cudaVersions {
		d := startDriven(t, version, "8,8,8", 10, fmt.Sprintf("CASE_CAPACITY=%d,%d", 24<<20, 320<<20))
		d.does("where hd dd hh", "plus 1", "where")
		// 24 MiB, a granule and the device heap
		if d.begun.Bytes != 34<<20 || d.begun.Needs() != 24<<20 {
			t.Errorf("CUDA %s: asked for %+v", version, d.begun)
		}
		d.does("0 "+fmt.Sprint(deviceMiB(12)), "touches")
		d.does("where dd hd hh", "plus 0", "where")
		d.does("where hd hh dd", "in 2", "where")
		d.does("done", "both 0 1")
		d.does("values 2 2 1", "values")
		d.end()
	}
}

// What is stated of a program with an allowance for rounding is not more than a device has because of the allowance.
func TestLazyAsksForNoMoreThanADeviceHasBecauseOfRounding(t *testing.T) {
	for stated, want := range map[int64]int64{12: 28 + 8, 24: 36 + 8, 40: 40 + 8} {
		d := startDriven(t, "13", "8", 10, fmt.Sprintf("CASE_CAPACITY=%d,%d", 44<<20, 320<<20), fmt.Sprintf("CASE_FOOTPRINT=%d,1,32", stated<<20))
		d.does("done", "plus 0")
		if d.begun.Bytes != want<<20 {
			t.Errorf("with %d MiB stated it asks for %d bytes, want %d MiB", stated, d.begun.Bytes, want)
		}
		d.end()
	}
}

// Of what no device has room for a part comes, once. What the kernel is given for the second time stays where it is.
func TestLazyBringsAPartOfWhatDoesNotFit(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	d := startDriven(t, "13", "8,4,4", 10, "FAKE_CUDA_TRACE="+trace, fmt.Sprintf("CASE_CAPACITY=%d,%d", 20<<20, 320<<20))
	d.does("done", "plus 0", "plus 2", "plus 1")
	d.does("where dh d h", "both 0 1", "where")
	before, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	d.does("where dh d h", "both 0 1", "both 0 1", "where")
	after, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if calls := string(after[len(before):]); strings.Contains(calls, "cuMemMap") || strings.Contains(calls, "cuCtxSynchronize") {
		t.Errorf("it moves memory again, or waits:\n%s", calls)
	}
	d.does("values 4 4 1", "values")
	d.end()
}

// Once advised, kernels use memory on the host where it is, and nothing moves for them. When that is over, the next one asks for it.
func TestLazyUsesMemoryOnTheHostAsAdvised(t *testing.T) {
	d := startDriven(t, "13", "8,8,8", 10)
	d.does("done", "plus 2", "plus 1", "plus 0")
	d.revoke(schedulers.Advise, 16)
	d.does("where dd hh hh", "plus 1", "in 2", "both 1 2", "where")
	if len(d.resumed) != 0 || d.moved[schedulers.In] != 0 {
		t.Errorf("resumed with %+v, and moved %+v", d.resumed, d.moved)
	}
	d.revoke(schedulers.Advise, 0)
	d.does("where dd hh hh", "where")
	d.does("where dd dd dd", "plus 1", "where")
	if len(d.resumed) != 1 || d.resumed[0][0] != 16<<20 {
		t.Errorf("resumed with %+v, want 16 MiB to come", d.resumed)
	}
	d.does("values 1 4 3", "values")
	d.end()
}

// A task may begin, and resume, with a part of what it asks for. The least recently referenced stays on the host.
func TestLazyStartsWithAPart(t *testing.T) {
	d := startDriven(t, "13", "8,8", 10)
	d.stays = 8 << 20
	d.does("where hh dd", "plus 1", "plus 0", "where")
	d.stays = 4 << 20
	d.revoke(schedulers.Yield, 8)
	d.does("where dd dh", "plus 0", "where")
	d.does("where dd dh", "plus 1", "where")
	if want := ([2]int64{16 << 20, 18 << 20}); len(d.resumed) != 1 || d.resumed[0] != want { // with the granule of small allocations
		t.Errorf("resumed with %+v, want %+v", d.resumed, want)
	}
	d.does("values 2 2", "values")
	d.end()
}

// A task for which the swap area has no room begins when all of it has room on the device.
func TestLazyBeginsWholeWhereTheSwapAreaIsUsedUp(t *testing.T) {
	for _, version := range cudaVersions {
		d := startDriven(t, version, "8,8", 1)
		d.stays = 8 << 20
		d.does("where dd dd", "plus 1", "plus 0", "where")
		if d.begun.Stays != 0 {
			t.Errorf("CUDA %s: asked for %+v", version, d.begun)
		}
		d.does("values 1 1", "values")
		d.end()
	}
}

// Calls that name memory wrongly fail as they do without the lazy runtime, wherever the memory is (errors of
// Table 3-1 of the dissertation).
func TestLazyKeepsErrorsOfCallsWhenMemoryIsTaken(t *testing.T) {
	for _, version := range cudaVersions {
		alone := lazyCommand(t, version, "driven 6")
		alone.Stdin = strings.NewReader("plus 0\nerrors 0\nvalues\n")
		out, err := alone.Output()
		said := strings.Split(string(out), "\n")
		if err != nil || len(said) < 3 || !strings.HasPrefix(said[1], "errors ") || strings.Contains(said[1], " 0") {
			t.Fatalf("CUDA %s: %v: %q", version, err, out)
		}
		d := startDriven(t, version, "6", 10)
		d.does(said[1], "plus 0", "errors 0")
		if was := d.take(schedulers.Evict, 1); was.Moved.Bytes != 0 { // what "errors" has freed stayed granted
			t.Errorf("memory moved before memory that was free: %+v", was)
		}
		d.revoke(schedulers.Evict, 6)
		d.does(said[1], "errors 0")
		d.does("where hh", "where")
		d.does(said[2], "values")
		d.end()
	}
}

// alone leaves the device to the process, and wants all of its memory to be there soon: it moves nothing for itself any more.
func (d *driven) alone(arrays int, trace string) {
	d.t.Helper()
	d.room = 1 << 40
	before := 0
	for range 4 {
		before = mapped(d.t, trace)
		for i := range arrays {
			d.does("done", fmt.Sprintf("plus %d", i))
		}
	}
	if now := mapped(d.t, trace); now != before {
		d.t.Errorf("alone on the device it still moves %d chunks in each round", now-before)
	}
}

// Whatever the kernels are given, whatever is taken and however much host memory there is, the program computes
// the same. Once the device is its own, it moves no more.
func TestLazyComputesWithMemoryAnywhere(t *testing.T) {
	computesWithMemoryAnywhere(t, 4*chance.Seed(), chance.Count(4, 80), chance.Count(20, 50))
}

// computesWithMemoryAnywhere does so for so many seeds. Four have each way to run it once.
func computesWithMemoryAnywhere(t *testing.T, first uint64, count, steps int) {
	t.Helper()
	const arrays = 4
	for seed := first; seed < first+uint64(count); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 19))
			env := []string{"FAKE_CUDA_KERNEL_US=30", "CASE_RECORD_LIMIT=0"}[seed%2]
			trace := filepath.Join(t.TempDir(), "trace")
			d := startDriven(t, cudaVersions[seed/2%2], "6,4,2,8", random.IntN(8), env, "FAKE_CUDA_TRACE="+trace)
			var values [arrays]int
			d.does("done", "plus 0")
			values[0]++
			for range steps {
				i, j := random.IntN(arrays), random.IntN(arrays)
				way := []string{"plus", "plus", "in", "both", "silent", "behind", "graph", "idle", "values"}[random.IntN(9)]
				if random.IntN(3) == 0 {
					d.take([]schedulers.Action{schedulers.Evict, schedulers.Yield}[random.IntN(2)], random.Int64N(22))
				}
				switch way {
				case "idle":
					d.does("done", fmt.Sprintf("idle %d", random.IntN(300)))
					continue
				case "values":
					d.does("values "+strings.Trim(fmt.Sprint(values), "[]"), "values")
					continue
				case "both":
					values[j]++
				}
				values[i]++
				d.does("done", fmt.Sprintf("%s %d %d", way, i, j))
			}
			d.does("values "+strings.Trim(fmt.Sprint(values), "[]"), "values")
			d.alone(arrays, trace)
			for _, r := range d.resumed {
				if r[0] > r[1] || r[1] > 22<<20 {
					t.Errorf("resumed with %+v", r)
				}
			}
			d.end()
		})
	}
}
