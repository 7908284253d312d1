package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/paper/papertest"
	"github.com/caserun/caserun/results/stats"
)

// evaluation has runs for the V100's tables, and no runs for the P100's, for Darknet or for
// kernels.
func evaluation(t *testing.T) paper.Page {
	t.Helper()
	page, err := paper.Case().Build([]paper.Node{papertest.Node("sim:4xV100", results.Simulated, "4xV100", 4, papertest.Rodinia(),
		[]string{"sa", "cg:workers=6", "cg:workers=8", "cg:workers=10", "cg:workers=12", "case-alg2", "case-alg3"})})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestPaperPage(t *testing.T) {
	var out bytes.Buffer
	if err := PaperPage(&out, evaluation(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "paper.md", out.String())
	page := evaluation(t)
	page.Nodes[0].Machines = "host names: 2, sets of GPUs: 2"
	page.Nodes[0].Parts = make([]results.Run, 2)
	out.Reset()
	if err := PaperPage(&out, page); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{" runs of several machines (host names: 2, sets of GPUs: 2)", "; left out: 2 of other mixes with a paper mix's name."} {
		if !strings.Contains(out.String(), say) {
			t.Errorf("the page does not say %q", say)
		}
	}
}

func TestPaperTablesAsCSV(t *testing.T) {
	page := evaluation(t)
	for _, table := range page.Tables {
		if source := table.Source; source != "Table 3" && source != "Table 7" && source != "Figure 6b" {
			continue
		}
		golden(t, "paper-"+table.ID()+".csv", render(t, PaperTable(table), CSV, Options{}))
	}
	for _, f := range page.Figures {
		if f.ID == "figure-7" {
			golden(t, "paper-figure-7-curves.csv", render(t, PaperCurves(f), CSV, Options{}))
		}
	}
}

// Every number from a model is marked, whatever the format.
func TestPaperTablesSaySimulated(t *testing.T) {
	for _, table := range evaluation(t).Tables {
		if table.Measured() == 0 {
			continue
		}
		for _, f := range []Format{Text, Markdown} {
			if text := render(t, PaperTable(table), f, Options{}); !strings.Contains(strings.SplitN(text, "\n\n", 2)[0], "SIMULATED") {
				t.Errorf("%s as %s does not say so in its title:\n%s", table.Source, f, text)
			}
		}
		if text := render(t, PaperTable(table), CSV, Options{}); strings.Count(text, ",sim,") != table.Measured() {
			t.Errorf("%s: %d rows of csv say sim, want %d", table.Source, strings.Count(text, ",sim,"), table.Measured())
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", path, diff)
	}
}

func TestPaperSimulatedBesideMeasured(t *testing.T) {
	page := evaluation(t)
	page.Besides = []paper.Beside{
		{System: "75 % movable", Mix: "P-fig4-bfs", Scheduler: "pilot-base", Node: "sim:1xH200", Measured: stats.Summarize([]float64{4, 5, 6}, 0.95), Simulated: stats.Summarize([]float64{4}, 0.95)},
		{System: "75 % movable", Mix: "P-fig4-nn", Scheduler: "sa", Node: "sim:1xH200", Measured: stats.Summarize([]float64{0.8}, 0.95), Simulated: stats.Summarize([]float64{0.8}, 0.95)},
	}
	tables := PaperTables(page)
	golden(t, "paper-simulated.txt", render(t, tables[len(tables)-1], Text, Options{}))
	golden(t, "paper-simulated.csv", render(t, tables[len(tables)-1], CSV, Options{}))
	var out bytes.Buffer
	if err := PaperPage(&out, page); err != nil || !strings.Contains(out.String(), "SIMULATED beside measured") {
		t.Errorf("the page lacks the table (%v)", err)
	}
}
