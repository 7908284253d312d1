package html

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// The page says which scheduler is best only where the figures carry it.
func TestResultOfAPlace(t *testing.T) {
	for _, c := range []struct {
		name       string
		schedulers []string
		runs       int
		base       string
		result     string
		beside     string
		tiles      []string // the names, ratios and words of throughput's tile
	}{
		{"two of three are comparable", []string{"case-alg3", "cg", "sa"}, 7, "", "case-alg3 is best: 2.38× (2.32 to 2.45) the throughput of sa on W1",
			"Not comparable with sa, because one of the two lost more jobs: cg (25.0 % crashed)", []string{"case-alg3", "sa", "2.38×", "▲", "better"}},
		{"one repetition", []string{"case-alg3", "sa"}, 1, "", "case-alg3 is ahead, perhaps by chance: 2.40× the throughput of sa on W1", "", []string{"case-alg3", "sa", "2.40×", "▲", "inconclusive"}},
		{"the base is best", []string{"case-alg3", "sa"}, 7, "case-alg3", "case-alg3, the base, is best on W1", "Next is sa, with 0.42× (0.41 to 0.43) its throughput", []string{"case-alg3", "sa", "0.42×", "▼", "worse"}},
		{"the base lost jobs", []string{"cg", "sa"}, 7, "cg", "No scheduler can be called best: figures are not comparable, because jobs crashed", "Not comparable with cg, because one of the two lost more jobs: sa (0.0 % crashed)", nil},
		{"alone", []string{"sa"}, 2, "", "sa alone", "", []string{"sa"}},
	} {
		m := memory{}
		for i := 1; i <= c.runs; i++ {
			for n, scheduler := range c.schedulers {
				length := 10 + float64(n) + float64(i)/10
				if scheduler == "sa" {
					length = 12 + float64(i)/10
				}
				m.add(simulatedRun(scheduler, i, length))
			}
		}
		v, err := build(t.Context(), m, m.runs(), Options{Base: c.base})
		if err != nil || len(v.Places) != 1 {
			t.Fatalf("%s: %d places, %v", c.name, len(v.Places), err)
		}
		p := v.Places[0]
		if p.Result != c.result || strings.Join(p.Beside, "; ") != c.beside {
			t.Errorf("%s: %q, beside it %q", c.name, p.Result, p.Beside)
		}
		var got []string
		if len(p.Tiles) > 0 {
			for _, l := range p.Tiles[0].Lines {
				got = append(got, l.Arm.Text)
			}
			if tile := p.Tiles[0]; tile.Ratio != "" {
				got = append(got, tile.Ratio, tile.Arrow, tile.Word)
			}
		}
		if !slices.Equal(got, c.tiles) {
			t.Errorf("%s: the tile of throughput has %q, want %q", c.name, got, c.tiles)
		}
	}
}

// The mix whose throughput differs most has its jobs above the tables, and others have theirs in their mix.
func TestWidestMixIsShownFirst(t *testing.T) {
	m := memory{}
	for i := 1; i <= 3; i++ {
		for _, scheduler := range []string{"case-alg3", "sa"} {
			for mix, length := range map[string]float64{"W1": 11.5, "W2": 6} {
				if scheduler == "sa" {
					length = 12
				}
				r := simulatedRun(scheduler, i, length+float64(i)/10)
				r.run.Mix = mix
				m.add(r)
			}
		}
	}
	v, err := build(t.Context(), m, m.runs(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := v.Places[0]; p.Jobs == nil || p.Jobs.Title != "W2" || len(p.Jobs.Panels) != 2 || p.Jobs.Panels[1].Arm.Text != "case-alg3" || !strings.Contains(p.Jobs.Panels[1].Text, "throughput 3.94×") {
		t.Errorf("shown first: %s, %+v", p.Title, p.Jobs)
	}
	for _, g := range v.Groups {
		if g.Open || (g.Jobs != nil) != strings.HasPrefix(g.Title, "W1 ") {
			t.Errorf("%s is open: %v, and has its jobs: %v", g.Title, g.Open, g.Jobs != nil)
		}
	}
	if v.Arms[0].Text != "sa" || v.Groups[0].arm.Mode != results.Simulated {
		t.Errorf("arms %+v", v.Arms)
	}
}

// An open load is judged by the time in the system, apart from batches: throughput says when its jobs arrived.
func TestOpenLoadIsJudgedByTimeInTheSystem(t *testing.T) {
	m := memory{}
	for i := 1; i <= 7; i++ {
		for _, scheduler := range []string{"sa", "case-alg3"} {
			m.add(simulatedRun(scheduler, i, 10+float64(i)/10))
			r := simulatedRun(scheduler, i, 10+float64(i)/10)
			r.run.Mix, r.run.Arrivals = "load", new("every 1s")
			m.add(r)
		}
	}
	v, err := build(t.Context(), m, m.runs(), Options{})
	if err != nil || len(v.Places) != 2 {
		t.Fatalf("%d places, %v", len(v.Places), err)
	}
	var got []string
	for _, p := range v.Places {
		got = append(got, p.Title, p.Result, fmt.Sprint(len(p.Notes)))
		for _, tile := range p.Tiles {
			got = append(got, tile.Name)
		}
		for _, of := range p.Over.Columns {
			got = append(got, of.Name)
		}
	}
	for _, g := range v.Groups {
		got = append(got, g.Result)
	}
	want := []string{"sim:2xV100", "case-alg3 is best: 2.00× (1.94 to 2.06) the throughput of sa on W1", "0", "Throughput", "Mean turnaround", "Crashed jobs",
		"scheduler", "crash_rate", "throughput_ratio", "turnaround_ratio", "turnaround_p95_ratio", "makespan_ratio", "job_slowdown_ratio", "fairness", "utilization", "runs",
		"sim:2xV100, open load", "case-alg3 is best: 0.67× (0.65 to 0.69) the mean turnaround of sa on load", "1", "Mean turnaround", "P95 turnaround", "Crashed jobs",
		"scheduler", "crash_rate", "turnaround_ratio", "turnaround_p95_ratio", "job_slowdown_ratio", "fairness", "utilization", "runs",
		"highest throughput: case-alg3, 2.00× (1.94 to 2.06)", "lowest mean turnaround: case-alg3, 0.67× (0.65 to 0.69)"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
