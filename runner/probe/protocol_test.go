package probe

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
		bystander.expect(kindGrant)
	}
	bye := frame(&byeFrame{})
	live := func(c *raw, _ *testing.T) {
		c.send(beginOf(1, 1))
		mustGrant(c.t, r.next(c.t, "begin"))
		c.expect(kindGrant)
	}
	pending := func(c *raw, _ *testing.T) { c.send(beginOf(1, 1)); r.next(c.t, "begin") }
	growing := func(c *raw, t *testing.T) { live(c, t); c.send(frame(&growFrame{1, 1, 0})); r.next(t, "grow") }
	fresh := func(*raw, *testing.T) {}

	for _, test := range []struct {
		name, why string
		before    func(*raw, *testing.T) // nil: no HELLO
		frame     []byte
	}{
		{"before HELLO", "before HELLO", nil, beginOf(1, 1)},
		{"unknown token", "token", nil, frame(&helloFrame{token: [16]byte{1}})},
		{"garbage first", "truncated", nil, []byte("hi")},
		{"wrong version", "version 1", nil, edit(t, kindHello, func(b []byte) { b[2] = 1 })},
		{"empty", "empty", fresh, nil},
		{"truncated", "TASK_BEGIN of 63 bytes", fresh, beginOf(1, 1)[:63]},
		{"padded", "TASK_BEGIN of 73 bytes", fresh, append(beginOf(1, 1), 0)},
		{"oversized", "oversized frame of 70000", fresh, make([]byte, 70000)},
		{"wrong size field", "claims", fresh, edit(t, kindBegin, func(b []byte) { b[4]++ })},
		{"unknown type", "unknown frame type 99", fresh, edit(t, kindBye, func(b []byte) { b[0] = 99 })},
		{"type 0", "unknown", fresh, edit(t, kindBye, func(b []byte) { b[0] = 0 })},
		{"later version", "version 260", fresh, edit(t, kindBegin, func(b []byte) { b[3] = 1 })},
		{"second HELLO", "HELLO", fresh, fixture(t, kindHello)},
		{"server's frame", "GRANT", fresh, fixture(t, kindGrant)},
		{"task 0", "task id 0", fresh, beginOf(0, 1)},
		{"2^63 bytes", "2^63", fresh, beginOf(1, 1<<63)},
		{"free of unknown", "not live", fresh, frame(&freeFrame{1})},
		{"grow of unknown", "not live", fresh, frame(&growFrame{1, 1, 0})},
		{"shape of unknown", "not live", fresh, frame(&shapeFrame{1, Shape{Blocks: 1}})},
		{"shape of waiting", "outstanding", pending, frame(&shapeFrame{1, Shape{Blocks: 1}})},
		{"more on the host than there is", "3 of 2 bytes on the host", fresh, frame(&beginFrame{1, Request{Bytes: 2, HostBytes: 3}})},
		{"on the host without eviction", "cannot evict", fresh, frame(&beginFrame{1, Request{Bytes: 3, HostBytes: 2}})},
		{"device -1", "device -1", fresh, frame(&beginFrame{1, Request{Flags: FlagDevice, Device: -1}})},
		{"begin of waiting", "is live", pending, beginOf(1, 1)},
		{"begin of held", "is live", live, beginOf(1, 1)},
		{"free of waiting", "outstanding", pending, frame(&freeFrame{1})},
		{"grow of waiting", "outstanding", pending, frame(&growFrame{1, 1, 0})},
		{"free while growing", "outstanding", growing, frame(&freeFrame{1})},
		{"shape while growing", "outstanding", growing, frame(&shapeFrame{1, Shape{Blocks: 1}})},
		{"shrink of unknown", "not live", fresh, frame(&shrinkFrame{1, 1})},
		{"shrink of waiting", "outstanding", pending, frame(&shrinkFrame{1, 1})},
		{"shrink while growing", "outstanding", growing, frame(&shrinkFrame{1, 1})},
		{"begin of one that decides", "who decides", fresh, decidingBegin(1, 1)},
		{"decided here", "who decides", pending, frame(&decidedFrame{task: 1})},
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
				if e := r.next(t, "closed"); e.c.Job() != 2 || e.c.Err() == nil || !strings.Contains(e.c.Err().Error(), test.why) {
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

func decidingBegin(task, bytes uint64) []byte {
	return frame(&beginFrame{task, Request{Bytes: bytes, Flags: FlagDecided}})
}

func granted(task uint64, ordinal int32) []byte {
	return frame(&decidedFrame{task, Outcome{Ordinal: ordinal}})
}

// A job that decides for itself tells how its requests end, and nobody answers them.
func TestClientsDecide(t *testing.T) {
	s, r, log := start(t)
	c := connect(t, s)
	c.send(helloOf(t, s.RegisterDeciding(4)))
	c.send(decidingBegin(1, 10))
	if e := r.next(t, "begin"); e.task != 1 || e.r.Flags != FlagDecided {
		t.Fatalf("begin %v %+v", e, e.r)
	}
	c.send(granted(1, 2))
	if e := r.next(t, "decided"); e.task != 1 || e.ended != (Outcome{Ordinal: 2}) {
		t.Fatalf("decided %v %+v", e, e.ended)
	}
	c.send(frame(&growFrame{1, 5, WaitNone}))
	if e := r.next(t, "grow"); e.bytes != 5 || e.wait != WaitNone {
		t.Fatalf("grow %v %v", e, e.wait)
	}
	refused := Outcome{Reason: ReasonTimeout, Need: 15, Capacity: 12}
	c.send(frame(&decidedFrame{1, refused}))
	if e := r.next(t, "decided"); e.ended != refused {
		t.Fatalf("decided %v %+v", e, e.ended)
	}
	c.send(frame(&shrinkFrame{1, 3})) // the refused growth left the task
	if e := r.next(t, "shrink"); e.task != 1 || e.bytes != 3 {
		t.Fatalf("shrink %v", e)
	}
	c.send(frame(&freeFrame{1}))
	r.next(t, "free")
	c.send(decidingBegin(1, 20))
	r.next(t, "begin")
	c.send(frame(&decidedFrame{1, refused}))
	r.next(t, "decided")
	c.send(decidingBegin(1, 20)) // a refused id may come again
	r.next(t, "begin")
	c.close()
	if e := r.next(t, "closed"); e.c.Err() != nil {
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
		"free of waiting":          {"outstanding", append(waits, frame(&freeFrame{1}))},
		"shrink of waiting":        {"outstanding", append(waits, frame(&shrinkFrame{1, 1}))},
		"no device of the run":     {"no such device", append(waits, granted(1, 4))},
		"more than it holds":       {"more than it holds", append(holds, frame(&shrinkFrame{1, 1<<40 + 1}))},
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
				if e.kind == "closed" {
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
