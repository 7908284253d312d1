package lazytest

import (
	"fmt"
	"strings"
	"testing"
)

// Programs of native/lazy/tests/programs/schedgpu.cc: what they pre-allocate through schedGPU's
// client API is their task, and what they allocate draws from it.

func TestLazyExplicitMemory(t *testing.T) {
	for _, version := range cudaVersions {
		p := startLazy(t, version, "explicit_memory").finish(grant)
		p.mustSucceed()
		var heard []string
		for _, e := range p.events {
			switch e.Kind {
			case "begin":
				heard = append(heard, fmt.Sprintf("begin %d, wait %s", e.Bytes>>20, waitText(e)))
			case "grow":
				heard = append(heard, fmt.Sprintf("grow %d, wait %s", e.Bytes>>20, waitText(e)))
			case "shrink":
				heard = append(heard, fmt.Sprintf("shrink %d", e.Bytes>>20))
			case "shape":
			default:
				heard = append(heard, e.Kind)
			}
		}
		want := "begin 64, wait 0s; grow 8, wait default; grow 24, wait 7ms; shrink 32; shrink 48; free; gone"
		if got := strings.Join(heard, "; "); got != want {
			t.Errorf("CUDA %s: the scheduler heard\n%s\nwant\n%s", version, got, want)
		}
		want = "init 0 device 101, pre 0, pre 0, post 1, post 0, post 0, post 0, post 1"
		if got := strings.Join(p.lines, ", "); got != want {
			t.Errorf("CUDA %s: output %q, want %q", version, got, want)
		}
	}
}

func waitText(e event) string {
	if w := e.wait(); w != nil {
		return w.String()
	}
	return "default"
}

// A pre-allocation that gets no room in time changes nothing.
func TestLazyExplicitWaits(t *testing.T) {
	p := startLazy(t, "13", "explicit_waits").finish(impatient())
	p.mustSucceed()
	p.wantEvents("begin begin grow free gone")
	if got := strings.Join(p.lines, ", "); got != "pre 600, pre 600" {
		t.Errorf("output %q", got)
	}
	begins := p.of("begin")
	if begins[0].Bytes != 64<<20 || waitText(begins[0]) != "7ms" || begins[1].Bytes != 4<<20 || waitText(begins[1]) != "default" {
		t.Errorf("begins %+v, %+v", begins[0].Event, begins[1].Event)
	}
}

// Where devices are chosen before the program begins, it asks for itself.
func TestExplicitMemoryAlone(t *testing.T) {
	p := startLazy(t, "13", "explicit_waits", "CASE_BINDING=job").finish(grant)
	p.mustSucceed()
	p.wantEvents("begin begin gone")
	if got := strings.Join(p.lines, ", "); got != "pre 0, pre 0" {
		t.Errorf("output %q", got)
	}
}
