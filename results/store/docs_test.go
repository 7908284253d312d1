package store

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/store.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section is the text under one heading.
func section(text, heading string) string {
	_, rest, _ := strings.Cut(text, "\n## "+heading+"\n")
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

var firstCell = regexp.MustCompile("(?m)^\\| (`[a-z0-9_-]+`(?:, `[a-z0-9_-]+`)*) \\|")

// words are what the first cells of a section's tables name, in the order of the page.
func words(section string) []string {
	var out []string
	for _, m := range firstCell.FindAllStringSubmatch(section, -1) {
		out = append(out, strings.Split(strings.Trim(m[1], "`"), "`, `")...)
	}
	return out
}

// implied are the columns that the page defines once for all tables that have them in their key.
var implied = []string{"run_id", "job_index", "device_index", "task_seq"}

var (
	keyLine = regexp.MustCompile("Key:\\s+((?:`\\w+`,?\\s*)+)\\.")
	quoted  = regexp.MustCompile("`(\\w+)`")
)

// key is the key that a table's section names.
func key(section string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(keyLine.FindString(section), -1) {
		out = append(out, m[1])
	}
	return out
}

func TestDocumentHasTheSchema(t *testing.T) {
	s := openTemp(t)
	tables, err := s.Tables(context.Background())
	if err != nil || len(tables) != 13 {
		t.Fatalf("%d tables (%v), want 13", len(tables), err)
	}
	text := document(t)
	for _, table := range tables {
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, c.Name)
		}
		body := section(text, table.Name)
		columns = slices.DeleteFunc(columns, func(name string) bool {
			return slices.Contains(implied, name) && slices.Contains(key(body), name)
		})
		documented := words(body)
		slices.Sort(documented)
		slices.Sort(columns)
		if !slices.Equal(documented, columns) {
			t.Errorf("table %s has columns\n%v\nand docs/reference/store.md\n%v", table.Name, columns, documented)
		}
	}
}

// The table of what counts says what the code does.
func TestDocumentSaysWhatCounts(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	said := map[string]bool{}
	for line := range strings.Lines(section(string(page), "What counts")) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		o := results.Outcome(strings.Trim(cells[0], "|` "))
		said[string(o)] = true
		end := 1.0
		m := results.Compute(results.Run{Jobs: 1}, nil, []results.Job{{Outcome: &o, StartS: new(0.0), EndS: &end}}, nil, results.Residence{})
		want := []string{yes[o.CountsAsOK()], yes[*m.ThroughputJobsPerS > 0], yes[m.TurnaroundMeanS != nil], yes[m.Crashed > 0], yes[o.Crashed()]}
		if !slices.Equal(cells[1:6], want) {
			t.Errorf("%s: the table says %v, want %v", o, cells[1:6], want)
		}
	}
	if len(said) != len(results.Outcomes) {
		t.Errorf("the table is of %d outcomes, want %d", len(said), len(results.Outcomes))
	}
}

func TestDocumentDefinesTheWords(t *testing.T) {
	text := document(t)
	page, err := os.ReadFile("../../docs/reference/outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	outcomes := []string{}
	for _, o := range results.Outcomes {
		outcomes = append(outcomes, string(o))
	}
	if documented := words(section(string(page), "The words")); !slices.Equal(documented, outcomes) {
		t.Errorf("documented outcomes %v, want %v", documented, outcomes)
	}
	for _, series := range []results.Series{results.SeriesGPU, results.SeriesMemory, results.SeriesMemoryActivity,
		results.SeriesGPUDriver, results.SeriesGPM, results.SeriesSimulated} {
		if !strings.Contains(section(text, "utilization"), "`"+string(series)+"`:") {
			t.Errorf("series %s is not documented", series)
		}
	}
	for _, status := range []results.Status{results.Running, results.Complete, results.Interrupted} {
		if !strings.Contains(section(text, "run"), "`"+string(status)+"`:") {
			t.Errorf("status %s is not documented", status)
		}
	}
	for _, status := range []results.Status{results.Planned, results.Running, results.Complete, results.Interrupted} {
		if !strings.Contains(section(text, "sweep"), "`"+string(status)+"`:") {
			t.Errorf("status %s of sweeps is not documented", status)
		}
	}
}

var eventConstant = regexp.MustCompile(`(?m)^\tEvent\w+ EventKind = "(.+)"$`)

// eventKinds are the constants of results.EventKind, from their source, so that none is left out.
func eventKinds(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../event.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range eventConstant.FindAllStringSubmatch(string(source), -1) {
		out = append(out, m[1])
	}
	return out
}

var codeWord = regexp.MustCompile("`([a-z][a-z_-]*)`")

func TestDocumentHasTheEventKinds(t *testing.T) {
	_, text, _ := strings.Cut(section(document(t), "event"), "\n### Kinds of events\n")
	var documented []string
	for _, m := range codeWord.FindAllStringSubmatch(text, -1) {
		documented = append(documented, m[1])
	}
	kinds := eventKinds(t)
	slices.Sort(kinds)
	slices.Sort(documented)
	if len(kinds) == 0 || !slices.Equal(documented, kinds) {
		t.Errorf("docs/reference/store.md has the event kinds\n%q\nand results/event.go\n%q", documented, kinds)
	}
}

func TestDocumentedQueriesFindRows(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	r := fullRows(found)
	r.Jobs[1].ExitStatus = ptr(0)
	record(t, s, run, r)
	planned(t, s)
	guide, err := os.ReadFile("../../docs/guide/export.md")
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range map[string]string{"docs/reference/store.md": document(t), "docs/guide/export.md": string(guide)} {
		blocks := strings.Split(text, "```sql\n")[1:]
		if len(blocks) < 3 {
			t.Errorf("%d queries in %s", len(blocks), page)
		}
		for _, block := range blocks {
			query, _, _ := strings.Cut(block, "```")
			if err := hasRows(s, query); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, query)
			}
		}
	}
}

func hasRows(s *Store, query string) error {
	rows, err := s.read.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(errors.New("no rows"), rows.Err())
	}
	return rows.Err()
}
