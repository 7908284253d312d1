package nodes

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
)

// simulated makes a run of jobs on a simulated node. It returns the jobs, the rows of their portions and their tasks, as stored.
func simulated(t *testing.T, db *store.Store, node, sched string, workers int, seed uint64, of []mixes.Job) (jobs []results.Job, portions []results.Rank, tasks []results.Task) {
	t.Helper()
	m := mixes.Mix{Name: "own", Source: "own.yaml", Jobs: of}
	options := harness.Options{Node: node, Seed: seed, Noise: 0.1, Workers: workers}
	known, err := Know(t.Context(), options, &m, profiles.Catalog(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	var s Session
	o, err := s.Run(context.WithoutCancel(t.Context()), harness.Request{Configuration: harness.Configuration{Options: options, Sched: sched, Probe: results.Lazy},
		Mix: m, Profiles: known, Store: db, Say: t.Logf})
	if err != nil {
		t.Fatalf("%s on %s, seed %d: %v", sched, node, seed, err)
	}
	if o.Run.Status != results.Complete || o.Run.Jobs != len(of) || len(o.Jobs) != len(of) {
		t.Fatalf("%s on %s, seed %d: %+v with jobs %+v", sched, node, seed, o.Run, o.Jobs)
	}
	var errs [3]error
	jobs, errs[0] = db.Jobs(t.Context(), o.Run.ID)
	portions, errs[1] = db.Ranks(t.Context(), o.Run.ID)
	tasks, errs[2] = db.Tasks(t.Context(), o.Run.ID)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return jobs, portions, tasks
}

// On unequal devices a faster one does more portions: the job takes 10 % longer at most than if its work could be divided in proportion
// to the speed of the devices. It does so under a scheduler that binds jobs, and under one that binds tasks with a device for each.
func TestPortionsAreDividedBySpeed(t *testing.T) {
	db := openScratch(t)
	work := mixes.Job{Name: "work", Portions: 150, Isolate: true, Footprint: mixes.Footprint{Bytes: 1 << 30},
		Profile: &mixes.Profile{Phases: []mixes.Phase{{Kernel: 10 * time.Second, Kernels: mixes.Footprint{Bytes: 1 << 30, Blocks: 40960, ThreadsPerBlock: 128}}}}}
	for _, node := range []string{"sim:1xK40c+1xC2050", "sim:4xGTX480+1xK40c+2xC2075+1xK20c+1xC2050"} {
		for _, sched := range []string{"sa", "case-alg3"} {
			jobs, portions, _ := simulated(t, db, node, sched, 0, 1, []mixes.Job{work})
			took, did := map[int]float64{}, map[int]float64{}
			for _, p := range portions {
				took[*p.Device] += *p.EndS - *p.StartS
				did[*p.Device]++
			}
			if sched == "case-alg3" { // a portion waits for its device while its process runs
				took = map[int]float64{}
				_, _, tasks := simulated(t, db, node, sched, 0, 1, []mixes.Job{work})
				for _, k := range tasks {
					took[*k.Device] += *k.ReleaseS - *k.GrantS
				}
			}
			rate := 0.0
			for device, n := range did {
				rate += n / took[device]
			}
			ideal := float64(len(portions)) / rate
			if end := *jobs[0].EndS; len(portions) != 150 || end > 1.1*ideal || end < 0.99*ideal {
				t.Errorf("%s on %s: %d portions end after %.0f s, want %.0f s: %v", sched, node, len(portions), end, ideal, did)
			}
		}
	}
}

// Under any scheduler, and whatever runs beside them, the portions of a job end as one job: it is ok if all are, and else the first that
// failed ended the others, of which none starts any more.
func TestPortionsEndAsOneJob(t *testing.T) {
	db := openScratch(t)
	scheds := []string{"sa", "sa:queue=sjf", "cg:workers=3", "schedgpu", "schedgpu:queue=mmu", "case-alg2", "case-alg3", "case-alg3:queue=sjf", "case-alg3:queue=credits", "plan", "vgpu:n=2", "vgpu-preempt:n=2", "demand", "mfit", "zero"}
	failed := 0
	for seed := range chance.Seeds(t, 60, 2000) {
		r := rand.New(rand.NewPCG(seed, 56))
		var of []mixes.Job
		for i := range 1 + r.IntN(4) {
			j := mixes.Job{Name: fmt.Sprintf("job-%d", i), Footprint: mixes.Footprint{Bytes: int64(1+r.IntN(12)) << 30}}
			j.Profile = &mixes.Profile{Phases: []mixes.Phase{{Host: time.Duration(r.IntN(5)) * time.Second, Kernel: time.Duration(1+r.IntN(9)) * time.Second, Kernels: j.Footprint}}}
			if r.IntN(3) > 0 {
				j.Portions = 1 + r.IntN(8)
			}
			if r.IntN(3) == 0 {
				j.Timeout = time.Duration(1+r.IntN(60)) * time.Second
			}
			j.Isolate, j.User = r.IntN(4) == 0, []string{"", "ann"}[r.IntN(2)]
			of = append(of, j)
		}
		sched := scheds[r.IntN(len(scheds))]
		jobs, portions, tasks := simulated(t, db, "sim:1xV100+1xP100", sched, r.IntN(5), seed, of)
		of = append(of, mixes.Job{}) // so that every job has a next
		seen := map[[2]int]bool{}
		for _, k := range tasks {
			seen[[2]int{k.Job, k.Seq}] = true
			if k.Seq > 0 && !seen[[2]int{k.Job, k.Seq - 1}] {
				t.Errorf("seed %d, %s: task %d of job %d without one before it", seed, sched, k.Seq, k.Job)
			}
		}
		for i, j := range jobs {
			own := portions
			for len(own) > 0 && own[0].Job < i {
				own = own[1:]
			}
			for n := range own {
				if own[n].Job > i {
					own = own[:n]
					break
				}
			}
			if len(own) != of[i].Portions {
				t.Fatalf("seed %d, %s: job %d has rows %+v, want %d", seed, sched, i, own, of[i].Portions)
			}
			if of[i].Portions == 0 {
				continue
			}
			if why := ofPortions(j, own); why != "" {
				text := ""
				for _, p := range own {
					text += fmt.Sprintf("; %d %v to %v: %s %s", p.Rank, *cmp.Or(p.StartS, new(-1.0)), *p.EndS, *p.Outcome, p.Detail)
				}
				t.Errorf("seed %d, %s: job %d: %s %s, %v to %v: %s%s", seed, sched, i, *j.Outcome, j.Detail, *cmp.Or(j.StartS, new(-1.0)), *j.EndS, why, text)
			}
			if !j.EndedOK() {
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no job failed")
	}
}

// ofPortions says what is wrong with the record of a job that has ended.
func ofPortions(j results.Job, portions []results.Rank) string {
	failure := -1.0 // when the first portion failed
	last := 0.0
	allOK := true
	for _, p := range portions {
		last = max(last, *p.EndS)
		allOK = allOK && *p.Outcome == results.OK
		if p.Outcome.Crashed() && (failure < 0 || *p.EndS < failure) {
			failure = *p.EndS
		}
	}
	for n, p := range portions {
		switch {
		case p.Rank != n || !p.Portion:
			return fmt.Sprintf("portion %d is %+v", n, p)
		case p.StartS != nil && failure >= 0 && *p.StartS > failure,
			p.StartS != nil && *j.Outcome == results.Timeout && *p.StartS == failure: // others may fail as they start together
			return fmt.Sprintf("portion %d started after another had failed", n)
		case *p.Outcome == results.Cancelled && failure < 0:
			return fmt.Sprintf("portion %d was ended, and none had failed", n)
		}
	}
	switch {
	case *j.EndS != last:
		return "it does not end with the last portion"
	case allOK != (*j.Outcome == results.OK) || (failure >= 0) != j.Outcome.Crashed():
		return "its outcome is not that of the portions"
	}
	return ""
}
