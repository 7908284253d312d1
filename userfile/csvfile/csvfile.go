// Package csvfile reads and writes CSV files of records, one record in each line. A file has a
// header with the name of every column, and each field is checked.
package csvfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/input"
)

// Column is one column of a file, with the functions that write and read it.
type Column[T any] struct {
	Name  string
	Write func(T) string
	Read  func(*T, string) error
}

// Format is a kind of file.
type Format[T any] struct {
	Record  string // what a line has, such as "profile"
	Columns []Column[T]
	// Earlier is the number of columns of files from earlier versions, which lack the later
	// columns; 0: there are none.
	Earlier int
	// Key is what no two records share, in words, such as `command "x"`.
	Key func(T) string
}

// Header has the names of the columns.
func (f Format[T]) Header() []string {
	var names []string
	for _, c := range f.Columns {
		names = append(names, c.Name)
	}
	return names
}

// Text is a column of text.
func Text[T any](name string, field func(*T) *string, required bool) Column[T] {
	return Column[T]{name, func(r T) string { return *field(&r) }, func(r *T, s string) error {
		if s == "" && required {
			return errors.New("want a value")
		}
		*field(r) = s
		return nil
	}}
}

// Duration is a column of seconds, which must not be empty.
func Duration[T any](name string, field func(*T) *float64) Column[T] {
	return Column[T]{name, func(r T) string { return Plain(*field(&r)) }, func(r *T, s string) (err error) {
		if *field(r), err = NotNegative(s, MaxSeconds); err != nil {
			return fmt.Errorf("want seconds, a number from 0 to %s", Plain(MaxSeconds))
		}
		return nil
	}}
}

// Number is a column of counts. 0 means unknown and is written as an empty field.
func Number[T any, N int | int64 | uint64 | uint32](name string, field func(*T) *N) Column[T] {
	return Column[T]{name, func(r T) string {
		if v := *field(&r); v != 0 {
			return strconv.FormatUint(uint64(v), 10)
		}
		return ""
	}, func(r *T, s string) error {
		if s == "" {
			return nil
		}
		v, err := input.Uint(s, 63)
		if err != nil || uint64(N(v)) != v {
			return errors.New("want a whole number that is not negative, or nothing")
		}
		*field(r) = N(v)
		return nil
	}}
}

// Fraction is a column of numbers from 0 to 1. nil means unknown and is written as an empty field.
func Fraction[T any](name string, field func(*T) **float64) Column[T] {
	return Column[T]{name, func(r T) string {
		if v := *field(&r); v != nil {
			return Plain(*v)
		}
		return ""
	}, func(r *T, s string) error {
		if s == "" {
			return nil
		}
		v, err := NotNegative(s, 1)
		if err != nil {
			return errors.New("want a number from 0 to 1, or nothing")
		}
		*field(r) = &v
		return nil
	}}
}

// MaxSeconds catches typing errors. A simulated node would spend for ever on longer phases.
const MaxSeconds = 1e7

// Plain formats v without an exponent. NotNegative reads the same value.
func Plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// NotNegative reads a decimal number from 0 to most. It may have an exponent, because other programs write these files
// too.
func NotNegative(s string, most float64) (float64, error) {
	v, err := input.Measured(s)
	if err != nil || !(v >= 0) || v > most {
		return 0, errors.New("not a number from 0")
	}
	return v, nil
}

// Writer writes a file. Reading it again gives the same records.
type Writer[T any] struct {
	format Format[T]
	w      io.Writer
	begun  bool // the header is written
}

// NewWriter returns a Writer to w.
func (f Format[T]) NewWriter(w io.Writer) *Writer[T] { return &Writer[T]{format: f, w: w} }

// Write adds a record in one call of the underlying Write. The first call also writes the header.
func (w *Writer[T]) Write(record T) error {
	var row []string
	for _, c := range w.format.Columns {
		row = append(row, c.Write(record))
	}
	rows := [][]string{row}
	if !w.begun {
		rows = [][]string{w.format.Header(), row}
	}
	var text bytes.Buffer
	err := csv.NewWriter(&text).WriteAll(rows)
	if err == nil {
		_, err = w.w.Write(text.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write %s of %s: %w", w.format.Record, w.format.Key(record), err)
	}
	w.begun = true
	return nil
}

// Read reads a file. Errors name the file and the line.
func (f Format[T]) Read(file string, r io.Reader) (records []T, err error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	fail := func(line int, format string, args ...any) ([]T, error) {
		return nil, fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...))
	}
	names := f.Header()
	lines := map[string]int{}
	for first := true; ; first = false {
		row, err := in.Read()
		var syntax *csv.ParseError
		switch {
		case errors.Is(err, io.EOF) && first:
			return fail(1, "want the header %s", strings.Join(names, ","))
		case errors.Is(err, io.EOF):
			return records, nil
		case errors.As(err, &syntax):
			return fail(syntax.Line, "not CSV: %v", syntax.Err)
		case err != nil:
			return nil, fmt.Errorf("read %ss %s: %w", f.Record, file, err)
		}
		line, _ := in.FieldPos(0)
		if first {
			if !slices.Equal(row, names) && (f.Earlier == 0 || !slices.Equal(row, names[:f.Earlier])) {
				return fail(line, "want the header %s", strings.Join(names, ","))
			}
			names = row
			continue
		}
		if len(row) != len(names) {
			return fail(line, "%d fields, want %d", len(row), len(names))
		}
		var record T
		for i, c := range f.Columns[:len(names)] {
			if err := c.Read(&record, row[i]); err != nil {
				at, _ := in.FieldPos(i)
				return fail(at, "%s is %q: %v", c.Name, row[i], err)
			}
		}
		key := f.Key(record)
		if before, twice := lines[key]; twice {
			return fail(line, "duplicate %s (first in line %d): remove one", key, before)
		}
		lines[key], records = line, append(records, record)
	}
}
