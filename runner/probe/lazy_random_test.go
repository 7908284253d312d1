package probe

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Programs that are made up from a seed compute the same with and without the lazy runtime.
// CASERUN_RANDOM_PROGRAMS is how many, instead of 320, and CASERUN_RANDOM_SEED the first
// one's seed: with it, the number of programs of a process, and of what kind each process is,
// a failure is made again.
func TestLazyKeepsResultsOfRandomPrograms(t *testing.T) {
	const each = 16 // programs of a process, after each other
	count, seed := fromEnvironment(t, "CASERUN_RANDOM_PROGRAMS", 320), fromEnvironment(t, "CASERUN_RANDOM_SEED", 1)
	firsts := []int{509664, 508224} // captures that a reset ended, in processes that choose devices themselves
	for first := seed; first < seed+count; first += each {
		firsts = append(firsts, first)
	}
	for _, first := range firsts {
		version := cudaVersions[first/each%2]
		threads := []int{1, 1, 3}[first/each%3]
		env := [][]string{nil, {"CASE_RECORD_LIMIT=0"}, {"CASE_RECORD_LIMIT=65536"}, nil, {"CASE_PIN=1"}, {"CASE_BINDING=job"}, nil}[first/each%7]
		program := fmt.Sprintf("random %d,%d,%d", first, each, threads)
		t.Run(fmt.Sprintf("seed=%d", first), func(t *testing.T) {
			t.Parallel()
			p := startLazy(t, version, program, env...).finish(grantByTurns())
			want := native(t, version, program)
			if p.err != nil || !slices.Equal(p.lines, want) {
				t.Errorf("CUDA %s, %q, %s, built with make -C native/probe: %v\n%s\nstderr:\n%s", version, env, program, p.err,
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
		if e.kind == "begin" {
			next = 1 - next
			home[e.task] = next
			if e.r.Flags&FlagDevice != 0 {
				home[e.task] = int(e.r.Device)
			}
		} else if e.kind != "grow" {
			return
		}
		if err := e.c.Grant(e.task, home[e.task], fakeUUID(home[e.task])); err != nil {
			t.Errorf("grant: %v", err)
		}
	}
}

func fromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number from 1", name, text)
	}
	return n
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
