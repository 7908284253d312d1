package report

import (
	"testing"
)

// A row of tsv is one line, whatever its texts have, and quotes are text.
func TestTSV(t *testing.T) {
	table := &Table{Title: "t", Columns: []Column{{Name: "text"}, {Name: "time", Unit: Seconds}, {Name: "shown", Place: TextOnly}, {Name: "unknown"}}}
	table.Add("a\tb\n\"c\" =1\x1b", 0.1, "x", nil)
	table.Add("=1", 2.0, "x", true)
	want := "text\ttime_s\tunknown\n" + `a\tb\n"c" =1\x1b` + "\t0.1\t\n'=1\t2\ttrue\n"
	if got := render(t, table, TSV, Options{}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, name := range []string{"md", "markdown"} {
		if f, err := ParseFormat(name); f != Markdown || err != nil {
			t.Errorf("%s: %s, %v", name, f, err)
		}
	}
}
