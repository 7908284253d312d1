package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
)

// Programs of native/lazy/tests/programs/outside.cc: what reads, writes, copies and sets just
// outside an allocation. Those in `programs` are also compared with what they do natively.

// With the strict layout a kernel that leaves its allocation's granule faults, and the run
// hears of it.
func TestLazyGuards(t *testing.T) {
	for _, version := range cudaVersions {
		for _, program := range []string{"reads_before", "writes_around"} {
			p := runLazy(t, version, program, "CASE_GUARD=1")
			if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 {
				t.Errorf("%s, CUDA %s: events %v, want a fault", program, version, p.events)
			}
			for _, guard := range []string{"", "0"} {
				runLazy(t, version, program, "CASE_GUARD="+guard).wantNative().wantNothingLeft()
			}
		}
	}
}

// used is what the devices hold, contexts included, where the program says so.
func (p *lazyRun) used(when string) (bytes [2]int) {
	p.t.Helper()
	for _, line := range p.lines {
		if _, err := fmt.Sscanf(line, when+": contexts and memory %d and %d", &bytes[0], &bytes[1]); err == nil {
			return bytes
		}
	}
	p.t.Fatalf("output lacks the memory of %q:\n%s", when, strings.Join(p.lines, "\n"))
	return bytes
}

// The margins of 200 reservations take one granule, and are charged to nobody.
func TestLazyMarginsTakeOneGranule(t *testing.T) {
	p, strict := runLazy(t, "13", "margins"), runLazy(t, "13", "margins", "CASE_GUARD=1")
	p.wantNative()
	p.wantNothingLeft()
	if with, without := p.used("bound")[grantedDevice], strict.used("bound")[grantedDevice]; with-without != 2<<20 || without < 400<<20 {
		t.Errorf("%d bytes in use, %d without margins", with, without)
	}
	if left := p.used("freed")[grantedDevice]; left != 8<<20 { // the context
		t.Errorf("%d bytes in use after the end", left)
	}
	if with, without := p.of("begin")[0], strict.of("begin")[0]; with.text() != without.text() || with.Bytes != 400<<20 {
		t.Errorf("begin %+v, without margins %+v", with, without)
	}
}

// Margins are on the device of the task, whatever device that of the last one was, and go
// with the allocation. A reset leaves nothing on any of them.
func TestLazyMarginsMove(t *testing.T) {
	const context = 8 << 20
	for _, version := range cudaVersions {
		p := startLazy(t, version, "margins_move").finish(grantInTurn(1, 0, 1, 0, 1))
		p.mustSucceed()
		p.wantNative()
		p.wantNothingLeft()
		for when, want := range map[string][2]int{"first": {0, context}, "second": {context, context}, "third": {context, context},
			"reset": {0, 0}, "reset again": {0, 0}} {
			if got := p.used(when); got != want {
				t.Errorf("CUDA %s, %s: %d bytes in use, want %d", version, when, got, want)
			}
		}
		for _, line := range p.lines {
			if strings.Contains(line, ": contexts ") && !strings.Contains(line, "memory") && !strings.HasSuffix(line, nothingLeft) {
				t.Errorf("CUDA %s: left behind: %s", version, line)
			}
		}
	}
}

// A program that stays inside its allocations needs no margin: whatever fails of them, it
// runs, and nothing stays behind.
func TestLazyRunsWithoutMargins(t *testing.T) {
	failures := []string{"cuMemCreate:4=2"} // after three of the program's own
	for n := 4; n <= 9; n++ {
		failures = append(failures, fmt.Sprintf("cuMemMap:%d=2", n), fmt.Sprintf("cuMemSetAccess:%d=1", n))
	}
	for _, fail := range failures {
		p := runLazy(t, "13", "basic", "FAKE_CUDA_FAIL="+fail)
		p.wantNative()
		p.wantNothingLeft()
		p.wantEvents("begin free gone")
		if slices.Contains(p.lines, running(4, 9)) {
			t.Errorf("%s: nothing failed: %q", fail, p.lines)
		}
	}
}

// running is what "basic" says of its memory while it is bound.
func running(handles, mappings int) string {
	return fmt.Sprintf("running: contexts 1 first %d allocations 0 handles %d mappings %d reservations 3 violations 0",
		grantedDevice, handles, mappings)
}

// A process that cannot bind, although its memory was mapped, has nothing mapped then.
func TestLazyUnmapsMarginsWhereItCannotBind(t *testing.T) {
	p := runLazy(t, "13", "basic", "FAKE_CUDA_FAIL=cudaMemcpy:1=2,cuMemCreate:5=2,cuMemCreate:6=2,cuMemCreate:7=2,cuMemCreate:8=2,cuMemCreate:9=2")
	p.wantLine(running(0, 0))
	p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
}

// What CUDA refuses of copies and sets is refused before there is a device, and takes none.
func TestLazyRefusesBeyondAnAllocation(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "beyond unbound")
		if !slices.ContainsFunc(p.lines, func(l string) bool { return strings.HasPrefix(l, "refused: contexts 0 ") }) {
			t.Errorf("CUDA %s: it made a context:\n%s", version, strings.Join(p.lines, "\n"))
		}
		for _, way := range []string{"unbound", "bound", "freed"} {
			p := runLazy(t, version, "beyond "+way, "CASE_GUARD=1")
			p.wantNative()
			p.wantNothingLeft()
		}
	}
}
