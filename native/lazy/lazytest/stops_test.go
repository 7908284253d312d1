package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Programs of native/lazy/tests/programs/stops.cc: kernels are stopped before they are done, and begun again.

// startForEver returns when the program's kernel runs, which ends when the test says so. Each round of it takes 100 us.
func startForEver(t *testing.T, way string, env ...string) *revocable {
	t.Helper()
	p := startServed(t, elevenChunks, "stops "+way, append([]string{"FAKE_CUDA_KERNEL_US=100"}, env...)...)
	p.wantSaid("begun 1")
	return p
}

// endsForEver lets the kernel end, which has begun so often.
func (p *revocable) endsForEver(begun int) {
	p.t.Helper()
	p.goOn()
	p.end()
	p.mustSucceed()
	want := []string{"for ever: right"}
	for n := begun; n > 0; n-- {
		want = slices.Insert(want, 0, fmt.Sprint("begun ", n))
	}
	if got := results(p.lines); !slices.Equal(got, want) {
		p.t.Errorf("output %q, want %q\nstderr:\n%s", got, want, p.stderr.String())
	}
	p.wantOnlySwapLeft()
}

// A kernel without end is stopped, gives its memory, and begins again with it, as often as the scheduler wants.
func TestLazyStopsKernels(t *testing.T) { stopsKernels(t, 5) }

func stopsKernels(t *testing.T, times int) {
	t.Helper()
	p := startForEver(t, "for_ever")
	for n := range times {
		if was := p.revoked(schedulers.Stop); was.Outcome != schedulers.Done || was.Moved.Bytes < 8<<20 {
			t.Fatalf("stop %d: %+v", n, was)
		}
		p.grant(p.next("resume")) // by the library: the program waits for its kernel
		p.wantSaid(fmt.Sprint("begun ", n+2))
	}
	p.endsForEver(times + 1)
}

// The mix may say that a kernel can begin again. Without anybody who says so it is not stopped, nor with another action.
func TestLazyStopsOnlyWhatCanBeginAgain(t *testing.T) {
	p := startForEver(t, "named", "CASE_RESTART_KERNELS=other,sweep")
	if was := p.revoked(schedulers.Stop); was.Outcome != schedulers.Done {
		t.Errorf("%+v", was)
	}
	p.wantSaid("begun 2")
	p.endsForEver(2)
	for way, action := range map[string]schedulers.Action{"named": schedulers.Stop, "for_ever": schedulers.Yield} {
		p := startForEver(t, way, "CASE_RESTART_KERNELS=swee,weep")
		p.revokeIn(20*time.Millisecond, action)
		if was := p.next("revoked").Answer(); was.Outcome != schedulers.Busy {
			t.Errorf("%s: %+v", way, was)
		}
		p.endsForEver(1)
	}
}

// A process that was granted more than it uses, as by a footprint of earlier runs or for what it has freed since, gives that back when it
// is asked for memory. It counted as fixed before, so a kernel was stopped again and again for a request that needed it.
func TestLazyGivesBackATooLargeFootprint(t *testing.T) {
	p := startForEver(t, "for_ever", "CASE_FOOTPRINT=67108864,1,32")
	p.revoke(schedulers.Stop)
	const uses, keeps = 8 << 20, 8 << 20 // arrays, and the device heap
	if e := p.next("shrink"); e.Bytes != p.task.Bytes-uses {
		t.Errorf("gave back %d bytes of %d", e.Bytes, p.task.Bytes)
	}
	if was := p.next("revoked").Answer(); was.Outcome != schedulers.Done || was.Resident != keeps || was.Fixed != keeps {
		t.Errorf("%+v", was)
	}
	p.grant(p.next("resume"))
	p.wantSaid("begun 2")
	p.endsForEver(2)
}

// A kernel is stopped while another revocation's wait for it goes on. What it had run for is lost, and what it runs for when it has
// begun again.
func TestLazyStopsAKernelThatYieldingWaitedFor(t *testing.T) {
	const waited = 20 * time.Millisecond
	begun := time.Now()
	p := startForEver(t, "for_ever")
	p.revokeIn(waited, schedulers.Yield)
	if was := p.next("revoked").Answer(); was.Outcome != schedulers.Busy || was.Lost != 0 {
		t.Fatalf("%+v", was)
	}
	for n, atLeast := range []time.Duration{waited, 0} {
		was := p.revoked(schedulers.Stop)
		if most := time.Since(begun); was.Outcome != schedulers.Done || was.Lost <= atLeast || was.Lost > most {
			t.Fatalf("stop %d: %+v, want %v to %v lost", n, was, atLeast, most)
		}
		begun = time.Now()
		p.grant(p.next("resume"))
		p.wantSaid(fmt.Sprint("begun ", n+2))
	}
	p.endsForEver(3)
}

// A kernel that stops too late for its ticket is lost too, and a later answer says so. A deadline may also pass before the kernel is
// asked.
func TestLazyStopsAKernelTooLate(t *testing.T) {
	const round = 20 * time.Millisecond
	p := startForEver(t, "for_ever", fmt.Sprint("FAKE_CUDA_KERNEL_US=", round.Microseconds()))
	ask := func(deadline time.Duration, action schedulers.Action) schedulers.Revoked {
		p.revokeIn(deadline, action)
		was := p.next("revoked").Answer()
		if was.Outcome == schedulers.Done {
			p.grant(p.next("resume"))
			p.next("said")
		}
		return was
	}
	var told schedulers.Revoked
	for n := 0; n < 100 && told.Lost == 0; n++ {
		if ask(time.Millisecond, schedulers.Stop).Outcome != schedulers.Done {
			told = ask(3*round, schedulers.Yield)
		}
	}
	if told.Lost < round {
		t.Errorf("%+v, want at least %v lost", told, round)
	}
	p.goOn()
	p.end()
	p.mustSucceed()
}

// The process is killed at any step of a stop and of the way back, and nothing is left.
func TestLazyIsKilledWhileAKernelStops(t *testing.T) {
	for _, call := range []string{"cuCtxSynchronize:1", "cuStreamSynchronize:1", "cuMemUnmap:1", "cuLaunchKernel:1"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			p := startForEver(t, "for_ever", "FAKE_CUDA_KILL="+call)
			p.revoke(schedulers.Stop)
			p.end()
			if p.err == nil || p.err.Error() != "signal: killed" {
				t.Errorf("ended: %v; events %v", p.err, p.events)
			}
		})
	}
}

// The scheduler ends while a kernel is stopped: it begins again.
func TestLazyLosesItsSchedulerWhileAKernelIsStopped(t *testing.T) {
	p := startForEver(t, "for_ever")
	p.revoke(schedulers.Stop)
	p.next("resume")
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	p.wantSaid("begun 2")
	p.goOn()
	p.end()
	p.mustSucceed()
	if got := results(p.lines); !slices.Equal(got, []string{"begun 1", "begun 2", "for ever: right"}) {
		t.Errorf("output %q", got)
	}
}

// Kernels that were brief for some time do not wait for one another. A larger launch of them is stopped all the same.
func TestLazyWaitsForNoBriefKernel(t *testing.T) {
	p := startForEver(t, "brief", "STOPS_MIB=0", "FAKE_CUDA_KERNEL_US=1")
	if was := p.revoked(schedulers.Stop); was.Outcome != schedulers.Done {
		t.Errorf("%+v", was)
	}
	p.grant(p.next("resume"))
	p.wantSaid("begun 2")
	p.endsForEver(2)
}

// What the program has behind a kernel that is stopped waits, and queries say so. Kernels that cannot begin again are never
// stopped midway, though they look.
func TestLazyKeepsResultsWhenKernelsAreStopped(t *testing.T) {
	for _, line := range native(t, "13", "stops rounds") { // where work waits until something needs it
		if strings.Contains(line, "want") {
			t.Errorf("the program itself leaves the order open: %s", line)
		}
	}
	for seed := range uint64(4) {
		program := taken{"lazy_program", "stops rounds", []string{"FAKE_CUDA_KERNEL_US=300"}, 0}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			program.take(t, seed)
		})
	}
}
