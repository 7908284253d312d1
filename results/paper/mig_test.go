package paper_test

import (
	"math"
	"slices"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/schedulers/policies"
)

// Memory in use of a simulated run is what its tasks held, in the mean over the makespan and the instances.
func TestMemoryOfSimulatedRuns(t *testing.T) {
	p, err := paper.Lookup("mig")
	if err != nil {
		t.Fatal(err)
	}
	const system = "1xA30/2x2g.12gb"
	swapped := int64(1)
	for _, c := range []struct {
		swaps *int64
		want  float64 // 0: unknown
	}{{nil, 100 / 50. * 3}, {&swapped, 0}} {
		n := paper.Node{Name: "sim:" + system, Mode: results.Simulated, Devices: 2, System: system, CapacityBytes: 1000,
			Tasks: func(run int64) ([]results.Task, error) { // under sa of 10 bytes for 20 of 100 s, else of 30 bytes for 20 of 50 s
				if run%2 == 0 {
					return []results.Task{{Bytes: 10, GrantS: new(10.0), ReleaseS: new(30.0)}}, nil
				}
				return []results.Task{{Bytes: 10, GrantS: new(0.0), ReleaseS: new(20.0)}, {Bytes: 20, GrantS: new(30.0)}, {Bytes: 500}}, nil
			}}
		for _, mix := range []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"} {
			m, err := mixes.Lookup(mix)
			if err != nil {
				t.Fatal(err)
			}
			for _, scheduler := range []string{"sa", "case-alg3"} {
				s, err := policies.Parse(scheduler, n.Devices)
				if err != nil {
					t.Fatal(err)
				}
				makespan := 100.0
				if scheduler != "sa" {
					makespan = 50
				}
				n.Runs = append(n.Runs, results.Run{ID: int64(len(n.Runs)), Mix: mix, MixSource: m.Source, Scheduler: s.Name, Parameters: s.Parameters(), Node: n.Name, Mode: n.Mode,
					Status: results.Complete, Jobs: len(m.Jobs), Metrics: results.Metrics{OK: len(m.Jobs), MakespanS: &makespan, ThroughputJobsPerS: new(1 / makespan),
						Swapping: results.Swapping{Swaps: c.swaps}}})
			}
		}
		page, err := p.Build([]paper.Node{n})
		if err != nil {
			t.Fatal(err)
		}
		rows := table(t, page, "slide 30").Rows
		for metric, want := range map[string]float64{"throughput_over_sa": 2, "memory_utilization_over_sa": c.want} {
			r := rows[slices.IndexFunc(rows, func(r paper.Row) bool { return r.Metric == metric })]
			if (r.Measured == nil) != (want == 0) || r.Measured != nil && math.Abs(r.Measured.Median-want) > 1e-9 {
				t.Errorf("swaps %v: %s: %+v, missing %q, want %g", c.swaps, metric, r.Measured, r.Missing, want)
			}
		}
	}
}
