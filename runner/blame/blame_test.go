package blame_test

import (
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
			{Name: "first", FaultsAlone: c.alone, Residencies: resident(1, 0, 30), Faults: []blame.Incident{c.faults[0]}, End: 30},
			{Name: "second", Residencies: resident(2, c.device, 30), Faults: []blame.Incident{c.faults[1]}, End: 30},
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

// The recovery of a server is awaited until nothing can have broken it since. Contexts are lost on the devices where a fault was
// shown.
func TestServer(t *testing.T) {
	var s blame.Server
	client := resident(1, 0, schedulers.Never)
	neighbour := resident(2, 1, schedulers.Never)
	lost := func(want ...int) {
		t.Helper()
		if got := s.Lost(); !slices.Equal(got, want) {
			t.Errorf("lost on devices %v, want %v", got, want)
		}
	}
	if s.Suspect(client[:0], 3, true) || s.Recovering() {
		t.Error("a process that is not a client has broken the server")
	}
	if !s.Suspect(client, 3, false) {
		t.Error("nobody awaits the recovery")
	}
	lost()
	s.Broken(4)
	lost(0) // a death broke it
	if s.Suspect(client, 5, true) || s.Suspect(neighbour, 5, false) {
		t.Error("the recovery is awaited twice")
	}
	lost(0)
	if again, _ := s.Healthy(6); !again {
		t.Error("the second incident may show only later, and nobody awaits it")
	}
	if again, wasBroken := s.Healthy(7); again || !wasBroken {
		t.Errorf("healthy: again %v, was broken %v", again, wasBroken)
	}
	lost()
	want := []blame.Outage{{Device: 0, From: 3, To: 7, Shown: true, Seen: 4}, {Device: 1, From: 5, To: 7, Seen: schedulers.Never}}
	if diff := cmp.Diff(want, s.Outages()); diff != "" {
		t.Error(diff)
	}
}
