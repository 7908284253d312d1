package main

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/store"
)

// A misspelt variable is said, once, with the setting that may be meant.
func TestVariablesThatAreNoSettings(t *testing.T) {
	inTempDir(t)
	for name, hint := range map[string]string{
		"NODES":    "did you mean CASERUN_NODE?",
		"MEMCAP":   "did you mean CASERUN_MEM_CAP?",
		"FAVORITE": "caserun help environment lists all settings",
	} {
		t.Setenv("CASERUN_"+name, "x")
		want := "caserun: unknown setting CASERUN_" + name + " (ignored): " + hint + "\n"
		for _, args := range []string{"mixes list", "mix --show-config", "sweep --mixes W1 --scheds sa --node sim:1xV100 --reps 1"} {
			if status, _, errs := caserun(t, strings.Fields(args)...); status != exitOK || strings.Count(errs, want) != 1 {
				t.Errorf("caserun %s: exit %d, want %q once: %s", args, status, want, errs)
			}
		}
	}
}

// What is a setting, or the program's or its tests' own, is not warned of.
func TestVariablesThatAreKnown(t *testing.T) {
	var environment []string
	for _, name := range config.Variables() {
		environment = append(environment, name+"=x")
	}
	environment = append(environment, "CASERUN_CONFIG=x", "CASERUN_LIBCASE=x", mainEnv+"=1", store.KillVariable+"=run-begun:9",
		"CASERUN_REQUIRE_GPU=1", "CASERUN_FIGURES=x", "CASERUN_SCREENSHOTS=x", "CASERUN_ACTIVE_HELP=0", "NODES=2", "XCASERUN_NODES=2")
	config.WarnOfVariables(environment, t.Errorf)
}
