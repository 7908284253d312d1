package lazytest

import (
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// Programs of native/lazy/tests/partly make the calls that the compiler pass inserts, and use the
// device outside of its tasks too. They have a copy of the library's functions, and run with
// libcase preloaded.

const partly = "partly_static"

// What a program says when it has allocated. The memory of a static task is there at once. The
// memory of the lazy runtime is reserved.
const (
	thereOn1  = "allocated: contexts 1 first 1 allocations 1 handles 0 mappings 0 reservations 0 violations 0"
	thereOn0  = "allocated: contexts 2 first 1 allocations 1 handles 0 mappings 0 reservations 0 violations 0"
	reserved  = "allocated: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 1 violations 0"
	onceMore  = "allocated: contexts 1 first 1 allocations 0 handles 0 mappings 0 reservations 1 violations 0"
	withOther = "allocated: contexts 1 first 1 allocations 1 handles 2 mappings 3 reservations 1 violations 0"
)

// A static task goes where the scheduler says, and nothing of it is deferred. What is outside of
// such tasks is deferred, and goes where the scheduler says too.
func TestPartlyStaticInTurn(t *testing.T) {
	p, l := runExplicit(t, "13", partly, "first", 1)
	p.wantLines(thereOn1, "static 1", onceMore, "lazy 1", "after: contexts 2 first 1 "+nothingLeft)
	l.wantSaid(t, "begin 64+0 on any; free; begin 32+8 on any; free")

	p, l = runExplicit(t, "13", partly, "last", 1)
	p.wantLines(reserved, "lazy 1", thereOn0, "static 1", "after: contexts 2 first 1 "+nothingLeft)
	l.wantSaid(t, "begin 32+8 on any; free; begin 64+0 on any; free")

	p, l = runExplicit(t, "13", partly, "moves", 1)
	p.wantLines(thereOn1, "static 1", thereOn0, "static 1", "after: contexts 2 first 1 "+nothingLeft)
	l.wantSaid(t, "begin 64+0 on any; free; begin 64+0 on any; free")
}

// A program has one device: while something is on it, or recorded for it, a static task goes there.
func TestPartlyStaticTogether(t *testing.T) {
	p, l := runExplicit(t, "13", partly, "among", 1)
	p.wantLines("lazy 1", withOther, "static 1", "lazy 1", "after: contexts 1 first 1 "+nothingLeft)
	l.wantSaid(t, "begin 32+8 on any; begin 64+0 on 1; free; free")

	p, l = runExplicit(t, "13", partly, "recorded", 1)
	p.wantLines(withOther, "static 1", "kept 1", "after: contexts 1 first 1 "+nothingLeft)
	l.wantSaid(t, "begin 32+8 on any; begin 64+0 on 1; free; free")

	p, l = runExplicit(t, "13", partly, "threads", 1)
	p.wantLines("static 2", "after: contexts 1 first 1 "+nothingLeft)
	l.wantSaid(t, "begin 64+0 on any; begin 64+0 on 1; free; free")
}

func TestPartlyStaticWaitsForItsDevice(t *testing.T) {
	l := newLedger(1)
	p := startLazyBinary(t, "13", partly, "stays")
	l.answer(t, p.r.next(t, "begin"))
	p.hear("lazy 1")
	p.hear("waits")
	waiting := p.r.next(t, "begin")
	p.goOn()
	l.answer(t, p.r.next(t, "free"))
	l.answer(t, p.r.next(t, "begin"))
	p.hear("lazy 1")
	l.answer(t, waiting)
	p.finish(l.answer)
	p.mustSucceed()
	p.wantNothingLeft()
	p.wantLine("static 1")
	p.wantLine("after: contexts 1 first 1 " + nothingLeft)
	l.wantSaid(t, "begin 32+8 on any; free; begin 32+8 on 1; begin 64+0 on 1; free; free")
}

func TestPartlyStaticThreads(t *testing.T) {
	for range 5 {
		p, _ := runExplicit(t, "13", partly, "many", 0)
		p.wantLine("right 80")
	}
}

// The allocations of a static task that is refused fail, and the program goes on.
func TestPartlyStaticIsRefused(t *testing.T) {
	l, requests := newLedger(0), 0
	p := startLazyBinary(t, "13", partly, "first").finish(func(t *testing.T, e event) {
		if e.Kind == "begin" {
			if requests++; requests == 1 {
				if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
					t.Errorf("refuse: %v", err)
				}
				return
			}
		}
		l.answer(t, e)
	})
	p.mustSucceed()
	p.wantLine("static 0")
	p.wantLine("lazy 1")
	p.wantLine("after: contexts 1 first 0 " + nothingLeft)
	l.wantSaid(t, "begin 32+8 on any; free")
}

// A program that asks for tasks itself too is one that chooses devices itself.
func TestPartlyStaticThatAsks(t *testing.T) {
	p, _ := runExplicit(t, "13", partly, "asks", 1)
	p.wantLines("granted 0 of 1")
	p, _ = runExplicit(t, "13", partly, "asks", 1, "USES=2") // CASE_STATIC_ASKS
	p.wantLines("granted 1 of 2")
}

// What only makes a context, page-locked memory for example, makes it on the device of the static
// task. A device that nobody has granted gets none.
func TestStaticMakesNoOtherContext(t *testing.T) {
	const after = "after: contexts 1 first 1 " + nothingLeft
	p, l := runExplicit(t, "13", partly, "pinned", 1, "USES=4") // CASE_STATIC_CONTEXT
	p.wantLines("pinned: contexts 0 first -1 "+nothingLeft, thereOn1, "static 1", after)
	l.wantSaid(t, "begin 64+0 on any; free")
	if told := p.of("begin")[0].Asks().BlocksPerSM; told != 21 { // of 3 warps each, in an SM's 64
		t.Errorf("blocks per SM %d, want 21", told)
	}

	p, l = runExplicit(t, "13", partly, "alone", 1, "USES=none")
	p.wantLines(thereOn1, "static 1", after)
	l.wantSaid(t, "begin 64+0 on any; free")
}
