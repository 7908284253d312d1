package probe

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// Every broken rule costs its sender the connection, with one line in the log
// and a reason for the sender, while a bystander is served before and after.
func TestProtocolErrorsHarmOnlyTheirSender(t *testing.T) {
	s, r, log := start(t)
	bystander := greeted(t, s, 1)
	id := uint64(0)
	serveBystander := func(t *testing.T) {
		t.Helper()
		id++
		bystander.send(beginOf(id, 1))
		mustGrant(t, r.next(t, "begin"))
		bystander.expect(wire.KindGrant)
	}
	bye := frame(&wire.Bye{})
	live := func(c *raw, _ *testing.T) {
		c.send(beginOf(1, 1))
		mustGrant(c.t, r.next(c.t, "begin"))
		c.expect(wire.KindGrant)
	}
	pending := func(c *raw, _ *testing.T) { c.send(beginOf(1, 1)); r.next(c.t, "begin") }
	growing := func(c *raw, t *testing.T) {
		live(c, t)
		c.send(frame(&wire.Grow{Number: 1, Bytes: 1}))
		r.next(t, "grow")
	}
	fresh := func(*raw, *testing.T) {}

	for _, test := range []struct {
		name, why string
		before    func(*raw, *testing.T) // nil: no HELLO
		frame     []byte
	}{
		{"before HELLO", "before HELLO", nil, beginOf(1, 1)},
		{"unknown token", "token", nil, frame(&wire.Hello{Token: [16]byte{1}})},
		{"garbage first", "truncated", nil, []byte("hi")},
		{"wrong version", "version 1", nil, edit(t, wire.KindHello, func(b []byte) { b[2] = 1 })},
		{"empty", "empty", fresh, nil},
		{"truncated", "TASK_BEGIN of 63 bytes", fresh, beginOf(1, 1)[:63]},
		{"padded", "TASK_BEGIN of 81 bytes", fresh, append(beginOf(1, 1), 0)},
		{"oversized", "oversized frame of 70000", fresh, make([]byte, 70000)},
		{"wrong size field", "claims", fresh, edit(t, wire.KindBegin, func(b []byte) { b[4]++ })},
		{"unknown type", "unknown frame type 99", fresh, edit(t, wire.KindBye, func(b []byte) { b[0] = 99 })},
		{"type 0", "unknown", fresh, edit(t, wire.KindBye, func(b []byte) { b[0] = 0 })},
		{"later version", "version 262", fresh, edit(t, wire.KindBegin, func(b []byte) { b[3] = 1 })},
		{"second HELLO", "HELLO", fresh, edit(t, wire.KindHello, func([]byte) {})},
		{"server's frame", "GRANT", fresh, edit(t, wire.KindGrant, func([]byte) {})},
		{"task 0", "task id 0", fresh, beginOf(0, 1)},
		{"2^63 bytes", "2^63", fresh, edit(t, wire.KindBegin, func(b []byte) { b[23] = 0x80 })},
		{"free of unknown", "not live", fresh, frame(&wire.Free{Number: 1})},
		{"grow of unknown", "not live", fresh, frame(&wire.Grow{Number: 1, Bytes: 1})},
		{"shape of unknown", "not live", fresh, frame(&wire.Shape{Number: 1, Blocks: 1})},
		{"shape of waiting", "outstanding", pending, frame(&wire.Shape{Number: 1, Blocks: 1})},
		{"more on the host than there is", "3 of 2 bytes on the host", fresh, frame(&wire.Begin{Number: 1, Task: schedulers.Task{Bytes: 2, Need: new(int64(-1))}})},
		{"on the host without eviction", "cannot evict", fresh, frame(&wire.Begin{Number: 1, Task: schedulers.Task{Bytes: 3, Need: new(int64(1))}})},
		{"device -1", "device -1", fresh, frame(&wire.Begin{Number: 1, Task: schedulers.Task{OnDevice: new(-1)}})},
		{"begin of waiting", "is live", pending, beginOf(1, 1)},
		{"begin of held", "is live", live, beginOf(1, 1)},
		{"free of waiting", "outstanding", pending, frame(&wire.Free{Number: 1})},
		{"grow of waiting", "outstanding", pending, frame(&wire.Grow{Number: 1, Bytes: 1})},
		{"free while growing", "outstanding", growing, frame(&wire.Free{Number: 1})},
		{"shape while growing", "outstanding", growing, frame(&wire.Shape{Number: 1, Blocks: 1})},
		{"shrink of unknown", "not live", fresh, frame(&wire.Shrink{Number: 1, Bytes: 1})},
		{"shrink of waiting", "outstanding", pending, frame(&wire.Shrink{Number: 1, Bytes: 1})},
		{"shrink while growing", "outstanding", growing, frame(&wire.Shrink{Number: 1, Bytes: 1})},
		{"begin of one that decides", "who decides", fresh, decidingBegin(1, 1)},
		{"decided here", "who decides", pending, frame(&wire.Decided{Number: 1})},
		{"after BYE", "after BYE", func(c *raw, _ *testing.T) { c.send(bye) }, beginOf(1, 1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			serveBystander(t)
			known := len(log.all())
			c := connect(t, s)
			if test.before != nil {
				c.send(helloOf(t, s.Register(2)))
				test.before(c, t)
			}
			if test.frame == nil {
				if _, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(c.fd), 0, 0, unix.MSG_NOSIGNAL, 0, 0); errno != 0 {
					t.Fatal(errno)
				}
			} else {
				c.send(test.frame)
			}
			if why := c.expectHangUp(); !strings.Contains(why, test.why) {
				t.Errorf("told %q, want %q", why, test.why)
			}
			if test.before != nil {
				if e := r.next(t, "gone"); e.c.Job() != 2 || e.c.Err() == nil || !strings.Contains(e.c.Err().Error(), test.why) {
					t.Errorf("closed %v: %v", e, e.c.Err())
				}
			}
			serveBystander(t)
			r.none(t)
			if lines := log.all()[known:]; len(lines) != 1 || !strings.Contains(lines[0], test.why) {
				t.Errorf("log %q, want one line with %q", lines, test.why)
			}
		})
	}
}

func decidingBegin(task uint64, bytes int64) []byte {
	return frame(&wire.Begin{Number: task, Task: schedulers.Task{Bytes: bytes}, Decides: true})
}

func granted(task uint64, device int) []byte {
	return frame(&wire.Decided{Number: task, Device: device})
}

// A job that decides for itself tells how its requests end, and nobody answers them.
func TestClientsDecide(t *testing.T) {
	s, r, log := start(t)
	c := connect(t, s)
	c.send(helloOf(t, s.RegisterDeciding(4)))
	c.send(decidingBegin(1, 10))
	if e := r.next(t, "begin"); e.Task != 1 || e.Bytes != 10 {
		t.Fatalf("begin %v", e)
	}
	c.send(granted(1, 2))
	if e := r.next(t, "decided"); e.Task != 1 || e.Posted != (runner.TaskDecided{ID: e.ID, Device: 2}) {
		t.Fatalf("decided %v %+v", e, e.Posted)
	}
	c.send(frame(&wire.Grow{Number: 1, Bytes: 5, Wait: new(time.Duration(0))}))
	if e := r.next(t, "grow"); e.Bytes != 5 || *e.Posted.(runner.TaskGrow).Wait != 0 {
		t.Fatalf("grow %v", e)
	}
	refused := schedulers.Refusal{Cause: schedulers.TimedOut, NeedBytes: 15, CapacityBytes: 12}
	c.send(frame(&wire.Decided{Number: 1, Refusal: &refused}))
	if e := r.next(t, "decided"); e.Posted.(runner.TaskDecided).Refusal.Error() != "the process itself: waited too long: needs 15 bytes, capacity 12 bytes" {
		t.Fatalf("decided %v %+v", e, e.Posted)
	}
	c.send(frame(&wire.Shrink{Number: 1, Bytes: 3})) // the refused growth left the task
	if e := r.next(t, "shrink"); e.Task != 1 || e.Bytes != 3 {
		t.Fatalf("shrink %v", e)
	}
	c.send(frame(&wire.Free{Number: 1}))
	r.next(t, "free")
	c.send(decidingBegin(1, 20))
	r.next(t, "begin")
	c.send(frame(&wire.Decided{Number: 1, Refusal: &refused}))
	r.next(t, "decided")
	c.send(decidingBegin(1, 20)) // a refused id may come again
	r.next(t, "begin")
	c.close()
	if e := r.next(t, "gone"); e.c.Err() != nil {
		t.Errorf("closed: %v", e.c.Err())
	}
	r.none(t)
	if lines := log.all(); len(lines) != 0 {
		t.Errorf("log %q", lines)
	}
}

func TestProtocolErrorsOfClientsThatDecide(t *testing.T) {
	waits := [][]byte{decidingBegin(1, 1)}
	holds := [][]byte{decidingBegin(1, 1), granted(1, 0)}
	for name, test := range map[string]struct {
		why    string
		frames [][]byte // the last of them breaks a rule
	}{
		"a request for the server": {"who decides", [][]byte{beginOf(1, 1)}},
		"decided unasked":          {"no request outstanding", [][]byte{granted(1, 0)}},
		"decided twice":            {"no request outstanding", append(holds, granted(1, 0))},
		"free of waiting":          {"outstanding", append(waits, frame(&wire.Free{Number: 1}))},
		"shrink of waiting":        {"outstanding", append(waits, frame(&wire.Shrink{Number: 1, Bytes: 1}))},
		"no device of the run":     {"no such device", append(waits, granted(1, 4))},
		"more than it holds":       {"more than it holds", append(holds, frame(&wire.Shrink{Number: 1, Bytes: 1<<40 + 1}))},
	} {
		t.Run(name, func(t *testing.T) {
			s, r, _ := start(t)
			c := connect(t, s)
			c.send(helloOf(t, s.RegisterDeciding(1)))
			for _, f := range test.frames {
				c.send(f)
			}
			if why := c.expectHangUp(); !strings.Contains(why, test.why) {
				t.Errorf("told %q, want %q", why, test.why)
			}
			for {
				e := *<-r.events
				if e.Kind == "gone" {
					if err := e.c.Err(); err == nil || !strings.Contains(err.Error(), test.why) {
						t.Errorf("closed: %v", err)
					}
					return
				}
			}
		})
	}
}

// One that has too much open cannot be refused what it decides by itself.
func TestRequestsOfClientsThatDecideAreLimited(t *testing.T) {
	s, r, _ := start(t)
	c := connect(t, s)
	c.send(helloOf(t, s.RegisterDeciding(1)))
	for task := uint64(1); task <= jobRequests; task++ {
		c.send(decidingBegin(task, 1))
		r.next(t, "begin")
	}
	c.send(decidingBegin(jobRequests+1, 1))
	if why := c.expectHangUp(); !strings.Contains(why, "256 requests open") {
		t.Errorf("told %q", why)
	}
}
