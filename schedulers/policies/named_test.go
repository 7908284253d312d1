package policies_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers/policies"
)

// A name changes nothing of the scheduler that it is for.
func TestNamedSchedulers(t *testing.T) {
	for text, want := range map[string][2]string{
		"fifo:=case-alg3:queue=fifo": {"case-alg3", "fifo"},
		"8.workers+1_x-:=cg":         {"cg", "8.workers+1_x-"},
		"grün:=sa":                   {"sa", "grün"},
		"sa:=sa":                     {"sa", ""},
		"mine:=exec:./a:=b.py":       {"exec", "mine"},
		"exec:./a:=b.py":             {"exec", ""},
	} {
		s, err := policies.Parse(text, 4)
		if err != nil || s.Name != want[0] || s.Arm != want[1] {
			t.Errorf("%s: %s named %q, %v", text, s.Name, s.Arm, err)
		}
	}
	for text, says := range map[string]string{
		":=sa":                            "a name stands before :=",
		"fifo:=":                          "a scheduler follows :=, as in fifo:=",
		"fi fo:=sa":                       `the name "fi fo": want letters, digits`,
		"a/b:=sa":                         "want letters, digits",
		"-a:=sa":                          "a letter or a digit first",
		"cg:=sa":                          "cg is the name of a scheduler: choose another name, such as my-cg",
		"CG:=sa":                          "CG is the name of a scheduler: choose another name, such as my-CG",
		"sa:=sa:queue=sjf":                "sa is the name of a scheduler",
		"a:=b:=sa":                        "it has two names",
		strings.Repeat("x", 41) + ":=sa":  "the name is of 41 characters: want 40 at most",
		"fifo:=case-alg4":                 "unknown scheduler \"case-alg4\"",
		"fifo=case-alg3:queue=fifo":       "a name takes :=, as in fifo:=case-alg3:queue=fifo",
		"sa:fifo=case-alg3:queue=fifo":    "a name takes :=, as in fifo:=case-alg3:queue=fifo",
		"case-alg3:age-limit=1/8":         "several values make several arms, which only caserun sweep takes: give one",
		"case-alg3:queue=sjf:age-limit=8": "parameters follow after a comma: write queue=sjf,age-limit=8",
		"case-alg3:queue=a/b:room=0.1/1":  "parameters follow after a comma",
	} {
		if _, err := policies.Parse(text, 4); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	for _, c := range [][3]string{{"a:=sa", "queue=sjf", "a:=sa:queue=sjf"}, {"a:=cg:workers=2", "isolate=known", "a:=cg:workers=2,isolate=known"}} {
		if got := policies.With(c[0], c[1]); got != c[2] {
			t.Errorf("%s with %s is %s", c[0], c[1], got)
		}
	}
	if got := policies.InFolder("d", "a:=exec:./p.py,queue=fifo"); got != "a:=exec:path=d/p.py,queue=fifo" {
		t.Errorf("in a folder: %s", got)
	}
	if s, err := policies.ParseStored("v:=vgpu:references=safe,n=8", 4); err != nil || s.Arm != "v" {
		t.Errorf("a parameter that went, with a name: %q, %v", s.Arm, err)
	}
}

// Several values of a parameter are several schedulers, those of several parameters all combinations in order.
func TestSpread(t *testing.T) {
	for text, want := range map[string][]string{
		"sa":                              {"sa"},
		"case-alg3:queue=fifo":            {"case-alg3:queue=fifo"},
		"cg:workers=6/8/10":               {"cg:workers=6", "cg:workers=8", "cg:workers=10"},
		"x:=cg:workers=6/8":               {"x-6:=cg:workers=6", "x-8:=cg:workers=8"},
		"exec:./a/b.py,queue=fifo":        {"exec:./a/b.py,queue=fifo"},
		"exec:./a/b.py,queue=fifo/sjf":    {"exec:./a/b.py,queue=fifo", "exec:./a/b.py,queue=sjf"},
		"exec:queue=fifo/sjf,path=a/b.py": {"exec:queue=fifo,path=a/b.py", "exec:queue=sjf,path=a/b.py"},
		"y:=case-alg3:room=0.1,queue=fifo/sjf,age-limit=1/8": {
			"y-fifo-1:=case-alg3:room=0.1,queue=fifo,age-limit=1", "y-fifo-8:=case-alg3:room=0.1,queue=fifo,age-limit=8",
			"y-sjf-1:=case-alg3:room=0.1,queue=sjf,age-limit=1", "y-sjf-8:=case-alg3:room=0.1,queue=sjf,age-limit=8"},
		"unknown:a=1/2": {"unknown:a=1/2"}, // Parse refuses it
	} {
		if got, err := policies.Spread(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"cg:workers=6/": "want values that differ with one / between two", "cg:workers=/6": "want values", "cg:workers=6//8": "want values", "cg:workers=6/6": "want values that differ",
		"case-alg3:age-limit=" + numbers(17) + ",room=" + numbers(16): "it stands for more than 256 arms: give fewer values, or make several sweeps",
	} {
		if got, err := policies.Spread(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// numbers are as many values of a parameter.
func numbers(n int) string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(i))
	}
	return strings.Join(out, policies.ScanSign)
}
