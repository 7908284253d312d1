package report

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func longestLine(text string) int {
	longest := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "  | ") { // a program's words
			longest = max(longest, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
		}
	}
	return longest
}

// Every table fits a terminal, with -v and without. A command that is longer stays whole.
func TestViewsFitTerminals(t *testing.T) {
	tables := views()
	for _, p := range evaluation(t).Tables {
		tables[p.ID()] = PaperTable(p)
	}
	for name, table := range tables {
		for _, columns := range []int{60, 80, 100, 120, 150} {
			for _, wide := range []bool{false, true} {
				text := render(t, table, Text, Options{Wide: wide, Columns: columns})
				others := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return command.FindString(line) == line })
				if n := longestLine(strings.Join(others, "\n")); n > columns {
					t.Errorf("%s (wide: %v): a line of %d characters on %d columns:\n%s", name, wide, n, columns, text)
				}
			}
		}
	}
}

// A terminal that is too narrow loses columns, and says which and what has them. With -v, each row
// is a block that has every column.
func TestNarrowTerminals(t *testing.T) {
	table := &Table{Title: "t", Columns: []Column{{Name: "first", Unit: Seconds}, {Name: "second", Unit: Seconds, Drop: 1},
		{Name: "third", Unit: Seconds, Narrow: 2}, {Name: "fourth", Unit: Seconds, Narrow: 1}, {Name: "fifth", Unit: Seconds, Narrow: 1}}}
	table.Add(1.5, 2.5, 3.5, 4.5, 5.5)
	table.Add(10.5, 20.5, 30.5, 40.5, 50.5)
	const blocks = `t

first   1.50 s
second  2.50 s
third   3.50 s
fourth  4.50 s
fifth   5.50 s

first   10.50 s
second  20.50 s
third   30.50 s
fourth  40.50 s
fifth   50.50 s
`
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"none goes", Options{Columns: 45}, "t\n\n  first   second    third   fourth    fifth\n"},
		{"a Drop goes before a Narrow", Options{Columns: 40}, "t\n\n  first    third   fourth    fifth\n"},
		{"a Narrow goes", Options{Columns: 30}, "t\n\n  first   fourth    fifth\n"},
		{"and says so", Options{Columns: 30}, "second, third. -v\nshows every column.\n"},
		{"the same Narrow go together", Options{Columns: 20}, "t\n\n  first\n"},
		{"everything as blocks", Options{Columns: 30, Wide: true}, blocks},
		{"wide enough", Options{Columns: 45, Wide: true}, "t\n\n  first   second    third   fourth    fifth\n"},
		{"not on a terminal", Options{}, "t\n\n  first   second    third   fourth    fifth\n"},
	} {
		if text := render(t, table, Text, c.o); !strings.Contains(text, c.want) {
			t.Errorf("%s: %q lacks %q", c.name, text, c.want)
		}
	}
	table.Detail = true
	if text := render(t, table, Text, Options{Columns: 30, Wide: true}); !strings.Contains(text, "second, third.\n--format csv has every column.") || strings.Contains(text, "2.50 s") {
		t.Errorf("a table that only -v prints loses columns with it: %q", text)
	}
}

// What no column can be left out of becomes blocks without -v.
func TestBlocksWithoutDroppableColumns(t *testing.T) {
	table := &Table{Title: "t", Columns: []Column{{Name: "first"}, {Name: "second"}}}
	table.Add(strings.Repeat("x", 20), strings.Repeat("y", 20))
	text := render(t, table, Text, Options{Columns: 30})
	if want := "t\n\nfirst   xxxxxxxxxxxxxxxxxxxx\nsecond  yyyyyyyyyyyyyyyyyyyy\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}
