package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caserun/caserun/results/regress"
)

const unknown = "-"

// Human rounds a number in a base unit for a reader: 0.0123 s is "12.3 ms".
func Human(v float64, u Unit) string {
	if math.IsNaN(v) {
		return unknown
	}
	switch u {
	case Seconds:
		switch a := math.Abs(v); {
		case a == 0:
			return "0 s"
		case a < 1e-3:
			return three(v*1e6) + " us"
		case a < 1:
			return three(v*1e3) + " ms"
		case a < 100:
			return fmt.Sprintf("%.2f s", v)
		default:
			return fmt.Sprintf("%.1f s", v)
		}
	case Bytes:
		units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
		i := 0
		for math.Abs(v) >= 1024 && i+1 < len(units) {
			v /= 1024
			i++
		}
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[i]
	case Hertz:
		if math.Abs(v) >= 1e9 {
			return fmt.Sprintf("%.2f GHz", v/1e9)
		}
		return fmt.Sprintf("%.0f MHz", v/1e6)
	case JobsPerSecond:
		return fmt.Sprintf("%.4g jobs/s", v)
	case Joules:
		switch a := math.Abs(v); {
		case a >= 1e6:
			return three(v/1e6) + " MJ"
		case a >= 1e3:
			return three(v/1e3) + " kJ"
		}
		return three(v) + " J"
	case Watts:
		return three(v) + " W"
	case Ratio:
		return tenths(v*100) + " %"
	case Points:
		return tenths(v * 100)
	case Factor:
		return regress.RatioText(v)
	}
	if a := math.Abs(v); a >= 1e3 && a < 1e6 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// tenths gives one digit behind the point, and zero no sign.
func tenths(v float64) string {
	return strings.Replace(fmt.Sprintf("%.1f", v), "-0.0", "0.0", 1)
}

// three gives three significant digits of numbers between 1 and 1000.
func three(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// humanCell is a cell in table and markdown.
func humanCell(v any, u Unit) string {
	switch v := v.(type) {
	case nil:
		return unknown
	case int64:
		if u == None {
			return strconv.FormatInt(v, 10)
		}
		return Human(float64(v), u)
	case float64:
		return Human(v, u)
	case string:
		return oneLine(v)
	case Cell:
		if v.Text != "" {
			return oneLine(v.Text)
		}
		return humanCell(v.Value, u)
	}
	return fmt.Sprint(v)
}

// Printable makes text of programs, files and users safe to show. Characters that a terminal
// would act on, or that change the order of the text beside them, become escapes as in Go,
// such as \x1b or \u202e. The characters of keep stay, and so do printable ones.
func Printable(s, keep string) string {
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1: // not UTF-8
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case strconv.IsPrint(r), strings.ContainsRune(keep, r):
			out.WriteString(s[:size])
		default:
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[size:]
	}
	return out.String()
}

// oneLine is printable text in which newlines, tabs and carriage returns are spaces.
func oneLine(s string) string {
	return Printable(strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(s), "")
}
