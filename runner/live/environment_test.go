package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// environ adds a job that prints its environment: a program without CUDA.
func (r *rig) environ(j mixes.Job) *rig {
	r.t.Helper()
	program, err := exec.LookPath("env")
	if err != nil {
		r.t.Fatal(err)
	}
	j.Name, j.Program = "env", program
	r.jobs = append(r.jobs, j)
	return r
}

func (r *rig) saw(job int, key string) string {
	r.t.Helper()
	return lookup(strings.Split(r.output(job), "\n"), key)
}

func TestEnvironmentOfJobs(t *testing.T) {
	t.Setenv("CASE_PIN", "1") // of whoever started caserun: not the job's
	t.Setenv("CASE_FOOTPRINT", "1,2,3")
	t.Setenv("CASE_DEVICES", "7")
	t.Setenv("CASE_GUARD", "1")
	t.Setenv("CASE_MOVABLE", "1")
	t.Setenv("CASE_WAIT", "none")
	tasks := fmt.Sprintf("%d,0,0", 16*gib-gib/2) // of the rig's devices
	f := mixes.Footprint{Bytes: 3 << 30, Blocks: 1 << 33, ThreadsPerBlock: 256}
	for _, c := range []struct {
		sched                                 string
		job                                   mixes.Job
		visible, binding, pin, print, devices string
		wait, capacity                        string
	}{
		{"case-alg3", mixes.Job{}, "GPU-zero,GPU-one", "task", "", "", "GPU-zero,GPU-one", "", tasks},
		{"case-alg3", mixes.Job{Pin: true, Footprint: f, Wait: new(90 * time.Second)}, "GPU-zero,GPU-one", "task", "1", "3221225472,8589934592,256", "", "90000", tasks},
		{"case-alg3", mixes.Job{Binding: mixes.BindDeclared, Footprint: f, Pin: true, Wait: new(time.Duration(0))}, "GPU-zero", "job", "", "3221225472,8589934592,256", "", "none", ""},
		{"sa", mixes.Job{Pin: true, Footprint: mixes.Footprint{Bytes: 5}}, "GPU-zero", "job", "", "5,0,0", "", "", ""},
	} {
		r := newRig(t, c.sched).environ(c.job)
		if jobs, _ := r.mustRun(); *jobs[0].Outcome != results.OK {
			t.Fatalf("%s: %s", c.sched, jobs[0].Detail)
		}
		for key, want := range map[string]string{"CUDA_VISIBLE_DEVICES": c.visible, "CASE_BINDING": c.binding, "CASE_PIN": c.pin,
			"CASE_FOOTPRINT": c.print, "CASE_DEVICES": c.devices, "CASE_GUARD": "", "CASE_MOVABLE": "", "CASE_CAPACITY": c.capacity, "CASE_WAIT": c.wait, "CASE_REQUIRED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LD_PRELOAD": os.Getenv("LD_PRELOAD")} {
			if got := r.saw(0, key); got != want {
				t.Errorf("%s, %+v: %s=%q, want %q", c.sched, c.job, key, got, want)
			}
		}
	}
}

// buildLibrary compiles a shared library that says so where it is loaded.
func buildLibrary(t *testing.T, says string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), says+".so")
	c := exec.Command("cc", "-shared", "-fPIC", "-o", path, "-xc", "-")
	c.Stdin = strings.NewReader(fmt.Sprintf(`#include <stdlib.h>
#include <unistd.h>
		__attribute__((constructor)) static void loaded(void) { if (getenv("SAY") && write(1, "%s\n", %d) < 0) abort(); }`, says, len(says)+1))
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, text)
	}
	return path
}

// The library comes first, what the user preloads after it, and both reach the
// interpreter of a script.
func TestPreload(t *testing.T) {
	ours, users := buildLibrary(t, "ours"), buildLibrary(t, "users")
	r := newRig(t, "case-alg3").environ(mixes.Job{}).environ(mixes.Job{Env: []string{"LD_PRELOAD=" + users}})
	script := filepath.Join(r.dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nSAY=1 env true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.jobs = append(r.jobs, mixes.Job{Name: "script", Program: script, Env: []string{"SAY=1"}})
	r.preload = ours
	r.mustRun()
	preload := r.saw(0, "LD_PRELOAD")
	if filepath.Base(preload) != filepath.Base(ours) || r.x.preload != preload {
		t.Errorf("LD_PRELOAD=%q, want a path of %q", preload, ours)
	}
	if got, want := r.saw(1, "LD_PRELOAD"), preload+":"+users; got != want {
		t.Errorf("LD_PRELOAD=%q, want %q", got, want)
	}
	if got := r.output(2); got != "ours\nours\nours\n" { // sh, env, true
		t.Errorf("the script and its children said %q", got)
	}
	t.Setenv("LD_PRELOAD", users)
	r = newRig(t, "sa").environ(mixes.Job{})
	r.preload = ours
	r.mustRun()
	if got, want := r.saw(0, "LD_PRELOAD"), r.x.preload+":"+users; got != want {
		t.Errorf("LD_PRELOAD=%q, want %q", got, want)
	}
}

// muslProgram is a program with a loader that treats LD_PRELOAD as musl's does
// (load_preload in ldso/dynlink.c), and no library of glibc as one that it can relocate.
func muslProgram(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	loader := filepath.Join(dir, "ld-musl-x86_64.so.1")
	path = filepath.Join(dir, "program")
	for _, c := range []struct {
		flags  []string
		source string
	}{
		{[]string{"-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-o", loader}, `
__asm__(".globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall load\n");
static long call(long number, long a, long b)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return result;
}
void load(long *stack)
{
	const char name[] = "LD_PRELOAD=";
	for (char **e = (char **)(stack + *stack + 2); *e; e++) {
		unsigned i = 0;
		while (i < sizeof name - 1 && (*e)[i] == name[i])
			i++;
		if (i != sizeof name - 1)
			continue;
		char *end = *e + i;
		while (*end && *end != ':' && *end != ' ')
			end++;
		*end = 0;
		if (call(21, (long)(*e + i), 0) == 0) /* access(path, F_OK) */
			call(231, 127, 0); /* exit_group */
	}
	call(231, 0, 0);
}`},
		{[]string{"-Wl,--dynamic-linker=" + loader, "-o", path}, "int main(void) { return 1; }"},
	} {
		cc := exec.Command("cc", append(c.flags, "-xc", "-")...)
		cc.Stdin = strings.NewReader(c.source)
		if text, err := cc.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, text)
		}
	}
	return path
}

// What glibc's loader finds, musl's does not: it takes the path as it is, ends the
// program for a library that it cannot relocate, and passes over one that is not there.
func TestPreloadSparesMusl(t *testing.T) {
	ours := buildLibrary(t, "ours")
	dir := t.TempDir()
	path, err := preloadable(ours, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want that it is not there as it is", path, err)
	}
	for name, c := range map[string]*exec.Cmd{
		"a program": exec.Command("/bin/true"),
		// which takes $LIB for a variable
		"a shell's": exec.Command("/bin/sh", "-c", `exec sh -c "SAY=1 LD_PRELOAD=$LD_PRELOAD /bin/true"`),
	} {
		c.Env = append(os.Environ(), "LD_PRELOAD="+path)
		if name == "a program" {
			c.Env = append(c.Env, "SAY=1")
		}
		if text, err := c.CombinedOutput(); err != nil || string(text) != "ours\n" {
			t.Errorf("%s: %q, %v; want the library loaded once", name, text, err)
		}
	}
	if path, err := preloadable("", dir); err != nil || path != "" {
		t.Errorf("no library: %q, %v", path, err)
	}
	// A directory that LD_PRELOAD cannot name.
	if path, err := preloadable(ours, filepath.Join(dir, "with a space")); err == nil || path != ours {
		t.Errorf("%q, %v; want the library itself", path, err)
	}
	program := muslProgram(t)
	c := exec.Command(program)
	c.Env = append(os.Environ(), "LD_PRELOAD="+ours)
	if err := c.Run(); err == nil || c.ProcessState.ExitCode() != 127 {
		t.Fatalf("with the library itself: %v, want exit status 127", err)
	}
	r := newRig(t, "case-alg3").sh(program)
	r.jobs = append(r.jobs, mixes.Job{Name: "musl", Program: program})
	r.preload = ours
	jobs, _ := r.mustRun()
	for _, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s (%s): %s", j.Index, *j.Outcome, j.Detail, j.StderrTail)
		}
	}
}

func TestFindLibrary(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("no library"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := buildLibrary(t, "good")
	t.Setenv(LibraryVariable, good)
	if path, err := FindLibrary(t.Context()); err != nil || path != good {
		t.Errorf("a library that loads: %q, %v", path, err)
	}
	for path, says := range map[string]string{
		write("broken.so"):             "does not load",
		filepath.Join(dir, "none.so"):  "make native",
		write("in a directory.so"):     "space or a colon",
		buildLibrary(t, "a:colon.bad"): "space or a colon",
	} {
		t.Setenv(LibraryVariable, path)
		if _, err := FindLibrary(t.Context()); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q", path, err, says)
		}
	}
	t.Setenv(LibraryVariable, "")
	t.Chdir(dir) // no native/probe here, and none beside the test
	if _, err := FindLibrary(t.Context()); err == nil || !strings.Contains(err.Error(), "make native") {
		t.Errorf("nowhere: %v", err)
	}
}

// What this environment asks of the loader, and spoils each program, is not put down to the library.
func TestLibraryUnderSettingsOfTheLoader(t *testing.T) {
	t.Setenv(LibraryVariable, buildLibrary(t, "good"))
	t.Setenv("LD_AUDIT", "/nonexistent.so")
	if _, err := FindLibrary(t.Context()); err == nil || !strings.Contains(err.Error(), "unset what this environment asks of the loader, ") ||
		!strings.Contains(err.Error(), "LD_AUDIT=/nonexistent.so") || strings.Contains(err.Error(), "make native") {
		t.Errorf("an audit library that is not there: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "broken.so")
	if err := os.WriteFile(broken, []byte("no library"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_AUDIT", "")
	t.Setenv("LD_BIND_NOW", "1")
	t.Setenv(LibraryVariable, broken)
	if _, err := FindLibrary(t.Context()); err == nil || !strings.Contains(err.Error(), broken+" does not load") {
		t.Errorf("a library that is broken, under a setting that does no harm: %v", err)
	}
}
