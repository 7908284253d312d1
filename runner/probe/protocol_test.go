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
	bye := put(make([]byte, maxFrame), kindBye)
	live := func(c *raw, _ *testing.T) {
		c.send(beginOf(1, 1))
		mustGrant(c.t, r.next(c.t, "begin"))
		c.expect(kindGrant)
	}
	pending := func(c *raw, _ *testing.T) { c.send(beginOf(1, 1)); r.next(c.t, "begin") }
	growing := func(c *raw, t *testing.T) { live(c, t); c.send(frame(&growFrame{1, 1})); r.next(t, "grow") }
	fresh := func(*raw, *testing.T) {}

	for _, test := range []struct {
		name, why string
		before    func(*raw, *testing.T) // nil: no HELLO
		frame     []byte
	}{
		{"before HELLO", "before HELLO", nil, beginOf(1, 1)},
		{"unknown token", "token", nil, frame(&helloWire{helloFrame{token: [16]byte{1}}})},
		{"garbage first", "truncated", nil, []byte("hi")},
		{"wrong version", "version 1", nil, edit(t, kindHello, func(b []byte) { b[2] = 1 })},
		{"empty", "empty", fresh, nil},
		{"truncated", "TASK_BEGIN of 55 bytes", fresh, beginOf(1, 1)[:55]},
		{"padded", "TASK_BEGIN of 57 bytes", fresh, append(beginOf(1, 1), 0)},
		{"oversized", "oversized frame of 70000", fresh, make([]byte, 70000)},
		{"wrong size field", "claims", fresh, edit(t, kindBegin, func(b []byte) { b[4]++ })},
		{"unknown type", "unknown frame type 99", fresh, edit(t, kindBye, func(b []byte) { b[0] = 99 })},
		{"type 0", "unknown", fresh, edit(t, kindBye, func(b []byte) { b[0] = 0 })},
		{"later version", "version 258", fresh, edit(t, kindBegin, func(b []byte) { b[3] = 1 })},
		{"second HELLO", "HELLO", fresh, fixture(t, kindHello)},
		{"server's frame", "GRANT", fresh, fixture(t, kindGrant)},
		{"task 0", "task id 0", fresh, beginOf(0, 1)},
		{"2^63 bytes", "2^63", fresh, beginOf(1, 1<<63)},
		{"free of unknown", "not live", fresh, frame(&freeWire{freeFrame{1}})},
		{"grow of unknown", "not live", fresh, frame(&growFrame{1, 1})},
		{"shape of unknown", "not live", fresh, frame(&shapeFrame{1, Shape{Blocks: 1}})},
		{"shape of waiting", "outstanding", pending, frame(&shapeFrame{1, Shape{Blocks: 1}})},
		{"device -1", "device -1", fresh, frame(&beginFrame{1, Request{Flags: FlagDevice, Device: -1}})},
		{"begin of waiting", "is live", pending, beginOf(1, 1)},
		{"begin of held", "is live", live, beginOf(1, 1)},
		{"free of waiting", "outstanding", pending, frame(&freeWire{freeFrame{1}})},
		{"grow of waiting", "outstanding", pending, frame(&growFrame{1, 1})},
		{"free while growing", "outstanding", growing, frame(&freeWire{freeFrame{1}})},
		{"shape while growing", "outstanding", growing, frame(&shapeFrame{1, Shape{Blocks: 1}})},
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
