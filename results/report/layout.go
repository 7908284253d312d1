package report

import "strings"

// layout is how the format table shows a table.
type layout struct {
	grid
	fields bool   // a line for each field, without a header
	width  int    // that lines have at most, 0: any
	notes  []Note // about the layout
}

// lay chooses a table's layout. Off a terminal the table is whole: prose alone is wrapped. A table that does not fit
// a terminal leaves out columns with a Drop, unless it is to keep all. If the others do not fit either, each row is
// a block of fields.
func (t *Table) lay(o Options) layout {
	l := layout{grid: t.grid(), fields: t.Sheet, width: Width}
	if t.Sheet {
		l.grid = l.sheet()
	}
	switch {
	case o.Columns == 0:
		if o.Wide {
			l.width = 0
		}
		return l
	case o.Wide || o.Columns < Width:
		l.width = o.Columns
	}
	columns := max(l.width, o.Columns)
	if o.Columns < Width {
		l.narrow()
	}
	whole := l.grid
	fitted, dropped, fits := whole.fit(columns, !o.Wide || t.Detail)
	switch {
	case !fits && !t.Sheet:
		l.fields = true
		l.grid, _, _ = whole.sheet().fit(columns, false)
	case dropped > 0:
		l.notes = []Note{{Text: whole.without(dropped, t.Detail)}}
		fallthrough
	default:
		l.grid = fitted
	}
	return l
}

// narrow makes the columns with a Narrow droppable, after the others.
func (g grid) narrow() {
	most := 0
	for _, c := range g.columns {
		most = max(most, c.Narrow)
	}
	for i := range g.columns {
		c := &g.columns[i]
		if c.Drop > 0 {
			c.Drop += most
		} else {
			c.Drop = c.Narrow
		}
	}
}

// without says on a terminal which columns are left out, and what has them.
func (g grid) without(dropped int, detail bool) string {
	var names []string
	for _, c := range g.columns {
		if c.Drop >= dropped {
			names = append(names, c.heading())
		}
	}
	where := "-v shows every column."
	if detail {
		where = "--format csv has every column."
	}
	return "left out, because the terminal is narrow: " + strings.Join(names, ", ") + ". " + where
}
