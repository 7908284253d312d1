package lazytest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
)

var programs = []string{"basic", "order", "shapes", "streams", "objects", "managed", "grow", "tasks", "tasks_with_stream",
	"tasks_with_variable", "tasks_in_threads", "threads", "churn", "objects_beside", "large_copy", "read_first", "reset", "launch_only",
	"settings", "many", "crowded", "captured", "freed_in_capture", "free_while_captured", "limits", "mistakes", "forks", "forks_bound", "reuse stream", "reuse event", "reuse device", "reuse stream_query",
	"reuse event_query", "reuse copy", "reuse copy_2d", "reuse symbol", "reuse free", "waits stream", "waits event", "waits device",
	"waits stream_query", "waits event_query", "waits copy", "waits copy_2d", "waits symbol", "reuse behind", "waits behind", "waits behind_query", "callback", "host_freed_in_capture",
	"registered_before_reset", "variable_by_address", "wrong source", "wrong pitch", "wrong source_pitch", "wrong set_pitch", "wrong size", "wrong offset",
	"wrong kind", "wrong variable", "reads_before", "writes_around", "beyond unbound", "beyond bound", "beyond freed",
	"beyond_boxes", "last_errors", "interrupted", "handles_in_threads"}

// Programs compute the same with and without the lazy runtime, whatever it does.
func TestLazyKeepsResults(t *testing.T) {
	keepsResults(t, 0)
}

// keepsResults runs each program in half of the modes, with one of both runtimes of CUDA in each. There are four ways to
// choose. In each of them a program is run with both runtimes, and a mode is tried with half of the programs.
func keepsResults(t *testing.T, which int) {
	t.Helper()
	for n, mode := range []struct {
		name string
		env  []string
	}{{"task", nil}, {"pinned", []string{"CASE_PIN=1"}}, {"passive", []string{"CASE_BINDING=job"}}, {"nothing recorded", []string{"CASE_RECORD_LIMIT=0"}},
		{"movable", []string{movable}}, {"movable, nothing recorded", []string{movable, "CASE_RECORD_LIMIT=0"}}} {
		for i, program := range programs {
			if (n+i+which)%2 != 0 {
				continue
			}
			version := cudaVersions[(n/2+i/2+which/2)%2]
			t.Run(mode.name+"/"+version+"/"+program, func(t *testing.T) {
				t.Parallel()
				p := runLazy(t, version, program, mode.env...)
				p.wantNative()
				p.wantNothingLeft()
				p.wantUse()
				if begins, frees := len(p.of("begin")), len(p.of("free")); !holds(program) && begins != frees {
					t.Errorf("%d tasks began, %d ended: %v", begins, frees, p.events)
				}
			})
		}
	}
}

// holds: the program's task is not ended by a free: a launch without memory, a
// call that CUDA refuses, a graph, a callback or a copy to a variable made it, or it has
// a larger heap.
func holds(program string) bool {
	return slices.Contains([]string{"launch_only", "mistakes", "captured", "freed_in_capture", "callback", "variable_by_address", "settings"}, program)
}

// Nothing touches a device before the first launch, and then only the granted one.
func TestLazyBindsAtTheFirstLaunch(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "basic")
		p.wantEvents("begin free gone")
		// Two arrays of 4 MiB, and one of 40 bytes in a granule of 2 MiB.
		if e := p.of("begin")[0]; e.Bytes != 10<<20 || e.heap() != 8<<20 || e.host() != 0 || e.Asks().Blocks != 32 || e.Asks().ThreadsPerBlock != 96 || e.Asks().Managed || e.Asks().OnDevice != nil || e.wait() != nil {
			t.Errorf("begin %+v", e.Event)
		}
		p.wantLine("before: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 3 violations 0")
		p.wantLine(running(4, 9)) // one granule more, on both sides of each
		p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
	}
}

// The kernel's occupancy reaches the scheduler, with the request or after it:
// 21 blocks of 3 warps fit into an SM's 64 warps.
func TestLazyTellsOccupancy(t *testing.T) {
	p := runLazy(t, "13", "basic")
	told := p.of("begin")[0].Asks().BlocksPerSM
	for _, e := range p.of("shape") {
		told = e.Posted.(runner.TaskShape).BlocksPerSM
	}
	if told != 21 {
		t.Errorf("blocks per SM %d, want 21: %v", told, p.events)
	}
}

func TestLazyDefersStreamsEventsAndPinnedMemory(t *testing.T) {
	for _, program := range []string{"streams", "order"} {
		p := runLazy(t, "13", program)
		if !slices.ContainsFunc(p.lines, func(l string) bool { return strings.HasPrefix(l, "before: contexts 0 ") }) {
			t.Errorf("%s made a context before its first launch:\n%s", program, strings.Join(p.lines, "\n"))
		}
	}
}

// 200 allocations of 1000 bytes share a granule; half of them are gone already.
func TestLazySmallAllocationsShareGranules(t *testing.T) {
	p := runLazy(t, "13", "many")
	if r := p.of("begin")[0]; r.Bytes != 2<<20 {
		t.Errorf("begin %+v", r)
	}
}

func TestLazyDefersSettings(t *testing.T) {
	p := runLazy(t, "13", "settings")
	if e := p.of("begin")[0]; e.heap() != 64<<20 {
		t.Errorf("begin %+v", e.Event)
	}
	p.wantLine("before: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 1 violations 0")
}

// Graphs share a pool, which holds what the largest allocates, until the end.
func TestLazyChargesGraphs(t *testing.T) {
	p := runLazy(t, "13", "captured")
	p.wantEvents("begin grow grow gone")
	var grown []int64
	for _, e := range p.of("grow") {
		grown = append(grown, e.Bytes)
	}
	if want := []int64{4 << 20, 2 << 20}; !slices.Equal(grown, want) {
		t.Errorf("grown by %d, want %d", grown, want)
	}
}

// No task ends while a graph is captured, whatever the program frees.
func TestLazyKeepsTheTaskOfACapture(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "free_while_captured")
		if begins, frees := len(p.of("begin")), len(p.of("free")); begins != 2 || frees != 2 {
			t.Errorf("%s: %d tasks began, %d ended; want one for each capture: %v", version, begins, frees, p.events)
		}
	}
}

// Under task binding a program sees one device and makes no context by asking.
func TestLazyShowsOneDevice(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "devices")
		p.wantLine("count 1 device 0 last 0 beyond 101 error 101")
		p.wantLine("asked: contexts 0 first -1 " + nothingLeft)
		p.wantLine("made: contexts 0 first -1 " + nothingLeft)
		p.wantEvents("begin grow free gone")
	}
}

// A wait is recorded where something has to be waited for, not each time.
func TestLazyRecordsFewWaits(t *testing.T) {
	if waits := traced(t, "13", "idle_rounds", "cudaDeviceSynchronize"); len(waits) > 3 {
		t.Errorf("%d waits for nothing", len(waits))
	}
}

// What is recorded by the small costs the program little memory: what 2^14 snapshots
// take besides their four bytes counts too.
func TestLazyRecordsSmallCopies(t *testing.T) {
	p := runLazy(t, "13", "small_copies")
	var mib int
	if _, err := fmt.Sscanf(p.lines[0], "mib %d", &mib); err != nil || mib > 32 {
		t.Errorf("took %q of memory (%v)", p.lines[0], err)
	}
	if want := native(t, "13", "small_copies")[1]; p.lines[1] != want {
		t.Errorf("%q, want %q", p.lines[1], want)
	}
}

func TestLazyFlagsManagedMemory(t *testing.T) {
	p := runLazy(t, "13", "managed")
	p.wantEvents("begin free gone")
	if r := p.of("begin")[0]; !r.Asks().Managed || r.Asks().OnDevice != nil || r.Bytes != 4<<20 {
		t.Errorf("begin %+v", r)
	}
}

// A copy too large to record binds early, with what the mix says of the job; the
// true grid follows.
func TestLazyBindsEarlyForALargeCopy(t *testing.T) {
	p := startLazy(t, "13", "large_copy", "CASE_RECORD_LIMIT=1048576", "CASE_FOOTPRINT=16777216,100,64")
	e := p.r.next(t, "begin")
	if e.Bytes != 32<<20 || e.Asks().Blocks != 100 || e.Asks().ThreadsPerBlock != 64 {
		t.Errorf("begin %+v", e.Asks())
	}
	grant(t, e)
	p.hear("copied")
	p.finish(grant)
	p.mustSucceed()
	shapes := p.of("shape")
	if len(shapes) == 0 || shapes[0].Posted.(runner.TaskShape) != (runner.TaskShape{ID: shapes[0].ID, Blocks: 4096, ThreadsPerBlock: 256, BlocksPerSM: 8}) {
		t.Errorf("shapes %v", shapes)
	}
	p.wantLine(native(t, "13", "large_copy")[1])
}

// A library that makes a context through the driver gets the granted device too.
func TestLazyGuardsOtherContexts(t *testing.T) {
	p := runLazy(t, "13", "own_context")
	p.wantLine(fmt.Sprintf("context on %d", grantedDevice))
	begins := p.of("begin")
	if len(begins) != 2 || begins[0].Bytes != 2<<20 || begins[1].Asks().OnDevice == nil {
		t.Errorf("events %v", p.events)
	}
	if got, want := results(p.lines)[1:], results(native(t, "13", "own_context"))[1:]; !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// A program that can reach the driver by itself never sees an address without
// memory: it binds at its first call that needs a device.
func TestLazyBindsAtOnceBesideTheDriver(t *testing.T) {
	p := runLazy(t, "13", "tasks", preloaded(t, "names.so", `const char names_the_driver[] = "libcuda.so.1";`))
	if r := p.of("begin")[0]; r.Bytes != 0 || r.Asks().Blocks != 0 {
		t.Errorf("begin %+v: want nothing known yet", r)
	}
	if len(p.of("grow")) == 0 {
		t.Errorf("events %v: want the allocations to grow the task", p.events)
	}
	p.wantNative()
}

// Threads may call CUDA while the program exits, so nothing of the library or of the fakes is
// destroyed then.
func TestLazyNeedsNoStaticDestructor(t *testing.T) {
	buildLazy(t)
	var objects []string
	for _, pattern := range []string{"lazy/build/*/*.cc.o", "fake/build/driver/*.o", "fake/build/runtime/*.o", "fake/build/13/*.o", "fake/build/11/*.o"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		objects = append(objects, found...)
	}
	out, err := exec.Command("nm", append([]string{"--print-file-name"}, objects...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "__cxa_atexit") {
			t.Errorf("it registers a destructor: %s", strings.TrimSpace(line))
		}
	}
}

// Constructors of libraries that the program is linked with run before the lazy
// runtime's, and may use CUDA: nothing of it is made by one.
func TestLazyNeedsNoConstructor(t *testing.T) {
	out, err := exec.Command("nm", "--demangle", filepath.Join(lazyDir, "libcase.so")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_GLOBAL__sub_I_") && !strings.Contains(line, "eh_alloc") { // the compiler's own
			t.Errorf("%s is initialized when it is loaded", strings.TrimSpace(line))
		}
	}
}
