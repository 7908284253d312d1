package lazytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Programs of native/lazy/tests/programs/waiting.cc: what goes on while a thread waits for
// a device.

// shared makes a shared object of a C source in dir, linked with the others.
func shared(t *testing.T, dir, name, text string, with ...string) string {
	t.Helper()
	source, object := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
	if err := os.WriteFile(source, []byte("#define _GNU_SOURCE\n#include <dlfcn.h>\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{"-shared", "-fPIC", "-Wl,-rpath," + dir, "-o", object, source}, with...)
	if out, err := exec.Command("cc", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return object
}

// whileWaiting starts a program of which a thread waits for its device.
func whileWaiting(t *testing.T, program string) (*lazyRun, event) {
	t.Helper()
	p := startLazy(t, "13", program)
	p.hear("launching")
	waiting := p.r.next(t, "begin")
	p.goOn()
	return p, waiting
}

func (p *lazyRun) succeedsWith(waiting event, lines ...string) {
	p.t.Helper()
	grant(p.t, waiting)
	p.finish(grant)
	p.mustSucceed()
	p.wantNothingLeft()
	if !slices.Equal(p.lines, lines) {
		p.t.Errorf("output %q, want %q", p.lines, lines)
	}
}

// A part of the program that has kernels is loaded, which is done under the loader's
// lock: the thread that waits needs that when its wait is over.
func TestLazyLoadsKernelsWhileWaiting(t *testing.T) {
	library := shared(t, t.TempDir(), "kernels.so", `
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
static long image[8];
static struct { int magic, version; const void *data; void *unused; } binary = {0x466243b1, 1, image, 0};
__attribute__((constructor)) static void load(void)
{
	__cudaRegisterFunction(__cudaRegisterFatBinary(&binary), "host", "device", "device", -1, 0, 0, 0, 0, 0);
}`)
	p, waiting := whileWaiting(t, "loads_while_waiting "+library)
	p.hear("loaded 1")
	p.succeedsWith(waiting, "x -915099124094415232")
}

// Memory that a thread locks while the process is being bound is page-locked when it is.
func TestLazyLocksPagesWhileWaiting(t *testing.T) {
	p, waiting := whileWaiting(t, "locks_while_waiting")
	p.hear("locking")
	p.succeedsWith(waiting, "page-locked 1", "x -915099124094415232")
}

// A child of fork has none of the threads that its parent's locks are held by.
func TestLazyForksWhileWaiting(t *testing.T) {
	p, waiting := whileWaiting(t, "forks_while_waiting")
	p.hear("child 0")
	p.succeedsWith(waiting, "x -915099124094415232")
}

// And what its parent has begun is none of its own: it binds anew.
func TestLazyWorksInAChildWhileWaiting(t *testing.T) {
	p, waiting := whileWaiting(t, "works_in_child_while_waiting")
	grant(t, p.r.next(t, "begin"))
	p.hear("child 0")
	p.succeedsWith(waiting, "x -915099124094415232")
}

// A pinned program's threads do not wait for each other's devices: the one that has its
// device works, takes memory and gives it back, for which the other waits.
func TestLazyWaitsForOneDevice(t *testing.T) {
	for _, way := range []string{"memory", "launch"} {
		var waiting *event
		p := startLazy(t, "13", "another_waits "+way, "CASE_PIN=1")
		p.finish(func(t *testing.T, e event) {
			switch {
			case e.Kind == "begin" && *e.Asks().OnDevice == 1:
				waiting = &e
				p.goOn()
			case e.Kind == "free" && waiting != nil:
				grant(t, *waiting)
				waiting = nil
			default:
				grant(t, e)
			}
		})
		p.mustSucceed()
		p.wantNothingLeft()
		if way == "memory" {
			p.wantEvents("begin begin grow free free gone")
		} else {
			p.wantEvents("begin begin grow free gone")
		}
	}
}

// What finds functions by its own place in the program finds what it would without
// libcase: the next one after a wrapper of CUDA's, and its own part's.
func TestLazyLooksUpForTheCaller(t *testing.T) {
	dir := t.TempDir()
	wrapper := `
int cudaMalloc(void **memory, unsigned long bytes)
{
	static int depth;
	int (*next)(void **, unsigned long) = dlsym(RTLD_NEXT, "cudaMalloc");
	if (next == 0 || depth++ > 0)
		return 999;
	const int error = next(memory, bytes);
	depth--;
	return error;
}`
	shared(t, dir, "inner.so", "int custom_part(void) { return 42; }")
	part := shared(t, dir, "part.so", `
int custom_part(void);
int (*const uses)(void) = custom_part;
int part(void)
{
	int (*found)(void) = dlsym(RTLD_DEFAULT, "custom_part");
	return found == 0 ? 0 : found();
}`, filepath.Join(dir, "inner.so"))
	for _, env := range []string{"CASE_PIN=0", "CASE_PIN=1", "CASE_BINDING=job"} {
		p := runLazy(t, "13", "grow", preloaded(t, "wrapper.so", "#define _GNU_SOURCE\n#include <dlfcn.h>\n"+wrapper), env)
		p.wantNothingLeft()
		p.wantNative()
		p = runLazy(t, "13", fmt.Sprintf("calls_part %s", part), env)
		p.wantLine("part 42")
	}
}

// An event that is made while another thread asks is of the device that this thread gets, even if the process had another before.
func TestLazyMakesAnEventWhileWaiting(t *testing.T) {
	p := startLazy(t, "13", "makes_event_while_waiting")
	on := func(device int, asks event) {
		t.Helper()
		if err := asks.grant(device, fakeUUID(device)); err != nil {
			t.Fatal(err)
		}
	}
	on(0, p.r.next(t, "begin"))
	p.r.next(t, "free")
	p.hear("launching")
	asks := p.r.next(t, "begin")
	p.goOn()
	p.hear("made")
	on(1, asks)
	p.finish(grant)
	p.mustSucceed()
	p.wantLine("record 0")
	p.wantNothingLeft()
}

// A growth before the first launch keeps launches waiting. It does not have them refused.
func TestLazyLaunchesWhileItReserves(t *testing.T) {
	for _, what := range []string{"reserve", "heap"} {
		p := startLazy(t, "13", "launches_while_reserving "+what)
		grant(t, p.r.next(t, "begin"))
		p.hear("pre 0")
		p.hear("growing")
		growing := p.r.next(t, "grow")
		p.goOn()
		p.hear("launching")
		grant(t, growing)
		p.finish(grant)
		p.mustSucceed()
		p.wantLine("more 0")
		p.wantNothingLeft()
		if grows := p.of("grow"); what == "heap" && (len(grows) != 1 || grows[0].Bytes != 8<<20) || what == "reserve" && len(grows) != 0 {
			t.Errorf("%s: grows %v", what, grows)
		}
	}
}

// Graphs that two threads make at once do not share a charge.
func TestLazyChargesGraphsOfThreads(t *testing.T) {
	p := startLazy(t, "13", "graph_while_growing")
	grant(t, p.r.next(t, "begin"))
	p.hear("growing")
	growing := p.r.next(t, "grow")
	p.goOn()
	p.hear("both")
	grant(t, growing)
	p.finish(grant)
	p.mustSucceed()
	if grows := p.of("grow"); growing.Bytes != 64<<20 || len(grows) != 1 || grows[0].Bytes != 32<<20 {
		t.Errorf("grew by %d, then %v", growing.Bytes, grows)
	}
}
