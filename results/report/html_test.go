package report

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A page shows of a cell what no other format shows. csv has its value alone.
func TestCellsOfPages(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "run_id", Heading: "run"}, {Name: "hidden"}, {Name: "crash_rate", Heading: "crashed", Title: "Crashed jobs", Unit: Ratio, Crashes: true},
		{Name: "throughput", Unit: Factor, Class: "wide"}, {Name: "wait", Unit: Seconds}, {Name: "n"}}}
	table.Add(Cell{Value: 7, Text: "7 ⚠", Link: "#run-7"}, "x", Cell{Value: 0.25, Small: "1 of 4"}, Cell{Value: 1.84, Doubt: "survivors only"}, 0.5, 3)
	table.Add(8, "x", 0.0, nil, nil, 12_345_678)
	table = table.Pick("n", "run_id", "crash_rate", "throughput", "wait_s")
	table.Page = Page{Class: "sortable", Named: true, Foot: true}

	type shown struct{ Text, Small, Doubt, Link, Class, Sort, Of string }
	of := func(cells []HTMLCell) (out []shown) {
		for _, c := range cells {
			out = append(out, shown{c.Text, c.Small, c.Doubt, c.Link, c.Class, c.Sort, c.Of})
		}
		return out
	}
	rows := table.HTML()
	for i, want := range [][]shown{
		{{Text: "3", Class: "n", Sort: "3"}, {Text: "7 ⚠", Link: "#run-7", Sort: "7", Of: "Run"}, {Text: "✕ 25.0 %", Small: "1 of 4", Class: "n", Sort: "0.25", Of: "Crashed jobs"},
			{Text: "1.84×", Doubt: "survivors only", Class: "n wide", Sort: "1.84", Of: "Throughput"}, {Text: "500 ms", Class: "n", Sort: "0.5", Of: "Wait"}},
		{{Text: "12345678", Class: "n", Sort: "12345678"}, {Text: "8", Sort: "8", Of: "Run"}, {Text: "0.0 %", Class: "n", Sort: "0", Of: "Crashed jobs"},
			{Text: "–", Class: "n wide", Of: "Throughput"}, {Text: "–", Class: "n", Of: "Wait"}},
	} {
		if diff := cmp.Diff(want, of(rows[i].Cells)); diff != "" {
			t.Errorf("row %d: %s", i, diff)
		}
		if !rows[i].Cells[0].Head || rows[i].Foot != (i == 1) {
			t.Errorf("row %d: %+v", i, rows[i])
		}
	}
	for format, want := range map[Format]string{CSV: "n,run_id,crash_rate,throughput,wait_s\n3,7,0.25,1.84,0.5\n12345678,8,0,,\n",
		Markdown: "### \n\n| n | run | crashed | throughput | wait |\n| ---:| --- | ---:| ---:| ---:|\n| 3 | 7 ⚠ | 25.0 % | 1.84 | 500 ms |\n| 12345678 | 8 | 0.0 % | - | - |\n"} {
		var out bytes.Buffer
		if err := table.Render(&out, format, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
}
