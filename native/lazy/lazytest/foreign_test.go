package lazytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// besideTheDriver is LD_PRELOAD with an object that can reach the driver by
// itself: it has the driver's name in the given section.
func besideTheDriver(t *testing.T, section string) string {
	t.Helper()
	text := fmt.Sprintf("__attribute__((section(%q))) const char names_the_driver[] = \"a lib\" \"cuda\" \"libcuda.so.1\";", section)
	return preloaded(t, "names.so", text)
}

// objectsDir is where the objects of preloaded are, each once.
var (
	objectsDir string
	objects    sync.Map
)

func TestMain(m *testing.M) {
	var err error
	if objectsDir, err = os.MkdirTemp("", "probe"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(objectsDir)
	os.Exit(status)
}

// preloaded is LD_PRELOAD with libcase and an object made of this C source.
func preloaded(t *testing.T, name, text string, with ...string) string {
	t.Helper()
	once, _ := objects.LoadOrStore(fmt.Sprint(name, text, with), sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp(objectsDir, "")
		if err != nil {
			return "", err
		}
		source, object := filepath.Join(dir, "source.c"), filepath.Join(dir, name)
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			return "", err
		}
		if out, err := exec.Command("cc", append([]string{"-shared", "-fPIC", "-o", object, source}, with...)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return object, nil
	}))
	object, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	library := absolute(t, lazyDir, "libcase.so")
	return "LD_PRELOAD=" + library + ":" + object
}

// What a program can look up by name is in its strings, not in its device code.
func TestLazyLooksForTheDriverInStrings(t *testing.T) {
	for section, early := range map[string]bool{".rodata": true, ".data.rel.ro": true, ".nv_fatbin": false,
		"__nv_relfatbin": false} {
		p := runLazy(t, "13", "basic", besideTheDriver(t, section))
		if r := p.of("begin")[0].Asks(); (r.Blocks == 0) != early {
			t.Errorf("%s: begin %+v", section, r)
		}
	}
}

// A program that can reach the driver finds the context that choosing the device
// has made, which is the granted one's.
func TestLazyMakesTheContextWhenTheDeviceIsChosen(t *testing.T) {
	for _, program := range []string{"set_device", "init_device"} {
		p := runLazy(t, "13", program, besideTheDriver(t, ".rodata"))
		p.wantNothingLeft()
		p.wantLine("context 1 on 0") // the process sees no other
		p.wantLine(fmt.Sprintf("chosen: contexts 1 first %d %s", grantedDevice, nothingLeft))
		if program == "init_device" {
			p.wantLine(fmt.Sprintf("made: contexts 1 first %d %s", grantedDevice, nothingLeft))
		}
		p.wantEvents("begin gone")
	}
}

// One that cannot, waits for its first launch.
func TestLazyWaitsWhereNobodyLooks(t *testing.T) {
	p := runLazy(t, "13", "init_device")
	p.wantLine("made: contexts 0 first -1 " + nothingLeft)
	p.wantEvents("")
}

// The device's refusal is cudaSetDevice's.
func TestLazyRefusedWhenTheDeviceIsChosen(t *testing.T) {
	p := startLazy(t, "13", "set_device", besideTheDriver(t, ".rodata")).finish(func(t *testing.T, e event) {
		if e.Kind == "begin" {
			if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
				t.Error(err)
			}
		}
	})
	p.mustSucceed()
	p.wantLine("chosen: error 2")
}

// A context of the program's own stays its threads' own, until the program
// chooses the device.
func TestLazyLeavesOwnContexts(t *testing.T) {
	for _, program := range []string{"own_context_in_threads", "back_to_primary"} {
		for _, version := range cudaVersions {
			p := runLazy(t, version, program, besideTheDriver(t, ".rodata"))
			p.wantNative()
			p.wantNothingLeft()
		}
	}
	runLazy(t, "13", "own_context_in_threads").wantNative() // bound by the context itself
}

// What the driver allocates in a context of the program's own ends with that context.
func TestLazyEndsMemoryWithItsContext(t *testing.T) {
	for _, env := range []string{"CASE_MOVABLE=0", movable} {
		p := runLazy(t, "13", "ends_contexts", env)
		p.wantNative()
		p.wantNothingLeft()
	}
}

// Once somebody has made a context through the driver, no address without memory
// is handed out.
func TestLazyBindsAtOnceAfterAnOwnContext(t *testing.T) {
	begins := runLazy(t, "13", "own_context").of("begin")
	if len(begins) != 2 || begins[1].Bytes != 0 || begins[1].Asks().Blocks != 0 {
		t.Errorf("begins %v", begins)
	}
}

// startStatic starts a program without the shared runtime, bound by task as
// python is.
func startStatic(t *testing.T, does string, env ...string) *lazyRun {
	t.Helper()
	return startLazyBinary(t, "13", "static_program", does, env...)
}

// A program with a static runtime gets the granted device, by the driver's calls
// alone, and may come to use a shared one.
func TestLazyServesAStaticRuntime(t *testing.T) {
	for does, events := range map[string]string{"static": "begin grow gone", "static static": "begin grow gone",
		"static shared": "begin grow free gone", "shared static": "begin grow free begin grow free gone",
		"driver static shared": "begin grow free gone"} {
		p := startStatic(t, does).finish(grant)
		p.mustSucceed()
		p.wantNothingLeft()
		p.wantEvents(events)
		if strings.Contains(does, "static") {
			p.wantLine("static on 0 memory on 0 right 1")
		}
		if strings.Contains(does, "shared") {
			p.wantLine("shared right 1")
		}
		if last := p.lines[len(p.lines)-1]; !strings.Contains(last, fmt.Sprintf(" first %d violations 0", grantedDevice)) {
			t.Errorf("%s: %s", does, last)
		}
	}
}

func TestLazyRefusesAStaticRuntime(t *testing.T) {
	p := startStatic(t, "static").finish(func(t *testing.T, e event) {
		if e.Kind == "begin" {
			if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
				t.Error(err)
			}
		}
	})
	p.mustSucceed()
	p.wantLine("retain 2")
	p.wantLine("contexts 0 first -1 violations 0")
	if !strings.Contains(p.stderr.String(), "fits no device") {
		t.Errorf("stderr %q", p.stderr.String())
	}
}

// What keeps a process from binding is the driver's error, and the run hears it.
func TestLazyTellsWhyNoContextIsMade(t *testing.T) {
	for fail, want := range map[string]struct{ result, code int }{"cudaFree:1=801": {801, 801},
		"cudaFree:1=35": {999, 35}, "cudaSetDevice:1=46": {46, 46}} {
		p := startLazy(t, "13", "own_context", "FAKE_CUDA_FAIL="+fail).finish(grant)
		p.mustSucceed()
		if text := strings.Join(p.lines, "\n"); !strings.Contains(text, fmt.Sprintf("0, 0): error %d", want.result)) {
			t.Errorf("%s: output %q", fail, p.lines)
		}
		if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != want.code || len(p.of("oom")) != 0 {
			t.Errorf("%s: events %v", fail, p.events)
		}
	}
}
