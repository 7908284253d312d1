// Package input reads numbers, lists and names as users write them. A number has one spelling, and names that
// look the same are the same.
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
// 0x10, 1_000, +5, .5, 1e3 and NaN in some places and not in others.
var ErrNotDecimal = errors.New("want a plain decimal number such as 8 or 0.25: without a plus sign, an exponent, underscores, or zeros before it")

var (
	wholeForm    = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	realForm     = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	measuredForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)?(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	// Each unit once, the largest first; no zeros before the first number.
	durationForm = regexp.MustCompile(`^-?([0-9]+(\.[0-9]+)?h)?([0-9]+(\.[0-9]+)?m)?([0-9]+(\.[0-9]+)?s)?([0-9]+(\.[0-9]+)?ms)?([0-9]+(\.[0-9]+)?(us|µs|μs))?([0-9]+(\.[0-9]+)?ns)?$`)
	firstForm    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)([^0-9]|$)`)
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

// Float reads a plain decimal number.
func Float(text string) (float64, error) {
	v, err := 0.0, ErrNotDecimal
	if realForm.MatchString(text) {
		v, err = strconv.ParseFloat(text, 64)
	}
	if err == nil && v == 0 && text[0] == '-' {
		return 0, ErrNotDecimal
	}
	return v, err
}

// Measured reads a number in a file of measured values, as programs write them: it may have an exponent.
func Measured(text string) (float64, error) {
	if !measuredForm.MatchString(text) {
		return 0, ErrNotDecimal
	}
	return strconv.ParseFloat(text, 64)
}

// Duration reads a time with its units, such as 90s or 1h30m. The first number is plain decimal.
func Duration(text string) (time.Duration, error) {
	if text != "0" && (!durationForm.MatchString(text) || !firstForm.MatchString(text)) {
		return 0, ErrNotDecimal
	}
	d, err := time.ParseDuration(text)
	if d == 0 && text[0] == '-' {
		return 0, ErrNotDecimal
	}
	return d, err
}

// ErrEmptyItem is the error of a list with an empty item.
var ErrEmptyItem = errors.New("an item is empty: write a comma only between two items")

// List splits a list at its commas. Spaces around an item do not count. An empty item is an error, because it may
// be an unset variable, which never means all.
func List(text string) ([]string, error) {
	items := strings.Split(text, ",")
	for i, item := range items {
		if items[i] = strings.TrimSpace(item); items[i] == "" {
			return nil, ErrEmptyItem
		}
	}
	return items, nil
}

// Name is a name with which users tell things apart. Unicode writes many letters in two ways that look the same; a
// name has the composed one.
func Name(text string) string { return norm.NFC.String(text) }

// ShellWord is a text as one word of a command that a user may paste into a shell.
func ShellWord(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("'\"*?$&|;<>()`\\[]{}#~!", r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// IsName reports whether a text can be a name: one line of UTF-8 in which each character can be seen, or is a space between
// others.
func IsName(text string) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	return text != "" && strings.TrimSpace(text) == text && utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}
