package figures

import (
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
)

// matrices are those of made-up runs on some nodes: sa takes 100 s and every next scheduler half as long.
func matrices(t *testing.T, schedulers []string, nodes ...string) []regress.Matrix {
	t.Helper()
	side := regress.Side{Label: "sweep:1"}
	for _, node := range nodes {
		for _, mix := range []string{"mine", "W1"} {
			for i, scheduler := range schedulers {
				for repetition := range 5 {
					makespan := (100 + float64(repetition)) / float64(int(1)<<i)
					r := results.Run{ID: int64(len(side.Runs) + 1), Mix: mix, Scheduler: scheduler, Node: node, Mode: results.Simulated, Jobs: 8, Status: results.Complete, Seed: uint64(repetition),
						Provenance: results.Provenance{Configuration: `{"sim-noise":0.01}`}, Metrics: results.Metrics{OK: 8, MakespanS: &makespan, ThroughputJobsPerS: new(8 / makespan)}}
					if scheduler == "cg" {
						r.Metrics.OK, r.Metrics.Crashed = 6, 2
					}
					side.Runs = append(side.Runs, regress.Observation{Run: r})
				}
			}
		}
	}
	out, err := regress.Matrices(side, "", regress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMatricesOfAnySweepAreDrawn(t *testing.T) {
	drawn := OfMatrices(matrices(t, []string{"sa", "cg"}, "sim:4xV100"))
	var ids []string
	for _, f := range drawn {
		ids = append(ids, f.ID)
		svg, err := Draw(f, SVG)
		if err != nil {
			t.Fatal(err)
		}
		words := svgText(t, svg)
		if lost := f.ID != "crashes"; lost != strings.Contains(words, "not comparable") || lost != strings.Contains(f.Caption, "A cross: not comparable") {
			t.Errorf("%s of cg, which lost a quarter of its jobs, is marked: want %v: %s; %s", f.ID, lost, words, f.Caption)
		}
		for _, want := range []string{"SIMULATED on sim:4xV100", "mine", "W1", "sa", "cg"} {
			if !strings.Contains(words, want) {
				t.Errorf("%s does not say %q: %s", f.ID, want, words)
			}
		}
	}
	if want := []string{"throughput", "makespan", "crashes"}; !slices.Equal(ids, want) {
		t.Fatalf("figures %q, want %q", ids, want)
	}
	if mean := drawn[0].Bars.Series[1].Bars[2]; mean == nil || !(mean.Low < 2 && 2 < mean.High) || !(1.99 < mean.Median && mean.Median < 2.01) {
		t.Errorf("throughput of cg over sa, over both mixes: %+v", mean)
	}
	if share := drawn[2].Bars.Series[1].Bars[0]; share == nil || share.Median != 25 || share.Bounded() {
		t.Errorf("crashed jobs of cg, %%: %+v", share)
	}

	ids = nil
	for _, f := range OfMatrices(matrices(t, []string{"sa", "zero"}, "sim:2xP100", "sim:4xV100")) {
		ids = append(ids, f.ID)
	}
	if want := []string{"throughput-sim-2xP100", "makespan-sim-2xP100", "throughput-sim-4xV100", "makespan-sim-4xV100"}; !slices.Equal(ids, want) {
		t.Errorf("figures of two nodes without crashes: %q, want %q", ids, want)
	}
	if drawn := OfMatrices(matrices(t, []string{"sa"}, "sim:4xV100")); len(drawn) != 0 {
		t.Errorf("one scheduler has %d figures", len(drawn))
	}
}
