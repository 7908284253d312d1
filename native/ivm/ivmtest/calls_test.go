package ivmtest

import (
	"strconv"
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

// Sockets do not get the numbers of standard input and output.
func TestStandardInputAndOutputMayBeClosed(t *testing.T) {
	ivmd, program := built(t, "calls")
	run(t, "/bin/sh", "-c", "exec "+ivmd+" "+program+" <&- >&- 2>&-").must(t)
}
