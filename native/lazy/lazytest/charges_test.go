package lazytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// startDriver starts a program that allocates through the driver (../tests/driver).
func startDriver(t *testing.T, does string, env ...string) *lazyRun {
	t.Helper()
	return startLazyBinary(t, "13", "driver_program", does, env...)
}

// grown is what the tasks asked for beyond their beginning, in MiB.
func (p *lazyRun) grown() (mib []int64) {
	for _, e := range p.of("grow") {
		mib = append(mib, e.Bytes>>20)
	}
	return mib
}

// What the driver allocates grows the task before it is allocated, and what is freed serves what is allocated next. Each
// program frees what it has, and then allocates as much: where that asks for more, something was charged that is gone.
func TestLazyChargesWhatTheDriverAllocates(t *testing.T) {
	for program, want := range map[string][]int64{
		"linear":     {20, 40},
		"kinds":      {32, 16, 8},
		"handles":    {20, 10},
		"shared":     {20},
		"on_host":    {4},
		"expandable": {2, 2, 2, 2, 12, 20, 20, 20},
		"contexts":   {40, 20},
	} {
		for _, env := range []string{"CASE_MOVABLE=0", "CASE_PIN=1", movable} {
			p := startDriver(t, program, env).finish(grant)
			p.mustSucceed()
			if got := p.grown(); !slices.Equal(got, want) && env != "CASE_PIN=1" {
				t.Errorf("%s %s: grown by %v MiB, want %v: %v", program, env, got, want, p.events)
			}
			if text := strings.Join(p.lines, "\n"); strings.Contains(text, "error") || p.stderr.Len() > 0 || len(p.of("oom"))+len(p.of("fault")) > 0 {
				t.Errorf("%s %s: %s\n%s\n%v", program, env, text, p.stderr.String(), p.events)
			}
			p.wantUse()
		}
	}
}

// Under process-bound schedulers nothing is asked.
func TestLazyLeavesTheDriverAloneWithoutTasks(t *testing.T) {
	p := startDriver(t, "linear", "CASE_BINDING=job").finish(grant)
	p.mustSucceed()
	if len(p.of("begin"))+len(p.of("grow")) > 0 {
		t.Errorf("events %v", p.events)
	}
}

// A refusal is the allocation's error, and is reported. The end of a wait is not, and may be asked for again.
func TestLazyRefusesWhatTheDriverAllocates(t *testing.T) {
	for _, c := range []struct {
		code schedulers.Cause
		want string
		ooms int
	}{{schedulers.TooLarge, "allocate 2, create 2, allocate 0, create 0", 2}, {schedulers.TimedOut, "allocate 600, create 600, allocate 0, create 0", 0}} {
		refused := 0
		p := startDriver(t, "in_turn").finish(func(t *testing.T, e event) {
			if e.Kind != "grow" || refused == 2 {
				grant(t, e)
				return
			}
			refused++
			if err := e.refuse(c.code, 10<<20, 1<<20, "no room"); err != nil {
				t.Error(err)
			}
		})
		p.mustSucceed()
		if got := strings.Join(p.lines, ", "); got != c.want {
			t.Errorf("%v: output %q, want %q", c.code, got, c.want)
		}
		if got := len(p.of("oom")); got != c.ooms {
			t.Errorf("%v: %d reports, want %d: %v", c.code, got, c.ooms, p.events)
		}
	}
}
