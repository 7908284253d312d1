package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
)

// hostile are names that jobs, users and devices may have, with characters that terminals act on.
var hostile = []string{
	"=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\n=1", "\r=1", "＝1", "'=1", "-", "",
	"\x1b[2J\x1b]0;title\a", "\u009b31m", "\x7f", "a\rb", "a\x00b", "\u202egnp.exe", "\u2066x\u2069", "\u200f", "\ufeff", "\U000e0001",
	"a\xffb", "\xc0\xaf", "a|b\\|c", "`x` *y* [z](http://z) ![i](http://i) <b>", "]]>", "日本語のジョブ", "é́", `\x1b`,
}

// printableBut fails if text has characters that a terminal would act on, except those allowed.
func printableBut(t *testing.T, what, text, but string) {
	t.Helper()
	for i, r := range text {
		if !strconv.IsPrint(r) && !strings.ContainsRune(but, r) {
			t.Errorf("%s has %q at byte %d:\n%q", what, r, i, text)
			return
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8:\n%q", what, text)
	}
}

// checkHostile checks every text in every place of a table, in every format.
func checkHostile(t *testing.T, text string) {
	t.Helper()
	table := &Table{Title: text, Columns: []Column{{Name: "text"}, {Name: "number"}, {Name: "share", Unit: Ratio}},
		Notes: []Note{{Text: text, Block: text}}}
	table.Add(text, -168, -0.5)
	plain := &Table{Title: "x", Columns: table.Columns, Notes: []Note{{Text: "x"}}}
	plain.Add("x", -168, -0.5)

	shown := render(t, table, Text, Options{})
	printableBut(t, "the table", shown, "\n")
	if got, want := strings.Count(shown, "\n"), strings.Count(render(t, plain, Text, Options{}), "\n")+len(lines(text)); got != want {
		t.Errorf("the table has %d lines, want %d:\n%s", got, want, shown)
	}
	printableBut(t, "Markdown", render(t, table, Markdown, Options{}), "\n")

	shown = render(t, table, CSV, Options{})
	printableBut(t, "CSV", shown, "\n\t")
	records, err := csv.NewReader(strings.NewReader(shown)).ReadAll()
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records (%v):\n%s", len(records), err, shown)
	}
	if row := records[1]; row[1] != "-168" || row[2] != "-0.5" {
		t.Errorf("numbers became %q and %q", row[1], row[2])
	} else if first, size := utf8.DecodeRuneInString(row[0]); size > 0 && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		t.Errorf("the cell %q is a formula", row[0])
	} else if want := Printable(text, "\n\t"); row[0] != want && row[0] != "'"+want {
		t.Errorf("the cell is %q, want %q", row[0], want)
	}

	shown = render(t, table, JSON, Options{})
	printableBut(t, "JSON", shown, "\n")
	var decoded struct {
		Title string
		Rows  []struct{ Text string }
	}
	if err := json.Unmarshal([]byte(shown), &decoded); err != nil {
		t.Fatal(err)
	}
	if want := string([]rune(text)); decoded.Title != want || decoded.Rows[0].Text != want {
		t.Errorf("JSON has %q and %q, want %q", decoded.Title, decoded.Rows[0].Text, want)
	}

	var out bytes.Buffer
	if err := JUnit(&out, regress.Report{Baseline: text, Candidate: text, Checks: []regress.Check{
		{Arm: results.Arm{Mix: text, Scheduler: "sa", Parameters: text}, Class: regress.Regression, Text: text},
	}}, "host", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	printableBut(t, "JUnit", out.String(), "\n\t")
	var suites junitSuites
	if err := xml.Unmarshal(out.Bytes(), &suites); err != nil {
		t.Fatal(err)
	}
	if got, want := suites.Suites[0].Cases[0].Failure.Text, Printable(text, "\n\t"); got != want {
		t.Errorf("JUnit has %q, want %q", got, want)
	}
	if once := Printable(text, ""); Printable(once, "") != once {
		t.Errorf("%q is escaped twice", text)
	}
}

func TestHostileTextIsShown(t *testing.T) {
	for _, text := range hostile {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) { checkHostile(t, text) })
	}
	for text, want := range map[string]string{
		"\x1b[2J": `\x1b[2J`, "\u202egnp": `\u202egnp`, "\u009b1m": `\u009b1m`, "a\xffb": `a\xffb`, "tab\there": `tab\there`, "é 日本": "é 日本",
	} {
		if got := Printable(text, ""); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"=1+1": "'=1+1", "-2": "'-2", "2-": "2-", "a=b": "a=b", "\t=1": "'\t=1", "\r=1": `\r=1`, "": ""} {
		if got := csvText(text); got != want {
			t.Errorf("%q in CSV is %q, want %q", text, got, want)
		}
	}
}

// A column is as wide as its escapes and wide characters need.
func TestHostileTextKeepsColumnsAligned(t *testing.T) {
	table := &Table{Title: "t", Columns: []Column{{Name: "text"}, {Name: "next"}}}
	for _, text := range []string{"\x1b[31mred", "plain", "\u202eturned"} {
		table.Add(text, "here")
	}
	at := -1
	for _, line := range strings.Split(render(t, table, Text, Options{}), "\n") {
		if i := strings.Index(line, "here"); i >= 0 {
			if at >= 0 && i != at {
				t.Errorf("columns %d and %d", at, i)
			}
			at = i
		}
	}
}

func FuzzHostileText(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(checkHostile)
}
