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
		"linear":       {20, 40},
		"kinds":        {32, 16, 8},
		"handles":      {20, 10},
		"shared":       {20},
		"on_host":      {4},
		"expandable":   {2, 2, 2, 2, 12, 20, 20, 20},
		"contexts":     {40, 20, 20},
		"pools":        {20, 4, 6},
		"lasting_pool": {20, 20},
	} {
		for _, env := range []string{"CASE_MOVABLE=0", "CASE_PIN=1", movable} {
			if env != "CASE_MOVABLE=0" && program != "handles" && program != "pools" {
				continue
			}
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

// No sequence of calls leaves a charge that differs from what is allocated. What is charged is what the device seems to
// have less.
func TestLazyChargesWhatThereIs(t *testing.T) {
	s, r := startRevoking(t, moving)
	p := prepareLazyAt(t, s, r, "13", "driver_program", "random", movable, capacity+"4294967296,0", "FAKE_CUDA_MEMORY=8589934592").start().finish(grant)
	p.mustSucceed()
	if got := p.lines; len(got) != 2 || !strings.HasPrefix(got[1], "none 0 MiB") {
		t.Errorf("output %q", got)
	}
}

// A device seems to have what the run gives a task there, and as much of it free as the scheduler would give now.
func TestLazyShowsTheRoomOfTheTask(t *testing.T) {
	for _, c := range []struct {
		program, seems string
		room           int64 // MiB
		want           []string
	}{
		{"lazy_program", "629145600", 1 << 20, []string{"properties 600 MiB", "free 528 of 600 MiB", "total 600 MiB", "again 0"}}, // less the device heap
		{"lazy_program", "629145600", 100, []string{"properties 600 MiB", "free 100 of 600 MiB", "total 600 MiB", "again 1"}},
		{"lazy_program", "0", 1 << 20, []string{"properties 1024 MiB", "free 528 of 1024 MiB", "total 1024 MiB", "again 0"}},
		{"driver_program", "629145600", 1 << 20, []string{"total 600 MiB", "free 528 of 600 MiB", "then 2 of 600 MiB"}},
		{"driver_program", "629145600", 100, []string{"total 600 MiB", "free 100 of 600 MiB", "then 2 of 600 MiB"}},
	} {
		room := c.room << 20
		p := startLazyBinary(t, "13", c.program, "seems", capacity+"629145600,0,"+c.seems, besideTheDriver(t, ".rodata")).finish(func(t *testing.T, e event) {
			switch {
			case e.Kind == "room":
				tellRoom(t, e, room)
			case e.Kind == "grow" && e.Bytes != 64<<20 && e.Bytes > room:
				if err := e.refuse(schedulers.DeviceFull, e.Bytes, room, "no room"); err != nil {
					t.Error(err)
				}
			case e.Kind == "grow" && e.Bytes != 64<<20:
				room -= e.Bytes
				grant(t, e)
			default:
				grant(t, e)
			}
		})
		p.mustSucceed()
		if got := results(p.lines); !slices.Equal(got, c.want) {
			t.Errorf("%s, a device of %s, %d MiB: %q, want %q\n%s", c.program, c.seems, c.room, got, c.want, p.stderr.String())
		}
		if len(p.of("room")) == 0 {
			t.Errorf("events %v", p.events)
		}
	}
}

// Where the run does not say how much a task may have, nobody is asked.
func TestLazyLeavesTheDriversNumbers(t *testing.T) {
	for _, env := range []string{"CASE_BINDING=job", "CASE_PIN=1"} {
		p := startDriver(t, "seems", env).finish(grant)
		p.mustSucceed()
		if len(p.of("room")) != 0 || p.lines[0] != "total 1024 MiB" {
			t.Errorf("%s: %q, events %v", env, p.lines, p.events)
		}
	}
}
