package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// LaTeX writes tables as LaTeX, each as a float with booktabs' rules. A comment at the
// beginning says what the document needs. Columns and rounding are those of the format table.
// A table that is wider than a line is made smaller, down to smallest; a wider one loses columns first.
func LaTeX(w io.Writer, about string, tables ...*Table) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%% %s\n%% It needs \\usepackage{booktabs,graphicx}.\n", strings.ReplaceAll(oneLine(about), "\n", " "))
	seen := map[string]int{}
	for _, t := range tables {
		label := "tab:caserun-" + labelOf(cmp.Or(t.Name, "table"))
		if seen[label]++; seen[label] > 1 {
			label = fmt.Sprintf("%s-%d", label, seen[label])
		}
		out.WriteString("\n")
		out.Write(t.narrowed(lineWidth / smallest).latex(label))
	}
	_, err := w.Write(out.Bytes())
	return err
}

// labelOf is a name as a label may have it.
func labelOf(name string) string { return notInLabels.ReplaceAllString(strings.ToLower(name), "-") }

var notInLabels = regexp.MustCompile(`[^a-z0-9]+`)

// What LaTeX makes of a table, in points: a line of the class article, and about what a character and the space between two
// columns take there.
const (
	lineWidth = 345
	charWidth = 3.95
	sepWidth  = 6
)

// smallest is to what share of its size a table is made smaller before it loses columns: 6.4 points.
const smallest = 0.8

// latexWidth is about how wide LaTeX makes the grid, in points.
func (g grid) latexWidth() float64 {
	width := float64(sepWidth * (len(g.columns) - 1))
	for c, column := range g.columns {
		widest := displayWidth(column.heading())
		for _, row := range g.cells {
			widest = max(widest, displayWidth(row[c]))
		}
		width += charWidth * float64(widest)
	}
	return width
}

// narrowed leaves out the columns with the highest Drop, and then those of intervals, until the table has the width.
func (t *Table) narrowed(width float64) *Table {
	leaves := func(c Column) int {
		switch {
		case c.Place == DataOnly:
			return 0
		case c.Drop > 0:
			return 1 + c.Drop
		case strings.HasSuffix(c.Name, "_interval"):
			return 1
		}
		return 0
	}
	out := *t
	out.Columns, out.Rows = slices.Clone(t.Columns), slices.Clone(t.Rows)
	for out.grid().latexWidth() > width {
		most := 0
		for _, c := range out.Columns {
			most = max(most, leaves(c))
		}
		if most == 0 {
			break
		}
		for i, c := range out.Columns {
			if leaves(c) == most {
				out.Columns[i].Place = DataOnly
				out.keepMarks(i)
			}
		}
	}
	return &out
}

// keepMarks gives the marks of a column of intervals to the values before it.
func (t *Table) keepMarks(column int) {
	for r, row := range t.Rows {
		text := []rune(humanCell(row[column], None))
		if n := len(text); n > 0 && strings.ContainsRune(SurvivorsMark+lostMoreMark, text[n-1]) {
			value := asCell(row[column-1])
			value.Text = humanCell(value, t.Columns[column-1].Unit) + string(text[n-1])
			t.Rows[r] = slices.Clone(row)
			t.Rows[r][column-1] = value
		}
	}
}

// turned has a row for each scheduler of a table by mix, if that is narrower and the table is wider than a line.
func (t *Table) turned() *Table {
	out := &Table{Name: t.Name, Caption: strings.Replace(t.Caption, "best of each row", "best of each column", 1), Notes: t.Notes, Columns: []Column{{Name: "scheduler"}}}
	for _, row := range t.Rows {
		out.Columns = append(out.Columns, Column{Name: fmt.Sprint(row[0])})
	}
	for c, of := range t.Columns[1:] {
		row := []any{of.Name}
		for r := range t.Rows {
			row = append(row, t.Rows[r][c+1])
		}
		out.Add(row...)
	}
	if width := t.grid().latexWidth(); width <= lineWidth || out.grid().latexWidth() >= width {
		return t
	}
	return out
}

func (t *Table) latex(label string) []byte {
	g := t.grid()
	_, rows := t.in(TextOnly)
	var out bytes.Buffer
	align := ""
	var heads []string
	for c := range g.columns {
		if g.numbers[c] {
			align += "r"
		} else {
			align += "l"
		}
		heads = append(heads, inLaTeX(g.columns[c].heading()))
	}
	begin, end := "", ""
	if g.latexWidth() > lineWidth {
		begin, end = "\\resizebox{\\linewidth}{!}{%\n  ", "}"
	}
	fmt.Fprintf(&out, "\\begin{table}\n  \\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}\n  \\caption{%s}\\label{%s}\n  %s\\begin{tabular}{@{}%s@{}}\n    \\toprule\n    %s \\\\\n    \\midrule\n",
		inLaTeX(oneLine(cmp.Or(t.Caption, t.Title))), label, begin, align, strings.Join(heads, " & "))
	for r, row := range g.cells {
		var cells []string
		for c, cell := range row {
			if cell == unknown {
				cell = "–"
			}
			cell = inLaTeX(cell)
			if asCell(rows[r][c]).Best {
				cell = "\\textbf{" + cell + "}"
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(&out, "    %s \\\\\n", strings.Join(cells, " & "))
	}
	fmt.Fprintf(&out, "    \\bottomrule\n  \\end{tabular}%s\n", end)
	for _, n := range t.Notes {
		fmt.Fprintf(&out, "\n  \\smallskip\\raggedright %s\\par\n", inLaTeX(oneLine(n.Text)))
	}
	out.WriteString("\\end{table}\n")
	return out.Bytes()
}

// latexOf are the characters that LaTeX takes for commands, and those that its fonts lack.
var latexOf = map[rune]string{'\\': `\textbackslash{}`, '{': `\{`, '}': `\}`, '$': `\$`, '&': `\&`, '#': `\#`, '%': `\%`, '_': `\_`, '^': `\^{}`, '~': `\~{}`,
	'<': `\textless{}`, '>': `\textgreater{}`, '|': `\textbar{}`, '"': `\symbol{34}`, '–': "--", '×': `$\times$`, '→': `$\rightarrow$`, '†': `\textdagger{}`, '‡': `\textdaggerdbl{}`, '±': `$\pm$`}

// inLaTeX is text that LaTeX shows as it is. A character that needs a package of its own is
// named by its number.
func inLaTeX(s string) string {
	var out strings.Builder
	for _, r := range s {
		switch known, special := latexOf[r]; {
		case special:
			out.WriteString(known)
		case r < 0x80:
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, "U+%04X", r)
		}
	}
	return out.String()
}
