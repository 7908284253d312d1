package blame_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/blame"
	"github.com/caserun/caserun/schedulers"
)

// resident is a client of a device from time 0 to its end.
func resident(serial, device int, end time.Duration) blame.Residencies {
	rs := blame.Residencies{}.Enter(serial, device, 0)
	rs.Leave(serial, end)
	return rs
}

func fault(job, serial, code int, at time.Duration, w blame.Work) blame.Incident {
	return blame.Incident{Process: schedulers.Process{Job: schedulers.JobID(job), Serial: serial}, At: at, Code: code, Detail: "an error", Work: w}
}

// Two jobs of one fault domain report an error. The evidence alone decides whose it was, and
// not the order of the reports.
func TestAttribute(t *testing.T) {
	busy, idle := blame.Work{Known: true, Since: 1}, blame.Work{Known: true, Since: schedulers.Never}
	const illegalAddress, assertFailed, serverNotReady = 700, 710, 807
	for _, c := range []struct {
		name    string
		device  int // of job 1
		faults  [2]blame.Incident
		outages []blame.Outage
		alone   string // where job 0 has faulted without neighbours before
		want    [2]results.Outcome
		says    string // of job 1
		named   *int
	}{
		{"only one had kernels running", 0, [2]blame.Incident{fault(0, 1, illegalAddress, 8, busy), fault(1, 2, illegalAddress, 7, idle)}, nil, "",
			[2]results.Outcome{results.Fault, results.Collateral}, "an error, job 0 (first) broke the MPS server", new(0)},
		{"both had kernels running", 0, [2]blame.Incident{fault(0, 1, illegalAddress, 8, busy), fault(1, 2, illegalAddress, 7, busy)}, nil, "",
			[2]results.Outcome{results.FaultSuspect, results.FaultSuspect}, "an error, and one of job 0 (first), job 1 (second) broke the MPS server", nil},
		{"one has faulted alone before", 0, [2]blame.Incident{fault(0, 1, illegalAddress, 8, busy), fault(1, 2, illegalAddress, 7, busy)}, nil, "it faulted in run 12",
			[2]results.Outcome{results.Fault, results.Collateral}, "an error, job 0 (first) broke the MPS server", new(0)},
		{"they share no device", 1, [2]blame.Incident{fault(0, 1, illegalAddress, 8, busy), fault(1, 2, illegalAddress, 7, busy)}, nil, "",
			[2]results.Outcome{results.Fault, results.Fault}, "an error", nil},
		{"an assertion is not shown to neighbours", 0, [2]blame.Incident{fault(0, 1, assertFailed, 6, busy), fault(1, 2, illegalAddress, 7, idle)}, nil, "",
			[2]results.Outcome{results.Fault, results.Fault}, "an error", nil},
		{"one was turned away after the fault", 1, [2]blame.Incident{fault(0, 1, illegalAddress, 6, busy), fault(1, 2, serverNotReady, 7, idle)}, nil, "",
			[2]results.Outcome{results.Fault, results.Collateral}, "an error, job 0 (first) had broken the MPS server", nil},
		{"the server was healthy between their faults", 1, [2]blame.Incident{fault(0, 1, illegalAddress, 2, busy), fault(1, 2, serverNotReady, 7, idle)},
			[]blame.Outage{{Device: 0, From: 2, To: 4, Seen: schedulers.Never}}, "",
			[2]results.Outcome{results.Fault, results.Fault}, "an error", nil},
	} {
		if c.outages == nil {
			for d := range 2 {
				c.outages = append(c.outages, blame.Outage{Device: d, From: 5, To: 20, Seen: 7})
			}
		}
		found := blame.Attribute([]blame.Job{
			{Title: "job 0 (first)", FaultsAlone: c.alone, Residencies: resident(1, 0, 30), Faults: []blame.Incident{c.faults[0]}, End: 30},
			{Title: "job 1 (second)", Residencies: resident(2, c.device, 30), Faults: []blame.Incident{c.faults[1]}, End: 30},
		}, c.outages)
		got := [2]results.Outcome{found.Verdict(0).Outcome, found.Verdict(1).Outcome}
		if got != c.want || found.Verdict(1).Detail != c.says {
			t.Errorf("%s: %v, %q, want %v, %q", c.name, got, found.Verdict(1).Detail, c.want, c.says)
		}
		var named *int
		for _, f := range found.Findings() {
			named = f.Culprit
		}
		if diff := cmp.Diff(c.named, named); diff != "" {
			t.Errorf("%s: named: %s", c.name, diff)
		}
	}
}

// A misaligned address may be shown to a neighbour alone. Suspects are all whose kernels ran shortly before, also jobs that ended
// ok and processes that had ended by then. An illegal address names the only process that had kernels running.
func TestAnErrorThatIsShownElsewhere(t *testing.T) {
	const ms = time.Millisecond
	idle := func(until time.Duration) blame.Work {
		return blame.Work{Known: true, Since: schedulers.Never, Until: until}
	}
	busy := func(since, until time.Duration) blame.Work {
		return blame.Work{Known: true, Since: since, Until: until}
	}
	const devicesUnavailable, illegalAddress, misaligned, launchFailure = 46, 700, 716, 719
	type work = map[int]blame.Work
	for _, c := range []struct {
		name     string
		code     int
		work     [4]work // of the jobs. The first sees the error at 2 s
		atFault  blame.Work
		ends     time.Duration // of job 3
		killed   bool          // job 2, at the fault
		unlogged bool          // the server's log does not show the fault
		suspects []int
		want     results.Outcome // of job 0
	}{
		{"an illegal address", illegalAddress, [4]work{{1: busy(1900*ms, 0)}, {2: idle(1999 * ms)}, {3: idle(1999 * ms)}, {4: idle(1999 * ms)}}, busy(1900*ms, 0), 3000 * ms, false, false, []int{0}, results.Fault},
		{"all had kernels lately", misaligned, [4]work{{1: busy(1900*ms, 0)}, {2: idle(1999 * ms)}, {3: idle(1600 * ms)}, {4: idle(1999 * ms)}}, busy(1900*ms, 0), 3000 * ms, false, false, []int{0, 1, 2, 3}, results.FaultSuspect},
		{"a launch failure", launchFailure, [4]work{{1: busy(1900*ms, 0)}, {2: idle(1999 * ms)}, {}, {4: idle(9 * ms)}}, busy(1900*ms, 0), 3000 * ms, false, false, []int{0, 1, 2}, results.FaultSuspect},
		{"some had none for a while, or never", misaligned, [4]work{{1: idle(1900 * ms)}, {2: idle(1400 * ms)}, {3: idle(0)}, {4: busy(2100*ms, 1200*ms)}}, idle(1900 * ms), 3000 * ms, false, false, []int{0}, results.Fault},
		{"only a job that was shown nothing", misaligned, [4]work{{1: idle(1300 * ms)}, {2: idle(2700 * ms)}, {3: idle(900 * ms)}, {4: idle(900 * ms)}}, idle(1300 * ms), 3000 * ms, false, false, []int{1}, results.Collateral},
		{"a job that had ended", misaligned, [4]work{{1: idle(1300 * ms)}, {2: idle(300 * ms)}, {3: idle(0)}, {4: idle(1700 * ms)}}, idle(1300 * ms), 1800 * ms, false, false, []int{3}, results.Collateral},
		{"one that had ended long before", misaligned, [4]work{{1: idle(1600 * ms)}, {2: idle(300 * ms)}, {3: idle(0)}, nil}, idle(1600 * ms), 1400 * ms, false, false, []int{0}, results.Fault},
		{"what a process did later does not count", misaligned, [4]work{{1: idle(2900 * ms)}, {2: idle(1700 * ms)}, {3: idle(0)}, {4: idle(0)}}, idle(1300 * ms), 3000 * ms, false, false, []int{1}, results.Collateral},
		{"a job that is told late", misaligned, [4]work{{1: idle(900 * ms)}, {2: idle(1000 * ms)}, {3: idle(800 * ms)}, {4: idle(0)}}, idle(900 * ms), 3000 * ms, false, true, []int{0, 1}, results.FaultSuspect},
		{"a client that is only turned away", devicesUnavailable, [4]work{{1: idle(1990 * ms)}, {2: idle(1980 * ms)}, {3: idle(1850 * ms)}, {4: idle(9 * ms)}}, idle(1990 * ms), 1900 * ms, false, true, []int{0, 1, 2}, results.FaultSuspect},
		{"a job that never was a client", devicesUnavailable, [4]work{{1: idle(0)}, {2: idle(1980 * ms)}, {3: idle(0)}, {4: idle(0)}}, idle(0), 3000 * ms, false, true, nil, results.Fault},
		{"a death with kernels running gives another error", misaligned, [4]work{{1: busy(1900*ms, 0)}, {2: idle(0)}, {3: busy(1000*ms, 0)}, {4: idle(0)}}, busy(1900*ms, 0), 3000 * ms, true, false, []int{0, 2}, results.FaultSuspect},
	} {
		var jobs []blame.Job
		for i, w := range c.work {
			jobs = append(jobs, blame.Job{Title: "j", Residencies: resident(i+1, 0, 3000*ms), Work: w, End: 3000 * ms})
		}
		jobs[0].Faults = []blame.Incident{fault(0, 1, c.code, 2000*ms, c.atFault)}
		jobs[3].Residencies = resident(4, 0, c.ends)
		if c.killed {
			jobs[2].Deaths = []blame.Incident{fault(2, 3, 0, 2000*ms, c.work[2][3])}
		}
		o := blame.Outage{Device: 0, From: 2000 * ms, To: 2600 * ms, Seen: 2000 * ms}
		if c.unlogged {
			o.Seen = 2300 * ms
		}
		found := blame.Attribute(jobs, []blame.Outage{o})
		v := found.Verdict(0)
		if v.Outcome != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, v.Outcome, v.Detail, c.want)
		}
		if c.want != results.Fault && !slices.Equal(v.Suspects, c.suspects) {
			t.Errorf("%s: suspects %v, want %v", c.name, v.Suspects, c.suspects)
		}
		if c.want == results.Collateral {
			if f := found.Findings(); len(f) != 1 || f[0].Culprit == nil || *f[0].Culprit != c.suspects[0] {
				t.Errorf("%s: findings %+v, want job %d as the culprit", c.name, f, c.suspects[0])
			}
		}
	}
}

// A process that was ended because the server waited for it has shown no error. Whoever had kernels before the server broke is a
// suspect, and if nobody had, nobody is named.
func TestAFaultThatOnlyTheServerShows(t *testing.T) {
	const ms = time.Millisecond
	for until, want := range map[time.Duration]string{
		1990 * ms: "collateral: an error, job 1 (culprit) broke the MPS server",
		900 * ms:  "collateral: an error; who broke it is not known",
	} {
		idle := blame.Work{Known: true, Since: schedulers.Never, Until: 100 * ms}
		jobs := []blame.Job{
			{Title: "job 0 (asleep)", Residencies: resident(1, 0, 4000*ms), Work: map[int]blame.Work{1: idle}, Faults: []blame.Incident{fault(0, 1, blame.Ended, 4000*ms, idle)}, End: 4000 * ms},
			{Title: "job 1 (culprit)", Residencies: resident(2, 0, 2005*ms), Work: map[int]blame.Work{2: {Known: true, Since: schedulers.Never, Until: until}}, End: 2005 * ms},
		}
		found := blame.Attribute(jobs, []blame.Outage{{Device: 0, From: 2000 * ms, To: 4100 * ms, Shown: true, Seen: 2000 * ms}})
		if v := found.Verdict(0); fmt.Sprintf("%s: %s", v.Outcome, v.Detail) != want {
			t.Errorf("%s: %s, want %s", v.Outcome, v.Detail, want)
		}
		if named := len(found.Findings()) > 0; named != (until == 1990*ms) {
			t.Errorf("findings %+v", found.Findings())
		}
	}
}

// The recovery of a server is awaited until nothing can have broken it since. Contexts are lost on the devices where a fault was
// shown.
func TestServer(t *testing.T) {
	var s blame.Server
	client := resident(1, 0, schedulers.Never)
	neighbour := resident(2, 1, schedulers.Never)
	lost := func(want ...int) {
		t.Helper()
		for device := range 2 {
			for from, late := range map[time.Duration]bool{0: false, 3: true} {
				is, isLate := s.Lost(blame.Residencies{{Serial: 9, Device: device, From: from * time.Second, To: schedulers.Never}})
				if in := slices.Contains(want, device); is != in || isLate != (in && late) {
					t.Errorf("a client of device %d from %d s on has lost its context: %v, late %v; lost on devices %v", device, from, is, isLate, want)
				}
			}
		}
	}
	if s.Suspect(client[:0], 3*time.Second, true) || s.Recovering() {
		t.Error("a process that is not a client has broken the server")
	}
	if !s.Suspect(client, 3*time.Second, false) {
		t.Error("nobody awaits the recovery")
	}
	lost()
	s.Broken(4*time.Second, nil)
	lost(0) // a death broke it
	if s.Suspect(client, 5*time.Second, true) || s.Suspect(neighbour, 5*time.Second, false) {
		t.Error("the recovery is awaited twice")
	}
	lost(0)
	if again, _ := s.Healthy(6 * time.Second); !again {
		t.Error("the second incident may show only later, and nobody awaits it")
	}
	if again, wasBroken := s.Healthy(7 * time.Second); again || !wasBroken {
		t.Errorf("healthy: again %v, was broken %v", again, wasBroken)
	}
	lost()
	want := []blame.Outage{{Device: 0, From: 3 * time.Second, To: 7 * time.Second, Shown: true, Seen: 4 * time.Second}, {Device: 1, From: 5 * time.Second, To: 7 * time.Second, Seen: schedulers.Never}}
	if diff := cmp.Diff(want, s.Outages()); diff != "" {
		t.Error(diff)
	}
}

// Where each device has a server of its own, one that is broken costs no client of another its context.
func TestServerOfItsOwn(t *testing.T) {
	var s blame.Server
	on := func(device int) blame.Residencies {
		return blame.Residencies{{Device: device, From: 0, To: schedulers.Never}}
	}
	s.Suspect(on(0), time.Second, false)
	s.Suspect(on(1), time.Second, true)
	s.Broken(2*time.Second, []int{1})
	for device, want := range []bool{false, true} {
		if lost, _ := s.Lost(on(device)); lost != want {
			t.Errorf("a client of device %d has lost its context: %v", device, lost)
		}
	}
	for _, o := range s.Outages() {
		if seen := o.Seen != schedulers.Never; seen != (o.Device == 1) {
			t.Errorf("%+v", o)
		}
	}
}
