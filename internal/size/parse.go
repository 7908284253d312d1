package size

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/input"
)

var byteUnits = []struct {
	suffix string
	bytes  int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
}

const byteUnitsHelp = "write plain bytes or a number with KiB, MiB, GiB or TiB, such as 512MiB"

// Parse reads an amount of memory: plain bytes ("1073741824"), or a number followed by KiB,
// MiB, GiB or TiB without a space ("16GiB", "1.2GiB"). It rounds up to whole bytes. It refuses
// decimal units and bare letters, because 16GB and 16G mean different amounts to different tools.
func Parse(s string) (int64, error) {
	number, unit := s, int64(1)
	for _, u := range byteUnits {
		if n, found := strings.CutSuffix(s, u.suffix); found {
			number, unit = n, u.bytes
			break
		}
	}
	whole, fraction, pointed := strings.Cut(number, ".")
	if !isDigits(whole) || !input.IsWhole(whole) || pointed && !isDigits(fraction) || len(number) > 32 {
		return 0, fmt.Errorf("bad size %q: %s", s, byteUnitsHelp)
	}
	amount, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("bad size %q: %s", s, byteUnitsHelp)
	}
	amount.Mul(amount, new(big.Rat).SetInt64(unit))
	if !amount.IsInt() && unit == 1 {
		return 0, fmt.Errorf("bad size %q: not a whole number of bytes", s)
	}
	bytes := new(big.Int).Sub(amount.Num(), big.NewInt(1)) // rounded up: (n-1)/d + 1
	bytes.Add(bytes.Div(bytes, amount.Denom()), big.NewInt(1))
	if !bytes.IsInt64() {
		return 0, fmt.Errorf("bad size %q: want at most 8388607TiB", s)
	}
	return bytes.Int64(), nil
}

// leastPlain is the least size that needs no unit. A smaller one is a forgotten unit: 5 is not meant to be 5 bytes.
const leastPlain = 1 << 20

// ParseChosen is Parse for sizes that users choose. It refuses plain bytes below 1 MiB, except for 0.
func ParseChosen(s string) (int64, error) {
	n, err := Parse(s)
	if err == nil && 0 < n && n < leastPlain && isDigits(s) {
		return 0, fmt.Errorf("%s is %s: write %sMiB or %sGiB", s, Text(n), s, s)
	}
	return n, err
}

// Amount is an amount of memory as a user gives it. The text is what is shown and stored of it; the zero value is not given.
type Amount struct {
	Bytes int64
	text  string
}

// AmountOf is a size that is not from a text.
func AmountOf(bytes int64) Amount { return Amount{bytes, Format(bytes)} }

func (s Amount) String() string { return s.text }

// MarshalText implements encoding.TextMarshaler.
func (s Amount) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// UnmarshalText implements encoding.TextUnmarshaler, as ParseChosen.
func (s *Amount) UnmarshalText(text []byte) (err error) {
	*s = Amount{text: string(text)}
	if s.text != "" {
		s.Bytes, err = ParseChosen(s.text)
	}
	return err
}

// FormatChosen is the exact inverse of ParseChosen.
func FormatChosen(n int64) string {
	if text := Format(n); !isDigits(text) || n == 0 || n >= leastPlain {
		return text
	}
	return strings.TrimRight(strconv.FormatFloat(float64(n)/1024, 'f', 10, 64), "0") + "KiB" // 1024 has 10 decimals
}

// Format is the exact inverse of Parse. It uses the largest unit that divides n, so
// 17179869184 is "16GiB" and 8590458888 is "8590458888".
func Format(n int64) string {
	for _, u := range byteUnits {
		if n > 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
