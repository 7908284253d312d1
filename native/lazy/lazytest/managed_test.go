package lazytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/probe/probetest"
)

// A process says how much managed memory it has before it has more, and once it has less. What the run has no room for is an
// allocation that fails, or launches where it is a variable. In a process whose device was settled before it began, the
// memory beside it counts, from its first managed memory on.
func TestLazyAsksForManagedMemory(t *testing.T) {
	for _, c := range []struct {
		program, env string
		room         int64 // MiB
		says, asks   string
	}{
		{"guarded", "CASE_PIN=0", 1000, "managed 0, beside 0, more 0, launch 0, again 0", "4+0 12+0 4+0 6+0 2+0"},
		{"guarded", "CASE_PIN=0", 8, "managed 0, beside 0, more 2, launch 0, again 0", "4+0 12+0 6+0 2+0"},
		{"guarded", "CASE_PIN=1", 5, "managed 0, beside 0, more 2, launch 2, again 2", "4+0 12+0 6+0 6+0 2+0"},
		{"guarded", "CASE_BINDING=job", 1000, "managed 0, beside 0, more 0, launch 0, again 0", "4+0 4+2 12+2 4+2 4+0 6+0 2+0"},
		{"guarded", "CASE_BINDING=job", 5, "managed 0, beside 2, more 2, launch 2, again 2", "4+0 4+2 12+0 6+0 6+0 2+0"},
		{"guarded", "CASE_BINDING=job", 3, "managed 2, beside 0, more 2, launch 0, again 0", "4+0 0+2 8+2 0+0 2+0 2+0"},
	} {
		p := prepareLazy(t, "13", "lazy_program", c.program, c.env)
		p.r.guard.room = c.room << 20
		p.start().finish(grant)
		if said := strings.Join(p.lines, ", "); said != c.says {
			t.Errorf("%s %s, room for %d MiB: %s, want %s\n%s", c.program, c.env, c.room, said, c.says, p.stderr.String())
		}
		if asked := strings.Join(p.r.guard.asked, " "); asked != c.asks {
			t.Errorf("%s %s, room for %d MiB: asked for %s, want %s", c.program, c.env, c.room, asked, c.asks)
		}
	}
}

// So does one that calls the driver.
func TestLazyAsksForManagedMemoryOfTheDriver(t *testing.T) {
	for env, want := range map[string][]string{"CASE_PIN=0": {"8+0", "0+0"}, "CASE_BINDING=job": {"8+0", "0+0", "0+56", "0+0"}} {
		if p := startDriver(t, "kinds", env).finish(grant); !slices.Equal(p.r.guard.asked, want) || p.err != nil {
			t.Errorf("%s: asked for %s, want %s: %v\n%s", env, p.r.guard.asked, want, p.err, p.stderr.String())
		}
	}
}

// Managed memory counts as referenced as far as it is not on the host. It cannot move.
func TestLazyShowsManagedMemoryOnTheDevice(t *testing.T) {
	s, r := startRevoking(t, moving)
	p := prepareLazyAt(t, s, r, "13", "lazy_program", "pages", movable).start()
	begin := r.next(t, "begin")
	grant(t, begin)
	shows := func(when string, is func(bytes int64) bool) {
		t.Helper()
		p.hear(when)
		probetest.Await(t, "what it shows is not so: "+when, func() bool {
			a, known := s.Activity(begin.Process)
			return known && is(a.Referenced) && (when == "freed" || a.Fixed >= 4<<20)
		})
		p.goOn()
	}
	shows("allocated", func(bytes int64) bool { return bytes > 1<<20 })
	shows("touched", func(bytes int64) bool { return bytes < 1<<20 })
	shows("freed", func(bytes int64) bool { return bytes == 0 })
	p.finish(grant).mustSucceed()
}
