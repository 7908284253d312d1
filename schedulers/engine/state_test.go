package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
)

// What the state knows of each device and job is what a walk over all that was put there finds.
func TestStateAgainstAList(t *testing.T) {
	type placed struct {
		task  schedulers.Task
		bytes int64
		at    schedulers.Placement
	}
	limits := schedulers.Device{CapacityBytes: 1000, ContextBytes: 7, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	const devices = 3
	for seed := range chance.Seeds(t, 50, 5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := newState(slices.Repeat([]schedulers.Device{limits}, devices))
		var tasks []placed
		var contexts []context // in the order in which they were made
		for id := range schedulers.TaskID(200) {
			switch n := r.IntN(10); {
			case n < 5 || len(tasks) == 0:
				p := placed{task: schedulers.Task{ID: id, Job: schedulers.JobID(r.IntN(4)), Serial: r.IntN(2), Bytes: r.Int64N(9), Blocks: r.Uint64N(5), ThreadsPerBlock: 32}}
				p.at = schedulers.Placement{Device: r.IntN(devices), Exclusive: r.IntN(4) == 0}
				p.bytes = s.add(p.task, p.at)
				tasks = append(tasks, p)
				if c := (context{p.at.Device, p.task.Process()}); !slices.Contains(contexts, c) {
					contexts = append(contexts, c)
				}
			case n < 8:
				i := r.IntN(len(tasks))
				p := tasks[i]
				s.remove(p.task, p.bytes, p.at)
				tasks = slices.Delete(tasks, i, i+1)
			default:
				ended := tasks[r.IntN(len(tasks))].task.Process()
				tasks = slices.DeleteFunc(tasks, func(p placed) bool {
					if p.task.Process() == ended {
						s.remove(p.task, p.bytes, p.at)
					}
					return p.task.Process() == ended
				})
				contexts = slices.DeleteFunc(contexts, func(c context) bool { return c.process == ended })
				s.leave(ended.Job, func(c context) bool { return c.process == ended })
			}
			for i := range devices {
				var used int64
				var warps uint64
				count, closers := 0, 0
				jobs := map[schedulers.JobID]int{}
				for _, c := range contexts {
					if c.device == i {
						used += limits.ContextBytes
						jobs[c.process.Job] += 0
					}
				}
				for _, p := range tasks {
					if p.at.Device == i {
						used, warps, count = used+p.bytes, warps+p.task.Warps(), count+1
						jobs[p.task.Job]++
						if p.at.Exclusive {
							closers++
						}
					}
				}
				d := s.Device(i)
				if d.UsedBytes() != used || d.UsedWarps() != warps || d.Tasks() != count || d.Jobs() != len(jobs) || d.Saturated() != (closers > 0) {
					t.Fatalf("seed %d, device %d: %d bytes, %d warps, %d tasks, %d jobs, saturated %v; want %d, %d, %d, %d, %v",
						seed, i, d.UsedBytes(), d.UsedWarps(), d.Tasks(), d.Jobs(), d.Saturated(), used, warps, count, len(jobs), closers > 0)
				}
				for job, n := range jobs {
					if d.TasksOf(job) != n {
						t.Fatalf("seed %d, device %d: job %d has %d tasks, want %d", seed, i, job, d.TasksOf(job), n)
					}
				}
			}
			for job := range schedulers.JobID(4) {
				var ids []schedulers.TaskID
				for _, p := range tasks {
					if p.task.Job == job {
						ids = append(ids, p.task.ID)
					}
				}
				var has []context
				for _, c := range contexts {
					if c.process.Job == job {
						has = append(has, c)
					}
				}
				if !slices.Equal(s.tasksOf(job), ids) || !slices.Equal(s.contextsOf(job), has) {
					t.Fatalf("seed %d: job %d has tasks %v and contexts %v, want %v and %v", seed, job, s.tasksOf(job), s.contextsOf(job), ids, has)
				}
			}
			if len(tasks)+len(contexts) == 0 && len(s.jobs) > 0 {
				t.Fatalf("seed %d: %d jobs are known on an empty node", seed, len(s.jobs))
			}
		}
	}
}

// A state that is cleared is what it was when it was new, but for lost devices.
func TestClearedState(t *testing.T) {
	limits := []schedulers.Device{{CapacityBytes: 10, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}}
	s := newState(limits)
	s.add(schedulers.Task{ID: 1, Job: 1, Bytes: 5, Isolate: true}, schedulers.Placement{Exclusive: true, Blocks: []int{1, 1}, WarpSlots: 32, NextSM: 1})
	s.devices[0].permit(schedulers.Process{Job: 1}, permit{})
	s.devices[0].phase = gone
	s.clear()
	d := s.Device(0)
	_, permit := d.Context(schedulers.Process{Job: 1})
	fresh := newState(limits).Device(0)
	if d.UsedBytes() != 0 || d.Tasks() != 0 || d.Jobs() != 0 || d.Saturated() || d.Permits() != 0 || permit || d.NextSM() != 0 ||
		d.SM(0) != fresh.SM(0) || d.SM(1) != fresh.SM(1) || len(s.contextsOf(1)) > 0 || s.latest != -1 {
		t.Errorf("something is left: %+v", s.devices[0])
	}
	if d.Open(schedulers.Task{}) || !fresh.Open(schedulers.Task{}) {
		t.Error("a lost device is open again, or one that is not lost is closed")
	}
}
