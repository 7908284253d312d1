package policies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

func TestParametersAreCanonical(t *testing.T) {
	const caseDefaults = "age-limit=64,managed=fit,queue=largest-first,room=0,wait-limit=0s"
	for _, c := range []struct{ text, want string }{
		{"sa", ""},
		{"zero", ""},
		{"cg", "workers=8"},
		{"cg:workers=0", "workers=8"},
		{"cg:workers=6", "workers=6"},
		{"case-alg2", caseDefaults},
		{"case-alg3", caseDefaults},
		{"case-alg3:queue=fifo,age-limit=7", "age-limit=7,managed=fit,queue=fifo,room=0,wait-limit=0s"},
		{"case-alg3:room=0.10,managed=exceed", "age-limit=64,managed=exceed,queue=largest-first,room=0.1,wait-limit=0s"},
		{"case-alg3:age-limit=7,queue=fifo,wait-limit=0", "age-limit=7,managed=fit,queue=fifo,room=0,wait-limit=0s"},
		{"schedgpu", "age-limit=0,device=0,managed=fit,queue=mmu,room=0,wait-limit=0s"},
		{"schedgpu:wait-limit=90s,device=3", "age-limit=0,device=3,managed=fit,queue=mmu,room=0,wait-limit=1m30s"},
		{"case-alg3:isolate=none", caseDefaults},
		{"case-alg3:isolate=known", "age-limit=64,isolate=known,managed=fit,queue=largest-first,room=0,wait-limit=0s"},
		{"cg:isolate=known", "isolate=known,workers=8"},
		{"sa:queue=fifo,age-limit=0", ""},
		{"sa:queue=sjf,age-limit=9", "age-limit=9,queue=sjf"},
		{"schedgpu:arch=server", "age-limit=0,device=0,managed=fit,queue=mmu,room=0,wait-limit=0s"},
		{"schedgpu:arch=shared", "age-limit=0,arch=shared,device=0,managed=fit,queue=mmu,room=0,wait-limit=0s"},
		{"vgpu", "age-limit=64,n=4,queue=mmu,victims=1,wait-limit=0s"},
		{"vgpu:n=8,victims=0", "age-limit=64,n=8,queue=mmu,victims=0,wait-limit=0s"},
		{"demand", "age-limit=64,queue=mmu,wait-limit=0s,wait=10s"},
		{"demand:bursts=off", "age-limit=64,queue=mmu,wait-limit=0s,wait=10s"},
		{"vgpu:bursts=on", "age-limit=64,bursts=on,n=4,queue=mmu,victims=1,wait-limit=0s"},
		{"schedgpu:wait-limit=1.5m,device=3", "age-limit=0,device=3,managed=fit,queue=mmu,room=0,wait-limit=1m30s"},
	} {
		s, err := policies.Parse(c.text, 4)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := s.Parameters()
		if got != c.want {
			t.Errorf("%s: parameters %q, want %q", c.text, got, c.want)
		}
		again, err := policies.Parse(policies.With(s.Name, got), 4)
		if err != nil || again.Parameters() != got {
			t.Errorf("%s: canonical text %q reads back as %q, %v", c.text, got, again.Parameters(), err)
		}
	}
}

// A parameter that had no effect is left out of what runs and sweeps have stored.
func TestParametersThatWent(t *testing.T) {
	for text, want := range map[string]string{
		"vgpu:age-limit=64,n=4,queue=mmu,references=safe,victims=1,wait-limit=0s": "age-limit=64,n=4,queue=mmu,victims=1,wait-limit=0s",
		"vgpu:references=complete":                    "age-limit=64,n=4,queue=mmu,victims=1,wait-limit=0s",
		"demand:age-limit=64,queue=mmu,wait-limit=0s": "age-limit=64,queue=mmu,wait-limit=0s,wait=10s",
	} {
		s, err := policies.ParseStored(text, 4)
		if err != nil || s.Parameters() != want {
			t.Errorf("%s: parameters %s, error %v; want %s", text, s.Parameters(), err, want)
		}
	}
	if _, err := policies.ParseStored("demand:references=safe", 4); err == nil {
		t.Error("demand never had references")
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `unknown scheduler "": use one of `},
		{"./good.py", `unknown scheduler "./good.py": for a program of yours, write exec:./good.py`},
		{"good.py:timeout=2s", `unknown scheduler "good.py": for a program of yours, write exec:./good.py`},
		{"exec:./good.py:timeout=2s", `path="./good.py:timeout=2s": parameters follow after a comma: exec:./good.py,timeout=2s`},
		{"exec:path=./good.py:queue=fifo", `parameters follow after a comma: exec:./good.py,queue=fifo`},
		{"CASE", `unknown scheduler "CASE"`},
		{"zero:queue=fifo", `scheduler zero: parameter "queue=fifo": want key=value with a key of none (it has no parameters)`},
		{"case-alg3:ages=3", "with a key of queue, age-limit, wait-limit, room, managed, isolate"},
		{"case-alg3:queue", `parameter "queue"`},
		{"case-alg3:queue=lifo", `unknown queue order "lifo": use one of fifo, mmu, largest-first, priority-fifo, priority-mmu`},
		{"case-alg3:age-limit=-1", "age-limit=-1: want a whole number of 0 or more"},
		{"schedgpu:arch=peer", "scheduler schedgpu: arch=peer: use server or shared"},
		{"case-alg3:arch=shared", `parameter "arch=shared": want key=value`},
		{"case-alg3:age-limit=3,age-limit=4", "age-limit is given twice"},
		{"case-alg3:wait-limit=-1s", "wait-limit=-1s: want a duration"},
		{"case-alg3:wait-limit=90", "wait-limit=90: want a duration"},
		{"case-alg3:room=1", "room=1: want a share of a device from 0 to below 1"},
		{"case-alg2:room=-0.1", "room=-0.1: want a share"},
		{"schedgpu:room=NaN", "room=NaN: want a share"},
		{"schedgpu:room=10%", "room=10%: want a share"},
		{"case-alg2:managed=yes", "managed=yes: use fit or exceed"},
		{"case-alg3:isolate=all", "scheduler case-alg3: isolate=all: use none or known"},
		{"vgpu:references=safe", `scheduler vgpu: parameter "references=safe": references went, because it had no effect: leave it out`},
		{"vgpu:n=0", "scheduler vgpu: n=0: want a whole number of 1 or more"},
		{"demand:bursts=yes", "scheduler demand: bursts=yes: use on or off"},
		{"vgpu:victims=2", "scheduler vgpu: victims=2: use 1, or 0 for as many as it takes"},
		{"cg:workers=-1", "workers=-1: want a whole number of 0 or more"},
		{"cg:workers=many", "workers=many: want a whole number"},
		{"schedgpu:device=4", "device=4: the node has devices 0 to 3"},
		{"cg:", `scheduler "cg:": no parameter after the colon`},
		{"exec:", `scheduler "exec:": no parameter after the colon`},
		{"case-alg3:,", `scheduler "case-alg3:,": a parameter is empty`},
		{"case-alg3:queue=fifo,", `scheduler "case-alg3:queue=fifo,": a parameter is empty`},
		{"case-alg3:,queue=fifo", "a parameter is empty"},
		{"case-alg3:queue=fifo,,age-limit=7", "a parameter is empty"},
		{"case-alg3:queue=", `scheduler "case-alg3:queue=": queue has no value`},
		{"exec:./p,sha256=", "sha256 has no value"},
		{"exec:path=", "path has no value"},
		{"case-alg3:room=1e-1", "room=1e-1: want a share"},
		{"case-alg3:room=.1", "room=.1: want a share"},
		{"plan:weight=1e-1", "weight=1e-1: want a plain decimal number"},
		{"plan:queue=sjf", "queue=sjf: a plan is an order of its own: use one of fifo, mmu, largest-first, priority-fifo, priority-mmu, which count where nothing is planned"},
		{"plan:queue=deadline", "queue=deadline: a plan is an order of its own"},
		{"plan:queue=credits", "queue=credits: a plan is an order of its own"},
		{"schedgpu:arch=shared,queue=sjf", "queue=sjf: clients that decide for themselves know no such rule: choose one of the paper's four policies"},
		{"schedgpu:arch=shared,queue=credits", "queue=credits: clients that decide"},
		{"sa:queue=edf", `unknown queue order "edf": use one of fifo, mmu, largest-first, priority-fifo, priority-mmu, sjf, deadline, credits`},
		{"plan:error=.5", "error=.5: want a plain decimal number"},
		{"plan:candidates=alg3+", `candidates="alg3+": use one or more`},
		{"cg:workers=0x8", "workers=0x8: want a whole number"},
		{"case-alg3:wait-limit=.5s", "wait-limit=.5s: want a duration"},
	} {
		_, err := policies.Parse(c.text, 4)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func TestClientsDecideUnderTheSharedArchitectureAlone(t *testing.T) {
	for text, want := range map[string]bool{"schedgpu:arch=shared": true, "schedgpu:arch=server": false, "schedgpu": false, "case-alg3": false, "sa": false} {
		if s, err := policies.Parse(text, 1); err != nil || s.ClientsDecide != want {
			t.Errorf("%s: clients decide: %v, %v; want %v", text, s.ClientsDecide, err, want)
		}
	}
}

// Clients that decide know only what schedGPU's paper has.
func TestSharedArchitectureHasOnlyWhatIsPublished(t *testing.T) {
	for _, parameter := range []string{"queue=largest-first", "age-limit=3", "room=0.1", "managed=exceed", "isolate=known"} {
		if _, err := policies.Parse("schedgpu:arch=shared,"+parameter, 1); err == nil || !strings.Contains(err.Error(), parameter) {
			t.Errorf("%s: error %v", parameter, err)
		}
	}
	s, err := policies.Parse("schedgpu:arch=shared,device=2,queue=priority-mmu,wait-limit=3s", 4)
	if err != nil || s.SharedDevice != 2 {
		t.Errorf("device %d, %v", s.SharedDevice, err)
	}
}

func TestAllDescribesEverySchedulerInOrder(t *testing.T) {
	describesAll(t)
	t.Run("with one more", func(t *testing.T) {
		policies.RegisterExample(t)
		describesAll(t)
	})
}

// describesAll says nothing about schedulers that it does not know: who adds one need not change it.
func describesAll(t *testing.T) {
	t.Helper()
	type nature struct {
		binds  policies.Binding
		shares bool
	}
	want := map[string]nature{
		"case-alg2": {policies.BindsTask, true}, "case-alg3": {policies.BindsTask, true}, "cg": {policies.BindsJob, true},
		"sa": {policies.BindsJob, false}, "schedgpu": {policies.BindsTask, true}, "zero": {policies.BindsTask, true},
		"demand": {policies.BindsTask, true}, "vgpu": {policies.BindsTask, true},
	}
	var names []string
	for _, info := range enginetest.Policies() {
		names = append(names, info.Name)
		if info.Rule == "" || info.Source == "" {
			t.Errorf("%s: rule %q, source %q", info.Name, info.Rule, info.Source)
		}
		if s, err := policies.Parse(info.Name, 4); err != nil {
			t.Error(err)
		} else if _, preempts := s.Policy.(schedulers.Preempter); preempts != info.Revokes {
			t.Errorf("%s takes back: %v, and says %v", info.Name, preempts, info.Revokes)
		}
		if n, known := want[info.Name]; known && n != (nature{info.Binds, info.Shares}) {
			t.Errorf("%s binds each %s and shares devices: %v, want %v", info.Name, info.Binds, info.Shares, n)
		}
		delete(want, info.Name)
	}
	if len(want) > 0 || !slices.IsSorted(names) {
		t.Errorf("registered: %q, without %v", names, want)
	}
}

// A parameter's number has one spelling.
func TestSpellingsOfParameters(t *testing.T) {
	for _, text := range []string{"cg:workers=08", "cg:workers=+8", "cg:workers=0x8", "cg:workers=1_0", "case-alg3:age-limit=08", "case-alg3:room=0x1p-3", "case-alg3:room=+0.1", "case-alg3:room=00.1",
		"schedgpu:wait-limit=+5s", "schedgpu:wait-limit=05s", "vgpu:n=08", "plan:learn=off,error=0_1", "cg:workers="} {
		if s, err := policies.Parse(text, 4); err == nil {
			t.Errorf("%s is read as %v", text, s.Params)
		}
	}
}
