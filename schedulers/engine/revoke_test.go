package engine_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

const ms = time.Millisecond

func movable(id schedulers.TaskID, bytes int64) schedulers.Task {
	return schedulers.Task{ID: id, Bytes: bytes, Can: schedulers.Movable}
}

// The end of a task withdraws its ticket, and the room is there at once.
func TestAnExitSettlesItsTickets(t *testing.T) {
	for _, end := range []func(enginetest.Node){
		func(n enginetest.Node) { n.Exit(1, "2@0") },
		func(n enginetest.Node) { n.Release(1, "2@0") },
		func(n enginetest.Node) {
			n.Want("exit of the process", "2@0", n.Engine.ProcessExit(schedulers.Process{Job: 1}), nil)
		},
	} {
		n := enginetest.NewNode(t, "demand", enginetest.Small)
		n.Submit(movable(1, 10), "1@0")
		n.Idle(1, ms)
		n.Submit(movable(2, 10), "yield(1,4)")
		end(n)
		if _, err := n.Engine.Revoked(1, schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done}, 2*ms); err == nil || !strings.Contains(err.Error(), "task 1 answers ticket 1: it is not outstanding") {
			t.Errorf("answer after the end: %v", err)
		}
	}
}

// If the request that room is made for ends, the device is open to others, and the answer still counts.
func TestRoomForARequestThatEnded(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Submit(movable(3, 2), "")
	n.Exit(2, "3@0")
	n.Give(1, "")
	if used := n.Device(0).UsedBytes(); used != 6+2 {
		t.Errorf("%d bytes in use", used)
	}
}

// Others are still asked on the device that a task did not get. That is not for what it asks next.
func TestRoomOnAnotherDeviceIsNotForTheNextRequest(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=2", enginetest.Small, enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Submit(movable(2, 10), "2@1")
	n.Idle(1, time.Millisecond)
	n.Submit(movable(3, 10), "yield(1,10)")
	n.Finish(2, "3@1")
	four := movable(4, 6)
	four.OnDevice = new(1)
	n.Submit(four, "4@1")
	n.Idle(4, 2*time.Millisecond)
	n.Grow(3, 2, "yield(4,6)")
	n.Submit(movable(5, 6), "5@0")
	n.Give(4, "+3@1")
	n.Give(1, "")
}

// Nobody waits without end for an answer: others are asked, the device is open to what fits, and the late answer counts.
func TestAnswersHaveATime(t *testing.T) {
	const grace, over = 900 * ms, 1003 * ms
	for scheduler, asked := range map[string]string{"demand": "yield(1,4)", "vgpu:n=4,victims=0": "yield(1,10)"} {
		n := enginetest.NewNodeWithGrace(t, grace, scheduler, enginetest.Small)
		n.Submit(movable(1, 10), "1@0")
		n.Idle(1, ms)
		n.Submit(movable(2, 10), asked)
		n.Submit(movable(3, 2), "")
		if at := n.Engine.NextExpiry(); at < grace || at > over {
			t.Errorf("%s: an answer is waited for until %v", scheduler, at)
		}
		n.Expire(grace, "")
		n.Expire(over, "?1@0 3@0")
		if at := n.Engine.NextExpiry(); at != schedulers.Never || n.Task(1).CanAsk(schedulers.Yield) {
			t.Errorf("%s: waits until %v, task 1 has %+v", scheduler, at, n.Task(1))
		}
		n.Grow(1, 1, "") // it gets nothing before its answer, and its device is open all the same
		n.Submit(movable(4, 2), "4@0")
		n.Exit(4, "")
		n.Expire(2*over, "")
		n.Answer(1, schedulers.Done, 3, 2*over, "+1@0 2@0")
		if got := n.Task(1); got.Resident != 4 || !got.CanAsk(schedulers.Evict) {
			t.Errorf("%s: task 1 has %+v", scheduler, got)
		}
	}
	n := enginetest.NewNodeWithGrace(t, grace, "demand", enginetest.Small)
	n.Submit(movable(1, 6), "1@0")
	n.Submit(movable(2, 6), "2@0")
	n.Idle(1, ms)
	n.Idle(2, 2*ms)
	n.Submit(movable(3, 10), "yield(1,6)")
	n.Expire(over, "?1@0 yield(2,6)")
	n.Give(2, "3@0")
	n.Answer(1, schedulers.Busy, 0, 2*over, "")
}

// What a task waits for that does not answer holds back nobody.
func TestWhatASilentTaskWaitsForHoldsBackNobody(t *testing.T) {
	const grace, over = 900 * ms, 1003 * ms
	n := enginetest.NewNodeWithGrace(t, grace, "demand:queue=fifo", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Resume(1, 0, 8, "") // they cross
	n.Expire(over, "?1@0")
	n.Exit(2, "")
	n.Submit(movable(3, 2), "3@0")
	n.Grow(1, 4, "")
	n.Submit(movable(4, 2), "4@0")
	n.Answer(1, schedulers.Busy, 0, over, "") // now its growth goes first, for which 2 bytes are left
	n.Exit(3, "+1@0 ^1@0")
}

// A task with a ticket gets nothing before its answer.
func TestATaskWithATicketWaits(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Grow(1, 1, "")                                       // crosses the revocation
	n.Resume(1, 0, 8, "")                                  // the launch too: nothing was missing when it asked
	n.Answer(1, schedulers.Done, 6, ms, "+1@0 yield(1,1)") // growth goes first, and task 1 waits behind task 2
	// What went out may be what task 1's kernel references: 5 more bytes of its 11, so that 3 of the 6
	// that it has there are not referenced.
	n.Answer(1, schedulers.Done, 6, ms, "2@0 evict(1,3)")
	n.Give(1, "")
	n.Idle(2, 2*ms)
	n.Tick(5*ms, "yield(2,2)")
	n.Give(2, "^1@0")
	if got := n.Task(1); got.Resident != 8 || got.Referenced != 8 || got.Allocated-got.Resident != 3 {
		t.Errorf("task 1 has %+v", got)
	}
}

// A task that gives less than it was asked for is not asked for the difference again before it gets
// something. It counts as fixed.
func TestATaskThatGivesLessIsNotAskedForMore(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Answer(1, schedulers.Done, 8, 2*ms, "")
	if got := n.Task(1); got.Movable != 0 || got.Resident != 8 {
		t.Errorf("task 1 has %+v", got)
	}
	n.Tick(5*ms, "")
	n.Resume(1, 2, 10, "^1@0")
	if got := n.Task(1); got.Movable != 10 {
		t.Errorf("task 1 has %+v after it got something", got)
	}
	// The same where it was to make room for itself.
	n = enginetest.NewNode(t, "demand", enginetest.Small)
	task := movable(1, 40)
	task.Need = new(int64(12))
	n.Submit(task, "1@0")
	n.Resume(1, 8, 8, "evict(1,4)")
	n.Answer(1, schedulers.Done, 12, 2*ms, "_1@0") // and every job waits
}

// A process that is asked right after it has grown has no memory there yet. It is busy, and is asked again; its growth was never fixed.
func TestAGrowthThatIsNotThereYetIsAskedForAgain(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=2", enginetest.Small)
	n.Submit(movable(1, 2), "1@0")
	n.Grow(1, 8, "+1@0")
	if err := n.Engine.Active(1, schedulers.Activity{Last: ms, Fixed: 1}, ms); err != nil { // as before it grew
		t.Fatal(err)
	}
	n.Submit(movable(2, 10), "yield(1,9)")
	n.Answer(1, schedulers.Busy, 0, 2*ms, "")
	if got := n.Task(1); got.Movable != 9 || got.Fixed != 1 {
		t.Errorf("task 1 has %+v", got)
	}
	n.Tick(103*ms, "yield(1,9)")
	n.Answer(1, schedulers.Done, 1, 104*ms, "2@0")
}

// Deadlock: what each task needs is what another cannot give. The latest request is refused, unless
// an answer may still change something.
func TestDeadlockOfFixedMemory(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	fixed := func(id schedulers.TaskID, now time.Duration) {
		t.Helper()
		if err := n.Engine.Active(id, schedulers.Activity{Last: now, Fixed: 8}, now); err != nil {
			t.Fatal(err)
		}
	}
	for id := range schedulers.TaskID(2) {
		task := movable(id+1, 12)
		task.Need = new(int64(8))
		n.Submit(task, schedtest.Text([]schedulers.Decision{{Task: schedulers.Task{ID: id + 1}}}))
		fixed(id+1, 0)
	}
	n.Resume(1, 4, 4, "")
	n.Resume(2, 4, 4, "_2@0")
	n.Finish(2, "^1@0")
}

func TestNoDeadlockWhileAnAnswerIsDue(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 8), "1@0")
	n.Submit(movable(2, 8), "2@0")
	n.Grow(1, 8, "")
	n.Grow(2, 8, "yield(2,8)")              // it waits behind task 1
	n.Answer(2, schedulers.Busy, 0, ms, "") // what a busy process says that it has does not count
	n.Tick(2*ms, "")
	n.Tick(101*ms, "yield(2,8)")
	n.Give(2, "+1@0")
	n.Idle(1, 102*ms)
	n.Tick(105*ms, "yield(1,8)")
	n.Give(1, "+2@0")
}

// A process that has a permit and waits for nothing may end, and its slot comes back.
func TestNoDeadlockWhileAContextMayEnd(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=1", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 1, Can: schedulers.Movable}, "1@0")
	n.Release(1, "")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Serial: 1, Bytes: 1, Can: schedulers.Movable}, "")
	n.Want("exit of process 0", "2@0", n.Engine.ProcessExit(schedulers.Process{Job: 1}), nil)
}

func TestResumingHasTheSchedulersWaitLimit(t *testing.T) {
	n := enginetest.NewNode(t, "demand:wait-limit=5s", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Give(1, "2@0")
	n.Resume(1, 4, 10, "")
	n.Expire(5*time.Second, "_1@0")
	if got := n.Task(1); got.Permit || got.Resident != 6 {
		t.Errorf("task 1 has %+v", got)
	}
	n.Resume(1, 4, 10, "") // it may ask again
}

// A request that does not wait takes only what is free, and nobody is asked for it.
func TestARequestThatDoesNotWaitRevokesNothing(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	task := movable(2, 10)
	task.Wait = new(time.Duration(0))
	n.Submit(task, "!2")
	ds, err := n.Engine.Grow(1, 7, task.Wait, 0)
	n.Want("grow", "-1@0", ds, err)
}

// Memory that is given back counts as memory on the host first, until the next answer says more.
func TestShrinkUnderAPreempter(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	task := movable(1, 12)
	task.Need = new(int64(8))
	n.Submit(task, "1@0")
	for _, c := range []struct{ shrink, resident, host int64 }{{3, 8, 1}, {3, 6, 0}} {
		ds, err := n.Engine.Shrink(1, c.shrink)
		n.Want("shrink", "", ds, err)
		if got := n.Task(1); got.Resident != c.resident || got.Allocated-got.Resident != c.host || n.Device(0).UsedBytes() != c.resident {
			t.Errorf("after %d fewer: %+v", c.shrink, got)
		}
	}
}

// What a task gives back by itself counts as given where it was asked for it.
func TestShrinkCrossesARevocation(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 12), "yield(1,6)")
	ds, err := n.Engine.Shrink(1, 5)
	n.Want("shrink", "", ds, err)
	n.Answer(1, schedulers.Done, 4, 2*ms, "2@0")
	if got := n.Task(1); got.Movable != 4 {
		t.Errorf("task 1 has %+v, and gave all that it was asked for", got)
	}
}

// What a task gives back of its memory on the host is not what it was asked for.
func TestShrinkOnTheHostDoesNotAnswerATicket(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	task := movable(1, 12)
	task.Need = new(int64(8))
	n.Submit(task, "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 12), "yield(1,4)")
	ds, err := n.Engine.Shrink(1, 5) // 4 are on the host, and 1 of the 8 on the device
	n.Want("shrink", "", ds, err)
	n.Answer(1, schedulers.Done, 5, 2*ms, "") // 2 of the 3 that are left to give
	if got := n.Task(1); got.Movable != 0 {
		t.Errorf("task 1 has %+v, and gave less than it was asked for", got)
	}
}

// A launch that waits for its permit may count as a call under way.
func TestATaskWithoutAPermitDoesNotRun(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Give(1, "2@0")
	if err := n.Engine.Active(1, schedulers.Activity{Running: true, Last: 2 * ms}, 3*ms); err != nil {
		t.Fatal(err)
	}
	n.Submit(movable(3, 5), "yield(1,5)")
}

// Policies see what a task has lost in all, whatever the answer that told of it. The sum does not wrap around.
func TestLostTimeAddsUp(t *testing.T) {
	n := enginetest.NewAskingNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	for i, c := range []struct {
		outcome  schedulers.Outcome
		lost     time.Duration
		wantLost time.Duration
	}{{schedulers.Busy, 0, 0}, {schedulers.Busy, 2, 2}, {schedulers.Done, time.Second, time.Second + 2}, {schedulers.Done, math.MaxInt64, math.MaxInt64}} {
		now := time.Duration(i+1) * time.Hour
		n.Ask(now, "evict(1,1)", schedulers.Revocation{Task: 1, Action: schedulers.Evict, Bytes: 1, Deadline: ms, For: schedulers.Nobody})
		ds, err := n.Engine.Revoked(1, schedulers.Revoked{Ticket: schedulers.Ticket(i + 1), Outcome: c.outcome, Resident: n.Task(1).Resident - 1, Lost: c.lost}, now)
		n.Want("answer", "", ds, err)
		if got := n.Task(1).Lost; got != c.wantLost {
			t.Errorf("after answer %d: %v lost, want %v", i, got, c.wantLost)
		}
	}
}

// Sizes come from processes, and their sums do not wrap around.
func TestAKernelOfAnySizeIsRefused(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, "demand", d)
	task := movable(1, math.MaxInt64)
	task.Need = new(int64(1))
	n.Submit(task, "1@0")
	n.Resume(1, 1, math.MaxInt64, "_1@0")
	n.Resume(1, math.MaxInt64, math.MaxInt64, "_1@0")
	n.Grow(1, 1, "-1@0")
}

func TestMisuseOfRevocation(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Resume(1, 0, 0, "")
	plain := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	plain.Submit(movable(1, 10), "1@0")
	for want, call := range map[string]func() ([]schedulers.Decision, error){
		"task 1 answers ticket 2: it is not outstanding": func() ([]schedulers.Decision, error) {
			return n.Engine.Revoked(1, schedulers.Revoked{Ticket: 2, Outcome: schedulers.Done}, 0)
		},
		"task 1 answers ticket 1: 11 bytes on the device": func() ([]schedulers.Decision, error) {
			return n.Engine.Revoked(1, schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Resident: 11}, 0)
		},
		"task 1 answers ticket 1: -1ns lost": func() ([]schedulers.Decision, error) {
			return n.Engine.Revoked(1, schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Lost: -1}, 0)
		},
		"4 bytes on the device, 5 of them fixed": func() ([]schedulers.Decision, error) {
			return n.Engine.Revoked(1, schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Resident: 4, Fixed: 5}, 0)
		},
		"resume task 2: it has no device":        func() ([]schedulers.Decision, error) { return n.Engine.Resume(2, 0, 0, 0) },
		"resume task 1: it waits to resume":      func() ([]schedulers.Decision, error) { return n.Engine.Resume(1, 0, 0, 0) },
		"resume task 1: 3 of 2 referenced bytes": func() ([]schedulers.Decision, error) { return n.Engine.Resume(1, 3, 2, 0) },
		"11 referenced bytes, of 10 that it has": func() ([]schedulers.Decision, error) { return n.Engine.Resume(1, 3, 11, 0) },
		"activity of task 2: it has no device, ": func() ([]schedulers.Decision, error) {
			return nil, n.Engine.Active(2, schedulers.Activity{}, 0)
		},
		"it needs 11 of its 10 bytes": func() ([]schedulers.Decision, error) {
			return n.Engine.Submit(schedulers.Task{ID: 3, Bytes: 10, Need: new(int64(11))}, 0)
		},
		"the scheduler takes nothing back": func() ([]schedulers.Decision, error) { return plain.Engine.Resume(1, 0, 0, 0) },
	} {
		ds, err := call()
		if err == nil || !strings.Contains(err.Error(), want) || len(ds) != 0 {
			t.Errorf("decided %q with error %v, want an error with %q", schedtest.Text(ds), err, want)
		}
	}
	n.Give(1, "2@0 ^1@0")
	if next := plain.Engine.NextTick(); next != schedulers.Never || len(plain.Engine.Tick(0, 0)) != 0 {
		t.Errorf("a scheduler that takes nothing back ticks at %v", next)
	}
}

// Room is made for one request at a time on a device. The others keep what they have until then.
func TestRoomIsMadeForOneRequestAtATime(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 8), "1@0")
	n.Submit(movable(2, 8), "2@0")
	n.Submit(movable(3, 8), "")
	n.Submit(movable(4, 16), "") // would have both
	n.Idle(1, ms)
	n.Idle(2, 2*ms)
	n.Tick(5*ms, "yield(1,8)")
	n.Give(1, "3@0 yield(2,8)")
	n.Give(2, "")
	n.Idle(3, 6*ms)
	n.Tick(10*ms, "yield(3,8)")
	n.Give(3, "4@0")
}

// asked counts how often a Preempter is asked.
type asked struct {
	schedulers.Policy
	times int
	acts  time.Duration // when it wants to act; 0: as the policy says
}

func (a *asked) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	a.times++
	return a.Policy.(schedulers.Preempter).Revoke(waiting, v, now)
}

func (a *asked) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	if a.acts > now {
		return a.acts
	}
	return a.Policy.(schedulers.Preempter).NextTick(waiting, v, now)
}

func (a *asked) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	return a.Policy.(schedulers.Preempter).NextLook(waiting, now)
}

// A tick before which nothing has changed asks nobody.
func TestATickAsksAgainOnlyAfterAChange(t *testing.T) {
	s, err := policies.Parse("demand", 1)
	if err != nil {
		t.Fatal(err)
	}
	p := &asked{Policy: s.Policy}
	e, err := engine.New([]schedulers.Device{{Name: "small", CapacityBytes: 12, SMs: 1, WarpsPerSM: 1, BlocksPerSM: 1}}, p, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	for job := range schedulers.JobID(2) { // the second waits, because the first runs
		if _, err := e.Submit(schedulers.Task{ID: schedulers.TaskID(job + 1), Job: job, Bytes: 10, Can: schedulers.Movable}, 0); err != nil {
			t.Fatal(err)
		}
	}
	tick := func(now time.Duration, asks bool, want int) {
		t.Helper()
		before := p.times
		if got := len(e.Expire(now)) + len(e.Tick(now, 0)); got != want || p.times > before != asks {
			t.Errorf("tick at %v: %d decisions, want %d; asked %d times", now, got, want, p.times-before)
		}
		if next := e.NextTick(); next != now+5*ms {
			t.Errorf("the next tick is at %v", next)
		}
	}
	tick(5*ms, false, 0)
	if err := e.Active(1, schedulers.Activity{Running: true}, 10*ms); err != nil {
		t.Fatal(err)
	}
	tick(10*ms, true, 0)
	tick(15*ms, false, 0)
	if err := e.Active(1, schedulers.Activity{Last: 16 * ms}, 20*ms); err != nil {
		t.Fatal(err)
	}
	tick(20*ms, true, 1)
	if _, err := e.Revoked(1, schedulers.Revoked{Ticket: 1, Outcome: schedulers.Busy}, 25*ms); err != nil {
		t.Fatal(err)
	}
	tick(30*ms, false, 0)
	tick(125*ms, true, 1) // it may be asked again
}

// A context that gives up its permit by itself waits to resume like any other, and its ticket is answered nevertheless.
func TestContextsYieldByThemselves(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=1", enginetest.Small)
	n.Submit(movable(1, 6), "1@0")
	n.Submit(movable(2, 4), "")
	n.Yielded(1, ms, "2@0")
	if got := n.Task(1); got.Permit || got.Running || got.Resident != 6 {
		t.Errorf("task 1 has %+v", got)
	}
	n.Yielded(2, 2*ms, "")
	n.Resume(1, 0, 6, "^1@0")
	if _, err := n.Engine.Yielded(3, 3*ms); err == nil {
		t.Error("a task without a device yields")
	}
	n = enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Yielded(1, 2*ms, "") // they cross
	n.Answer(1, schedulers.Busy, 0, 3*ms, "")
	if n.Task(1).Permit {
		t.Error("an answer brings the permit back")
	}
}

// A tick at which a policy wants to act is made, and asks it, although nothing waits and nothing has changed.
func TestATickToActIsMade(t *testing.T) {
	s, err := policies.Parse("demand", 1)
	if err != nil {
		t.Fatal(err)
	}
	p := &asked{Policy: s.Policy, acts: 8 * ms}
	e, err := engine.New([]schedulers.Device{enginetest.Small}, p, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{8 * ms, schedulers.Never} {
		if next := e.NextTick(); next != want {
			t.Errorf("the next tick is at %v, want %v", next, want)
		}
		if e.Tick(8*ms, time.Second); p.times != 1 {
			t.Errorf("tick %d: asked %d times", i, p.times)
		}
	}
	// Looks until the next event are left out, but not the time to act.
	for job := range schedulers.JobID(2) {
		if _, err := e.Submit(schedulers.Task{ID: schedulers.TaskID(job + 1), Job: job, Bytes: 10, Can: schedulers.Movable}, 8*ms); err != nil {
			t.Fatal(err)
		}
	}
	p.acts = 42 * ms
	for _, want := range []time.Duration{42 * ms, 50 * ms} {
		e.Tick(e.NextTick(), 50*ms)
		if next := e.NextTick(); next != want {
			t.Errorf("the next tick is at %v, want %v", next, want)
		}
	}
}

// A Preempter knows since when requests wait, and tasks have what they have.
func TestTimesThatAPreempterKnows(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	want := func(permit, resident time.Duration, busy bool) {
		t.Helper()
		if got := n.Task(1); got.PermitSince != permit || got.ResidentSince != resident || got.Busy != busy {
			t.Errorf("task 1 has %+v", got)
		}
	}
	at := func(now time.Duration, want string, call func(now time.Duration) ([]schedulers.Decision, error)) {
		t.Helper()
		ds, err := call(now)
		n.Want("call", want, ds, err)
	}
	at(ms, "1@0", func(now time.Duration) ([]schedulers.Decision, error) { return n.Engine.Submit(movable(1, 10), now) })
	want(ms, ms, false)
	at(2*ms, "+1@0", func(now time.Duration) ([]schedulers.Decision, error) { return n.Engine.Grow(1, 1, nil, now) })
	want(ms, 2*ms, false)
	at(3*ms, "", func(now time.Duration) ([]schedulers.Decision, error) {
		return nil, n.Engine.Active(1, schedulers.Activity{Busy: true, Last: now}, now)
	})
	want(ms, 2*ms, true)
	at(4*ms, "", func(now time.Duration) ([]schedulers.Decision, error) { return n.Engine.Submit(movable(2, 10), now) })
	at(5*ms, "", func(now time.Duration) ([]schedulers.Decision, error) {
		return nil, n.Engine.Active(1, schedulers.Activity{Last: now}, now)
	})
	n.Tick(5*ms, "yield(1,5)") // not before its work on the device is done
	n.Give(1, "2@0")
	at(6*ms, "^1@0", func(now time.Duration) ([]schedulers.Decision, error) { return n.Engine.Resume(1, 0, 0, now) })
	want(6*ms, 6*ms, false)
}

// demands is a Preempter that asks for the same whenever it is asked.
type demands struct {
	schedulers.Policy
	what schedulers.Revocation
}

func (d demands) Revoke([]schedulers.Request, schedulers.View, time.Duration) []schedulers.Revocation {
	return []schedulers.Revocation{d.what}
}

func (d demands) NextTick([]schedulers.Request, schedulers.View, time.Duration) time.Duration {
	return schedulers.Never
}

func (d demands) NextLook([]schedulers.Request, time.Duration) time.Duration {
	return schedulers.Never
}

// A task that has given all is not asked again: answers that give nothing would follow each other without end.
func TestNobodyIsAskedForNothing(t *testing.T) {
	all := schedulers.Actions(1<<schedulers.Yield | 1<<schedulers.Evict | 1<<schedulers.Advise | 1<<schedulers.Stop)
	for _, c := range []struct {
		what         schedulers.Revocation
		left         int64 // what the first answer leaves on the device
		first, again int
	}{
		{schedulers.Revocation{Action: schedulers.Yield}, 10, 1, 0},
		{schedulers.Revocation{Action: schedulers.Stop}, 10, 1, 0},
		{schedulers.Revocation{Action: schedulers.Evict}, 0, 0, 0},
		{schedulers.Revocation{Action: schedulers.Advise}, 0, 0, 0},
		{schedulers.Revocation{Action: schedulers.Yield, Bytes: 10}, 0, 1, 0},
		{schedulers.Revocation{Action: schedulers.Evict, Bytes: 10}, 0, 1, 0},
		{schedulers.Revocation{Action: schedulers.Evict, Bytes: 4}, 6, 1, 1},
	} {
		s, err := policies.Parse("demand", 1)
		if err != nil {
			t.Fatal(err)
		}
		c.what.Task, c.what.For, c.what.Deadline = 1, schedulers.Nobody, ms
		e, err := engine.New([]schedulers.Device{{Name: "small", CapacityBytes: 12, SMs: 1, WarpsPerSM: 1, BlocksPerSM: 1}}, demands{s.Policy, c.what}, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Submit(schedulers.Task{ID: 1, Bytes: 10, Can: all}, 0); err != nil {
			t.Fatal(err)
		}
		ds, err := e.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 12, Can: all}, 0)
		if err != nil || len(ds) != c.first {
			t.Fatalf("%+v: %s, %v", c.what, schedtest.Text(ds), err)
		}
		if c.first == 0 {
			continue
		}
		if ds, err = e.Revoked(1, schedulers.Revoked{Ticket: ds[0].Ticket, Outcome: schedulers.Done, Resident: c.left}, ms); err != nil {
			t.Fatal(err)
		}
		again := 0
		for _, d := range ds {
			if d.Kind == schedulers.Revoke && d.Task.ID == 1 {
				again++
			}
		}
		if again != c.again {
			t.Errorf("%+v: after the answer %s", c.what, schedtest.Text(ds))
		}
	}
}
