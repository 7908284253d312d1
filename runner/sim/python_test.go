//go:build python

package sim

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/external"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// example is the path of a policy in Python.
func example(t *testing.T, name string) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "").Run(); err != nil {
		t.Fatalf("benchmarks/policies/%s needs python3 (apt-get install python3): %v", name, err)
	}
	path, err := filepath.Abs("../../benchmarks/policies/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Four jobs of 20 GiB each: a kernel of 5 s, 20 s on the host, a kernel of 5 s. While one is on the host the next has the device, so that all
// end after little more than a first kernel, the host phase and four second kernels. Where there is room for one, its memory moves.
func TestTheExampleOfIdlePreemption(t *testing.T) {
	path := example(t, "idle.py")
	steps := []string{`{"step":"allocate","object":"a","bytes":"20GiB"}`, `{"step":"kernel","seconds":5,"blocks":1056,"threads":1024}`,
		`{"step":"host","seconds":20}`, `{"step":"kernel","seconds":5,"blocks":1056,"threads":1024}`, `{"step":"free","object":"a"}`}
	file := filepath.Join(t.TempDir(), "steps.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(steps, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	jobs := slices.Repeat([]mixes.Job{{Name: "idle", Steps: file}}, 4)
	known, err := profiles.Catalog().WithSteps(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		memory int64
		want   float64
		moves  bool
	}{{140 << 30, 45, false}, {30 << 30, 47, true}} {
		s, err := policies.Parse("exec:"+path, 1)
		if err != nil {
			t.Fatal(err)
		}
		p, err := external.Start(*s.Program)
		if err != nil {
			t.Fatal(err)
		}
		out, rec, _, err := trial{node: mustNode(t, "sim:1xH200").Capped(c.memory), jobs: jobs, profiles: known}.under(t.Context(), p.Scheduler(s))
		if err != nil {
			t.Fatal(err)
		}
		last, bytes := 0.0, int64(0)
		for _, j := range out {
			last = max(last, *j.EndS)
		}
		for _, s := range rec.Swaps {
			bytes += s.Bytes
		}
		if math.Abs(last-c.want) > 0.1 || (bytes > 0) != c.moves {
			t.Errorf("with %d GiB the last job ends at %.2f s, want %g, and %d bytes move", c.memory>>30, last, c.want, bytes)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Random moves go on as long as jobs have tasks, and change nothing but where these are.
func TestTheExampleOfRandomMoves(t *testing.T) {
	t.Setenv("MOVES_MS", "100")
	s, err := policies.Parse("exec:"+example(t, "moves.py"), 2)
	if err != nil {
		t.Fatal(err)
	}
	p, err := external.Start(*s.Program)
	if err != nil {
		t.Fatal(err)
	}
	jobs, rec, _, err := trial{node: mustNode(t, "sim:2xH200"), jobs: mixJobs(t, "W1")[:4]}.under(t.Context(), p.Scheduler(s))
	if err != nil {
		t.Fatal(err)
	}
	moves := 0
	for _, s := range rec.Swaps {
		if s.Action == schedulers.Move.String() && s.Outcome == schedulers.Done {
			moves++
		}
	}
	last := 0.0
	for _, j := range jobs {
		last = max(last, *j.EndS)
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s", j.Index, *j.Outcome)
		}
	}
	if moves < int(last)*5 {
		t.Errorf("%d moves in %.0f s", moves, last)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// The example decides as case-alg3 does, under each queue order: every record of W1 to W8 is equal.
func TestTheExampleIsAlg3(t *testing.T) {
	path, tasks := example(t, "alg3.py"), 0
	for _, parameters := range []string{"queue=largest-first", "queue=fifo,age-limit=3", "queue=mmu,wait-limit=20s"} {
		for _, mix := range []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"} {
			ours, err := policies.Parse("case-alg3:"+parameters, 4)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := policies.Parse("exec:path="+path+","+parameters, 4)
			if err != nil {
				t.Fatal(err)
			}
			theirs.Program.Timeout = time.Minute
			p, err := external.Start(*theirs.Program)
			if err != nil {
				t.Fatal(err)
			}
			theirs.Policy = p
			r := trial{node: mustNode(t, "sim:4xV100"), jobs: mixJobs(t, mix)}
			_, want, _, err := r.under(t.Context(), ours)
			if err != nil {
				t.Fatal(err)
			}
			_, got, _, err := r.under(t.Context(), theirs)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s under %s (-case-alg3 +alg3.py):\n%s", mix, parameters, diff)
			}
			tasks += len(want.Tasks)
		}
	}
	if tasks == 0 {
		t.Error("no task was placed")
	}
}
