package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

// sequences is a plan that waits for jobs that have not asked until a time.
func sequences(until time.Duration, devices ...[]schedulers.JobID) schedulers.Plan {
	p := schedulers.Plan{Devices: make([][]schedulers.Planned, len(devices))}
	for d, jobs := range devices {
		for _, j := range jobs {
			p.Devices[d] = append(p.Devices[d], schedulers.Planned{Job: j, Until: until})
		}
	}
	return p
}

func follow(t *testing.T, n enginetest.Node, now time.Duration, p schedulers.Plan, want string) {
	t.Helper()
	n.Want(fmt.Sprintf("plan %v", p), want, n.Engine.Follow(p, now), nil)
}

type jobs = []schedulers.JobID

func TestAPlanSaysWhoGoesWhere(t *testing.T) {
	n := enginetest.NewNode(t, "plan", enginetest.Small, enginetest.Small)
	follow(t, n, 0, sequences(schedulers.Never, jobs{2, 1}, jobs{3}), "")
	n.Submit(schedulers.Task{ID: 1, Bytes: 9}, "") // job 2 has not asked
	n.Submit(schedulers.Task{ID: 3, Bytes: 9}, "3@1")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8}, "2@0") // and 9 more do not fit beside it
	n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "")    // the plan lacks it
	n.Finish(3, "")
	n.Finish(2, "1@0")
	follow(t, n, 0, sequences(schedulers.Never, nil, jobs{4}), "4@1")
}

// Beside others, a job goes where all have the room for what they are expected to have. Alone it takes what there is.
func TestAPlanLeavesRoomToGrow(t *testing.T) {
	n := enginetest.NewNode(t, "plan", enginetest.Small)
	p := sequences(schedulers.Never, jobs{1, 2, 3, 4})
	p.Most = map[schedulers.JobID]int64{1: 10, 3: 7, 4: 100}
	follow(t, n, 0, p, "")
	n.Submit(schedulers.Task{ID: 1, Bytes: 4}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8}, "") // it fits, and then job 1 could not grow by 6
	n.Grow(1, 6, "+1@0")
	n.Finish(1, "2@0")
	n.Submit(schedulers.Task{ID: 3, Bytes: 2}, "3@0") // which may grow by 5
	n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "")    // which may grow by 99
	n.Finish(2, "")
	n.Finish(3, "4@0")
}

func TestALateJobIsPassed(t *testing.T) {
	n := enginetest.NewNode(t, "plan", enginetest.Small)
	follow(t, n, 0, sequences(5*time.Second, jobs{1, 2}), "")
	n.Submit(schedulers.Task{ID: 2, Bytes: 9}, "")
	if next := n.Engine.NextExpiry(); next != 5*time.Second {
		t.Errorf("the next time at which something changes is %v, want 5s", next)
	}
	n.Expire(4*time.Second, "")
	n.Expire(5*time.Second, "2@0")
	if next := n.Engine.NextExpiry(); next != schedulers.Never {
		t.Errorf("the next time at which something changes is %v, want none", next)
	}
	n.Finish(2, "")
	n.Submit(schedulers.Task{ID: 1, Bytes: 9}, "1@0") // it has its place still
}

// A job that has ended holds nobody up.
func TestAJobThatEndsLeavesThePlan(t *testing.T) {
	n := enginetest.NewNode(t, "plan", enginetest.Small)
	follow(t, n, 0, sequences(schedulers.Never, jobs{1, 2}), "")
	n.Submit(schedulers.Task{ID: 2, Bytes: 9}, "")
	n.Exit(1, "2@0")
}

func TestRulesBesideThePlan(t *testing.T) {
	t.Run("a task that must have another device", func(t *testing.T) {
		n := enginetest.NewNode(t, "plan", enginetest.Small, enginetest.Small)
		follow(t, n, 0, sequences(schedulers.Never, jobs{1, 2}, nil), "")
		n.Submit(schedulers.Task{ID: 1, Bytes: 9, OnDevice: new(1)}, "")
		n.Submit(schedulers.Task{ID: 2, Bytes: 9}, "2@0")
		follow(t, n, 0, sequences(schedulers.Never, nil, jobs{1}), "1@1")
	})
	t.Run("age", func(t *testing.T) {
		n := enginetest.NewNode(t, "plan:age-limit=1", enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 9}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 10}, "")
		follow(t, n, 0, sequences(schedulers.Never, jobs{3, 4, 2}), "")
		n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "3@0")
		n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "") // job 2 was passed once
		n.Finish(1, "2@0 4@0")
	})
	t.Run("growth", func(t *testing.T) {
		n := enginetest.NewNode(t, "plan", enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 6}, "2@0")
		follow(t, n, 0, sequences(schedulers.Never, jobs{3}), "")
		n.Grow(1, 4, "")
		n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "")
		n.Finish(2, "+1@0 3@0")
	})
	t.Run("a stalled request", func(t *testing.T) {
		n := enginetest.NewNode(t, "plan", enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 9}, "1@0")
		follow(t, n, 0, sequences(schedulers.Never, jobs{1, 3}), "")
		n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 9}, "") // its own job holds what it needs
		n.Submit(schedulers.Task{ID: 3, Bytes: 7}, "3@0")
		n.Release(1, "2@0")
	})
	t.Run("a request that does not wait", func(t *testing.T) {
		n := enginetest.NewNode(t, "plan", enginetest.Small)
		follow(t, n, 0, sequences(schedulers.Never, jobs{1}), "")
		n.Submit(schedulers.Task{ID: 2, Bytes: 9, Wait: new(time.Duration(0))}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Bytes: 9, Wait: new(time.Duration(0))}, "!3")
	})
	t.Run("deadlock", func(t *testing.T) {
		d := enginetest.Small
		d.ContextBytes = 4
		n := enginetest.NewNode(t, "plan", d)
		n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 2}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 2}, "2@0")
		n.Release(1, "")
		n.Release(2, "")
		follow(t, n, 0, sequences(schedulers.Never, jobs{9}), "") // which never asks
		n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 2}, "")
		n.Submit(schedulers.Task{ID: 4, Job: 2, Bytes: 2}, "3@0") // every context waits: first goes what fits
	})
}

// Under random plans no device is overfull, nobody passes the head of a device, the head goes once it fits, and a
// plan that has all who wait lets all of them go in the end.
func TestRandomPlans(t *testing.T) {
	for seed := range chance.Seeds(t, 300, 30_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, err := policies.Parse("plan:age-limit=0", 3)
		if err != nil {
			t.Fatal(err)
		}
		node := slices.Repeat([]schedulers.Device{enginetest.Small}, 1+r.IntN(3))
		e, err := engine.New(node, s.Policy, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{t: t, e: e, seed: seed, waits: map[schedulers.JobID]int64{}, on: map[schedulers.JobID]int{}}
		last := schedulers.JobID(0)
		for range 60 {
			does := r.IntN(6)
			if does != 3 { // an exit does not say its time
				w.now += time.Duration(r.IntN(3)) * time.Second
			}
			switch does {
			case 0, 1, 2:
				last++
				bytes := 1 + r.Int64N(16)
				w.waits[last] = bytes
				ds, err := e.Submit(schedulers.Task{ID: schedulers.TaskID(last), Job: last, Bytes: bytes}, w.now)
				w.take(ds, err)
			case 3:
				for j := range w.on { // any
					w.exit(j)
					break
				}
			case 4:
				w.take(e.Expire(w.now), nil)
			default:
				all := make([]jobs, len(node))
				for j := schedulers.JobID(1); j <= last+3; j++ {
					if _, has := w.on[j]; !has && r.IntN(4) > 0 {
						d := r.IntN(len(node))
						all[d] = slices.Insert(all[d], r.IntN(len(all[d])+1), j)
					}
				}
				w.plan = sequences(w.now+time.Duration(r.IntN(20))*time.Second, all...)
				w.take(e.Follow(w.plan, w.now), nil)
			}
		}
		all := make([]jobs, len(node))
		for j := range w.waits {
			all[0] = append(all[0], j)
		}
		w.plan = sequences(schedulers.Never, all...)
		w.take(e.Follow(w.plan, w.now), nil)
		for len(w.on) > 0 {
			for j := range w.on {
				w.exit(j)
				break
			}
		}
		if len(w.waits) > 0 {
			t.Fatalf("seed %d: jobs %v wait for ever", seed, w.waits)
		}
	}
}

// watcher knows what an engine must do under its plan.
type watcher struct {
	t     *testing.T
	e     *engine.Engine
	seed  uint64
	now   time.Duration
	plan  schedulers.Plan // nil: the engine alone decides
	waits map[schedulers.JobID]int64
	on    map[schedulers.JobID]int
}

func (w *watcher) take(ds []schedulers.Decision, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range ds {
		if d.Kind != schedulers.Granted {
			w.t.Fatalf("seed %d: %v of task %d", w.seed, d.Kind, d.Task.ID)
		}
		if w.plan.Devices != nil && w.head(d.Device) != d.Task.Job {
			w.t.Fatalf("seed %d: job %d gets device %d, whose head is job %d", w.seed, d.Task.Job, d.Device, w.head(d.Device))
		}
		delete(w.waits, d.Task.Job)
		w.on[d.Task.Job] = d.Device
	}
	for i := range w.e.View().Len() {
		free := w.e.View().Device(i).FreeBytes()
		if free < 0 {
			w.t.Fatalf("seed %d: device %d is overfull by %d bytes", w.seed, i, -free)
		}
		if w.plan.Devices == nil {
			continue
		}
		if bytes, waits := w.waits[w.head(i)]; waits && bytes <= free {
			w.t.Fatalf("seed %d: job %d is the head of device %d and waits with %d bytes, of which %d are free", w.seed, w.head(i), i, bytes, free)
		}
	}
}

func (w *watcher) exit(j schedulers.JobID) {
	delete(w.on, j)
	for d := range w.plan.Devices {
		w.plan.Devices[d] = slices.DeleteFunc(w.plan.Devices[d], func(p schedulers.Planned) bool { return p.Job == j })
	}
	w.take(w.e.JobExit(j), nil)
}

// head is the job that a device waits for, or 0.
func (w *watcher) head(d int) schedulers.JobID {
	for _, p := range w.plan.Devices[d] {
		_, has := w.on[p.Job]
		if _, waits := w.waits[p.Job]; waits || !has && p.Until > w.now {
			return p.Job
		}
	}
	return 0
}
