package results

import (
	"strings"
	"testing"
)

// A probe's name is what is stored, and a probe that nobody chose is the default.
func TestProbesHaveNames(t *testing.T) {
	for i, name := range Probes() {
		var p Probe
		if err := p.UnmarshalText([]byte(name)); err != nil || p != Probe(i) || p.String() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	var p Probe
	if p.String() != Probes()[0] || p != Lazy {
		t.Errorf("the default is %s", p)
	}
	if err := p.UnmarshalText([]byte("eager")); err == nil || !strings.Contains(err.Error(), "want lazy, static or explicit") {
		t.Errorf("a probe that there is not: %v", err)
	}
}

// Arms that differ in the probe are compared with each other. Kernels of casecc are compared with
// kernels of casecc.
func TestProbesAreCompared(t *testing.T) {
	lazy := Arm{Mix: "W1", Scheduler: "case-alg3", Node: "local", Mode: Live, Jobs: 16, Traced: true}
	static := lazy
	static.Probe = Static
	if lazy.Batch() != static.Batch() {
		t.Errorf("%+v and %+v are different batches", lazy, static)
	}
	if alone := static.Alone(); alone.Probe != Static || alone.Scheduler != "sa" || alone == lazy.Alone() {
		t.Errorf("the baseline of %+v is %+v", static, alone)
	}
}

// Plans from before there was a choice have one probe, and rows are in the order of the plan.
func TestPlansHaveProbes(t *testing.T) {
	spec, err := ReadSpec(Sweep{Spec: `{"mixes":[{"name":"W1"}],"scheds":["sa"],"reps":1,"warmups":0,"settings":{},"program":{}}`})
	if err != nil || len(spec.Probes) != 1 || spec.Probes[0] != Lazy {
		t.Errorf("%v, %v", spec.Probes, err)
	}
	spec, err = ReadSpec(Sweep{Spec: `{"mixes":[{"name":"W1"},{"name":"W2"}],"scheds":["sa","cg:workers=2"],"probes":["static","lazy"],"settings":{}}`})
	if err != nil {
		t.Fatal(err)
	}
	var cells []Cell
	for _, mix := range []string{"W2", "W1"} {
		for _, probe := range []Probe{Lazy, Static} {
			for _, scheduler := range []string{"cg:workers=2", "sa"} {
				cells = append(cells, Cell{Mix: mix, Scheduler: scheduler, Probe: probe})
			}
		}
	}
	spec.Sort(cells)
	var got []string
	for _, c := range cells {
		got = append(got, c.Mix+" "+c.SchedulerText())
	}
	want := "W1 sa:probe=static, W1 cg:workers=2,probe=static, W1 sa, W1 cg:workers=2, W2 sa:probe=static, W2 cg:workers=2,probe=static, W2 sa, W2 cg:workers=2"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("order %s, want %s", text, want)
	}
}
