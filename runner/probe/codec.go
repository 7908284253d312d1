package probe

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
)

// The bytes of each frame of wire.go, behind its header.

var (
	errUnusedBytes = errors.New("unused bytes are not zero")
	errText        = errors.New("text is not filled up with NUL")
	errTaskZero    = errors.New("task id 0")
	errRange       = errors.New("a number is 2^63 or more")
)

func (f *helloFrame) encode(b []byte) []byte {
	b = put(b, kindHello)
	le.PutUint32(b[8:], f.pid)
	le.PutUint32(b[12:], f.instance)
	copy(b[16:], f.token[:])
	return b
}

func (f *helloFrame) decode(b []byte) {
	f.pid = le.Uint32(b[8:])
	f.instance = le.Uint32(b[12:])
	f.token = [tokenSize]byte(b[16:])
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
	le.PutUint32(b[56:], uint32(f.Wait))
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
	f.Wait = Wait(le.Uint32(b[56:]))
	switch {
	case f.task == 0:
		return errTaskZero
	case f.Bytes > math.MaxInt64 || f.HeapBytes > math.MaxInt64-f.Bytes || f.Blocks > math.MaxInt64:
		return errRange
	case f.Flags&^knownFlags != 0:
		return fmt.Errorf("unknown flags %#x", f.Flags)
	case f.Flags&FlagDevice == 0 && f.Device != 0:
		return errUnusedBytes
	case f.Device < 0:
		return fmt.Errorf("device %d", f.Device)
	}
	return unused(b[60:64])
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
	le.PutUint32(b[24:], uint32(f.wait))
	return b
}

func (f *growFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.bytes = le.Uint64(b[16:])
	f.wait = Wait(le.Uint32(b[24:]))
	if f.bytes > math.MaxInt64 {
		return errRange
	}
	return unused(b[28:32])
}

func (f *shrinkFrame) encode(b []byte) []byte {
	b = put(b, kindShrink)
	le.PutUint64(b[8:], f.task)
	le.PutUint64(b[16:], f.bytes)
	return b
}

func (f *shrinkFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.bytes = le.Uint64(b[16:])
	if f.bytes > math.MaxInt64 {
		return errRange
	}
	return nil
}

func (f *decidedFrame) encode(b []byte) []byte {
	b = put(b, kindDecided)
	le.PutUint64(b[8:], f.task)
	le.PutUint64(b[16:], f.Need)
	le.PutUint64(b[24:], f.Capacity)
	le.PutUint32(b[32:], uint32(f.Reason))
	le.PutUint32(b[36:], uint32(f.Ordinal))
	return b
}

func (f *decidedFrame) decode(b []byte) error {
	f.task = le.Uint64(b[8:])
	f.Need = le.Uint64(b[16:])
	f.Capacity = le.Uint64(b[24:])
	f.Reason = Reason(le.Uint32(b[32:]))
	f.Ordinal = int32(le.Uint32(b[36:]))
	switch {
	case f.Need > math.MaxInt64 || f.Capacity > math.MaxInt64:
		return errRange
	case f.Reason > ReasonTimeout:
		return fmt.Errorf("%v", f.Reason)
	case f.Ordinal < 0:
		return fmt.Errorf("device %d", f.Ordinal)
	case f.Reason == Granted && (f.Need != 0 || f.Capacity != 0), f.Reason != Granted && f.Ordinal != 0:
		return errUnusedBytes
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
