package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

// drawnFrom is the seed of the first of many programs. In the soak each round has others.
func drawnFrom(own int) int { return own + int(chance.Seed()<<12%(1<<30)) }

// repeated says how a failure is made again that the soak has found.
func repeated() string {
	if chance.Seed() == 0 {
		return "a fixed seed"
	}
	return fmt.Sprintf("repeat with %s=%d", chance.Variable, chance.Seed())
}

// Programs that are made up from a seed compute the same with and without the lazy runtime.
func TestLazyKeepsResultsOfRandomPrograms(t *testing.T) {
	for _, first := range []int{509664, 508224} { // captures that a reset ended, in processes that choose devices themselves
		keepsResultsOfRandomPrograms(t, first, 1, 16)
	}
	keepsResultsOfRandomPrograms(t, drawnFrom(1), chance.Count(7, 100), chance.Count(4, 16))
}

// keepsResultsOfRandomPrograms runs so many processes. Each runs some programs, one after the other. The seed of the first
// one says how the process is run.
func keepsResultsOfRandomPrograms(t *testing.T, first, processes, each int) {
	t.Helper()
	for ; processes > 0; processes, first = processes-1, first+16 {
		version := cudaVersions[first/16%2]
		threads := []int{1, 1, 3}[first/16%3]
		env := [][]string{nil, {"CASE_RECORD_LIMIT=0"}, {"CASE_RECORD_LIMIT=65536"}, nil, {"CASE_PIN=1"}, {"CASE_BINDING=job"}, nil}[first/16%7]
		program := fmt.Sprintf("random %d,%d,%d", first, each, threads)
		t.Run(fmt.Sprintf("seed=%d", first), func(t *testing.T) {
			t.Parallel()
			p := startLazy(t, version, program, env...).finish(grantByTurns())
			want := native(t, version, program)
			if p.err != nil || !slices.Equal(p.lines, want) {
				t.Errorf("CUDA %s, %q, %s, %s: %v\n%s\nstderr:\n%s", version, env, program, repeated(), p.err,
					firstDifference(p.lines, want), p.stderr.String())
			}
		})
	}
}

// grantByTurns sends tasks from device to device.
func grantByTurns() func(*testing.T, event) {
	next := 0
	home := map[uint64]int{}
	return func(t *testing.T, e event) {
		if e.Kind == "begin" {
			next = 1 - next
			home[e.Task] = next
			if e.Asks().OnDevice != nil {
				home[e.Task] = *e.Asks().OnDevice
			}
		} else if e.Kind != "grow" {
			return
		}
		if err := e.grant(home[e.Task], fakeUUID(home[e.Task])); err != nil {
			t.Errorf("grant: %v", err)
		}
	}
}

// firstDifference is where two outputs part, with the lines before.
func firstDifference(got, want []string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	around := func(lines []string) string {
		return strings.Join(lines[max(0, min(n, len(lines))-12):min(n+3, len(lines))], "\n")
	}
	return fmt.Sprintf("line %d: output\n%s\nwant\n%s", n+1, around(got), around(want))
}
