package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/runner/live"
)

// variablePrefix begins the names of the variables that are settings.
const variablePrefix = "CASERUN_"

// variableOf is the environment's name of a setting.
func variableOf(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// otherVariables are no settings: what names files, what cobra's completions take,
// and this project's tests. One that ends in an underscore is a beginning.
var otherVariables = []string{configFileEnv, live.LibraryVariable,
	"CASERUN_ACTIVE_HELP", "CASERUN_COMPLETION_DESCRIPTIONS",
	"CASERUN_TEST_", "CASERUN_REQUIRE_", "CASERUN_FIGURES", "CASERUN_SCREENSHOTS"}

// checkEnvironment refuses values of CASERUN_* that are not what their flags take.
func checkEnvironment() error {
	flags := settingFlags()
	for _, key := range settingKeys() {
		name := variableOf(key)
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		err := setText(flags.Lookup(key), text)
		if err == nil {
			err = checkSetting(key, text)
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", name, text, err)
		}
	}
	return nil
}

// warnOfVariables names the variables that are meant as settings and are none.
func warnOfVariables(environment []string, stderr io.Writer) {
	var known []string
	near := &cobra.Command{SuggestionsMinimumDistance: 2} // it knows how to find near names
	for _, key := range settingKeys() {
		known = append(known, variableOf(key))
		near.AddCommand(&cobra.Command{Use: strings.TrimPrefix(variableOf(key), variablePrefix), Run: func(*cobra.Command, []string) {}})
	}
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		other := slices.ContainsFunc(otherVariables, func(o string) bool {
			return name == o || strings.HasSuffix(o, "_") && strings.HasPrefix(name, o)
		})
		setting, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || other || slices.Contains(known, name) {
			continue
		}
		hint := "caserun mix --show-config prints all settings"
		if similar := near.SuggestionsFor(setting); len(similar) > 0 {
			hint = "did you mean " + variablePrefix + strings.Join(similar, " or "+variablePrefix) + "?"
		}
		fmt.Fprintf(stderr, "caserun: %s is no setting, and ignored: %s\n", name, hint)
	}
}
