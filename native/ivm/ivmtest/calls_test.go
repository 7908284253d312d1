package ivmtest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

// Each call does what ivm.h says, and has its errors.
func TestCalls(t *testing.T) {
	ivmd, program := built(t, "calls")
	run(t, ivmd, program).must(t)
}

// After random calls each copy of each object has the bytes that a model has.
func TestCopiesAreThoseOfAModel(t *testing.T) {
	ivmd, program := built(t, "model")
	for seed := range chance.Seeds(t, 8, 1000) {
		run(t, ivmd, program, strconv.FormatUint(seed, 10), "400").must(t)
	}
}

func TestThreadsOfAPECallAtOnce(t *testing.T) {
	ivmd, program := built(t, "threads")
	run(t, ivmd, program).must(t)
}

// A PE that is ended while it makes a mirror leaves the rest of it to the next PE.
func TestAMirrorIsMadeByWhoIsLeft(t *testing.T) {
	ivmd, program := built(t, "fill")
	run(t, ivmd, program).must(t)
}

// The limits of a process are not those of ivmd: it takes as many descriptors as it may. Where it has too few, it blames
// no PE, and where a copy would be larger than files may be, the call says so.
func TestLimitsOfProcesses(t *testing.T) {
	ivmd, program := built(t, "calls")
	limited := func(limit string) ends { return run(t, "/bin/sh", "-c", "ulimit "+limit+"; exec "+ivmd+" "+program) }
	limited("-S -n 20").must(t)
	for n := 10; n < 24; n++ {
		if e := limited("-n " + strconv.Itoa(n)); strings.Contains(e.stderr, "not a request") || strings.Contains(e.stderr, "is lost") {
			t.Errorf("%d descriptors: status %d, %s", n, e.status, e.stderr)
		}
	}
	if e := limited("-f 1"); e.status != 124 || !strings.Contains(e.stderr, "File too large") {
		t.Errorf("status %d, %s", e.status, e.stderr)
	}
}

// Sockets do not get the numbers of standard input and output.
func TestStandardInputAndOutputMayBeClosed(t *testing.T) {
	ivmd, program := built(t, "calls")
	run(t, "/bin/sh", "-c", "exec "+ivmd+" "+program+" <&- >&- 2>&-").must(t)
}
