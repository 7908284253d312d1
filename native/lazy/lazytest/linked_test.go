package lazytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/schedulers"
)

// The programs named linked_ are those of the other tests with a static CUDA runtime, and with the
// lazy runtime linked into them as casecc does it (native/lazy/linked). They run without
// LD_PRELOAD, and again with libcase preloaded, as every job of a run is started. Then the program's
// own lazy runtime does the work alone.

const notPreloaded = "LD_PRELOAD="

// heard is what the scheduler heard, without numbers that differ from one process to the next.
func heard(p *lazyRun) []string {
	var all []string
	for _, e := range p.events {
		all = append(all, e.text())
	}
	return all
}

// wantSame: the linked program computed and asked for the same as the preloaded library's.
func (p *lazyRun) wantSame(preloaded *lazyRun) {
	p.t.Helper()
	if p.err != nil || preloaded.err != nil {
		p.t.Errorf("%s: %v, preloaded %v\nstderr:\n%s", p.program, p.err, preloaded.err, p.stderr.String())
	}
	if !slices.Equal(p.lines, preloaded.lines) {
		p.t.Errorf("%s, %q: output\n%s\npreloaded:\n%s", p.program, p.env, strings.Join(p.lines, "\n"), strings.Join(preloaded.lines, "\n"))
	}
	if got, want := heard(p), heard(preloaded); !slices.Equal(got, want) {
		p.t.Errorf("%s, %q: the scheduler heard\n%s\npreloaded:\n%s", p.program, p.env, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := p.stderr.String(), preloaded.stderr.String(); got != want {
		p.t.Errorf("%s, %q: stderr\n%s\npreloaded:\n%s", p.program, p.env, got, want)
	}
}

// A program whose allocations and launches are all left to the lazy runtime is served as a program
// with a shared runtime is. That includes what it reports of missing memory and faults.
func TestLinkedDoesAsPreloaded(t *testing.T) { linkedDoesAsPreloaded(t, 0) }

// linkedDoesAsPreloaded runs each program with one of both runtimes of CUDA, half of the programs with each.
func linkedDoesAsPreloaded(t *testing.T, which int) {
	t.Helper()
	programs := []string{"basic", "order", "shapes", "objects", "managed", "many", "large_copy", "read_first", "grow", "settings",
		"mistakes", "streams", "captured", "limits", "tasks", "tasks_with_stream", "tasks_with_variable", "devices", "two_devices",
		"forks_bound", "launch_events", "launch_list", "graph_nodes", "peer_copies", "ranges", "batches", "prefetches",
		"questions", "unseen_devices", "init_flags", "reset", "too_much", "fault", "fault_unseen", "fault_unseen_late", "launch_only",
		"set_device", "init_device", "variable_by_address", "callback", "idle_rounds", "heap_later", "late_memory", "small_copies",
		"reads_before", "writes_around", "margins", "beyond_boxes", "last_errors", "last_errors_after_a_fault"}
	for i, program := range programs {
		version := cudaVersions[(which+i)%2]
		t.Run(version+" "+program, func(t *testing.T) {
			t.Parallel()
			preloaded := startLazy(t, version, program).finish(grant)
			startLazyBinary(t, version, "linked_lazy", program, notPreloaded).finish(grant).wantSame(preloaded)
			startLazyBinary(t, version, "linked_lazy", program).finish(grant).wantSame(preloaded)
		})
	}
}

func TestLinkedKeepsResultsOfRandomPrograms(t *testing.T) {
	linkedKeepsResultsOfRandomPrograms(t, drawnFrom(7001), chance.Count(4, 16))
}

// linkedKeepsResultsOfRandomPrograms runs so many programs in each process.
func linkedKeepsResultsOfRandomPrograms(t *testing.T, first, each int) {
	t.Helper()
	for n, env := range []string{"", "CASE_RECORD_LIMIT=0", "CASE_PIN=1", "CASE_BINDING=job"} {
		program := fmt.Sprintf("random %d,%d,1", first+16*n, each)
		p := startLazyBinary(t, cudaVersions[n%2], "linked_lazy", program, notPreloaded, env).finish(grantByTurns())
		p.mustSucceed()
		p.wantNative()
	}
}

// The program's part that casecc made static, and the part that it left to the lazy runtime.
func TestLinkedPartlyStatic(t *testing.T) {
	for _, program := range []string{"first", "last", "moves", "among", "recorded"} {
		preloaded, _ := runExplicit(t, "13", partly, program, 1)
		for _, env := range []string{notPreloaded, "SAME="} {
			p, _ := runExplicit(t, "13", "linked_partly", program, 1, env)
			p.wantSame(preloaded)
		}
	}
}

// A program that is wholly static has its tasks and no others.
func TestLinkedWhollyStatic(t *testing.T) {
	for _, env := range []string{notPreloaded, "SAME="} {
		p, l := runExplicit(t, "13", "linked_partly", "moves", 1, env, "USES=none")
		p.wantLines(thereOn1, "static 1", thereOn0, "static 1", "after: contexts 2 first 1 "+nothingLeft)
		l.wantSaid(t, "begin 64+0 on any; free; begin 64+0 on any; free")
	}
}

func TestLinkedExplicitTasks(t *testing.T) {
	for _, program := range []string{"one", "before", "turns", "beyond", "grown", "launches"} {
		run := func(file string, env ...string) *lazyRun {
			l := newLedger(1)
			return startLazyBinary(t, "13", file, program, env...).finish(l.answer)
		}
		preloaded := run("explicit_own_copy")
		run("linked_explicit", notPreloaded).wantSame(preloaded)
		run("linked_explicit").wantSame(preloaded)
	}
}

// While the device is full the program waits: it has made no context and has launched nothing. A
// task that fits nowhere is out of memory from the launch.
func TestLinkedWaitsAndIsRefused(t *testing.T) {
	for _, env := range []string{notPreloaded, "SAME="} {
		calls := filepath.Join(t.TempDir(), "calls")
		p := startLazyBinary(t, "11", "linked_lazy", "basic", env, "FAKE_CUDA_TRACE="+calls)
		waiting := p.r.next(t, "begin")
		made, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"cuDevicePrimaryCtxRetain", "cudaLaunchKernel", "cuMemCreate"} {
			if strings.Contains(string(made), call) {
				t.Errorf("%s before the grant:\n%s", call, made)
			}
		}
		if waiting.Bytes == 0 || waiting.Asks().Blocks != 32 {
			t.Errorf("it asked for %+v", waiting.Asks())
		}
		grant(t, waiting)
		p.finish(grant).mustSucceed()
		p.wantNative()
		p.wantNothingLeft()
		p.wantEvents("free gone")

		p = startLazyBinary(t, "11", "linked_lazy", "launch_only", env).finish(func(t *testing.T, e event) {
			if e.Kind == "begin" {
				if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
					t.Error(err)
				}
			}
		})
		p.mustSucceed()
		if text := strings.Join(p.lines, "\n"); !strings.Contains(text, "error 2") || !strings.Contains(p.stderr.String(), "fits no device") {
			t.Errorf("output %q, stderr %q", p.lines, p.stderr.String())
		}
	}
}

// Without a run the program does what it does natively, and says nothing.
func TestLinkedWithoutARun(t *testing.T) {
	for _, program := range []string{"basic", "streams", "two_devices", "too_much", "fault"} {
		cmd := fakeCommand(t, "13", "linked_lazy", program)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || said.String() != "" {
			t.Errorf("%s: %v\n%s", program, err, said.String())
		}
		if got, want := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), native(t, "13", program); !slices.Equal(got, want) {
			t.Errorf("%s: output %q, want %q", program, got, want)
		}
	}
}

// A part that brings its own CUDA runtime is seen where the part looks up the driver, because the
// program's dlsym comes before libc's. The program then binds before the driver is initialized.
func TestLinkedConfinesForeignParts(t *testing.T) {
	part := preloaded(t, "part.so", `
		#include <dlfcn.h>
		#include <stdlib.h>
		static const char name[] = "libcuda.so.1";
		__attribute__((constructor(65535))) static void starts(void)
		{
			void *driver = dlopen(name, RTLD_NOW);
			if (driver != NULL && getenv("CASE_SOCKET") != NULL && ((int (*)(unsigned))dlsym(driver, "cuInit"))(0) != 0)
				abort();
		}`)
	_, alone, _ := strings.Cut(part, ":")
	for _, env := range []string{part, "LD_PRELOAD=" + alone} {
		p := startLazyBinary(t, "13", "linked_lazy", "basic", env).finish(grant)
		p.mustSucceed()
		p.wantNative()
		p.wantNothingLeft()
		if begins := p.of("begin"); len(begins) != 1 || begins[0].Asks().Blocks != 0 {
			t.Errorf("%s: begins %v", env, begins)
		}
		if closed := p.of("gone"); len(closed) != 1 {
			t.Errorf("%s: %d clients", env, len(closed))
		}
	}
}

// linked links a C program as casecc does, and returns what nm says of it.
func linked(t *testing.T, name, text string) (path, symbols string) {
	t.Helper()
	buildLazy(t)
	source, out := filepath.Join(t.TempDir(), name+".c"), filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(file string) string { return filepath.Join(lazyDir, file) }
	args := []string{"-o", out, source, at("libcase_reach.a"), "-ldl", "-lc", at("libcase_lazy.a"), filepath.Join(probeDir, "libcase.a"),
		filepath.Join(fakeDir, "build/11/libcudart_static.a"), at("libcase_lazy.a"), "-lpthread", "-ldl", "-lstdc++", "-Wl,@" + at("libcase_lazy.link")}
	if said, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %q: %v\n%s", args, err, said)
	}
	said, err := exec.Command("nm", out).CombinedOutput()
	if err != nil {
		t.Fatalf("nm: %v\n%s", err, said)
	}
	return out, string(said)
}

// The linker tells whether the program itself can reach the driver, although its CUDA runtime does
// so in every program. A program without CUDA gets neither.
func TestLinkedKnowsWhoReachesTheDriver(t *testing.T) {
	const declarations = "#include <dlfcn.h>\nint cudaMalloc(void **, unsigned long), cudaIpcGetMemHandle(void *, void *);\n"
	for _, c := range []struct {
		text            string
		serves, reaches bool
	}{
		{"int main(void) { void *p; return cudaMalloc(&p, 4); }", true, false},
		{"int main(void) { void *p = dlopen(0, RTLD_LAZY); return cudaMalloc(&p, 4); }", true, true},
		{"int main(void) { void *p; return cudaMalloc(&p, 4) + cudaIpcGetMemHandle(p, p); }", true, true},
		{"int main(void) { return dlsym(RTLD_DEFAULT, \"printf\") == 0; }", false, false},
		{"int main(void) { return dlopen(0, RTLD_LAZY) == 0; }", false, true},
		{"int main(void) { return 0; }", false, false},
	} {
		_, symbols := linked(t, "program", declarations+c.text)
		if got := strings.Contains(symbols, "case_linked"); got != c.serves {
			t.Errorf("%s: has the lazy runtime: %v", c.text, got)
		}
		if got := regexp.MustCompile("[tTW] case_reaches").MatchString(symbols); got != c.reaches {
			t.Errorf("%s: reaches the driver: %v", c.text, got)
		}
		if !c.serves && (strings.Contains(symbols, "cuda") || strings.Contains(symbols, "lazy")) {
			t.Errorf("%s: has\n%s", c.text, symbols)
		}
	}
}

// A program's own functions and variables stay its own, whatever they are called.
func TestLinkedKeepsTheProgramsNames(t *testing.T) {
	program, _ := linked(t, "names", `
		#include <stdio.h>
		int cudaMalloc(void **, unsigned long), cudaFree(void *);
		int (*cuInit)(unsigned); /* as loaders of the driver have it */
		int cuMemFree_v2(unsigned long long memory) { return 7; }
		int main(void)
		{
			void *p = NULL;
			int a = cudaMalloc(&p, 4), b = cudaFree(p);
			printf("%d %d, %d %d", a, b, cuInit == NULL, cuMemFree_v2(1));
			return 0;
		}`)
	cmd := fakeCommand(t, "11", "", "")
	cmd.Path = program
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "0 0, 1 7" {
		t.Errorf("%v: %s", err, out)
	}
}

// Constructors of the program may use CUDA. What they use is known, too.
func TestLinkedServesConstructors(t *testing.T) {
	program, _ := linked(t, "early", `
		int cudaMalloc(void **, unsigned long), cudaMemcpy(void *, const void *, unsigned long, int), cudaFree(void *);
		static void *p;
		__attribute__((constructor)) static void early(void)
		{
			int value;
			if (cudaMalloc(&p, 32 << 20) == 0)
				cudaMemcpy(&value, p, 4, 2);
		}
		int main(void) { return cudaFree(p); }`)
	p := prepareLazy(t, "11", "", "", notPreloaded)
	p.cmd.Path = program
	p.start().finish(grant).mustSucceed()
	p.wantEvents("begin free gone")
	if used := p.of("gone")[0].Bytes; used != 40<<20 { // with the device heap
		t.Errorf("%d bytes used", used)
	}
}

// All functions that the preloaded library overrides are overridden here.
func TestLinkedCoversTheRuntime(t *testing.T) {
	buildLazy(t)
	options, err := os.ReadFile(filepath.Join(lazyDir, "libcase_lazy.link"))
	if err != nil {
		t.Fatal(err)
	}
	wrapped := strings.Split(string(options), "\n")
	for name, kind := range nativetest.Calls(t) {
		if of := strings.HasPrefix(name, "cuda") || strings.HasPrefix(name, "__cuda"); of && slices.Contains(wrapped, "--wrap="+name) == (kind == "none") {
			t.Errorf("%s is %s, overridden: %v", name, kind, kind == "none")
		}
	}
}
