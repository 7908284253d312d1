package store

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/caserun/caserun/results"
)

const (
	// packAfter is the number of complete segments of a series that wait in the table before
	// some of them are packed.
	packAfter = 1536
	// blockBytes lets two blocks fill a page of 4096 bytes.
	blockBytes = 1920
	// rowBits is the largest width that fits into eight bytes at any bit offset in the first
	// byte.
	rowBits  = 56
	blockMax = 4096
	fewest   = 32 // a smaller block takes more space than its rows
)

// block is a part of one series: many segments in few bytes, with times in microseconds.
// Migration 5 describes the format and has a view that unpacks it in SQL.
type block struct {
	device                                     int
	series                                     results.Series
	fromS, toS                                 float64
	n                                          int
	firstUS, stepNS, holdUS, samples, code     int64
	scale                                      int64
	firstBits, holdBits, samplesBits, codeBits int
	packed                                     []byte
}

var blocks = layout[block]{
	table: "_segment_block",
	keys:  []string{"device_index", "series", "from_s"},
	columns: []string{"to_s", "n", "first_us", "step_ns", "hold_us", "samples", "code", "scale",
		"first_bits", "hold_bits", "samples_bits", "code_bits", "packed"},
	fields: func(b *block) (keys, values []any) {
		return []any{&b.device, &b.series, &b.fromS}, []any{&b.toS, &b.n, &b.firstUS, &b.stepNS, &b.holdUS, &b.samples, &b.code,
			&b.scale, &b.firstBits, &b.holdBits, &b.samplesBits, &b.codeBits, &b.packed}
	},
}

// packRow is a segment in integers.
type packRow struct{ first, hold, samples, code int64 }

// pack makes a block of as many of a series' first segments as fill one. The segments must be
// in the order of time. It returns false if too few segments can be packed without loss. A
// segment cannot be packed if its value is unknown, is not a whole number or a hundredth, or is
// too large.
func pack(series []results.Segment) (block, bool) {
	series = series[:min(len(series), blockMax)]
	for len(series) >= fewest {
		b, rows, ok := frame(series)
		if !ok && len(series) > fewest {
			series = series[:max(len(series)/2, fewest)]
			continue
		}
		if !ok {
			return b, false
		}
		width := b.width()
		if fit := blockBytes * 8 / max(width, 1); fit < len(series) {
			series = series[:fit]
			continue
		}
		b.packed = make([]byte, (b.n*width+7)/8+8) // the last row is read as eight bytes too
		for i, r := range rows {
			b.put(i, r)
		}
		return b, true
	}
	return block{}, false
}

func (b block) width() int { return b.firstBits + b.holdBits + b.samplesBits + b.codeBits }

// frame finds what the rows of a block have in common, and how many bits their differences
// take.
func frame(series []results.Segment) (b block, rows []packRow, ok bool) {
	head, tail := series[0], series[len(series)-1]
	b = block{device: head.Device, series: head.Series, fromS: head.FirstS, toS: tail.FirstS, n: len(series)}
	if rows, b.scale, ok = integers(series); !ok {
		return b, nil, false
	}
	b.fitFirst(rows)
	b.holdUS, b.samples, b.code = rows[0].hold, rows[0].samples, rows[0].code
	for _, r := range rows {
		b.holdUS, b.samples, b.code = min(b.holdUS, r.hold), min(b.samples, r.samples), min(b.code, r.code)
	}
	var most packRow
	for i := range rows {
		r := &rows[i]
		r.first -= b.predicted(i)
		r.hold, r.samples, r.code = r.hold-b.holdUS, r.samples-b.samples, r.code-b.code
		most = packRow{max(most.first, r.first), max(most.hold, r.hold), max(most.samples, r.samples), max(most.code, r.code)}
	}
	b.firstBits, b.holdBits = bits.Len64(uint64(most.first)), bits.Len64(uint64(most.hold))
	b.samplesBits, b.codeBits = bits.Len64(uint64(most.samples)), bits.Len64(uint64(most.code))
	return b, rows, b.width() <= rowBits
}

// integers converts times to microseconds and values to whole numbers or hundredths.
func integers(series []results.Segment) (rows []packRow, scale int64, ok bool) {
	const exact = 1 << 52
	rows = make([]packRow, len(series))
	for _, scale = range []int64{1, 100} {
		ok = true
		for i, s := range series {
			if s.Value == nil || *s.Value < 0 || *s.Value*float64(scale) > exact || math.Abs(s.FirstS) > 1e9 || math.Abs(s.LastS) > 1e9 {
				ok = false
				break
			}
			r := packRow{microseconds(s.FirstS), 0, s.Samples, int64(math.Round(*s.Value * float64(scale)))}
			r.hold = microseconds(s.LastS) - r.first
			if r.hold < 0 || r.samples < 1 || float64(r.code)/float64(scale) != *s.Value {
				ok = false
				break
			}
			rows[i] = r
		}
		if ok {
			return rows, scale, true
		}
	}
	return nil, 0, false
}

func microseconds(s float64) int64 { return int64(math.Round(s * 1e6)) }

// fitFirst finds the straight line below the rows' start times that leaves the smallest
// differences. Its slope is the slope between the ends, exact or rounded to whole milliseconds.
func (b *block) fitFirst(rows []packRow) {
	last := len(rows) - 1
	b.firstUS = rows[0].first
	if last == 0 {
		return
	}
	slope := (rows[last].first - rows[0].first) * 1000 / int64(last)
	best := int64(math.MaxInt64)
	for _, step := range []int64{slope, (slope + 500_000) / 1_000_000 * 1_000_000} {
		low, high := int64(0), int64(0)
		for i, r := range rows {
			over := r.first - rows[0].first - int64(i)*step/1000
			low, high = min(low, over), max(high, over)
		}
		if high-low < best {
			best, b.stepNS, b.firstUS = high-low, step, rows[0].first+low
		}
	}
}

func (b block) predicted(i int) int64 { return b.firstUS + int64(i)*b.stepNS/1000 }

// put writes a row's bits: at most 56, after at most 7 bits of the previous row.
func (b block) put(i int, r packRow) {
	width := b.width()
	row := uint64(r.first)<<(b.holdBits+b.samplesBits+b.codeBits) | uint64(r.hold)<<(b.samplesBits+b.codeBits) |
		uint64(r.samples)<<b.codeBits | uint64(r.code)
	at := i * width
	word := row << (64 - at&7 - width)
	for k := range 8 {
		b.packed[at>>3+k] |= byte(word >> (56 - 8*k))
	}
}

// unpack appends a block's segments.
func (b block) unpack(out []results.Segment) ([]results.Segment, error) {
	width := b.width()
	if b.n < 1 || width > rowBits || min(b.firstBits, b.holdBits, b.samplesBits, b.codeBits) < 0 || b.scale < 1 ||
		len(b.packed) < (b.n-1)*width>>3+8 {
		return out, fmt.Errorf("block of series %s of device %d at %v s: it has %d bytes for %d rows of %d bits",
			b.series, b.device, b.fromS, len(b.packed), b.n, width)
	}
	values := make([]float64, b.n)
	for i := range b.n {
		at := i * width
		var word uint64
		for k := range 8 {
			word = word<<8 | uint64(b.packed[at>>3+k])
		}
		word <<= at & 7
		next := func(n int) int64 {
			v := word >> (64 - n) // 0 if n is 0
			word <<= n
			return int64(v)
		}
		first := b.predicted(i) + next(b.firstBits)
		last := first + b.holdUS + next(b.holdBits)
		samples := b.samples + next(b.samplesBits)
		values[i] = float64(b.code+next(b.codeBits)) / float64(b.scale)
		out = append(out, results.Segment{Device: b.device, Series: b.series, FirstS: float64(first) / 1e6,
			LastS: float64(last) / 1e6, Samples: samples, Value: &values[i]})
	}
	return out, nil
}
