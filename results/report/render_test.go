package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A stream of csv has one table, with the rows of all runs. Files have the others.
func TestOneTableInAStream(t *testing.T) {
	one, other := simRun(), simRun()
	other.ID = one.ID + 1
	tables := []*Table{RunSummary(one, nil, nil, "x"), JobTable(one, someJobs()), RunSummary(other, nil, nil, "x"), JobTable(other, someJobs())}
	for _, f := range []Format{CSV, TSV} {
		var out bytes.Buffer
		if err := RenderAll(&out, f, Options{}, tables...); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 3 || strings.Contains(out.String(), "footprint") {
			t.Errorf("%s has %d lines:\n%s", f, lines, out.String())
		}
		if says := LeftOut(f, tables...); !strings.Contains(says, "1 are left out") {
			t.Errorf("%s: %q", f, says)
		}
	}
	if says := LeftOut(JSON, tables...) + LeftOut(CSV, tables[0], tables[2]); says != "" {
		t.Errorf("nothing is left out: %q", says)
	}
	dir := filepath.Join(t.TempDir(), "new")
	spare := func(string) error { return nil }
	paths, err := WriteCSV(t.Context(), dir, false, spare, tables...)
	if want := []string{filepath.Join(dir, "run.csv"), filepath.Join(dir, "job.csv")}; err != nil || strings.Join(paths, " ") != strings.Join(want, " ") {
		t.Fatalf("%v, %v", paths, err)
	}
	text, err := os.ReadFile(paths[1])
	if want := 2 * len(someJobs()); err != nil || strings.Count(string(text), ",sim,") != want {
		t.Errorf("%v: want %d rows:\n%s", err, want, text)
	}
	if _, err := WriteCSV(t.Context(), dir, false, spare, tables...); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("over files that exist: %v", err)
	}
	if _, err := WriteCSV(t.Context(), dir, true, spare, tables[0]); err != nil {
		t.Error(err)
	}
}

// A row of tsv is one line, whatever its texts have, and quotes are text.
func TestTSV(t *testing.T) {
	table := &Table{Title: "t", Columns: []Column{{Name: "text"}, {Name: "time", Unit: Seconds}, {Name: "shown", Place: TextOnly}, {Name: "unknown"}}}
	table.Add("a\tb\n\"c\" =1\x1b", 0.1, "x", nil)
	table.Add("=1", 2.0, "x", true)
	want := "text\ttime_s\tunknown\n" + `a\tb\n"c" =1\x1b` + "\t0.1\t\n'=1\t2\ttrue\n"
	if got := render(t, table, TSV, Options{}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, name := range []string{"md", "markdown"} {
		if f, err := ParseFormat(name); f != Markdown || err != nil {
			t.Errorf("%s: %s, %v", name, f, err)
		}
	}
}
