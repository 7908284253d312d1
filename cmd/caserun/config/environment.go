package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caserun/caserun/runner/live"
)

// VariablePrefix begins the names of the variables that are settings.
const VariablePrefix = "CASERUN_"

// Variable is the environment's name of a setting.
func Variable(key string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// Variables are the variables of all settings.
func Variables() (names []string) {
	for _, key := range keys {
		names = append(names, Variable(key))
	}
	return names
}

// otherVariables are not settings: they name files, or are for cobra's completions or this
// project's tests. A name that ends in an underscore stands for all names that begin with it.
var otherVariables = []string{fileVariable, live.LibraryVariable,
	"CASERUN_ACTIVE_HELP", "CASERUN_COMPLETION_DESCRIPTIONS",
	"CASERUN_TEST_", "CASERUN_REQUIRE_", "CASERUN_SOAK", "CASERUN_FIGURES", "CASERUN_SCREENSHOTS"}

// checkEnvironment refuses values of CASERUN_* that their flags do not take.
func checkEnvironment() error {
	flags := allFlags()
	for _, key := range keys {
		name := Variable(key)
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		err := setText(flags.Lookup(key), text)
		if err == nil {
			err = Check(key, text)
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", name, text, err)
		}
	}
	return nil
}

// UnknownVariables are the names in an environment that look like settings' and are not.
func UnknownVariables(environment []string) (unknown []string) {
	settings := Variables()
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		other := slices.ContainsFunc(otherVariables, func(o string) bool {
			return name == o || strings.HasSuffix(o, "_") && strings.HasPrefix(name, o)
		})
		if strings.HasPrefix(name, VariablePrefix) && !other && !slices.Contains(settings, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
