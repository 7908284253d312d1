package wire

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
)

const nativeDir = "../../../native/probe"

func encode(f Frame, b []byte) []byte { return new(Codec).Encode(f, b) }

func decode(f Frame, b []byte) error { return new(Codec).Decode(f, b) }

func blank(k Kind) Frame {
	return reflect.New(reflect.TypeOf(frames[k].blank).Elem()).Interface().(Frame)
}

// samples holds the values of native/probe/testdata, which tests/wire_test.c
// has too.
func samples() map[Kind]Frame {
	hello, grant := &Hello{PID: 4242, Instance: 17, Can: CanEvict}, &Grant{Number: 7, Device: 3, Host: 512 << 20}
	move := &Revoke{7, 99, schedulers.Revocation{Bytes: 3 << 30, Action: schedulers.Move, Deadline: 250 * time.Millisecond}, [16]byte{}, 3}
	for i := range 16 {
		hello.Token[i], grant.UUID[i], move.UUID[i] = byte(i), byte(0xa0+i), byte(0xa0+i)
	}
	moves := schedulers.Moved{Bytes: 5 << 30, Copy: 2 * time.Millisecond, Bookkeeping: 3 * time.Millisecond}
	answer := schedulers.Revoked{Ticket: 99, Outcome: schedulers.Unable, Resident: 5 << 30, Fixed: 517 << 20, Moved: moves, Lost: 4 * time.Millisecond, Why: "the swap area is full"}
	answer.Moved.Bytes, answer.Moved.Drain = 0, time.Millisecond
	return map[Kind]Frame{
		KindHello: hello,
		KindBegin: &Begin{Number: 7, HeapBytes: 8 << 20, Task: schedulers.Task{Bytes: 0x312345678 + 8<<20, Need: new(int64(0x312345678 + 8<<20 - 1<<30)), Stays: 2 << 30,
			Blocks: 65535, ThreadsPerBlock: 16, Managed: true, BlocksPerSM: 6, OnDevice: new(2), Wait: new(30 * time.Second)}},
		KindGrant:  grant,
		KindRefuse: &Refuse{7, schedulers.Refusal{NeedBytes: 20 << 30, CapacityBytes: 16 << 30, Cause: schedulers.TooLarge, Why: "fits no device"}},
		KindGrow:   &Grow{7, 1 << 20, new(time.Duration(0))}, KindFree: &Free{7},
		KindOOM: &OOM{1 << 30, "cudaMalloc"}, KindFault: &Fault{123456789012345, 700, "cudaMemcpy"}, KindBye: &Bye{},
		KindShape:   &Shape{Number: 7, Blocks: 2097152, ThreadsPerBlock: 256, BlocksPerSM: 8},
		KindShrink:  &Shrink{7, 3 << 20},
		KindDecided: &Decided{7, 0, &schedulers.Refusal{Cause: schedulers.TimedOut, NeedBytes: 20 << 30, CapacityBytes: 16 << 30}},
		KindWelcome: &Welcome{Chunk: 32 << 20, WindowUS: 50000, Files: 2, Bursts: 1},
		KindRevoke:  move,
		KindRevoked: &Revoked{7, answer},
		KindResume:  &Resume{Number: 7, Need: 5 << 30, Referenced: 1 << 30, Stays: 3 << 30},
		KindMoved:   &Moved{7, schedulers.Out, moves},
		KindMore:    &More{96 << 20},
		KindSpace:   &Space{Bytes: 96 << 20, Files: 3},
		KindRecall:  &Recall{},
		KindKept:    &Kept{96 << 20},
		KindYielded: &Yielded{7},
		KindRoom:    &Room{3},
		KindRoomIs:  &RoomIs{5 << 30},
		KindManaged: &Managed{5 << 30, 1 << 30, 9 << 30, 3},
	}
}

func fixture(tb testing.TB, k Kind) []byte {
	tb.Helper()
	return probetest.Hex(tb, filepath.Join(nativeDir, "testdata", strings.ToLower(k.String())+".hex"))
}

func TestFramesMatchFixtures(t *testing.T) {
	for k, frame := range samples() {
		want := fixture(t, k)
		if got := encode(frame, make([]byte, MaxFrame)); !bytes.Equal(got, want) {
			t.Errorf("%v encodes as\n% x, the fixture is\n% x", k, got, want)
		}
		if got, err := Check(want); err != nil || got != k {
			t.Errorf("Check(%v) = %v, %v", k, got, err)
		}
		got := blank(k)
		if err := decode(got, want); err != nil || !reflect.DeepEqual(got, frame) {
			t.Errorf("%v decodes as %+v (%v), want %+v", k, got, err, frame)
		}
	}
}

// The sizes here and the ones that wire.h asserts are the same.
func TestSizesMatchHeader(t *testing.T) {
	header, err := os.ReadFile(filepath.Join(nativeDir, "wire.h"))
	if err != nil {
		t.Fatal(err)
	}
	asserted := regexp.MustCompile(`static_assert\(sizeof\(struct case_wire_\w+\) == (\d+), "([A-Z_]+)"\)`).FindAllSubmatch(header, -1)
	stated := map[string]int{}
	for _, m := range asserted {
		stated[string(m[2])], _ = strconv.Atoi(string(m[1]))
	}
	for k := KindHello; k.known(); k++ {
		if stated[k.String()] != sizes[k] {
			t.Errorf("%v has %d bytes here and %d in wire.h", k, sizes[k], stated[k.String()])
		}
		if sizes[k] > MaxFrame {
			t.Errorf("%v is larger than MaxFrame", k)
		}
	}
	if len(stated) != len(frames)-1 {
		t.Errorf("wire.h asserts %d frame sizes, want %d", len(stated), len(frames)-1)
	}
}

// Actions have the same numbers and names here as in wire.h.
func TestActionsMatchHeader(t *testing.T) {
	header, err := os.ReadFile(filepath.Join(nativeDir, "wire.h"))
	if err != nil {
		t.Fatal(err)
	}
	actions := regexp.MustCompile(`CASE_REVOKE_([A-Z]+) = (\d)`).FindAllSubmatch(header, -1)
	for _, m := range actions {
		if n, _ := strconv.Atoi(string(m[2])); schedulers.Action(n).String() != strings.ToLower(string(m[1])) {
			t.Errorf("%s is %v here", m[0], schedulers.Action(n))
		}
	}
	if len(actions) != int(schedulers.Stop) {
		t.Errorf("wire.h has %d actions", len(actions))
	}
	for can, want := range map[uint32]schedulers.Actions{0: 0, CanPrepare | CanEvict: schedulers.Movable, CanEvict | CanAdvise: schedulers.Movable | 1<<schedulers.Advise,
		CanEvict | CanMove | CanStop: schedulers.Movable | 1<<schedulers.Move | 1<<schedulers.Stop} {
		if got := Actions(can); got != want {
			t.Errorf("capabilities %#x are actions %b, want %b", can, got, want)
		}
	}
}

func TestTextIsPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"cudaMalloc":         "cudaMalloc",
		"\x1b[31mred\n":      "?[31mred?",
		"h\u00e9\xff":        "h\u00e9?",
		"\xe2\x82":           "?",
		"cut\x00 off behind": "cut",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// edit returns the fixture of k with one change.
func edit(tb testing.TB, k Kind, change func(b []byte)) []byte {
	b := fixture(tb, k)
	change(b)
	return b
}

func TestDecodeRejects(t *testing.T) {
	for name, b := range map[string][]byte{
		"task 0":               edit(t, KindBegin, func(b []byte) { le.PutUint64(b[8:], 0) }),
		"bytes 2^63":           edit(t, KindBegin, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"bytes + heap 2^63":    edit(t, KindBegin, func(b []byte) { le.PutUint64(b[16:], math.MaxInt64-100) }),
		"blocks 2^63":          edit(t, KindBegin, func(b []byte) { le.PutUint64(b[24:], 1<<63) }),
		"unknown flag":         edit(t, KindBegin, func(b []byte) { b[44] = 8 }),
		"begin unused":         edit(t, KindBegin, func(b []byte) { b[63] = 1 }),
		"grow unused":          edit(t, KindGrow, func(b []byte) { b[31] = 1 }),
		"shrink by 2^63":       edit(t, KindShrink, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"need 2^63":            edit(t, KindDecided, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"capacity 2^63":        edit(t, KindDecided, func(b []byte) { le.PutUint64(b[24:], 1<<63) }),
		"outcome 4":            edit(t, KindDecided, func(b []byte) { b[32] = 4 }),
		"refused on a device":  edit(t, KindDecided, func(b []byte) { b[36] = 1 }),
		"granted with a need":  edit(t, KindDecided, func(b []byte) { b[32] = 0 }),
		"granted on device -1": edit(t, KindDecided, func(b []byte) { clear(b[16:36]); le.PutUint32(b[36:], math.MaxUint32) }),
		"device -1":            edit(t, KindBegin, func(b []byte) { le.PutUint32(b[52:], math.MaxUint32) }),
		"device without flag":  edit(t, KindBegin, func(b []byte) { b[44] = 1 }),
		"shape blocks 2^63":    edit(t, KindShape, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"grow by 2^63":         edit(t, KindGrow, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"unknown capability":   edit(t, KindHello, func(b []byte) { b[32] = 33 }),
		"prepares, not evicts": edit(t, KindHello, func(b []byte) { b[32] = 2 }),
		"moves, not evicts":    edit(t, KindHello, func(b []byte) { b[32] = 8 }),
		"hello unused":         edit(t, KindHello, func(b []byte) { b[39] = 1 }),
		"outcome 0":            edit(t, KindRevoked, func(b []byte) { b[80] = 0 }),
		"revoked outcome 4":    edit(t, KindRevoked, func(b []byte) { b[80] = 4 }),
		"busy with a reason":   edit(t, KindRevoked, func(b []byte) { b[80] = 2 }),
		"unable but freed":     edit(t, KindRevoked, func(b []byte) { b[24] = 1 }),
		"fixed over resident":  edit(t, KindRevoked, func(b []byte) { b[47] = 1 }),
		"drained 2^63 ns":      edit(t, KindRevoked, func(b []byte) { b[55] = 0x80 }),
		"lost 2^63 ns":         edit(t, KindRevoked, func(b []byte) { b[79] = 0x80 }),
		"revoked unused":       edit(t, KindRevoked, func(b []byte) { b[84] = 1 }),
		"why not terminated":   edit(t, KindRevoked, func(b []byte) { copy(b[88:], bytes.Repeat([]byte{'x'}, whySize)) }),
		"revoke with a flag":   edit(t, KindRevoke, func(b []byte) { b[60] = 1 }),
		"welcome unused":       edit(t, KindWelcome, func(b []byte) { b[28] = 1 }),
		"resume with 2^63":     edit(t, KindResume, func(b []byte) { b[23] = 0x80 }),
		"0 bytes more":         edit(t, KindMore, func(b []byte) { clear(b[8:]) }),
		"grant unused":         edit(t, KindGrant, func(b []byte) { b[39] = 1 }),
		"fault unused":         edit(t, KindFault, func(b []byte) { b[20] = 1 }),
		"fault time":           edit(t, KindFault, func(b []byte) { b[15] = 0x80 }),
		"where not terminated": edit(t, KindOOM, func(b []byte) { copy(b[16:], bytes.Repeat([]byte{'x'}, whereSize)) }),
		"bytes after NUL":      edit(t, KindOOM, func(b []byte) { b[len(b)-1] = 'x' }),
	} {
		k, err := Check(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := decode(blank(k), b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Any packet is rejected or is exactly what its decoded form encodes to.
func FuzzDecode(f *testing.F) {
	for k := KindHello; k.known(); k++ {
		f.Add(fixture(f, k))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := Check(b)
		if err != nil {
			return
		}
		frame := blank(k)
		if decode(frame, b) != nil {
			return
		}
		if again := encode(frame, make([]byte, MaxFrame)); !bytes.Equal(again, b) {
			t.Errorf("%v % x encodes as % x", k, b, again)
		}
	})
}
