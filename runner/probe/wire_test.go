package probe

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func encode(f wireFrame, b []byte) []byte { return new(cursor).encode(f, b) }

func decode(f wireFrame, b []byte) error { return new(cursor).decode(f, b) }

func blank(k kind) wireFrame {
	return [...]wireFrame{
		kindHello: &helloFrame{}, kindBegin: &beginFrame{}, kindGrant: &grantFrame{},
		kindRefuse: &refuseFrame{}, kindGrow: &growFrame{}, kindFree: &freeFrame{},
		kindOOM: &oomFrame{}, kindFault: &faultFrame{}, kindBye: &byeFrame{},
		kindShape: &shapeFrame{}, kindShrink: &shrinkFrame{}, kindDecided: &decidedFrame{},
		kindWelcome: &welcomeFrame{}, kindRevoke: &revokeFrame{}, kindRevoked: &revokedFrame{},
		kindResume: &resumeFrame{}, kindMore: &moreFrame{}, kindSpace: &spaceFrame{},
		kindMoved: &movedFrame{}, kindRecall: &recallFrame{}, kindKept: &keptFrame{},
	}[k]
}

// samples holds the values of native/probe/testdata, which tests/wire_test.c
// has too.
func samples() map[kind]wireFrame {
	hello, grant := &helloFrame{pid: 4242, instance: 17, can: canEvict}, &grantFrame{task: 7, ordinal: 3}
	for i := range 16 {
		hello.token[i], grant.uuid[i] = byte(i), byte(0xa0+i)
	}
	refuse := &refuseFrame{task: 7, need: 20 << 30, capacity: 16 << 30, reason: ReasonTooLarge}
	fill(refuse.text[:], "fits no device")
	oom := &oomFrame{bytes: 1 << 30}
	fill(oom.where[:], "cudaMalloc")
	fault := &faultFrame{monotonicNS: 123456789012345, code: 700}
	fill(fault.where[:], "cudaMemcpy")
	revoked := &revokedFrame{task: 7, Revoked: Revoked{Ticket: 99, Ended: Unable, Resident: 5 << 30, Fixed: 517 << 20,
		Drain: time.Millisecond, Copy: 2 * time.Millisecond, Bookkeeping: 3 * time.Millisecond}}
	fill(revoked.why[:], "the swap area is full")
	return map[kind]wireFrame{
		kindHello: hello,
		kindBegin: &beginFrame{7, Request{Bytes: 0x312345678, Blocks: 65535, ThreadsPerBlock: 16, HeapBytes: 8 << 20, HostBytes: 1 << 30,
			Flags: FlagManaged | FlagDevice, BlocksPerSM: 6, Device: 2, Wait: 30000}},
		kindGrant: grant, kindRefuse: refuse,
		kindGrow: &growFrame{7, 1 << 20, WaitNone}, kindFree: &freeFrame{7},
		kindOOM: oom, kindFault: fault, kindBye: &byeFrame{},
		kindShape:   &shapeFrame{7, Shape{Blocks: 2097152, ThreadsPerBlock: 256, BlocksPerSM: 8}},
		kindShrink:  &shrinkFrame{7, 3 << 20},
		kindDecided: &decidedFrame{7, Outcome{Reason: ReasonTimeout, Need: 20 << 30, Capacity: 16 << 30}},
		kindWelcome: &welcomeFrame{chunk: 32 << 20, windowUS: 50000, files: 2},
		kindRevoke:  &revokeFrame{task: 7, ticket: 99, bytes: 3 << 30, action: Evict, deadlineMS: 250},
		kindRevoked: revoked,
		kindResume:  &resumeFrame{7, Resume{Bytes: 5 << 30, Referenced: 1 << 30}},
		kindMoved:   &movedFrame{7, Moved{Way: Out, Bytes: 5 << 30, Copy: 2 * time.Millisecond, Bookkeeping: 3 * time.Millisecond}},
		kindMore:    &moreFrame{96 << 20},
		kindSpace:   &spaceFrame{bytes: 96 << 20, files: 3},
		kindRecall:  &recallFrame{},
		kindKept:    &keptFrame{96 << 20},
	}
}

func fixture(tb testing.TB, k kind) []byte {
	tb.Helper()
	return hexFile(tb, strings.ToLower(k.String()))
}

func hexFile(tb testing.TB, name string) []byte {
	tb.Helper()
	file := filepath.Join(nativeDir, "testdata", name+".hex")
	content, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return b
}

func TestFramesMatchFixtures(t *testing.T) {
	for k, frame := range samples() {
		want := fixture(t, k)
		if got := encode(frame, make([]byte, maxFrame)); !bytes.Equal(got, want) {
			t.Errorf("%v encodes as\n% x, the fixture is\n% x", k, got, want)
		}
		if got, err := check(want); err != nil || got != k {
			t.Errorf("check(%v) = %v, %v", k, got, err)
		}
		got := blank(k)
		if err := decode(got, want); err != nil || !reflect.DeepEqual(got, frame) {
			t.Errorf("%v decodes as %+v (%v), want %+v", k, got, err, frame)
		}
	}
}

// The fields of a frame take all of its bytes.
func TestFieldsFillTheirFrame(t *testing.T) {
	for k := kindHello; k.known(); k++ {
		c := cursor{rest: make([]byte, frames[k].size-headerSize)}
		if blank(k).fields(&c); len(c.rest) > 0 {
			t.Errorf("%v: %d bytes are no field", k, len(c.rest))
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
	sizes := map[string]int{}
	for _, m := range asserted {
		sizes[string(m[2])], _ = strconv.Atoi(string(m[1]))
	}
	for k := kindHello; k.known(); k++ {
		if sizes[k.String()] != frames[k].size {
			t.Errorf("%v has %d bytes here and %d in wire.h", k, frames[k].size, sizes[k.String()])
		}
		if frames[k].size > maxFrame {
			t.Errorf("%v is larger than maxFrame", k)
		}
	}
	if len(sizes) != len(frames)-1 {
		t.Errorf("wire.h asserts %d frame sizes, want %d", len(sizes), len(frames)-1)
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
		var field [whereSize]byte
		copy(field[:], in)
		if got := text(field[:]); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
}

// edit returns the fixture of k with one change.
func edit(tb testing.TB, k kind, change func(b []byte)) []byte {
	b := fixture(tb, k)
	change(b)
	return b
}

func TestDecodeRejects(t *testing.T) {
	for name, b := range map[string][]byte{
		"task 0":               edit(t, kindBegin, func(b []byte) { le.PutUint64(b[8:], 0) }),
		"bytes 2^63":           edit(t, kindBegin, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"bytes + heap 2^63":    edit(t, kindBegin, func(b []byte) { le.PutUint64(b[16:], math.MaxInt64-100) }),
		"blocks 2^63":          edit(t, kindBegin, func(b []byte) { le.PutUint64(b[24:], 1<<63) }),
		"unknown flag":         edit(t, kindBegin, func(b []byte) { b[44] = 8 }),
		"begin unused":         edit(t, kindBegin, func(b []byte) { b[63] = 1 }),
		"grow unused":          edit(t, kindGrow, func(b []byte) { b[31] = 1 }),
		"shrink by 2^63":       edit(t, kindShrink, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"need 2^63":            edit(t, kindDecided, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"capacity 2^63":        edit(t, kindDecided, func(b []byte) { le.PutUint64(b[24:], 1<<63) }),
		"outcome 4":            edit(t, kindDecided, func(b []byte) { b[32] = byte(ReasonStopping) }),
		"refused on a device":  edit(t, kindDecided, func(b []byte) { b[36] = 1 }),
		"granted with a need":  edit(t, kindDecided, func(b []byte) { b[32] = 0 }),
		"granted on device -1": edit(t, kindDecided, func(b []byte) { clear(b[16:36]); le.PutUint32(b[36:], math.MaxUint32) }),
		"device -1":            edit(t, kindBegin, func(b []byte) { le.PutUint32(b[52:], math.MaxUint32) }),
		"device without flag":  edit(t, kindBegin, func(b []byte) { b[44] = 1 }),
		"shape blocks 2^63":    edit(t, kindShape, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"grow by 2^63":         edit(t, kindGrow, func(b []byte) { le.PutUint64(b[16:], 1<<63) }),
		"unknown capability":   edit(t, kindHello, func(b []byte) { b[32] = 4 }),
		"prepares, not evicts": edit(t, kindHello, func(b []byte) { b[32] = 2 }),
		"hello unused":         edit(t, kindHello, func(b []byte) { b[39] = 1 }),
		"outcome 0":            edit(t, kindRevoked, func(b []byte) { b[72] = 0 }),
		"revoked outcome 4":    edit(t, kindRevoked, func(b []byte) { b[72] = 4 }),
		"busy with a reason":   edit(t, kindRevoked, func(b []byte) { b[72] = byte(Busy) }),
		"unable but freed":     edit(t, kindRevoked, func(b []byte) { b[24] = 1 }),
		"fixed over resident":  edit(t, kindRevoked, func(b []byte) { b[47] = 1 }),
		"drained 2^63 ns":      edit(t, kindRevoked, func(b []byte) { b[55] = 0x80 }),
		"revoked unused":       edit(t, kindRevoked, func(b []byte) { b[76] = 1 }),
		"why not terminated":   edit(t, kindRevoked, func(b []byte) { copy(b[80:], bytes.Repeat([]byte{'x'}, whySize)) }),
		"resume with 2^63":     edit(t, kindResume, func(b []byte) { b[23] = 0x80 }),
		"0 bytes more":         edit(t, kindMore, func(b []byte) { clear(b[8:]) }),
		"grant unused":         edit(t, kindGrant, func(b []byte) { b[39] = 1 }),
		"fault unused":         edit(t, kindFault, func(b []byte) { b[20] = 1 }),
		"fault time":           edit(t, kindFault, func(b []byte) { b[15] = 0x80 }),
		"where not terminated": edit(t, kindOOM, func(b []byte) { copy(b[16:], bytes.Repeat([]byte{'x'}, whereSize)) }),
		"bytes after NUL":      edit(t, kindOOM, func(b []byte) { b[len(b)-1] = 'x' }),
	} {
		k, err := check(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := decode(blank(k), b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Any packet is rejected or is exactly what its decoded form encodes to.
func FuzzDecode(f *testing.F) {
	for k := kindHello; k.known(); k++ {
		f.Add(fixture(f, k))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := check(b)
		if err != nil {
			return
		}
		frame := blank(k)
		if decode(frame, b) != nil {
			return
		}
		if again := encode(frame, make([]byte, maxFrame)); !bytes.Equal(again, b) {
			t.Errorf("%v % x encodes as % x", k, b, again)
		}
	})
}
