package sim

import (
	"context"
	"fmt"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

type nop struct{ kernels []results.Kernel; segs []results.Segment }

func (*nop) Job(results.Job)         {}
func (*nop) Task(results.Task)       {}
func (n *nop) Kernel(k results.Kernel)   { n.kernels = append(n.kernels, k) }
func (n *nop) Segment(s results.Segment) { n.segs = append(n.segs, s) }
func (*nop) Event(results.Event)     {}

func TestExplore(t *testing.T) {
	pub := map[string][]float64{"sim:4xV100": {0.139, .123, .17, .189, .174, .184, .182, .143}, "sim:2xP100": {.073, .068, .083, .108, .088, .099, .107, .07}}
	for _, nn := range []string{"sim:4xV100", "sim:2xP100"} {
		node, _ := ParseNode(nn)
		for _, sched := range []string{"sa", "cg:workers=6", "cg:workers=8", "cg:workers=10", "cg:workers=12", "case-alg2", "case-alg3"} {
			for w := 1; w <= 8; w++ {
				m, err := mixes.Lookup(fmt.Sprintf("W%d", w))
				if err != nil {
					t.Fatal(err)
				}
				s, err := schedulers.Parse(sched, node.Count)
				if err != nil {
					t.Fatal(err)
				}
				n := &nop{}
				x, err := NewExecutor(Config{Node: node, Jobs: m.Jobs, MPS: s.Shares}, n)
				if err != nil {
					t.Fatal(err)
				}
				jobs, err := runner.Run(context.Background(), runner.Config{Jobs: m.Jobs, Devices: node.Devices(s.Shares), Scheduler: s, Workers: node.Threads(), MPS: s.Shares}, x, n)
				if err != nil {
					t.Fatal(err)
				}
				end, ok, ta := 0.0, 0, 0.0
				for _, j := range jobs {
					end = max(end, *j.EndS)
					if *j.Outcome == results.OK {
						ok++
						ta += *j.EndS
					}
				}
				tp := float64(ok) / end
				fmt.Printf("%s %-14s W%d ok %d/%d makespan %6.1f thr %.3f (sa pub %.3f ratio %.2f) turn %.1f\n", nn, sched, w, ok, len(jobs), end, tp, pub[nn][w-1], tp/pub[nn][w-1], ta/float64(ok))
			}
		}
	}
}
