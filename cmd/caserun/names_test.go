package main

import (
	"os"
	"strings"
	"testing"
)

// Names that look the same are the same: Unicode writes ü in two ways, and keyboards and file systems differ in it.
func TestNamesThatLookTheSameAreTheSame(t *testing.T) {
	inTempDir(t)
	const composed, apart = "n\u00fct", "nu\u0308t"
	if err := os.WriteFile(apart+".yaml", []byte("jobs: [{job: bfs-32M, name: "+apart+"}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("other.yaml", []byte("name: "+composed+"\njobs: [bfs-32M]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "mix", apart+".yaml", "--node", "sim:1xV100", "--tag", apart)
	for _, spelling := range []string{composed, apart} {
		for _, args := range [][]string{{"report", "--tag", spelling}, {"report", "--mix", spelling}, {"export", "--tag", spelling, "--benchfmt", "-"}} {
			if out, _ := mustRun(t, args...); !strings.Contains(out, composed) || strings.Contains(out, apart) {
				t.Errorf("caserun %+q: %s", args, out)
			}
		}
	}
	args := []string{"sweep", "--mixes", apart + ".yaml,other.yaml", "--scheds", "sa", "--node", "sim:1xV100"}
	if status, _, errs := caserun(t, args...); status != exitUsage || !strings.Contains(errs, "are both called "+composed) {
		t.Errorf("two mixes of one name: exit %d: %s", status, errs)
	}
}

// An item of a list that is empty is that of a variable that is not set too.
func TestEmptyItemsOfListsAreRefused(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,cg", "--reps", "1")
	for _, args := range [][]string{
		{"compare", "latest", "--metrics", "throughput,"}, {"regress", "--baseline", "1", "--candidate", "2", "--only", ","}, {"paper", "--sweep", "1,"}, {"paper", "--sweep", ",1"},
		{"sweep", "--mixes", "W1,", "--scheds", "sa", "--node", "sim:1xV100"}, {"sweep", "--mixes", "W1", "--scheds", "sa,,cg", "--node", "sim:1xV100"},
		{"sweep", "--mixes", "W1", "--scheds", "sa", "--probes", "lazy,", "--node", "sim:1xV100"}, {"regress", "--baseline", "1", "--candidate", "2", "--max-regression", "throughput=3%,"},
		{"report", "--sweep", "01"}, {"report", "01"}, {"report", "+1"}, {"sweep", "show", "01"}, {"replay", "01"}, {"compare", "sweep:01"},
	} {
		if status, out, errs := caserun(t, args...); status != exitUsage || out != "" {
			t.Errorf("caserun %q: exit %d: %s%s", args, status, errs, out)
		}
	}
}
