package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A mix of the catalog is found by its name in any case, as it is run; one of the
// user's own that has such a name goes before it.
func TestFiltersFindMixesAsTheyAreRun(t *testing.T) {
	inTempDir(t)
	simulate(t, "--mixes", "w2", "--scheds", "sa,cg:workers=8", "--reps", "1")
	mixesOf := func(args ...string) string {
		t.Helper()
		status, out, errs := caserun(t, append(args, "--format", "csv")...)
		if status != exitOK {
			t.Fatalf("%v: exit %d: %s", args, status, errs)
		}
		var names []string
		for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
			names = append(names, strings.Split(line, ",")[2]+" "+strings.Split(line, ",")[3])
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	if got := mixesOf("report", "--mix", "w1"); got != "W1 cg, W1 sa" {
		t.Errorf("--mix w1: %s", got)
	}
	if status, out, errs := caserun(t, "export", "--benchfmt", "-", "--mix", "w2"); status != exitOK || strings.Count(out, "/mix=W2/") != 2 || strings.Contains(out, "/mix=W1/") {
		t.Errorf("export --mix w2: exit %d: %s%s", status, errs, out)
	}
	if err := os.WriteFile("w1.wl", []byte("/opt/rodinia/needle 16384 10\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "mix", "w1.wl", "--node", "sim:1xV100", "--sched", "zero"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	if got := mixesOf("report", "--mix", "w1"); got != "w1 zero" {
		t.Errorf("--mix w1 with a mix of that name: %s", got)
	}
	for _, command := range []string{"report --sched cg:workers=8", "export --markdown - --sched cg:workers=8"} {
		if status, out, errs := caserun(t, strings.Fields(command)...); status != exitUsage || out != "" || !strings.Contains(errs, "--sched cg:workers=8: want a scheduler's name alone, such as cg") {
			t.Errorf("caserun %s: exit %d: %s%s", command, status, errs, out)
		}
	}
}
