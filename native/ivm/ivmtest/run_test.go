package ivmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/native/nativetest"
)

// ends is how an application ended.
type ends struct {
	status         int
	stdout, stderr string
}

// application prepares ivmd with its arguments, in an empty directory that is also its TMPDIR. After the test the directory must
// be empty still.
func application(t *testing.T, ivmd string, arguments ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for what would hang
	c := exec.CommandContext(ctx, ivmd, arguments...)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "TMPDIR="+c.Dir)
	c.Stdout, c.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	t.Cleanup(func() {
		cancel()
		if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
			t.Errorf("files are left: %v %v", left, err)
		}
	})
	return c
}

// finish waits for ivmd.
func finish(t *testing.T, c *exec.Cmd) ends {
	t.Helper()
	err := c.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ends{c.ProcessState.ExitCode(), c.Stdout.(*bytes.Buffer).String(), c.Stderr.(*bytes.Buffer).String()}
}

// run runs ivmd from the first to the last.
func run(t *testing.T, ivmd string, arguments ...string) ends {
	t.Helper()
	c := application(t, ivmd, arguments...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return finish(t, c)
}

// must fails the test if the application did not end well.
func (e ends) must(t *testing.T) ends {
	t.Helper()
	if e.status != 0 || e.stderr != "" {
		t.Fatalf("status %d, stderr:\n%s", e.status, e.stderr)
	}
	return e
}

// built returns the paths of ivmd and of a program of native/ivm/tests.
func built(t *testing.T, program string) (ivmd, path string) {
	t.Helper()
	dir := filepath.Join(nativetest.Build(t, "ivm", "fixtures"), "build")
	return filepath.Join(dir, "ivmd"), filepath.Join(dir, program)
}

var started = regexp.MustCompile(`PE (\d+) starts on device (\d+) \(pid (\d+)(?: on \S+)?\)`)

// pids are the processes that ivmd -v has named, by the PE's id.
func pids(t *testing.T, stderr string) []int {
	t.Helper()
	var ids []int
	for i, match := range started.FindAllStringSubmatch(stderr, -1) {
		pid, err := strconv.Atoi(match[3])
		if err != nil || match[1] != strconv.Itoa(i) {
			t.Fatalf("%v %v", match, err)
		}
		ids = append(ids, pid)
	}
	return ids
}

// lives reports whether a process runs. One that has ended may wait for init to take it.
func lives(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	state := string(stat[bytes.LastIndexByte(stat, ')')+2:])
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// wantGone waits until a process has ended: the kernel ends it when ivmd has ended, and needs some time.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); lives(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is left", pid)
		}
	}
}

// children are the processes that a process has started, with those whose command has a word.
func children(t *testing.T, pid int, word string) (ids []int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		id, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id)); err == nil && bytes.Contains(command, []byte(word)) {
			ids = append(ids, id)
		}
	}
	return ids
}
