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
		if status, out, errs := caserun(t, strings.Fields(command)...); status != exitUsage || out != "" || !strings.Contains(errs, "--sched cg:workers=8: want the name of a scheduler or of an arm alone, such as cg") {
			t.Errorf("caserun %s: exit %d: %s%s", command, status, errs, out)
		}
	}
}

// The list of runs says which sweep and which tag a run has, in as many columns as ever.
func TestReportNamesSweepAndTag(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "1", "--tag", "nightly-2026-11-21")
	simulate(t, "--scheds", "cg", "--reps", "1")
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:2xP100", "--sched", "schedgpu"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	_, out := onTerminal(t, 100, "report")
	lines := strings.Split(out, "\n")
	rows := map[string]string{}
	for _, line := range lines {
		if len([]rune(line)) > 100 {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
		if fields := strings.Fields(line); len(fields) > 4 {
			rows[fields[2]] = strings.Join(fields[len(fields)-2:], " ")
		}
	}
	for sched, want := range map[string]string{"sa": "1 nightly-2026-11-21", "case-alg3": "1 nightly-2026-11-21", "cg": "2 -", "schedgpu": "- -"} {
		if rows[sched] != want {
			t.Errorf("sweep and tag of the run under %s: %q, want %q:\n%s", sched, rows[sched], want, out)
		}
	}
	if lines[0] != "SIMULATED runs on sim:2xP100" {
		t.Errorf("title: %q", lines[0])
	}
	if _, one, _ := caserun(t, "report", "1"); !strings.Contains(one, "\nsweep                1\n") || !strings.Contains(one, "\ntag                  nightly-2026-11-21\n") {
		t.Errorf("a run of a sweep with a tag:\n%s", one)
	}
	if _, one, _ := caserun(t, "report", "latest"); strings.Contains(one, "\nsweep ") || strings.Contains(one, "\ntag ") {
		t.Errorf("a run without either:\n%s", one)
	}
	if _, csv, _ := caserun(t, "report", "1", "--format", "csv"); !strings.Contains(csv, ",sweep_id,tag,") {
		t.Errorf("as csv:\n%s", csv)
	}
}
