package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"as it is", 8, "as it is"},
		{"one two three", 7, "one two\nthree"},
		{"a path: /a/very/long/path/without/a/space", 10, "a path:\n/a/very/long/path/without/a/space"},
		{"takes 12.5 s of 3 jobs", 8, "takes\n12.5 s\nof\n3 jobs"},
		{"half (0.1 to 0.2) of it", 12, "half\n(0.1 to 0.2)\nof it"},
		{"at once (this is far too long to be kept together)", 20, "at once (this is far\ntoo long to be kept\ntogether)"},
		{"queue=largest-first,age-limit=64,room=0 end", 20, "queue=largest-first,\nage-limit=64,room=0\nend"},
		{"größer als zehn", 10, "größer als\nzehn"},
	} {
		got := wrap(pieces(c.text, together), c.width)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q in %d:\n%s", c.text, c.width, diff)
		}
	}
}

// A command in prose stays on one line, so that it can be copied.
func TestCommandsAreNotWrapped(t *testing.T) {
	for _, c := range []string{
		"caserun sweep --resume 1 --reps 10",
		"caserun sweep --resume 1 --reps 10 --db 'of ours.db'",
		"caserun report 3 -v",
		"caserun sweep list --db a/b.db",
		"caserun compare tag:A tag:B --db=x.db --alpha 0.05",
		"caserun sweep --mixes W1..W8 --scheds sa,case-alg2 --trace",
		"caserun store merge all.db part-1.db part-2.db",
		"caserun sweep --mixes W1 --no-mps=true --node local --swap 1GiB --tag base",
		`caserun sweep --mixes 'of ours/it'\''s.yaml,W1' --scheds sa,fifo:=case-alg3:queue=fifo,case-alg3:age-limit=1 --db 'x y.db'`,
		`caserun sweep list --db "of ours.db"`,
		"`find DIR -samefile x.db`",
	} {
		for _, around := range [][2]string{{"", ""}, {"To settle it run ", ""}, {"To settle it (", "), and then again"}, {"see ", ", then go on with it"}, {"of these ", ": the next"}, {"so ", " && " + c + "."}} {
			text := around[0] + c + around[1]
			got := wrap(prosePieces(text), 12)
			if strings.ReplaceAll(got, "\n", " ") != text || !strings.Contains(got, c) || len(text) > len(c)+12 && !strings.Contains(got, "\n") {
				t.Errorf("%q is wrapped as\n%s", text, got)
			}
		}
	}
	const prose = "the jobs of caserun are jobs as all others"
	if got := wrap(prosePieces(prose), 12); strings.Count(got, "\n") != 3 {
		t.Errorf("prose is wrapped as\n%s", got)
	}
}

// A table that is too wide loses the columns with the highest Drop, and no more than it
// must; the others keep their text, on several lines. With Wide nothing changes.
func TestFit(t *testing.T) {
	prose := strings.TrimSpace(strings.Repeat("word ", 30))
	table := &Table{Title: "t", Columns: []Column{
		{Name: "first", Drop: 2}, {Name: "text"}, {Name: "second", Drop: 3}, {Name: "number", Unit: Seconds}, {Name: "third", Drop: 1},
	}}
	table.Add(strings.Repeat("x", 30), prose, strings.Repeat("y", 30), 1.5, strings.Repeat("z", 30))
	wide := render(t, table, Text, Options{Wide: true})
	for _, part := range []string{"x", "y", "z"} {
		if !strings.Contains(wide, strings.Repeat(part, 30)) {
			t.Errorf("the wide table lacks column %s:\n%s", part, wide)
		}
	}
	if !strings.Contains(wide, prose) {
		t.Errorf("the wide table wraps:\n%s", wide)
	}
	if piped := render(t, table, Text, Options{}); piped != wide {
		t.Errorf("a table that no terminal shows is cut:\n%s", piped)
	}
	narrow := render(t, table, Text, Options{Columns: Width})
	if strings.Contains(narrow, "yy") || strings.Contains(narrow, "xx") || !strings.Contains(narrow, "zzz") {
		t.Errorf("columns second and then first go, and third stays:\n%s", narrow)
	}
	if got := strings.Count(narrow, "word"); got != 30 {
		t.Errorf("%d of 30 words are left:\n%s", got, narrow)
	}
	if !strings.Contains(narrow, "1.50 s") {
		t.Errorf("a number is not on one line:\n%s", narrow)
	}
	fits(t, "narrow", narrow)
	for _, f := range []Format{CSV, JSON, Markdown} {
		if text := render(t, table, f, Options{}); !strings.Contains(text, "yyy") || !strings.Contains(text, prose) {
			t.Errorf("%s does not have everything:\n%s", f, text)
		}
	}
}

func fits(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if n := utf8.RuneCountInString(line); n > Width && !strings.HasPrefix(line, "  | ") {
			t.Errorf("%s: a line of %d characters:\n%s", name, n, line)
		}
	}
}
