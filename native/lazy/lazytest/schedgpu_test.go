package lazytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/probe"
)

// Programs of native/lazy/tests/programs/schedgpu.cc: what they pre-allocate through schedGPU's
// client API is their task, and what they allocate draws from it.

func TestLazyExplicitMemory(t *testing.T) {
	for _, version := range cudaVersions {
		p := startLazy(t, version, "explicit_memory").finish(grant)
		p.mustSucceed()
		var heard []string
		for _, e := range p.events {
			switch e.kind {
			case "begin":
				heard = append(heard, fmt.Sprintf("begin %d, wait %d", e.r.Bytes>>20, int32(e.r.Wait)))
			case "grow":
				heard = append(heard, fmt.Sprintf("grow %d, wait %d", e.bytes>>20, int32(e.wait)))
			case "shrink":
				heard = append(heard, fmt.Sprintf("shrink %d", e.bytes>>20))
			case "shape":
			default:
				heard = append(heard, e.kind)
			}
		}
		want := "begin 64, wait -1; grow 8, wait 0; grow 24, wait 7; shrink 32; shrink 48; free; closed"
		if got := strings.Join(heard, "; "); got != want {
			t.Errorf("CUDA %s: the scheduler heard\n%s\nwant\n%s", version, got, want)
		}
		want = "init 0 device 101, pre 0, pre 0, post 1, post 0, post 0, post 0, post 1"
		if got := strings.Join(p.lines, ", "); got != want {
			t.Errorf("CUDA %s: output %q, want %q", version, got, want)
		}
	}
}

// A pre-allocation that gets no room in time changes nothing.
func TestLazyExplicitWaits(t *testing.T) {
	p := startLazy(t, "13", "explicit_waits").finish(impatient())
	p.mustSucceed()
	p.wantEvents("begin begin grow free closed")
	if got := strings.Join(p.lines, ", "); got != "pre 600, pre 600" {
		t.Errorf("output %q", got)
	}
	begins := p.of("begin")
	if begins[0].r.Bytes != 64<<20 || begins[0].r.Wait != 7 || begins[1].r.Bytes != 4<<20 || begins[1].r.Wait != probe.WaitDefault {
		t.Errorf("begins %+v, %+v", begins[0].r, begins[1].r)
	}
}

// Where devices are chosen before the program begins, it asks for itself.
func TestExplicitMemoryAlone(t *testing.T) {
	p := startLazy(t, "13", "explicit_waits", "CASE_BINDING=job").finish(grant)
	p.mustSucceed()
	p.wantEvents("begin begin closed")
	if got := strings.Join(p.lines, ", "); got != "pre 0, pre 0" {
		t.Errorf("output %q", got)
	}
}
