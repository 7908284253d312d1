package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

// books are what a cluster has left, kept apart from it.
type books struct {
	nodes []Node
	free  [][]int // thousandths of each GPU
}

func newBooks(nodes []Node) *books {
	b := &books{nodes: slices.Clone(nodes)}
	for _, n := range nodes {
		b.free = append(b.free, slices.Repeat([]int{Whole}, n.GPUs))
	}
	return b
}

// add gives a task what it asks for, or with a negative sign takes it back.
func (b *books) add(t *testing.T, shape Shape, p Placement, sign int) {
	t.Helper()
	n := &b.nodes[p.Node]
	n.CPU -= int64(sign) * shape.CPU
	n.Memory -= int64(sign) * shape.Memory
	gpus := 0
	for g := range MaxGPUs {
		if p.GPUs>>g&1 == 0 {
			continue
		}
		gpus++
		b.free[p.Node][g] -= sign * shape.Share
		if b.free[p.Node][g] < 0 || b.free[p.Node][g] > Whole {
			t.Fatalf("GPU %d of node %d has %d thousandths left", g, p.Node, b.free[p.Node][g])
		}
	}
	if n.CPU < 0 || n.Memory < 0 || gpus != shape.GPUs || !b.allows(shape, p.Node) {
		t.Fatalf("%+v on %+v: %+v", shape, p, *n)
	}
}

func (b *books) allows(shape Shape, node int) bool {
	return shape.GPUs == 0 || shape.Models == "" || slices.Contains(strings.Split(shape.Models, "|"), b.nodes[node].Model)
}

func (b *books) fits(shape Shape, node int) bool {
	room := 0
	for _, free := range b.free[node] {
		if free >= shape.Share {
			room++
		}
	}
	n := b.nodes[node]
	return b.allows(shape, node) && n.CPU >= shape.CPU && n.Memory >= shape.Memory && (shape.GPUs == 0 || room >= shape.GPUs)
}

// fragmentation is that of the paper, for each task of the workload alone.
func (b *books) fragmentation(target []Shape) (sum float64) {
	for _, task := range target {
		for node := range b.nodes {
			for _, free := range b.free[node] {
				if task.GPUs == 0 || !b.fits(task, node) || free < task.Share {
					sum += float64(free) / float64(len(target))
				}
			}
		}
	}
	return sum
}

// draw makes a small cluster and tasks for it.
func draw(r *rand.Rand) (nodes []Node, target []Shape) {
	models := []string{"V100M16", "V100M32", "G2"}
	for range 1 + r.IntN(6) {
		nodes = append(nodes, Node{CPU: 1000 * int64(r.IntN(64)), Memory: 1000 * int64(r.IntN(64)), GPUs: r.IntN(9), Model: models[r.IntN(3)]})
	}
	for range 1 + r.IntN(30) {
		shape := Shape{CPU: 1000 * int64(r.IntN(16)), Memory: 1000 * int64(r.IntN(16)), GPUs: r.IntN(5), Share: 100 * (1 + r.IntN(10)), Models: []string{"", "V100M16|V100M32", "G2", "T4"}[r.IntN(4)]}
		if shape.GPUs > 1 && r.IntN(2) == 0 {
			shape.Share = Whole
		}
		target = append(target, shape)
	}
	return nodes, target
}

func TestEveryPolicyKeepsTheBooks(t *testing.T) {
	for _, policy := range Policies() {
		for seed := range chance.Seeds(t, 20, 500) {
			r := rand.New(rand.NewPCG(seed, 1))
			nodes, target := draw(r)
			c, err := New(nodes, target, policy, r)
			if err != nil {
				t.Fatal(err)
			}
			b := newBooks(nodes)
			type held struct {
				Shape
				Placement
			}
			var running []held
			for range 60 {
				if len(running) > 0 && r.IntN(3) == 0 {
					i := r.IntN(len(running))
					c.Release(running[i].Placement)
					b.add(t, running[i].Shape, running[i].Placement, -1)
					running = slices.Delete(running, i, i+1)
				}
				shape := target[r.IntN(len(target))]
				anywhere := slices.ContainsFunc([]int{0, 1, 2, 3, 4, 5}[:len(nodes)], func(node int) bool { return b.fits(shape, node) })
				of, fits := c.Class(shape)
				p, ok := c.Place(of, nil)
				if ok && !fits {
					t.Fatalf("%s, seed %d: %+v is placed, but fits nowhere", policy.Name, seed, shape)
				}
				if ok != anywhere {
					t.Fatalf("%s, seed %d: %+v is placed: %v, a node has room: %v", policy.Name, seed, shape, ok, anywhere)
				}
				if ok {
					b.add(t, shape, p, 1)
					running = append(running, held{shape, p})
				}
				if got, want := c.Fragmentation(), b.fragmentation(target); math.Abs(got-want) > 1e-6 {
					t.Fatalf("%s, seed %d: fragmentation %g, want %g", policy.Name, seed, got, want)
				}
			}
			for _, h := range running {
				c.Release(h.Placement)
			}
			fresh, _ := New(nodes, target, policy, r)
			if c.Allocated() != 0 || c.fragmented != fresh.fragmented || len(c.states) != len(fresh.states) {
				t.Fatalf("%s, seed %d: not all is given back", policy.Name, seed)
			}
		}
	}
}

// By the definition: of all places, the one after which fragmentation is least.
func TestFGDTakesTheSteepestDescent(t *testing.T) {
	for seed := range chance.Seeds(t, 40, 1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		nodes, target := draw(r)
		c, err := New(nodes, target, fgd, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := newBooks(nodes)
		for range 20 {
			shape := target[r.IntN(len(target))]
			if shape.GPUs > 1 {
				shape.Share = Whole
				continue
			}
			least := math.Inf(1)
			for node := range nodes {
				if !b.fits(shape, node) {
					continue
				}
				for g := range max(nodes[node].GPUs, 1) {
					p := Placement{Node: node}
					if shape.GPUs == 1 {
						if b.free[node][g] < shape.Share {
							continue
						}
						p.GPUs = 1 << g
					}
					b.add(t, shape, p, 1)
					least = min(least, b.fragmentation(target))
					b.add(t, shape, p, -1)
				}
			}
			of, _ := c.Class(shape)
			if p, ok := c.Place(of, nil); ok {
				b.add(t, shape, p, 1)
				if got := b.fragmentation(target); got > least+1e-6 {
					t.Fatalf("seed %d: fragmentation %g, another place has %g", seed, got, least)
				}
			}
		}
	}
}

// Each policy places a task beside others: where, by hand.
func TestWhereEachPolicyPlaces(t *testing.T) {
	nodes := []Node{{16000, 100, 4, "A"}, {64000, 100, 4, "A"}, {32000, 100, 2, "A"}}
	half, quarter, one, two := Shape{CPU: 4000, GPUs: 1, Share: 500}, Shape{CPU: 1000, GPUs: 1, Share: 250}, Shape{CPU: 1000, GPUs: 1, Share: Whole}, Shape{CPU: 8000, GPUs: 2, Share: Whole}
	target := []Shape{half, half, quarter, one, two}
	for _, c := range []struct {
		policy string
		before map[int][]Shape // by node
		task   Shape
		want   string // node and GPUs
	}{
		{"best-fit", nil, quarter, "2:[0]"},                                                // the smallest by both
		{"best-fit", map[int][]Shape{0: {two, one}}, quarter, "0:[3]"},                     // 1 GPU and 7 CPUs left
		{"best-fit", map[int][]Shape{2: {half}}, quarter, "2:[0]"},                         // the fuller GPU
		{"dot-product", map[int][]Shape{1: {two, one, half}}, one, "2:[0]"},                // 3.5 GPUs do not fit a whole one
		{"packing", map[int][]Shape{1: {half}, 2: {quarter}}, quarter, "1:[0]"},            // the fullest GPU in use
		{"packing", map[int][]Shape{1: {half}}, one, "1:[1]"},                              // an idle GPU of a node in use
		{"packing", nil, one, "2:[0]"},                                                     // the smallest idle node
		{"clustering", map[int][]Shape{0: {half}, 1: {two}}, two, "1:[2 3]"},               // the same kind
		{"clustering", map[int][]Shape{0: {half}, 1: {one}}, two, "2:[0 1]"},               // an idle node before other kinds
		{"clustering", map[int][]Shape{0: {quarter, one}, 1: {quarter}}, quarter, "1:[0]"}, // alone before mixed
		{"fgd", map[int][]Shape{0: {half}, 1: {one}}, half, "0:[0]"},                       // fills the half
	} {
		policy, err := Named(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := New(nodes, target, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		for node := range nodes {
			for _, shape := range c.before[node] {
				of, _ := cluster.Class(shape)
				if _, ok := cluster.Place(of, []int{node}); !ok {
					t.Fatalf("%s: no room for %+v on %d", c.policy, shape, node)
				}
			}
		}
		of, _ := cluster.Class(c.task)
		p, ok := cluster.Place(of, nil)
		var gpus []int
		for g := range MaxGPUs {
			if p.GPUs>>g&1 != 0 {
				gpus = append(gpus, g)
			}
		}
		if got := fmt.Sprintf("%d:%v", p.Node, gpus); !ok || got != c.want {
			t.Errorf("%s: %+v beside %+v goes to %s, want %s", c.policy, c.task, c.before, got, c.want)
		}
	}
}

func TestRandomFitDrawsAllPlaces(t *testing.T) {
	seen := map[string]bool{}
	task := Shape{GPUs: 1, Share: 100}
	for seed := range uint64(60) {
		c, err := New([]Node{{GPUs: 2}, {GPUs: 1}}, []Shape{task}, randomFit, rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Place(0, nil)
		seen[fmt.Sprint(p.Node, p.GPUs)] = true
	}
	if len(seen) != 3 {
		t.Errorf("places %v, want 3", seen)
	}
}

func TestTheMostFrequentShapesAreTheTarget(t *testing.T) {
	var expected []Shape
	for i := range MaxTarget + 1 {
		expected = append(expected, Shape{CPU: int64(i), GPUs: 1, Share: Whole})
	}
	half := Shape{GPUs: 1, Share: 500} // the last, and the most frequent
	c, err := New([]Node{{CPU: 1000, GPUs: 1}}, append(expected, half, half), fgd, nil)
	if err != nil {
		t.Fatal(err)
	}
	of, _ := c.Class(half)
	if _, ok := c.Place(of, nil); !ok || c.tasks != MaxTarget+1 || c.Fragmentation() != 500*float64(MaxTarget-1)/(MaxTarget+1) {
		t.Errorf("of %d tasks: %g", c.tasks, c.Fragmentation())
	}
	if _, fits := c.Class(expected[0]); !fits {
		t.Error("a class has no room in the empty cluster")
	}
}

func TestWhatNoClusterHas(t *testing.T) {
	var many []Node
	for i := range MaxModels + 1 {
		many = append(many, Node{GPUs: 1, Model: fmt.Sprint(i)})
	}
	for _, nodes := range [][]Node{{{GPUs: MaxGPUs + 1}}, {{CPU: -1}}, {{Memory: -1}}, many} {
		if _, err := New(nodes, nil, fgd, nil); err == nil {
			t.Errorf("nodes %+v", nodes[:1])
		}
	}
	for _, shape := range []Shape{{CPU: -1}, {GPUs: 17, Share: 1}, {GPUs: 1}, {GPUs: 1, Share: 1001}, {Memory: math.MaxInt64}} {
		if _, err := New([]Node{{GPUs: 1}}, []Shape{shape}, fgd, nil); err == nil {
			t.Errorf("shape %+v", shape)
		}
	}
	if _, err := Named("fdg"); err == nil {
		t.Error("a policy fdg")
	}
	for _, p := range Policies() {
		if p.Brief == "" || p.Source == "" {
			t.Errorf("%s has no brief or no source", p.Name)
		}
	}
}
