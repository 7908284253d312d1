// Package wire is the codec between the frames of native/probe/wire.h, which is the specification, and
// the types of package schedulers. One packet is one frame. Tests compare sizes with that header's
// assertions and bytes with native/probe/testdata.
package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Version is CASE_WIRE_VERSION.
const Version = 6

// Kind is what a frame is (enum case_wire_type).
type Kind uint16

const (
	KindHello Kind = iota + 1
	KindBegin
	KindGrant
	KindRefuse
	KindGrow
	KindFree
	KindOOM
	KindFault
	KindBye
	KindShape
	KindShrink
	KindDecided
	KindWelcome
	KindRevoke
	KindRevoked
	KindResume
	KindMore
	KindSpace
	KindMoved
	KindRecall
	KindKept
	KindYielded
	KindRoom
	KindRoomIs
	KindManaged
	Kinds // how many there are, and 0
)

// Sizes in bytes, and how many files a frame has at most.
const (
	MaxFrame  = 168
	TokenSize = 16
	MaxFiles  = 64 // CASE_WIRE_FILES

	headerSize = 8
	textSize   = 120
	whereSize  = 120
	whySize    = 80
)

var frames = [Kinds]struct {
	name  string // as in wire.h
	blank Frame
}{
	KindHello:   {"HELLO", &Hello{}},
	KindBegin:   {"TASK_BEGIN", &Begin{}},
	KindGrant:   {"GRANT", &Grant{}},
	KindRefuse:  {"REFUSE", &Refuse{}},
	KindGrow:    {"TASK_GROW", &Grow{}},
	KindFree:    {"TASK_FREE", &Free{}},
	KindOOM:     {"OOM", &OOM{}},
	KindFault:   {"FAULT", &Fault{}},
	KindBye:     {"BYE", &Bye{}},
	KindShape:   {"TASK_SHAPE", &Shape{}},
	KindShrink:  {"TASK_SHRINK", &Shrink{}},
	KindDecided: {"TASK_DECIDED", &Decided{}},
	KindWelcome: {"WELCOME", &Welcome{}},
	KindRevoke:  {"REVOKE", &Revoke{}},
	KindRevoked: {"REVOKED", &Revoked{}},
	KindResume:  {"TASK_RESUME", &Resume{}},
	KindMore:    {"SWAP_MORE", &More{}},
	KindSpace:   {"SWAP_SPACE", &Space{}},
	KindMoved:   {"TASK_MOVED", &Moved{}},
	KindRecall:  {"SWAP_RECALL", &Recall{}},
	KindKept:    {"SWAP_KEPT", &Kept{}},
	KindYielded: {"TASK_YIELDED", &Yielded{}},
	KindRoom:    {"ROOM", &Room{}},
	KindRoomIs:  {"ROOM_IS", &RoomIs{}},
	KindManaged: {"MANAGED", &Managed{}},
}

// sizes are those of frames, with their headers.
var sizes = func() (sizes [Kinds]int) {
	for k, f := range frames {
		if f.blank != nil {
			c := Codec{rest: make([]byte, MaxFrame-headerSize)}
			f.blank.fields(&c)
			sizes[k] = MaxFrame - len(c.rest)
		}
	}
	return sizes
}()

func (k Kind) String() string {
	if k.known() {
		return frames[k].name
	}
	return fmt.Sprintf("frame type %d", uint16(k))
}

func (k Kind) known() bool { return k >= KindHello && k < Kinds }

// What a process can do when it is told to (Hello).
const (
	CanEvict   uint32 = 1 // CASE_CAN_EVICT
	CanPrepare uint32 = 2 // CASE_CAN_PREPARE
	CanAdvise  uint32 = 4
	CanMove    uint32 = 8
	CanStop    uint32 = 16
)

// Actions is what a process that can do this can be asked for.
func Actions(can uint32) (a schedulers.Actions) {
	for of, does := range map[uint32]schedulers.Actions{CanEvict: schedulers.Movable, CanAdvise: 1 << schedulers.Advise,
		CanMove: 1 << schedulers.Move, CanStop: 1 << schedulers.Stop} {
		if can&of != 0 {
			a |= does
		}
	}
	return a
}

// Causes of a Refuse that are the server's own. The others of enum case_wire_cause are the scheduler's.
const (
	Protocol schedulers.Cause = 5 // with task 0: the server hangs up after this
	TooMany  schedulers.Cause = 6 // its job has too many requests or tasks open
)

// The numbers of wire.h for what package schedulers has by name.
var (
	outcomes   = []schedulers.Outcome{1: schedulers.Done, schedulers.Busy, schedulers.Unable}
	directions = []schedulers.Direction{1: schedulers.In, schedulers.Out}
)

// Flags of TASK_BEGIN, as in native/probe/case.h and wire.h.
const (
	flagManaged uint32 = 1
	flagDevice  uint32 = 2
	flagDecided uint32 = 4
	flagEarly   uint32 = 8
)

// Waits of TASK_BEGIN and TASK_GROW that are not milliseconds.
const (
	waitDefault uint32 = 0
	waitNone    uint32 = math.MaxUint32
)

// Check returns the kind of a frame whose header and size are right. Codec.Decode takes only frames
// that Check has passed.
func Check(b []byte) (Kind, error) {
	if len(b) < headerSize {
		return 0, fmt.Errorf("truncated frame of %d bytes", len(b))
	}
	k, v, size := Kind(le.Uint16(b[0:])), le.Uint16(b[2:]), le.Uint32(b[4:])
	switch {
	case v != Version:
		return 0, fmt.Errorf("%v of protocol version %d; this scheduler speaks %d", k, v, Version)
	case !k.known():
		return 0, fmt.Errorf("unknown %v", k)
	case len(b) != sizes[k] || int64(size) != int64(len(b)):
		return 0, fmt.Errorf("%v of %d bytes that claims %d; it has %d", k, len(b), size, sizes[k])
	}
	return k, nil
}

// Number is what the process calls the task of a frame that has one.
func Number(b []byte) uint64 { return le.Uint64(b[headerSize:]) }

// Frame is a frame. fields lists the fields behind the header in the order of wire.h, for
// writing and for reading.
type Frame interface {
	Kind() Kind
	fields(c *Codec)
}

// Frames of a client. Number is what the process calls a task.
type (
	// Hello is a connection's first frame.
	Hello struct {
		PID      uint32
		Instance uint32 // of the library in the process; 0: it never connects again
		Token    [TokenSize]byte
		Can      uint32
	}
	// Begin asks for a device. Of Task it has what the process knows: Bytes, which include the heap, Need, Blocks,
	// ThreadsPerBlock, BlocksPerSM, Managed, OnDevice and Wait.
	Begin struct {
		Number    uint64
		Task      schedulers.Task
		HeapBytes int64 // of Task.Bytes
		Decides   bool  // the process decides by itself: Decided tells the outcome
		Early     bool  // before the first launch, because the process must know its device
	}
	Grow struct {
		Number uint64
		Bytes  int64
		Wait   *time.Duration // as in schedulers.Task
	}
	Shrink struct {
		Number uint64
		Bytes  int64
	}
	Free  struct{ Number uint64 }
	Shape struct {
		Number          uint64
		Blocks          uint64 // below 2^63
		ThreadsPerBlock uint32
		BlocksPerSM     uint32
	}
	// Decided is how a request ended of which its process decided. Of a refusal it has no Why.
	Decided struct {
		Number  uint64
		Device  int
		Refusal *schedulers.Refusal // nil: granted
	}
	Revoked struct {
		Number uint64
		Answer schedulers.Revoked
	}
	// Resume asks that a task may submit work again.
	Resume struct {
		Number     uint64
		Need       int64 // bytes of the task that must come onto the device
		Referenced int64 // that the work which waits is known to touch
		Stays      int64 // of Need: bytes that may stay on the host
	}
	// Yielded gives up the permission of a task to submit work.
	Yielded struct{ Number uint64 }
	// Moved says that memory of a task has moved, other than for a revocation. It has no Drain.
	Moved struct {
		Number    uint64
		Direction schedulers.Direction
		Moved     schedulers.Moved
	}
	// More asks for host memory.
	More struct{ Bytes int64 }
	// Kept answers Recall: of all that was offered the first Bytes stay the process's.
	Kept struct{ Bytes int64 }
	// Room asks how much more memory of a device the process's tasks could have now.
	Room struct{ Device int32 }
	// Managed says how much managed memory the process is about to have, or has left, on a device. RoomIs answers it.
	Managed struct {
		Bytes, Beside, Free int64
		Device              int32
	}
	OOM struct {
		Bytes uint64
		Where string
	}
	Fault struct {
		MonotonicNS int64
		Code        int32
		Where       string
	}
	Bye struct{}
)

// Frames of the server.
type (
	Welcome struct {
		Chunk    int64
		WindowUS uint32
		Files    uint32
		Bursts   uint32 // 1: Yielded ends each burst
	}
	Grant struct {
		Number uint64
		UUID   [16]byte
		Device int32 // as cudaSetDevice takes it, in PCI bus order
		Host   int64 // bytes of what is asked for that stay on the host
	}
	Refuse struct {
		Number  uint64
		Refusal schedulers.Refusal
	}
	Revoke struct {
		Number     uint64
		Ticket     schedulers.Ticket
		Revocation schedulers.Revocation // its Action, Bytes and Deadline
		UUID       [16]byte              // of the device of a Move
		Device     int32                 // of the same, as in Grant
	}
	// Space is host memory. Its bytes are in the files that come with it.
	Space struct {
		Bytes, Offset int64
		Files         uint32
		Offered       uint32 // 1: unasked
	}
	// Recall asks for what was offered and is not used.
	Recall struct{}
	// RoomIs answers Room and Managed.
	RoomIs struct{ Bytes int64 }
)

func (*Hello) Kind() Kind   { return KindHello }
func (*Begin) Kind() Kind   { return KindBegin }
func (*Grant) Kind() Kind   { return KindGrant }
func (*Refuse) Kind() Kind  { return KindRefuse }
func (*Grow) Kind() Kind    { return KindGrow }
func (*Free) Kind() Kind    { return KindFree }
func (*OOM) Kind() Kind     { return KindOOM }
func (*Fault) Kind() Kind   { return KindFault }
func (*Bye) Kind() Kind     { return KindBye }
func (*Shape) Kind() Kind   { return KindShape }
func (*Shrink) Kind() Kind  { return KindShrink }
func (*Decided) Kind() Kind { return KindDecided }
func (*Welcome) Kind() Kind { return KindWelcome }
func (*Revoke) Kind() Kind  { return KindRevoke }
func (*Revoked) Kind() Kind { return KindRevoked }
func (*Resume) Kind() Kind  { return KindResume }
func (*More) Kind() Kind    { return KindMore }
func (*Space) Kind() Kind   { return KindSpace }
func (*Moved) Kind() Kind   { return KindMoved }
func (*Recall) Kind() Kind  { return KindRecall }
func (*Kept) Kind() Kind    { return KindKept }
func (*Yielded) Kind() Kind { return KindYielded }
func (*Room) Kind() Kind    { return KindRoom }
func (*RoomIs) Kind() Kind  { return KindRoomIs }
func (*Managed) Kind() Kind { return KindManaged }

func (f *Hello) fields(c *Codec) {
	c.u32(&f.PID)
	c.u32(&f.Instance)
	c.raw(f.Token[:])
	c.u32(&f.Can)
	c.unused(4)
	if f.Can&^(CanEvict|CanPrepare|CanAdvise|CanMove|CanStop) != 0 || f.Can != 0 && f.Can&CanEvict == 0 {
		c.fail("unknown capabilities %#x", f.Can)
	}
}

func (f *Welcome) fields(c *Codec) {
	c.size(&f.Chunk)
	c.u32(&f.WindowUS)
	c.u32(&f.Files)
	c.u32(&f.Bursts)
	c.unused(4)
}

func (f *Begin) fields(c *Codec) {
	t := &f.Task
	bytes, host, flags, device := t.Bytes-f.HeapBytes, t.Bytes-t.Needs(), uint32(0), int32(0)
	if t.Managed {
		flags |= flagManaged
	}
	if t.OnDevice != nil {
		flags, device = flags|flagDevice, int32(*t.OnDevice)
	}
	if f.Decides {
		flags |= flagDecided
	}
	if f.Early {
		flags |= flagEarly
	}
	c.task(&f.Number)
	c.size(&bytes)
	c.count(&t.Blocks)
	c.size(&f.HeapBytes)
	c.u32(&t.ThreadsPerBlock)
	c.u32(&flags)
	c.u32(&t.BlocksPerSM)
	c.i32(&device)
	c.wait(&t.Wait)
	c.unused(4)
	c.size(&host)
	c.size(&t.Stays)
	switch {
	case c.writes:
		return
	case host <= bytes && t.Stays > bytes-host:
		c.fail("%d of %d bytes may stay on the host", t.Stays, bytes-host)
	case host > bytes:
		c.fail("%d of %d bytes on the host", host, bytes)
	case f.HeapBytes > math.MaxInt64-bytes:
		c.require(false, errRange)
	case flags&^(flagManaged|flagDevice|flagDecided|flagEarly) != 0:
		c.fail("unknown flags %#x", flags)
	case flags&flagDevice == 0 && device != 0:
		c.require(false, errUnusedBytes)
	case device < 0:
		c.fail("device %d", device)
	}
	t.Bytes, t.Need, t.OnDevice = bytes+f.HeapBytes, new(bytes+f.HeapBytes-host), nil
	if flags&flagDevice != 0 {
		t.OnDevice = new(int(device))
	}
	t.Managed, f.Decides, f.Early = flags&flagManaged != 0, flags&flagDecided != 0, flags&flagEarly != 0
}

func (f *Grant) fields(c *Codec) {
	c.u64(&f.Number)
	c.raw(f.UUID[:])
	c.i32(&f.Device)
	c.unused(4)
	c.size(&f.Host)
}

func (f *Refuse) fields(c *Codec) {
	c.u64(&f.Number)
	c.size(&f.Refusal.NeedBytes)
	c.size(&f.Refusal.CapacityBytes)
	c.cause(&f.Refusal.Cause)
	c.unused(4)
	c.text(&f.Refusal.Why, textSize)
}

func (f *Shape) fields(c *Codec) {
	c.u64(&f.Number)
	c.count(&f.Blocks)
	c.u32(&f.ThreadsPerBlock)
	c.u32(&f.BlocksPerSM)
}

func (f *Grow) fields(c *Codec) {
	c.u64(&f.Number)
	c.size(&f.Bytes)
	c.wait(&f.Wait)
	c.unused(4)
}

func (f *Shrink) fields(c *Codec) {
	c.u64(&f.Number)
	c.size(&f.Bytes)
}

func (f *Decided) fields(c *Codec) {
	r, device := schedulers.Refusal{}, int32(f.Device)
	if c.writes && f.Refusal != nil {
		r = *f.Refusal
	}
	c.u64(&f.Number)
	c.size(&r.NeedBytes)
	c.size(&r.CapacityBytes)
	c.cause(&r.Cause)
	c.i32(&device)
	granted := r.Cause == 0
	switch {
	case r.Cause > schedulers.TimedOut:
		c.fail("reason %d", r.Cause)
	case device < 0:
		c.fail("device %d", device)
	case granted && r != (schedulers.Refusal{}), !granted && device != 0:
		c.require(c.writes, errUnusedBytes)
	}
	if c.writes {
		return
	}
	f.Device, f.Refusal = int(device), nil
	if !granted {
		f.Refusal = &r
	}
}

func (f *Free) fields(c *Codec) { c.u64(&f.Number) }

func (f *Revoke) fields(c *Codec) {
	r := &f.Revocation
	action, deadline := uint32(r.Action), uint32(r.Deadline/time.Millisecond)
	c.u64(&f.Number)
	c.u64((*uint64)(&f.Ticket))
	c.size(&r.Bytes)
	c.u32(&action)
	c.u32(&deadline)
	r.Action, r.Deadline = schedulers.Action(action), time.Duration(deadline)*time.Millisecond
	c.raw(f.UUID[:])
	c.i32(&f.Device)
	c.unused(4)
}

func (f *Revoked) fields(c *Codec) {
	a := &f.Answer
	c.u64(&f.Number)
	c.u64((*uint64)(&a.Ticket))
	c.size(&a.Moved.Bytes)
	c.size(&a.Resident)
	c.size(&a.Fixed)
	c.duration(&a.Moved.Drain)
	c.duration(&a.Moved.Copy)
	c.duration(&a.Moved.Bookkeeping)
	c.duration(&a.Lost)
	enum(c, &a.Outcome, outcomes, "outcome")
	c.unused(4)
	c.text(&a.Why, whySize)
	switch {
	case a.Outcome != schedulers.Done && a.Moved.Bytes != 0:
		c.fail("%v with %d bytes freed", a.Outcome, a.Moved.Bytes)
	case a.Outcome != schedulers.Unable && a.Why != "":
		c.fail("%v with a reason", a.Outcome)
	case a.Fixed > a.Resident:
		c.fail("%d of %d bytes cannot be moved", a.Fixed, a.Resident)
	}
}

func (f *Resume) fields(c *Codec) {
	c.u64(&f.Number)
	c.size(&f.Need)
	c.size(&f.Referenced)
	c.size(&f.Stays)
	c.require(f.Stays <= f.Need, errRange)
}

func (f *Yielded) fields(c *Codec) { c.u64(&f.Number) }

func (f *Moved) fields(c *Codec) {
	c.u64(&f.Number)
	c.size(&f.Moved.Bytes)
	c.duration(&f.Moved.Copy)
	c.duration(&f.Moved.Bookkeeping)
	enum(c, &f.Direction, directions, "direction")
	c.unused(4)
}

func (f *More) fields(c *Codec) {
	if c.size(&f.Bytes); f.Bytes == 0 {
		c.fail("0 bytes more")
	}
}

func (f *Space) fields(c *Codec) {
	c.size(&f.Bytes)
	c.size(&f.Offset)
	c.u32(&f.Files)
	c.u32(&f.Offered)
}

func (*Recall) fields(*Codec) {}

func (f *Kept) fields(c *Codec) { c.size(&f.Bytes) }

func (f *Room) fields(c *Codec) {
	c.i32(&f.Device)
	c.unused(4)
}

func (f *RoomIs) fields(c *Codec) { c.size(&f.Bytes) }

func (f *Managed) fields(c *Codec) {
	c.size(&f.Bytes)
	c.size(&f.Beside)
	c.size(&f.Free)
	c.i32(&f.Device)
	c.unused(4)
}

func (f *OOM) fields(c *Codec) {
	c.u64(&f.Bytes)
	c.text(&f.Where, whereSize)
}

func (f *Fault) fields(c *Codec) {
	c.size(&f.MonotonicNS)
	c.i32(&f.Code)
	c.unused(4)
	c.text(&f.Where, whereSize)
}

func (*Bye) fields(*Codec) {}

var (
	errUnusedBytes = errors.New("unused bytes are not zero")
	errText        = errors.New("text is not filled up with NUL")
	errTaskZero    = errors.New("task id 0")
	errRange       = errors.New("a number is 2^63 or more")
)
