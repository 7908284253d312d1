// Package input reads numbers and names as users write them. A number has one spelling, and names that look
// the same are the same.
package input

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ErrNotDecimal is the error of a number that is not plain decimal. Other programs read 010 as 8, and Go reads
// 0x10, 1_000 and +5 in some places and not in others.
var ErrNotDecimal = errors.New("want a decimal number without a plus sign, zeros before it, or underscores")

var (
	wholeForm    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	realForm     = regexp.MustCompile(`^-?(0|[1-9][0-9]*)?(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	durationForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)?(\.[0-9]+)?(ns|us|µs|μs|ms|s|m|h)([0-9]|$)|^-?0$`)
)

// IsWhole reports whether a text is a plain whole number, of any size.
func IsWhole(text string) bool { return wholeForm.MatchString(text) }

// Int reads a plain whole number.
func Int(text string) (int, error) {
	if !IsWhole(text) {
		return 0, ErrNotDecimal
	}
	return strconv.Atoi(text)
}

// Int64 reads a plain whole number.
func Int64(text string) (int64, error) {
	if !IsWhole(text) {
		return 0, ErrNotDecimal
	}
	return strconv.ParseInt(text, 10, 64)
}

// Uint reads a plain whole number of so many bits that is not negative.
func Uint(text string, bits int) (uint64, error) {
	if !IsWhole(text) {
		return 0, ErrNotDecimal
	}
	return strconv.ParseUint(text, 10, bits)
}

// Float reads a plain decimal number. It may have an exponent.
func Float(text string) (float64, error) {
	if !realForm.MatchString(text) {
		return 0, ErrNotDecimal
	}
	return strconv.ParseFloat(text, 64)
}

// Duration reads a time with its units, which begins with a plain decimal number.
func Duration(text string) (time.Duration, error) {
	if !durationForm.MatchString(text) {
		return 0, ErrNotDecimal
	}
	return time.ParseDuration(text)
}

// Name is a name with which users tell things apart. Unicode writes many letters in two ways that look the same; a
// name has the composed one.
func Name(text string) string { return norm.NFC.String(text) }

// IsName reports whether a text can be a name: it is one line of text, and all of it can be seen.
func IsName(text string) bool {
	return text != "" && strings.TrimSpace(text) == text && IsLine(text)
}

// IsLine reports whether a text is one line of UTF-8 in which each character can be seen, or is a space.
func IsLine(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
