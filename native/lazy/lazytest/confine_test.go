package lazytest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// grantInTurn gives the k-th task of a run that may go anywhere to the k-th of the
// devices.
func grantInTurn(devices ...int) func(*testing.T, event) {
	return func(t *testing.T, e event) {
		if e.Kind != "begin" || e.Asks().OnDevice != nil {
			grant(t, e)
			return
		}
		if len(devices) == 0 {
			t.Errorf("one task too many: %+v", e.Asks())
			return
		}
		if err := e.grant(devices[0], fakeUUID(devices[0])); err != nil {
			t.Errorf("grant: %v", err)
		}
		devices = devices[1:]
	}
}

// bothDevices is what the run lets a job see.
const bothDevices = "GPU-ca5e0000-0000-0000-0000-000000000000,GPU-ca5e0000-0000-0000-0000-000000000001"

// A program below the shared runtime sees the granted device alone, as device 0.
func TestLazyConfinesAStaticRuntime(t *testing.T) {
	for device := range 2 {
		p := startStatic(t, "count static list", "CUDA_VISIBLE_DEVICES="+bothDevices).finish(grantInTurn(device))
		p.mustSucceed()
		p.wantLine("devices 1")
		p.wantLine("static on 0 memory on 0 right 1")
		p.wantLine(fmt.Sprintf("visible GPU-ca5e0000-0000-0000-0000-%012d was GPU-ca5e0000-0000-0000-0000-%012d;%s", device, device, bothDevices))
		p.wantLine(fmt.Sprintf("contexts 1 first %d violations 0", device))
		p.wantEvents("begin grow gone")
	}
}

// Threads that start the driver at the same time see the same.
func TestLazyConfinesThreadsThatStartTogether(t *testing.T) {
	p := startStatic(t, "together", "CUDA_VISIBLE_DEVICES="+bothDevices, "CASE_DEVICES="+bothDevices, "FAKE_CUDA_INIT_MS=20").finish(grant)
	p.mustSucceed()
	if want := []string{"devices 1", "devices 1", "contexts 0 first -1 violations 0"}; !slices.Equal(p.lines, want) {
		t.Errorf("output %q, want %q", p.lines, want)
	}
	p.wantEvents("begin gone")
}

// Where nobody schedules, or the program chooses, or the device was chosen before,
// a program sees what it saw.
func TestLazyConfinesNobodyElse(t *testing.T) {
	for _, env := range [][]string{{"CASE_SOCKET=", "CASE_REQUIRED=0"}, {"CASE_PIN=1"}, {"CASE_BINDING=job"}} {
		p := startStatic(t, "count list", env...).finish(grant)
		p.mustSucceed()
		p.wantLine("devices 2")
		p.wantLine("visible unset was unset")
	}
}

// A confined program's later tasks ask for its device by the scheduler's number,
// also after a reset.
func TestLazyConfinedStaysOnItsDevice(t *testing.T) {
	for program, want := range map[string]int{"tasks": 3, "reset": 2} {
		p := runLazy(t, "13", program, besideTheDriver(t, ".rodata"))
		p.wantNothingLeft()
		begins := p.of("begin")
		if len(begins) < want {
			t.Fatalf("%s: events %v", program, p.events)
		}
		for i, e := range begins {
			if pinned := e.Asks().OnDevice != nil; pinned != (i > 0) || pinned && *e.Asks().OnDevice != grantedDevice {
				t.Errorf("%s: request %d %+v", program, i, e.Asks())
			}
		}
	}
}

// A self-contained program is not confined, and its next task may go elsewhere.
func TestLazySelfContainedMoves(t *testing.T) {
	p := startLazy(t, "13", "tasks").finish(grantInTurn(1, 0, 1))
	p.mustSucceed()
	p.wantNothingLeft()
	p.wantNative()
	for when, contexts := range map[string]int{"first": 1, "second": 2, "third": 2} {
		p.wantLine(fmt.Sprintf("%s: contexts %d first 1 %s", when, contexts, nothingLeft))
	}
}

// Questions about the device come before any context; they get the device too.
func TestLazyConfinesWhoAsksFirst(t *testing.T) {
	p := runLazy(t, "13", "ask_first", besideTheDriver(t, ".rodata"))
	p.wantLine("asked: contexts 0 first -1 " + nothingLeft)
	p.wantLine("context 1 on 0")
	p.wantEvents("begin gone")
	p = runLazy(t, "13", "devices", besideTheDriver(t, ".rodata"))
	p.wantLine("count 1 device 0 last 0 beyond 101 error 101")
	p.wantNothingLeft()
	for _, line := range p.lines {
		if strings.Contains(line, ": contexts ") && !strings.Contains(line, fmt.Sprintf(" first %d ", grantedDevice)) {
			t.Errorf("%s", line)
		}
	}
}

// Children ask for tasks of their own, which may be granted another device than the
// parent's; those that were told what to see, see that.
func TestLazyChildrenOfAConfinedProgram(t *testing.T) {
	for does, granted := range map[string][]int{"fork static": {1, 0}, "static exec count static": {1, 0},
		"static exec exec static": {1, 0}, "static exec static exec static": {1, 0, 1}} {
		p := startStatic(t, does, "CUDA_VISIBLE_DEVICES="+bothDevices).finish(grantInTurn(granted...))
		p.mustSucceed()
		if begins := p.of("begin"); len(begins) != len(granted) {
			t.Errorf("%s: begins %v", does, begins)
		}
		var on, want []string
		for _, line := range p.lines {
			if strings.HasPrefix(line, "contexts ") && !strings.HasPrefix(line, "contexts 0 ") {
				on = append(on, line)
			}
			if strings.HasPrefix(line, "child: ") || strings.Contains(line, ": error ") {
				t.Errorf("%s: %s", does, line)
			}
		}
		for _, device := range granted {
			want = append(want, fmt.Sprintf("contexts 1 first %d violations 0", device))
		}
		slices.Sort(on)
		slices.Sort(want)
		if !slices.Equal(on, want) {
			t.Errorf("%s: %q, want %q", does, on, want)
		}
	}
	for does, want := range map[string]string{"static exec list": bothDevices, "static tell exec list": "0"} {
		p := startStatic(t, does, "CUDA_VISIBLE_DEVICES="+bothDevices).finish(grant)
		p.mustSucceed()
		p.wantLine("visible " + want + " was unset")
	}
}

// initializes is an object that initializes the driver when it is loaded; how says
// what it looks cuInit up with.
func initializes(how string) string {
	return fmt.Sprintf(`#define _GNU_SOURCE
#include <dlfcn.h>
__attribute__((constructor)) static void start(void)
{
	void *(*look)(void *, const char *) = %s;
	((int (*)(unsigned))look(dlopen("libcuda.so.1", RTLD_NOW), "cuInit"))(0);
}
`, how)
}

// asOthersDo is seen by libcase; unseen is not, as calls inside the driver are not.
const (
	asOthersDo = "dlsym"
	unseen     = `dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", "GLIBC_2.34")`
)

// Who initializes the driver past the shared runtime is confined; a profiler that
// does is none of the program's parts, and keeps no program from moving.
func TestLazyTellsProfilersFromPrograms(t *testing.T) {
	p := runLazy(t, "13", "init_device", preloaded(t, "libcupti.so.13", initializes(asOthersDo)))
	p.wantLine("made: contexts 0 first -1 " + nothingLeft)
	p.wantEvents("")
	p = runLazy(t, "13", "init_device", preloaded(t, "libother.so", initializes(asOthersDo)))
	p.wantLine(fmt.Sprintf("made: contexts 1 first %d %s", grantedDevice, nothingLeft))
	p.wantLine("context 1 on 0")
	p.wantEvents("begin gone")
}

// One whose strings say nothing (python's ctypes) shows what it is by the call.
func TestLazyConfinesWhoCallsTheDriver(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	runLazy(t, "13", "own_context_in_threads", "FAKE_CUDA_TRACE="+trace).wantNothingLeft()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\ncuCtxCreate_v2 0 0\n") {
		t.Errorf("no context on device 0, the only one:\n%s", text)
	}
}

// Where the driver is initialized before libcase knows that the program is foreign,
// or behind its back, contexts are still made on the granted device.
func TestLazyRedirectsWhoCannotBeConfined(t *testing.T) {
	early := preloaded(t, "libcupti.so.13", initializes(asOthersDo))
	_, names, _ := strings.Cut(besideTheDriver(t, ".rodata"), ":")
	for _, preload := range []string{early + ":" + names, preloaded(t, "libother.so", initializes(unseen))} {
		p := runLazy(t, "13", "set_device", preload, "CUDA_VISIBLE_DEVICES="+bothDevices)
		p.wantLine(fmt.Sprintf("context 1 on %d", grantedDevice))
		p.wantLine(fmt.Sprintf("chosen: contexts 1 first %d %s", grantedDevice, nothingLeft))
		p.wantNothingLeft()
		p.wantEvents("begin gone")
	}
}

// A refusal is cuInit's own, and nobody is confined by it.
func TestLazyRefusesBeforeTheDriver(t *testing.T) {
	p := startStatic(t, "list count list").finish(func(t *testing.T, e event) {
		if e.Kind == "begin" {
			if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
				t.Error(err)
			}
		}
	})
	p.mustSucceed()
	if text := strings.Join(p.lines, "\n"); !strings.Contains(text, `("cuInit")(0): error 2`) ||
		strings.Count(text, "visible unset was unset") != 2 {
		t.Errorf("output %q", p.lines)
	}
	p.wantEvents("begin gone")
}

// PyTorch compares NVML's count with the runtime's.
func TestLazyCountsOneDeviceInNVML(t *testing.T) {
	for count, env := range map[int]string{1: "CASE_BINDING=task", 2: "CASE_BINDING=job", 3: "CASE_PIN=1"} {
		p := startStatic(t, "nvml", env, fmt.Sprintf("FAKE_CUDA_DEVICES=%d", max(count, 2))).finish(grant)
		p.mustSucceed()
		p.wantLine(fmt.Sprintf("nvmlDeviceGetCount 0 says %d", count))
		p.wantLine(fmt.Sprintf("nvmlDeviceGetCount_v2 0 says %d", count))
		p.wantLine("other 0")
		p.wantEvents("")
	}
	for list, count := range map[string]int{bothDevices: 1, "0,1": 1, "GPU-12": 1, strings.ReplaceAll(bothDevices, "-000000000000", "-000000000002"): 3} {
		p := startStatic(t, "nvml", "CUDA_VISIBLE_DEVICES="+list, "FAKE_CUDA_DEVICES=4").finish(grant)
		p.mustSucceed()
		p.wantLine(fmt.Sprintf("nvmlDeviceGetCount_v2 0 says %d", count))
	}
	p := startStatic(t, "static nvml", "CUDA_VISIBLE_DEVICES="+bothDevices).finish(grant) // confined to device 1
	p.mustSucceed()
	p.wantLine("nvmlDeviceGetCount_v2 0 says 1")
	p = startStatic(t, "nvml", "FAKE_NVML_FAIL=9").finish(grant)
	p.mustSucceed()
	p.wantLine("nvmlDeviceGetCount_v2 9 says 99")
}
