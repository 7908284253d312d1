package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// matrixWithCrashes has sa, which loses nothing, and cg, which loses jobs of W1 alone.
func matrixWithCrashes(t *testing.T, base string) regress.Matrix {
	t.Helper()
	s := regress.Side{Label: "sweep:1"}
	add := func(mix, scheduler string, crashed int, makespan float64) {
		for i := range 7 {
			v := makespan + float64(i)/10
			s.Runs = append(s.Runs, regress.Observation{Run: results.Run{ID: int64(len(s.Runs) + 1), Mix: mix, Scheduler: scheduler, Node: "local", Mode: results.Live,
				Status: results.Complete, Jobs: 4, Metrics: results.Metrics{OK: 4 - crashed, Crashed: crashed, MakespanS: ptr(v),
					ThroughputJobsPerS: ptr(float64(4-crashed) / v), TurnaroundMeanS: ptr(v / 2)}}})
		}
	}
	add("W1", "sa", 0, 100)
	add("W1", "cg", 1, 50)
	add("W2", "sa", 0, 100)
	add("W2", "cg", 0, 60)
	found, err := regress.Matrices(s, base, regress.Options{})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d matrices: %v", len(found), err)
	}
	return found[0]
}

// Throughput, turnaround and makespan are marked where jobs are missing under the scheduler or under
// the base, and a note says what the mark means. The mark is another one where the side that looks
// better lost significantly more jobs.
func TestFiguresWithMissingJobsAreMarked(t *testing.T) {
	note := SurvivorsNote("here or under the base")
	texOf := strings.NewReplacer(`\textdagger{}`, SurvivorsMark, `\textdaggerdbl{}`, lostMoreMark)
	for base, lines := range map[string]map[string]int{ // marks by the row's beginning
		"sa": {"sa (base)": 0, "cg": 3},
		"cg": {"sa": 3, "cg (base)": 0},
	} {
		m := matrixWithCrashes(t, base)
		marks := func(text string) map[string]int {
			found := map[string]int{}
			for _, line := range strings.Split(text, "\n") {
				for name := range lines {
					if rest, ok := strings.CutPrefix(strings.Trim(line, "| "), name+" "); ok && !strings.HasPrefix(rest, "(base)") {
						found[name] = strings.Count(texOf.Replace(rest), lostMoreMark)
					}
				}
			}
			return found
		}
		table := MatrixTable(m)
		var tex bytes.Buffer
		if err := LaTeX(&tex, "about", table); err != nil {
			t.Fatal(err)
		}
		for format, text := range map[string]string{"table": render(t, table, Text, Options{}), "markdown": render(t, table, Markdown, Options{}), "latex": tex.String()} {
			if got := marks(text); len(got) != 2 || got["sa"] != lines["sa"] || got["sa (base)"] != lines["sa (base)"] || got["cg"] != lines["cg"] || got["cg (base)"] != lines["cg (base)"] {
				t.Errorf("base %s, %s: marks %v, want %v:\n%s", base, format, got, lines, text)
			}
			if flat := strings.Join(strings.Fields(texOf.Replace(text)), " "); strings.Contains(flat, note) != (base == "cg") || !strings.Contains(flat, lostMoreNote) {
				t.Errorf("base %s, %s: the mark is not explained:\n%s", base, format, text)
			}
		}
		rows, err := csv.NewReader(strings.NewReader(render(t, table, CSV, Options{}))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range []string{"throughput", "turnaround", "makespan"} {
			at := slices.Index(rows[0], metric+"_survivors_only")
			for _, row := range rows[1:] {
				scheduler := row[slices.Index(rows[0], "scheduler")]
				lost := slices.Index(rows[0], metric+"_not_comparable")
				if want := fmt.Sprint(base != scheduler); lost < 0 || row[lost] != want {
					t.Errorf("base %s: %s_not_comparable of %s: want %s in\n%v\n%v", base, metric, scheduler, want, rows[0], row)
				}
				if want := fmt.Sprint(base == "cg" || scheduler == "cg"); at < 0 || row[at] != want {
					t.Errorf("base %s: %s_survivors_only of %s: want %s in\n%v\n%v", base, metric, scheduler, want, rows[0], row)
				}
			}
		}
	}
	byMix := matrixByMix(matrixWithCrashes(t, "sa"), false)
	for i, want := range []string{"W1,1.00×,\"1.50× (1.49 to 1.50), 25.0 % crashed‡\"\n", "W1,1.00×,0.50× (0.50 to 0.50)‡\n", "W1,1.00×,0.50× (0.50 to 0.50)‡\n"} {
		text := render(t, byMix[i], CSV, Options{})
		if _, w2, _ := strings.Cut(text, "\nW2,"); !strings.Contains(text, want) || strings.ContainsAny(strings.SplitN(w2, "\n", 2)[0], SurvivorsMark+lostMoreMark) {
			t.Errorf("%s: no %q, or W2, which lost nothing, is marked:\n%s", byMix[i].Title, want, text)
		}
	}
}

// A metric without a ratio has its interval in brackets once.
func TestLevelText(t *testing.T) {
	l := regress.Level{Summary: stats.Summary{N: 7, Median: 0.8, Low: 0.75, High: 0.85}}
	if got := levelText(results.MetricNamed("fairness"), regress.Count{}, l).Value; got != "80.0 % (75.0 to 85.0)" {
		t.Errorf("%q", got)
	}
	if got := levelTextAlone(results.MetricNamed("fairness"), regress.Count{}, l).Value; got != "80.0 %" {
		t.Errorf("%q", got)
	}
}
