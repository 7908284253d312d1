package html

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results/report"
)

// rowAttribute is an attribute of a row.
func rowAttribute(name string, value any) template.HTMLAttr {
	return template.HTMLAttr(fmt.Sprintf(`%s="%s"`, name, template.HTMLEscapeString(fmt.Sprint(value)))) //nolint:gosec // it is escaped
}

// percent returns v/end as an SVG length, so that drawings stretch with the page but their text
// does not.
func percent(v, end float64) string {
	if end <= 0 || math.IsNaN(v) {
		return "0%"
	}
	text := strconv.FormatFloat(min(max(v/end, 0), 1)*100, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// printable makes text from jobs and files safe to show. It keeps newlines and tabs.
func printable(s string) string {
	return report.Printable(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t")
}

// line returns printable text on one line.
func line(s string) string {
	return strings.Join(strings.Fields(printable(s)), " ")
}

func seconds(v float64) string { return report.Human(v, report.Seconds) }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tick is one mark of an axis.
type tick struct {
	X      string
	Text   string
	Anchor string // the text's anchor: start, middle or end
}

// ticks returns at most six round values from 0 to end.
func ticks(end float64, u report.Unit) []tick {
	if end <= 0 || math.IsInf(end, 0) || math.IsNaN(end) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(end)))
	for _, f := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
		if end/(step*f) <= 5 {
			step *= f
			break
		}
	}
	var out []tick
	for i := 0; float64(i)*step <= end*(1+1e-9); i++ {
		v := float64(i) * step
		t := tick{X: percent(v, end), Text: tickText(v, step, u), Anchor: "middle"}
		switch {
		case i == 0:
			t.Anchor = "start"
		case v > 0.93*end:
			t.Anchor = "end"
		}
		out = append(out, t)
	}
	return out
}

// tickText returns a tick's text, with the same unit for all ticks of an axis. Units other than
// seconds are in the axis's title.
func tickText(v, step float64, u report.Unit) string {
	scale, unit := 1.0, ""
	switch {
	case u != report.Seconds:
	case step >= 0.0999:
		unit = " s"
	case step < 0.999e-3:
		scale, unit = 1e6, " us"
	default:
		scale, unit = 1e3, " ms"
	}
	return strconv.FormatFloat(math.Round(v*scale*1e6)/1e6, 'f', -1, 64) + unit
}
