package policies_test

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// answers are digests of every decision of 300 fixed random plays under each scheduler that takes
// nothing back, recorded before any scheduler could. A change of what these schedulers decide
// changes stored arms, so a digest may only change together with a rule that users read.
var answers = map[string]string{
	"sa":                                    "7578016b4edfc863d3882a40",
	"cg:workers=3":                          "bc512903d2f2b8abfd6e265d",
	"zero":                                  "377f1962ff4e74f5cc7bdcab",
	"schedgpu":                              "cd95ab977ea1116810a0757b",
	"schedgpu:queue=priority-fifo":          "3dfaa5987da65ba1d0548298",
	"case-alg2":                             "d549d206436a97952503168c",
	"case-alg2:managed=exceed,age-limit=2":  "11ca2f1988eac49a7786f2fb",
	"case-alg3":                             "19337905063e5d1826f4850f",
	"case-alg3:queue=fifo,wait-limit=9s":    "1512535e940d06dc24f7d7bc",
	"case-alg3:queue=mmu,age-limit=3":       "3a4077babfcb40986f9e10ea",
	"case-alg3:room=0.2,queue=priority-mmu": "ae58a04ecd3dc51c49e892eb",
}

func TestSchedulersThatTakeNothingBackAnswerAsBefore(t *testing.T) {
	for text, want := range answers {
		t.Run(text, func(t *testing.T) {
			digest := sha256.New()
			for seed := range uint64(300) {
				play(t, text, seed, digest)
			}
			if got := fmt.Sprintf("%x", digest.Sum(nil)[:12]); got != want {
				t.Errorf("the decisions have the digest %q, want %q", got, want)
			}
		})
	}
}

// play makes 80 random calls on a random node and writes each call's decisions, or that it was an
// error.
func play(t *testing.T, text string, seed uint64, to hash.Hash) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 19))
	var devices []schedulers.Device
	for range 1 + r.IntN(3) {
		devices = append(devices, schedulers.Device{Name: "random", CapacityBytes: 20 + r.Int64N(60), ContextBytes: r.Int64N(5),
			SMs: 1 + r.IntN(4), WarpsPerSM: 32, BlocksPerSM: 8})
	}
	s, err := policies.Parse(text, len(devices))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(devices, s.Policy, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	now, tasks := time.Duration(0), schedulers.TaskID(0)
	for range 80 {
		now += time.Duration(r.IntN(2000)) * time.Millisecond
		id := 1 + schedulers.TaskID(r.Uint64N(uint64(tasks)+1)) // perhaps of no task
		job := schedulers.JobID(1 + r.IntN(8))
		var wait *time.Duration
		if r.IntN(4) == 0 {
			wait = new(time.Duration(r.IntN(3)) * 4 * time.Second)
		}
		var ds []schedulers.Decision
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			tasks++
			task := schedulers.Task{ID: tasks, Job: job, Serial: r.IntN(2), Bytes: r.Int64N(40), Blocks: r.Uint64N(30),
				ThreadsPerBlock: 1 + r.Uint32N(200), BlocksPerSM: r.Uint32N(4), Managed: r.IntN(5) == 0, Priority: r.IntN(3),
				Isolate: r.IntN(12) == 0, Wait: wait}
			task.GridUnknown = task.Blocks == 0
			if r.IntN(5) == 0 {
				task.OnDevice = new(r.IntN(len(devices)))
			}
			ds, err = e.Submit(task, now)
		case 4:
			ds, err = e.Release(id)
		case 5, 6:
			ds, err = e.Grow(id, r.Int64N(20), wait, now)
		case 7:
			ds, err = e.Shrink(id, r.Int64N(10))
		case 8:
			ds, err = e.Shape(id, r.Uint64N(40), 64, r.Uint32N(3))
		case 9:
			ds, err = e.JobExit(job), nil
		case 10:
			ds, err = e.ProcessExit(schedulers.Process{Job: job, Serial: r.IntN(2)}), nil
		case 11:
			ds, err = e.Expire(now), nil
		}
		_, _ = fmt.Fprintln(to, now, err != nil, e.Waiting(), e.NextExpiry())
		for _, d := range ds {
			_, _ = fmt.Fprintln(to, d.Kind, d.Task.ID, d.Device, d.Passed)
			if d.Reason != nil {
				_, _ = fmt.Fprintf(to, "%d %s: needs %d bytes, capacity %d bytes\n", d.Reason.Cause-1, d.Reason.Why, d.Reason.NeedBytes, d.Reason.CapacityBytes)
			}
		}
		for i := range devices {
			d := e.View().Device(i)
			_, _ = fmt.Fprintln(to, d.UsedBytes(), d.UsedWarps(), d.Tasks(), d.Jobs(), d.Saturated())
		}
	}
}
