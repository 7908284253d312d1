package probe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// These tests run the real library in real processes.

// drive starts what native/probe/tests/drive.c describes.
func drive(t *testing.T, env ...string) *probetest.Driver {
	t.Helper()
	return probetest.Start(t, built(t, "build/drive"), env...)
}

func driveJob(t *testing.T, s *Server, job int) *probetest.Driver {
	t.Helper()
	return drive(t, "CASE_SOCKET="+s.Path(), "CASE_TOKEN="+s.Register(job), "CASE_REQUIRED=1")
}

func TestLibraryTaskLife(t *testing.T) {
	s, r, log := start(t)
	d := driveJob(t, s, 4)
	before := s.now()
	d.Say("begin a 123")
	e := r.next(t, "begin")
	if e.c.Job() != 4 || e.c.PID() != d.Cmd.Process.Pid || e.Bytes != 123 || e.Asks().Bytes != 123+1024 || e.Asks().Blocks != 64 || e.Asks().ThreadsPerBlock != 16 {
		t.Fatalf("begin %v %+v", e, e.Asks())
	}
	mustGrant(t, e)
	d.Hear("a 0 3 171") // CASE_OK, ordinal 3, UUID ab...
	d.Say("grow a 7")
	mustGrant(t, r.next(t, "grow"))
	d.Hear("a 0 3 171")
	d.Say("grow a 8")
	if err := e.c.Refuse(r.next(t, "grow").Task, schedulers.Refusal{Cause: schedulers.DeviceFull, NeedBytes: 138, CapacityBytes: 130, Why: "device 3 is full"}); err != nil {
		t.Fatal(err)
	}
	d.Hear("a 1 3 171")
	d.Say("begin b 999")
	if err := e.c.Refuse(r.next(t, "begin").Task, schedulers.Refusal{Cause: schedulers.TooLarge, NeedBytes: 5 << 30, CapacityBytes: 4 << 30, Why: "fits no device"}); err != nil {
		t.Fatal(err)
	}
	d.Hear("b 1 -1 0")
	where := "cudaMalloc on device 2: 1.0 GiB free, 15.0 GiB in use by this process "
	where += strings.Repeat("x", 120-1-len(where)) // all that the frame holds
	d.Say("oom 42 %s", where)
	d.Hear("reported")
	if e := r.next(t, "oom"); e.Bytes != 42 || e.Text != where {
		t.Errorf("oom %v", e)
	}
	d.Say("fault 700 cudaMemcpy")
	d.Hear("reported")
	if e := r.next(t, "fault"); e.Posted.(runner.Fault).Code != 700 || e.Text != "cudaMemcpy" || e.At < before || e.At > s.now() {
		t.Errorf("fault %v at %v", e, e.At)
	}
	d.Say("shape a 4096")
	d.Hear("a 0")
	if e := r.next(t, "shape"); e.Posted != (runner.TaskShape{ID: e.ID, Blocks: 4096, ThreadsPerBlock: 256, BlocksPerSM: 8}) {
		t.Errorf("shape %v %+v", e, e.Posted)
	}
	d.Say("free a")
	d.Hear("a 0")
	r.next(t, "free")
	d.Say("pin c 2")
	e = r.next(t, "begin")
	if task := e.Asks(); task.Bytes != 1 || task.Blocks != 64 || task.ThreadsPerBlock != 16 || !task.Managed || task.BlocksPerSM != 6 || *task.OnDevice != 2 {
		t.Errorf("pinned begin %+v", task)
	}
	mustGrant(t, e)
	d.Hear("c 0 3 171")
	stderr := d.Finish()
	if e := r.next(t, "gone"); e.c.Err() != nil || !e.c.SaidBye() {
		t.Errorf("closed %v: %v, bye %v", e, e.c.Err(), e.c.SaidBye())
	}
	for _, part := range []string{"device 3 is full", "fits no device", "needs 5368709120 bytes", "capacity 4294967296 bytes"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, stderr)
		}
	}
	if lines := log.all(); len(lines) != 0 {
		t.Errorf("log %q", lines)
	}
}

func TestTwoThreadsWaitWhileAThirdFrees(t *testing.T) {
	s, r, _ := start(t)
	d := driveJob(t, s, 1)
	d.Say("begin a 1")
	a := r.next(t, "begin")
	mustGrant(t, a)
	d.Hear("a 0 3 171")
	d.Say("begin b 2")
	b := r.next(t, "begin")
	d.Say("begin c 3")
	c := r.next(t, "begin")
	d.Say("free a")
	d.Hear("a 0")
	if e := r.next(t, "free"); e.Task != a.Task {
		t.Fatalf("free %v", e)
	}
	mustGrant(t, c)
	d.Hear("c 0 3 171")
	mustGrant(t, b)
	d.Hear("b 0 3 171")
}

func TestForkedChildHasItsOwnConnection(t *testing.T) {
	s, r, log := start(t)
	d := driveJob(t, s, 9)
	d.Say("begin a 1")
	parent := r.next(t, "begin")
	mustGrant(t, parent)
	d.Hear("a 0 3 171")
	d.Say("fork a 5")
	child := r.next(t, "begin")
	if child.c == parent.c || child.c.Job() != 9 || child.c.PID() == parent.c.PID() || child.Bytes != 5 {
		t.Fatalf("child's begin %v, parent's %v", child, parent)
	}
	mustGrant(t, child)
	d.Hear(fmt.Sprintf("child %d 1 0", child.c.PID())) // the parent's task is not the child's to free
	if e := r.next(t, "free"); e.c != child.c {
		t.Fatalf("free %v", e)
	}
	if e := r.next(t, "gone"); e.c != child.c {
		t.Fatalf("closed %v", e)
	}
	d.Say("free a")
	d.Hear("a 0")
	if e := r.next(t, "free"); e.c != parent.c {
		t.Fatalf("free %v", e)
	}
	if lines := log.all(); len(lines) != 0 {
		t.Errorf("log %q", lines)
	}
}

func TestUnscheduled(t *testing.T) {
	d := drive(t)
	d.Say("begin a 1")
	d.Hear("a 0 -1 0")
	d.Say("begin b 1")
	d.Hear("b 0 -1 0")
	d.Say("free a")
	d.Hear("a 0")
	if stderr := d.Finish(); stderr != "caserun: running unscheduled: CASE_SOCKET is not set\n" {
		t.Errorf("stderr %q", stderr)
	}
}

func TestRequired(t *testing.T) {
	s, _, _ := start(t)
	token := s.Register(1)
	for name, env := range map[string][]string{
		"CASE_SOCKET is not set": nil,
		"No such file":           {"CASE_SOCKET=/nonexistent/probe", "CASE_TOKEN=" + token},
		"CASE_TOKEN":             {"CASE_SOCKET=" + s.Path()},
		"hex digits":             {"CASE_SOCKET=" + s.Path(), "CASE_TOKEN=" + token[1:] + "g"},
	} {
		d := drive(t, append(env, "CASE_REQUIRED=1")...)
		d.Say("begin a 1")
		d.Hear("a 2 -1 0")
		d.Say("begin b 1")
		d.Hear("b 2 -1 0")
		if stderr := d.Finish(); strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, name) {
			t.Errorf("stderr %q, want one line with %q", stderr, name)
		}
	}
}

func TestServerGoneWhileThreadsWait(t *testing.T) {
	s, r, _ := start(t)
	d := driveJob(t, s, 1)
	d.Say("begin a 1")
	r.next(t, "begin")
	d.Say("begin b 1")
	r.next(t, "begin")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.Hear("a 2 -1 0", "b 2 -1 0")
	d.Say("begin c 1")
	d.Hear("c 2 -1 0")
	if stderr := d.Finish(); strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "lost the scheduler") {
		t.Errorf("stderr %q", stderr)
	}
}

func TestUnknownTokenTellsTheUser(t *testing.T) {
	s, r, _ := start(t)
	d := drive(t, "CASE_SOCKET="+s.Path(), "CASE_TOKEN="+strings.Repeat("0", 2*wire.TokenSize), "CASE_REQUIRED=1")
	d.Say("begin a 1")
	d.Hear("a 2 -1 0")
	if stderr := d.Finish(); !strings.Contains(stderr, "token of no job of this run") {
		t.Errorf("stderr %q", stderr)
	}
	r.none(t)
}
