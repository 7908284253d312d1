package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results/paper"
)

// PaperTables has a table for each of the paper's tables and figures, published
// values beside those from runs.
func PaperTables(p paper.Page) []*Table {
	var out []*Table
	if len(p.Answers) > 0 {
		out = append(out, PaperAnswers(p))
	}
	for _, t := range p.Tables {
		out = append(out, PaperTable(t))
	}
	if len(p.Besides) > 0 {
		out = append(out, PaperSimulated(p))
	}
	return out
}

// PaperSimulated has a row for each cell that was both measured and simulated.
func PaperSimulated(p paper.Page) *Table {
	t := &Table{Title: "Makespans, SIMULATED beside measured", Columns: []Column{
		{Name: "system", Heading: "paper's system"}, {Name: "mix"}, {Name: "scheduler"}, {Name: "measured", Unit: Seconds}, {Name: "measured_n", Heading: "N", Drop: 2},
		{Name: "simulated", Heading: "SIMULATED", Unit: Seconds}, {Name: "simulated_n", Heading: "N", Drop: 2}, {Name: "ratio", Unit: Factor}, {Name: "node", Heading: "on", Drop: 1},
	}}
	for _, b := range p.Besides {
		t.Add(b.System, b.Mix, b.Scheduler, b.Measured.Median, b.Measured.N, b.Simulated.Median, b.Simulated.N, b.Ratio(), b.Node)
	}
	t.Say(paper.Off(p.Besides)...)
	return t
}

// PaperAnswers has a row for each statement of the paper and each system.
func PaperAnswers(p paper.Page) *Table {
	t := &Table{Title: "What the paper states, and whether runs show it", Columns: []Column{
		{Name: "statement"}, {Name: "source", Heading: "in"}, {Name: "system", Heading: "paper's system"}, {Name: "answer"},
		{Name: "number", Unit: Factor}, {Name: "wanted"}, {Name: "metric", Drop: 2}, {Name: "case", Heading: "of"},
		{Name: "holds", Heading: "so in"}, {Name: "measured", Drop: 3}, {Name: "cases", Drop: 3},
		{Name: "node", Heading: "on", Drop: 1}, {Name: "mode", Place: DataOnly}, {Name: "mode_text", Heading: "how", Place: TextOnly}, {Name: "missing", Place: DataOnly},
	}}
	stuck := slices.ContainsFunc(p.Answers, func(a paper.Answer) bool { return a.Stuck > 0 })
	if stuck {
		t.Columns = append(t.Columns, Column{Name: "stuck"})
	}
	for _, a := range p.Answers {
		how := ""
		if a.Mode != "" {
			how = paper.Says(a.Mode)
		}
		row := []any{a.Says, a.Source, a.System, a.Answer, a.Number, a.Wants(), strings.ReplaceAll(a.Metric, "_", " "), given(a.Case), a.Holds, a.Measured, a.Cases,
			given(a.Node), given(string(a.Mode)), given(how), a.Missing}
		if stuck {
			row = append(row, a.Stuck)
		}
		t.Add(row...)
	}
	t.Say("The number is that of the case which is nearest to the limit, or furthest beyond it.")
	if stuck {
		t.Say("Stuck are cases without a number, because jobs stood still in their runs, or in those with which they are compared.")
	}
	return t
}

// PaperTable has a row for each number.
func PaperTable(p paper.Table) *Table {
	unit := paperUnit(p.Rows[0])
	mixed := slices.ContainsFunc(p.Rows, func(r paper.Row) bool { return paperUnit(r) != unit })
	inPoints, inFactors := Everywhere, DataOnly
	if mixed || unit != Ratio {
		inPoints, inFactors = DataOnly, Everywhere
	}
	if mixed { // each cell says its own unit
		unit = Factor
	}
	// The title names the metric where there is only one.
	dropMetric := 3
	if slices.ContainsFunc(p.Rows, func(r paper.Row) bool { return r.Metric != p.Rows[0].Metric }) {
		dropMetric = 0
	}
	dropBounds := 0
	if p.Places { // which take their room
		dropBounds = 3
	}
	t := &Table{Title: p.Title(), Columns: []Column{
		{Name: "source", Place: DataOnly}, {Name: "system", Heading: "paper's system"}, {Name: "workload"}, {Name: "scheduler"}, {Name: "metric", Place: DataOnly},
		{Name: "metric_text", Heading: "metric", Place: TextOnly, Drop: dropMetric},
		{Name: "published", Unit: unit}, {Name: "measured", Heading: p.How(), Unit: unit},
		{Name: "measured_low", Heading: "low", Unit: unit, Drop: dropBounds}, {Name: "measured_high", Heading: "high", Unit: unit, Drop: dropBounds}, {Name: "n", Heading: "N", Drop: 2},
		{Name: "ratio", Unit: Factor, Place: inFactors}, {Name: "difference", Heading: "difference, points", Unit: Points, Place: inPoints},
		{Name: "node", Heading: "on", Drop: 1}, {Name: "mode", Place: DataOnly}, {Name: "run_ids", Place: DataOnly}, {Name: "missing", Place: DataOnly}, {Name: "not_comparable", Place: DataOnly},
	}}
	if mixed {
		t.Columns = append(t.Columns, Column{Name: "unit", Place: DataOnly})
	}
	if p.Places {
		t.Columns = append(t.Columns, Column{Name: "stated_in"})
	}
	var lost []string
	for _, r := range p.Rows {
		t.Add(paperCells(p, r, mixed)...)
		if r.LostMore {
			lost = append(lost, r.Scheduler+" with "+r.Workload)
		}
	}
	t.Say(p.Agreement)
	if len(lost) > 0 {
		t.Say("Not comparable, because of the two schedulers the one that looks better lost significantly more jobs: " + strings.Join(lost, ", ") + ".")
	}
	t.Say(p.Notes...)
	return t
}

// paperCells are the row of a number. If mixed, each cell says its own unit.
func paperCells(p paper.Table, r paper.Row, mixed bool) []any {
	number := func(v any) any {
		if f, ok := v.(float64); ok && mixed {
			return Cell{Value: f, Text: Human(f, paperUnit(r))}
		}
		return v
	}
	var published, median, low, high, n any
	if r.Published != nil {
		published = number(*r.Published)
	}
	if e := r.Measured; e != nil {
		median, low, high, n = number(e.Median), number(finite(e.Low)), number(finite(e.High)), e.N
	}
	row := []any{p.Source, r.System, r.Workload, r.Scheduler, r.Metric, strings.ReplaceAll(r.Metric, "_", " "),
		published, median, low, high, n, r.Ratio(), r.Difference(), given(r.Node), given(string(r.Mode)), joined(r.Runs), r.Missing, r.LostMore}
	if mixed {
		row = append(row, r.Unit)
	}
	if p.Places {
		row = append(row, r.Source)
	}
	return row
}

// PaperCurves is the data behind a figure of curves.
func PaperCurves(f paper.Figure) *Table {
	t := &Table{Title: f.Title, Columns: []Column{
		{Name: "figure"}, {Name: "mode"}, {Name: "run_id"}, {Name: "scheduler"}, {Name: "from", Unit: Seconds}, {Name: "to", Unit: Seconds},
		{Name: "utilization", Unit: Ratio},
	}}
	for _, c := range f.Curves {
		for i, level := range c.Levels {
			t.Add(f.ID, c.Mode, c.Run, c.Name, float64(i)*c.WindowS, float64(i+1)*c.WindowS, finite(level))
		}
	}
	return t
}

func joined(ids []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ";"), "[]")
}

func paperUnit(r paper.Row) Unit {
	switch r.Unit {
	case "jobs/s":
		return JobsPerSecond
	case "s":
		return Seconds
	case "bytes":
		return Bytes
	case "faults", "runs", "swaps":
		return None
	case "fraction":
		return Ratio
	}
	return Factor
}

// PaperPage writes a Markdown page with every table and figure. Figures are
// files beside it, named by their ID.
func PaperPage(w io.Writer, p paper.Page) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s's evaluation, published and from runs\n\n", p.Paper.Title)
	for _, n := range p.Nodes {
		if len(n.Times) > 0 {
			fmt.Fprintf(&out, "- Beside the paper's %s: measured, %s in %s.\n", n.System, size.Count(len(n.Times), "kernel time"), literal(oneLine(n.Name)))
			continue
		}
		machines := ""
		if n.Machines != "" {
			machines = " of several machines (" + literal(oneLine(n.Machines)) + "); the first is named"
		}
		parts := ""
		if len(n.Parts) > 0 {
			parts = fmt.Sprintf("; left out: %d of other mixes with a paper mix's name", len(n.Parts))
		}
		fmt.Fprintf(&out, "- Beside the paper's %s: %s on %s (%s), %s%s%s.\n", n.System, paper.Says(n.Mode), literal(oneLine(n.Name)), literal(oneLine(n.Hardware)), size.Count(len(n.Runs), "run"), machines, parts)
	}
	fmt.Fprintf(&out, "- Measured or simulated values are medians over N repetitions; low and high bound a %.0f %% confidence interval of the median, for which 6 repetitions are needed.\n", paper.Confidence*100)
	fmt.Fprintf(&out, "- Published values are of %s. A ratio is measured or simulated over published, a difference that minus published.\n\n## How far they agree\n\n", p.Paper.Cite)
	for _, t := range p.Tables {
		fmt.Fprintf(&out, "- %s (%s). %s\n", t.Source, t.What, t.Agreement)
	}
	if len(p.Answers) > 0 {
		fmt.Fprint(&out, "\n## Statements\n\n")
		out.Write(PaperAnswers(p).markdown())
	}
	fmt.Fprint(&out, "\n## Tables and figures\n")
	drawn := map[string]paper.Figure{}
	for _, f := range p.Figures {
		drawn[f.ID] = f
	}
	for _, t := range p.Tables {
		fmt.Fprintln(&out)
		out.Write(PaperTable(t).markdown())
		if f, ok := drawn[t.ID()]; ok {
			fmt.Fprintf(&out, "\n![%s](%s.svg)\n\n%s\n", f.Title, f.ID, f.Caption)
		}
	}
	if len(p.Besides) > 0 {
		fmt.Fprintln(&out)
		out.Write(PaperSimulated(p).markdown())
	}
	_, err := w.Write(out.Bytes())
	return err
}
