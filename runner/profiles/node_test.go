package profiles

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// Every job of the dissertation's figures has steps.
func TestFiguresHaveProfiles(t *testing.T) {
	var names []string
	for _, m := range mixes.Catalog() {
		if of, err := mixes.Match(m.Name + "-*"); err == nil && (strings.HasPrefix(m.Name, "N-") || strings.HasPrefix(m.Name, "C-")) {
			names = append(names, of...)
		}
	}
	if len(names) < 800 {
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

// Each iteration of a program of chapter 4 has as many bytes of messages and as much work, whatever its ranks are. An ADFA has more work with more ranks.
func TestStepsOfClusterPrograms(t *testing.T) {
	for _, c := range []struct {
		program             string
		ranks, iterations   int
		scattered, gathered int64   // by the root to each other rank, and from each
		seconds             float64 // of a rank's kernels
		args                []string
		messages, barriers  int
	}{
		{"mm", 4, 4, 133250000, 66750000, 4 * 1.8432 / 4, nil, 8, 4},
		{"mm", 8, 2, 66625000, 33375000, 2 * 1.8432 / 8, nil, 4, 2},
		{"nw", 4, 20, 250000, 37250000, 20 * 0.5 / 4, nil, 40, 20},
		{"nw", 4, 20, 250000, 37250000, 20 * 0.5 / 8, []string{"--gpu-factor", "0.5"}, 40, 20},
		{"adfa", 8, 2, 0, 1000000, 30, nil, 2, 2},
		{"adfa", 4, 1, 0, 2000000, 30, []string{"--gpu-factor", "2"}, 1, 1},
		{"mm", 0, 3, 0, 0, 3 * 1.8432, nil, 0, 3},
	} {
		j := node(c.program, c.ranks, append([]string{"--iterations", strconv.Itoa(c.iterations)}, c.args...)...)
		j.Program, j.Footprint.Bytes = "cluster/"+c.program, 1<<30
		if got, n := total(t, j, 1, Kernel); got != math.Round(c.seconds*1e6)/1e6 || n != c.iterations {
			t.Errorf("%s: kernels of %g s in %d iterations, want %g", j.Command(), got, n, c.seconds)
		}
		if _, n := total(t, j, 1, Message); n != c.messages {
			t.Errorf("%s: %d messages, want %d", j.Command(), n, c.messages)
		}
		if _, n := total(t, j, 1, Barrier); n != c.barriers {
			t.Errorf("%s: %d barriers, want %d", j.Command(), n, c.barriers)
		}
		p, err := Set{}.Lookup(j)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Steps(j.Footprint, 0) {
			want := c.gathered
			if len(s.From) > 0 {
				want = c.scattered
			}
			if s.Kind == Message && s.Bytes != want {
				t.Errorf("%s: a message from %v of %d bytes, want %d", j.Command(), s.From, s.Bytes, want)
			}
		}
	}
	for _, args := range [][]string{{"--iterations", "0"}, {"--iterations", "1e9"}, {"--gpu-factor", "0"}, {"--gpu-factor", "x"}, {"--pairs", "3"}} {
		j := node("mm", 4, args...)
		j.Program, j.Footprint.Bytes = "cluster/mm", 1<<30
		if p, err := (Set{}).Lookup(j); err == nil {
			t.Errorf("%s has the profile %+v", j.Command(), p)
		}
	}
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
