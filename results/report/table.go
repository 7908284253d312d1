// Package report turns runs into tables, and tables into text, CSV, JSON and Markdown.
// Every output with simulated numbers says so: text and Markdown in the title, CSV and JSON
// in a column mode.
package report

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Unit is the base unit of a column's numbers.
type Unit int

const (
	None Unit = iota
	Seconds
	Bytes
	Hertz
	JobsPerSecond
	Joules
	Watts
	Ratio  // a fraction, shown as a percentage
	Points // a difference of fractions, shown in percentage points, which the heading names
	Factor // a quotient of like quantities, shown as it is
)

var suffixes = map[Unit]string{Seconds: "_s", Bytes: "_bytes", Hertz: "_hz", JobsPerSecond: "_jobs_per_s", Joules: "_j", Watts: "_w"}

// Place says which formats show a column.
type Place int

const (
	Everywhere Place = iota
	DataOnly         // csv and json
	TextOnly         // table and markdown
	PageOnly
)

// Column describes one column. Name with its unit's suffix is the header in csv and json; it
// is the store's column name if the store has the column. Heading is the header in table
// and markdown, by default Name with spaces.
type Column struct {
	Name    string
	Heading string
	Unit    Unit
	Place   Place
	// Drop orders the columns that a table leaves out where it would be wider than
	// Width: the highest goes first, columns of the same go together, and 0 never.
	Drop int
	// Narrow is a Drop for terminals of fewer than Width columns. These columns go after those
	// with a Drop.
	Narrow int
	// Cut is the least width to which long text is cut in its middle, as names of functions
	// are. 0: text is wrapped.
	Cut int
	// Title is the heading on a page, by default Heading with a capital letter.
	Title string
	// Crashes are numbers of jobs that crashed, or outcomes of jobs: a page marks numbers above 0
	// and outcomes that are not ok.
	Crashes bool
	Class   string // of a page's cells
	// Judges are verdicts, which a terminal shows in colours.
	Judges bool
}

// Header is the column's name in csv and json, unit included.
func (c Column) Header() string { return c.Name + suffixes[c.Unit] }

func (c Column) heading() string {
	if c.Heading != "" {
		return c.Heading
	}
	return strings.ReplaceAll(c.Name, "_", " ")
}

func (c Column) title() string {
	if c.Title != "" {
		return c.Title
	}
	text := strings.TrimSpace(c.heading())
	return strings.ToUpper(text[:1]) + text[1:]
}

// Note is a remark below a table in table and markdown; csv and json have in columns what
// notes say. Block is text that is shown as it is, such as the end of a job's stderr.
type Note struct {
	Text  string
	Block string
}

// Table is what the renderers know of a table. Cells are nil, string, bool, int64, float64 or a
// Cell with one of these; Add converts them.
type Table struct {
	Title   string
	Name    string // of its kind, in names of files and labels; tables of one kind are one table in data
	Caption string // in LaTeX: the title in words
	Columns []Column
	Rows    [][]any
	Notes   []Note
	// Sheet shows each row as a list of fields, for tables of one wide row.
	Sheet bool
	// Detail is a table that is only printed with -v. On a narrow terminal it leaves out
	// columns even then.
	Detail bool
	Page   Page
}

// Say appends notes.
func (t *Table) Say(texts ...string) {
	for _, text := range texts {
		t.Notes = append(t.Notes, Note{Text: text})
	}
}

// Add appends a row with one value per column. It follows pointers; nil is unknown. A value
// that cannot be a cell is a fault of the caller, and panics.
func (t *Table) Add(values ...any) {
	if len(values) != len(t.Columns) {
		panic(fmt.Sprintf("report: table %q: %d values for %d columns", t.Title, len(values), len(t.Columns)))
	}
	row := make([]any, len(values))
	for i, v := range values {
		row[i] = cell(v)
	}
	t.Rows = append(t.Rows, row)
}

func cell(value any) any {
	if value == nil {
		return nil
	}
	switch v := value.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case Cell:
		v.Value = cell(v.Value)
		return v
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return cell(v.Elem().Interface())
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := v.Uint(); u>>63 == 0 {
			return int64(u)
		}
		return fmt.Sprint(value)
	case reflect.Float32, reflect.Float64:
		return v.Float()
	}
	panic(fmt.Sprintf("report: a cell cannot be a %T", value))
}

// in gives the columns that one kind of format shows, and their cells in each row.
func (t *Table) in(place Place) (columns []Column, rows [][]any) {
	rows = make([][]any, len(t.Rows))
	for i, c := range t.Columns {
		if c.Place != Everywhere && c.Place != place {
			continue
		}
		columns = append(columns, c)
		for r := range t.Rows {
			v := t.Rows[r][i]
			if c, ok := v.(Cell); ok && place == DataOnly {
				v = c.Value
			}
			rows[r] = append(rows[r], v)
		}
	}
	return columns, rows
}
