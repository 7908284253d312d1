package schedshm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/runner/probe/probetest"
)

// witness serves a run whose clients decide for themselves. heard has what they report.
func witness(t *testing.T) (s *probe.Server, heard chan string) {
	t.Helper()
	heard = make(chan string, 100)
	record := probetest.NewRecorder(func(e probetest.Event) error {
		line := fmt.Sprintf("%s %d: %d", e.Kind, e.Task, e.Bytes)
		switch p := e.Posted.(type) {
		case runner.TaskBegin:
			line = fmt.Sprintf("begin %d: %d bytes", e.Task, p.Task.Bytes)
		case runner.TaskDecided:
			line = fmt.Sprintf("decided %d: device %d", e.Task, p.Device)
			if r := p.Refusal; r != nil {
				line = fmt.Sprintf("decided %d: %s, needs %d, capacity %d", e.Task, r.Why, r.NeedBytes, r.CapacityBytes)
			}
		case runner.TaskShape:
			line = fmt.Sprintf("shape %d: %d", e.Task, p.Blocks)
		case runner.Fault:
			line = fmt.Sprintf("fault %d", p.Code)
		case runner.ProcessGone:
			line = fmt.Sprintf("gone, bye %v", p.SaidBye)
		}
		heard <- line
		return nil
	})
	return listen(t, record), heard
}

// listen serves with a recorder.
func listen(tb testing.TB, r *probetest.Recorder) *probe.Server {
	tb.Helper()
	s, err := probe.Listen(probe.Config{Dir: filepath.Join(tb.TempDir(), "s"), Start: time.Now(), Post: r.Post, Swap: r, Warn: tb.Logf,
		AcceptFailed: func(err error) { tb.Error(err) }, Mended: func(error) {}, Stray: func(int, func(int) runner.Event) {}})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// A run learns what clients decide and how long they waited. No client waits for the run.
func TestReports(t *testing.T) {
	server, said := witness(t)
	s := scene{t, newShared(t, node{capacity: 100_000, context: 10_000}, "fifo")}
	c := start(t, append(s.env(0), "CASE_SOCKET="+server.Path(), "CASE_TOKEN="+server.RegisterDeciding(3))...)
	c.Say("begin t 88977")
	c.Hear(refused)
	other := start(t, s.env(0)...)
	other.Say("begin t 48976")
	other.Hear(granted)
	c.Say("begin t 30976")
	s.wait(1)
	s.free(other)
	c.Hear(granted)
	c.Say("grow t 9000")
	c.Hear(granted)
	c.Say("shape t 4096")
	c.Hear("t 0")
	c.Say("shrink t 4000")
	c.Hear("t 0")
	c.Say("wait none")
	c.Say("grow t 45000")
	c.Hear("t 3 0 171")
	c.Say("oom 7 x")
	c.Hear("reported")
	c.Say("fault 700 x")
	c.Hear("reported")
	c.Say("free t")
	c.Hear("t 0")
	c.Finish()
	server.Settle()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	close(said)
	var heard []string
	for line := range said {
		heard = append(heard, line)
	}
	want := []string{
		"begin 1: 90001 bytes",
		"decided 1: the process itself: too large for any device, needs 100001, capacity 100000",
		"begin 2: 32000 bytes",
		"decided 2: device 0",
		"grow 2: 9000",
		"decided 2: device 0",
		"shape 2: 4096",
		"shrink 2: 4000",
		"grow 2: 45000",
		"decided 2: the process itself: waited too long, needs 92000, capacity 100000",
		"oom 0: 7",
		"fault 700",
		"free 2: 0",
		"gone, bye true",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("the run heard\n%q\nwant\n%q", heard, want)
	}
}

// Memory that a client releases while the file is unusable is free after the client's next access.
func TestGivesBackLater(t *testing.T) {
	server, _ := witness(t)
	defer server.Close()
	a := newShared(t, plain, "fifo").(*shared)
	s := scene{t, a}
	c := start(t, append(s.env(0), "CASE_SOCKET="+server.Path(), "CASE_TOKEN="+server.RegisterDeciding(3))...)
	c.Say("begin t %d", 600*mib)
	c.Hear(granted)
	if err := os.Rename(a.path, a.path+".away"); err != nil {
		t.Fatal(err)
	}
	c.Say("free t")
	c.Hear("t 0")
	if err := os.Rename(a.path+".away", a.path); err != nil {
		t.Fatal(err)
	}
	s.uses(600*mib + 1024)
	c.Say("begin t %d", 10*mib)
	c.Hear(granted)
	s.uses(10*mib + 1024)
	if text := c.Finish(); !strings.Contains(text, "what task 1 gives back is not free yet: lock the state file") {
		t.Errorf("stderr %q", text)
	}
}
