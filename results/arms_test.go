package results

import (
	"reflect"
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
		"node and trace": {[]Arm{simulated, traced}, []string{"W1 under sa on sim:4xV100, simulated", "W1 under sa on local, traced"}},
	} {
		var got []string
		for _, a := range c.arms {
			got = append(got, Names(c.arms).Of(a))
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
		"a:x=1,,y=2": true, ":workers=2": true} {
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
