// Package placement decides to which node of a cluster a task goes, and to which of its GPUs. Tasks ask for shares of a GPU or
// for whole ones. Time and chance are the caller's.
package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	// Whole is a GPU in thousandths.
	Whole = 1000
	// MaxGPUs is how many GPUs a node can have.
	MaxGPUs = 16
	// MaxModels is how many models of GPUs a cluster can have.
	MaxModels = 64
	// most catches typing errors. What all nodes have together stays far below an overflow.
	most = 1 << 40
)

// Node is what a node has when it is empty.
type Node struct {
	CPU    int64 // thousandths of a CPU
	Memory int64 // of the host, in MiB
	GPUs   int
	Model  string // of its GPUs
}

// Shape is what a task asks for. All that it asks for is on one node.
type Shape struct {
	CPU    int64 // thousandths of a CPU
	Memory int64 // of the host, in MiB
	GPUs   int
	Share  int    // thousandths that it takes of each of these GPUs
	Models string // that it can use, as in V100M16|V100M32; "": all
}

// Demand is what a task takes of all GPUs together, in thousandths of one.
func (s Shape) Demand() int64 { return int64(s.GPUs) * int64(s.Share) }

// Check refuses a shape that cannot be.
func (s Shape) Check() error {
	switch {
	case s.CPU < 0 || s.Memory < 0 || s.CPU > most || s.Memory > most:
		return fmt.Errorf("%d thousandths of a CPU and %d MiB: want numbers from 0 to %d", s.CPU, s.Memory, int64(most))
	case s.GPUs < 0 || s.GPUs > MaxGPUs:
		return fmt.Errorf("%d GPUs: want 0 to %d on one node", s.GPUs, MaxGPUs)
	case s.GPUs > 0 && (s.Share < 1 || s.Share > Whole):
		return fmt.Errorf("a share of %d of a GPU: want thousandths from 1 to %d", s.Share, Whole)
	}
	return nil
}

// Check refuses a node that cannot be.
func (n Node) Check() error {
	if n.CPU < 0 || n.Memory < 0 || n.CPU > most || n.Memory > most || n.GPUs < 0 || n.GPUs > MaxGPUs {
		return fmt.Errorf("a node with %d thousandths of a CPU, %d MiB and %d GPUs: want numbers that are not negative, and %d GPUs at most", n.CPU, n.Memory, n.GPUs, MaxGPUs)
	}
	return nil
}

// State is what a node has left. Nodes of the same state are the same to every policy.
type State struct {
	CPU, Memory int64
	GPUs        int8
	Model       int8
	Kinds       uint32         // of tasks with GPUs that are on it, a bit each (Shape.kind)
	Free        [MaxGPUs]int16 // thousandths of each GPU, ascending
}

// Room is what is free of all GPUs together, in thousandths of one.
func (s *State) Room() (room int64) {
	for _, free := range s.Free[:s.GPUs] {
		room += int64(free)
	}
	return room
}

// kind tells tasks apart as GPU clustering does: a share of a GPU, or so many GPUs.
func (s Shape) kind() int {
	if s.GPUs == 1 && s.Share < Whole {
		return 0
	}
	return s.GPUs
}

// class is a shape with the models that it can use, a bit each, and how many tasks of the target workload have it.
type class struct {
	Shape
	models uint64
	count  int64
	fits   bool // on a node that is empty
}

// first is the first GPU of a state with the class's share free, and whether the class fits on the node. A task of several GPUs
// takes GPUs that follow each other in Free.
func (c *class) first(s *State) (first int, fits bool) {
	if s.CPU < c.CPU || s.Memory < c.Memory {
		return 0, false
	}
	if c.GPUs == 0 {
		return 0, true
	}
	for first < int(s.GPUs) && int(s.Free[first]) < c.Share {
		first++
	}
	return first, int(s.GPUs)-first >= c.GPUs && c.models>>s.Model&1 != 0
}

// take is the state once a task of the class has GPUs from at on.
func (c *class) take(s State, at int) State {
	s.CPU -= c.CPU
	s.Memory -= c.Memory
	for i := range c.GPUs {
		s.Free[at+i] -= int16(c.Share)
	}
	slices.Sort(s.Free[:s.GPUs])
	return s
}

// answer is what a policy thinks of a class on nodes of a state.
type answer struct {
	asked, fits bool
	at          int8 // the first GPU that the task takes
	score       float64
}

// known is what is known of a state that nodes are in.
type known struct {
	nodes         int
	fragmentation int64 // Cluster.fragmentation
	answers       []answer
}

type node struct {
	State
	*known
	free  [MaxGPUs]int16 // thousandths of each GPU, by its number
	tasks [MaxGPUs + 1]int
}

// Cluster is nodes with the tasks that a policy has placed on them.
type Cluster struct {
	policy  Policy
	random  *rand.Rand
	nodes   []node
	classes []class
	of      map[Shape]int // places in classes
	target  []*class      // by which fragmentation is measured
	tasks   int64         // of the target
	cpu     float64       // the most of a node
	gpus    float64
	states  map[State]*known

	capacity, allocated, fragmented int64 // the last in thousandths of a GPU, times tasks
}

// New makes an empty cluster. expected are the tasks that will come. By the most frequent shapes of these fragmentation is measured.
// random is only used by policies that draw.
func New(nodes []Node, expected []Shape, policy Policy, random *rand.Rand) (*Cluster, error) {
	c := &Cluster{policy: policy, random: random, of: map[Shape]int{}, states: map[State]*known{}}
	models := map[string]int8{}
	for _, n := range nodes {
		if err := n.Check(); err != nil {
			return nil, err
		}
		if _, ok := models[n.Model]; !ok {
			models[n.Model] = int8(len(models))
		}
		if len(models) > MaxModels {
			return nil, fmt.Errorf("more than %d models of GPUs", MaxModels)
		}
		c.cpu, c.gpus = max(c.cpu, float64(n.CPU)), max(c.gpus, float64(n.GPUs)*Whole)
	}
	for _, shape := range expected {
		if err := c.expect(shape, models); err != nil {
			return nil, err
		}
	}
	c.aim()
	c.nodes = make([]node, len(nodes))
	for i, n := range nodes {
		at := &c.nodes[i]
		at.CPU, at.Memory, at.GPUs, at.Model = n.CPU, n.Memory, int8(n.GPUs), models[n.Model]
		for g := range n.GPUs {
			at.free[g] = Whole
		}
		c.capacity += int64(n.GPUs) * Whole
		c.enter(at)
	}
	for state := range c.states {
		for i := range c.classes {
			_, fits := c.classes[i].first(&state)
			c.classes[i].fits = c.classes[i].fits || fits
		}
	}
	return c, nil
}

// MaxTarget is how many shapes the workload has by which fragmentation is measured: the most frequent ones.
const MaxTarget = 256

// aim chooses the target workload.
func (c *Cluster) aim() {
	for i := range c.classes {
		c.target = append(c.target, &c.classes[i])
	}
	slices.SortStableFunc(c.target, func(a, b *class) int { return cmp.Compare(b.count, a.count) })
	c.target = c.target[:min(len(c.target), MaxTarget)]
	for _, m := range c.target {
		c.tasks += m.count
	}
}

// expect adds a task to those that will come.
func (c *Cluster) expect(shape Shape, models map[string]int8) error {
	if err := shape.Check(); err != nil {
		return err
	}
	at, ok := c.of[shape]
	if !ok {
		at = len(c.classes)
		c.of[shape] = at
		c.classes = append(c.classes, class{Shape: shape, models: allowed(shape.Models, models)})
	}
	c.classes[at].count++
	return nil
}

// allowed are the models that a task can use, a bit each.
func allowed(names string, models map[string]int8) (bits uint64) {
	if names == "" {
		return math.MaxUint64
	}
	for name := range strings.SplitSeq(names, "|") {
		if at, ok := models[strings.TrimSpace(name)]; ok {
			bits |= 1 << at
		}
	}
	return bits
}

// enter looks up a node's state after a change.
func (c *Cluster) enter(n *node) {
	n.Free = n.free
	slices.Sort(n.Free[:n.GPUs])
	n.Kinds = 0
	for kind, tasks := range n.tasks {
		if tasks > 0 {
			n.Kinds |= 1 << kind
		}
	}
	k := c.states[n.State]
	if k == nil {
		k = &known{fragmentation: c.fragmentation(&n.State), answers: make([]answer, len(c.classes))}
		c.states[n.State] = k
	}
	k.nodes++
	n.known = k
	c.fragmented += k.fragmentation
}

// leave forgets a node's state before a change.
func (c *Cluster) leave(n *node) {
	c.fragmented -= n.fragmentation
	if n.nodes--; n.nodes == 0 {
		delete(c.states, n.State)
	}
}

// Placement is a task on a node.
type Placement struct {
	Node int    // its place in the nodes of New
	GPUs uint16 // a bit each
	of   int    // place in classes
}

// Class is the number of an expected shape, from 0 on; another panics. fits: a task of it has room in the empty cluster.
func (c *Cluster) Class(shape Shape) (of int, fits bool) {
	of, known := c.of[shape]
	if !known {
		panic(fmt.Sprintf("placement: %+v is not expected", shape))
	}
	return of, c.classes[of].fits
}

// Classes is how many classes there are.
func (c *Cluster) Classes() int { return len(c.classes) }

// Place places a task of a class on one of the nodes, or on any of the cluster if among is nil.
func (c *Cluster) Place(of int, among []int) (p Placement, ok bool) {
	best, at := c.choose(of, among)
	if best < 0 {
		return p, false
	}
	p = Placement{Node: best, of: of}
	n, wanted := &c.nodes[best], &c.classes[of]
	c.leave(n)
	n.CPU -= wanted.CPU
	n.Memory -= wanted.Memory
	var order []int
	for g := range int(n.GPUs) {
		order = append(order, g)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(n.free[a]) - int(n.free[b]) })
	for _, g := range order[at:][:wanted.GPUs] {
		n.free[g] -= int16(wanted.Share)
		p.GPUs |= 1 << g
	}
	if wanted.GPUs > 0 {
		n.tasks[wanted.kind()]++
	}
	c.allocated += wanted.Demand()
	c.enter(n)
	return p, true
}

// choose returns the best node, or -1, and the first of its GPUs. Of equal nodes the first is taken, or any if the policy draws.
func (c *Cluster) choose(of int, among []int) (best, at int) {
	best = -1
	var score float64
	equal := 0
	consider := func(i int) {
		a := c.ask(&c.nodes[i], of)
		switch {
		case !a.fits:
		case best < 0 || a.score < score:
			best, at, score, equal = i, int(a.at), a.score, 1
		case c.policy.draws && a.score == score:
			if equal++; c.random.IntN(equal) == 0 {
				best, at = i, int(a.at)
			}
		}
	}
	if among == nil {
		for i := range c.nodes {
			consider(i)
		}
	}
	for _, i := range among {
		consider(i)
	}
	if best >= 0 && c.policy.draws {
		at += c.random.IntN(int(c.nodes[best].GPUs) - at - c.classes[of].GPUs + 1)
	}
	return best, at
}

// ask asks the policy, once for each state.
func (c *Cluster) ask(n *node, of int) answer {
	a := &n.answers[of]
	if a.asked {
		return *a
	}
	wanted := &c.classes[of]
	a.asked = true
	var first int
	if first, a.fits = wanted.first(&n.State); !a.fits {
		return *a
	}
	a.at, a.score = int8(first), math.Inf(1)
	for at := first; at == first || at+wanted.GPUs <= int(n.GPUs) && wanted.GPUs > 0; at++ {
		if at > first && n.Free[at] == n.Free[at-1] {
			continue // as the one before
		}
		if score := c.policy.score(c, &candidate{wanted, n.known, &n.State, at}); score < a.score {
			a.at, a.score = int8(at), score
		}
	}
	return *a
}

// Release gives back what a task has.
func (c *Cluster) Release(p Placement) {
	n, had := &c.nodes[p.Node], &c.classes[p.of]
	c.leave(n)
	n.CPU += had.CPU
	n.Memory += had.Memory
	for g := range int(n.GPUs) {
		if p.GPUs>>g&1 != 0 {
			n.free[g] += int16(had.Share)
		}
	}
	if had.GPUs > 0 {
		n.tasks[had.kind()]--
	}
	c.allocated -= had.Demand()
	c.enter(n)
}

// Capacity is what all GPUs have together, in thousandths of one.
func (c *Cluster) Capacity() int64 { return c.capacity }

// Allocated is what tasks have of all GPUs together, in thousandths of one.
func (c *Cluster) Allocated() int64 { return c.allocated }
