package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

var programs = []string{"basic", "order", "shapes", "streams", "objects", "managed", "grow", "tasks", "tasks_with_stream",
	"tasks_with_variable", "tasks_in_threads", "threads", "churn", "large_copy", "read_first", "reset", "launch_only",
	"settings", "many", "mistakes", "forks", "reuse stream", "reuse event", "reuse device", "reuse stream_query",
	"reuse event_query", "reuse copy", "reuse copy_2d", "reuse symbol", "reuse free"}

// Programs compute the same with and without the lazy runtime, whatever it does.
func TestLazyKeepsResults(t *testing.T) {
	for mode, env := range map[string][]string{"task": nil, "pinned": {"CASE_PIN=1"}, "passive": {"CASE_BINDING=job"},
		"nothing recorded": {"CASE_RECORD_LIMIT=0"}} {
		for _, version := range cudaVersions {
			for _, program := range programs {
				t.Run(mode+"/"+version+"/"+program, func(t *testing.T) {
					want := results(native(t, version, program))
					p := runLazy(t, version, program, env...)
					if got := results(p.lines); !slices.Equal(got, want) {
						t.Errorf("output\n%s\nwant\n%s\nstderr:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), p.stderr.String())
					}
					p.wantNothingLeft()
					if begins, frees := len(p.of("begin")), len(p.of("free")); !holds(program) && begins != frees {
						t.Errorf("%d tasks began, %d ended: %v", begins, frees, p.events)
					}
				})
			}
		}
	}
}

// holds: the program's task is not ended by a free: a launch without memory, or
// a call that CUDA refuses, made it.
func holds(program string) bool { return program == "launch_only" || program == "mistakes" }

// Nothing touches a device before the first launch, and then only the granted one.
func TestLazyBindsAtTheFirstLaunch(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "basic")
		p.wantEvents("begin free closed")
		// Two arrays of 4 MiB, and one of 40 bytes in a granule of 2 MiB.
		want := Request{Bytes: 10 << 20, Blocks: 32, ThreadsPerBlock: 96, HeapBytes: 8 << 20}
		got := p.of("begin")[0].r
		got.BlocksPerSM = 0
		if got != want {
			t.Errorf("begin %+v, want %+v", got, want)
		}
		p.wantLine("before: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 3 violations 0")
		p.wantLine(fmt.Sprintf("running: contexts 1 first %d allocations 0 handles 3 mappings 3 reservations 3 violations 0", grantedDevice))
		p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
	}
}

// The kernel's occupancy reaches the scheduler, with the request or after it:
// 21 blocks of 3 warps fit into an SM's 64 warps.
func TestLazyTellsOccupancy(t *testing.T) {
	p := runLazy(t, "13", "basic")
	told := p.of("begin")[0].r.BlocksPerSM
	for _, e := range p.of("shape") {
		told = e.shape.BlocksPerSM
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

// 1000 allocations of 1000 bytes share granules; half of them are gone already.
func TestLazySmallAllocationsShareGranules(t *testing.T) {
	p := runLazy(t, "13", "many")
	if r := p.of("begin")[0].r; r.Bytes != 2<<20 {
		t.Errorf("begin %+v", r)
	}
}

func TestLazyDefersSettings(t *testing.T) {
	p := runLazy(t, "13", "settings")
	if r := p.of("begin")[0].r; r.HeapBytes != 64<<20 {
		t.Errorf("begin %+v", r)
	}
	p.wantLine("before: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 1 violations 0")
}

// When the last object is freed the task ends; the next may go elsewhere.
func TestLazyTasksMove(t *testing.T) {
	next := 0
	p := startLazy(t, "13", "tasks").finish(func(t *testing.T, e event) {
		if e.kind == "begin" {
			next = 1 - next
			if e.r.Flags != 0 || e.r.Bytes != 2<<20 {
				t.Errorf("begin %+v", e.r)
			}
		}
		if e.kind == "begin" || e.kind == "grow" {
			if err := e.c.Grant(e.task, next, [16]byte{0xca, 0x5e, 15: byte(next)}); err != nil {
				t.Error(err)
			}
		}
	})
	p.mustSucceed()
	p.wantEvents("begin grow free begin grow free begin grow free closed") // each allocates once more when bound
	p.wantLine("first: contexts 1 first 1 " + nothingLeft)
	p.wantLine("second: contexts 2 first 1 " + nothingLeft)
	p.wantLine("third: contexts 2 first 1 " + nothingLeft)
	if got, want := results(p.lines), results(native(t, "13", "tasks")); !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// What lives on a device holds the process there.
func TestLazyTasksStayWithTheirState(t *testing.T) {
	for _, program := range []string{"tasks_with_stream", "tasks_with_variable"} {
		p := runLazy(t, "13", program)
		begins := p.of("begin")
		if len(begins) < 2 {
			t.Fatalf("%s: %v", program, p.events)
		}
		for i, e := range begins {
			if pinned := e.r.Flags&FlagDevice != 0; pinned != (i > 0) || pinned && e.r.Device != grantedDevice {
				t.Errorf("%s: request %d %+v", program, i, e.r)
			}
		}
	}
}

func TestLazyGrows(t *testing.T) {
	refusals := 0
	p := startLazy(t, "13", "grow").finish(func(t *testing.T, e event) {
		if e.kind == "grow" && e.bytes == 64<<20 {
			refusals++
			if err := e.c.Refuse(e.task, ReasonDeviceFull, 64<<20, 32<<20, "device 1 is full"); err != nil {
				t.Error(err)
			}
			return
		}
		grant(t, e)
	})
	p.mustSucceed()
	if refusals != 1 {
		t.Errorf("events %v, want a grow of 64 MiB", p.events)
	}
	p.wantLine("more 2 last 2 then 0")
	p.wantLine("again 0")
	p.wantLine("sum -1830198248188830464")
	grows := p.of("grow")
	if len(grows) < 2 || grows[1].bytes != 16<<20 {
		t.Errorf("grows %v", grows)
	}
	if ooms := p.of("oom"); len(ooms) != 1 || ooms[0].bytes != 64<<20 || !strings.Contains(ooms[0].where, "cudaMalloc") {
		t.Errorf("oom %v", ooms)
	}
	shapes := p.of("shape")
	if len(shapes) == 0 || shapes[len(shapes)-1].shape.Blocks != 4000 || shapes[len(shapes)-1].shape.ThreadsPerBlock != 1024 || shapes[len(shapes)-1].shape.BlocksPerSM != 2 {
		t.Errorf("shapes %v", shapes)
	}
	p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
}

func TestLazyGrowthHoldsNobodyUp(t *testing.T) {
	p := startLazy(t, "13", "grow_waits")
	grant(t, p.r.next(t, "begin"))
	p.hear("bound")
	p.goOn()
	p.hear("asked")
	waiting := p.r.next(t, "grow")
	p.goOn()
	p.hear("meanwhile 2")
	grant(t, waiting)
	p.hear("grown 1")
	p.finish(grant)
	p.mustSucceed()
	p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
}

// Threads whose tasks move: each must follow.
func TestLazyTasksMoveUnderThreads(t *testing.T) {
	for _, program := range []string{"tasks_in_threads", "churn"} {
		next := 0
		home := map[uint64]int{}
		p := startLazy(t, "13", program).finish(func(t *testing.T, e event) {
			switch e.kind {
			case "begin":
				next = 1 - next
				home[e.task] = next
				if e.r.Flags != 0 {
					t.Errorf("%s: begin %+v: nothing holds it", program, e.r)
				}
			case "grow":
			default:
				return
			}
			if err := e.c.Grant(e.task, home[e.task], [16]byte{0xca, 0x5e, 15: byte(home[e.task])}); err != nil {
				t.Error(err)
			}
		})
		p.mustSucceed()
		if got, want := results(p.lines), results(native(t, "13", program)); !slices.Equal(got, want) {
			t.Errorf("%s: output %q, want %q\nstderr:\n%s", program, got, want, p.stderr.String())
		}
		if last := p.lines[len(p.lines)-1]; !strings.HasSuffix(last, nothingLeft) {
			t.Errorf("%s: left behind: %s", program, last)
		}
	}
}

func TestLazyThreadsBindOnce(t *testing.T) {
	p := runLazy(t, "13", "threads")
	p.wantLine("right 32")
	for i, e := range p.of("begin") {
		if i > 0 && (e.r.Flags&FlagDevice == 0 || e.r.Device != grantedDevice) {
			t.Errorf("request %d %+v: streams hold the process on device %d", i, e.r, grantedDevice)
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
		p.wantEvents("begin grow free closed")
	}
}

// A pinned job chooses its devices; each task says which.
func TestLazyPinned(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "two_devices", "CASE_PIN=1")
		if got, want := p.lines, native(t, version, "two_devices"); !slices.Equal(got, want) {
			t.Errorf("output %q, want %q", got, want)
		}
		for i, e := range p.of("begin") {
			if e.r.Flags&FlagDevice == 0 || int(e.r.Device) != i {
				t.Errorf("request %d %+v", i, e.r)
			}
		}
		if len(p.of("begin")) != 2 || len(p.of("free")) != 2 {
			t.Errorf("events %v", p.events)
		}
	}
}

func TestLazyFlagsManagedMemory(t *testing.T) {
	p := runLazy(t, "13", "managed")
	p.wantEvents("begin free closed")
	if r := p.of("begin")[0].r; r.Flags != FlagManaged || r.Bytes != 4<<20 {
		t.Errorf("begin %+v", r)
	}
}

// A copy too large to record binds early, with what the mix says of the job; the
// true grid follows.
func TestLazyBindsEarlyForALargeCopy(t *testing.T) {
	p := startLazy(t, "13", "large_copy", "CASE_RECORD_LIMIT=1048576", "CASE_FOOTPRINT=16777216,100,64")
	e := p.r.next(t, "begin")
	if e.r.Bytes != 16<<20 || e.r.Blocks != 100 || e.r.ThreadsPerBlock != 64 {
		t.Errorf("begin %+v", e.r)
	}
	grant(t, e)
	p.hear("copied")
	p.finish(grant)
	p.mustSucceed()
	shapes := p.of("shape")
	if len(shapes) == 0 || shapes[0].shape != (Shape{Blocks: 4096, ThreadsPerBlock: 256, BlocksPerSM: 8}) {
		t.Errorf("shapes %v", shapes)
	}
	p.wantLine(native(t, "13", "large_copy")[1])
}

// A process may end while one of its threads waits for a device.
func TestLazyExitsWhileWaiting(t *testing.T) {
	p := startLazy(t, "13", "exit_while_waiting")
	p.hear("started")
	p.r.next(t, "begin")
	p.goOn()
	p.finish(func(*testing.T, event) {})
	p.mustSucceed()
}

// A library that makes a context through the driver gets the granted device too.
func TestLazyGuardsOtherContexts(t *testing.T) {
	p := runLazy(t, "13", "own_context")
	p.wantLine(fmt.Sprintf("context on %d", grantedDevice))
	begins := p.of("begin")
	if len(begins) != 2 || begins[0].r.Bytes != 2<<20 || begins[1].r.Flags&FlagDevice == 0 {
		t.Errorf("events %v", p.events)
	}
	if got, want := results(p.lines)[1:], results(native(t, "13", "own_context"))[1:]; !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}
