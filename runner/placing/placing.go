// Package placing simulates a cluster under placement policies: a trace in its own time, or tasks of it until they ask for more
// GPUs than there are.
package placing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes/traces"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/placement"
)

// Request says what is simulated.
type Request struct {
	Tasks, Nodes string   // files in the form of package traces
	Policies     []string // nil: all
	Inflate      string   // what tasks ask for at the end, as a percentage of the GPUs; "": the trace in its own time
	ArrivalSpeed float64  // how many times as fast as in the trace tasks arrive; they run as long. Without Inflate
	Seed         uint64   // of the first repetition; the next has the next
	Reps         int
	Progress     func(done, all int64) // in tasks
	Say          harness.Say

	policies []placement.Policy
	inflate  float64
}

// These catch typing errors.
const (
	mostInflation = 1000 // percent
	mostSpeed     = 1e9
)

// Validate checks what needs no file.
func (r *Request) Validate() error {
	names := r.Policies
	if len(names) == 0 {
		names = placement.Names()
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("--policies: %s is named twice: name it once", name)
		}
		p, err := placement.Named(name)
		if err != nil {
			return fmt.Errorf("--policies: %w: %s", err, near.OrKnown(name, placement.Names()))
		}
		r.policies = append(r.policies, p)
	}
	if r.Inflate == "" {
		if r.Reps > 1 {
			return errors.New("--reps requires --inflate: the trace in its own time has no second sample")
		}
		if !(r.ArrivalSpeed > 0 && r.ArrivalSpeed <= mostSpeed) {
			return fmt.Errorf("--arrival-speed %g: want a number above 0, up to %g", r.ArrivalSpeed, float64(mostSpeed))
		}
		return nil
	}
	percent, found := strings.CutSuffix(r.Inflate, "%")
	v, err := input.Float(percent)
	if !found || err != nil || !(v > 0 && v <= mostInflation) {
		return fmt.Errorf("--inflate %q: want what tasks ask for at the end, as a percentage of all GPUs up to %d%%, such as 130%%", r.Inflate, mostInflation)
	}
	r.inflate = v / 100
	return nil
}

// About lists the policies.
func About() string {
	var rows [][2]string
	for _, p := range placement.Policies() {
		rows = append(rows, [2]string{p.Name, p.Brief})
	}
	return report.Pairs(rows, 13)
}

// Outcome is what a policy did in one simulation. Shares are of all GPUs.
type Outcome struct {
	Policy     string
	Seed       uint64
	Allocated  float64 // at the end of an inflation; over time the mean until the last arrival
	Peak       float64
	Fragmented float64 // as Allocated: what a task of the trace, drawn at random, cannot use of the free GPUs
	FullAt     *float64
	Failed     int     // tasks that never found room
	FailedGPUs float64 // that they asked for
	Waits      Waits
	Series     []Point
}

// Point is the cluster at a moment.
type Point struct {
	At                    float64 // what has arrived, as a share of all GPUs; over time seconds of the trace
	Allocated, Fragmented float64 // shares of all GPUs
	Waiting, Failed       int     // tasks
}

// simulation is one policy with one seed.
type simulation struct {
	*placement.Cluster
	Outcome
	step func() error // after each task that has arrived
}

// cluster is what the files have.
type cluster struct {
	Request
	nodes    []placement.Node
	tasks    []traces.Task
	shapes   []placement.Shape // of the tasks
	capacity int64
	done     int64 // tasks that have arrived
	all      int64
}

// Run simulates and returns a table with a row for each policy, and their series. It says which rows do not count. Errors are a
// harness.RequestError, or the cause for which the context ended.
func (r Request) Run(ctx context.Context) (table, series *report.Table, err error) {
	c := cluster{Request: r}
	defer func() {
		if ctx.Err() == nil {
			err = harness.Refuse(err) // for what a file has
		}
	}()
	if err := harness.UnlessStopped(ctx, c.load); err != nil {
		return nil, nil, err
	}
	step := func() error {
		c.done++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.Progress(c.done, c.all)
		return nil
	}
	var outcomes []Outcome
	if r.inflate > 0 {
		outcomes, err = c.inflations(step)
	} else if err = c.arrive(); err == nil {
		outcomes, err = c.replays(step)
	}
	if err != nil {
		return nil, nil, err
	}
	return c.table(outcomes), c.series(outcomes), nil
}

func (c *cluster) load() error {
	nodes, err := traces.LoadNodes(c.Nodes)
	if err != nil {
		return err
	}
	if c.tasks, err = traces.LoadTasks(c.Tasks); err != nil {
		return err
	}
	for _, n := range nodes {
		c.nodes = append(c.nodes, placement.Node{CPU: n.CPU, Memory: n.Memory, GPUs: n.GPUs, Model: n.Model})
		c.capacity += int64(n.GPUs) * placement.Whole
	}
	if c.capacity == 0 {
		return fmt.Errorf("%s: no node has a GPU: column gpu is their number", c.Nodes)
	}
	for _, t := range c.tasks {
		c.shapes = append(c.shapes, placement.Shape{CPU: t.CPU, Memory: t.Memory, GPUs: t.GPUs, Share: t.Share, Models: t.Models})
	}
	return nil
}

// arrive has tasks arrive faster, and leaves out those that never ran, because nobody knows how long they would have.
func (c *cluster) arrive() error {
	before, began := len(c.tasks), 0.0
	tasks, shapes := c.tasks, c.shapes
	c.tasks, c.shapes = nil, nil
	for i, t := range tasks {
		if t.Started {
			if len(c.tasks) == 0 {
				began = t.Created
			}
			created := began + (t.Created-began)/c.ArrivalSpeed
			t.Created, t.Start, t.End = created, created, created+t.End-t.Start
			c.tasks, c.shapes = append(c.tasks, t), append(c.shapes, shapes[i])
		}
	}
	switch left := before - len(c.tasks); {
	case len(c.tasks) == 0:
		return fmt.Errorf("%s: no task has a scheduled_time: simulate its tasks with --inflate 130%%", c.Tasks)
	case left > 0:
		c.Say("%s: %s without scheduled_time, which never ran, left out", c.Tasks, size.Count(left, "task"))
	}
	return nil
}

// Streams of random numbers: a policy's draws do not change which tasks arrive.
const (
	drawTasks = iota + 1
	drawPlaces
)

// begin makes an empty cluster under a policy.
func (c *cluster) begin(p placement.Policy, seed uint64, step func() error) (*simulation, error) {
	made, err := placement.New(c.nodes, c.shapes, p, rand.New(rand.NewPCG(seed, drawPlaces)))
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", c.Nodes, c.Tasks, err)
	}
	return &simulation{Cluster: made, Outcome: Outcome{Policy: p.Name, Seed: seed}, step: step}, nil
}

func (s *simulation) share(milli float64) float64 { return milli / float64(s.Capacity()) }

// now is the cluster's point.
func (s *simulation) now(at float64, waiting int) Point {
	return Point{At: at, Allocated: s.share(float64(s.Cluster.Allocated())), Fragmented: s.share(s.Fragmentation()), Waiting: waiting, Failed: s.Failed}
}

// fail counts a task that never finds room.
func (s *simulation) fail(shape placement.Shape) {
	s.Failed++
	s.FailedGPUs += float64(shape.Demand()) / placement.Whole
}

// inflations simulates every policy with the same samples of tasks: section 6 of Weng et al. (USENIX ATC 2023).
func (c *cluster) inflations(step func() error) (outcomes []Outcome, err error) {
	if !slices.ContainsFunc(c.shapes, func(s placement.Shape) bool { return s.GPUs > 0 }) {
		return nil, fmt.Errorf("%s: no task asks for a GPU, and --inflate needs one: column num_gpu is their number", c.Tasks)
	}
	samples := make([][]int, c.Reps)
	for rep := range samples {
		if samples[rep], err = c.sample(c.Seed + uint64(rep)); err != nil {
			return nil, err
		}
		c.all += int64(len(samples[rep]) * len(c.policies))
	}
	for _, p := range c.policies {
		for rep, sample := range samples {
			s, err := c.begin(p, c.Seed+uint64(rep), step)
			if err == nil {
				err = s.inflate(c.shapes, sample)
			}
			if err != nil {
				return nil, err
			}
			outcomes = append(outcomes, s.Outcome)
		}
	}
	return outcomes, nil
}

// mostTasks bounds a sample of tiny tasks.
const mostTasks = 10_000_000

// sample draws tasks with repetition until they ask for enough GPUs.
func (c *cluster) sample(seed uint64) (sample []int, err error) {
	random := rand.New(rand.NewPCG(seed, drawTasks))
	for demand, enough := 0.0, c.inflate*float64(c.capacity); demand < enough; {
		if len(sample) == mostTasks {
			return nil, fmt.Errorf("--inflate %s takes more than %d tasks: choose less", c.Inflate, mostTasks)
		}
		drawn := random.IntN(len(c.shapes))
		sample = append(sample, drawn)
		demand += float64(c.shapes[drawn].Demand())
	}
	return sample, nil
}

// perSeries is how many points a series has for each whole of all GPUs that tasks ask for.
const perSeries = 100

// inflate lets tasks arrive, which stay.
func (s *simulation) inflate(shapes []placement.Shape, sample []int) error {
	var demand, next int64
	s.Series = append(s.Series, s.now(0, 0))
	for _, i := range sample {
		demand += shapes[i].Demand()
		at := s.share(float64(demand))
		of, _ := s.Class(shapes[i])
		if _, ok := s.Place(of, nil); !ok {
			s.fail(shapes[i])
			if s.FullAt == nil && shapes[i].GPUs > 0 {
				s.FullAt = &at
			}
		}
		if demand*perSeries >= next*s.Capacity() {
			s.Series = append(s.Series, s.now(at, 0))
			next = demand*perSeries/s.Capacity() + 1
		}
		if err := s.step(); err != nil {
			return err
		}
	}
	end := s.now(s.share(float64(demand)), 0)
	s.Series = append(s.Series, end)
	s.Outcome.Allocated, s.Peak, s.Fragmented = end.Allocated, end.Allocated, end.Fragmented
	return nil
}
