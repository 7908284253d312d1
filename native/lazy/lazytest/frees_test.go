package lazytest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
)

// Programs of native/lazy/tests/programs/frees.cc: what is freed, destroyed or hidden before
// the program's work is done.

// What the replay reads and writes is there until it has, and nothing else is.
func TestLazyFreesBeforeItBinds(t *testing.T) {
	for way, mib := range map[string]int64{"source": 8, "chain": 4, "set": 4, "order": 4} {
		for _, version := range cudaVersions {
			p := runLazy(t, version, "frees "+way).wantNative()
			p.wantNothingLeft()
			if begins := p.of("begin"); len(begins) != 1 || begins[0].Bytes != mib<<20 {
				t.Errorf("%s: begins %v, want %d MiB", way, begins, mib)
			}
		}
	}
}

// Handles that CUDA refuses are refused, and no fault of the replay's.
func TestLazyRefusesHandlesThatAreGone(t *testing.T) {
	for _, way := range []string{"never", "twice", "reset", "early_reset"} {
		for _, version := range cudaVersions {
			p := runLazy(t, version, "gone "+way).wantNative()
			if faults := p.of("fault"); (way == "early_reset") != (len(faults) == 1) {
				t.Errorf("%s, CUDA %s: events %v", way, version, p.events)
			}
		}
	}
}

// Cleaning up where there is nothing asks for no device.
func TestLazyFreesNoHostMemory(t *testing.T) {
	runLazy(t, "13", "host_frees").wantNative().wantEvents("")
}

// A wait that fails, as in a host function, has not shown that the device is done with the memory.
func TestLazyFreesNothingWhereTheWaitFails(t *testing.T) {
	for _, env := range []string{"CASE_MOVABLE=0", movable} {
		p := runLazy(t, "13", "frees_again", env, "FAKE_CUDA_FAIL=cudaDeviceSynchronize:1=800")
		want := []string{"freed 800", "value 3", "freed 0"}
		if got := results(p.lines); !slices.Equal(got, want) {
			t.Errorf("%s: output %q, want %q", env, got, want)
		}
		p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
	}
}

// A thread's first call is about the granted device, whatever it is.
func TestLazyOrdersFreesInNewThreads(t *testing.T) {
	p := runLazy(t, "13", "ordered_in_thread").wantNative()
	p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
	p.wantEvents("begin grow free gone")
}

// What the context keeps, the task does: others would be granted it.
func TestLazyKeepsTheTaskOfWhatStays(t *testing.T) {
	runLazy(t, "13", "keeps pool").wantNative().wantEvents("begin grow grow gone")
	p := runLazy(t, "13", "keeps variable").wantNative()
	p.wantEvents("begin grow gone")
	if r := p.of("begin")[0]; r.Bytes != 6<<20 {
		t.Errorf("begin %+v, want the variable of 4 MiB and a granule", r)
	}
	p = runLazy(t, "13", "keeps same_variable").wantNative()
	p.wantEvents("begin grow free begin grow free gone")
	if r := p.of("begin")[0]; r.Bytes != 2<<20 {
		t.Errorf("begin %+v, want a granule", r)
	}
	runLazy(t, "13", "keeps pool_no_more").wantNative().wantEvents("begin grow grow free begin grow grow free gone")
}

// What is filled and freed leaves nothing behind, not even waits for it.
func TestLazyForgetsTemporaries(t *testing.T) {
	runLazy(t, "13", "temporaries").wantNative().wantNothingLeft()
	if waits := traced(t, "13", "temporaries", "cudaDeviceSynchronize"); len(waits) > 5 {
		t.Errorf("%d waits for nothing", len(waits))
	}
}

// A fault that nobody waited for is reported from whatever device.
func TestLazyReportsFaultsOfEachDevice(t *testing.T) {
	for _, env := range []string{"CASE_PIN=1", "CASE_BINDING=job"} {
		for _, way := range []string{"waits", "leaves"} {
			p := runLazy(t, "13", "faults_behind "+way, env)
			if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 {
				t.Errorf("%s, %s: events %v", env, way, p.events)
			}
		}
	}
}

// The stream that is each thread's own can be asked about by that thread alone.
func TestLazyKeepsACaptureOfAThreadsOwnStream(t *testing.T) {
	runLazy(t, "13", "captures_own").wantNative().wantNothingLeft()
}

// The granted device is used whatever the program, or a script that starts it, would have.
func TestLazyFindsTheGrantedDevice(t *testing.T) {
	const x = "x -915099124094415232"
	on := fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft)
	for list, env := range map[string][]string{
		"1":   {"CASE_DEVICES=" + bothDevices},
		"0":   {"CASE_DEVICES=" + bothDevices},
		"1,0": nil,
	} {
		p := runLazy(t, "13", "chooses "+list, env...)
		p.wantLine(x)
		p.wantLine(on)
		p.wantEvents("begin grow free gone")
		if want := map[bool]string{true: "sees " + bothDevices, false: "sees " + list}[env != nil]; !slices.Contains(p.lines, want) {
			t.Errorf("output %q, want %q", p.lines, want)
		}
	}
	p := runLazy(t, "13", "chooses 0") // without a run's list
	if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 100 || !strings.Contains(faults[0].Text, "CUDA_VISIBLE_DEVICES") {
		t.Errorf("events %v", p.events)
	}
	if begins, frees := len(p.of("begin")), len(p.of("free")); begins != 1 || frees != 1 {
		t.Errorf("events %v", p.events)
	}
}

// Handles of ours mean nothing to a part with a CUDA runtime of its own. Where one may be
// loaded later, there are none.
func TestLazyMakesStreamsWhereProgramsLoadParts(t *testing.T) {
	const calls = "int cudaSetDevice(int);\nint choose(void) { return cudaSetDevice(0); }\n"
	const opens = "void *dlopen(const char *, int);\nvoid *load(const char *name) { return dlopen(name, 1); }\n"
	runtime := filepath.Join(fakeDir, "build/13/libcudart.so.13")
	for name, c := range map[string]struct {
		text     string
		with     []string
		contexts int
	}{
		"of CUDA's, and loads":  {calls + opens, []string{runtime}, 1},
		"of CUDA's":             {calls + "const char names[] = \"dlopen\";", []string{runtime}, 0},
		"loads, and is no CUDA": {opens, nil, 0},
	} {
		p := runLazy(t, "13", "streams", preloaded(t, "part.so", c.text, c.with...))
		if !slices.ContainsFunc(p.lines, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("before: contexts %d ", c.contexts)) }) {
			t.Errorf("%s: output %q", name, p.lines)
		}
	}
}
