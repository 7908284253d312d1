package profiles

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/userfile"
)

// column is one column of a profile file, with the functions that write and read it.
type column struct {
	name  string
	write func(Profile) string
	read  func(*Profile, string) error
}

// columns define the format of a profile file. An empty field means unknown; durations must not be
// empty.
var columns = []column{
	text("job", func(p *Profile) *string { return &p.Job }, true),
	text("command", func(p *Profile) *string { return &p.Command }, true),
	duration("host_before_s", func(p *Profile) *float64 { return &p.HostBeforeS }),
	duration("host_held_s", func(p *Profile) *float64 { return &p.HostHeldS }),
	duration("host_after_s", func(p *Profile) *float64 { return &p.HostAfterS }),
	number("copy_in_bytes", func(p *Profile) *int64 { return &p.CopyInBytes }),
	duration("copy_in_s", func(p *Profile) *float64 { return &p.CopyInS }),
	duration("kernel_s", func(p *Profile) *float64 { return &p.KernelS }),
	number("copy_out_bytes", func(p *Profile) *int64 { return &p.CopyOutBytes }),
	duration("copy_out_s", func(p *Profile) *float64 { return &p.CopyOutS }),
	{"kernels", func(p Profile) string { return string(p.Kernels) }, func(p *Profile, s string) error {
		p.Kernels = Source(s)
		if !slices.Contains([]Source{Traced, Estimated, Untraced}, p.Kernels) {
			return errors.New("want traced, estimated or untraced")
		}
		return nil
	}},
	number("memory_bytes", func(p *Profile) *int64 { return &p.Footprint.Bytes }),
	number("blocks", func(p *Profile) *uint64 { return &p.Footprint.Blocks }),
	number("threads_per_block", func(p *Profile) *uint32 { return &p.Footprint.ThreadsPerBlock }),
	text("gpu", func(p *Profile) *string { return &p.GPU }, false),
	text("driver", func(p *Profile) *string { return &p.Driver }, false),
	{"measured_at", func(p Profile) string {
		if p.MeasuredAt.IsZero() {
			return ""
		}
		return p.MeasuredAt.Format(time.RFC3339)
	}, func(p *Profile, s string) (err error) {
		if s == "" {
			return nil
		}
		if p.MeasuredAt, err = time.Parse(time.RFC3339, s); err != nil {
			return errors.New("want a time such as 2026-01-31T12:00:00Z, or nothing")
		}
		return nil
	}},
	{"kernel_phases", func(p Profile) string {
		var out []string
		for _, k := range p.KernelPhases {
			out = append(out, plain(k.SMs)+":"+plain(k.S))
		}
		return strings.Join(out, " ")
	}, readPhases},
	rounds(number("rounds", func(p *Profile) *int { return &p.Rounds })),
}

// earlierColumns is the number of columns in files from before kernel phases.
const earlierColumns = 17

func readPhases(p *Profile, s string) error {
	sum := 0.0
	for word := range strings.FieldsSeq(s) {
		sms, seconds, _ := strings.Cut(word, ":")
		var k KernelPhase
		var err error
		if k.SMs, err = notNegative(sms, math.MaxFloat64); err == nil {
			k.S, err = notNegative(seconds, maxSeconds)
		}
		if err != nil {
			return errors.New("want SMS:SECONDS for each phase, such as 3.5:0.2 132:1.4")
		}
		p.KernelPhases = append(p.KernelPhases, k)
		sum += k.S
	}
	if s != "" && math.Abs(sum-p.KernelS) > 1e-6*p.KernelS {
		return fmt.Errorf("its seconds add up to %s, want kernel_s, which is %s", plain(sum), plain(p.KernelS))
	}
	return nil
}

// rounds limits the number of rounds, because a simulated node plays them one by one.
func rounds(c column) column {
	const limit = 100
	read := c.read
	c.read = func(p *Profile, s string) error {
		if err := read(p, s); err != nil || p.Rounds > limit {
			return fmt.Errorf("want a whole number up to %d, or nothing", limit)
		}
		return nil
	}
	return c
}

func text(name string, field func(*Profile) *string, required bool) column {
	return column{name, func(p Profile) string { return *field(&p) }, func(p *Profile, s string) error {
		if s == "" && required {
			return errors.New("want a value")
		}
		*field(p) = s
		return nil
	}}
}

func duration(name string, field func(*Profile) *float64) column {
	return column{name, func(p Profile) string { return plain(*field(&p)) }, func(p *Profile, s string) (err error) {
		if *field(p), err = notNegative(s, maxSeconds); err != nil {
			return fmt.Errorf("want seconds, a number from 0 to %s", plain(maxSeconds))
		}
		return nil
	}}
}

// maxSeconds catches typing errors. A simulated node would spend for ever on longer phases.
const maxSeconds = 1e7

// plain formats v without an exponent. notNegative reads the same value, up to most.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func notNegative(s string, most float64) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || v > most {
		return 0, errors.New("not a number from 0")
	}
	return v, nil
}

// number is a column of counts. 0 means unknown and is written as an empty field.
func number[T int | int64 | uint64 | uint32](name string, field func(*Profile) *T) column {
	return column{name, func(p Profile) string {
		if v := *field(&p); v != 0 {
			return strconv.FormatUint(uint64(v), 10)
		}
		return ""
	}, func(p *Profile, s string) error {
		if s == "" {
			return nil
		}
		v, err := strconv.ParseUint(s, 10, 63)
		if err != nil || uint64(T(v)) != v {
			return errors.New("want a whole number that is not negative, or nothing")
		}
		*field(p) = T(v)
		return nil
	}}
}

func header() []string {
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}

// Writer writes a profile file. Reading it again gives the same profiles.
type Writer struct {
	w     io.Writer
	begun bool // the header is written
}

func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write adds a profile in one call of the underlying Write. The first call also writes the header.
func (w *Writer) Write(p Profile) error {
	var row []string
	for _, c := range columns {
		row = append(row, c.write(p))
	}
	rows := [][]string{row}
	if !w.begun {
		rows = [][]string{header(), row}
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
		return fmt.Errorf("write profile of %s: %w", p.Command, err)
	}
	if _, err := w.w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write profile of %s: %w", p.Command, err)
	}
	w.begun = true
	return nil
}

// maxFileBytes bounds a profile file. A line has about 120 bytes.
const maxFileBytes = 16 << 20

// Load reads a profile file.
func Load(ctx context.Context, path string) (Set, error) {
	text, err := userfile.Read(ctx, path, maxFileBytes)
	if err != nil {
		return Set{}, fmt.Errorf("read profiles: %w", err)
	}
	return Read(path, bytes.NewReader(text))
}

// Read reads a profile file. Errors name file and the line.
func Read(file string, r io.Reader) (Set, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	fail := func(line int, format string, args ...any) (Set, error) {
		return Set{}, fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...))
	}
	names := header()
	set := Set{byCommand: map[string]Profile{}}
	lines := map[string]int{}
	for first := true; ; first = false {
		row, err := in.Read()
		var syntax *csv.ParseError
		switch {
		case errors.Is(err, io.EOF) && first:
			return fail(1, "want the header %s", strings.Join(names, ","))
		case errors.Is(err, io.EOF):
			return set, nil
		case errors.As(err, &syntax):
			return fail(syntax.Line, "not CSV: %v", syntax.Err)
		case err != nil:
			return Set{}, fmt.Errorf("read profiles %s: %w", file, err)
		}
		line, _ := in.FieldPos(0)
		if first {
			if !slices.Equal(row, names) && !slices.Equal(row, names[:earlierColumns]) {
				return fail(line, "want the header %s", strings.Join(names, ","))
			}
			names = row
			continue
		}
		if len(row) != len(names) {
			return fail(line, "%d fields, want %d", len(row), len(names))
		}
		var p Profile
		for i, c := range columns[:len(names)] {
			if err := c.read(&p, row[i]); err != nil {
				at, _ := in.FieldPos(i)
				return fail(at, "%s is %q: %v", c.name, row[i], err)
			}
		}
		if before, twice := lines[p.Command]; twice {
			return fail(line, "duplicate command %q (first in line %d): remove one", p.Command, before)
		}
		lines[p.Command], set.byCommand[p.Command] = line, p
	}
}
