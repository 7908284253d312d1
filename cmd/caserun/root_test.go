package main

import (
	"os"
	"strings"
	"testing"
)

// A word that is no subcommand is an error, after every command.
func TestUnknownSubcommands(t *testing.T) {
	inTempDir(t)
	for args, says := range map[string]string{
		"mixes foo":      `unknown command "foo" for "caserun mixes"`,
		"completion foo": `unknown command "foo" for "caserun completion"`,
		"help nope":      `unknown command "nope" for "caserun"`,
		"help mixes foo": `unknown command "foo" for "caserun mixes"`,
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("caserun %s: exit %d, want %d and %q: %s%s", args, status, exitUsage, says, errs, out)
		}
	}
	for args, says := range map[string]string{
		"mixes":           "caserun mixes [command]",
		"help":            "caserun [command]",
		"help mixes list": "caserun mixes list [flags]",
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitOK || !strings.Contains(out, says) {
			t.Errorf("caserun %s: exit %d, want %q: %s%s", args, status, says, errs, out)
		}
	}
}

// A configuration file may be named in the environment; --config goes before it.
func TestConfigurationFileOfTheEnvironment(t *testing.T) {
	inTempDir(t)
	for name, text := range map[string]string{"caserun.yaml": "seed: 1\n", "env.yaml": "seed: 2\n", "flag.yaml": "seed: 3\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CASERUN_CONFIG", "env.yaml")
	for want, args := range map[string][]string{"seed: 2\n": nil, "seed: 3\n": {"--config", "flag.yaml"}} {
		if status, out, errs := caserun(t, append([]string{"mix", "--show-config"}, args...)...); status != exitOK || !strings.Contains(out, want) {
			t.Errorf("%v: exit %d, want %q: %s%s", args, status, want, errs, out)
		}
	}
	t.Setenv("CASERUN_CONFIG", "missing.yaml")
	if status, _, errs := caserun(t, "mix", "W1"); status != exitUsage || !strings.Contains(errs, "configuration file missing.yaml") {
		t.Errorf("a file that is missing: exit %d: %s", status, errs)
	}
}
