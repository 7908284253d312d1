package live

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A program that does not know that it was started as a guard starts no guard of its own.
func TestGuardsStartNoGuards(t *testing.T) {
	t.Setenv(guardVariable, "1")
	if g, err := startGuard(func(error) {}); err == nil {
		g.close()
		t.Error("a guard started a guard")
	}
}

// Another guard takes the place of one that is killed, and knows the jobs of before.
func TestGuardIsReplaced(t *testing.T) {
	lost := make(chan error, maxDeaths+2)
	g, err := startGuard(func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	start := func() *process {
		c := exec.Command("/bin/sleep", "600")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		p := &process{cmd: c, pid: c.Process.Pid, token: "CASE_TOKEN=none"}
		g.watch(p)
		return p
	}
	early, over := start(), start()
	for range 2 {
		g.mu.Lock()
		pid := g.cmd.Process.Pid
		g.mu.Unlock()
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-lost; !strings.Contains(err.Error(), "ended (signal: killed)") {
			t.Error(err)
		}
	}
	late := start()
	g.forget(over)
	g.close() // as the end of the harness, to the guard
	for _, p := range []*process{early, late} {
		if err := p.cmd.Wait(); err == nil {
			t.Error("the process ended by itself")
		}
	}
	if err := unix.Kill(over.pid, 0); err != nil {
		t.Errorf("a process that was taken back: %v", err)
	}
	if err := over.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = over.cmd.Wait()
	if len(lost) > 0 {
		t.Errorf("also said: %v", <-lost)
	}
}

// Whoever kills every guard is not outlasted.
func TestGuardsThatAreKilledAreNotReplacedForEver(t *testing.T) {
	lost := make(chan error, maxDeaths+2)
	g, err := startGuard(func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	for range maxDeaths + 1 {
		g.mu.Lock()
		pid := g.cmd.Process.Pid
		g.mu.Unlock()
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-lost; !strings.Contains(err.Error(), "ended (signal: killed)") {
			t.Error(err)
		}
	}
	if err := <-lost; !strings.Contains(err.Error(), "no guard any more") {
		t.Error(err)
	}
	g.forget(&process{pid: 5}) // nobody hears it
	g.close()
}
