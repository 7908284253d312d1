package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated tables into the documents")

// TestThePageShowsWhatTheModelPredicts keeps the tables of docs/simulation.md true.
func TestThePageShowsWhatTheModelPredicts(t *testing.T) {
	showsTables(t, "../../docs/simulation.md", []generated{
		{"flatness", flatness},
		{"utilization", utilization},
		{"table7", table7},
		{"ratios", ratios},
		{"table3", table3},
		{"table4", table4},
		{"turnaround", turnaround},
		{"darknet", darknet},
	})
}

// generated is a table of a page, which stands between markers with its name.
type generated struct {
	name     string
	generate func(testing.TB) string
}

// showsTables compares a page's tables with what is generated, or with -update rewrites them.
func showsTables(t *testing.T, page string, tables []generated) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, section := range tables {
		begin, end := "<!-- begin "+section.name+" -->\n", "<!-- end "+section.name+" -->"
		before, rest, found := strings.Cut(text, begin)
		shown, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Errorf("%s has no place for the table %s", page, section.name)
			continue
		}
		want := section.generate(t)
		if shown == want {
			continue
		}
		if !*update {
			t.Errorf("%s: the table %s is not what the model predicts: run this test with -update, and read the text around the table again\ngot:\n%s\nwant:\n%s",
				page, section.name, shown, want)
			continue
		}
		text = before + begin + want + end + after
	}
	if *update && text != string(data) {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// table is a Markdown table; the first row is its head.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}

// errorOf is simulated against published in percent of the published value.
func errorOf(simulated, published float64) string {
	return fmt.Sprintf("%+.0f", 100*(simulated/published-1))
}
