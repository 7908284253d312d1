package live

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// Programs as nvcc makes them, as far as the ELF file shows (package cudaelf).
const (
	sharedRuntime = `__attribute__((section(".nv_fatbin"), used)) static const char fat[4] = "dev";
		void __cudaRegisterFatBinary(void); int main(void) { __cudaRegisterFatBinary(); return 0; }`
	staticRuntime = `__attribute__((section(".nv_fatbin"), used)) static const char fat[4] = "dev";
		int main(void) { return 0; }`
)

func compile(t *testing.T, name, source string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	c := exec.Command("cc", append([]string{"-o", path, "-xc", "-"}, flags...)...)
	c.Stdin = strings.NewReader(source)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, text)
	}
	return path
}

// fakePrograms are a program of each kind: shared, static, without CUDA.
func fakePrograms(t *testing.T) (shared, static, plain string) {
	t.Helper()
	cudart := compile(t, "libcudart.so.13", "void __cudaRegisterFatBinary(void) {}", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13")
	shared = compile(t, "shared", sharedRuntime, "-xnone", cudart)
	return shared, compile(t, "static", staticRuntime), compile(t, "plain", "int main(void) { return 0; }")
}

func TestProgramsWithAStaticRuntimeAreBoundByTheirFootprint(t *testing.T) {
	shared, static, plain := fakePrograms(t)
	f := mixes.Footprint{Bytes: 1 << 30}
	job := func(program string, f mixes.Footprint, b mixes.Binding) mixes.Job {
		return mixes.Job{Name: filepath.Base(program), Program: program, Footprint: f, Binding: b}
	}
	given := []mixes.Job{job(shared, f, mixes.BindProbe), job(static, f, mixes.BindProbe), job(plain, f, mixes.BindProbe),
		job(plain, mixes.Footprint{}, mixes.BindProbe), job(static, f, mixes.BindDeclared)}
	var programs []string
	for _, j := range given {
		programs = append(programs, j.Program)
	}
	jobs, declared, err := bindPrograms(given, programs, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []mixes.Binding
	for _, j := range jobs {
		got = append(got, j.Binding)
	}
	if want := []mixes.Binding{mixes.BindProbe, mixes.BindDeclared, mixes.BindProbe, mixes.BindProbe, mixes.BindDeclared}; !slices.Equal(got, want) {
		t.Errorf("bindings %v, want %v", got, want)
	}
	if len(declared) != 1 || *declared[0].Job != 1 || !strings.Contains(declared[0].Detail, static) {
		t.Errorf("declared %v, want job 1 alone, with its program", declared)
	}
	if given[1].Binding != mixes.BindProbe {
		t.Error("the caller's jobs were changed")
	}
}

func TestStaticRuntimeWithoutFootprintIsAnError(t *testing.T) {
	_, static, _ := fakePrograms(t)
	jobs := slices.Repeat([]mixes.Job{{Name: "x", Program: static, Args: []string{"-n", "7"}}}, 3)
	jobs[2].Args = nil
	_, _, err := bindPrograms(jobs, []string{static, static, static}, true)
	if !errors.Is(err, errUnbindable) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"job 0 (" + static + " -n 7)", "job 2", "nvcc -cudart shared", "CUDA_RUNTIME_LIBRARY Shared", "binding: declared", "caserun profile"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "job 1") {
		t.Errorf("the same command is named twice: %v", err)
	}
	for _, gone := range []string{static + "-missing", filepath.Dir(static)} { // its job fails when it starts
		if _, declared, err := bindPrograms(jobs[:1], []string{gone}, true); err != nil || len(declared) > 0 {
			t.Errorf("a program that is gone: %v, %v", declared, err)
		}
	}
}

// Where nothing is preloaded, only programs that ask for tasks themselves are served task by task.
func TestWithoutPreloadProgramsMustAsk(t *testing.T) {
	shared, _, plain := fakePrograms(t)
	asks := compile(t, "asks", `const char *where(void) { return "CASE_SOCKET"; } int main(void) { return 0; }`)
	bind := func(program string, f mixes.Footprint) (mixes.Binding, error) {
		jobs, _, err := bindPrograms([]mixes.Job{{Program: program, Footprint: f}}, []string{program}, false)
		if err != nil {
			return 0, err
		}
		return jobs[0].Binding, nil
	}
	for _, program := range []string{asks, plain} {
		if got, err := bind(program, mixes.Footprint{}); err != nil || got != mixes.BindProbe {
			t.Errorf("%s: binding %v, %v", program, got, err)
		}
	}
	if got, err := bind(shared, mixes.Footprint{Bytes: 1 << 30}); err != nil || got != mixes.BindDeclared {
		t.Errorf("a program that does not ask: binding %v, %v", got, err)
	}
	if _, err := bind(shared, mixes.Footprint{}); !errors.Is(err, errUnbindable) || !strings.Contains(err.Error(), "does not call the task API, and nothing is preloaded; run it with --probe lazy") {
		t.Errorf("a program that does not ask, without a footprint: %v", err)
	}
}

// What calls the task API asks for its devices itself.
func TestProgramsThatAskThemselvesAreNotDeclared(t *testing.T) {
	program := compile(t, "asks", staticRuntime+` const char *where(void) { return "CASE_SOCKET"; }`)
	jobs, declared, err := bindPrograms([]mixes.Job{{Program: program}}, []string{program}, true)
	if err != nil || len(declared) != 0 || jobs[0].Binding != mixes.BindProbe {
		t.Errorf("binding %v, declared %v, %v", jobs[0].Binding, declared, err)
	}
}

// The library's place is the job's to say, in its LD_LIBRARY_PATH.
func TestJobsLibraryPathCounts(t *testing.T) {
	dir := t.TempDir()
	outer := filepath.Join(dir, "libouter.so")
	c := exec.Command("cc", "-shared", "-fPIC", "-Wl,-soname,libouter.so", "-o", outer, "-xc", "-")
	c.Stdin = strings.NewReader(staticRuntime)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, text)
	}
	program := compile(t, "program", "int main(void) { return 0; }", "-Wl,--no-as-needed", "-xnone", outer)
	jobs := []mixes.Job{{Program: program}, {Program: program, Env: []string{"LD_LIBRARY_PATH=" + dir}, Footprint: mixes.Footprint{Bytes: 1}}}
	bound, _, err := bindPrograms(jobs, []string{program, program}, true)
	if err != nil || bound[0].Binding != mixes.BindProbe || bound[1].Binding != mixes.BindDeclared {
		t.Errorf("bindings %v and %v, %v", bound[0].Binding, bound[1].Binding, err)
	}
}

// A job that was bound by its footprint runs on its one device.
func TestStaticRuntimeRuns(t *testing.T) {
	_, static, _ := fakePrograms(t)
	r := newRig(t, "case-alg3")
	r.jobs = slices.Repeat([]mixes.Job{{Name: "static", Program: static, Footprint: mixes.Footprint{Bytes: 12e9}}}, 3)
	var err error
	if r.jobs, _, err = bindPrograms(r.jobs, []string{static, static, static}, true); err != nil {
		t.Fatal(err)
	}
	jobs, rec := r.mustRun()
	for _, j := range jobs {
		if *j.Outcome != results.OK || j.Device == nil {
			t.Errorf("job %d: %s, %s, device %v", j.Index, *j.Outcome, j.Detail, j.Device)
		}
	}
	if len(rec.events) != 0 {
		t.Errorf("events %v: they were scheduled", rec.events)
	}
}
