package report

import (
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// Cell is a cell with more than a value.
type Cell struct {
	Value any    // what csv and json have, and by which pages sort
	Text  string // for readers; empty: Value with its unit
	// Pages alone show what follows.
	Small string // beside the text: an interval, or the counts behind a share
	Doubt string // what takes value from the figure
	// Verdict is what a comparison found. Arrow shows whether the figure is the larger or the smaller one.
	Arrow   string
	Verdict stats.Verdict
	Title   string // shown at the pointer
	Link    string
	// LaTeX alone shows what follows.
	Best bool // of its like
}

// Page is how a page shows a table.
type Page struct {
	Label   string // of the region in which the table scrolls; empty: the title
	Caption string
	Class   string              // with "sortable", cells have the numbers to sort by
	Rows    []template.HTMLAttr // attributes of the rows
	Named   bool                // each cell names its column, for narrow screens
	Foot    bool                // the last row sums up the others
}

// HTMLRow is a row as a template writes it.
type HTMLRow struct {
	Attributes template.HTMLAttr
	Foot       bool
	Cells      []HTMLCell
}

// HTMLCell is a cell as a template writes it, with its text.
type HTMLCell struct {
	Cell
	Head  bool   // it names its row
	Of    string // its column
	Class string
	Sort  string // the number by which to sort
}

// Pick has the columns of these names, or headers.
func (t *Table) Pick(names ...string) *Table {
	out := &Table{Title: t.Title, Rows: make([][]any, len(t.Rows))}
	for _, name := range names {
		at := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name || c.Header() == name })
		out.Columns = append(out.Columns, t.Columns[at])
		for r := range t.Rows {
			out.Rows[r] = append(out.Rows[r], t.Rows[r][at])
		}
	}
	return out
}

// Headings are the headings of all columns for a template.
func (t *Table) Headings() []HTMLCell {
	var out []HTMLCell
	for i, c := range t.Columns {
		h := HTMLCell{Cell: Cell{Text: oneLine(c.title())}, Class: c.Class}
		if c.Unit != None || numeric(t.Rows, i, func(v Cell) bool { return v.Link != "" }) {
			h.Class = strings.TrimSpace("n " + c.Class)
		}
		out = append(out, h)
	}
	return out
}

// HTML are the rows with all columns for a template. The first column names the rows, unless it is a measure.
func (t *Table) HTML() []HTMLRow {
	out := make([]HTMLRow, len(t.Rows))
	headings, sortable := t.Headings(), strings.Contains(t.Page.Class, "sortable")
	for r, row := range t.Rows {
		out[r].Foot = t.Page.Foot && r == len(t.Rows)-1
		if r < len(t.Page.Rows) {
			out[r].Attributes = t.Page.Rows[r]
		}
		for i, v := range row {
			c := t.Columns[i].html(v)
			c.Class, c.Head = headings[i].Class, i == 0 && t.Columns[i].Unit == None
			if t.Page.Named && !c.Head {
				c.Of = headings[i].Text
			}
			if !sortable {
				c.Sort = ""
			}
			out[r].Cells = append(out[r].Cells, c)
		}
	}
	return out
}

func (c Column) html(v any) HTMLCell {
	out := HTMLCell{Cell: asCell(v)}
	number := false
	switch v := out.Value.(type) {
	case int64:
		out.Sort = strconv.FormatInt(v, 10)
	case float64:
		out.Sort, number = strconv.FormatFloat(v, 'g', 7, 64), true
	}
	switch {
	case out.Text != "":
		out.Text = Printable(out.Text, "\u00a0")
	case out.Value == nil:
		out.Text = "–"
	case c.Unit == Factor && number:
		out.Text = regress.RatioText(out.Value.(float64)) + "×"
	default:
		out.Text = humanCell(out.Value, c.Unit)
	}
	if c.bad(out.Value) {
		out.Text = "✕ " + out.Text
	}
	return out
}

// bad reports whether a cell tells of jobs that crashed.
func (c Column) bad(v any) bool {
	switch v := v.(type) {
	case int64:
		return c.Crashes && v > 0
	case float64:
		return c.Crashes && v > 0
	case string:
		return c.Crashes && !results.Outcome(v).CountsAsOK()
	}
	return false
}

func asCell(v any) Cell {
	if c, ok := v.(Cell); ok {
		return c
	}
	return Cell{Value: v}
}
