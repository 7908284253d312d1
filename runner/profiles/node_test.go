package profiles

import (
	"math"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// Every job of the dissertation's figures has steps.
func TestFiguresHaveProfiles(t *testing.T) {
	var names []string
	for _, m := range mixes.Catalog() {
		if of, err := mixes.Match(m.Name + "-*"); err == nil && strings.HasPrefix(m.Name, "N-") {
			names = append(names, of...)
		}
	}
	if len(names) < 300 {
		t.Fatalf("%d mixes", len(names))
	}
	seen := map[string]bool{}
	for _, name := range names {
		m, err := mixes.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range m.Jobs {
			if seen[j.Command()] {
				continue
			}
			seen[j.Command()] = true
			if p, err := Catalog().Lookup(j); err != nil || p.Listed == nil || p.Kernels != Estimated {
				t.Errorf("%s: %s: %v", name, j.Command(), err)
			}
		}
	}
}

// node is a job of benchmarks/node with these arguments.
func node(program string, ranks int, args ...string) mixes.Job {
	return mixes.Job{Name: program, Program: "node/" + program, Args: args, Ranks: ranks, Footprint: mixes.Footprint{Bytes: 12 << 20, Blocks: 1056, ThreadsPerBlock: 256}}
}

// total adds up the seconds of a kind of step, and how many there are.
func total(t *testing.T, j mixes.Job, rank int, of StepKind) (seconds float64, count int) {
	p, err := Set{}.Lookup(j)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Steps(j.Footprint, rank) {
		if s.Kind == of {
			seconds += s.S
			count++
		}
	}
	return math.Round(seconds*1e6) / 1e6, count
}

func TestStepsOfNodePrograms(t *testing.T) {
	synth := node("synth", 4, "--gpu-time", "0.3", "--iterations", "10", "--per-iteration", "2", "--cpu-fraction", "0.5", "--communication", "scatter-gather", "--uneven", "1,2", "--by", "-0.5")
	for _, c := range []struct {
		job     mixes.Job
		rank    int
		kind    StepKind
		seconds float64
		count   int
	}{
		{node("mm", 0, "--cpu-fraction", "0.5"), 0, Kernel, 30, 10},
		{node("mm", 0, "--cpu-fraction", "0.5"), 0, Host, 15.3, 11},
		{node("mm", 0, "--size", "2000", "--products", "200"), 0, Kernel, 30, 200},
		{node("mm", 0, "--matrices", "12"), 0, Allocate, 0, 12},
		{node("sc", 0), 0, Kernel, 3.5, 3300},
		{node("sc", 0, "--cpu-fraction", "2", "--verify"), 0, Host, 7.3, 3301},
		{node("bs", 0), 0, Kernel, 30, 256},
		{node("bs", 0, "--size", "md"), 0, Kernel, 3.5, 256},
		{synth, 0, Kernel, 6, 20},
		{synth, 1, Kernel, 3, 20},
		{synth, 1, Host, 1.8, 21},
		{synth, 3, Message, 0, 40},
		{node("synth", 2, "--communication", "barrier"), 1, Barrier, 0, 200},
		{node("synth", 0, "--communication", "broadcast"), 0, Message, 0, 0},
	} {
		if seconds, count := total(t, c.job, c.rank, c.kind); seconds != c.seconds || count != c.count {
			t.Errorf("%s, rank %d: %g s in %d steps of kind %d, want %g in %d", c.job.Command(), c.rank, seconds, count, c.kind, c.seconds, c.count)
		}
	}
	for _, j := range []mixes.Job{node("va", 0, "--size", "sm"), node("bs", 0, "--size", "5"), node("synth", 2, "--communication", "any"), node("synth", 2, "--by", "x"),
		node("mm", 0, "--matrices", "2"), node("mm", 0, "--products", "1e9"), node("none", 0), node("va", 0, "1"), {Program: "node/va"}} {
		if p, err := (Set{}).Lookup(j); err == nil {
			t.Errorf("%s has the profile %+v", j.Command(), p)
		}
	}
}
