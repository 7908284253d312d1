package lazytest

import (
	"errors"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// interrupting sends SIGUSR1 to the thread whenever libcase allocates memory.
const interrupting = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t);
volatile sig_atomic_t interrupting;

void *malloc(size_t bytes)
{
	Dl_info info;

	if (interrupting && dladdr(__builtin_return_address(0), &info) != 0 && strstr(info.dli_fname, "libcase.so") != NULL)
		pthread_kill(pthread_self(), SIGUSR1);
	return __libc_malloc(bytes);
}
`

// A handler that calls CUDA finds the library's state whole, wherever its signal comes.
func TestLazyIsInterrupted(t *testing.T) {
	p := runLazy(t, "13", "interrupted", preloaded(t, "interrupting.so", interrupting))
	p.wantLine("interrupted 1")
	p.lines = slices.DeleteFunc(p.lines, func(line string) bool { return line == "interrupted 1" })
	p.wantNative()
	p.wantNothingLeft()
	p.wantEvents("begin grow free gone")
}

// A handler runs while the process waits for its device; what needs one is refused.
func TestLazyIsInterruptedWhileItWaits(t *testing.T) {
	p := startLazy(t, "13", "interrupted_while_waiting")
	waiting := p.r.next(t, "begin")
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	p.hear("device 0 set 0 wait 0 launch 800 last 800")
	grant(t, waiting)
	p.finish(grant)
	p.mustSucceed()
	p.wantNothingLeft()
	p.wantEvents("grow free gone")
}

// The same holds while a task that is granted waits for more memory before its first launch.
func TestLazyIsInterruptedWhileItGrows(t *testing.T) {
	p := startLazy(t, "13", "interrupted_while_growing")
	grant(t, p.r.next(t, "begin"))
	p.hear("pre 0")
	waiting := p.r.next(t, "grow")
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	p.hear("device 0 set 0 wait 0 launch 800 last 800")
	grant(t, waiting)
	p.finish(grant)
	p.mustSucceed()
	p.wantNothingLeft()
	p.wantEvents("free gone")
}

// A process that waits for its device ends when it is told to.
func TestLazyEndsWhileItWaits(t *testing.T) {
	p := startLazy(t, "13", "basic")
	p.r.next(t, "begin")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.finish(grant)
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want SIGTERM", p.err)
	}
}
