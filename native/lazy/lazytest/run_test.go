package lazytest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/runner/probe"
)

// The tests named TestLazy run programs that know nothing of libcase
// (native/lazy/tests/programs) on the fake CUDA runtime and driver
// (native/fake), with the lazy runtime preloaded and the test as the
// scheduler.

// cudaVersions are the runtimes that programs are linked with: nvcc 13 launches
// kernels in another way, and CUDA 12 and later make contexts earlier.
var cudaVersions = []string{"13", "11"}

// buildLazy builds the lazy runtime and the fakes.
func buildLazy(tb testing.TB) {
	tb.Helper()
	nativetest.Build(tb, "lazy", "libcase.so", "linked", "programs")
}

// grantedDevice is where tasks go that ask for no device: not the device that a
// program has by itself.
const grantedDevice = 1

// moving is what the scheduler says where memory can move. The memory of most programs here is a few MiB.
var moving = probe.Config{Chunk: 8 << 20, Window: 50 * time.Millisecond}

// lazyRun is one process and what it said to the scheduler.
type lazyRun struct {
	t      *testing.T
	server *probe.Server
	// What it is: of CUDA's version, the program's arguments, and what was added to its
	// environment.
	version, program string
	env              []string
	r                recorder
	cmd              *exec.Cmd
	in               io.Writer
	out              *bufio.Reader
	stderr           bytes.Buffer
	lines            []string // of standard output
	events           []event
	err              error        // how it ended
	wait             func() error // for its end; the same each time
}

// lazyCommand is a program of lazy_program's without any scheduler.
func lazyCommand(t testing.TB, version, program string, env ...string) *exec.Cmd {
	t.Helper()
	return fakeCommand(t, version, "lazy_program", program, env...)
}

func fakeCommand(t testing.TB, version, file, arguments string, env ...string) *exec.Cmd {
	t.Helper()
	buildLazy(t)
	// Whatever a test waits for, a program that does not end fails it, and no other.
	limited, cancel := context.WithTimeout(context.Background(), 5*patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(limited, absolute(t, lazyDir, "build", version, file), strings.Fields(arguments)...)
	cmd.WaitDelay = patience // its children may have its output open
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+absolute(t, fakeDir, "build", version), "FAKE_CUDA_DEVICES=2", "CASE_ROOM_GRACE_MS=0")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// startLazy starts the program with the lazy runtime and a server for it.
func startLazy(t *testing.T, version, program string, env ...string) *lazyRun {
	t.Helper()
	return startLazyBinary(t, version, "lazy_program", program, env...)
}

func startLazyBinary(t *testing.T, version, file, arguments string, env ...string) *lazyRun {
	t.Helper()
	return prepareLazy(t, version, file, arguments, env...).start()
}

func prepareLazy(t *testing.T, version, file, arguments string, env ...string) *lazyRun {
	t.Helper()
	s, r := start(t)
	return prepareLazyAt(t, s, r, version, file, arguments, env...)
}

// prepareLazyAt is prepareLazy for a server that there is.
func prepareLazyAt(t *testing.T, s *probe.Server, r recorder, version, file, arguments string, env ...string) *lazyRun {
	t.Helper()
	library := absolute(t, lazyDir, "libcase.so")
	p := &lazyRun{t: t, server: s, r: r, version: version, program: arguments, env: env}
	p.cmd = fakeCommand(t, version, file, arguments, append([]string{"LD_PRELOAD=" + library, "CASE_SOCKET=" + s.Path(),
		"CASE_TOKEN=" + s.Register(1), "CASE_REQUIRED=1", "CASE_BINDING=task"}, env...)...)
	p.cmd.Stderr = &p.stderr
	return p
}

func (p *lazyRun) start() *lazyRun {
	p.t.Helper()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.wait = sync.OnceValue(p.cmd.Wait)
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // unless it has ended
		_ = p.wait()
	})
	return p
}

// grant is the plain scheduler: tasks go to the device they ask for, or else to
// grantedDevice. It has any amount of memory.
func grant(t *testing.T, e event) {
	if e.Kind == "room" {
		tellRoom(t, e, 1<<40)
		return
	}
	if e.Kind != "begin" && e.Kind != "grow" && e.Kind != "resume" {
		return
	}
	device := grantedDevice
	if e.Asks().OnDevice != nil {
		device = *e.Asks().OnDevice
	}
	if err := e.grant(device, fakeUUID(device)); err != nil {
		t.Errorf("grant: %v", err)
	}
}

// fakeUUID is what the fake driver calls a device.
func fakeUUID(device int) [16]byte { return [16]byte{0xca, 0x5e, 15: byte(device)} }

// finish answers the program's requests until it ends.
func (p *lazyRun) finish(answer func(*testing.T, event)) *lazyRun {
	p.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		text, _ := io.ReadAll(p.out) // it ends when the process does
		p.lines = append(p.lines, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
		p.err = p.wait()
		p.server.Settle()
	}()
	timeout := time.After(patience)
	for {
		select {
		case next := <-p.r.events:
			e := *next
			p.events = append(p.events, e)
			answer(p.t, e)
		case <-ended:
			for len(p.r.events) > 0 {
				e := *<-p.r.events
				p.events = append(p.events, e)
				if e.Kind != "begin" && e.Kind != "grow" { // nobody is left to answer
					answer(p.t, e)
				}
			}
			return p
		case <-timeout:
			_ = p.cmd.Process.Kill()
			<-ended
			p.t.Fatalf("the program does not end; the last of %d events %v\nstdout %q\nstderr:\n%s", len(p.events), p.events[max(0, len(p.events)-40):], p.lines, p.stderr.String())
		}
	}
}

// runLazy runs the program to its end under the plain scheduler; it must exit 0.
func runLazy(t *testing.T, version, program string, env ...string) *lazyRun {
	t.Helper()
	p := startLazy(t, version, program, env...).finish(grant)
	p.mustSucceed()
	return p
}

func (p *lazyRun) mustSucceed() {
	p.t.Helper()
	if p.err != nil {
		p.t.Fatalf("program: %v\nstdout %q\nstderr:\n%s", p.err, p.lines, p.stderr.String())
	}
}

// of is the events of some kind.
func (p *lazyRun) of(kind string) []event {
	var all []event
	for _, e := range p.events {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

func (p *lazyRun) wantEvents(kinds string) {
	p.t.Helper()
	var got []string
	for _, e := range p.events {
		if e.Kind != "shape" { // whether a launch is news is the library's to say
			got = append(got, e.Kind)
		}
	}
	if strings.Join(got, " ") != kinds {
		p.t.Errorf("events %v, want %s\nstderr:\n%s", p.events, kinds, p.stderr.String())
	}
}

func (p *lazyRun) wantLine(line string) {
	p.t.Helper()
	if !slices.Contains(p.lines, line) {
		p.t.Errorf("output lacks %q:\n%s\nstderr:\n%s", line, strings.Join(p.lines, "\n"), p.stderr.String())
	}
}

// line waits for a line of the program's.
func (p *lazyRun) line() string {
	p.t.Helper()
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() }) // which ends its output
	defer late.Stop()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the program said %q, and then nothing: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// hear waits for this line of the program's.
func (p *lazyRun) hear(want string) {
	p.t.Helper()
	if line := p.line(); line != want {
		p.t.Fatalf("the program said %q, want %q", line, want)
	}
}

func (p *lazyRun) goOn() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(err)
	}
}

// results are the lines that a program computed, without what it says of the
// driver's state.
func results(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, ": contexts ") })
}

// natives has a func() ([]string, error) for each version of CUDA and program.
var natives sync.Map

// native is what the program prints without the lazy runtime. Programs here print the same each time.
func native(t *testing.T, version, program string) []string {
	t.Helper()
	once, _ := natives.LoadOrStore(version+" "+program, sync.OnceValues(func() ([]string, error) {
		out, err := lazyCommand(t, version, program).Output()
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), err
	}))
	lines, err := once.(func() ([]string, error))()
	if err != nil {
		t.Fatalf("%s without the lazy runtime: %v", program, err)
	}
	return slices.Clone(lines)
}

// wantNative: the program computed what it does without the lazy runtime.
func (p *lazyRun) wantNative() *lazyRun {
	p.t.Helper()
	if got, want := results(p.lines), results(native(p.t, p.version, p.program)); !slices.Equal(got, want) {
		p.t.Errorf("%s, CUDA %s, %q: output\n%s\nwant\n%s\nstderr:\n%s", p.program, p.version, p.env,
			strings.Join(got, "\n"), strings.Join(want, "\n"), p.stderr.String())
	}
	return p
}

// wantNothingLeft: no error, no misuse of CUDA, nothing to tell the user, and
// nothing left that a program has freed.
func (p *lazyRun) wantNothingLeft() {
	p.t.Helper()
	if len(p.of("oom"))+len(p.of("fault")) != 0 || p.stderr.Len() != 0 {
		p.t.Errorf("errors: %v\nstderr:\n%s", p.events, p.stderr.String())
	}
	for _, line := range p.lines {
		if strings.HasPrefix(line, "after: ") && !strings.HasSuffix(line, nothingLeft) {
			p.t.Errorf("left behind: %s", line)
		}
	}
}

const nothingLeft = "allocations 0 handles 0 mappings 0 reservations 0 violations 0"
