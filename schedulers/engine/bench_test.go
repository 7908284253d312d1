package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

// BenchmarkEngineGrowth is one Submit and one Release on four full devices, with
// 700 tasks in the queue and some that wait to grow, or as many jobs that hold a task and
// wait for another.
func BenchmarkEngineGrowth(b *testing.B) {
	device := schedulers.Device{Name: "H200", CapacityBytes: 140 << 30, ContextBytes: 512 << 20, SMs: 132, WarpsPerSM: 64, BlocksPerSM: 32}
	for _, name := range []string{"case-alg2", "case-alg3"} {
		for _, wait := range []struct{ growing, holding int }{{0, 0}, {64, 0}, {0, 64}} {
			b.Run(fmt.Sprintf("%s/growing=%d/holding=%d", name, wait.growing, wait.holding), func(b *testing.B) {
				s, err := policies.Parse(name, 4)
				if err != nil {
					b.Fatal(err)
				}
				e, err := engine.New(slices.Repeat([]schedulers.Device{device}, 4), s.Policy, s.Config)
				if err != nil {
					b.Fatal(err)
				}
				id := schedulers.TaskID(0)
				submit := func(job schedulers.JobID, bytes int64) {
					id++
					t := schedulers.Task{ID: id, Job: job, Bytes: bytes, Blocks: 64, ThreadsPerBlock: 64}
					if _, err := e.Submit(t, 0); err != nil {
						b.Fatal(err)
					}
				}
				for job := range schedulers.JobID(120 + 700) {
					submit(job, 4<<30)
				}
				for job := range schedulers.JobID(wait.holding) {
					submit(job, 100<<30)
				}
				for i := range wait.growing {
					if _, err := e.Grow(schedulers.TaskID(i+1), 60<<30, nil, 0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					submit(1000, 5<<30)
					if _, err := e.Release(id); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkEngine is one Submit and one Release of a needle-sized task on
// eight devices with a V100's limits, half of them busy.
func BenchmarkEngine(b *testing.B) {
	device := schedulers.Device{Name: "V100", CapacityBytes: 16 << 30, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}
	for _, info := range enginetest.Policies() {
		b.Run(info.Name, func(b *testing.B) {
			s, err := policies.Parse(info.Name, 8)
			if err != nil {
				b.Fatal(err)
			}
			e, err := engine.New(slices.Repeat([]schedulers.Device{device}, 8), s.Policy, s.Config)
			if err != nil {
				b.Fatal(err)
			}
			id := schedulers.TaskID(0)
			submit := func(job schedulers.JobID) {
				id++
				t := schedulers.Task{ID: id, Job: job, Bytes: 1 << 30, Blocks: 2003, ThreadsPerBlock: 16}
				if ds, err := e.Submit(t, 0); err != nil || len(ds) != 1 || ds[0].Kind != schedulers.Granted {
					b.Fatalf("submit: %v, %v", ds, err)
				}
			}
			for job := range 4 {
				submit(schedulers.JobID(job + 1))
			}
			b.ReportAllocs()
			for b.Loop() {
				submit(5)
				if _, err := e.Release(id); err != nil {
					b.Fatal(err)
				}
				e.JobExit(5)
			}
		})
	}
}

// BenchmarkEngineRevoking is one burst of a task, on one of four devices whose processes fit one at
// a time: the task asks to resume, the task that was there yields, and the burst ends.
func BenchmarkEngineRevoking(b *testing.B) {
	device := schedulers.Device{Name: "H200", CapacityBytes: 140 << 30, ContextBytes: 512 << 20, SMs: 132, WarpsPerSM: 64, BlocksPerSM: 32}
	for _, name := range []string{"vgpu:n=16", "vgpu-preempt:n=16", "demand"} {
		for _, tasks := range []int{8, 64} {
			b.Run(fmt.Sprintf("%s/tasks=%d", name, tasks), func(b *testing.B) {
				s, err := policies.Parse(name, 4)
				if err != nil {
					b.Fatal(err)
				}
				e, err := engine.New(slices.Repeat([]schedulers.Device{device}, 4), s.Policy, s.Config)
				if err != nil {
					b.Fatal(err)
				}
				p := &processes{b: b, engine: e}
				for id := range schedulers.TaskID(tasks) {
					p.now += time.Millisecond
					t := schedulers.Task{ID: id + 1, Job: schedulers.JobID(id), Bytes: 80 << 30, Can: schedulers.Movable}
					ds, err := e.Submit(t, p.now)
					p.answer(ds, err)
				}
				p.settle()
				if e.Waiting() > 0 {
					b.Fatalf("%d tasks wait", e.Waiting())
				}
				revoked := p.revoked
				b.ReportAllocs()
				id, bursts := schedulers.TaskID(0), 0
				for b.Loop() {
					id, bursts = id%schedulers.TaskID(tasks)+1, bursts+1
					p.burst(id)
				}
				b.ReportMetric(float64(p.revoked-revoked)/float64(bursts), "revocations/op")
			})
		}
	}
}

// BenchmarkEngineCrowdRevoking is one Submit and one Release of a task that has to wait, while others wait on full devices
// whose tasks all run. The goal is 20 us with 10,000 waiting tasks on 64 devices.
func BenchmarkEngineCrowdRevoking(b *testing.B) {
	device := schedulers.Device{Name: "H200", CapacityBytes: 140 << 30, ContextBytes: 512 << 20, SMs: 132, WarpsPerSM: 64, BlocksPerSM: 32}
	for _, name := range []string{"vgpu", "vgpu-preempt", "demand"} {
		for _, size := range []struct{ waiting, devices int }{{60, 4}, {960, 4}, {240, 64}} {
			b.Run(fmt.Sprintf("%s/waiting=%d/devices=%d", name, size.waiting, size.devices), func(b *testing.B) {
				s, err := policies.Parse(name, size.devices)
				if err != nil {
					b.Fatal(err)
				}
				e, err := engine.New(slices.Repeat([]schedulers.Device{device}, size.devices), s.Policy, s.Config)
				if err != nil {
					b.Fatal(err)
				}
				id := schedulers.TaskID(0)
				submit := func() {
					id++
					if _, err := e.Submit(schedulers.Task{ID: id, Job: schedulers.JobID(id), Bytes: 60 << 30, Can: schedulers.Movable}, 0); err != nil {
						b.Fatal(err)
					}
				}
				for e.Waiting() < size.waiting {
					submit()
				}
				b.ReportAllocs()
				for b.Loop() {
					submit()
					if _, err := e.Release(id); err != nil {
						b.Fatal(err)
					}
					e.NextTick()
				}
			})
		}
	}
}

// processes do what they are asked, at once.
type processes struct {
	b       *testing.B
	engine  *engine.Engine
	now     time.Duration
	running []schedulers.TaskID
	revoked int
}

func (p *processes) answer(ds []schedulers.Decision, err error) {
	for ; err == nil && len(ds) > 0; ds = ds[1:] {
		switch d := ds[0]; d.Kind {
		case schedulers.Granted, schedulers.Resumed:
			p.running = append(p.running, d.Task.ID)
		case schedulers.Revoke:
			p.revoked++
			var more []schedulers.Decision
			more, err = p.engine.Revoked(d.Task.ID, schedulers.Revoked{Ticket: d.Ticket, Outcome: schedulers.Done}, p.now)
			ds = append(ds, more...)
		default:
			p.b.Fatalf("%v: %v", d.Kind, d.Reason)
		}
	}
	if err != nil {
		p.b.Fatal(err)
	}
}

// settle ends the calls of the running tasks, until nobody waits for them.
func (p *processes) settle() {
	for len(p.running) > 0 {
		ended := p.running
		p.running = nil
		p.now += time.Millisecond
		for _, id := range ended {
			if err := p.engine.Active(id, schedulers.Activity{Last: p.now}, p.now); err != nil {
				p.b.Fatal(err)
			}
		}
		p.answer(p.engine.Tick(p.now, 0), nil)
	}
}

func (p *processes) burst(id schedulers.TaskID) {
	ds, err := p.engine.Resume(id, 80<<30, 80<<30, p.now)
	p.answer(ds, err)
	p.settle()
}
