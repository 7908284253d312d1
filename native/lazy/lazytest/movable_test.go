package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
)

// movable is what a run sets under a scheduler that takes memory back.
const movable = "CASE_MOVABLE=1"

// Where memory can move, all linear memory is the library's, whoever allocates it and when. It
// lies in chunks of what the scheduler says, or of 32 MiB, and small allocations share a granule.
func TestLazyMakesAllMemoryMovable(t *testing.T) {
	for env, want := range map[string]string{
		"CASE_MOVABLE=0": "allocations 3 handles 0 mappings 0 reservations 0",
		// Three chunks each of x and y, the granule of the small allocation, and the granule of the
		// margins, which is mapped on both sides of all three.
		movable: "allocations 0 handles 8 mappings 13 reservations 3",
	} {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, "13", "lazy_program", "driver_memory", besideTheDriver(t, ".rodata"), env).start().finish(grant)
		p.mustSucceed()
		p.wantNative()
		p.wantNothingLeft()
		p.wantLine(fmt.Sprintf("allocated: contexts 1 first %d %s violations 0", grantedDevice, want))
	}
	// Two chunks of the 64 MiB that it grows by, and one each of 4 and of 16 MiB.
	p := runLazy(t, "13", "grow", movable)
	p.wantLine(fmt.Sprintf("grown: contexts 1 first %d allocations 0 handles 5 mappings 10 reservations 3 violations 0", grantedDevice))
}

// What the driver is asked for is charged, and refused as cudaMalloc is.
func TestLazyChargesMovableDriverMemory(t *testing.T) {
	p := runLazy(t, "13", "driver_memory", besideTheDriver(t, ".rodata"), movable)
	var grown []int64
	for _, e := range p.of("grow") {
		grown = append(grown, e.Bytes>>20)
	}
	if want := []int64{20, 20, 2}; !slices.Equal(grown, want) {
		t.Errorf("grown by %d MiB, want %d", grown, want)
	}
	refuse := func(t *testing.T, e event) {
		if e.Kind == "grow" && e.Bytes == 2<<20 {
			if err := e.refuse(schedulers.DeviceFull, 2<<20, 1<<20, "no room"); err != nil {
				t.Error(err)
			}
			return
		}
		grant(t, e)
	}
	p = startLazy(t, "13", "driver_memory", besideTheDriver(t, ".rodata"), movable).finish(refuse)
	if len(p.of("oom")) == 0 || !slices.ContainsFunc(p.lines, func(l string) bool { return strings.HasSuffix(l, ": error 2") }) {
		t.Errorf("%v\n%v", p.events, p.lines)
	}
}

// An allocation of more bytes than 64 bits can count is refused as any other that is too large.
func TestLazyRefusesImmenseAllocations(t *testing.T) {
	for _, env := range []string{"CASE_MOVABLE=0", movable} {
		p := runLazy(t, "13", "immense", env)
		if p.err != nil {
			t.Fatalf("%s: %v: %s", env, p.err, p.stderr.String())
		}
		p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
		for _, when := range []string{"before", "bound"} {
			refused := 0
			for _, l := range p.lines {
				if l == when+": 2 2 2" {
					refused++
				}
			}
			if refused != 4 {
				t.Errorf("%s, %s: %d of 4 sizes are refused: %q", env, when, refused, p.lines)
			}
			p.wantLine(when + ": 2 2")
			p.wantLine(when + ": 1") // rows that lie apart by more than there are addresses
		}
	}
}

// What a stream has been told to free is the stream's next allocation, before the stream has reached the free.
func TestLazyReusesMemoryInTheOrderOfAStream(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "ordered_rounds", movable, "FAKE_CUDA_KERNEL_US=30").wantNative()
		p.wantNothingLeft()
		var grown int64
		for _, e := range p.of("grow") {
			grown += e.Bytes >> 20
		}
		if grown != 52 {
			t.Errorf("CUDA %s: grown by %d MiB, want 50 and a granule: %v", version, grown, p.events)
		}
	}
}

// What a program's own pool gives is the pool's.
func TestLazyLeavesOwnPoolsTheirMemory(t *testing.T) {
	for _, env := range []string{"CASE_MOVABLE=0", movable} {
		runLazy(t, "13", "own_pool", env).wantNative().wantNothingLeft()
	}
}

// A capture that the driver has begun is left alone, and what is allocated and freed in it is the graph's, for which the
// task is charged until it ends.
func TestLazyLeavesCapturesOfTheDriverAlone(t *testing.T) {
	env := []string{besideTheDriver(t, ".rodata"), movable, "FAKE_CUDA_KERNEL_US=20000"}
	p := runLazy(t, "13", "driver_captures", env...).wantNative()
	if n := len(p.of("oom")) + len(p.of("fault")) + len(p.of("free")); n != 0 {
		t.Errorf("events %v", p.events)
	}
	if calls := traced(t, "13", "driver_captures", "cuMem(Alloc|Free)Async.*", env...); len(calls) != 2 {
		t.Errorf("the driver makes %q, want the allocation in the capture and its free", calls)
	}
}

// An error is the runtime's last error where the runtime has answered with it.
func TestLazyTellsErrorsOfTheDriverFromTheRuntimes(t *testing.T) {
	for _, env := range []string{"CASE_MOVABLE=0", movable} {
		runLazy(t, "13", "driver_refused", besideTheDriver(t, ".rodata"), env).wantNative()
	}
	p := runLazy(t, "13", "late_refusal", movable, "FAKE_CUDA_FAIL=cuMemCreate:3=1")
	p.wantLine("refused 1")
	p.wantLine("last 1")
}

// Memory that may be exported to other processes must be cudaMalloc's.
func TestLazyLeavesExportedMemoryToCUDA(t *testing.T) {
	for _, name := range []string{"cudaIpcGetMemHandle", "cuIpcGetMemHandle"} {
		exports := preloaded(t, "exports.so", fmt.Sprintf("const char exports[] = %q;", name))
		p := runLazy(t, "13", "driver_memory", exports, movable)
		p.wantNative()
		p.wantLine(fmt.Sprintf("allocated: contexts 1 first %d allocations 3 handles 0 mappings 0 reservations 0 violations 0", grantedDevice))
		p = runLazy(t, "13", "driver_memory", exports, movable, "CASE_EXPORTS=0")
		p.wantNative()
		p.wantLine(fmt.Sprintf("allocated: contexts 1 first %d allocations 0 handles 4 mappings 9 reservations 3 violations 0", grantedDevice))
	}
}

// A small allocation that is made and freed again and again takes the same memory.
func TestLazyKeepsMemoryForSmallAllocations(t *testing.T) {
	runLazy(t, "13", "small_temporaries", movable).wantNative().wantNothingLeft()
	if made := traced(t, "13", "small_temporaries", "cuMemCreate.*", movable); len(made) != 3 {
		t.Errorf("memory was made %d times, want once for x, the margins, and all small allocations: %q", len(made), made)
	}
}

// Programs that are made up from a seed compute the same where their memory can move, also where
// streams execute by themselves.
func TestLazyKeepsResultsOfRandomProgramsThatCanMove(t *testing.T) {
	keepsResultsOfRandomProgramsThatCanMove(t, drawnFrom(30001), chance.Count(4, 16))
}

// keepsResultsOfRandomProgramsThatCanMove runs so many programs in each process.
func keepsResultsOfRandomProgramsThatCanMove(t *testing.T, first, each int) {
	t.Helper()
	for n := range 12 {
		version, env := cudaVersions[n%2], []string{movable, fmt.Sprintf("CASE_RECORD_LIMIT=%d", []int{0, 1 << 16, 1 << 26}[n/2%3])}
		threads := []int{1, 1, 3}[n%3]
		if threads == 1 && n%4 == 0 {
			env = append(env, "FAKE_CUDA_KERNEL_US=30")
		}
		program := fmt.Sprintf("random %d,%d,%d", first+16*n, each, threads)
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := startLazy(t, version, program, env...).finish(grantByTurns())
			if want := native(t, version, program); p.err != nil || !slices.Equal(p.lines, want) {
				t.Errorf("CUDA %s, %q, %s, %s: %v\n%s\nstderr:\n%s", version, env, program, repeated(), p.err, firstDifference(p.lines, want), p.stderr.String())
			}
		})
	}
}
