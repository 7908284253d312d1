package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

// The frames of native/probe/wire.h, which is the specification: one packet is
// one frame, one size for each kind, little-endian, unused bytes zero. wire_test
// compares sizes with that header's assertions and bytes with
// native/probe/testdata.

const version = 4 // CASE_WIRE_VERSION

type kind uint16

const (
	kindHello   kind = 1
	kindBegin   kind = 2
	kindGrant   kind = 3
	kindRefuse  kind = 4
	kindGrow    kind = 5
	kindFree    kind = 6
	kindOOM     kind = 7
	kindFault   kind = 8
	kindBye     kind = 9
	kindShape   kind = 10
	kindShrink  kind = 11
	kindDecided kind = 12
	kindWelcome kind = 13
	kindRevoke  kind = 14
	kindRevoked kind = 15
	kindResume  kind = 16
	kindMore    kind = 17
	kindSpace   kind = 18
	kindMoved   kind = 19
	kindRecall  kind = 20
	kindKept    kind = 21
)

const (
	headerSize = 8
	tokenSize  = 16
	textSize   = 120
	whereSize  = 120
	whySize    = 80
	maxFrame   = 160
	maxFiles   = 64 // CASE_WIRE_FILES

	knownFlags = FlagManaged | FlagDevice | FlagDecided // CASE_WIRE_FLAGS

	canEvict   uint32 = 1 // CASE_CAN_EVICT
	canPrepare uint32 = 2 // CASE_CAN_PREPARE
)

var frames = [...]struct {
	name string // as in wire.h
	size int
}{
	kindHello:   {"HELLO", headerSize + 4 + 4 + tokenSize + 2*4},
	kindBegin:   {"TASK_BEGIN", headerSize + 5*8 + 6*4},
	kindGrant:   {"GRANT", headerSize + 8 + 16 + 4 + 4},
	kindRefuse:  {"REFUSE", headerSize + 3*8 + 4 + 4 + textSize},
	kindGrow:    {"TASK_GROW", headerSize + 2*8 + 2*4},
	kindFree:    {"TASK_FREE", headerSize + 8},
	kindOOM:     {"OOM", headerSize + 8 + whereSize},
	kindFault:   {"FAULT", headerSize + 8 + 4 + 4 + whereSize},
	kindBye:     {"BYE", headerSize},
	kindShape:   {"TASK_SHAPE", headerSize + 2*8 + 2*4},
	kindShrink:  {"TASK_SHRINK", headerSize + 2*8},
	kindDecided: {"TASK_DECIDED", headerSize + 3*8 + 2*4},
	kindWelcome: {"WELCOME", headerSize + 8 + 2*4},
	kindRevoke:  {"REVOKE", headerSize + 3*8 + 2*4},
	kindRevoked: {"REVOKED", headerSize + 8*8 + 2*4 + whySize},
	kindResume:  {"TASK_RESUME", headerSize + 3*8},
	kindMore:    {"SWAP_MORE", headerSize + 8},
	kindSpace:   {"SWAP_SPACE", headerSize + 2*8 + 2*4},
	kindMoved:   {"TASK_MOVED", headerSize + 4*8 + 2*4},
	kindRecall:  {"SWAP_RECALL", headerSize},
	kindKept:    {"SWAP_KEPT", headerSize + 8},
}

func (k kind) String() string {
	if k.known() {
		return frames[k].name
	}
	return fmt.Sprintf("frame type %d", uint16(k))
}

func (k kind) known() bool { return k >= kindHello && int(k) < len(frames) }

// Flags of a Request, as in native/probe/case.h and wire.h.
const (
	FlagManaged uint32 = 1 // some of the bytes are unified memory
	FlagDevice  uint32 = 2 // no other device than Request.Device will do
	FlagDecided uint32 = 4 // the process decides by itself: Handler.Decided tells the outcome
)

// Wait is how long a request may wait, in milliseconds.
type Wait uint32

const (
	WaitDefault Wait = 0              // as long as the scheduler allows
	WaitNone    Wait = math.MaxUint32 // refused at once where it cannot be granted now
)

// Longest is the wait that the request itself allows; nil: the request sets no limit.
func (w Wait) Longest() *time.Duration {
	switch w {
	case WaitDefault:
		return nil
	case WaitNone:
		return new(time.Duration(0))
	}
	return new(time.Duration(w) * time.Millisecond)
}

// Reason tells a client why its request was refused. The values are those of
// enum case_wire_reason.
type Reason uint32

const (
	Granted          Reason = 0 // of an Outcome: it was not refused
	ReasonTooLarge   Reason = 1 // fits no device that it may use, even empty
	ReasonDeviceFull Reason = 2 // no room beside what nobody will give back
	ReasonTimeout    Reason = 3 // waited as long as it, or the scheduler, allows
	ReasonStopping   Reason = 4 // the run is ending
	ReasonTooMany    Reason = 6 // its job has too many requests or tasks open

	reasonProtocol Reason = 5 // with task 0: the server hangs up after this
)

func (r Reason) String() string {
	switch r {
	case ReasonTooLarge:
		return "too large for any device"
	case ReasonDeviceFull:
		return "device full"
	case ReasonTimeout:
		return "waited too long"
	case ReasonStopping:
		return "run is ending"
	case ReasonTooMany:
		return "too many requests or tasks"
	case reasonProtocol:
		return "protocol error"
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

var le = binary.LittleEndian

// check returns the kind of a frame whose header and size are right. decode takes only frames
// that check has passed.
func check(b []byte) (kind, error) {
	if len(b) < headerSize {
		return 0, fmt.Errorf("truncated frame of %d bytes", len(b))
	}
	k, v, size := kind(le.Uint16(b[0:])), le.Uint16(b[2:]), le.Uint32(b[4:])
	switch {
	case v != version:
		return 0, fmt.Errorf("%v of protocol version %d; this scheduler speaks %d", k, v, version)
	case !k.known():
		return 0, fmt.Errorf("unknown %v", k)
	case len(b) != frames[k].size || int64(size) != int64(len(b)):
		return 0, fmt.Errorf("%v of %d bytes that claims %d; it has %d", k, len(b), size, frames[k].size)
	}
	return k, nil
}

// wireFrame is a frame. fields lists the fields behind the header in the order of wire.h, for
// writing and for reading.
type wireFrame interface {
	kind() kind
	fields(c *cursor)
}

type helloFrame struct {
	pid      uint32
	instance uint32
	token    [tokenSize]byte
	can      uint32 // capabilities
}

func (*helloFrame) kind() kind { return kindHello }

func (f *helloFrame) fields(c *cursor) {
	c.u32(&f.pid)
	c.u32(&f.instance)
	c.raw(f.token[:])
	c.u32(&f.can)
	c.unused(4)
}

func (f *helloFrame) valid() error {
	if f.can&^(canEvict|canPrepare) != 0 || f.can == canPrepare {
		return fmt.Errorf("unknown capabilities %#x", f.can)
	}
	return nil
}

type welcomeFrame struct {
	chunk           uint64
	windowUS, files uint32
}

func (*welcomeFrame) kind() kind { return kindWelcome }

func (f *welcomeFrame) fields(c *cursor) {
	c.size(&f.chunk)
	c.u32(&f.windowUS)
	c.u32(&f.files)
}

type beginFrame struct {
	task uint64
	Request
}

func (*beginFrame) kind() kind { return kindBegin }

func (f *beginFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.size(&f.Bytes)
	c.size(&f.Blocks)
	c.size(&f.HeapBytes)
	c.u32(&f.ThreadsPerBlock)
	c.u32(&f.Flags)
	c.u32(&f.BlocksPerSM)
	c.i32(&f.Device)
	c.u32((*uint32)(&f.Wait))
	c.unused(4)
	c.size(&f.HostBytes)
}

func (f *beginFrame) valid() error {
	switch {
	case f.HostBytes > f.Bytes:
		return fmt.Errorf("%d of %d bytes on the host", f.HostBytes, f.Bytes)
	case f.task == 0:
		return errTaskZero
	case f.HeapBytes > math.MaxInt64-f.Bytes:
		return errRange
	case f.Flags&^knownFlags != 0:
		return fmt.Errorf("unknown flags %#x", f.Flags)
	case f.Flags&FlagDevice == 0 && f.Device != 0:
		return errUnusedBytes
	case f.Device < 0:
		return fmt.Errorf("device %d", f.Device)
	}
	return nil
}

type grantFrame struct {
	task    uint64
	uuid    [16]byte
	ordinal int32
}

func (*grantFrame) kind() kind { return kindGrant }

func (f *grantFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.raw(f.uuid[:])
	c.i32(&f.ordinal)
	c.unused(4)
}

type refuseFrame struct {
	task, need, capacity uint64
	reason               Reason
	text                 [textSize]byte
}

func (*refuseFrame) kind() kind { return kindRefuse }

func (f *refuseFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.u64(&f.need)
	c.u64(&f.capacity)
	c.u32((*uint32)(&f.reason))
	c.unused(4)
	c.text(f.text[:])
}

type shapeFrame struct {
	task uint64
	Shape
}

func (*shapeFrame) kind() kind { return kindShape }

func (f *shapeFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.size(&f.Blocks)
	c.u32(&f.ThreadsPerBlock)
	c.u32(&f.BlocksPerSM)
}

type growFrame struct {
	task, bytes uint64
	wait        Wait
}

func (*growFrame) kind() kind { return kindGrow }

func (f *growFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.size(&f.bytes)
	c.u32((*uint32)(&f.wait))
	c.unused(4)
}

type shrinkFrame struct{ task, bytes uint64 }

func (*shrinkFrame) kind() kind { return kindShrink }

func (f *shrinkFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.size(&f.bytes)
}

type decidedFrame struct {
	task uint64
	Outcome
}

func (*decidedFrame) kind() kind { return kindDecided }

func (f *decidedFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.size(&f.Need)
	c.size(&f.Capacity)
	c.u32((*uint32)(&f.Reason))
	c.i32(&f.Ordinal)
}

func (f *decidedFrame) valid() error {
	switch {
	case f.Reason > ReasonTimeout:
		return fmt.Errorf("%v", f.Reason)
	case f.Ordinal < 0:
		return fmt.Errorf("device %d", f.Ordinal)
	case f.Reason == Granted && (f.Need != 0 || f.Capacity != 0), f.Reason != Granted && f.Ordinal != 0:
		return errUnusedBytes
	}
	return nil
}

type freeFrame struct{ task uint64 }

func (*freeFrame) kind() kind { return kindFree }

func (f *freeFrame) fields(c *cursor) { c.u64(&f.task) }

type revokeFrame struct {
	task, ticket, bytes uint64
	action              Action
	deadlineMS          uint32
}

func (*revokeFrame) kind() kind { return kindRevoke }

func (f *revokeFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.u64(&f.ticket)
	c.size(&f.bytes)
	c.u32((*uint32)(&f.action))
	c.u32(&f.deadlineMS)
}

type revokedFrame struct {
	task uint64
	Revoked
	why [whySize]byte
}

func (*revokedFrame) kind() kind { return kindRevoked }

func (f *revokedFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.u64(&f.Ticket)
	c.size(&f.Freed)
	c.size(&f.Resident)
	c.size(&f.Fixed)
	c.duration(&f.Drain)
	c.duration(&f.Copy)
	c.duration(&f.Bookkeeping)
	c.u32((*uint32)(&f.Ended))
	c.unused(4)
	c.text(f.why[:])
}

func (f *revokedFrame) valid() error {
	switch {
	case f.Ended < Done || f.Ended > Unable:
		return fmt.Errorf("%v", f.Ended)
	case f.Ended != Done && f.Freed != 0:
		return fmt.Errorf("%v with %d bytes freed", f.Ended, f.Freed)
	case f.Ended != Unable && f.why[0] != 0:
		return fmt.Errorf("%v with a reason", f.Ended)
	case f.Fixed > f.Resident:
		return fmt.Errorf("%d of %d bytes cannot be moved", f.Fixed, f.Resident)
	}
	return nil
}

type resumeFrame struct {
	task uint64
	Resume
}

func (*resumeFrame) kind() kind { return kindResume }

func (f *resumeFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.size(&f.Bytes)
	c.size(&f.Referenced)
}

type movedFrame struct {
	task uint64
	Moved
}

func (*movedFrame) kind() kind { return kindMoved }

func (f *movedFrame) fields(c *cursor) {
	c.u64(&f.task)
	c.size(&f.Bytes)
	c.duration(&f.Copy)
	c.duration(&f.Bookkeeping)
	c.u32((*uint32)(&f.Way))
	c.unused(4)
}

func (f *movedFrame) valid() error {
	if f.Way != In && f.Way != Out {
		return fmt.Errorf("direction %d", f.Way)
	}
	return nil
}

type moreFrame struct{ bytes uint64 }

func (*moreFrame) kind() kind { return kindMore }

func (f *moreFrame) fields(c *cursor) { c.size(&f.bytes) }

func (f *moreFrame) valid() error {
	if f.bytes == 0 {
		return errors.New("0 bytes more")
	}
	return nil
}

type spaceFrame struct {
	bytes, offset uint64
	files         uint32
	offered       uint32 // 1: unasked
}

func (*spaceFrame) kind() kind { return kindSpace }

func (f *spaceFrame) fields(c *cursor) {
	c.size(&f.bytes)
	c.size(&f.offset)
	c.u32(&f.files)
	c.u32(&f.offered)
}

type recallFrame struct{}

func (*recallFrame) kind() kind { return kindRecall }

func (*recallFrame) fields(*cursor) {}

type keptFrame struct{ bytes uint64 }

func (*keptFrame) kind() kind { return kindKept }

func (f *keptFrame) fields(c *cursor) { c.size(&f.bytes) }

type oomFrame struct {
	bytes uint64
	where [whereSize]byte
}

func (*oomFrame) kind() kind { return kindOOM }

func (f *oomFrame) fields(c *cursor) {
	c.u64(&f.bytes)
	c.text(f.where[:])
}

type faultFrame struct {
	monotonicNS uint64
	code        int32
	where       [whereSize]byte
}

func (*faultFrame) kind() kind { return kindFault }

func (f *faultFrame) fields(c *cursor) {
	c.size(&f.monotonicNS)
	c.i32(&f.code)
	c.unused(4)
	c.text(f.where[:])
}

type byeFrame struct{}

func (*byeFrame) kind() kind { return kindBye }

func (*byeFrame) fields(*cursor) {}

// clientFrames are the frames that a client sends, by kind, to be reused: making one for each
// packet would take memory from the heap.
func clientFrames() [len(frames)]wireFrame {
	return [len(frames)]wireFrame{kindHello: &helloFrame{}, kindBegin: &beginFrame{}, kindGrow: &growFrame{}, kindFree: &freeFrame{},
		kindOOM: &oomFrame{}, kindFault: &faultFrame{}, kindBye: &byeFrame{}, kindShape: &shapeFrame{},
		kindShrink: &shrinkFrame{}, kindDecided: &decidedFrame{},
		kindRevoked: &revokedFrame{}, kindResume: &resumeFrame{}, kindMore: &moreFrame{}, kindMoved: &movedFrame{}, kindKept: &keptFrame{}}
}

// encode writes the frame to b, which must be zero and hold maxFrame bytes, and returns b
// cut to the frame's size.
func (c *cursor) encode(f wireFrame, b []byte) []byte {
	k := f.kind()
	b = b[:frames[k].size]
	le.PutUint16(b[0:], uint16(k))
	le.PutUint16(b[2:], version)
	le.PutUint32(b[4:], uint32(len(b)))
	*c = cursor{rest: b[headerSize:], writes: true}
	f.fields(c)
	return b
}

// decode reads the frame from b, whose header check has passed.
func (c *cursor) decode(f wireFrame, b []byte) error {
	*c = cursor{rest: b[headerSize:]}
	f.fields(c)
	if v, ok := f.(interface{ valid() error }); ok && c.err == nil {
		return v.valid()
	}
	return c.err
}

// cursor writes or reads the fields of a frame, one after another. It checks each field that it
// reads; a frame's valid method checks what depends on several fields.
type cursor struct {
	rest   []byte
	writes bool
	err    error // the first one
}

func (c *cursor) next(n int) []byte {
	field := c.rest[:n]
	c.rest = c.rest[n:]
	return field
}

func (c *cursor) require(ok bool, err error) {
	if !ok && c.err == nil {
		c.err = err
	}
}

func (c *cursor) u32(v *uint32) {
	if b := c.next(4); c.writes {
		le.PutUint32(b, *v)
	} else {
		*v = le.Uint32(b)
	}
}

func (c *cursor) i32(v *int32) {
	u := uint32(*v)
	c.u32(&u)
	*v = int32(u)
}

func (c *cursor) u64(v *uint64) {
	if b := c.next(8); c.writes {
		le.PutUint64(b, *v)
	} else {
		*v = le.Uint64(b)
	}
}

// size is a number below 2^63.
func (c *cursor) size(v *uint64) {
	c.u64(v)
	c.require(*v <= math.MaxInt64, errRange)
}

// duration is a number of nanoseconds below 2^63.
func (c *cursor) duration(v *time.Duration) {
	ns := uint64(*v)
	c.size(&ns)
	*v = time.Duration(ns)
}

func (c *cursor) raw(v []byte) {
	if b := c.next(len(v)); c.writes {
		copy(b, v)
	} else {
		copy(v, b)
	}
}

// text is a text field: at least one NUL, and only NUL after the first.
func (c *cursor) text(v []byte) {
	c.raw(v)
	end := bytes.IndexByte(v, 0)
	c.require(end >= 0 && zero(v[end:]), errText)
}

func (c *cursor) unused(n int) { c.require(zero(c.next(n)), errUnusedBytes) }

func zero(b []byte) bool {
	return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 })
}

var (
	errUnusedBytes = errors.New("unused bytes are not zero")
	errText        = errors.New("text is not filled up with NUL")
	errTaskZero    = errors.New("task id 0")
	errRange       = errors.New("a number is 2^63 or more")
)

// text returns a text field as printable UTF-8. It comes from a job and goes to
// terminals and tables, so control characters become question marks.
func text(field []byte) string {
	s, _, _ := strings.Cut(string(field), "\x00")
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// fill copies s into a text field, cut so that the last byte stays NUL.
func fill(field []byte, s string) {
	copy(field[:len(field)-1], strings.ReplaceAll(s, "\x00", "?"))
}
