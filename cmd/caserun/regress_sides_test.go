package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// A mix of the user's keeps the name of the catalog's that it was made from, and
// need not be it.
func TestMixesOfOneNameAreToldApart(t *testing.T) {
	inTempDir(t)
	status, w1, errs := caserun(t, "mixes", "show", "W1", "--yaml")
	if status != exitOK {
		t.Fatal(errs)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("mine.yaml", strings.Replace(w1, "- srad_v2-8192", "- needle-32768", 1)) // as many jobs
	write("same.yaml", w1)
	sweep := func(mix, tag string) {
		t.Helper()
		if status, _, errs := caserun(t, "sweep", "--mixes", mix, "--scheds", "sa", "--reps", "5", "--node", "sim:4xV100", "--sim-noise", "0.01", "--tag", tag); status != exitOK {
			t.Fatalf("%s: exit %d: %s", mix, status, errs)
		}
	}
	sweep("W1", "catalog")
	sweep("mine.yaml", "mine")
	sweep("same.yaml", "same")

	const jobs = "different jobs: catalog with srad_v2/srad 8192 8192 0 127 0 127 0.5 2 and mine.yaml"
	_, out, _ := caserun(t, "compare", "catalog", "mine")
	if !strings.Contains(out, jobs) {
		t.Errorf("compare does not say that the jobs differ:\n%s", out)
	}
	_, out, _ = caserun(t, "regress", "--baseline", "catalog", "--candidate", "mine")
	if !strings.Contains(out, jobs) {
		t.Errorf("regress does not say that the jobs differ:\n%s", out)
	}
	_, out, _ = caserun(t, "compare", "catalog", "same")
	if strings.Contains(out, "different jobs") || !strings.Contains(out, "the mixes called W1 have the same commands and come from different places: catalog and same.yaml") {
		t.Errorf("compare of the same jobs from another place:\n%s", out)
	}
	if status, out, errs = caserun(t, "report", "--html", "-"); status != exitOK || !strings.Contains(out, "different mixes of this name (sources: catalog and mine.yaml and same.yaml, lists of commands: 2)") {
		t.Errorf("the page does not say that the jobs differ: exit %d %s", status, errs)
	}
	status, out, _ = caserun(t, "paper", "--tag", "mine")
	if status != exitNothing || !strings.Contains(out, "W1, 16 jobs, from mine.yaml") {
		t.Errorf("paper takes a mix of the user's for its own: exit %d\n%s", status, out)
	}
	if status, out, _ = caserun(t, "paper", "--tag", "catalog"); status != exitOK {
		t.Errorf("paper with the catalog's mix: exit %d\n%s", status, out)
	}
}

// A tag says what its sweeps say, and that they are several.
func TestATagHasTheNotesOfItsSweeps(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "base")
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "night", "--seed", "2")
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "night", "--seed", "3")
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "a/b", "--seed", "4")
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	for id, note := range map[int64]string{2: "from run 9 on by another build", 4: "from run 25 on by another build"} {
		if err := errors.Join(s.ClaimSweep(t.Context(), id, "host", 1, note), s.ReleaseSweep(t.Context(), id, results.Interrupted)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		side string
		says []string
	}{
		{"night", []string{"sweep 2 is interrupted: some of its runs are missing", "sweep 2: from run 9 on by another build", "tag night covers sweeps 2 and 3"}},
		{"tag:night/sa", []string{"sweep 2 is interrupted: some of its runs are missing", "tag night covers sweeps 2 and 3"}},
		{"a/b", []string{"sweep 4 is interrupted: some of its runs are missing", "sweep 4: from run 25 on by another build"}},
		{"sweep:3", nil},
	} {
		_, out, errs := caserun(t, "regress", "--baseline", "base", "--candidate", c.side)
		for _, says := range c.says {
			if strings.Count(out, says) != 1 {
				t.Errorf("regress of %s must say %q once:\n%s%s", c.side, says, out, errs)
			}
		}
		if c.says == nil && (strings.Contains(out, "interrupted") || strings.Contains(out, "covers")) {
			t.Errorf("regress of %s:\n%s", c.side, out)
		}
	}
}
