package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/caserun/caserun/schedulers"
)

var le = binary.LittleEndian

// Codec writes or reads the fields of a frame, one after another, and checks what it reads. It is reused, because
// one for each packet would take memory from the heap.
type Codec struct {
	rest   []byte
	writes bool
	err    error // the first one
}

// Encode writes the frame to b, which holds MaxFrame bytes, and returns b cut to the frame's size.
func (c *Codec) Encode(f Frame, b []byte) []byte {
	k := f.Kind()
	b = b[:sizes[k]]
	clear(b)
	le.PutUint16(b[0:], uint16(k))
	le.PutUint16(b[2:], Version)
	le.PutUint32(b[4:], uint32(len(b)))
	*c = Codec{rest: b[headerSize:], writes: true}
	f.fields(c)
	return b
}

// Decode reads the frame from b, which Check has passed.
func (c *Codec) Decode(f Frame, b []byte) error {
	*c = Codec{rest: b[headerSize:]}
	f.fields(c)
	return c.err
}

func (c *Codec) next(n int) []byte {
	field := c.rest[:n]
	c.rest = c.rest[n:]
	return field
}

func (c *Codec) require(ok bool, err error) {
	if !ok && c.err == nil {
		c.err = err
	}
}

func (c *Codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *Codec) u32(v *uint32) {
	if b := c.next(4); c.writes {
		le.PutUint32(b, *v)
	} else {
		*v = le.Uint32(b)
	}
}

func (c *Codec) i32(v *int32) {
	u := uint32(*v)
	c.u32(&u)
	*v = int32(u)
}

func (c *Codec) u64(v *uint64) {
	if b := c.next(8); c.writes {
		le.PutUint64(b, *v)
	} else {
		*v = le.Uint64(b)
	}
}

// task is the number of a task that begins.
func (c *Codec) task(v *uint64) {
	c.u64(v)
	c.require(*v != 0, errTaskZero)
}

// count is a number below 2^63.
func (c *Codec) count(v *uint64) {
	c.u64(v)
	c.require(*v <= math.MaxInt64, errRange)
}

// size is a number of bytes below 2^63. One that is negative is written as 0.
func (c *Codec) size(v *int64) {
	u := uint64(*v)
	if c.writes {
		u = uint64(max(*v, 0))
	}
	c.count(&u)
	if !c.writes {
		*v = int64(u)
	}
}

// duration is a number of nanoseconds below 2^63.
func (c *Codec) duration(v *time.Duration) { c.size((*int64)(v)) }

// wait is a number of milliseconds, or one of CASE_WAIT_* of native/probe/case.h.
func (c *Codec) wait(v **time.Duration) {
	ms := waitDefault
	if w := *v; w != nil && *w > 0 {
		ms = uint32(min(w.Milliseconds(), math.MaxUint32-1))
	} else if w != nil {
		ms = waitNone
	}
	c.u32(&ms)
	switch {
	case c.writes:
	case ms == waitDefault:
		*v = nil
	case ms == waitNone:
		*v = new(time.Duration(0))
	default:
		*v = new(time.Duration(ms) * time.Millisecond)
	}
}

func (c *Codec) cause(v *schedulers.Cause) {
	u := uint32(*v)
	c.u32(&u)
	*v = schedulers.Cause(u)
}

// enum is one of the values, by its index, which is not 0.
func enum[T comparable](c *Codec, v *T, values []T, what string) {
	u := uint32(max(slices.Index(values, *v), 0))
	c.u32(&u)
	switch {
	case c.writes:
	case u == 0 || int(u) >= len(values):
		c.fail("%s %d", what, u)
	default:
		*v = values[u]
	}
}

func (c *Codec) raw(v []byte) {
	if b := c.next(len(v)); c.writes {
		copy(b, v)
	} else {
		copy(v, b)
	}
}

// text is a field of so many bytes: at least one NUL, and only NUL after the first. A longer text is cut.
func (c *Codec) text(v *string, size int) {
	b := c.next(size)
	if c.writes {
		copy(b[:size-1], strings.ReplaceAll(*v, "\x00", "?"))
		return
	}
	end := bytes.IndexByte(b, 0)
	c.require(end >= 0 && zero(b[end:]), errText)
	*v = string(b[:max(end, 0)])
}

func (c *Codec) unused(n int) { c.require(zero(c.next(n)), errUnusedBytes) }

func zero(b []byte) bool {
	return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 })
}

// Printable returns a text as printable UTF-8. It comes from a job and goes to
// terminals and tables, so control characters become question marks.
func Printable(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
