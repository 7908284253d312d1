package lazytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// The tests named TestLazyInstance are of nodes with instances of MIG (FAKE_MIG): two instances and a whole GPU. CUDA shows a process
// the first device that CUDA_VISIBLE_DEVICES names.
var splitDevices = []string{"MIG-ca5e0000-0000-0000-0000-000000000000", "MIG-ca5e0000-0000-0000-0000-000000000001", "GPU-ca5e0000-0000-0000-0000-000000000002"}

// onSplitNode is what a run says to its jobs on such a node.
func onSplitNode(more ...string) []string {
	list := strings.Join(splitDevices, ",")
	return append([]string{"FAKE_CUDA_DEVICES=3", "FAKE_MIG=2", "CASE_DEVICES=" + list, "CUDA_VISIBLE_DEVICES=" + list, "CASE_MPS_PIPES=/pipes/0:/pipes/1:/pipes/2"}, more...)
}

// Programs compute the same on an instance, and nobody sees the devices that are not the process's.
func TestLazyInstanceKeepsResults(t *testing.T) {
	for i, program := range programs {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := runLazy(t, cudaVersions[i%2], program, onSplitNode([]string{"CASE_MOVABLE=0", movable}[i/2%2])...)
			p.wantNative()
			p.wantNothingLeft()
			p.wantUse()
			for _, line := range p.lines {
				if strings.Contains(line, ": contexts ") && !strings.Contains(line, ": contexts 0 ") && !strings.Contains(line, fmt.Sprintf(" first %d ", grantedDevice)) {
					t.Errorf("%s", line)
				}
			}
			if begins, frees := len(p.of("begin")), len(p.of("free")); !holds(program) && begins != frees {
				t.Errorf("%d tasks began, %d ended: %v", begins, frees, p.events)
			}
		})
	}
}

// A self-contained program asks at its first launch, with all that it has allocated. The driver starts after the grant.
func TestLazyInstanceBindsAtTheFirstLaunch(t *testing.T) {
	for _, version := range cudaVersions {
		for device := range splitDevices {
			trace := filepath.Join(t.TempDir(), "trace")
			p := startLazy(t, version, "basic", onSplitNode("FAKE_CUDA_TRACE="+trace, "CASE_FOOTPRINT=1048576")...).finish(func(t *testing.T, e event) {
				if text, err := os.ReadFile(trace); e.Kind == "begin" && err == nil && strings.Contains(string(text), "cuInit") {
					t.Errorf("the driver has started before the grant:\n%s", text)
				}
				if e.Kind == "begin" {
					if err := e.grant(device, fakeUUID(device)); err != nil {
						t.Error(err)
					}
				}
			})
			p.mustSucceed()
			p.wantNative()
			p.wantNothingLeft()
			p.wantEvents("begin free gone")
			// What any other device gets (TestLazyBindsAtTheFirstLaunch), and no more: the footprint is smaller, with its allowance.
			if e := p.of("begin")[0]; e.Bytes != 17<<20 || e.heap() != 8<<20 || e.Asks().Blocks != 32 || e.Asks().ThreadsPerBlock != 96 || e.Asks().OnDevice != nil {
				t.Errorf("begin %+v", e.Event)
			}
			p.wantLine("before: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 0 violations 0")
			p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", device, nothingLeft))
			if len(p.of("shape")) == 0 {
				t.Errorf("CUDA %s: the occupancy was not told", version)
			}
		}
	}
}

// Without a declared footprint the request has what is allocated.
func TestLazyInstanceAsksForWhatIsAllocated(t *testing.T) {
	p := runLazy(t, "13", "basic", onSplitNode()...)
	if e := p.of("begin")[0]; e.Bytes != 10<<20 || e.Posted.(runner.TaskBegin).Early {
		t.Errorf("begin %+v", e.Event)
	}
}

// What needs the driver asks for the device first, with the footprint that the job declares.
func TestLazyInstanceAsksEarly(t *testing.T) {
	for program, driver := range map[string]string{"ask_first": "cudaGetDeviceProperties", "free_memory": "cudaMemGetInfo"} {
		p := startLazy(t, "13", program, onSplitNode("CASE_FOOTPRINT=67108864,7,64")...)
		p.goOn() // when it waits for that
		p.finish(grant)
		p.mustSucceed()
		p.wantNothingLeft()
		begin := p.of("begin")[0]
		if !begin.Posted.(runner.TaskBegin).Early {
			t.Errorf("%s: the request does not say that it is early", driver)
		}
		if begin.Bytes != 80<<20 || begin.Asks().Blocks != 7 || begin.Asks().OnDevice != nil { // 16 MiB are the allowance
			t.Errorf("%s: begin %+v", driver, begin.Asks())
		}
	}
	p := runLazy(t, "13", "devices", onSplitNode()...)
	p.wantLine("count 1 device 0 last 0 beyond 101 error 101")
	p.wantLine(native(t, "13", "devices")[3])
	p.wantNothingLeft()
}

// A refusal is the error of the call that has asked.
func TestLazyInstanceRefused(t *testing.T) {
	p := startLazy(t, "13", "devices", onSplitNode()...).finish(func(t *testing.T, e event) {
		if e.Kind == "begin" {
			if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
				t.Error(err)
			}
		}
	})
	p.mustSucceed()
	p.wantLine("cudaGetDeviceProperties(properties, 0): error 2")
	p.wantLine("asked: contexts 0 first -1 " + nothingLeft)
}

// All tasks of a process are on its first task's device, by the scheduler's number.
func TestLazyInstanceStaysOnItsDevice(t *testing.T) {
	for _, version := range cudaVersions {
		for program, want := range map[string]int{"tasks": 3, "reset": 2, "tasks_in_threads": 4} {
			p := startLazy(t, version, program, onSplitNode()...).finish(grantInTurn(1))
			p.mustSucceed()
			p.wantNative()
			p.wantNothingLeft()
			begins := p.of("begin")
			if len(begins) < want {
				t.Fatalf("%s: events %v", program, p.events)
			}
			for i, e := range begins {
				if pinned := e.Asks().OnDevice != nil; pinned != (i > 0) || pinned && *e.Asks().OnDevice != 1 {
					t.Errorf("%s: request %d %+v", program, i, e.Asks())
				}
			}
		}
	}
}

// A child of fork asks for itself. It may get another instance than its parent.
func TestLazyInstanceOfAChild(t *testing.T) {
	p := startLazy(t, "13", "forks", onSplitNode()...).finish(grantInTurn(2, 1))
	p.mustSucceed()
	p.wantNative()
	p.wantLine("after: contexts 1 first 1 " + nothingLeft)
	p.wantEvents("begin grow free gone begin grow free gone")
}

// So do the programs that a confined one starts. Each has the MPS server of its own device.
func TestLazyInstanceOfOtherPrograms(t *testing.T) {
	list := strings.Join(splitDevices, ",")
	for does, granted := range map[string][]int{"static list": {1}, "static list exec static list": {1, 0},
		"static list exec list exec static list": {1, 2}, "fork static list": {0, 1}, "static list exec static list exec static list": {0, 2, 1}} {
		p := startStatic(t, does, onSplitNode("CUDA_MPS_PIPE_DIRECTORY=/pipes/all")...).finish(grantInTurn(granted...))
		p.mustSucceed()
		if begins := p.of("begin"); len(begins) != len(granted) {
			t.Errorf("%s: begins %v", does, begins)
		}
		for _, device := range granted {
			p.wantLine(fmt.Sprintf("visible %s was %s;%s", splitDevices[device], splitDevices[device], list))
			p.wantLine(fmt.Sprintf("pipe /pipes/%d was /pipes/%d;/pipes/all", device, device))
			p.wantLine(fmt.Sprintf("contexts 1 first %d violations 0", device))
		}
		if strings.Contains(does, "exec list") { // before it has a device, a program has what its parent began with
			p.wantLine("visible " + list + " was unset")
			p.wantLine("pipe /pipes/all was unset")
		}
	}
	p := startStatic(t, "static list", onSplitNode("CASE_MPS_PIPES=")...).finish(grantInTurn(2))
	p.mustSucceed()
	p.wantLine("pipe unset was unset")
	p = startStatic(t, "static list", "CUDA_VISIBLE_DEVICES="+bothDevices, "CASE_DEVICES="+bothDevices, "CASE_MPS_PIPES=/pipes/0:/pipes/1").finish(grant)
	p.mustSucceed()
	p.wantLine("pipe /pipes/1 was /pipes/1;")
}

// A program that is not self-contained is on the granted device too. A tool that starts the driver asks for the program.
func TestLazyInstanceOfOthersThatStartTheDriver(t *testing.T) {
	for device := range splitDevices {
		p := startStatic(t, "count static list", onSplitNode()...).finish(grantInTurn(device))
		p.mustSucceed()
		p.wantLine("devices 1")
		p.wantLine("static on 0 memory on 0 right 1")
		p.wantLine(fmt.Sprintf("contexts 1 first %d violations 0", device))
		p.wantEvents("begin grow gone")
	}
	for name, how := range map[string]string{"libcupti.so.13": asOthersDo, "libother.so": asOthersDo} {
		p := runLazy(t, "13", "set_device", append(onSplitNode(), preloaded(t, name, initializes(how)))...)
		p.wantLine("context 1 on 0")
		p.wantLine(fmt.Sprintf("chosen: contexts 1 first %d %s", grantedDevice, nothingLeft))
		p.wantNothingLeft()
	}
}

// Whoever starts the driver behind the library's back has the first device. If that is the granted one, the program works. Else it hears
// that there is no device.
func TestLazyInstanceOfADriverThatHasStarted(t *testing.T) {
	early := append(onSplitNode(), preloaded(t, "libother.so", initializes(unseen)))
	p := startLazy(t, "13", "basic", early...).finish(grantInTurn(0))
	p.mustSucceed()
	p.wantLine("after: contexts 1 first 0 " + nothingLeft)
	p.wantNative()
	p = startLazy(t, "13", "basic", early...).finish(grantInTurn(1))
	p.mustSucceed()
	if len(p.of("fault")) == 0 || !strings.Contains(strings.Join(p.lines, "\n"), "error 100") {
		t.Errorf("%v: %q", p.events, p.lines)
	}
}

// Threads that allocate while the driver starts keep their addresses, and those that start it at once see the same.
func TestLazyInstanceWhileTheDriverStarts(t *testing.T) {
	for _, program := range []string{"threads", "churn", "objects_beside"} {
		p := startLazy(t, "13", program, onSplitNode("FAKE_CUDA_INIT_MS=20")...).finish(grantInTurn(1))
		p.mustSucceed()
		p.wantNative()
		p.wantNothingLeft()
	}
	p := startStatic(t, "together", onSplitNode("FAKE_CUDA_INIT_MS=20")...).finish(grantInTurn(1))
	p.mustSucceed()
	p.wantLines("devices 1", "devices 1", "contexts 0 first -1 violations 0")
}

// A driver that does not start is the same error as on other nodes.
func TestLazyInstanceWithoutADriver(t *testing.T) {
	const fails = "FAKE_CUDA_FAIL=cuInit:1+=100"
	p := startLazy(t, "13", "launch_only", onSplitNode(fails)...).finish(grant)
	other := startLazy(t, "13", "launch_only", fails).finish(grant)
	if strings.Join(p.lines, "\n") != strings.Join(other.lines, "\n") || len(p.of("fault")) != len(other.of("fault")) {
		t.Errorf("%q %v, on other nodes %q %v", p.lines, p.events, other.lines, other.events)
	}
	p = startLazy(t, "13", "basic", onSplitNode(fails)...).finish(grant)
	if faults := p.of("fault"); len(faults) != 1 || strings.Contains(fmt.Sprint(faults[0].Event), "addresses") {
		t.Errorf("%v: %q", p.events, p.lines)
	}
}

// If the driver gives away addresses that the program has, no device will do.
func TestLazyInstanceWithoutItsAddresses(t *testing.T) {
	p := startLazy(t, "13", "basic", onSplitNode("FAKE_CUDA_FAIL=cuMemAddressReserve:1=2")...).finish(grantInTurn(1))
	p.mustSucceed()
	if faults := p.of("fault"); len(faults) != 1 || !strings.Contains(fmt.Sprint(faults[0].Event), "addresses") {
		t.Errorf("%v: %q", p.events, p.lines)
	}
}

// A program that asks for tasks itself has one device, 0, from its first task on.
func TestLazyInstanceOfExplicitTasks(t *testing.T) {
	for _, c := range explicitPrograms {
		for device := range splitDevices {
			l := newLedger(0)
			turns := grantInTurn(device)
			p := startLazyBinary(t, c.version, c.file, "one", onSplitNode("CASE_FOOTPRINT=67108864")...).finish(func(t *testing.T, e event) {
				if e.Kind == "begin" {
					l.said = append(l.said, fmt.Sprintf("begin %d", e.Bytes>>20))
				}
				turns(t, e)
			})
			p.mustSucceed()
			p.wantNothingLeft()
			p.wantLines("granted 0 of 1", "right 1 1", fmt.Sprintf("after: contexts 1 first %d %s", device, nothingLeft))
			l.wantSaid(t, "begin 64")
		}
		p := startLazyBinary(t, c.version, c.file, "four", onSplitNode()...).finish(grantInTurn(1))
		p.mustSucceed()
		p.wantLine("right 4")
		for i, e := range p.of("begin") {
			if pinned := e.Asks().OnDevice != nil; pinned != (i > 0) || e.Bytes != 64<<20 {
				t.Errorf("%s: request %d %+v", c.file, i, e.Asks())
			}
		}
		p = startLazyBinary(t, c.version, c.file, "before", onSplitNode("CASE_FOOTPRINT=67108864")...).finish(grantInTurn(2))
		p.mustSucceed()
		p.wantLines("of 1 right 1", "granted 0 right 1", "after: contexts 1 first 2 "+nothingLeft)
	}
	p := startLazyBinary(t, "13", "explicit_static", "begin count static end list", onSplitNode()...).finish(grantInTurn(1))
	p.mustSucceed()
	p.wantLine("begin 0 device 0")
	p.wantLine("devices 1")
	p.wantLine("static on 0 memory on 0 right 1")
	p.wantLine("pipe /pipes/1 was /pipes/1;")
}

// Tasks that the compiler has found are such tasks too. Their occupancy is not known before the program has its device.
func TestLazyInstanceOfStaticTasks(t *testing.T) {
	for program, said := range map[string]string{"first": "begin 64+0 on any; free; begin 32+8 on 1; free", "last": "begin 32+8 on any; free; begin 64+0 on 1; free",
		"moves": "begin 64+0 on any; free; begin 64+0 on 1; free", "recorded": "begin 32+8 on any; begin 64+0 on 1; free; free"} {
		p, l := runExplicit(t, "13", partly, program, 1, onSplitNode()...)
		p.wantLine("static 1")
		p.wantLine("after: contexts 1 first 1 " + nothingLeft)
		l.wantSaid(t, said)
	}
}

// A process does not go to another device.
func TestLazyInstanceDoesNotMove(t *testing.T) {
	p := startMoved(t, "memory", onSplitNode()...)
	if was := p.move(1, 0); was.Outcome != schedulers.Unable || !strings.Contains(fmt.Sprintf("%+v", was), "one instance of MIG") {
		t.Errorf("moved: %+v", was)
	}
	p.computes()
	p.goOn()
	p.endsAsNative()
}

// Programs that are made up from a seed compute the same, and so do programs that have the lazy runtime linked into them.
func TestLazyInstanceOfRandomAndLinkedPrograms(t *testing.T) {
	for first := range 9 {
		version, program := cudaVersions[first%2], fmt.Sprintf("random %d,4,%d", 16*first, 1+first%3)
		p := startLazy(t, version, program, onSplitNode()...).finish(grantByTurns())
		p.mustSucceed()
		p.wantNative()
	}
	for _, program := range []string{"basic", "streams", "captured", "tasks", "devices", "settings", "limits", "fault"} {
		preloaded := startLazy(t, "13", program, onSplitNode()...).finish(grant)
		startLazyBinary(t, "13", "linked_lazy", program, onSplitNode(notPreloaded)...).finish(grant).wantSame(preloaded)
		startLazyBinary(t, "13", "linked_lazy", program, onSplitNode()...).finish(grant).wantSame(preloaded)
	}
}

// Memory leaves an instance and comes back.
func TestLazyInstanceIsTakenFrom(t *testing.T) {
	for seed := range uint64(4) {
		for _, program := range []string{"swapped", "tasks", "churn"} {
			p, k := startTaking(t, seed, cudaVersions[seed%2], program, onSplitNode()...)
			p.finish(k.answer)
			p.mustSucceed()
			p.wantNative()
		}
	}
}
