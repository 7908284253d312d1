package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestTellsHowItEnded(t *testing.T) {
	for script, want := range map[string]string{"exit 0": "", "exit 7": "exit status 7", "kill -9 $$": "signal: killed"} {
		p := start(t, exec.Command("sh", "-c", script))
		<-p.Done()
		got := ""
		if err := p.Err(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: it ended with %q, want %q", script, got, want)
		}
	}
	if _, err := Start(exec.Command("/nowhere/program"), syscall.SIGKILL); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start of nothing: %v", err)
	}
}

// Kill ends a program's children too.
func TestKillEndsTheGroup(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, cmd)
	grandchild := readPID(t, out)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if p.Err() == nil {
		t.Error("a killed program ended well")
	}
	mustEnd(t, grandchild)
	if err := p.Kill(); err != nil {
		t.Errorf("kill of a program that is gone: %v", err)
	}
}

// A program that does not end is left, and said.
func TestKillHasALimit(t *testing.T) {
	p, err := Start(exec.Command("sleep", "600"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	blocked := &Process{cmd: p.cmd, done: make(chan struct{})}
	if err := blocked.kill(time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end within 1ms of SIGKILL, and is left") {
		t.Error(err)
	}
	<-p.Done()
}

// The thread that calls Start may end before the program.
func TestOutlivesTheThreadThatStartedIt(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan *Process)
	var thread *os.File
	onThread(func() {
		p, err := Start(cmd, syscall.SIGKILL)
		if err != nil {
			t.Error(err)
		}
		if thread, err = os.Open(fmt.Sprintf("/proc/self/task/%d/stat", unix.Gettid())); err != nil {
			t.Error(err)
		}
		started <- p
	})
	defer func(p *Process) { _ = p.Kill() }(<-started)
	defer thread.Close()
	for err := error(nil); err == nil; _, err = thread.ReadAt(make([]byte, 1), 0) {
		runtime.Gosched() // until ESRCH: the thread has ended
	}
	if _, err := io.WriteString(in, "still here\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "still here\n" {
		t.Errorf("the program says %q, %v", said, err)
	}
}

// onThread runs f on a thread that ends after it. The process's first thread never ends.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		onThread(f)
		select {} // so that the other goroutine gets another thread
	}()
}

// TestEndsWithItsParent runs this test binary again as the parent and kills it
// with SIGKILL.
func TestEndsWithItsParent(t *testing.T) {
	if os.Getenv("CHILD_TEST_PARENT") != "" {
		p := start(t, exec.Command("sleep", "1000"))
		fmt.Println(p.PID())
		<-p.Done()
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestEndsWithItsParent$")
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, out)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	mustEnd(t, pid)
}

func readPID(t *testing.T, from io.Reader) (pid int) {
	t.Helper()
	if _, err := fmt.Fscan(from, &pid); err != nil {
		t.Fatalf("read a process's number: %v", err)
	}
	return pid
}

// mustEnd waits for a process that is not our child.
func mustEnd(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			t.Fatal(err)
		case n == 0:
			t.Errorf("process %d still runs after 10 s", pid)
		}
		return
	}
}

// AwaitEnd sees the end of a child with and without a free descriptor, and leaves the child to
// collect.
func TestAwaitEnd(t *testing.T) {
	for name, limit := range map[string]bool{"pidfd": false, "no descriptors": true} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command("/bin/sh", "-c", "read x; exit 7")
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			var old unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
				t.Fatal(err)
			}
			if limit {
				if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
						t.Error(err)
					}
				}()
			}
			seen := make(chan struct{})
			go func() {
				defer close(seen)
				AwaitEnd(c.Process.Pid)
			}()
			select {
			case <-seen:
				t.Error("it returned while the child runs")
			default:
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			<-seen
			AwaitEnd(c.Process.Pid) // it has ended
			var failed *exec.ExitError
			if err := c.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 7 {
				t.Errorf("the child's end: %v, want exit status 7", err)
			}
		})
	}
}
