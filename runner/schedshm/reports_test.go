package schedshm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/probe"
)

// witness is a run whose clients decide for themselves. It records what they report.
type witness struct {
	tb    testing.TB
	heard chan string
}

func (w witness) say(format string, args ...any) { w.heard <- fmt.Sprintf(format, args...) }

func (w witness) Begin(_ *probe.Client, task uint64, r probe.Request) {
	w.say("begin %d: %d bytes, flags %d", task, r.Bytes+r.HeapBytes, r.Flags)
}
func (w witness) Decided(_ *probe.Client, task uint64, o probe.Outcome) error {
	w.say("decided %d: reason %d, device %d, need %d, capacity %d", task, o.Reason, o.Ordinal, o.Need, o.Capacity)
	return nil
}
func (w witness) Grow(_ *probe.Client, task, bytes uint64, _ probe.Wait) {
	w.say("grow %d: %d", task, bytes)
}
func (w witness) Shrink(_ *probe.Client, task, bytes uint64) error {
	w.say("shrink %d: %d", task, bytes)
	return nil
}
func (w witness) Shape(_ *probe.Client, task uint64, s probe.Shape) {
	w.say("shape %d: %d", task, s.Blocks)
}
func (w witness) Free(_ *probe.Client, task uint64)                        { w.say("free %d", task) }
func (w witness) OOM(_ *probe.Client, bytes uint64, _ string)              { w.say("oom %d", bytes) }
func (w witness) Fault(_ *probe.Client, code int32, _ time.Time, _ string) { w.say("fault %d", code) }
func (w witness) Starved(err error)                                        { w.tb.Error(err) }
func (w witness) Limited(_ *probe.Client, why string)                      { w.tb.Error(why) }
func (w witness) Silent(*probe.Client)                                     {}
func (w witness) Closed(c *probe.Client)                                   { w.say("closed, bye %v, %v", c.SaidBye(), c.Err()) }

// A run learns what clients decide and how long they waited. No client waits for the run.
func TestReports(t *testing.T) {
	w := witness{t, make(chan string, 100)}
	server, err := probe.Listen(filepath.Join(t.TempDir(), "s"), w, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
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
	close(w.heard)
	var heard []string
	for line := range w.heard {
		heard = append(heard, line)
	}
	want := []string{
		"begin 1: 90001 bytes, flags 4",
		"decided 1: reason 1, device 0, need 100001, capacity 100000",
		"begin 2: 32000 bytes, flags 4",
		"decided 2: reason 0, device 0, need 0, capacity 0",
		"grow 2: 9000",
		"decided 2: reason 0, device 0, need 0, capacity 0",
		"shape 2: 4096",
		"shrink 2: 4000",
		"grow 2: 45000",
		"decided 2: reason 3, device 0, need 92000, capacity 100000",
		"oom 7",
		"fault 700",
		"free 2",
		"closed, bye true, <nil>",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("the run heard\n%q\nwant\n%q", heard, want)
	}
}

// Memory that a client releases while the file is unusable is free after the client's next access.
func TestGivesBackLater(t *testing.T) {
	w := witness{t, make(chan string, 100)}
	server, err := probe.Listen(filepath.Join(t.TempDir(), "s"), w, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
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
