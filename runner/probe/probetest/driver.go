// Package probetest drives C programs with libcase in them, for tests.
package probetest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for what is to happen; nothing is timed with it.
const Patience = time.Minute

// Driver is a process that does what it reads line by line, and answers in lines, such as
// native/probe/tests/drive.c.
type Driver struct {
	Cmd    *exec.Cmd
	In     io.WriteCloser
	Out    *bufio.Reader
	tb     testing.TB
	stderr bytes.Buffer
}

// Start starts a program with this environment alone. It is killed at the test's end.
func Start(tb testing.TB, program string, env ...string) *Driver {
	tb.Helper()
	d := &Driver{tb: tb, Cmd: exec.Command(program)}
	d.Cmd.Env = env
	d.Cmd.Stderr = &d.stderr
	in, err := d.Cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := d.Cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	d.In, d.Out = in, bufio.NewReader(out)
	if err := d.Cmd.Start(); err != nil {
		tb.Fatalf("start the C client: %v", err)
	}
	tb.Cleanup(d.Kill)
	return d
}

// Kill kills the process, unless it has ended.
func (d *Driver) Kill() {
	if d.Cmd.ProcessState == nil {
		_ = d.Cmd.Process.Kill()
		_ = d.Cmd.Wait() // it was killed
	}
}

// Say gives the process a line.
func (d *Driver) Say(format string, args ...any) {
	d.tb.Helper()
	if _, err := fmt.Fprintf(d.In, format+"\n", args...); err != nil {
		d.tb.Fatal(err)
	}
}

// Hear waits for the next lines of output, which may come in any order: each is of a task,
// and so of a thread, of its own.
func (d *Driver) Hear(want ...string) {
	d.tb.Helper()
	var said []string
	for range want {
		said = append(said, strings.TrimSpace(d.Line()))
	}
	slices.Sort(said)
	slices.Sort(want)
	if !slices.Equal(said, want) {
		d.Kill() // which ends its stderr too
		d.tb.Fatalf("a client said %q, want %q; stderr:\n%s", said, want, d.stderr.String())
	}
}

// Line waits for the next line of output, and is that line with its end.
func (d *Driver) Line() string {
	d.tb.Helper()
	late := time.AfterFunc(Patience, func() { _ = d.Cmd.Process.Kill() }) // which ends its output
	defer late.Stop()
	line, err := d.Out.ReadString('\n')
	if err != nil {
		d.Kill() // which ends its stderr too
		d.tb.Fatalf("a client said %q, and then nothing: %v; stderr:\n%s", line, err, d.stderr.String())
	}
	return line
}

// Finish ends the process through exit and returns its stderr.
func (d *Driver) Finish() string {
	d.tb.Helper()
	d.In.Close()
	_, _ = io.Copy(io.Discard, d.Out)
	if err := d.Cmd.Wait(); err != nil {
		d.tb.Errorf("a client: %v; stderr:\n%s", err, d.stderr.String())
	}
	return d.stderr.String()
}
