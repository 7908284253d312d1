package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// Format is one of the values of --format.
type Format string

const (
	Text     Format = "table"
	CSV      Format = "csv"
	TSV      Format = "tsv"
	JSON     Format = "json"
	Markdown Format = "md"

	markdown Format = "markdown" // another name of Markdown
)

// formats are the values of --format, and what each has.
var formats = []struct {
	format Format
	about  string
}{
	{Text, "for readers: rounded numbers with units; on a terminal as wide as it, or 100 columns"},
	{CSV, "one line a row: full precision in base units, which the header names"},
	{TSV, "csv with tabs: a tab or a line break in a text is an escape, and quotes are text"},
	{JSON, "one array of objects: full precision in base units, null where unknown"},
	{Markdown, "for documents: rounded numbers with units"},
}

// Formats lists the values of --format.
func Formats() (all []Format) {
	for _, f := range formats {
		all = append(all, f.format)
	}
	return all
}

// About says what a format has.
func (f Format) About() string {
	for _, known := range formats {
		if known.format == f {
			return known.about
		}
	}
	return ""
}

// FormatNames lists the values of --format as a sentence does.
func FormatNames() string {
	var names []string
	for _, f := range Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// ParseFormat checks a value of --format.
func ParseFormat(s string) (Format, error) {
	if Format(s) == markdown {
		return Markdown, nil
	}
	if !slices.Contains(Formats(), Format(s)) {
		return "", fmt.Errorf("format %q: want %s", s, FormatNames())
	}
	return Format(s), nil
}

// Options say how to print the format table.
type Options struct {
	// Color makes the format table use colours. The caller decides, from
	// NO_COLOR and from whether the output is a terminal.
	Color bool
	// Wide makes the format table keep every column on a terminal. Without it lines have at most Width
	// characters there.
	Wide bool
	// Columns is the width of the terminal that shows the table. 0: none does, and the table has every
	// column and is as wide as its cells.
	Columns int
}

// Render writes the table. csv, tsv and json have full-precision numbers in base units, which
// their headers name. table and markdown round them, and name the unit in the cell. An
// unknown value is "-" in table and markdown, empty in csv and null in json.
func (t *Table) Render(w io.Writer, f Format, o Options) error {
	var out []byte
	var err error
	switch f {
	case Text:
		out = t.text(o)
	case Markdown:
		out = t.markdown()
	case CSV:
		out, err = t.csv()
	case TSV:
		out = t.tsv()
	case JSON:
		out = t.json()
	default:
		_, err = ParseFormat(string(f))
	}
	if err == nil {
		_, err = w.Write(out)
	}
	if err != nil {
		return fmt.Errorf("write %q as %s: %w", t.Title, f, err)
	}
	return nil
}

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

func (t *Table) text(o Options) []byte {
	paint := func(c Column, s string) string {
		if color := c.color(s); o.Color && color != "" {
			return color + s + reset
		}
		return s
	}
	var out bytes.Buffer
	l := t.lay(o)
	prose := oneLine
	if l.width > 0 {
		prose = func(s string) string { return wrap(prosePieces(oneLine(s)), l.width) }
	}
	title := prose(t.Title)
	if o.Color {
		title = bold + title + reset
	}
	fmt.Fprintln(&out, title)
	fmt.Fprintln(&out)
	fmt.Fprintln(&out, l.writer(!l.fields, paint).Render())
	for i, n := range append(l.notes, t.Notes...) {
		if i == 0 {
			fmt.Fprintln(&out)
		}
		fmt.Fprintln(&out, prose(n.Text))
		for _, line := range lines(n.Block) {
			fmt.Fprintln(&out, strings.TrimRight("  | "+line, " "))
		}
	}
	return out.Bytes()
}

// verdicts are the colours of what comparisons and gates say.
var verdicts = map[string]string{
	string(regress.Passed): green, string(stats.Better): green,
	string(regress.Regression): red, string(regress.Crash): red, classCell(regress.EnvironmentChanged).Text: red, string(stats.Worse): red,
	string(regress.Noise): yellow, string(regress.NotComparable): yellow, classCell(regress.NothingMeasured).Text: yellow, string(stats.Inconclusive): yellow,
}

// color is that of a cell's text on a terminal; empty: as other text.
func (c Column) color(cell string) string {
	switch {
	case c.Judges:
		return verdicts[cell]
	case !c.Crashes || c.Name != "outcome" || cell == unknown:
		return ""
	case cell == string(results.OK):
		return green
	case results.Outcome(cell).CountsAsOK():
		return yellow
	}
	return red
}

// literal escapes text so that Markdown shows it as it is. go-pretty escapes the bars, but
// not what could undo its escapes.
var literal = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", "&lt;", "[", `\[`).Replace

func (t *Table) markdown() []byte {
	g := t.grid()
	if t.Sheet {
		g = g.sheet()
	}
	table := g.writer(true, func(_ Column, s string) string { return literal(s) })
	var out bytes.Buffer
	fmt.Fprintf(&out, "### %s\n\n%s\n", literal(oneLine(t.Title)), table.RenderMarkdown())
	for _, n := range t.Notes {
		fmt.Fprintf(&out, "\n%s\n", literal(oneLine(n.Text)))
		for i, line := range lines(n.Block) {
			if i == 0 {
				fmt.Fprintln(&out)
			}
			fmt.Fprintln(&out, strings.TrimRight("    "+line, " "))
		}
	}
	return out.Bytes()
}

func lines(block string) []string {
	if block = strings.TrimRight(block, "\r\n"); block == "" {
		return nil
	}
	var out []string
	for _, line := range strings.Split(block, "\n") {
		out = append(out, oneLine(strings.TrimSuffix(line, "\r")))
	}
	return out
}

// writer fills a go-pretty table with the cells, each through paint.
func (g grid) writer(header bool, paint func(Column, string) string) table.Writer {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Format.Header = text.FormatDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", gap)
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	headings := make(table.Row, len(g.columns))
	configs := make([]table.ColumnConfig, len(g.columns))
	for c := range g.columns {
		headings[c] = g.columns[c].heading()
		configs[c] = table.ColumnConfig{Number: c + 1, VAlignHeader: text.VAlignBottom}
		if g.numbers[c] {
			configs[c].Align, configs[c].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	if header {
		w.AppendHeader(headings)
	}
	w.SetColumnConfigs(configs)
	for _, cells := range g.cells {
		row := make(table.Row, len(g.columns))
		for c := range g.columns {
			row[c] = paint(g.columns[c], cells[c])
		}
		w.AppendRow(row)
	}
	return w
}

// numeric reports whether a column has only numbers, none of which is shown as a text.
func numeric(rows [][]any, column int, text func(Cell) bool) bool {
	numbers := false
	for _, row := range rows {
		c := asCell(row[column])
		if text(c) {
			return false
		}
		switch c.Value.(type) {
		case int64, float64:
			numbers = true
		case nil:
		default:
			return false
		}
	}
	return numbers
}

func (t *Table) csv() ([]byte, error) {
	columns, rows := t.in(DataOnly)
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.Header()
	}
	if err := w.Write(record); err != nil {
		return nil, err
	}
	for _, row := range rows {
		for i, v := range row {
			record[i] = dataText(v)
		}
		if err := w.Write(record); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return out.Bytes(), w.Error()
}

// tsv has a line for each row. Texts have no tabs and no line breaks, so that no cell needs quotes.
func (t *Table) tsv() []byte {
	columns, rows := t.in(DataOnly)
	var out bytes.Buffer
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.Header()
	}
	fmt.Fprintln(&out, strings.Join(record, "\t"))
	for _, row := range rows {
		for i, v := range row {
			record[i] = Printable(dataText(v), "")
		}
		fmt.Fprintln(&out, strings.Join(record, "\t"))
	}
	return out.Bytes()
}

// Data reports whether the format is for programs: it has full precision and every column, and no notes.
func (f Format) Data() bool { return f == CSV || f == TSV || f == JSON }

// dataText is a cell in csv.
func dataText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return csvText(v)
	}
	if s := string(dataJSON(v)); s != "null" {
		return s
	}
	return ""
}

// formulaStarts are the first characters of cells that spreadsheets calculate, or execute
// (OWASP, CSV Injection). A carriage return is one too; it is escaped as not printable.
const formulaStarts = "=+-@\t\n＝＋－＠"

// csvText is text in csv. An apostrophe before it makes spreadsheets take it for text.
func csvText(s string) string {
	s = Printable(s, "\n\t")
	if first, size := utf8.DecodeRuneInString(s); size > 0 && strings.ContainsRune(formulaStarts, first) {
		return "'" + s
	}
	return s
}

// dataJSON is a cell in json. Numbers that JSON does not know are null. All characters that
// are not printable are escaped; json.Encoder escapes only some of them.
func dataJSON(v any) []byte {
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return []byte("null")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // cells are of types that always encode
	}
	text := bytes.TrimSpace(out.Bytes())
	if bytes.ContainsFunc(text, unprintable) {
		text = escapeJSON(text)
	}
	return text
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// escapeJSON escapes characters that are not printable, which occur only within strings.
func escapeJSON(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if strconv.IsPrint(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// json is an object with a title and rows. Each row is an object whose keys are in the order
// of the columns.
func (t *Table) json() []byte {
	columns, rows := t.in(DataOnly)
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  \"title\": %s,\n  \"rows\": [", dataJSON(t.Title))
	for r, row := range rows {
		if r > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n    {")
		for i, v := range row {
			if i > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, "\n      %s: %s", dataJSON(columns[i].Header()), dataJSON(v))
		}
		out.WriteString("\n    }")
	}
	if len(rows) > 0 {
		out.WriteString("\n  ")
	}
	out.WriteString("]\n}\n")
	return out.Bytes()
}

// RenderAll prints tables with an empty line between. In JSON several tables are one array. A stream of CSV or TSV has the
// first table alone, with the rows of all tables that have its columns.
func RenderAll(w io.Writer, f Format, o Options, tables ...*Table) error {
	if f == CSV || f == TSV {
		tables = kinds(tables)[:min(1, len(tables))]
	}
	begin, between, end := "", "\n", ""
	if f == JSON && len(tables) > 1 {
		begin, between, end = "[\n", ",\n", "]\n"
	}
	fmt.Fprint(w, begin)
	for i, t := range tables {
		if i > 0 {
			fmt.Fprint(w, between)
		}
		if err := t.Render(w, f, o); err != nil {
			return fmt.Errorf("print table: %w", err)
		}
	}
	fmt.Fprint(w, end)
	return nil
}
