package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Programs of native/lazy/tests/explicit ask for tasks themselves (native/probe/case.h). Each
// runs with libcase preloaded, as a run preloads it, and with the library's functions either
// from there or from a copy of its own.

var explicitPrograms = []struct{ version, file string }{
	{"13", "explicit_program"}, {"11", "explicit_program"}, {"13", "explicit_own_copy"},
}

// ledger is a scheduler that gives tasks to devices in turn, and keeps what each was granted.
type ledger struct {
	next    int
	home    map[uint64]int
	bytes   map[uint64]int64
	granted [2]int64 // bytes at this time, by device
	most    [2]int64
	said    []string
}

func newLedger(first int) *ledger {
	return &ledger{next: first, home: map[uint64]int{}, bytes: map[uint64]int64{}}
}

// answer grants everything.
func (l *ledger) answer(t *testing.T, e event) {
	switch e.Kind {
	case "begin":
		on, wish := l.next, "any"
		if e.Asks().OnDevice != nil {
			on, wish = *e.Asks().OnDevice, fmt.Sprint(*e.Asks().OnDevice)
		} else {
			l.next = 1 - l.next
		}
		l.home[e.Task] = on
		l.said = append(l.said, fmt.Sprintf("begin %d+%d on %s", e.Bytes>>20, e.heap()>>20, wish))
		l.hold(e.Task, e.Bytes)
	case "grow":
		l.said = append(l.said, fmt.Sprintf("grow %d", e.Bytes>>20))
		l.hold(e.Task, e.Bytes)
	case "shrink":
		l.said = append(l.said, fmt.Sprintf("shrink %d", e.Bytes>>20))
		l.hold(e.Task, -e.Bytes)
		return
	case "free":
		l.said = append(l.said, "free")
		l.hold(e.Task, -l.bytes[e.Task])
		return
	case "shape", "gone":
		return
	default:
		l.said = append(l.said, e.Kind)
		return
	}
	if err := e.grant(l.home[e.Task], fakeUUID(l.home[e.Task])); err != nil {
		t.Errorf("grant: %v", err)
	}
}

func (l *ledger) hold(task uint64, bytes int64) {
	on := l.home[task]
	l.bytes[task] += bytes
	l.granted[on] += bytes
	l.most[on] = max(l.most[on], l.granted[on])
}

// runExplicit runs a program of tests/explicit to its end; first is the device of its first task.
func runExplicit(t *testing.T, version, file, program string, first int, env ...string) (*lazyRun, *ledger) {
	t.Helper()
	l := newLedger(first)
	p := startLazyBinary(t, version, file, program, env...).finish(l.answer)
	p.mustSucceed()
	p.wantNothingLeft()
	for device, bytes := range l.granted {
		if bytes != 0 {
			t.Errorf("%s: %d bytes left on device %d: %v", program, bytes, device, p.events)
		}
	}
	if clients := len(p.of("gone")); clients != 1 {
		t.Errorf("%s: %d clients, want one for the process", program, clients)
	}
	return p, l
}

func (l *ledger) wantSaid(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(l.said, "; "); got != want {
		t.Errorf("the scheduler heard\n%s\nwant\n%s", got, want)
	}
}

func (p *lazyRun) wantLines(lines ...string) {
	p.t.Helper()
	if !slices.Equal(p.lines, lines) {
		p.t.Errorf("%s: output %q, want %q\nstderr:\n%s", p.program, p.lines, lines, p.stderr.String())
	}
}

// The device that a task is granted is one that the program may choose, and its memory is
// charged once.
func TestExplicitTaskIsGrantedADevice(t *testing.T) {
	for _, c := range explicitPrograms {
		for device := range 2 {
			p, l := runExplicit(t, c.version, c.file, "one", device, "CUDA_VISIBLE_DEVICES="+bothDevices, "CASE_DEVICES="+bothDevices)
			p.wantLines(fmt.Sprintf("granted %d of 2", device), "right 1 1",
				fmt.Sprintf("after: contexts 1 first %d %s", device, nothingLeft))
			l.wantSaid(t, "begin 64+0 on any; free")
		}
	}
}

// Its devices are the run's, whatever the program or its script has made of the variable.
func TestExplicitTaskSeesTheRunsDevices(t *testing.T) {
	p, _ := runExplicit(t, "13", "explicit_program", "one", 1, "CUDA_VISIBLE_DEVICES=0", "CASE_DEVICES="+bothDevices)
	p.wantLine("granted 1 of 2")
	p.wantLine("right 1 1")
}

// A program that works before it asks for its first task sees the run's devices from the start.
func TestExplicitTaskAfterOtherWork(t *testing.T) {
	for _, c := range explicitPrograms {
		p, l := runExplicit(t, c.version, c.file, "before", 1)
		p.wantLines("of 2 right 1", "granted 1 right 1", "after: contexts 2 first 0 "+nothingLeft)
		l.wantSaid(t, "begin 32+8 on 0; begin 64+0 on any; free; free")
	}
}

func TestExplicitTasksOfThreads(t *testing.T) {
	for _, c := range explicitPrograms {
		p, l := runExplicit(t, c.version, c.file, "four", 0)
		p.wantLine("right 4")
		l.wantSaid(t, "begin 64+0 on any; begin 64+0 on any; begin 64+0 on any; begin 64+0 on any; free; free; free; free")
		if want := [2]int64{128 << 20, 128 << 20}; l.most != want {
			t.Errorf("%s: granted %d at most, want %d", c.file, l.most, want)
		}
	}
}

// What no task of the program's covers becomes one of the lazy runtime's, on the device that
// the thread has chosen.
func TestExplicitAndLazyTasksTogether(t *testing.T) {
	for _, c := range explicitPrograms {
		p, l := runExplicit(t, c.version, c.file, "mixed", 0)
		p.wantLine("right 4")
		if want := [2]int64{96 << 20, 96 << 20}; l.most != want {
			t.Errorf("%s: granted %d at most, want %d: %v", c.file, l.most, want, l.said)
		}
		explicit := 0
		for _, e := range p.of("begin") {
			if e.Asks().OnDevice == nil {
				explicit++
			}
		}
		if explicit != 2 || len(p.of("begin")) > 4 {
			t.Errorf("%s: tasks %v", c.file, l.said)
		}
	}
}

func TestExplicitAndLazyTasksInTurn(t *testing.T) {
	for _, c := range explicitPrograms {
		p, l := runExplicit(t, c.version, c.file, "turns", 1)
		p.wantLines("in its task 1", "between 1", "in its task 1", "between 1", "after: contexts 2 first 1 "+nothingLeft)
		l.wantSaid(t, "begin 64+0 on any; free; begin 32+8 on 1; free; begin 64+0 on any; free; begin 32+8 on 0; free")
	}
}

// Beyond its bytes, and after its end, memory is charged to a task of the lazy runtime's: with
// the next allocation or launch on the device.
func TestExplicitTaskCoversItsBytes(t *testing.T) {
	p, l := runExplicit(t, "13", "explicit_program", "beyond", 1)
	p.wantLines("right 1 1", "left 1", "again 1", "after: contexts 1 first 1 "+nothingLeft)
	// 64 MiB as it said; 1 MiB more, which is rounding; 96 MiB more. What it leaves is asked for.
	l.wantSaid(t, "begin 64+0 on any; begin 97+8 on 1; free; grow 64; begin 8+0 on any; free; free")
}

func TestExplicitTaskGrowsAndShrinks(t *testing.T) {
	p, l := runExplicit(t, "13", "explicit_program", "grown", 1)
	p.wantLines("right 1", "right 1")
	l.wantSaid(t, "begin 32+64 on any; grow 64; shrink 64; begin 64+0 on 1; free; free")
}

// The calls of any thread are covered on the task's device.
func TestExplicitTaskCoversOtherThreads(t *testing.T) {
	for _, c := range explicitPrograms {
		p, l := runExplicit(t, c.version, c.file, "helped", 1)
		p.wantLine("right 4")
		l.wantSaid(t, "begin 64+0 on any; free")
	}
}

func TestExplicitTaskCoversLaunches(t *testing.T) {
	l := newLedger(1)
	p := startLazyBinary(t, "13", "explicit_program", "launches").finish(l.answer)
	p.mustSucceed()
	l.wantSaid(t, "begin 0+0 on any; free; begin 0+8 on 1")
}

func TestExplicitTaskStaysWithTheParent(t *testing.T) {
	l := newLedger(1)
	p := startLazyBinary(t, "13", "explicit_program", "child").finish(l.answer)
	p.mustSucceed()
	p.wantLines("child 1", "status 0")
	l.wantSaid(t, "begin 64+0 on any; begin 32+8 on 0; free; free")
}

// A thread that waits for memory does not keep another from ending its task.
func TestExplicitTaskEndsWhileAnotherThreadWaits(t *testing.T) {
	l := newLedger(1)
	p := startLazyBinary(t, "13", "explicit_program", "waits")
	l.answer(t, p.r.next(t, "begin"))
	p.hear("begun")
	waiting := p.r.next(t, "begin")
	p.goOn()
	p.hear("ended")
	l.answer(t, p.r.next(t, "free"))
	l.answer(t, waiting)
	p.finish(l.answer)
	p.mustSucceed()
	p.wantLines("other 1")
	l.wantSaid(t, "begin 64+0 on any; free; begin 64+8 on 1; free")
}

// Without the preloaded library nobody charges anything to a program but itself, and where
// devices are chosen before it begins, or it is pinned, it asks for itself all the same.
func TestExplicitTaskInOtherModes(t *testing.T) {
	for _, env := range []string{"CASE_BINDING=job", "CASE_PIN=1"} {
		p, l := runExplicit(t, "13", "explicit_program", "one", 1, env)
		p.wantLine("right 1 1")
		l.wantSaid(t, "begin 64+0 on any; free")
	}
	l := newLedger(1)
	p := prepareLazy(t, "13", "explicit_own_copy", "one")
	p.cmd.Env = append(p.cmd.Env, "LD_PRELOAD=")
	p.start().finish(l.answer).mustSucceed()
	p.wantLine("right 1 1")
	l.wantSaid(t, "begin 64+0 on any; free")
}

// A program with a static runtime chooses the granted device, too, and asks for one task.
func TestExplicitTaskOfAStaticRuntime(t *testing.T) {
	for device := range 2 {
		p, l := runExplicit(t, "13", "explicit_static", "begin count static end", device, "CUDA_VISIBLE_DEVICES=1", "CASE_DEVICES="+bothDevices)
		p.wantLines(fmt.Sprintf("begin 0 device %d", device), "devices 2", "retain 0",
			fmt.Sprintf("static on %d memory on %d right 1", device, device), "end 0",
			fmt.Sprintf("contexts 1 first %d violations 0", device))
		l.wantSaid(t, "begin 64+0 on any; free")
	}
}

// A part that is loaded when the program has used CUDA finds it with its one device, 0: tasks
// that it asks for go there, and cover what is allocated there.
func TestExplicitTaskOfALatePart(t *testing.T) {
	for _, program := range []string{"asks_late unused", "asks_late reserved", "asks_late bound"} {
		l := newLedger(1)
		p := startLazy(t, "13", program).finish(l.answer)
		p.mustSucceed()
		p.wantNothingLeft()
		p.wantLine("granted 0 of 1, other 4")
		p.wantLine("right 1")
		for i, e := range p.of("begin") {
			if on := e.Asks().OnDevice != nil; on != (i > 0) || on && *e.Asks().OnDevice != grantedDevice {
				t.Errorf("%s: request %d %+v", program, i, e.Asks())
			}
		}
		if l.most != [2]int64{1: 66 << 20} && program != "asks_late unused" || l.granted != [2]int64{} {
			t.Errorf("%s: granted %d at most, %d left: %v", program, l.most, l.granted, l.said)
		}
	}
}

func TestExplicitTasksOfManyThreads(t *testing.T) {
	for _, c := range explicitPrograms {
		p, _ := runExplicit(t, c.version, c.file, "many", 0)
		p.wantLine("right 4")
	}
}

// A program that names the task API only in its text (of help, say) does not use it.
func TestExplicitTaskIsToldByItsCalls(t *testing.T) {
	text := preloaded(t, "names.so", `const char help[] = "see case_task_begin in case.h";`)
	p := runLazy(t, "13", "basic", text)
	p.wantNative()
	if r := p.of("begin")[0].Asks(); r.OnDevice != nil || r.Managed {
		t.Errorf("begin %+v: want any device", r)
	}
}
