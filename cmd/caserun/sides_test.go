package main

import (
	"errors"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/caserun/caserun/cmd/caserun/config"
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

// Arms of one scheduler have names that a side takes.
func TestParametersTellArmsApart(t *testing.T) {
	inTempDir(t)
	const scheds = "sa,cg:workers=2,cg:workers=4,case-alg3"
	simulate(t, "--scheds", scheds, "--reps", "4")
	simulate(t, "--scheds", scheds, "--reps", "4", "--seed", "2")
	for _, args := range [][]string{{"compare", "sweep:1", "sweep:2"}, {"regress", "--baseline", "sweep:1", "--candidate", "sweep:2", "--report-junit", "gate.xml"}} {
		_, out, errs := caserun(t, args...)
		for _, name := range []string{"W1   sa ", "W1   cg:workers=2 ", "W1   cg:workers=4 ", "W1   case-alg3 "} {
			if !strings.Contains(out, name) {
				t.Errorf("%v: no %q in\n%s%s", args, name, out, errs)
			}
		}
	}
	if text, err := os.ReadFile("gate.xml"); err != nil || strings.Count(string(text), ` name="W1 under cg:workers=2 on sim:2xP100, simulated"`) != 1 {
		t.Errorf("JUnit suites (%v):\n%s", err, text)
	}
	for _, sides := range [][]string{{"sweep:1/sa", "sweep:1/cg"}, {"sweep:1/cg", "sweep:1/sa"}} {
		status, _, errs := caserun(t, "compare", sides[0], sides[1])
		_, hint, found := strings.Cut(strings.TrimSpace(errs), "name one scheduler, as in sweep:3/")
		if status != exitUsage || !found {
			t.Fatalf("compare %v: exit %d: %s", sides, status, errs)
		}
		status, _, errs = caserun(t, "compare", strings.Replace(sides[0], "cg", hint, 1), strings.Replace(sides[1], "cg", hint, 1))
		if status != exitOK {
			t.Errorf("compare %v with %s for cg: exit %d: %s", sides, hint, status, errs)
		}
	}
}

// Runs with different settings are one arm's, which every output of it says; the arm
// with the default parameters is what is left beside one that is named.
func TestArmsOfDifferentSettings(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "4", "--tag", "w")
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "4", "--tag", "w", "--workers", "3", "--seed", "2")
	const differ = `have different settings (workers: "16" and "3")`
	for _, args := range [][]string{{"compare", "w/sa", "w/case-alg3", "-v"}, {"regress", "--baseline", "w/sa", "--candidate", "w/case-alg3", "-v"},
		{"paper", "--tag", "w", "-v"}, {"report", "--html", "-"}} {
		_, out, errs := caserun(t, args...)
		if text := html.UnescapeString(out + errs); !strings.Contains(text, differ) {
			t.Errorf("%v lacks %q:\n%s", args, differ, text)
		}
	}
	if _, out, errs := caserun(t, "export", "--benchfmt", "-"); strings.Count(out, "\nworkers: 3\n") != 1 {
		t.Errorf("the Go benchmark format has not the workers of one sweep: %s\n%s", errs, out)
	}
	simulate(t, "--scheds", "case-alg3,case-alg3:queue=fifo", "--reps", "4")
	status, out, errs := caserun(t, "compare", "latest/case-alg3", "latest/case-alg3:queue=fifo", "-v")
	if status != exitOK || !strings.Contains(out, "case-alg3:queue=largest-first → case-alg3:queue=fifo") {
		t.Errorf("the default arm with the other: exit %d: %s\n%s", status, errs, out)
	}
}

// A mix that says something else of its jobs is another one.
func TestMixThatIsSaidOtherwise(t *testing.T) {
	inTempDir(t)
	for i, more := range []string{"", ", isolate: true"} {
		text := "name: R\njobs:\n  - {job: srad_v1-11000, count: 2" + more + "}\n"
		if err := os.WriteFile("r.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		status, _, errs := caserun(t, "sweep", "--mixes", "r.yaml", "--scheds", "case-alg3", "--node", "sim:1xV100", "--sim-noise", "0.01", "--reps", "7", "--tag", fmt.Sprintf("n%d", i))
		if status != exitOK {
			t.Fatalf("exit %d: %s", status, errs)
		}
	}
	status, out, _ := caserun(t, "regress", "--baseline", "n0", "--candidate", "n1", "-v")
	if status != exitRegression || !strings.Contains(out, "  environment  ") || !strings.Contains(out, "with the same commands") {
		t.Errorf("exit %d:\n%s", status, out)
	}
}

// A tag of digits is found where no run has that number.
func TestTagsThatAreNumbers(t *testing.T) {
	inTempDir(t)
	for i, tag := range []string{"20261120", "20261121", "3", "latest"} {
		simulate(t, "--scheds", "sa", "--reps", "7", "--seed", fmt.Sprint(i+1), "--tag", tag)
	}
	for _, c := range []struct {
		baseline, candidate string
		status              int
		says                string
	}{
		{"20261120", "20261121", exitOK, "all 3 checks pass"},
		{"20261120", "tag:3", exitOK, "all 3 checks pass"},
		{"20261120", "tag:latest", exitOK, "all 3 checks pass"},
		{"20261120", "3", exitNothing, "3 is run 3 here: tag:3 means the runs with that tag"},
		{"20261120", "4", exitNothing, ""},
		{"20261122", "20261121", exitUsage, "no run has the number or the tag 20261122"},
		{"sweep:night", "20261121", exitUsage, `"sweep:night": want the number of a run, sweep:N, latest, or tag:TEXT for any tag`},
	} {
		status, out, errs := caserun(t, "regress", "--baseline", c.baseline, "--candidate", c.candidate)
		if status != c.status || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s against %s: exit %d, want %d with %q:\n%s%s", c.candidate, c.baseline, status, c.status, c.says, out, errs)
		}
		if c.says == "" && strings.Contains(out, "here: tag:") {
			t.Errorf("no run has the tag %s:\n%s", c.candidate, out)
		}
	}
}

func TestTagsThatAreNoText(t *testing.T) {
	for tag, ok := range map[string]bool{"": true, "nightly-2026-11-21": true, "Nächtlich 3": true, "a\xff": false, "a\nb": false, "a ": false, "a\u200b": false, "\x1b[31m": false} {
		if err := config.Check("tag", tag); (err == nil) != ok {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
	inTempDir(t)
	status, _, errs := caserun(t, "mix", "W1", "--node", "sim:4xV100", "--tag", "a\nb")
	if _, err := os.Stat("caserun.db"); status != exitUsage || err == nil || !strings.Contains(errs, `tag "a\nb": want one line of text that can be seen`) {
		t.Errorf("exit %d: %s", status, errs)
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
		if err := errors.Join(s.ClaimSweep(t.Context(), id, "host", 1, note), s.EndSweep(t.Context(), id, "host", 1, results.Interrupted)); err != nil {
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
