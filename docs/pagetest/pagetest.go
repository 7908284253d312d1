// Package pagetest keeps the tables of documents true that tests generate. Its flag -update writes them.
package pagetest

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// Update is the flag -update of the test's program.
var Update = flag.Bool("update", false, "write what is generated into the documents")

// Table stands in a page between the comments <!-- begin NAME --> and <!-- end NAME -->, each on a line of its own.
type Table struct {
	Name     string
	Generate func(testing.TB) string
}

// Shows fails the test where a page does not show what is generated. With -update it writes it there.
func Shows(t *testing.T, page string, tables ...Table) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, table := range tables {
		begin, end := "<!-- begin "+table.Name+" -->\n", "<!-- end "+table.Name+" -->\n"
		before, rest, found := strings.Cut(text, begin)
		shown, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Errorf("%s has no place for the table %s", page, table.Name)
			continue
		}
		want := table.Generate(t)
		if shown != want && !*Update {
			t.Errorf("%s: the table %s is not what is generated: run this test with -update, and read the text around the table again\ngot:\n%s\nwant:\n%s", page, table.Name, shown, want)
		}
		text = before + begin + want + end + after
	}
	if *Update && text != string(data) {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Markdown is a table in Markdown. The first row is its head.
func Markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}
