package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// LaTeX writes tables as LaTeX, each as a float with booktabs' rules. A comment at the
// beginning says what the document needs. Columns and rounding are those of the format table
// without a limit of its width.
func LaTeX(w io.Writer, about string, tables ...*Table) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%% %s\n%% It needs \\usepackage{booktabs}.\n", strings.ReplaceAll(oneLine(about), "\n", " "))
	seen := map[string]int{}
	for _, t := range tables {
		label := "tab:caserun-" + labelOf(cmp.Or(t.Name, "table"))
		if seen[label]++; seen[label] > 1 {
			label = fmt.Sprintf("%s-%d", label, seen[label])
		}
		out.WriteString("\n")
		out.Write(t.latex(label))
	}
	_, err := w.Write(out.Bytes())
	return err
}

// labelOf is a name as a label may have it.
func labelOf(name string) string { return notInLabels.ReplaceAllString(strings.ToLower(name), "-") }

var notInLabels = regexp.MustCompile(`[^a-z0-9]+`)

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
	fmt.Fprintf(&out, "\\begin{table}\n  \\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}\n  \\caption{%s}\\label{%s}\n  \\begin{tabular}{@{}%s@{}}\n    \\toprule\n    %s \\\\\n    \\midrule\n",
		inLaTeX(oneLine(cmp.Or(t.Caption, t.Title))), label, align, strings.Join(heads, " & "))
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
	out.WriteString("    \\bottomrule\n  \\end{tabular}\n")
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
