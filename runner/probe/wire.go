package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
)

// The frames of native/probe/wire.h, which is the specification: one packet is
// one frame, one size for each kind, little-endian, unused bytes zero. wire_test
// compares sizes with that header's assertions and bytes with
// native/probe/testdata.

const version = 2 // CASE_WIRE_VERSION

type kind uint16

const (
	kindHello  kind = 1
	kindBegin  kind = 2
	kindGrant  kind = 3
	kindRefuse kind = 4
	kindGrow   kind = 5
	kindFree   kind = 6
	kindOOM    kind = 7
	kindFault  kind = 8
	kindBye    kind = 9
	kindShape  kind = 10
)

const (
	headerSize = 8
	tokenSize  = 16
	textSize   = 120
	whereSize  = 120
	maxFrame   = 160

	knownFlags = FlagManaged | FlagDevice // CASE_WIRE_FLAGS
)

var frames = [...]struct {
	name string // as in wire.h
	size int
}{
	kindHello:  {"HELLO", headerSize + 4 + 4 + tokenSize},
	kindBegin:  {"TASK_BEGIN", headerSize + 4*8 + 4*4},
	kindGrant:  {"GRANT", headerSize + 8 + 16 + 4 + 4},
	kindRefuse: {"REFUSE", headerSize + 3*8 + 4 + 4 + textSize},
	kindGrow:   {"TASK_GROW", headerSize + 2*8},
	kindFree:   {"TASK_FREE", headerSize + 8},
	kindOOM:    {"OOM", headerSize + 8 + whereSize},
	kindFault:  {"FAULT", headerSize + 8 + 4 + 4 + whereSize},
	kindBye:    {"BYE", headerSize},
	kindShape:  {"TASK_SHAPE", headerSize + 2*8 + 2*4},
}

func (k kind) String() string {
	if k.known() {
		return frames[k].name
	}
	return fmt.Sprintf("frame type %d", uint16(k))
}

func (k kind) known() bool { return k >= kindHello && int(k) < len(frames) }

// Flags of a Request, as in native/probe/case.h.
const (
	FlagManaged uint32 = 1 // some of the bytes are unified memory
	FlagDevice  uint32 = 2 // no other device than Request.Device will do
)

// Reason tells a client why its request was refused. The values are those of
// enum case_wire_reason.
type Reason uint32

const (
	ReasonTooLarge   Reason = 1 // fits no device that it may use, even empty
	ReasonDeviceFull Reason = 2 // no room beside what nobody will give back
	ReasonTimeout    Reason = 3 // waited as long as the scheduler allows
	ReasonStopping   Reason = 4 // the run is ending

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
	case reasonProtocol:
		return "protocol error"
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

type helloFrame struct {
	pid   uint32
	token [tokenSize]byte
}

type beginFrame struct {
	task uint64
	Request
}

type grantFrame struct {
	task    uint64
	uuid    [16]byte
	ordinal int32
}

type refuseFrame struct {
	task, need, capacity uint64
	reason               Reason
	text                 [textSize]byte
}

type shapeFrame struct {
	task uint64
	Shape
}

type growFrame struct{ task, bytes uint64 }

type freeFrame struct{ task uint64 }

type oomFrame struct {
	bytes uint64
	where [whereSize]byte
}

type faultFrame struct {
	monotonicNS uint64
	code        int32
	where       [whereSize]byte
}

var le = binary.LittleEndian

// put writes the header of a k and returns the frame, b cut to its size. b must
// be zero and hold maxFrame bytes.
func put(b []byte, k kind) []byte {
	b = b[:frames[k].size]
	le.PutUint16(b[0:], uint16(k))
	le.PutUint16(b[2:], version)
	le.PutUint32(b[4:], uint32(len(b)))
	return b
}

// check returns the kind of a frame whose header and size are right; the
// decoders below take nothing else.
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

var (
	errUnusedBytes = errors.New("unused bytes are not zero")
	errText        = errors.New("text is not filled up with NUL")
	errTaskZero    = errors.New("task id 0")
	errRange       = errors.New("a number is 2^63 or more")
)

func (f *helloFrame) encode(b []byte) []byte {
	b = put(b, kindHello)
	le.PutUint32(b[8:], f.pid)
	copy(b[16:], f.token[:])
	return b
}

func (f *helloFrame) decode(b []byte) error {
	f.pid = le.Uint32(b[8:])
	f.token = [tokenSize]byte(b[16:])
	return unused(b[12:16])
}

func (f *beginFrame) encode(b []byte) []byte {
	b = put(b, kindBegin)
	le.PutUint64(b[8:], f.task)
	le.PutUint64(b[16:], f.Bytes)
	le.PutUint64(b[24:], f.Blocks)
	le.PutUint64(b[32:], f.HeapBytes)
	le.PutUint32(b[40:], f.ThreadsPerBlock)
	le.PutUint32(b[44:], f.Flags)
	le.PutUint32(b[48:], f.BlocksPerSM)
	le.PutUint32(b[52:], uint32(f.Device))
	return b
}

func (f *beginFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.Bytes = le.Uint64(b[16:])
	f.Blocks = le.Uint64(b[24:])
	f.HeapBytes = le.Uint64(b[32:])
	f.ThreadsPerBlock = le.Uint32(b[40:])
	f.Flags = le.Uint32(b[44:])
	f.BlocksPerSM = le.Uint32(b[48:])
	f.Device = int32(le.Uint32(b[52:]))
	switch {
	case f.task == 0:
		return errTaskZero
	case f.Bytes > math.MaxInt64 || f.HeapBytes > math.MaxInt64-f.Bytes || f.Blocks > math.MaxInt64:
		return errRange
	case f.Flags&^knownFlags != 0:
		return fmt.Errorf("unknown flags %#x", f.Flags)
	case f.Flags&FlagDevice == 0:
		return unused(b[52:56])
	case f.Device < 0:
		return fmt.Errorf("device %d", f.Device)
	}
	return nil
}

func (f *shapeFrame) encode(b []byte) []byte {
	b = put(b, kindShape)
	le.PutUint64(b[8:], f.task)
	le.PutUint64(b[16:], f.Blocks)
	le.PutUint32(b[24:], f.ThreadsPerBlock)
	le.PutUint32(b[28:], f.BlocksPerSM)
	return b
}

func (f *shapeFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.Blocks = le.Uint64(b[16:])
	f.ThreadsPerBlock = le.Uint32(b[24:])
	f.BlocksPerSM = le.Uint32(b[28:])
	if f.Blocks > math.MaxInt64 {
		return errRange
	}
	return nil
}

func (f *grantFrame) encode(b []byte) []byte {
	b = put(b, kindGrant)
	le.PutUint64(b[8:], f.task)
	copy(b[16:], f.uuid[:])
	le.PutUint32(b[32:], uint32(f.ordinal))
	return b
}

func (f *grantFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.uuid = [16]byte(b[16:])
	f.ordinal = int32(le.Uint32(b[32:]))
	return unused(b[36:])
}

func (f *refuseFrame) encode(b []byte) []byte {
	b = put(b, kindRefuse)
	le.PutUint64(b[8:], f.task)
	le.PutUint64(b[16:], f.need)
	le.PutUint64(b[24:], f.capacity)
	le.PutUint32(b[32:], uint32(f.reason))
	copy(b[40:], f.text[:])
	return b
}

func (f *refuseFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.need = le.Uint64(b[16:])
	f.capacity = le.Uint64(b[24:])
	f.reason = Reason(le.Uint32(b[32:]))
	f.text = [textSize]byte(b[40:])
	return errors.Join(unused(b[36:40]), padded(f.text[:]))
}

func (f *growFrame) encode(b []byte) []byte {
	b = put(b, kindGrow)
	le.PutUint64(b[8:], f.task)
	le.PutUint64(b[16:], f.bytes)
	return b
}

func (f *growFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.bytes = le.Uint64(b[16:])
	if f.bytes > math.MaxInt64 {
		return errRange
	}
	return nil
}

func (f *freeFrame) encode(b []byte) []byte {
	b = put(b, kindFree)
	le.PutUint64(b[8:], f.task)
	return b
}

func (f *freeFrame) decode(b []byte) { f.task = le.Uint64(b[8:]) }

func (f *oomFrame) encode(b []byte) []byte {
	b = put(b, kindOOM)
	le.PutUint64(b[8:], f.bytes)
	copy(b[16:], f.where[:])
	return b
}

func (f *oomFrame) decode(b []byte) error {
	f.bytes = le.Uint64(b[8:])
	f.where = [whereSize]byte(b[16:])
	return padded(f.where[:])
}

func (f *faultFrame) encode(b []byte) []byte {
	b = put(b, kindFault)
	le.PutUint64(b[8:], f.monotonicNS)
	le.PutUint32(b[16:], uint32(f.code))
	copy(b[24:], f.where[:])
	return b
}

func (f *faultFrame) decode(b []byte) error {
	f.monotonicNS = le.Uint64(b[8:])
	f.code = int32(le.Uint32(b[16:]))
	f.where = [whereSize]byte(b[24:])
	if f.monotonicNS > math.MaxInt64 {
		return errRange
	}
	return errors.Join(unused(b[20:24]), padded(f.where[:]))
}

func unused(b []byte) error {
	for _, c := range b {
		if c != 0 {
			return errUnusedBytes
		}
	}
	return nil
}

// padded checks a text field: at least one NUL, and only NUL after the first.
func padded(field []byte) error {
	seen := false
	for _, c := range field {
		if c == 0 {
			seen = true
		} else if seen {
			return errText
		}
	}
	if !seen {
		return errText
	}
	return nil
}

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
