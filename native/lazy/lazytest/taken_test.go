package lazytest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/runner/probe"
)

// taken is a program to run while its memory is taken.
type taken struct {
	file, arguments string
	env             []string
	devices         int // among which it moves; 0: it stays on its device
}

// takenPrograms are those whose output depends on nothing but their input. Of those left out, one fills the device,
// where room may have been made. The others say that work is over earlier than the program has waited for it, because a
// revocation waits for the device.
func takenPrograms(t *testing.T) []taken {
	t.Helper()
	varies := []string{"freed_in_capture", "reuse copy", "reuse copy_2d", "reuse symbol", "batches", "launch_events", "faults_behind goes_on", "faults_behind waits", "too_much"}
	lazy := slices.Concat(programs, []string{"swapped 10", "devices", "two_devices", "own_context", "launch_list", "graph_nodes",
		"peer_copies", "ranges", "prefetches", "execution_contexts", "questions", "unseen_devices", "init_flags", "too_much",
		"fault", "fault_unseen", "fault_unseen_late", "set_device", "ask_first", "init_device", "back_to_primary",
		"own_context_in_threads", "ordered_frees", "own_pool", "idle_rounds", "frees_from_afar", "host_frees", "temporaries",
		"small_temporaries", "ordered_in_thread", "captures_own", "heap_later", "late_memory", "margins", "margins_move",
		"last_errors_after_a_fault", "after clocks", "after late_clocks", "after host", "after graphs", "after textures",
		"after memory", "after reset", "set attribute", "set large_attribute", "set limit", "set preference", "reset_after work",
		"reset_after fault", "frees source", "frees chain", "frees set", "frees order", "gone never", "gone twice", "gone reset",
		"gone early_reset", "keeps variable", "keeps same_variable", "keeps pool", "keeps pool_no_more", "in_flight launch",
		"in_flight callback", "in_flight host_function", "in_flight set", "in_flight after_wait", "in_flight after_wait_recorded"})
	var all []taken
	for _, program := range lazy {
		if !slices.Contains(varies, program) {
			all = append(all, taken{"lazy_program", program, nil, 0})
		}
	}
	all = append(all, taken{"lazy_program", "driver_memory", []string{besideTheDriver(t, ".rodata")}, 0})
	for _, program := range []string{"ordered_rounds", "frees_behind_the_host"} { // a stream waits for the thread, which must not execute it
		all = append(all, taken{"lazy_program", program, []string{"FAKE_CUDA_KERNEL_US=30"}, 0})
	}
	for _, program := range []string{"first", "last", "moves", "among", "recorded", "threads", "many", "pinned", "alone"} {
		all = append(all, taken{partly, program, nil, 0})
	}
	for _, program := range []string{"one", "before", "four", "mixed", "many", "turns", "beyond", "grown", "helped"} {
		all = append(all, taken{"explicit_program", program, nil, 0})
	}
	for _, does := range []string{"static", "static shared", "shared static", "driver static shared"} {
		all = append(all, taken{"static_program", does, nil, 0})
	}
	return all
}

// unmovable is what programs say whose memory cannot move.
var unmovable = regexp.MustCompile(`^(a part of the program calls \w+|.+ may call the driver|.+ is linked with the driver|memory may be exported to other processes by .+|the device has failed with error \d+|the program itself has asked for the task|the program has called \w+|the program has arrays, managed memory or memory of pools|a part of the program may use the driver|the program has a static CUDA runtime)$`)

// vary is how the seed has the program run.
func (p taken) vary(random *rand.Rand) (version, file string, env []string) {
	version, file, env = "13", p.file, append([]string{movable}, p.env...)
	if p.file == "lazy_program" && random.IntN(2) == 0 {
		version = "11"
	}
	if random.IntN(3) == 0 {
		env = append(env, "CASE_RECORD_LIMIT=0")
	}
	if strings.HasPrefix(p.arguments, "random") && random.IntN(2) == 0 {
		env = append(env, "FAKE_CUDA_KERNEL_US=30")
	}
	if (strings.HasPrefix(p.arguments, "random") || p.arguments == "swapped 10") && random.IntN(2) == 0 {
		env = append(env, fmt.Sprintf("%s%d,%d", capacity, (10+random.IntN(8))<<20, 1<<30))
	}
	if random.IntN(2) == 0 {
		var slow []string
		for _, call := range []string{"cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemcpyAsync", "cuEventSynchronize", "cuCtxSynchronize"} {
			slow = append(slow, fmt.Sprintf("%s=%d", call, random.IntN(2000)))
		}
		env = append(env, "FAKE_CUDA_DELAY_US="+strings.Join(slow, ","))
	}
	return version, file, env
}

// Programs compute the same, and say the same to the user, while the scheduler takes their memory and gives
// it back, at random moments and with random deadlines.
func TestLazyKeepsResultsWhenMemoryIsTaken(t *testing.T) {
	keepsResultsWhenMemoryIsTaken(t, drawnFrom(1), chance.Count(24, 4000))
}

// keepsResultsWhenMemoryIsTaken runs a program for each of so many seeds, or each program once. The seed says which
// program runs, and how.
func keepsResultsWhenMemoryIsTaken(t *testing.T, first, count int) {
	t.Helper()
	const stride = 89 // a few seeds run programs of all kinds
	all := takenPrograms(t)
	for n := range 16 {
		all = append(all, taken{"lazy_program", fmt.Sprintf("random %d,16,1", 40001+16*n), nil, 0})
	}
	if count == 0 {
		count = len(all)
	}
	var answered, done, begun, back, bursts atomic.Int64
	t.Run("all", func(t *testing.T) {
		for seed := first; seed < first+count; seed++ {
			program := all[seed*stride%len(all)]
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				k := program.take(t, uint64(seed))
				good, _ := k.count()
				answered.Add(int64(len(k.revoked)))
				done.Add(int64(good))
				begun.Add(k.begun)
				back.Add(int64(k.back))
				bursts.Add(int64(k.bursts))
			})
		}
	})
	t.Logf("%d of %d revocations done; %d bursts ended by themselves; %d MiB began on the host; %d chunks that were offered came back", done.Load(), answered.Load(), bursts.Load(), begun.Load()>>20, back.Load())
	if answered.Load() > int64(count) && (done.Load() == 0 || back.Load() == 0) { // fewer: -run has picked one
		t.Error("no memory was taken, or nothing that was offered came back")
	}
}

// capacity begins the setting that says what a task may have on a device. It is for programs whose memory may
// begin on the host.
const capacity = "CASE_CAPACITY="

// take runs the program, with its memory taken and without.
func (p taken) take(t *testing.T, seed uint64) *taker {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	version, file, env := p.vary(random)
	if p.devices > 0 {
		env = append(env, fmt.Sprintf("FAKE_CUDA_DEVICES=%d", p.devices), fmt.Sprintf("FAKE_CUDA_PEERS=%d", random.IntN(2)))
	}
	chunk := []int64{2 << 20, 2 << 20, 8 << 20, 32 << 20}[random.IntN(4)] // most programs have little memory
	run, k := newTaker(t, seed, chunk, func(s *probe.Server, r recorder) *lazyRun {
		return prepareLazyAt(t, s, r, version, file, p.arguments, env...)
	})
	if p.devices > 0 {
		k.moves, k.uuids = true, nil
		for n := range p.devices {
			k.uuids = append(k.uuids, fakeUUID(n))
		}
	}
	run.finish(k.answer)
	plain := startLazyBinary(t, version, file, p.arguments, slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, capacity) })...).finish(grantByTurns())
	if got, want := results(run.lines), results(plain.lines); fmt.Sprint(run.err) != fmt.Sprint(plain.err) || !slices.Equal(got, want) || run.stderr.String() != plain.stderr.String() {
		t.Errorf("CUDA %s %s %s, %q, chunks of %d bytes, %s: %v\n%s\nstderr:\n%s\nwant\n%s", version, file, p.arguments, env, chunk, repeated(), run.err, firstDifference(got, want), run.stderr.String(), plain.stderr.String())
	}
	if t.Failed() {
		t.Logf("CUDA %s %s %s, %q, chunks of %d bytes", version, file, p.arguments, env, chunk)
	}
	run.wantOnlySwapLeft()
	k.wantSettled(run)
	return k
}
