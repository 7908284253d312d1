package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers"
)

// ranks is a job with so many ranks that do these steps.
func ranks(t testing.TB, name string, ranks int, steps string) mixes.Job {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".jsonl")
	if err := os.WriteFile(path, []byte(steps), 0o600); err != nil {
		t.Fatal(err)
	}
	return mixes.Job{Name: name, Steps: path, Ranks: ranks}
}

// wantEnds has each rank of a job have ended ok so many seconds after the start.
func wantEnds(t *testing.T, rec *tape, job int, want ...float64) {
	t.Helper()
	got := rec.ranksOf(job)
	if len(got) != len(want) {
		t.Fatalf("ranks %+v, want %d", got, len(want))
	}
	for i, r := range got {
		if *r.Outcome != results.OK || math.Abs(*r.EndS-want[i]) > 1e-8 {
			t.Errorf("rank %d ends at %.9f s, %s, want %.9f s", i, *r.EndS, *r.Outcome, want[i])
		}
	}
}

// What nodes send to others takes the rate of the sender's NIC and that of the receiver's, each of which messages share. On one node a core
// copies it. A barrier of several nodes takes as long as a message of no size.
func TestRanksMeetAcrossNodes(t *testing.T) {
	const bytes, latency = 1.17e9, 50e-6 // one second, and more
	size := fmt.Sprint(int64(bytes))
	local := bytes / 10e9
	for name, c := range map[string]struct {
		scheduler string
		steps     string
		ends      []float64
	}{
		"barrier": {"cluster-rr/case-alg3", message("2", "3", "30000000000") + barrier, []float64{3 + latency, 3 + latency, 3 + latency, 3 + latency}},
		// Ranks 0 and 1 are on node 0, and 2 and 3 on node 1.
		"one":     {"cluster-rr/case-alg3", message("0", "2", size), []float64{1 + latency, 0, 1 + latency, 0}},
		"here":    {"coloc/case-alg3", message("0", "2", size), []float64{local, 0, local, 0}},
		"scatter": {"cluster-rr/case-alg3", message("0", "[1, 2, 3]", size), []float64{local + 2*(1+latency), local, local + 1 + latency, local + 2*(1+latency)}},
		"out":     {"cluster-rr/case-alg3", message("0", "2", size) + message("1", "3", size), []float64{2, 2, 2, 2}},
		// From three nodes to one.
		"gather": {"cluster-rr/case-alg3 of 4", message("[1, 2, 3]", "0", size), []float64{3, 3, 3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			scheduler, wide := strings.CutSuffix(c.scheduler, " of 4")
			node := "sim:2x2xP100"
			if wide {
				node = "sim:4x1xP100"
			}
			done, rec, err := clustered(t.Context(), node, scheduler, 1, ranks(t, "meets", 4, c.steps))
			if err != nil || *done[0].Outcome != results.OK {
				t.Fatalf("%+v, %v", done, err)
			}
			wantEnds(t, rec, 0, c.ends...)
			if want := "4 ranks: "; !strings.HasPrefix(done[0].Command, want) {
				t.Errorf("command %q", done[0].Command)
			}
			if last := slices.Max(c.ends); math.Abs(*done[0].EndS-last) > 1e-8 || *done[0].StartS != 0 {
				t.Errorf("the job is from %g s to %g s, want until %g s", *done[0].StartS, *done[0].EndS, last)
			}
		})
	}
}

// Listing 4-1 as printed gives each node a rank in each round, and Listing 4-2 all that the node has room for. A job starts as many, and those
// that it should not have are ranks as the others.
func TestTheListingStartsMoreRanks(t *testing.T) {
	few := ranks(t, "few", 4, host(1)+message(`"all"`, "0", "1")+barrier)
	one := timed("one", 1)
	few.Computes, one.Computes = true, true
	for _, c := range []struct {
		head, node string
		want       []int
	}{
		{"cluster-rr", "sim:3x2xP100", []int{6, 3, 6}},
		{"coloc", "sim:3x2xP100", []int{6, 6, 6}},
		{"coloc", "sim:1x5xP100", []int{5, 5, 5}},
	} {
		done, rec, err := clustered(t.Context(), c.node, c.head+":literal=true/case-alg3", 1, few, one, few)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			seen := map[int]bool{}
			for _, r := range rec.ranksOf(i) {
				seen[r.Rank] = true
				if *r.Outcome != results.OK || *r.EndS != *done[i].EndS {
					t.Errorf("%s, job %d: %+v, and the job ends at %g s", c.head, i, r, *done[i].EndS)
				}
			}
			if len(seen) != want || !done[i].EndedOK() {
				t.Errorf("%s, job %d has ranks %v, want %d: %+v", c.head, i, seen, want, done[i])
			}
		}
	}
}

// Under coloc a job that is sensitive to communication is on one node, and one that is sensitive to computation where there is room.
func TestColocSpreadsWhatComputes(t *testing.T) {
	job := ranks(t, "meets", 4, barrier)
	for computes, ends := range map[bool]float64{false: 0, true: 50e-6} {
		job.Computes = computes
		_, rec, err := clustered(t.Context(), "sim:2x2xP100", "coloc/case-alg3", 1, job)
		if err != nil {
			t.Fatal(err)
		}
		if at := *rec.ranksOf(0)[3].EndS; at != ends {
			t.Errorf("computes %t: it ends at %.9f s", computes, at)
		}
	}
}

// The first part of a job that does not end well ends the others, and says how the job ended: whether they run, wait for a device, or wait
// for their admission.
func TestAPartEndsTheOthers(t *testing.T) {
	fails := only("0", host(1)) + only("0", allocate("a", "1TiB")) + only("1", allocate("b", "1GiB")) + kernel(1, 9, "") + barrier
	for name, c := range map[string]struct {
		scheduler string
		workers   int
		before    mixes.Job // on both nodes
		want      []string
	}{
		"runs":               {"cluster-rr/case-alg3", 0, mixes.Job{}, []string{"refused", "cancelled: ended because its ranks on node 0 had not ended well"}},
		"waits for a device": {"cluster-rr/sa", 0, ranks(t, "before", 2, only("1", host(5))+allocate("a", "1GiB")+kernel(1, 0.5, "")), []string{"oom"}},
		"is not admitted":    {"cluster-rr/case-alg3", 1, ranks(t, "before", 2, only("1", host(5))+host(0.5)), []string{"refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := []mixes.Job{ranks(t, "fails", 2, fails), ranks(t, "behind", 2, host(1))}
			if c.before.Name != "" {
				jobs = slices.Insert(jobs, 0, c.before)
			}
			done, rec, err := clusteredBy(t.Context(), harness.Options{Node: "sim:2x1xP100", Seed: 1, Workers: c.workers}, c.scheduler, nil, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			i := len(jobs) - 2
			if j := done[i]; !strings.HasPrefix(c.want[0], string(*j.Outcome)) || !strings.HasPrefix(j.Detail, "rank 0: ") {
				t.Errorf("%s: %s", *j.Outcome, j.Detail)
			}
			for _, j := range slices.Concat(done[:i], done[i+1:]) {
				if *j.Outcome != results.OK {
					t.Errorf("%s: %s: %s", j.Name, *j.Outcome, j.Detail)
				}
			}
			var got []string
			for _, r := range rec.ranksOf(i) {
				said := string(*r.Outcome)
				if *r.Outcome == results.Cancelled {
					said += ": " + r.Detail
				}
				got = append(got, said)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("ranks %q, want %q", got, c.want)
			}
		})
	}
}

// Parts that wait for each other's devices are stuck, and end with all else. What they wait for is said once.
func TestPartsThatWaitForEachOther(t *testing.T) {
	steps := func(first, second string) string {
		return only(second, host(1)) + allocate("a", "10GiB") + kernel(1, 1, "") + barrier
	}
	waits := ranks(t, "waits", 2, host(1))
	waits.Group = 1
	done, rec, err := clustered(t.Context(), "sim:2x1xP100", "cluster-rr/case-alg3", 1, ranks(t, "a", 2, steps("0", "1")), ranks(t, "b", 2, steps("1", "0")), waits)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range done[:2] {
		if *j.Outcome != results.Timeout || strings.Count(j.Detail, "rank 0 of job 0 (a) at a barrier of 2") != 1 || strings.Count(j.Detail, "rank 1 of job 1 (b) at a barrier of 2") != 1 {
			t.Errorf("%s: %s: %s", j.Name, *j.Outcome, j.Detail)
		}
	}
	if j := done[2]; *j.Outcome != results.Refused || j.ArrivalS != nil {
		t.Errorf("%+v", j)
	}
	if n := len(rec.Events); n != 1 {
		t.Errorf("events %+v", rec.Events)
	}
}

// Ranks that wait on several nodes are stuck at once, also under schedulers that look again and again.
func TestPartsAreStuckAtOnce(t *testing.T) {
	job := ranks(t, "meets", 4, allocate("a", "10GiB")+kernel(1, 1, "")+barrier+kernel(1, 1, ""))
	for _, scheduler := range []string{"case-alg3", "vgpu:n=1"} {
		done, rec, err := clustered(t.Context(), "sim:2x1xV100", "cluster-rr/"+scheduler, 1, job)
		if err != nil || *done[0].Outcome != results.Timeout || *done[0].EndS > 60 || len(rec.Events) != 1 {
			t.Errorf("%s: %+v, %d events, %v", scheduler, done, len(rec.Events), err)
		}
	}
}

// A part that runs too long ends the job, and an interruption ends all parts.
func TestPartsAreStopped(t *testing.T) {
	long := ranks(t, "long", 2, only("1", host(9))+host(1)+barrier)
	long.Timeout = 5 * time.Second
	done, rec, err := clustered(t.Context(), "sim:2x1xP100", "cluster-rr/case-alg3", 1, long)
	if err != nil || *done[0].Outcome != results.Timeout || *done[0].EndS != 5 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, r := range rec.ranksOf(0) {
		if r.EndS == nil || *r.EndS != 5 || *r.Outcome == results.OK || *r.Outcome == results.Timeout && r.Detail != "" {
			t.Errorf("%+v", r)
		}
	}
	if n := len(slices.DeleteFunc(rec.Events, func(e results.Event) bool { return e.Kind != results.EventTimeout })); n != 1 {
		t.Errorf("%d events say that it ran too long", n)
	}
}

// Jobs of ranks on clusters end, each with one record of each rank that has started, and tasks that are its own. A run again is the same.
func TestSplitJobsEnd(t *testing.T) {
	program := filepath.Join(t.TempDir(), "head")
	if err := os.WriteFile(program, nil, 0o755); err != nil { // crowdShy decides
		t.Fatal(err)
	}
	chance.CheckTimes(t, 60, 3000, func(rt *rapid.T) {
		node := fmt.Sprintf("sim:%dx%dxP100", rapid.IntRange(1, 4).Draw(rt, "nodes"), rapid.IntRange(1, 2).Draw(rt, "devices"))
		head := rapid.SampledFrom([]string{"cluster-rr", "cluster-rr:literal=true", "coloc", "coloc:literal=true", "coloc:nodes=all", "coloc:nodes=2", "latency", "latency:nodes=all", "cluster-batch", "cluster-rr+offload:threshold=1", "latency+offload:threshold=2", "exec:" + program, "exec:" + program + "+offload:threshold=1"}).Draw(rt, "head")
		each := rapid.SampledFrom([]string{"case-alg3", "sa", "vgpu:n=2", "vgpu-preempt:n=1", "demand", "mfit", "cg", "plan:search=20"}).Draw(rt, "scheduler")
		o := harness.Options{Node: node, Seed: rapid.Uint64Range(1, 9).Draw(rt, "seed"), Workers: rapid.IntRange(0, 3).Draw(rt, "workers"), Noise: rapid.SampledFrom([]float64{0, 0.3}).Draw(rt, "noise"),
			Failures: rapid.SampledFrom([]string{"", "", "0@1s,repair=2s", "every=4s,repair=500ms", "0.0@1s,repair=2s,snapshot=500ms", "0.0@700ms,0@1s,every=3s,repair=400ms"}).Draw(rt, "failures"), RetryLost: rapid.Bool().Draw(rt, "retry")}
		var jobs []mixes.Job
		var expected []*schedulers.Prediction
		at := time.Duration(0)
		for i := range rapid.IntRange(1, 6).Draw(rt, "jobs") {
			n := rapid.IntRange(1, 6).Draw(rt, "ranks")
			steps := ""
			for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
				steps += rapid.SampledFrom([]string{host(1), host(0.2) + kernel(80, 0.7, ""), only("0", host(2)), barrier, message("0", `"all"`, "300MiB"), message(`"all"`, "0", "100MiB")}).Draw(rt, "step")
			}
			job := ranks(t, fmt.Sprint("job", i), n, allocate("a", rapid.SampledFrom([]string{"1GiB", "9GiB", "1TiB"}).Draw(rt, "bytes"))+steps+kernel(1, 0.1, "")+free("a"))
			if n == 1 {
				job.Restartable = new(rapid.Bool().Draw(rt, "restartable"))
			}
			job.Long, job.Computes = rapid.Bool().Draw(rt, "long"), rapid.Bool().Draw(rt, "computes")
			job.UntilOthersEnd = i > 0 && rapid.IntRange(0, 5).Draw(rt, "companion") == 0
			job.At = at
			at += rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(rt, "after")
			jobs = append(jobs, job)
			known := map[bool]*schedulers.Prediction{true: {Before: time.Second, Held: 2 * time.Second, Bytes: 1 << 30}}
			expected = append(expected, known[rapid.IntRange(0, 4).Draw(rt, "known") > 0])
		}
		once := func() string {
			done, rec, err := clusteredAs(t.Context(), o, head+"/"+each, nil, expected, jobs...)
			if err != nil {
				rt.Fatal(err)
			}
			for i, j := range done {
				if j.Outcome == nil || *j.Outcome == results.Cancelled || j.StartS != nil && *j.StartS > *j.EndS {
					rt.Fatalf("%+v", j)
				}
				seen := map[int]bool{}
				for _, r := range rec.Ranks {
					if r.Job == i {
						seen[r.Rank] = true
					}
				}
				if j.EndedOK() && each == "sa" && (*j.WaitS < *j.StartS-*j.ArrivalS-1e-9 || *j.WaitS > *j.EndS-*j.ArrivalS+1e-9) {
					rt.Fatalf("%s waits %g s, from %g s, %g to %g s", j.Name, *j.WaitS, *j.ArrivalS, *j.StartS, *j.EndS)
				}
				more := strings.HasSuffix(head, ":literal=true") && len(seen) > jobs[i].Ranks
				if n := jobs[i].Ranks; j.EndedOK() && n > 1 && len(seen) != n && !more {
					rt.Fatalf("job %d has records of %d ranks, want %d", i, len(seen), n)
				}
				for _, k := range rec.Tasks {
					if k.Job == i && k.ReleaseS != nil && j.EndedOK() && (k.GrantS == nil || *k.GrantS < *j.ArrivalS || *k.ReleaseS > *j.EndS) {
						rt.Fatalf("task %+v of %+v", k, j)
					}
				}
			}
			text, err := json.Marshal([]any{done, rec.Ranks, rec.Tasks, rec.Kernels, rec.Swaps})
			if err != nil {
				rt.Fatal(err)
			}
			return string(text)
		}
		if first, again := once(), once(); first != again {
			rt.Fatal("a run again differs")
		}
	})
}
