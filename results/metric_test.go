package results

import (
	"encoding/json"
	"strings"
	"testing"
)

// Each metric is of a run's column, or says itself how it is computed.
func TestMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range AllMetrics() {
		var r Run
		r.Jobs, r.Metrics.OK = 4, 1
		want := 2.5
		r.Metrics.Slowdown = &want
		switch {
		case m.Derived:
			jobs := []JobTimes{{TurnaroundS: 2.5, ExpectedS: new(1.0)}}
			if m.Unit == "" { // Jain's index of one job
				want = 1
			}
			r.Metrics.setJobFigures(jobs, func(j JobTimes) *float64 { return j.ExpectedS })
		case m.Name == "crashes":
			r.Metrics.Crashed, want = 3, 0.75
		case m.Name == "slowdown":
		default:
			r.Status = Running
			if m.Of(r) != nil {
				t.Errorf("%s: %g of an empty run", m.Name, *m.Of(r))
			}
			r.Status = Complete
			switch at := r.Fields().Pick(m.Column)[0].At.(type) {
			case **float64:
				*at = &want
			case **int64:
				*at, want = new(int64(7)), 7
			case Count:
				*at.N, want = 3, 3
			default:
				t.Fatalf("%s: column %s is a %T", m.Name, m.Column, at)
			}
		}
		if got := m.Of(r); got == nil || *got != want {
			t.Errorf("%s: %v, want %g", m.Name, got, want)
		}
		r.Metrics.OK = 0
		if got := m.Of(r); (got == nil) != m.ofWork {
			t.Errorf("%s: %v where no job ended ok", m.Name, got)
		}
		if seen[m.Name] {
			t.Errorf("%s twice", m.Name)
		}
		seen[m.Name] = true
		if (m.Gauge == "") != (m.Help == "") || (m.Compared == NotCompared) != (m.About == "") {
			t.Errorf("%s: a name without its text, or a text without its name", m.Name)
		}
	}
}

// Fields have their keys in the order of the names, and null for what is unknown.
func TestFieldsAsJSON(t *testing.T) {
	r := Run{Mix: "W1", Seed: 1<<64 - 1, Probe: Static, Status: Complete}
	r.Metrics.OK = 3
	text, err := json.Marshal(r.Fields().Pick("seed", "mix", "tag", "jobs_ok", "probe", "makespan_s", "started_at"))
	if want := `{"seed":"18446744073709551615","mix":"W1","tag":null,"jobs_ok":3,"probe":"static","makespan_s":null,"started_at":null}`; err != nil || string(text) != want {
		t.Errorf("%s (%v), want %s", text, err, want)
	}
	for _, fields := range []Fields{r.Fields(), new(Job).Fields(), new(Device).Fields()} {
		seen := map[string]bool{}
		for _, f := range fields {
			if seen[f.Name] || f.Name != strings.ToLower(f.Name) {
				t.Errorf("column %s", f.Name)
			}
			seen[f.Name] = true
		}
	}
}
