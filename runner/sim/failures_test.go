package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
)

// repeats are the seconds of work that jobs repeated.
func repeats(t *testing.T, rec *tape) (lost []float64) {
	t.Helper()
	for _, e := range rec.Events {
		if e.Kind == results.EventRepeated {
			var device int
			var seconds float64
			if _, err := fmt.Sscanf(e.Detail, "GPU %d has failed: %f s", &device, &seconds); err != nil || *e.Device != device {
				t.Errorf("%+v: %v", e, err)
			}
			lost = append(lost, seconds)
		}
	}
	return lost
}

// A job goes on from its latest snapshot, or from its start, on a device that works.
func TestJobsRepeatWorkOfAFailedDevice(t *testing.T) {
	steps := host(1) + allocate("x", "1GiB") + strings.Repeat(kernel(100_000, 5, ""), 3) + free("x") + host(1)
	for _, c := range []struct {
		failures, node string
		end, lost      float64
	}{
		{"", "sim:2xH200", 17, 0},
		{"0@13s", "sim:2xH200", 13 + 17, 13},
		{"0@13s,snapshot=4s", "sim:2xH200", 13 + 5 + 1, 2},
		{"0@13s,snapshot=9s", "sim:2xH200", 13 + 5 + 1, 2},
		{"0@13s,snapshot=12s", "sim:2xH200", 13 + 17, 13}, // behind two kernels it had worked for 11 s
		{"0@13s,repair=10s", "sim:1xH200", 23 + 16, 13},   // the second on the host is over before
		{"0@13s,repair=10s,snapshot=4s", "sim:1xH200", 23 + 5 + 1, 2},
		{"0@13s,0@14s,snapshot=4s", "sim:2xH200", 13 + 5 + 1, 2}, // it is out already
		{"1@13s", "sim:2xH200", 17, 0},
		{"0@500ms", "sim:2xH200", 17, 0}, // nothing is there yet
		{"0@16500ms", "sim:2xH200", 17, 0},
	} {
		for _, scheduler := range []string{"case-alg3", "vgpu:n=2", "vgpu-preempt", "mfit", "quantum"} {
			r := stepping(t, uncrowded(t, c.node), scheduler, steps)
			r.failures = c.failures
			jobs, rec := r.must(t)
			lost := 0.0
			for _, seconds := range repeats(t, rec) {
				lost += seconds
			}
			if *jobs[0].Outcome != results.OK || math.Abs(*jobs[0].EndS-c.end) > 0.1 || math.Abs(lost-c.lost) > 0.1 {
				t.Errorf("%s under %s: %s at %v s (want %v), %v s lost (want %v): %s", c.failures, scheduler, *jobs[0].Outcome, *jobs[0].EndS, c.end, lost, c.lost, jobs[0].Detail)
			}
		}
	}
}

// Ranks have sent what they would send again, and a job that fails again and again would never end.
func TestJobsThatCannotRepeatWorkCrash(t *testing.T) {
	long := allocate("x", "1GiB") + kernel(100_000, 100, "") + free("x")
	ranks := stepping(t, uncrowded(t, "sim:2xH200"), "vgpu", long)
	ranks.jobs[0].Ranks, ranks.failures = 2, "0@5s"
	never := stepping(t, uncrowded(t, "sim:2xH200"), "vgpu", long)
	never.failures = "every=1s,repair=1ms"
	managed := stepping(t, uncrowded(t, "sim:2xH200"), "demand", managed("x", "1GiB")+kernel(100_000, 100, "")+free("x"))
	managed.failures = "0@5s"
	for name, r := range map[string]trial{"ranks": ranks, "never": never, "managed": managed} {
		if jobs, _ := r.must(t); *jobs[0].Outcome != results.Crash || !strings.Contains(jobs[0].Detail+jobs[0].StderrTail, "has failed (simulated)") {
			t.Errorf("%s: %s: %s %s", name, *jobs[0].Outcome, jobs[0].Detail, jobs[0].StderrTail)
		}
	}
}

// Whatever the scheduler, jobs end ok and nothing is left on the devices. The same seed has the same failures.
func TestFailuresUnderSchedulers(t *testing.T) {
	m, err := mixes.Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	for _, scheduler := range []string{"sa", "cg", "case-alg2", "case-alg3", "demand", "mfit", "amfit", "quantum", "vgpu:balance=on", "vgpu-preempt:copy=always", "vgpu-preempt:n=2"} {
		for seed := range uint64(3) {
			r := trial{node: mustNode(t, "sim:4xV100"), scheduler: scheduler, jobs: m.Jobs, workers: 16, seed: seed, noise: 0.01, failures: "every=40s,repair=5s,snapshot=2s"}
			jobs, rec := r.must(t)
			again, _ := r.must(t)
			failed := 0
			for i, j := range jobs {
				if *j.EndS != *again[i].EndS {
					t.Errorf("%s, seed %d: job %d ends at %v s, and again at %v s", scheduler, seed, i, *j.EndS, *again[i].EndS)
				}
				if *j.Outcome != results.OK {
					failed++
				}
			}
			if failed > 0 && scheduler != "cg" || len(repeats(t, rec)) == 0 {
				t.Errorf("%s, seed %d: %d jobs failed, repeated: %v", scheduler, seed, failed, repeats(t, rec))
			}
		}
	}
}

func TestParseFailures(t *testing.T) {
	for text, want := range map[string]string{
		"0@1s,4@2s":             "4@2s: the node has devices 0 to 3",
		"-1@1s":                 "-1@1s: the node has devices 0 to 3",
		"every=0s":              "every=0s: want a time such as 10s",
		"every=1m,snapshot=-1s": "snapshot=-1s: want a time such as 10s",
		"every=10":              "every=10: want a time such as 10s",
		"rate=1m":               "rate=1m: want a failure such as 0@30s, every=10m, repair=1m or snapshot=10s",
		"0@-1s":                 "0@-1s: want a failure such as 0@30s, every=10m, repair=1m or snapshot=10s",
		"snapshot=10s":          "snapshot=10s: nothing fails: add every=10m or 0@30s",
		"0@1s,":                 "empty",
		"0.1@1s":                "0.1@1s: want a failure such as 0@30s, every=10m",
	} {
		if _, err := ParseFailures(text, []int{4}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseFailuresOfClusters(t *testing.T) {
	for text, want := range map[string]string{
		"3@1s":                "3@1s: the cluster has nodes 0 to 2",
		"-1@1s":               "-1@1s: the cluster has nodes 0 to 2",
		"3.0@1s":              "3.0@1s: the cluster has nodes 0 to 2",
		"1.2@1s":              "1.2@1s: the node has devices 0 to 1",
		"1.-1@1s":             "1.-1@1s: the node has devices 0 to 1",
		"1.@1s":               "1.@1s: want a failure such as 0@30s, 0.1@30s, every=10m, repair=1m or snapshot=10s",
		"1.0.1@1s":            "1.0.1@1s: want a failure such as 0@30s, 0.1@30s,",
		"1.0":                 "1.0: want a failure such as 0@30s, 0.1@30s,",
		"every=1m,snapshot=1": "snapshot=1: want a time such as 10s",
	} {
		if _, err := ParseFailures(text, []int{4, 2, 4}, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, works := range map[string]bool{"0@1s,snapshot=1s": false, "every=1m,snapshot=1s": false, "1.1@1s,snapshot=1s": true, "0@1s,0.0@2s,every=1m": true} {
		if _, err := Open(harness.Options{Node: "sim:2x2xV100", Failures: text}); (err == nil) != works || err != nil && !strings.Contains(err.Error(), "jobs of a node that is lost do not start again") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A device of a cluster's node fails as one of a node that is alone: its jobs go on with the node's others, and other nodes notice nothing. Its
// number in texts is the cluster's.
func TestDevicesOfAClusterFail(t *testing.T) {
	steps := host(1) + allocate("x", "1GiB") + strings.Repeat(kernel(100_000, 5, ""), 3) + free("x") + host(1)
	job := ranks(t, "job", 0, steps)
	for _, failures := range []string{"1@13s", "1@13s,snapshot=4s", "1@13s,repair=1s,0@13s"} {
		_, alone, err := clusteredBy(t.Context(), harness.Options{Node: "sim:2xH200", Seed: 1, Failures: failures}, "case-alg3", nil, job, job, job)
		if err != nil {
			t.Fatal(err)
		}
		_, rec, err := clusteredBy(t.Context(), harness.Options{Node: "sim:3x2xH200", Seed: 1, Failures: strings.NewReplacer("1@", "1.1@", "0@", "1.0@").Replace(failures)},
			"cluster-rr/case-alg3", nil, slices.Repeat([]mixes.Job{job}, 9)...)
		if err != nil {
			t.Fatal(err)
		}
		said := func(r *tape) (texts []string) {
			for _, e := range r.Events {
				texts = append(texts, fmt.Sprintf("%.6f %s %s", e.AtS, e.Kind, e.Detail))
			}
			return texts
		}
		want := said(alone)
		for i := range want { // devices 0 and 1 of node 1 are 2 and 3
			want[i] = strings.NewReplacer("GPU 1 ", "GPU 3 ", "GPU 0 ", "GPU 2 ").Replace(want[i])
		}
		if got := said(rec); !slices.Equal(got, want) || len(repeats(t, rec)) == 0 {
			t.Errorf("%s: events %q, want %q", failures, got, want)
		}
		last := func(r *tape, job int) (end float64) {
			for _, j := range r.Jobs {
				if j.Index == job && j.EndS != nil {
					end = *j.EndS
				}
			}
			return end
		}
		for i := range 3 {
			if got, want := last(rec, 3*i+1), last(alone, i); got != want {
				t.Errorf("%s: job %d of node 1 ends at %g s, alone at %g s", failures, i, got, want)
			}
			if got := last(rec, 3*i); math.Abs(got-last(rec, 3*i+2)) > 1e-9 || got >= last(alone, 2) && len(repeats(t, alone)) > 0 {
				t.Errorf("%s: job %d of node 0 ends at %g s, on the node with failures the last at %g s", failures, i, got, last(alone, 2))
			}
		}
	}
}
