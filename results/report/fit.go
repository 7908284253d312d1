package report

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Width is how many characters a line of the format table has at most on a terminal, unless
// Options.Wide. A word that is longer, such as a path, is never broken.
const Width = 100

// readable is the width below which prose becomes a column of single words. Columns with a
// Drop, whose own cells are never wrapped, go before that.
const readable = 30

// gap is the number of spaces between two columns.
const gap = 2

// grid is what the formats table and markdown show of a table: rounded cells.
type grid struct {
	columns []Column
	cells   [][]string // rows, each with a cell for each column
	numbers []bool     // columns that are aligned to the right, and whose cells stay on one line
}

func (t *Table) grid() grid {
	columns, rows := t.in(TextOnly)
	g := grid{columns: columns, cells: make([][]string, len(rows)), numbers: make([]bool, len(columns))}
	for c := range columns {
		g.numbers[c] = columns[c].Unit != None || numeric(rows, c, func(v Cell) bool { return v.Text != "" })
	}
	for r, row := range rows {
		for c, v := range row {
			g.cells[r] = append(g.cells[r], humanCell(v, columns[c].Unit))
		}
	}
	return g
}

// sheet is the grid of a Sheet: a row for each field, and an empty line between the blocks of
// two rows.
func (g grid) sheet() grid {
	s := grid{columns: []Column{{Name: "field"}, {Name: "value"}}, numbers: make([]bool, 2)}
	for r, row := range g.cells {
		if r > 0 {
			s.cells = append(s.cells, []string{"", ""})
		}
		for c, v := range row {
			s.cells = append(s.cells, []string{g.columns[c].heading(), v})
		}
	}
	return s
}

// fit makes the grid at most width wide, as far as words allow, and reports whether it is. With
// drop it leaves out the columns with the highest Drop, until the others fit with their text
// wrapped or cut: those with a Drop of dropped or more, none if dropped is 0. If the columns do
// not fit even so, text breaks at any space.
func (g grid) fit(width int, drop bool) (fitted grid, dropped int, fits bool) {
	g = g.clone()
	keep := together
	widths, least := g.widths(keep)
	for c := range g.columns {
		for _, row := range g.cells {
			w := displayWidth(row[c])
			switch cut := g.columns[c].Cut; {
			case cut > 0:
				w = min(w, cut)
			case g.columns[c].Drop == 0:
				w = min(w, readable)
			}
			least[c] = max(least[c], w)
		}
	}
	for drop && sum(least) > width {
		most := g.columns[g.mostDroppable()].Drop
		if most == 0 {
			break
		}
		for c := len(g.columns) - 1; c >= 0; c-- {
			if g.columns[c].Drop == most {
				g.remove(c)
				widths, least = slices.Delete(widths, c, c+1), slices.Delete(least, c, c+1)
			}
		}
		dropped = most
	}
	if sum(least) > width {
		_, least = g.widths(keep)
	}
	if sum(least) > width {
		keep = 0
		_, least = g.widths(keep)
	}
	shrink(widths, least, width)
	for c, w := range widths {
		g.columns[c].Heading = wrap(headingPieces(g.columns[c].heading(), keep), w)
		for _, row := range g.cells {
			switch {
			case g.numbers[c] || displayWidth(row[c]) <= w:
			case g.columns[c].Cut > 0:
				row[c] = cutMiddle(row[c], w)
			default:
				row[c] = wrap(pieces(row[c], keep), w)
			}
		}
	}
	return g, dropped, sum(widths) <= width
}

// fits reports whether the table has Width without breaking words apart that belong together.
func (t *Table) fits() bool {
	_, least := t.grid().widths(together)
	return sum(least) <= Width
}

// shrink takes from the widest columns until the table is at most width wide, or all columns
// have their least width.
func shrink(widths, least []int, width int) {
	for sum(widths) > width {
		widest := -1
		for c := range widths {
			if widths[c] > least[c] && (widest < 0 || widths[c] > widths[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (g grid) clone() grid {
	g.columns, g.numbers, g.cells = slices.Clone(g.columns), slices.Clone(g.numbers), slices.Clone(g.cells)
	for r := range g.cells {
		g.cells[r] = slices.Clone(g.cells[r])
	}
	return g
}

// widths gives the width that each column has if nothing is wrapped, and the least that it
// can have.
func (g grid) widths(keep int) (natural, least []int) {
	natural, least = make([]int, len(g.columns)), make([]int, len(g.columns))
	need := func(c int, parts ...string) {
		natural[c] = max(natural[c], displayWidth(strings.Join(parts, "")))
		for _, part := range parts {
			least[c] = max(least[c], displayWidth(strings.TrimRight(part, " ")))
		}
	}
	for c := range g.columns {
		need(c, headingPieces(g.columns[c].heading(), keep)...)
		for _, row := range g.cells {
			switch cut := g.columns[c].Cut; {
			case g.numbers[c]:
				need(c, row[c])
			case cut > 0:
				natural[c] = max(natural[c], displayWidth(row[c]))
				least[c] = max(least[c], min(cut, natural[c]))
			default:
				need(c, pieces(row[c], keep)...)
			}
		}
	}
	return natural, least
}

// sum is the width of a table whose columns have these widths.
func sum(widths []int) int {
	total := gap * len(widths)
	for _, w := range widths {
		total += w
	}
	return total
}

func (g grid) mostDroppable() int {
	most := 0
	for c := range g.columns {
		if g.columns[c].Drop > g.columns[most].Drop {
			most = c
		}
	}
	return most
}

func (g *grid) remove(c int) {
	g.columns, g.numbers = slices.Delete(g.columns, c, c+1), slices.Delete(g.numbers, c, c+1)
	for r := range g.cells {
		g.cells[r] = slices.Delete(g.cells[r], c, c+1)
	}
}

// displayWidth is the number of columns of a terminal that a printable text takes.
func displayWidth(s string) int {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return text.StringWidth(s)
		}
	}
	return len(s)
}

// wrap joins the pieces of a text into lines of at most width, where they allow.
func wrap(parts []string, width int) string {
	if s := strings.Join(parts, ""); displayWidth(s) <= width {
		return s
	}
	var lines []string
	line := ""
	for _, piece := range parts {
		if line != "" && displayWidth(line)+displayWidth(strings.TrimRight(piece, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line += piece
	}
	return strings.Join(append(lines, strings.TrimRight(line, " ")), "\n")
}

// together is the usual length up to which words are kept on one line.
const together = 24

// pieces are the parts of a text between which a line may break, spaces behind them
// included. Up to the length keep, a number stays with the word behind it, and text in
// parentheses stays on one line. A longer word, such as a scheduler with its parameters, breaks
// behind its colons and commas.
func pieces(s string, keep int) []string {
	if len(s) <= together && !strings.Contains(s, " ") {
		return []string{s}
	}
	var out []string
	for _, piece := range split(s, func(before rune, depth int) bool {
		return before == ' ' && depth == 0
	}) {
		n := len(out)
		if n > 0 && endsWithNumber(out[n-1]) && displayWidth(out[n-1]+piece) <= keep {
			out[n-1] += piece
			continue
		}
		if displayWidth(piece) <= keep {
			out = append(out, piece)
			continue
		}
		for _, word := range split(piece, func(before rune, _ int) bool { return before == ' ' }) {
			if displayWidth(word) > together {
				out = append(out, split(word, func(before rune, _ int) bool { return before == ',' || before == ':' })...)
			} else {
				out = append(out, word)
			}
		}
	}
	return out
}

// command matches a command of caserun's in prose, or what is in backticks, with the punctuation and the space behind it: the
// verb, a word behind it, flags with a value, and words that are not plain, such as numbers and files.
var command = func() *regexp.Regexp {
	const (
		quoted  = `'[^']*'|"[^"]*"|\\.`
		rest    = `(?:(?:` + quoted + `|[^ '"\\])*(?:` + quoted + `|[^ .,;:)'"\\]))?` // of a word, without punctuation
		special = `[a-z]*(?:` + quoted + `|[^-&a-z .,;:)'"\\]|[-.,:][^ ])` + rest
		flag    = `-[^ ]` + rest + `(?: (?:` + quoted + `|[^-& '"\\])` + rest + `)?`
		word    = flag + `|` + special
		one     = `caserun [a-z]+(?: (?:` + word + `|[a-z]+))?(?: (?:` + word + `))*`
	)
	return regexp.MustCompile("(?:^| )([(]*(?:`[^`]+`|" + one + "(?: && " + one + ")*)[^ ]* *)")
}()

// prosePieces are the pieces of prose. A command is one of them, so that it can be copied.
func prosePieces(s string) []string {
	var out []string
	from := 0
	for _, found := range command.FindAllStringSubmatchIndex(s, -1) {
		if begin := found[2]; begin > from {
			out = append(out, pieces(s[from:begin], together)...)
		}
		out, from = append(out, s[found[2]:found[3]]), found[3]
	}
	if from < len(s) || s == "" {
		out = append(out, pieces(s[from:], together)...)
	}
	return out
}

// headingPieces also breaks headings such as sweep:1/cg:workers=2 behind colons and slashes.
func headingPieces(s string, keep int) []string {
	var out []string
	for _, piece := range pieces(s, keep) {
		out = append(out, split(piece, func(before rune, _ int) bool { return before == '/' || before == ':' })...)
	}
	return out
}

// split cuts a text where cut says so of the character before, and of the number of
// parentheses that are open there. Spaces stay with the part before them.
func split(s string, cut func(before rune, depth int) bool) []string {
	var out []string
	depth, from := 0, 0
	before := rune(0)
	for i, r := range s {
		if i > from && r != ' ' && cut(before, depth) {
			out, from = append(out, s[from:i]), i
		}
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		before = r
	}
	return append(out, s[from:])
}

func endsWithNumber(piece string) bool {
	word := strings.TrimRight(piece, " ,")
	return word != "" && strings.IndexFunc(word, func(r rune) bool { return !unicode.IsDigit(r) && !strings.ContainsRune("+-.", r) }) < 0
}
