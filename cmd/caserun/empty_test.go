package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
)

// An empty value is that of a variable that is not set. No flag of any command takes it.
func TestEmptyFlagsAreRefused(t *testing.T) {
	inTempDir(t)
	flags := 0
	eachCommand(newRoot(), func(c *cobra.Command) {
		if !c.Runnable() || c.Name() == cobra.ShellCompRequestCmd {
			return
		}
		c.InitDefaultHelpFlag()
		given := func(f *pflag.Flag) {
			flags++
			want := "--" + f.Name + " is empty"
			if f.Name == "help" || f.Name == "version" || f.Name == "no-descriptions" { // cobra's own
				want = `--` + f.Name + ` "": want true or false`
			}
			args := append(strings.Fields(c.CommandPath())[1:], "--"+f.Name+"=")
			if status, out, errs := caserun(t, args...); status != exitUsage || out != "" || !strings.HasPrefix(errs, "caserun: "+want) {
				t.Errorf("caserun %q: exit %d, want %q: %s%s", args, status, want, errs, out)
			}
		}
		c.LocalFlags().VisitAll(given)
		c.InheritedFlags().VisitAll(given)
	})
	if flags < 200 {
		t.Errorf("%d flags were tried", flags)
	}
	left, err := os.ReadDir(".")
	if err != nil || len(left) > 0 {
		t.Errorf("files were made: %v, %v", left, err)
	}
}

// No command takes an empty argument.
func TestEmptyArgumentsAreRefused(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa")
	eachCommand(newRoot(), func(c *cobra.Command) {
		if !c.Runnable() || c.Name() == cobra.ShellCompRequestCmd || c.Name() == cobra.ShellCompNoDescRequestCmd {
			return
		}
		path := strings.Fields(c.CommandPath())[1:]
		for _, args := range [][]string{{""}, {" "}, {"latest", ""}, {"", "latest"}} {
			if c.Name() == "profile" && args[0] == "latest" {
				continue // the program's
			}
			if status, out, errs := caserun(t, append(path, args...)...); status != exitUsage || out != "" || errs == "" {
				t.Errorf("caserun %q %q: exit %d: %s%s", path, args, status, errs, out)
			}
		}
	})
}

// An empty value in a file is an error too, of each setting.
func TestEmptyKeysAreRefused(t *testing.T) {
	inTempDir(t)
	for _, s := range config.AllSettings() {
		for _, value := range []string{"''", `" "`} {
			for file, args := range map[string][]string{"caserun.yaml": {"mix", "W1"}, "sweep.yaml": {"sweep", "sweep.yaml"}} {
				if err := os.WriteFile(file, []byte(s.Key+": "+value+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				status, out, errs := caserun(t, args...)
				if unknown := file == "sweep.yaml" && strings.Contains(errs, "unknown key"); status != exitUsage || out != "" || !unknown && !strings.Contains(errs, s.Key+" is empty: give it a value, or remove it") {
					t.Errorf("%s with %s: %s: exit %d: %s%s", file, s.Key, value, status, errs, out)
				}
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// An empty variable is not set, which is said.
func TestEmptyVariablesAreSaid(t *testing.T) {
	inTempDir(t)
	for _, name := range append(config.Variables(), "CASERUN_CONFIG", "CASERUN_LIBCASE") {
		t.Setenv(name, "")
		want := "caserun: " + name + " is empty, which counts as not set\n"
		if status, out, errs := caserun(t, "mix", "--show-config"); status != exitOK || strings.Count(errs, want) != 1 || !strings.Contains(out, "db: caserun.db\n") {
			t.Errorf("%s: exit %d, want %q: %s%s", name, status, want, errs, out)
		}
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

// A link whose target is gone, and a file that cannot be read, are not the absence of a configuration.
func TestDanglingConfigurationIsAnError(t *testing.T) {
	inTempDir(t)
	if err := os.Symlink("../team/caserun.yaml", "caserun.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mix", "W1", "--node", "sim:1xV100"}, {"report"}, {"mix", "--show-config"}} {
		if status, out, errs := caserun(t, args...); status != exitUsage || out != "" || errs != "caserun: configuration file caserun.yaml: no such file or directory: it is a link to ../team/caserun.yaml\n" {
			t.Errorf("caserun %q: exit %d: %s%s", args, status, errs, out)
		}
	}
}
