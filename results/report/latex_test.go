package report

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// awkward has every character that means something to LaTeX, and some that its fonts lack.
const awkward = `\input{x} 50 % & $a_1^2$ #1 ~ <b> | "q" – 2× → † ± 中`

func awkwardTable() *Table {
	t := &Table{Title: awkward, Columns: []Column{{Name: "mix"}, {Name: "share", Unit: Ratio}, {Name: "hidden", Place: DataOnly}}}
	t.Add(awkward, 0.125, "not shown")
	t.Add("W1", nil, "")
	t.Notes = append(t.Notes, Note{Text: awkward})
	return t
}

func TestLaTeX(t *testing.T) {
	var out bytes.Buffer
	if err := LaTeX(&out, "Written\nby a test.", awkwardTable()); err != nil {
		t.Fatal(err)
	}
	const text = `\textbackslash{}input\{x\} 50 \% \& \$a\_1\^{}2\$ \#1 \~{} \textless{}b\textgreater{} \textbar{} \symbol{34}q\symbol{34} -- 2$\times$ $\rightarrow$ \textdagger{} $\pm$ U+4E2D`
	for _, want := range []string{"% Written by a test.\n% It needs \\usepackage{booktabs,graphicx}", "\\caption{" + text + "}", "\\begin{tabular}{@{}lr@{}}", "mix & share \\\\\n",
		"    " + text + " & 12.5 \\% \\\\\n", "    W1 & -- \\\\\n", "\\raggedright " + text + "\\par\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("LaTeX lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "not shown") {
		t.Error("a column of data is in the text")
	}
}

// A table that is wider than a line of an article loses its intervals and not their marks, and is turned or made smaller.
func TestLaTeXFits(t *testing.T) {
	long := strings.Repeat("x", 40)
	wide := &Table{Columns: []Column{{Name: "scheduler"}, {Name: "ratio", Unit: Factor}, {Name: "ratio_interval", Place: TextOnly}, {Name: "runs", Drop: 1}}}
	wide.Add(long, Cell{Value: 1.5, Best: true}, "1.4 to 1.6"+lostMoreMark, long)
	for width, want := range map[float64]string{1000: long + " & \\textbf{1.50} & 1.4 to 1.6\\textdaggerdbl{} & " + long, 300: long + " & \\textbf{1.50} & 1.4 to 1.6\\textdaggerdbl{}", 240: long + " & \\textbf{1.50\\textdaggerdbl{}}"} {
		if got := string(wide.narrowed(width).latex("x")); !strings.Contains(got, "    "+want+" \\\\\n") {
			t.Errorf("%g points: %s", width, got)
		}
	}
	if got := string(wide.latex("x")); !strings.Contains(got, "\\resizebox{\\linewidth}{!}{%\n  \\begin{tabular}{@{}lrll@{}}") || !strings.Contains(got, "\\end{tabular}}\n") {
		t.Errorf("not made smaller: %s", got)
	}
	byMix := &Table{Caption: "The best of each row is in bold.", Columns: []Column{{Name: "mix"}, {Name: long}, {Name: long + "y"}, {Name: long + "z"}}}
	byMix.Add("W1", "1", "2", "3")
	const turned = "scheduler & W1 \\\\\n"
	if got := string(byMix.turned().latex("x")); !strings.Contains(got, turned) || !strings.Contains(got, "    "+long+"z & 3 \\\\\n") || !strings.Contains(got, "best of each column") {
		t.Errorf("not turned: %s", got)
	}
	if got := string(awkwardTable().turned().latex("x")); strings.Contains(got, "scheduler & ") {
		t.Errorf("turned: %s", got)
	}
}

// LaTeX itself takes what is written, where there is one.
func TestLaTeXCompiles(t *testing.T) {
	latex, err := exec.LookPath("pdflatex")
	if err != nil {
		t.Log("no pdflatex: the tables were not compiled (apt-get install texlive-latex-recommended)")
		return
	}
	dir := t.TempDir()
	var out bytes.Buffer
	out.WriteString("\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs,graphicx}\\begin{document}\n")
	if err := LaTeX(&out, "test", awkwardTable(), awkwardTable()); err != nil {
		t.Fatal(err)
	}
	out.WriteString("\\end{document}\n")
	if err := os.WriteFile(filepath.Join(dir, "page.tex"), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(latex, "-interaction=nonstopmode", "-halt-on-error", "page.tex")
	c.Dir = dir
	if said, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}
