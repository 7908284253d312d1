package probe

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The frames of native/probe/wire.h, which is the specification: one packet is
// one frame, one size for each kind, little-endian, unused bytes zero. wire_test
// compares sizes with that header's assertions and bytes with
// native/probe/testdata.

const version = 3 // CASE_WIRE_VERSION

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
)

const (
	headerSize = 8
	tokenSize  = 16
	textSize   = 120
	whereSize  = 120
	maxFrame   = 160

	knownFlags = FlagManaged | FlagDevice | FlagDecided // CASE_WIRE_FLAGS
)

var frames = [...]struct {
	name string // as in wire.h
	size int
}{
	kindHello:   {"HELLO", headerSize + 4 + 4 + tokenSize},
	kindBegin:   {"TASK_BEGIN", headerSize + 4*8 + 6*4},
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

// Longest is the wait that the request itself allows; nil: it says nothing of it.
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

type helloFrame struct {
	pid      uint32
	instance uint32
	token    [tokenSize]byte
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

type growFrame struct {
	task, bytes uint64
	wait        Wait
}

type shrinkFrame struct{ task, bytes uint64 }

type decidedFrame struct {
	task uint64
	Outcome
}

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
