package lazytest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/schedulers"
)

// Programs of native/lazy/tests/programs/moved.cc, and others: the scheduler moves a process to another device.

// tellToMove tells the process to go to a device.
func (p *revocable) tellToMove(ticket schedulers.Ticket, to int) {
	p.t.Helper()
	r := schedulers.Revocation{Action: schedulers.Move, Bytes: 1 << 40, Deadline: patience, Device: to}
	if err := p.server.Revoke(p.task.ID, ticket, r, fakeUUID(to)); err != nil {
		p.t.Fatal(err)
	}
}

// move is tellToMove, and returns the answer.
func (p *revocable) move(ticket schedulers.Ticket, to int) schedulers.Revoked {
	p.t.Helper()
	p.tellToMove(ticket, to)
	return p.next("revoked").Answer()
}

// mustMove moves the process, which has something on its device.
func (p *revocable) mustMove(ticket schedulers.Ticket, to int) {
	p.t.Helper()
	if was := p.move(ticket, to); was.Outcome != schedulers.Done || was.Moved.Bytes == 0 || was.Resident < was.Moved.Bytes/2 {
		p.t.Fatalf("%s: moved to %d: %+v", p.program, to, was)
	}
}

// startMoved returns when a program of moved.cc waits to be moved.
func startMoved(t *testing.T, way string, env ...string) *revocable {
	t.Helper()
	p := startServed(t, twoChunks, "moved "+way, env...)
	p.wantSaid("bound")
	return p
}

// endsAsNative: the process ends by itself, has said what it says without the library, and has nothing left.
func (p *revocable) endsAsNative() {
	p.t.Helper()
	p.saysAsNative()
	if p.stderr.Len() > 0 {
		p.t.Errorf("%s %q: stderr:\n%s", p.program, p.env, p.stderr.String())
	}
	p.wantOnlySwapLeft()
}

func (p *revocable) saysAsNative() {
	p.t.Helper()
	p.end()
	p.mustSucceed()
	alone := lazyCommand(p.t, p.version, p.program)
	alone.Stdin = strings.NewReader("\n\n")
	text, err := alone.Output()
	if err != nil {
		p.t.Fatal(err)
	}
	if got, want := results(p.lines), results(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")); !slices.Equal(got, want) {
		p.t.Errorf("%s %q: output %q, want %q\nstderr:\n%s", p.program, p.env, got, want, p.stderr.String())
	}
}

// What a process has on its device goes with it, or is made again: between devices that reach each other's memory, and through the
// host. It comes back as well.
func TestLazyMoves(t *testing.T) {
	for _, way := range []string{"memory", "streams", "variables", "pointers", "page_locked", "in_order", "beyond", "settings"} {
		for _, env := range []string{"FAKE_CUDA_PEERS=1", "FAKE_CUDA_PEERS=0"} {
			t.Run(way+" "+env, func(t *testing.T) {
				t.Parallel()
				p := startMoved(t, way, env)
				p.mustMove(1, 0)
				p.computes()
				p.mustMove(2, grantedDevice)
				p.goOn()
				p.endsAsNative()
			})
		}
	}
}

// Preferences of the program's are set again too. The fakes tell nothing of them.
func TestLazyMovesWithPreferences(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	p := startMoved(t, "settings", "FAKE_CUDA_TRACE="+trace)
	before := len(tracedCalls(t, trace))
	p.mustMove(1, 0)
	var set []string
	for _, call := range tracedCalls(t, trace)[before:] {
		if strings.Contains(call[0], "Set") && (strings.HasSuffix(call[0], "Config") || strings.HasSuffix(call[0], "Flags")) {
			set = append(set, call[0]+" "+call[len(call)-1])
		}
	}
	if want := []string{"cudaSetDeviceFlags 4", "cudaDeviceSetCacheConfig 1", "cudaDeviceSetSharedMemConfig 2", "cudaFuncSetCacheConfig 2", "cudaFuncSetSharedMemConfig 1"}; !slices.Equal(set, want) {
		t.Errorf("set %q, want %q", set, want)
	}
	p.goesOn()
	p.endsAsNative()
}

// A process that exits during a move waits for it: on two GPUs one ended by SIGABRT, because the driver's own handlers ran meanwhile.
func TestLazyExitsAfterAMove(t *testing.T) {
	p := startMoved(t, "ends")
	p.tellToMove(1, 0)
	p.goOn()
	p.end()
	p.mustSucceed()
	if got := results(p.lines); !slices.Equal(got, []string{"bound", "the exit waits"}) {
		t.Errorf("output %q", got)
	}
}

// What a process cannot take with it keeps it where it is, and the answer says what that is.
func TestLazyStaysWithWhatCannotMove(t *testing.T) {
	const other = "the program has arrays, managed memory or memory of pools"
	for way, why := range map[string]string{
		"array": other, "managed": other,
		"texture":     "the program has called cudaCreateTextureObject",
		"graph":       "the program has called cudaGraphCreate",
		"pool":        "the program has called cudaDeviceGetDefaultMemPool",
		"symbol":      "the program has called cudaGetSymbolAddress",
		"capture":     "the program has called cudaStreamBeginCapture",
		"own_context": "a part of the program calls cuCtxCreate",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := startMoved(t, way)
			if was := p.move(1, 0); was.Outcome != schedulers.Unable || was.Why != why || was.Moved.Bytes != 0 {
				t.Errorf("%+v, want unable: %s", was, why)
			}
			p.goesOn()
			p.saysAsNative()
		})
	}
	for binary, why := range map[string]string{"linked_lazy": "^the program has a static CUDA runtime$", "static_lazy": "^a part has table [-0-9a-f]+ of the driver$"} {
		t.Run(binary, func(t *testing.T) {
			t.Parallel()
			p := serve(t, probe.Config{Chunk: twoChunks, Window: moving.Window}, binary, "moved memory")
			p.wantSaid("bound")
			if was := p.move(1, 0); was.Outcome != schedulers.Unable || !regexp.MustCompile(why).MatchString(was.Why) {
				t.Errorf("%+v, want unable: %s", was, why)
			}
			p.goesOn()
			p.saysAsNative()
		})
	}
	t.Run("beside the driver", func(t *testing.T) {
		p := startMoved(t, "memory", besideTheDriver(t, ".rodata"))
		if was := p.move(1, 0); was.Outcome != schedulers.Unable || was.Why != "a part of the program may use the driver" {
			t.Errorf("%+v", was)
		}
		p.goesOn()
		p.saysAsNative()
	})
}

// goesOn has the program compute twice.
func (p *revocable) goesOn() {
	p.t.Helper()
	p.computes()
	p.goOn()
}

// computes has the program compute, and returns when it waits again.
func (p *revocable) computes() {
	p.t.Helper()
	p.goOn()
	for p.next("said").Text != "computed" {
	}
}

// A process whose memory is on the host moves without it. It comes to the new device when the process resumes.
func TestLazyMovesWithItsMemoryOnTheHost(t *testing.T) {
	for _, action := range []schedulers.Action{schedulers.Yield, schedulers.Evict} {
		p := startMoved(t, "streams")
		if was := p.revoked(action); was.Outcome != schedulers.Done || was.Moved.Bytes != 12<<20 {
			t.Fatalf("revoked %+v", was)
		}
		if was := p.move(2, 0); was.Outcome != schedulers.Done || was.Moved.Bytes >= 12<<20 {
			t.Errorf("moved: %+v", was)
		}
		p.goOn()
		if action == schedulers.Yield {
			if err := p.next("resume").grant(0, fakeUUID(0)); err != nil {
				t.Fatal(err)
			}
		}
		for p.next("said").Text != "computed" {
		}
		p.mustMove(3, grantedDevice)
		p.goOn()
		p.endsAsNative()
	}
}

// Whatever the driver or the runtime refuses before the memory changes places, nothing has changed, and the process can move later.
func TestLazyStaysWhereAMoveIsRefused(t *testing.T) {
	movesAfterRefusals(t, firstSteps, startVariables)
}

// startVariables and the like start a program that is to be moved in calls to count.
func startVariables(t *testing.T, env ...string) *revocable {
	t.Helper()
	const traced = "FAKE_CUDA_TRACE="
	at := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, traced) })
	if at < 0 {
		at, env = len(env), append(env, traced+filepath.Join(t.TempDir(), "trace"))
	}
	p := startMoved(t, "variables", env...)
	awaitLook(t, strings.TrimPrefix(env[at], traced))
	return p
}

func movesAfterRefusals(t *testing.T, of func([]callStep) []callStep, start func(t *testing.T, env ...string) *revocable) {
	t.Helper()
	for _, s := range of(moveSteps(t, start)) {
		if s.after || mustNotFail.MatchString(s.call) {
			continue
		}
		t.Run(fmt.Sprint(s.call, " ", s.nth), func(t *testing.T) {
			t.Parallel()
			p := start(t, fmt.Sprintf("FAKE_CUDA_FAIL=%s:%d=2", s.call, s.nth))
			was := p.move(11, 0)
			unable := was.Outcome == schedulers.Unable
			if unable && !mayFail.MatchString(was.Why) || was.Outcome == schedulers.Busy && was.Why != "" {
				t.Errorf("%+v", was)
			}
			if was.Outcome != schedulers.Done && was.Moved.Bytes != 0 {
				t.Errorf("%+v", was)
			}
			p.computes()
			p.mustMove(12, map[schedulers.Outcome]int{schedulers.Busy: 0, schedulers.Done: grantedDevice}[was.Outcome])
			p.goOn()
			p.endsAsNative()
		})
	}
}

// tracedCalls are the calls in a trace of the fakes, with what they are given.
func tracedCalls(t *testing.T, trace string) [][]string {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var calls [][]string
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.Fields(line))
	}
	return calls
}

// mustNotFail are calls that only give something back, that tell of a device that has failed, and that compare devices.
var mustNotFail = regexp.MustCompile(`^(cuMemRelease|cuMemAddressFree|\w+Destroy(_v2)?|cuCtxSynchronize|cu(da)?DeviceGetAttribute|cuDeviceTotalMem_v2)$`)

// mayFail is what a process says that cannot even look whether it could move.
var mayFail = regexp.MustCompile(`^(the context is gone|the device has failed with error 2)$`)

// moveSteps are all calls that a process makes for a move. After says that a call which unmaps only gives something back: no other memory
// is mapped there next.
func moveSteps(t *testing.T, start func(t *testing.T, env ...string) *revocable) []callStep {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	p := start(t, "FAKE_CUDA_TRACE="+trace)
	counts, before := map[string]int{}, len(tracedCalls(t, trace))
	if was := p.move(11, 0); was.Outcome != schedulers.Done {
		t.Fatalf("moved: %+v", was)
	}
	calls := tracedCalls(t, trace)
	var all []callStep
	for n, at := range calls {
		call := at[0]
		counts[call]++
		gives := call == "cuMemUnmap" && (n+1 == len(calls) || calls[n+1][0] != "cuMemMap" || calls[n+1][1] != at[1])
		if n >= before && call != looking && call != "cuThreadExchangeStreamCaptureMode" {
			all = append(all, callStep{call, counts[call], gives})
		}
	}
	p.goesOn()
	p.endsAsNative()
	return all
}

// alsoLooks are calls that the library makes at any time to see what is over.
var alsoLooks = regexp.MustCompile(`^(cuCtx[GS]etCurrent|cuCtxGetDevice|cudaSetDevice|cuStreamIsCapturing|cuEventQuery)$`)

// A process that is killed in any step of a move is gone, and the scheduler has nothing of it any more.
func TestLazyIsKilledInTheMiddleOfAMove(t *testing.T) { isKilledInTheMiddleOfAMove(t, firstSteps) }

func isKilledInTheMiddleOfAMove(t *testing.T, of func([]callStep) []callStep) {
	t.Helper()
	for _, s := range of(moveSteps(t, startVariables)) {
		if alsoLooks.MatchString(s.call) {
			continue
		}
		t.Run(fmt.Sprint(s.call, " ", s.nth), func(t *testing.T) {
			t.Parallel()
			p := startMoved(t, "variables", fmt.Sprintf("FAKE_CUDA_KILL=%s:%d", s.call, s.nth))
			p.tellToMove(1, 0)
			p.mustBeKilled()
		})
	}
}

// Between two devices and among four, programs of all kinds compute what they compute alone, while the scheduler moves them at random
// moments beside all else that it does.
func TestLazyKeepsResultsWhenItMoves(t *testing.T) { keepsResultsWhenItMoves(t, 9001, 12) }

func keepsResultsWhenItMoves(t *testing.T, first, count int) {
	t.Helper()
	var all []taken
	for _, program := range []string{"threads", "churn", "handles_in_threads", "ordered_in_thread", "order", "objects_beside", "tasks_in_threads", "swapped 10",
		"temporaries", "small_temporaries", "host_frees", "frees_from_afar", "keeps variable", "random 60001,16,1", "random 60017,4,3"} {
		all = append(all, taken{"lazy_program", program, []string{"FAKE_CUDA_KERNEL_US=100"}, 0})
	}
	moved := make(chan int, count)
	t.Run("all", func(t *testing.T) {
		for seed := first; seed < first+count; seed++ {
			program := all[seed%len(all)]
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				program.devices = 2 + 2*(seed%2)
				moved <- program.take(t, uint64(seed)).moved
			})
		}
	})
	close(moved)
	sum := 0
	for n := range moved {
		sum += n
	}
	t.Logf("%d moves", sum)
	if sum == 0 && count > 1 {
		t.Error("nothing moved")
	}
}
