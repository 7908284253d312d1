package ivmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/native/nativetest"
)

// onGPUs prepares a program under ivmd on a node of three fake GPUs. The environment is as the test says.
func onGPUs(t *testing.T, environment []string, program string, arguments ...string) *exec.Cmd {
	t.Helper()
	ivmd, path := built(t, program)
	fakes := filepath.Join(nativetest.Build(t, "fake"), "build/13")
	c := application(t, ivmd, append([]string{path}, arguments...)...)
	c.Env = append(c.Env, "LD_LIBRARY_PATH="+fakes, "FAKE_CUDA_DEVICES=3")
	c.Env = append(c.Env, environment...)
	return c
}

// calls counts the calls of a function of the driver in a trace.
func calls(t *testing.T, trace, call string) int {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count("\n"+string(text), "\n"+call+" ")
}

// runOnGPUs runs it.
func runOnGPUs(t *testing.T, environment []string, program string, arguments ...string) ends {
	t.Helper()
	c := onGPUs(t, environment, program, arguments...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return finish(t, c)
}

// Each call does on GPUs what ivm.h says, also on GPUs that CUDA_VISIBLE_DEVICES names, or names twice: they are devices of their own.
func TestCallsOnGPUs(t *testing.T) {
	for _, visible := range []string{"", "2,0,1", "1,1,1"} {
		var environment []string
		if visible != "" {
			environment = []string{"CUDA_VISIBLE_DEVICES=" + visible}
		}
		runOnGPUs(t, environment, "calls", "gpu").must(t)
	}
}

// After random calls each copy has the bytes that a model has, whichever of them are on GPUs.
func TestCopiesOnGPUsAreThoseOfAModel(t *testing.T) {
	for seed := range chance.Seeds(t, 4, 200) {
		for types, master := range map[string]string{"cgg": strconv.FormatUint(seed%3, 10), "ccg": "2"} {
			runOnGPUs(t, nil, "model", strconv.FormatUint(seed, 10), "200", types, master).must(t)
		}
	}
}

func TestThreadsOfAPEOnAGPUCallAtOnce(t *testing.T) { runOnGPUs(t, nil, "threads", "gpu").must(t) }

// PEs of one GPU share one copy, which lasts longer than the PE that has made it. Each copy is allocated once.
func TestPEsOfAGPUShareACopy(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	runOnGPUs(t, []string{"FAKE_CUDA_TRACE=" + trace}, "gpu", "master").must(t)
	if made := calls(t, trace, "cuMemCreate"); made != 3 { // the object on each GPU, and the object that has its name in vain
		t.Errorf("%d copies are made", made)
	}
}

// A PE that is ended while it makes a copy on a GPU leaves it to the next PE.
func TestACopyOnAGPUIsMadeByWhoIsLeft(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	for _, slow := range []string{"cuMemCreate", "cuMemcpyHtoD_v2"} {
		runOnGPUs(t, []string{"FAKE_CUDA_DELAY_US=" + slow + "=3000", "FAKE_CUDA_TRACE=" + trace}, "fill", "gpu").must(t)
	}
	if calls(t, trace, "cuMemHostRegister_v2") == 0 { // its object is large enough
		t.Error("memory of the node is not registered with CUDA")
	}
}

// PEs that cannot make a copy get an error, one after the other, and the application goes on.
func TestACopyThatNobodyCanMake(t *testing.T) {
	runOnGPUs(t, []string{"FAKE_CUDA_MEMORY=" + strconv.Itoa(10<<20)}, "gpu", "memory").must(t)         // but for the context
	runOnGPUs(t, []string{"FAKE_CUDA_FAIL=cuMemExportToShareableHandle:1+=2"}, "gpu", "memory").must(t) // it is made, and given up
	runOnGPUs(t, []string{"LD_LIBRARY_PATH=", "CUDA_VISIBLE_DEVICES=0"}, "gpu", "without").must(t)      // no driver
	runOnGPUs(t, []string{"CUDA_VISIBLE_DEVICES=GPU-of-another-node"}, "gpu", "without").must(t)        // no such GPU
	runOnGPUs(t, []string{"FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain:1+=2"}, "gpu", "memory").must(t)     // no context
	runOnGPUs(t, nil, "gpu", "huge").must(t)
	e := runOnGPUs(t, []string{"FAKE_CUDA_FAIL=cuMemMap:1+=1"}, "gpu", "memory")
	if want := "ivm: cuMemMap: CUDA_ERROR_INVALID_VALUE (1)\n"; e.status != 124 || !strings.Contains(e.stderr, want) {
		t.Errorf("status %d, want %q in\n%s", e.status, want, e.stderr)
	}
}

// A node without NVML has no GPUs that ivmd knows. An empty list has none either.
func TestNoGPU(t *testing.T) {
	for _, environment := range []string{"LD_LIBRARY_PATH=", "CUDA_VISIBLE_DEVICES=", "FAKE_CUDA_DEVICES=0"} {
		e := runOnGPUs(t, []string{environment}, "gpu", "master")
		if want := "is -19 (there is no such device"; e.status != 124 || !strings.Contains(e.stderr, want) {
			t.Errorf("%s: status %d, want %q in\n%s", environment, e.status, want, e.stderr)
		}
	}
}

// PEs on processors load no CUDA.
func TestPEsOnProcessorsLoadNoCUDA(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	runOnGPUs(t, []string{"FAKE_CUDA_TRACE=" + trace}, "calls").must(t)
	if _, err := os.Stat(trace); err == nil {
		t.Error("a PE has called CUDA")
	}
}

// The programs that measure run on GPUs.
func TestWhatMeasuresGPUsPrintsNumbers(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(nativetest.Build(t, "fake"), "build/13"))
	for command, want := range map[string]int{
		"start --gpu --count 3":       4,
		"putget --gpu --most 4194304": 2*7 + 4, // two rows, and what registered memory would bring
		"gpushare --bytes 10485760":   6,
	} {
		program, arguments, _ := strings.Cut(command, " ")
		ivmd, path := benchmark(t, program)
		e := run(t, ivmd, append([]string{path}, strings.Fields(arguments)...)...).must(t)
		if got := len(numbers.FindAllString(e.stdout, -1)); got != want {
			t.Errorf("%s prints %d numbers, want %d:\n%s", command, got, want, e.stdout)
		}
	}
}

// nbodyOnGPUs is the environment of NBODY on three fake GPUs, whose kernels the host executes.
func nbodyOnGPUs(t *testing.T) []string {
	t.Helper()
	kernels := filepath.Join(nativetest.Build(t, "../benchmarks/ivm", "fake"), "build")
	return []string{"LD_LIBRARY_PATH=" + kernels + ":" + filepath.Join(nativetest.Build(t, "fake"), "build/13"), "FAKE_CUDA_DEVICES=3"}
}

// NBODY has the result of the sequential program on one GPU and on several. --verify finds a portion and a kernel that are left out.
func TestNBODYOnGPUsHasTheResultOfTheSequentialProgram(t *testing.T) {
	ivmd, path := benchmark(t, "nbody")
	options := strings.Fields(sizes["nbody"])
	want := checksum.FindString(run(t, ivmd, append([]string{path}, options...)...).must(t).stdout)
	onGPUs := func(environment []string, arguments ...string) ends {
		c := application(t, ivmd, append(append([]string{path, "--gpu", "--verify", "--slow", "2"}, options...), arguments...)...)
		c.Env = append(append(c.Env, nbodyOnGPUs(t)...), environment...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return finish(t, c)
	}
	for _, devices := range []int{1, 2, 3} {
		trace := filepath.Join(t.TempDir(), "trace")
		e := onGPUs([]string{"FAKE_CUDA_TRACE=" + trace}, "--devices", strconv.Itoa(devices)).must(t)
		if got := checksum.FindString(e.stdout); got == "" || got != want {
			t.Errorf("%d GPUs: %q, on processors: %q", devices, got, want)
		}
		if made := calls(t, trace, "cuMemCreate"); made != 3*devices { // particles, their speeds, and who did which portion
			t.Errorf("%d GPUs: %d copies are made", devices, made)
		}
	}
	for _, e := range []ends{onGPUs(nil, "--omit", "4"), onGPUs([]string{"PILOT_OMIT=1"}, "--slow", "1")} {
		if e.status != 4 || !strings.Contains(e.stderr, "nbody: the result is not that of the sequential program") {
			t.Errorf("with work left out: status %d, %s", e.status, e.stderr)
		}
	}
}

// Where no CUDA compiler was, --gpu says what to build.
func TestNBODYWithoutItsKernelsSaysWhatToBuild(t *testing.T) {
	ivmd, path := benchmark(t, "nbody")
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "nbody")
	if err := os.WriteFile(alone, program, 0o700); err != nil {
		t.Fatal(err)
	}
	if e := run(t, ivmd, alone, "--gpu"); e.status != 1 || !strings.Contains(e.stderr, "--gpu needs what `make -C benchmarks/ivm gpu` builds: ") {
		t.Errorf("status %d, %s", e.status, e.stderr)
	}
}
