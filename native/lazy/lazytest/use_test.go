package lazytest

import (
	"slices"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// peaks are what each process said when it ended, in bytes.
func (p *lazyRun) peaks() (bytes []int64) {
	for _, e := range p.of("gone") {
		bytes = append(bytes, e.Bytes)
	}
	return bytes
}

// held is the most that the tasks of each process were granted at one time.
func (p *lazyRun) held() (bytes []int64) {
	type key struct {
		p    schedulers.Process
		task uint64
	}
	tasks := map[key]int64{}
	now, most := map[schedulers.Process]int64{}, map[schedulers.Process]int64{}
	for _, e := range p.events {
		k := key{e.Process, e.Task}
		switch e.Kind {
		case "begin":
			tasks[k] = e.Bytes + e.heap()
			now[e.Process] += tasks[k]
		case "grow":
			tasks[k] += e.Bytes
			now[e.Process] += e.Bytes
		case "free":
			now[e.Process] -= tasks[k]
		case "gone":
			bytes = append(bytes, most[e.Process])
		}
		most[e.Process] = max(most[e.Process], now[e.Process])
	}
	return bytes
}

// wantUse: no process used more than it was granted, and each that allocated tells.
func (p *lazyRun) wantUse() {
	p.t.Helper()
	const heap = 8 << 20
	held := p.held()
	for i, used := range p.peaks() {
		if used > held[i] || used == 0 && held[i] > heap {
			p.t.Errorf("a process used %d bytes of %d that it was granted: %v", used, held[i], p.events)
		}
	}
}

// What the mix declares is asked for, and what is allocated is used.
func TestLazyShowsWhatItUses(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		program string
		env     string
		want    int64
	}{
		{"basic", "", 10*mib + 8*mib}, // and the heap
		{"basic", "CASE_FOOTPRINT=1073741824,100,64", 10*mib + 8*mib},
		{"basic", "CASE_FOOTPRINT=1048576,100,64", 10*mib + 8*mib},
		{"many", "", 2*mib + 8*mib},
		{"settings", "", 4*mib + 64*mib},
		{"grow", "", (4+64+16+2)*mib + 8*mib},
		{"grow", "CASE_PIN=1", (4+64+16+2)*mib + 8*mib},
		{"captured", "", (4+2)*mib + 8*mib},
		{"basic", besideTheDriver(t, ".rodata"), 10*mib + 8*mib}, // it binds at once
		{"explicit_waits", "", 4*mib + 8*mib},                    // it reserves 128 MiB, and allocates 4 within
		{"launch_only", "CASE_FOOTPRINT=1073741824,100,64", 0},   // nobody saw it allocate
	} {
		p := runLazy(t, "13", c.program, append([]string{}, c.env)...)
		if got := p.peaks(); !slices.Equal(got, []int64{c.want}) {
			t.Errorf("%s %s: used %d bytes, want %d: %v", c.program, c.env, got, c.want, p.events)
		}
	}
}

// What comes between a context and the first launch counts too.
func TestLazyShowsWhatItUsesOfATaskThatIsOpen(t *testing.T) {
	for _, program := range []string{"back_to_primary", "own_context_in_threads", "own_context", "set_device"} {
		p := runLazy(t, "13", program)
		if got, want := p.peaks(), p.held(); !slices.Equal(got, want) {
			t.Errorf("%s: used %d bytes, want %d: %v", program, got, want, p.events)
		}
	}
}

// A process that is killed has told it.
func TestLazyShowsWhatAKilledProcessUsed(t *testing.T) {
	p := startLazy(t, "13", "large_copy", "CASE_RECORD_LIMIT=1048576", "CASE_FOOTPRINT=1073741824,100,64")
	grant(t, p.r.next(t, "begin"))
	p.hear("copied")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.finish(grant)
	if got := p.peaks(); len(got) != 1 || got[0] < 8<<20 || got[0] > 64<<20 {
		t.Errorf("used %d bytes, want what it copied: %v", got, p.events)
	}
}
