package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/sweep"
)

// variablePrefix begins the names of the variables that are settings.
const variablePrefix = "CASERUN_"

// variable is the environment's name of a setting.
func variable(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// Variables are the variables of all settings.
func Variables() (names []string) {
	for _, key := range keys {
		names = append(names, variable(key))
	}
	return names
}

// Setting is a setting as users see it.
type Setting struct {
	Key, Variable, Value, Default, Meaning string
}

// AllSettings are the settings in the order in which they are shown.
func AllSettings() (all []Setting) {
	flags := allFlags()
	for _, key := range keys {
		if key == oldIsolate {
			continue
		}
		f := flags.Lookup(key)
		value, meaning := pflag.UnquoteUsage(f)
		s := Setting{Key: key, Variable: variable(key), Value: value, Default: f.DefValue, Meaning: meaning}
		if s.Default == "0" || s.Default == "0s" || s.Default == "false" {
			s.Default = ""
		}
		if key == simNoise {
			s.Default = fmt.Sprintf("%v in sweeps, 0 in caserun mix", sweep.DefaultNoise)
		}
		all = append(all, s)
	}
	return all
}

// OtherVariable is a variable of the environment that is not a setting.
type OtherVariable struct {
	Name    string // an underscore at its end stands for all names that begin with it
	Meaning string
	// Internal variables are for cobra's completions and for this project's tests.
	Internal bool
}

// OtherVariables are the variables that matter beside settings.
func OtherVariables() []OtherVariable {
	return []OtherVariable{
		{fileVariable, "the configuration file, unless --config names one", false},
		{live.LibraryVariable, "the libcase.so that jobs preload", false},
		{"CUDA_VISIBLE_DEVICES", "the GPUs that a run uses if --devices names none", false},
		{"NO_COLOR", "no colours, unless it is empty", false},
		{"TMPDIR", "where runs make their temporary directories", false},
		{"SOURCE_DATE_EPOCH", "the date of the pages of caserun man", false},
		{"CASERUN_ACTIVE_HELP", "of the shells' completion", true},
		{"CASERUN_COMPLETION_DESCRIPTIONS", "of the shells' completion", true},
		{"CASERUN_TEST_", ofTests, true},
		{"CASERUN_REQUIRE_", ofTests, true},
		{"CASERUN_SOAK", ofTests, true},
		{"CASERUN_FIGURES", ofTests, true},
		{"CASERUN_SCREENSHOTS", ofTests, true},
	}
}

const ofTests = "of this project's tests"

// checkEnvironment refuses values of CASERUN_* that their flags do not take.
func checkEnvironment() error {
	flags := allFlags()
	for _, key := range keys {
		name := variable(key)
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		err := setText(flags.Lookup(key), text)
		if err == nil {
			err = Check(key, text)
		}
		if errors.Is(err, errEmpty) {
			return fmt.Errorf("%s %q is empty: give it a value, or unset it", name, text)
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", name, text, err)
		}
	}
	return nil
}

// WarnOfVariables names the variables of an environment that look like settings and are not, and those that are empty.
func WarnOfVariables(environment []string, say harness.Say) {
	settings := Variables()
	for _, variable := range environment {
		name, isEmpty := strings.CutSuffix(variable, "=")
		if isEmpty && slices.Contains(append(settings, fileVariable, live.LibraryVariable), name) {
			say("%s is empty, which counts as not set", name)
		}
	}
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		other := slices.ContainsFunc(OtherVariables(), func(o OtherVariable) bool {
			return name == o.Name || strings.HasSuffix(o.Name, "_") && strings.HasPrefix(name, o.Name)
		})
		if typed, ours := strings.CutPrefix(name, variablePrefix); ours && !other && !slices.Contains(settings, name) {
			var known []string
			for _, setting := range settings {
				known = append(known, strings.TrimPrefix(setting, variablePrefix))
			}
			hint := near.DidYouMean(variablePrefix, typed, known)
			if hint == "" {
				hint = "caserun help environment lists all settings"
			}
			say("unknown setting %s (ignored): %s", name, hint)
		}
	}
}

// About tells users where settings come from, and lists them.
func About() string {
	var settings, others [][2]string
	for _, s := range AllSettings() {
		meaning := s.Meaning
		if s.Default != "" {
			meaning += " (" + s.Default + ")"
		}
		settings = append(settings, [2]string{s.Variable, meaning})
	}
	for _, o := range OtherVariables() {
		if !strings.HasSuffix(o.Name, "_") && !o.Internal {
			others = append(others, [2]string{o.Name, o.Meaning})
		}
	}
	return `A setting comes from the first of these that has it: the flag; the
environment; the file of caserun sweep FILE; the file that --config or
CASERUN_CONFIG names, or else caserun.yaml in the working directory; the
default, here in brackets. CASERUN_MEM_CAP is the variable of --mem-cap, and
mem-cap its key in files. All other flags are flags only. With --show-config a
command prints the settings that it would have.

Settings:
` + report.Pairs(settings, 0) + `
Other variables:
` + strings.TrimSuffix(report.Pairs(others, 0), "\n")
}
