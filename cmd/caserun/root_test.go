package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/report"
)

// A word that is no subcommand is an error, after every command.
func TestUnknownSubcommands(t *testing.T) {
	inTempDir(t)
	for args, says := range map[string]string{
		"mixes new x.yaml": `"x.yaml": caserun mixes new takes no arguments, only flags: see caserun mixes new --help`,
		"doctor all":       `"all": caserun doctor takes no arguments, only flags: see caserun doctor --help`,
		"mixes foo":        `unknown command "foo" for "caserun mixes"`,
		"mixes lits":       `unknown command "lits" for "caserun mixes": did you mean list?`,
		"data grph":        `unknown command "grph" for "caserun data"`,
		"completion foo":   `unknown command "foo" for "caserun completion"`,
		"swep":             `unknown command "swep" for "caserun": did you mean sweep?`,
		"help exit-code":   `unknown command "exit-code" for "caserun": did you mean exit-codes?`,
		"nothing-like-it":  `unknown command "nothing-like-it" for "caserun"`,
		"help exit-statu":  `unknown command "exit-statu" for "caserun"`,
		"help nope":        `unknown command "nope" for "caserun"`,
		"help mixes foo":   `unknown command "foo" for "caserun mixes"`,
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("caserun %s: exit %d, want %d and %q: %s%s", args, status, exitUsage, says, errs, out)
		}
	}
	for args, says := range map[string]string{
		"mixes":           "caserun mixes [command]",
		"help":            "caserun [command]",
		"help mixes list": "caserun mixes list [flags]",
		"help exit-codes": "An exit status names", "help exit-statuses": "An exit status names", "exit-statuses": "An exit status names",
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
	t.Setenv("CASERUN_CONFIG", " ")
	if status, out, errs := caserun(t, "mix", "--show-config"); status != exitUsage || out != "" || errs != "caserun: CASERUN_CONFIG \" \" is empty: name a file, or unset it\n" {
		t.Errorf("blank: exit %d: %s%s", status, errs, out)
	}
	t.Setenv("CASERUN_CONFIG", "missing.yaml")
	if status, _, errs := caserun(t, "mix", "W1"); status != exitUsage || !strings.Contains(errs, "configuration file missing.yaml") {
		t.Errorf("a file that is missing: exit %d: %s", status, errs)
	}
}

// A value that a flag does not take is answered with what it takes, and no number is
// read to another base than ten.
func TestFlagErrorsSayWhatIsWanted(t *testing.T) {
	inTempDir(t)
	for args, want := range map[string]string{
		"mix W1 --seed -1":            `--seed "-1": want a whole number, 0 or more`,
		"mix W1 --seed 010":           `--seed "010": want a whole number, 0 or more, in decimal and without zeros before it`,
		"mixes gen --seed 010":        `--seed "010": want a whole number, 0 or more, in decimal and without zeros before it`,
		"mix W1 --workers 0x10":       `--workers "0x10": want a whole number, in decimal and without zeros before it`,
		"mix W1 --workers +5":         `--workers "+5": want a whole number, of digits alone`,
		"mix W1 --workers 1_000":      `--workers "1_000": want a whole number, of digits alone`,
		"sweep --reps 010":            `--reps "010": want a whole number, 1 or more, in decimal and without zeros before it`,
		"sweep --reps +5":             `--reps "+5": want a whole number, 1 or more, of digits alone`,
		"sweep --jobs 0x2":            `--jobs "0x2": want a whole number, 1 or more, in decimal and without zeros before it`,
		"sweep --part 01/2":           `--part "01/2": want K/N with K from 1 to N, such as 1/2`,
		"sweep --time-limit +5m":      `--time-limit "+5m": want a time with its unit, such as 90s or 10m`,
		"mix W1 --timeout 010s":       `--timeout "010s": want a time with its unit, such as 90s or 10m`,
		"mix W1 --sim-noise 0x1p-4":   `--sim-noise "0x1p-4": want a plain decimal number such as 0.05`,
		"mix W1 --sim-noise 0_1":      `--sim-noise "0_1": want a plain decimal number such as 0.05`,
		"mix W1 --sim-noise inf":      `--sim-noise "inf": want a plain decimal number such as 0.05`,
		"mix W1 --timeout 5":          `--timeout "5": want a time with its unit, such as 90s or 10m`,
		"mix W1 --sim-noise x":        `--sim-noise "x": want a plain decimal number such as 0.05`,
		"mix W1 --trace=maybe":        `--trace "maybe": want true or false`,
		"compare 1 2 --min-effect 2%": `--min-effect "2%": want a plain decimal number such as 0.05, without %`,
		"report --last two":           `--last "two": want a whole number, 1 or more`,
		"sweep --jobs 0":              `--jobs "0": want a whole number, 1 or more`,
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitUsage || out != "" || errs != "caserun: "+want+"\n" {
			t.Errorf("caserun %s: exit %d, want %q: %s%s", args, status, want, errs, out)
		}
	}
	if status, out, errs := caserun(t, "mix", "--show-config", "--workers", "0", "--seed", "10"); status != exitOK || !strings.Contains(out, "workers: 0\n") || !strings.Contains(out, "seed: 10\n") {
		t.Errorf("exit %d: %s%s", status, errs, out)
	}
}

// --show-config prints what the command has, and filters are no settings.
func TestConfigurationOfCommandsWithFewSettings(t *testing.T) {
	inTempDir(t)
	t.Setenv("CASERUN_NODE", "sim:2xP100")
	const ofStore = "db: caserun.db\nformat: table\n"
	for args, want := range map[string]string{
		"report --tag t --node n --sched sa": ofStore,
		"export":                             "db: caserun.db\n",
		"compare":                            ofStore + "allow-simulated: false\n",
		"regress --baseline x":               ofStore + "allow-simulated: false\nmax-regression: " + defaultLimits + "\n",
		"sweep list":                         ofStore,
		"schedulers":                         "format: table\n",
		"mixes gen --seed 3":                 "seed: 3\n",
		"data":                               "data: data\nseed: 1\n",
	} {
		if status, out, errs := caserun(t, append(strings.Fields(args), "--show-config")...); status != exitOK || out != want {
			t.Errorf("caserun %s: exit %d: %s%swant\n%s", args, status, errs, out, want)
		}
	}
	status, out, errs := caserun(t, "sweep", "--show-config")
	if status != exitOK || !strings.Contains(out, "node: sim:2xP100\n") || strings.Contains(out, "sched:") || strings.Contains(out, "isolate-faults:") {
		t.Errorf("sweep: exit %d: %s%s", status, errs, out)
	}
	if status, out, _ := caserun(t, "mix", "--show-config"); status != exitOK || strings.Count(out, "\n") != len(config.Variables())-3 { // but the old name of isolate-faults, the limits of regress, and noise that is not given
		t.Errorf("mix, which has all settings: exit %d:\n%s", status, out)
	}
}

// The help of each command's flags fits the width of tables.
func TestHelpOfFlagsFits(t *testing.T) {
	flags := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		_, usage, _ := strings.Cut(c.UsageString(), "Flags:\n")
		for line := range strings.Lines(usage) {
			flags++
			if n := len(strings.TrimSuffix(line, "\n")); n > report.Width {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	if flags < 100 {
		t.Errorf("%d lines of help", flags)
	}
}

// An error names what is missing, and what to do about it.
func TestErrorsSayWhatIsMissing(t *testing.T) {
	dir := inTempDir(t)
	missing := func(db string) string {
		return "store " + filepath.Join(dir, db) + ": no such file: caserun mix and caserun sweep make a store; --db names one in another place"
	}
	simulate(t, "--scheds", "sa", "--reps", "1", "--db", "one.db")
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:2xP100", "--db", "alone.db"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	alone, one := filepath.Join(dir, "alone.db"), filepath.Join(dir, "one.db")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"report", exitInfrastructure, missing("caserun.db")},
		{"report --db typo/dir/x.db", exitInfrastructure, missing("typo/dir/x.db")},
		{"sweep --resume", exitInfrastructure, missing("caserun.db")},
		{"sweep --resume --dry-run", exitInfrastructure, missing("caserun.db")},
		{"sweep show --db alone.db", exitUsage, "store " + alone + ": latest sweep: no such sweep: caserun sweep list shows the sweeps of a store, and caserun sweep makes one"},
		{"report 9 --db one.db", exitUsage, "store " + one + ": run 9: no such run: caserun report lists the runs of a store"},
		{"report --html", exitUsage, "--html needs a value, FILE: write a page with timelines and comparisons to FILE; -: standard output"},
		{"mix W1 --sched", exitUsage, "--sched needs a value, SCHEDULER: "},
		{"regress", exitUsage, "--baseline RUNS is missing: RUNS to hold it against"},
		{"report --sched alg3 --db one.db", exitNothing, "report: no runs match in one.db: did you mean --sched case-alg3?; caserun report --db one.db lists what there is"},
		{"report --mixes d-predit --db one.db", exitNothing, "report: no runs match in one.db: did you mean --mix D-predict?; "},
		{"report --scheds sa,cg --db one.db", exitNothing, `report: no runs match in one.db: --sched takes one value, not "sa,cg"; `},
		{"report --mixes W1..W7 --db one.db", exitNothing, `report: no runs match in one.db: --mix takes one value, not "W1..W7"; `},
		{"export --csv out --tags a,b --db one.db", exitNothing, `export: no runs match in one.db: --tag takes one value, not "a,b"; `},
		{"mix W1-W8 --node sim:2xP100", exitUsage, "W1-W8 is 8 mixes: name one; caserun sweep --mixes takes several"},
		{"mixes show W1..W2", exitUsage, "W1..W2 is 2 mixes: name one; caserun sweep --mixes takes several"},
		{"profile W1", exitUsage, "W1 is a mix: caserun profile --mix W1"},
	} {
		status, out, errs := caserun(t, strings.Fields(c.args)...)
		if status != c.status || out != "" || !strings.HasPrefix(errs, "caserun: "+c.want) {
			t.Errorf("caserun %s: exit %d, want %d and %q: %s%s", c.args, status, c.status, c.want, errs, out)
		}
	}
	if _, err := os.Stat("typo"); err == nil {
		t.Error("a folder was made for a store that was to be read")
	}
}
