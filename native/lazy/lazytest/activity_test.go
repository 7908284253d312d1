package lazytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
)

// evictAll takes the memory of a task, gives host memory for it, and returns the answer.
func evictAll(t *testing.T, p *lazyRun, id schedulers.TaskID) schedulers.Revoked {
	t.Helper()
	mustRevoke(t, p.server, id, 1, schedulers.Revocation{Action: schedulers.Evict, Bytes: 1 << 40, Deadline: patience})
	for timeout := time.After(patience); ; {
		select {
		case next := <-p.r.events:
			e := *next
			switch e.Kind {
			case "more":
				giveSwap(t, e, fakeChunks(t, int(e.Bytes/moving.Chunk), moving.Chunk))
			case "revoked":
				return e.Answer()
			}
		case <-timeout:
			t.Fatal("no answer")
		}
	}
}

// The scheduler sees the calls under way of a process that can give memory back, what it has submitted and its
// memory, before and after a revocation.
func TestLazyShowsItsActivity(t *testing.T) {
	const mib, rest = 1 << 20, 8<<20 + 2<<20 // the device heap, and the granule of small allocations
	const own = 16*mib + 2*mib               // all that the library has made
	for _, version := range cudaVersions {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, version, "lazy_program", "shown", movable).start()
		begin := r.next(t, "begin")
		grant(t, begin)
		var last time.Time
		want := func(when string, calls, submissions, resident, referenced, fixed int64) {
			t.Helper()
			p.hear(when)
			a, known := begin.server.Activity(begin.Process)
			if !known || a.Calls != calls || a.Submissions < submissions || a.Resident != resident || a.Referenced != referenced || a.Fixed != fixed || !a.Permit {
				t.Errorf("CUDA %s, %s: %+v, want %d calls, at least %d submissions, %d bytes, %d referenced, %d fixed", version, when, a, calls, submissions, resident, referenced, fixed)
			}
			if a.LastCall.IsZero() || a.LastCall.Before(last) {
				t.Errorf("%s: the last call ended at %v, and before it one at %v", when, a.LastCall, last)
			}
			last = a.LastCall
		}
		want("launched", 0, 1, 16*mib+rest, own, rest)
		p.goOn()
		want("submitting", 1, 1, 16*mib+rest, own, rest)
		p.goOn()
		want("waiting", 1, 2, 16*mib+rest, own, rest)
		p.goOn()
		want("idle", 0, 2, 16*mib+rest, own, rest)
		p.goOn()
		want("waiting", 1, 2, 16*mib+rest, own, rest)
		if was := evictAll(t, p, begin.ID); was.Outcome != schedulers.Done || was.Moved.Bytes != 16*mib || was.Resident != rest || was.Fixed != rest {
			t.Errorf("CUDA %s: revoked %+v", version, was)
		}
		p.goOn()
		grant(t, r.next(t, "resume"))
		p.hear("fetching")
		if a, _ := s.Activity(begin.Process); a.Calls != 1 {
			t.Errorf("CUDA %s, while the memory of a call comes: %+v", version, a)
		}
		p.goOn()
		r.next(t, "moved")
		want("evicted", 0, 3, 16*mib+rest, own, rest)
		p.goOn()
		grant(t, r.next(t, "grow"))
		want("array", 0, 3, 16*mib+rest+4*mib, own, rest+4*mib)
		p.goOn()
		want("graph", 0, 5, 16*mib+rest, own, rest) // and the kernel in it
		p.goOn()
		p.hear("x 4")
		want("freed", 0, 5, rest, 2*mib, rest)
		p.goOn()
		p.finish(grant).mustSucceed()
	}
}

// A process looks busy as long as a kernel of it runs, although none of its calls is under way. Then it looks idle, since
// the kernel's end.
func TestLazyShowsWorkThatNobodyWaitsFor(t *testing.T) {
	const kernel = 100 * time.Millisecond
	for _, version := range cudaVersions {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, version, "lazy_program", "unattended", movable, fmt.Sprintf("FAKE_CUDA_KERNEL_US=%d", kernel.Microseconds())).start()
		begin := r.next(t, "begin")
		grant(t, begin)
		shows := func() probe.Activity {
			a, known := s.Activity(begin.Process)
			if !known {
				t.Fatal("it shows nothing")
			}
			return a
		}
		p.hear("ready")
		if a := shows(); a.Ended != a.Submissions || a.Calls != 0 {
			t.Errorf("CUDA %s: it has waited for its work, and shows %+v", version, a)
		}
		p.goOn()
		var launched int64
		if _, err := fmt.Sscanf(p.line(), "launched after %d ns", &launched); err != nil {
			t.Fatal(err)
		}
		over := s.At(launched).Add(kernel)
		p.hear("launched")
		if a := shows(); time.Now().Before(over) && (a.Ended >= a.Submissions || a.Calls != 0) {
			t.Errorf("CUDA %s: its kernel runs, and it shows %+v", version, a)
		}
		probetest.Await(t, "the kernel never ends", func() bool { a := shows(); return a.Ended == a.Submissions })
		if a := shows(); a.LastCall.Before(over) {
			t.Errorf("CUDA %s: idle since %v, and its kernel ended after %v", version, a.LastCall, over)
		}
		p.goOn()
		p.finish(grant).mustSucceed()
	}
}

// Where the run wants it, a process gives up its permission when its work is over and none of its calls is under way, and
// asks for it before it submits more.
func TestLazyEndsBursts(t *testing.T) {
	bursts := moving
	bursts.Bursts = true
	for _, version := range cudaVersions {
		s, r := startRevoking(t, bursts)
		p := prepareLazyAt(t, s, r, version, "lazy_program", "unattended", movable, "FAKE_CUDA_KERNEL_US=50000").start()
		begin := r.next(t, "begin")
		grant(t, begin)
		ended := func() {
			t.Helper()
			r.next(t, "yielded")
			if a, _ := s.Activity(begin.Process); a.Permit || a.Ended != a.Submissions || a.Calls != 0 {
				t.Errorf("CUDA %s: its burst has ended, and it shows %+v", version, a)
			}
		}
		p.hear("ready")
		ended()
		p.goOn()
		e := r.next(t, "resume")
		if e.Needs().Need != 0 {
			t.Errorf("CUDA %s: it lacks %d bytes, and nothing was taken", version, e.Needs().Need)
		}
		mustRevoke(t, s, begin.ID, 1, schedulers.Revocation{Action: schedulers.Yield, Deadline: patience}) // and waits
		r.next(t, "revoked")
		grant(t, e)
		p.line()
		p.hear("launched")
		ended() // when the kernel is over
		p.goOn()
		p.finish(grant).mustSucceed()
	}
}

// A burst does not end while a copy is under way, or what a stream waits for before it. A copy counts as no submission. If the burst
// ended, memory would come back to the device while the copy writes to it on the host.
func TestLazyEndsNoBurstDuringACopy(t *testing.T) {
	bursts := moving
	bursts.Bursts = true
	p := startServedAs(t, bursts, "copies_unattended", "FAKE_CUDA_KERNEL_US=0")
	p.wantSaidBeside("ready", "yielded")
	if was := p.revoked(schedulers.Evict); was.Outcome != schedulers.Done || was.Moved.Bytes != 16<<20 {
		t.Fatalf("%+v", was)
	}
	p.goOn()
	resume := p.next("resume")
	if err := resume.grantPart(grantedDevice, fakeUUID(grantedDevice), resume.Needs().Stays); err != nil {
		t.Fatal(err)
	}
	var e event
	for e.Kind != "yielded" && e.Text != "asked" {
		e = p.next("yielded", "said")
	}
	if e.Kind == "yielded" {
		t.Error("the burst has ended during a copy")
	}
	p.goOn()
	p.end()
	p.mustSucceed()
	if got := p.lines[len(p.lines)-1]; got != "x 7" {
		t.Errorf("%q, want x 7", got)
	}
}
