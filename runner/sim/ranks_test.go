package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

const barrier = `{"step": "barrier"}` + "\n"

// of is a step that some ranks do.
func only(ranks, step string) string { return strings.Replace(step, "}", `, "rank": `+ranks+"}", 1) }

func message(from, to string, bytes string) string {
	return fmt.Sprintf(`{"step": "message", "from": %s, "to": %s, "bytes": %q}`+"\n", from, to, bytes)
}

// ranked is a trial of one job with ranks that do these steps.
func ranked(t testing.TB, node Node, scheduler string, ranks int, steps string) trial {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.jsonl")
	if err := os.WriteFile(path, []byte(steps), 0o600); err != nil {
		t.Fatal(err)
	}
	r := trial{node: node, scheduler: scheduler, jobs: []mixes.Job{{Name: "own", Steps: path, Ranks: ranks}}}
	var err error
	if r.profiles, err = r.profiles.WithSteps(t.Context(), r.jobs); err != nil {
		t.Fatal(err)
	}
	return r
}

// ranks are the latest records of the ranks, by job and rank.
func (r *tape) ranksOf(job int) (out []results.Rank) {
	for _, k := range r.Ranks {
		if k.Job != job {
			continue
		}
		if k.Rank == len(out) {
			out = append(out, k)
		}
		out[k.Rank] = k
	}
	return out
}

func wantRanks(t *testing.T, rec *tape, job int, want ...string) {
	t.Helper()
	var got []string
	for _, k := range rec.ranksOf(job) {
		got = append(got, fmt.Sprintf("%g-%g %s", *k.StartS, *k.EndS, *k.Outcome))
	}
	if !slices.Equal(got, want) {
		t.Errorf("ranks %q, want %q", got, want)
	}
}

// Ranks wait for the last of them at a barrier, and end when each has done its steps.
func TestBarrier(t *testing.T) {
	r := ranked(t, small(t, 2), "case-alg3", 3, only("0", host(1))+only("1", host(4))+host(1)+barrier+only("2", host(2)))
	jobs, rec, _, err := r.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, jobs[0], results.OK, 7)
	wantRanks(t, rec, 0, "0-5 ok", "0-5 ok", "0-7 ok")
}

// A message takes its bytes on a core of the sender, which goes on then. Its receiver waits for it.
func TestMessage(t *testing.T) {
	node := small(t, 1)
	r := ranked(t, node, "case-alg3", 3, only("1", host(9))+message("0", "1", "10000000000")+only("0", host(2))+message(`"all"`, "0", "20000000000"))
	jobs, rec, _, err := r.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// rank 0 sends until 1, works until 3, and gets from rank 2 at 2 and from rank 1 at 11.
	wantOutcome(t, jobs[0], results.OK, 11)
	wantRanks(t, rec, 0, "0-11 ok", "0-11 ok", "0-2 ok")
}

// The kernels of ranks name the tasks that the store has.
func TestTasksOfRanks(t *testing.T) {
	work := allocate("a", "1GiB") + kernel(1, 1, "") + free("a")
	_, rec, _, err := ranked(t, small(t, 2), "case-alg3", 2, only("0", host(1))+work+work).run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tasks := rec.of(0)
	if len(tasks) != 4 || len(rec.Kernels) != 4 {
		t.Fatalf("%d tasks and %d kernels, want 4", len(tasks), len(rec.Kernels))
	}
	for _, k := range rec.Kernels {
		if of := tasks[*k.Task]; *of.Device != k.Device || *of.GrantS > k.StartS || *of.ReleaseS < k.EndS {
			t.Errorf("kernel %+v of task %+v", k, of)
		}
	}
}

// The first rank that fails ends the others, and the job as it did.
func TestRankFails(t *testing.T) {
	r := ranked(t, small(t, 2), "case-alg3", 3, only("0", host(1))+host(1)+only("1", allocate("a", "1TiB")+kernel(1, 1, ""))+barrier)
	jobs, rec, _, err := r.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, jobs[0], results.Refused, 1)
	if !strings.HasPrefix(jobs[0].Detail, "rank 1: ") {
		t.Errorf("detail %q", jobs[0].Detail)
	}
	wantRanks(t, rec, 0, "0-1 cancelled", "0-1 refused", "0-1 cancelled")
	if ranks := rec.ranksOf(0); ranks[0].Detail != "ended because rank 1 had failed" || *ranks[2].Signal != "SIGKILL" {
		t.Errorf("ranks %+v", ranks)
	}
}

// p ranks that meet at a barrier and hold their devices deadlock on k devices of n slots each if p > n k (dissertation, section
// 3.4, scenario 3). They end if idle ranks give way.
func TestStuck(t *testing.T) {
	steps := func(bytes string) string {
		return allocate("a", bytes) + kernel(1, 1, "") + barrier + kernel(1, 1, "") + free("a")
	}
	for _, c := range []struct {
		scheduler, bytes string
		devices, ranks   int
		stuck            bool
		waits, requests  string
	}{
		{"vgpu:n=2", "1GiB", 1, 2, false, "", ""},
		{"vgpu:n=2", "1GiB", 1, 3, true, "ranks 0, 1 of job 0 (own) at a barrier of 3", "rank 2 of job 0 (own) for 1 GiB"},
		{"vgpu:n=2", "1GiB", 2, 4, false, "", ""},
		{"vgpu:n=2", "1GiB", 2, 5, true, "ranks 0, 1, 2, 3 of job 0 (own) at a barrier of 5", "rank 4 of job 0 (own) for 1 GiB"},
		{"vgpu-preempt", "1GiB", 1, 3, false, "", ""},
		{"vgpu-preempt:n=1", "1GiB", 2, 5, false, "", ""},
		{"vgpu-preempt:n=1", "4GiB", 1, 5, false, "", ""}, // two fit
		{"vgpu-preempt:n=1,copy=always", "8GiB", 2, 7, false, "", ""},
		{"vgpu-preempt:n=1", "1MiB", 1, 20, true, "ranks 0, 1, 2, 3, 4, 5, 6, 7, and 11 more of job 0 (own) at a barrier of 20", "rank 19 of job 0 (own) for 1 MiB"},
		{"demand", "8GiB", 1, 3, false, "", ""},
		{"demand", "1MiB", 1, 19, false, "", ""},
		{"demand", "1MiB", 1, 20, true, "ranks 0, 1, 2, 3, 4, 5, 6, 7, and 11 more of job 0 (own) at a barrier of 20", "rank 19 of job 0 (own) for 1 MiB"},
		{"case-alg3", "3GiB", 1, 3, false, "", ""},
		{"case-alg3", "8GiB", 1, 2, true, "rank 0 of job 0 (own) at a barrier of 2", "rank 1 of job 0 (own) for 8 GiB"},
	} {
		r := ranked(t, small(t, c.devices), c.scheduler, c.ranks, steps(c.bytes))
		jobs, rec, _, err := r.run(t.Context())
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		var said []string
		for _, e := range rec.Events {
			if e.Kind == results.EventStuck {
				said = append(said, e.Detail)
			}
		}
		if !c.stuck {
			if *jobs[0].Outcome != results.OK || len(said) > 0 {
				t.Errorf("%+v: %s (%s), events %q", c, *jobs[0].Outcome, jobs[0].Detail, said)
			}
			continue
		}
		if *jobs[0].Outcome != results.Timeout || len(said) != 1 || jobs[0].Detail != said[0] ||
			!strings.Contains(said[0], "Waiting for other ranks: "+c.waits+". Waiting for a device: "+c.requests+". ") {
			t.Errorf("%+v: %s (%s), events %q", c, *jobs[0].Outcome, jobs[0].Detail, said)
		}
		name, _, _ := strings.Cut(c.scheduler, ":")
		if strings.Contains(said[0], "such as vgpu-preempt") == strings.Contains(said[0], "which "+name+" does not take back") {
			t.Errorf("%+v: told to use the scheduler that it has, or not told which helps: %q", c, said[0])
		}
	}
}

// p ranks that meet on k devices of n slots each are stuck under vgpu if p > n k, and never under vgpu-preempt, whatever memory they
// keep or need.
func TestRanksThatMeetEndWherePreemptionIs(t *testing.T) {
	const last = "LAST" // the last rank
	for what, steps := range map[string]string{
		"keep":  allocate("a", "1GiB") + kernel(1, 1, "") + barrier + kernel(1, 1, "") + barrier + kernel(1, 1, ""),
		"free":  allocate("a", "1GiB") + kernel(1, 1, "") + free("a") + barrier + allocate("b", "8GiB") + kernel(1, 1, ""),
		"large": allocate("a", "3GiB") + only(last, allocate("b", "5GiB")) + kernel(1, 1, "") + barrier + kernel(1, 1, ""),
		"grow":  allocate("a", "3GiB") + kernel(1, 1, "") + barrier + allocate("b", "4GiB") + kernel(1, 1, ""),
	} {
		for k := 1; k <= 2; k++ {
			for n := 1; n <= 2; n++ {
				for p := 1; p <= n*k+2; p++ {
					for scheduler, stuck := range map[string]bool{"vgpu:victims=0,n=": p > n*k, "vgpu-preempt:n=": false, "vgpu-preempt:copy=always,n=": false} {
						jobs, _ := ranked(t, small(t, k), scheduler+strconv.Itoa(n), p, strings.ReplaceAll(steps, last, strconv.Itoa(p-1))).must(t)
						if got := *jobs[0].Outcome; (got == results.Timeout) != stuck || !stuck && got != results.OK {
							t.Errorf("%s: %d ranks on %d devices under %s%d: %s: %s", what, p, k, scheduler, n, got, jobs[0].Detail)
						}
					}
				}
			}
		}
	}
}

// Jobs whose ranks meet again and again end under vgpu beside each other and beside jobs of one process, if there are slots for all ranks of each.
func TestJobsOfRanksEndBesideEachOther(t *testing.T) {
	chance.CheckTimes(t, 40, 2000, func(rt *rapid.T) {
		k, n := rapid.IntRange(1, 3).Draw(rt, "devices"), rapid.IntRange(1, 3).Draw(rt, "slots")
		queue := rapid.SampledFrom([]string{"mmu", "fifo", "largest-first"}).Draw(rt, "queue")
		var all trial
		for range rapid.IntRange(2, 4).Draw(rt, "jobs") {
			steps := ""
			for i := range rapid.IntRange(1, 3).Draw(rt, "rounds") {
				steps += host(rapid.Float64Range(0, 2).Draw(rt, "host")) + allocate(fmt.Sprint("a", i), fmt.Sprintf("%dMiB", rapid.IntRange(1, 512).Draw(rt, "MiB"))) +
					only("0", host(rapid.Float64Range(0, 2).Draw(rt, "more"))) + kernel(1, rapid.Float64Range(0.1, 2).Draw(rt, "kernel"), "") + barrier
			}
			r := ranked(t, small(t, k), fmt.Sprintf("vgpu:n=%d,queue=%s,age-limit=%d", n, queue, rapid.IntRange(0, 2).Draw(rt, "age limit")), rapid.IntRange(1, n*k).Draw(rt, "ranks"), steps)
			r.jobs = append(all.jobs, r.jobs...)
			r.profiles = r.profiles.With(all.profiles)
			all = r
		}
		jobs, _, _, err := all.run(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		for _, j := range jobs {
			if *j.Outcome != results.OK {
				rt.Fatalf("%s: %+v", all.scheduler, jobs)
			}
		}
	})
}

// Jobs beside one that is stuck end with it, and those that have not arrived are refused.
func TestOthersOfAStuckRun(t *testing.T) {
	work := allocate("a", "1GiB") + kernel(1, 1, "") + free("a")
	r := ranked(t, small(t, 1), "vgpu:n=2", 3, allocate("a", "1GiB")+kernel(1, 1, "")+barrier)
	other := stepping(t, r.node, "vgpu:n=2", work, work)
	other.jobs[1].Group = 1
	r.jobs, r.profiles = append(r.jobs, other.jobs...), r.profiles.With(other.profiles)
	jobs, _, err := r.clean(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, jobs[1], results.Timeout, 1)
	if j := jobs[2]; *j.Outcome != results.Refused || j.EndS != nil || jobs[1].Detail == jobs[0].Detail {
		t.Errorf("jobs %+v", jobs)
	}
}
