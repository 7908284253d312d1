package results

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Arms that differ have one order, whatever they differ in.
func TestArmsAreOrdered(t *testing.T) {
	a := Arm{Mix: "W1", Scheduler: "cg", Parameters: "workers=8", Node: "local", Mode: Live, Jobs: 16}
	for field := range reflect.TypeFor[Arm]().NumField() {
		b := a
		switch v := reflect.ValueOf(&b).Elem().Field(field); v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Int:
			v.SetInt(v.Int() + 1)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Uint8:
			v.SetUint(v.Uint() + 1)
		}
		if a.Compare(b) != -1 || b.Compare(a) != 1 || a.Compare(a) != 0 {
			t.Errorf("%+v and %+v: %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
	}
}

// A name has what tells an arm from those it stands with, and nothing else.
func TestNamesTellArmsApart(t *testing.T) {
	arm := func(mix, scheduler, parameters string, jobs int) Arm {
		return Arm{Mix: mix, Scheduler: scheduler, Parameters: parameters, Node: "local", Mode: Live, Jobs: jobs}
	}
	traced := arm("W1", "sa", "", 16)
	traced.Traced = true
	simulated := arm("W1", "sa", "", 16)
	simulated.Node, simulated.Mode = "sim:4xV100", Simulated
	static := arm("W1", "case-alg3", "queue=fifo", 16)
	static.Probe = Static
	const defaults = "age-limit=64,queue=largest-first,room=0"
	for name, c := range map[string]struct {
		arms []Arm
		want []string
	}{
		"one":        {[]Arm{arm("W1", "case-alg3", defaults, 16)}, []string{"W1 under case-alg3 on local"}},
		"schedulers": {[]Arm{arm("W1", "case-alg3", defaults, 16), arm("W1", "cg", "workers=8", 16)}, []string{"W1 under case-alg3 on local", "W1 under cg on local"}},
		"parameters": {[]Arm{arm("W1", "cg", "workers=2", 16), arm("W1", "cg", "workers=4", 16), arm("W1", "sa", "", 16)},
			[]string{"W1 under cg:workers=2 on local", "W1 under cg:workers=4 on local", "W1 under sa on local"}},
		"some parameters": {[]Arm{arm("W1", "case-alg3", defaults, 16), arm("W1", "case-alg3", "age-limit=64,queue=fifo,room=0.1", 16)},
			[]string{"W1 under case-alg3:queue=largest-first,room=0 on local", "W1 under case-alg3:queue=fifo,room=0.1 on local"}},
		"parameters of another version": {[]Arm{arm("W1", "case-alg3", "queue=fifo", 16), arm("W1", "case-alg3", "queue=fifo,room=0", 16)},
			[]string{"W1 under case-alg3 on local", "W1 under case-alg3:room=0 on local"}},
		"none and some": {[]Arm{arm("W1", "cg", "", 16), arm("W1", "cg", "workers=2", 16)}, []string{"W1 under cg on local", "W1 under cg:workers=2 on local"}},
		"numbers of jobs": {[]Arm{arm("W1", "sa", "", 16), arm("W1", "sa", "", 4), arm("W2", "sa", "", 32)},
			[]string{"W1 (16 jobs) under sa on local", "W1 (4 jobs) under sa on local", "W2 under sa on local"}},
		"a probe alone": {[]Arm{static}, []string{"W1 under case-alg3:probe=static on local"}},
		"probes": {[]Arm{arm("W1", "case-alg3", "queue=fifo", 16), static, arm("W1", "case-alg3", "queue=sjf", 16), arm("W1", "sa", "", 16)},
			[]string{"W1 under case-alg3:queue=fifo,probe=lazy on local", "W1 under case-alg3:queue=fifo,probe=static on local",
				"W1 under case-alg3:queue=sjf,probe=lazy on local", "W1 under sa on local"}},
		"a batch and an open load": {[]Arm{arm("W1", "sa", "", 16), {Mix: "W1", Scheduler: "sa", Node: "local", Mode: Live, Jobs: 16, Open: true}},
			[]string{"W1 under sa on local", "W1 (open load) under sa on local"}},
		"node and trace": {[]Arm{simulated, traced}, []string{"W1 under sa on sim:4xV100, simulated", "W1 under sa on local, traced"}},
	} {
		var got []string
		var runs []Run
		for _, a := range c.arms {
			runs = append(runs, Run{Mix: a.Mix, Scheduler: a.Scheduler, Parameters: a.Parameters, Node: a.Node, Mode: a.Mode, Jobs: a.Jobs, Traced: a.Traced, Probe: a.Probe})
		}
		names := NamesOf(runs)
		for _, a := range c.arms {
			got = append(got, names.Of(a))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// An empty part of a scheduler's name may be an unset variable.
func TestHasEmptyPart(t *testing.T) {
	for name, want := range map[string]bool{"sa": false, "cg:workers=2": false, "exec:./p.py": false, "exec:./p.py,queue=fifo": false, "exec:path=a=b": false,
		"": true, ":": true, "sa:": true, "/": true, "/sa": true, "sa/": true, "cg:,": true, "cg:workers=2,": true, "cg:,workers=2": true, "cg:workers=": true, "cg:=2": true,
		"a:x=1,,y=2": true, ":workers=2": true, "cg@": true, "cg@mps": false} {
		if got := HasEmptyPart(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// Runs whose parameters differ only in what had no effect are repetitions of one arm.
func TestArmsWithoutParametersThatWent(t *testing.T) {
	old := ArmOf(Run{Scheduler: "vgpu", Parameters: "n=4,queue=mmu,references=safe,victims=1"})
	if now := ArmOf(Run{Scheduler: "vgpu", Parameters: "n=4,queue=mmu,victims=1"}); old != now {
		t.Errorf("arm %+v, and %+v of a run that was recorded before", now, old)
	}
	if a := ArmOf(Run{Scheduler: "other", Parameters: "references=safe"}); a.Parameters != "references=safe" {
		t.Errorf("arm %+v", a)
	}
}

// A run's record leaves out a parameter that has the value of earlier versions, and the user may name it.
func TestIsUnderWithParametersLeftOut(t *testing.T) {
	on, off := Arm{Scheduler: "vgpu", Parameters: "bursts=on,n=4"}, Arm{Scheduler: "vgpu", Parameters: "n=4"}
	for text, want := range map[string][2]bool{
		"vgpu": {true, true}, "vgpu:bursts=on": {true, false}, "vgpu:bursts=off": {false, true}, "vgpu:bursts=off,n=4": {false, true},
		"vgpu:n=2": {}, "demand:bursts=off": {},
	} {
		omitted := []string{"bursts=off", "isolate=none"}
		if got := [2]bool{on.IsUnder(text, omitted), off.IsUnder(text, omitted)}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// A name that the user gave stands for the scheduler with its parameters, also where another run of it has none. Others are told apart
// among themselves. A name of several arms is not used, and a note says so.
func TestChosenNames(t *testing.T) {
	fifo := Run{Mix: "W1", Scheduler: "case-alg3", Parameters: "age-limit=64,queue=fifo", Arm: "fifo"}
	largest := Run{Mix: "W1", Scheduler: "case-alg3", Parameters: "age-limit=64,queue=largest-first"}
	sjf := Run{Mix: "W1", Scheduler: "case-alg3", Parameters: "age-limit=64,queue=sjf"}
	static, unnamed, other, cg := fifo, fifo, sjf, Run{Mix: "W1", Scheduler: "cg", Parameters: "workers=8"}
	static.Probe, unnamed.Arm, other.Arm = Static, "", "fifo"
	asScheduler := fifo
	asScheduler.Arm = "cg" // stored before there was a scheduler of that name
	for name, c := range map[string]struct {
		runs  []Run
		want  []string
		notes int
	}{
		"beside its scheduler":   {[]Run{fifo, largest}, []string{"fifo", "case-alg3"}, 0},
		"beside several":         {[]Run{fifo, largest, sjf}, []string{"fifo", "case-alg3:queue=largest-first", "case-alg3:queue=sjf"}, 0},
		"with probes":            {[]Run{fifo, static, largest}, []string{"fifo:probe=lazy", "fifo:probe=static", "case-alg3"}, 0},
		"of an unnamed run":      {[]Run{unnamed, fifo}, []string{"fifo", "fifo"}, 0},
		"of several arms":        {[]Run{fifo, other, cg}, []string{"case-alg3:queue=fifo", "case-alg3:queue=sjf", "cg"}, 1},
		"of another scheduler":   {[]Run{asScheduler, cg}, []string{"case-alg3", "cg"}, 1},
		"given another later":    {[]Run{fifo, {Mix: "W1", Scheduler: "case-alg3", Parameters: fifo.Parameters, Arm: "first"}}, []string{"first", "first"}, 0},
		"without any":            {[]Run{cg, sjf}, []string{"cg", "case-alg3"}, 0},
		"of a probe with none":   {[]Run{static}, []string{"fifo:probe=static"}, 0},
		"beside no other at all": {[]Run{fifo}, []string{"fifo"}, 0},
	} {
		names := NamesOf(c.runs)
		var got []string
		for _, r := range c.runs {
			got = append(got, names.Scheduler(ArmOf(r)))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || len(names.Notes()) != c.notes {
			t.Errorf("%s: %s, notes %q", name, diff, names.Notes())
		}
	}
}

// Arms are in the order of their sweeps' plans, whatever the order of the runs. Runs outside of sweeps stand where they are.
func TestArmsInTheOrderGiven(t *testing.T) {
	in := func(sweep int64, mix, scheduler string, place Place) Run {
		r := Run{Mix: mix, Scheduler: scheduler, Place: place}
		if sweep > 0 {
			r.Sweep = &sweep
		}
		return r
	}
	names := NamesOf([]Run{
		in(1, "W7", "cg", Place{0, 1}), in(1, "W1", "sa", Place{1, 0}), in(1, "W7", "sa", Place{0, 0}),
		in(0, "W2", "vgpu", Place{}), in(2, "W1", "zero", Place{0, 1}), in(2, "W3", "cg", Place{1, 0}),
	}, []Run{in(0, "W0", "demand", Place{})})
	arms := slices.Values([]Arm{{Mix: "W0", Scheduler: "demand"}, {Mix: "W1", Scheduler: "zero"}, {Mix: "W1", Scheduler: "sa"}, {Mix: "W2", Scheduler: "vgpu"},
		{Mix: "W3", Scheduler: "cg"}, {Mix: "W7", Scheduler: "cg"}, {Mix: "W7", Scheduler: "sa"}, {Mix: "unknown"}})
	var got []string
	for _, a := range names.Sorted(arms) {
		got = append(got, a.Mix+" "+a.Scheduler)
	}
	want := []string{"W7 sa", "W7 cg", "W1 sa", "W1 zero", "W2 vgpu", "W3 cg", "W0 demand", "unknown "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A text selects arms by the user's name or by the scheduler, which means its arms without names, if it has some.
func TestArmsUnderANameOrScheduler(t *testing.T) {
	fifo := Run{Scheduler: "case-alg3", Parameters: "age-limit=64,queue=fifo", Arm: "fifo"}
	aged := Run{Scheduler: "case-alg3", Parameters: "age-limit=8,queue=fifo", Arm: "aged"}
	plain := Run{Scheduler: "case-alg3", Parameters: "age-limit=64,queue=sjf"}
	none := func(string) []string { return nil }
	for _, c := range []struct {
		runs []Run
		text string
		want []bool
	}{
		{[]Run{fifo, aged, plain}, "fifo", []bool{true, false, false}},
		{[]Run{fifo, aged, plain}, "case-alg3", []bool{false, false, true}},
		{[]Run{fifo, aged}, "case-alg3", []bool{true, true}},
		{[]Run{fifo, aged, plain}, "case-alg3:queue=fifo", []bool{true, true, false}},
		{[]Run{fifo, aged, plain}, "fifo:age-limit=64,probe=lazy", []bool{true, false, false}},
		{[]Run{fifo, aged, plain}, "fifo:age-limit=8", []bool{false, false, false}},
		{[]Run{fifo, aged, plain}, "other", []bool{false, false, false}},
	} {
		under := NamesOf(c.runs).Under(c.text, none)
		for i, r := range c.runs {
			if got := under(ArmOf(r)); got != c.want[i] {
				t.Errorf("%s of %d: %v for %s", c.text, len(c.runs), got, r.Arm)
			}
		}
	}
}
