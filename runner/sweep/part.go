package sweep

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
)

// Part is a part of a sweep's plan: part K of N, from 1. The zero value is the whole plan.
type Part struct{ K, N int }

// Whole reports whether the part is the whole plan.
func (p Part) Whole() bool { return p.N == 0 }

// String is the part as --part takes it.
func (p Part) String() string {
	if p.Whole() {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.K, p.N)
}

// Set reads K/N.
func (p *Part) Set(text string) error {
	k, n, _ := strings.Cut(text, "/")
	var err, bad error
	if p.K, err = input.Int(k); err == nil {
		p.N, bad = input.Int(n)
	}
	if err != nil || bad != nil || p.K < 1 || p.K > p.N {
		return fmt.Errorf("want K/N with K from 1 to N, such as 1/2")
	}
	return nil
}

// Type names the value in help.
func (p *Part) Type() string { return "K/N" }

// Flag is the part as a command in a hint has it.
func (p Part) Flag() string {
	if p.Whole() {
		return ""
	}
	return " --part " + p.String()
}

// FitNew refuses a part of a new plan if no other machine would make the same plan, or if the plan has
// too few blocks. A live plan has the time at which it was made.
func (p Part) FitNew(plan *Plan) error {
	if !p.Whole() && plan.Mode == results.Live {
		return refuse("--part %s: the parts of a live sweep come from one plan: store it with --plan-only in place of --part, copy the store to each machine, and there run caserun sweep --resume latest --part %[1]s", p)
	}
	return p.Fit(plan.Cells())
}

// Fit refuses a part of a plan that has too few blocks for it.
func (p Part) Fit(cells []results.Cell) error {
	if p.Whole() {
		return nil
	}
	if blocks := Blocks(cells); p.N > blocks {
		return refuse("part %s: the sweep has %s, which are not divided: want %[3]d parts at most", p, countBlocks(blocks), blocks)
	}
	return nil
}

func countBlocks(n int) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("%d blocks", n)
}

// Of are the cells of a part in the order of execution. cells are those of the whole plan. A part
// has whole blocks. It also has the warm-ups of its mixes, because each machine must be warm.
func (p Part) Of(spec results.Spec, cells []results.Cell) []results.Cell {
	if p.Whole() {
		return cells
	}
	parts := cut(spec, cells, p.N)
	mine := map[string]bool{} // mixes
	for b, k := range parts {
		if k == p.K {
			mine[b.mix] = true
		}
	}
	var out []results.Cell
	for _, c := range cells {
		if c.Warmup && mine[c.Mix] || !c.Warmup && parts[blockOf(c)] == p.K {
			out = append(out, c)
		}
	}
	return out
}

// block is one repetition of one mix, under all schedulers and with all probes. It stays on one
// machine, so that what is compared ran on the same one.
type block struct {
	mix        string
	repetition int
}

func blockOf(c results.Cell) block { return block{c.Mix, c.Repetition} }

// Blocks is the number of blocks of a plan, which is the largest number of parts.
func Blocks(cells []results.Cell) int {
	seen := map[block]bool{}
	for _, c := range cells {
		if !c.Warmup {
			seen[blockOf(c)] = true
		}
	}
	return len(seen)
}

// cut gives each block to a part, from 1 to n. In the order of the plan, a block goes to the part
// that has the least to do so far, by the estimates that the plan was stored with. So the cut is the
// same on every machine, and more repetitions move no block to another part.
func cut(spec results.Spec, cells []results.Cell, n int) map[block]int {
	var order []block
	takes, expected := map[block]float64{}, spec.Expected()
	for _, c := range cells {
		if c.Warmup {
			continue
		}
		b := blockOf(c)
		if _, seen := takes[b]; !seen {
			order = append(order, b)
		}
		takes[b] += expected(c)
	}
	loads := make(loads, n)
	for i := range loads {
		loads[i].part = i + 1
	}
	parts := make(map[block]int, len(order))
	for _, b := range order {
		least := &loads[0]
		parts[b] = least.part
		least.seconds += takes[b]
		heap.Fix(&loads, 0)
	}
	return parts
}

// again are the complete cells of a part that this machine does once more: those of blocks that another
// machine has begun and not ended, so that each block is of one machine, and warm-ups. If the time limit has no
// room for that, there are none, because a block that is begun anew each time would never end.
func (s *Call) again(ctx context.Context, left []results.Cell, times Estimates) ([]results.Cell, error) {
	if s.Part.Whole() || s.Plan.Mode != results.Live || len(left) == 0 {
		return nil, nil
	}
	cells, err := s.Store.Cells(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	here, err := s.Store.DoneOn(ctx, s.ID, s.Plan.machine)
	if err != nil {
		return nil, err
	}
	open, warm, undone := map[block]bool{}, map[string]bool{}, map[int]bool{}
	var takes time.Duration
	for _, c := range left {
		warm[c.Mix], undone[c.Position] = true, true
		if !c.Warmup {
			open[blockOf(c)] = true
		}
		takes += times.Of(c).duration()
	}
	var out []results.Cell
	blocks := map[block]bool{}
	for _, c := range cells {
		if undone[c.Position] || here[c.Position] || c.Warmup && !warm[c.Mix] || !c.Warmup && !open[blockOf(c)] {
			continue
		}
		out = append(out, c)
		takes += times.Of(c).duration()
		if !c.Warmup {
			blocks[blockOf(c)] = true
		}
	}
	switch now := s.Now(); {
	case len(blocks) == 0:
	case !s.Limit.fits(now, Estimate{Seconds: takes.Seconds()}):
		s.Say("part %s: continues here, and is then of two machines, because the time limit has no room to do it anew: %s that another machine has begun", s.Part, countBlocks(len(blocks)))
		return nil, nil
	default:
		s.Say("part %s: done anew here, to be of one machine: %s that another machine has begun", s.Part, countBlocks(len(blocks)))
	}
	return out, nil
}

// inOrder are the cells of both lists in the order of the plan.
func inOrder(a, b []results.Cell) []results.Cell {
	return slices.SortedFunc(slices.Values(slices.Concat(a, b)), func(a, b results.Cell) int { return a.Position - b.Position })
}

// loads is a heap of parts: first is the part with the least to do, and of equal ones the first.
type loads []struct {
	seconds float64
	part    int
}

func (l loads) Len() int { return len(l) }
func (l loads) Less(i, j int) bool {
	if l[i].seconds != l[j].seconds {
		return l[i].seconds < l[j].seconds
	}
	return l[i].part < l[j].part
}
func (l loads) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l loads) Push(any)      {} // a cut has as many parts at its end as at its beginning
func (l loads) Pop() any      { return nil }
