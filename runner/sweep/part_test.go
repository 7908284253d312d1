package sweep

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
)

// The parts of a plan have each block once, whole and in the plan's order, with warm-ups of its mix.
// No part has more to do than another by more than a block, and more repetitions move no block.
func TestParts(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		mixes, scheds := rapid.IntRange(1, 5).Draw(t, "mixes"), rapid.IntRange(1, 4).Draw(t, "scheds")
		spec := results.Spec{Probes: []results.Probe{results.Lazy}}
		for i := range mixes {
			spec.Mixes = append(spec.Mixes, results.SpecMix{Name: fmt.Sprint("W", i)})
		}
		for i := range scheds {
			spec.Scheds = append(spec.Scheds, fmt.Sprint("s", i))
		}
		if rapid.Bool().Draw(t, "estimated") {
			spec.Estimates = rapid.SliceOfN(rapid.Float64Range(0, 1000), mixes*scheds, mixes*scheds).Draw(t, "estimates")
		}
		reps, n := rapid.IntRange(1, 6).Draw(t, "reps"), rapid.IntRange(1, 8).Draw(t, "n")
		var plan []results.Cell
		add := func(c results.Cell) {
			c.Position = len(plan)
			plan = append(plan, c)
		}
		for i := range mixes {
			add(results.Cell{Mix: spec.Mixes[i].Name, Scheduler: "s0", Repetition: 1, Warmup: true})
		}
		var earlier int // cells of all repetitions but the last
		for rep := range reps {
			earlier = len(plan)
			for _, arm := range rapid.Permutation(seq(mixes*scheds)).Draw(t, "order") {
				add(results.Cell{Mix: spec.Mixes[arm/scheds].Name, Scheduler: spec.Scheds[arm%scheds], Repetition: rep + 1})
			}
		}
		seen := map[int]int{} // part by position
		loads, largest := make([]float64, n), 0.0
		takes, expected := map[block]float64{}, spec.Expected()
		for k := range n {
			part := Part{K: k + 1, N: n}
			last := -1
			warm := map[string]bool{}
			for _, c := range part.Of(spec, plan) {
				if c.Position <= last {
					t.Fatalf("part %s: cell %d comes after cell %d", part, c.Position, last)
				}
				last = c.Position
				if c.Warmup {
					warm[c.Mix] = true
					continue
				}
				if !warm[c.Mix] {
					t.Fatalf("part %s: mix %s is not warmed up", part, c.Mix)
				}
				if other, taken := seen[c.Position]; taken {
					t.Fatalf("cell %d is in parts %d and %d", c.Position, other, part.K)
				}
				seen[c.Position] = part.K
				loads[k] += expected(c)
				takes[blockOf(c)] += expected(c)
				largest = max(largest, takes[blockOf(c)])
			}
		}
		parts := map[block]int{}
		for _, c := range plan[mixes:] {
			part, taken := seen[c.Position]
			if before, known := parts[blockOf(c)]; !taken || known && before != part {
				t.Fatalf("cell %d is in part %d, another cell of its block in part %d", c.Position, part, before)
			}
			parts[blockOf(c)] = part
		}
		for i, a := range loads {
			for j, b := range loads {
				if a > b+largest*(1+1e-9) {
					t.Errorf("part %d takes %v s, part %d %v s, and the largest block %v s", i+1, a, j+1, b, largest)
				}
			}
		}
		for k := range n {
			for _, c := range (Part{K: k + 1, N: n}).Of(spec, plan[:earlier]) {
				if !c.Warmup && seen[c.Position] != k+1 {
					t.Errorf("cell %d moved from part %d to part %d with one more repetition", c.Position, k+1, seen[c.Position])
				}
			}
		}
	})
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// A run that is not done is under way, failed or missing.
func TestStanding(t *testing.T) {
	spec := results.Spec{Mixes: []results.SpecMix{{Name: "W1"}}, Scheds: []string{"sa", "cg"}, Probes: []results.Probe{results.Lazy}, Estimates: []float64{3, 5}}
	var cells []results.Cell
	for i, run := range []*int64{new(int64(1)), new(int64(2)), new(int64(3)), nil, new(int64(9))} {
		cells = append(cells, results.Cell{Position: i, Mix: "W1", Scheduler: spec.Scheds[i%2], Repetition: i/2 + 1, Run: run})
	}
	status := map[int64]results.Status{1: results.Complete, 2: results.Running, 3: results.Interrupted}
	got := standing(Part{}, spec, cells, status)
	if want := (Standing{Blocks: 3, Runs: 5, Done: 1, UnderWay: 1, Failed: 2, Missing: 1, LeftS: 5 + 3 + 5 + 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestPartIsRead(t *testing.T) {
	var p Part
	for text, ok := range map[string]bool{"1/1": true, "3/4": true, "4/3": false, "0/2": false, "1": false, "1/": false, "/2": false,
		"1/2/3": false, "a/b": false, "-1/2": false, "": false} {
		if err := p.Set(text); (err == nil) != ok || ok && p.String() != text {
			t.Errorf("%q: %v, read as %s", text, err, p)
		}
	}
}
