package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// exhaustiveUpTo is the longest queue with which an exhaustive engine runs beside the engine: with
// 100,000 tasks that wait on 1,024 devices, one of its decisions takes seconds.
const exhaustiveUpTo = 1_000

// BenchmarkCrowd is the end of a job on full devices while tasks wait: its task is released, tasks
// that wait are granted what it had, and the job exits (end-ns/op; grants/op says how many). Then
// as many tasks come (submit-ns/task), so that the queue keeps its length. A job has one task of one
// of twelve kernels, and of any size.
//
// The goal is 20 us for a decision, which is a release with its grant, with 10,000 tasks on 64
// devices, and 100 us with 100,000 on 1,024.
func BenchmarkCrowd(b *testing.B) {
	for _, name := range []string{"sa", "cg", "schedgpu", "case-alg2", "case-alg3", "case-alg3:queue=mmu"} {
		for _, size := range []struct{ waiting, devices int }{{1_000, 8}, {10_000, 64}, {100_000, 1_024}} {
			for _, which := range []string{"exhaustive", "indexed"} {
				if which == "exhaustive" && size.waiting > exhaustiveUpTo {
					continue
				}
				b.Run(fmt.Sprintf("%s/waiting=%d/devices=%d/%s", name, size.waiting, size.devices, which), func(b *testing.B) {
					c := newCrowd(b, name, which == "exhaustive", size.waiting, size.devices)
					b.ResetTimer()
					for range b.N {
						c.endOne()
						c.fill(size.waiting)
					}
					b.ReportMetric(float64(c.ending)/float64(b.N), "end-ns/op")
					b.ReportMetric(float64(c.granted)/float64(b.N), "grants/op")
					b.ReportMetric(float64(c.submitting)/float64(max(c.submitted, 1)), "submit-ns/task")
				})
			}
		}
	}
}

// crowd is an engine with a long queue.
type crowd struct {
	*rand.Rand
	b          *testing.B
	engine     *engine.Engine
	last       schedulers.TaskID
	held       []schedulers.TaskID
	granted    int
	submitted  int
	ending     time.Duration // spent in Release and JobExit
	submitting time.Duration // spent in Submit
}

func newCrowd(b *testing.B, name string, exhaustive bool, waiting, devices int) *crowd {
	device := schedulers.Device{Name: "H200", CapacityBytes: 140 << 30, ContextBytes: 512 << 20, SMs: 132, WarpsPerSM: 64, BlocksPerSM: 32}
	s, err := policies.Parse(name, devices)
	if err != nil {
		b.Fatal(err)
	}
	c := &crowd{Rand: rand.New(rand.NewPCG(1, 1)), b: b}
	s.Config.Exhaustive = exhaustive
	c.engine, err = engine.New(slices.Repeat([]schedulers.Device{device}, devices), s.Policy, s.Config)
	if err != nil {
		b.Fatal(err)
	}
	c.fill(waiting)
	c.granted, c.submitted, c.submitting = 0, 0, 0
	return c
}

// fill submits tasks until so many wait.
func (c *crowd) fill(waiting int) {
	for c.engine.Waiting() < waiting {
		c.last++
		kernel := c.IntN(12)
		t := schedulers.Task{ID: c.last, Job: schedulers.JobID(c.last), Bytes: 1<<30 + c.Int64N(40<<30),
			Blocks: uint64(100 + 150*kernel), ThreadsPerBlock: uint32(64 + 32*(kernel%5)), BlocksPerSM: uint32(kernel % 3 * 4)}
		start := time.Now()
		ds, err := c.engine.Submit(t, 0)
		c.submitting += time.Since(start)
		c.submitted++
		c.enter(ds, err)
	}
}

// endOne ends a random task that has a device, and its job.
func (c *crowd) endOne() {
	i := c.IntN(len(c.held))
	id := c.held[i]
	c.held[i] = c.held[len(c.held)-1]
	c.held = c.held[:len(c.held)-1]
	start := time.Now()
	released, err := c.engine.Release(id)
	exited := c.engine.JobExit(schedulers.JobID(id))
	c.ending += time.Since(start)
	c.enter(released, err)
	c.enter(exited, nil)
}

func (c *crowd) enter(ds []schedulers.Decision, err error) {
	if err != nil {
		c.b.Fatal(err)
	}
	for _, d := range ds {
		if d.Kind != schedulers.Granted {
			c.b.Fatalf("%v: %v", d.Kind, d.Reason)
		}
		c.held = append(c.held, d.Task.ID)
		c.granted++
	}
}
