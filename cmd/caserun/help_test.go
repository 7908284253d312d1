package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers/policies"
)

// eachCommand calls do with all commands and help topics.
func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, do)
	}
}

// The help of every command and topic fits a screen, and shows how a command is called.
func TestHelpFitsAScreen(t *testing.T) {
	inTempDir(t)
	eachCommand(newRoot(), func(c *cobra.Command) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		status, out, errs := caserun(t, args...)
		if status != exitOK || errs != "" {
			t.Errorf("%v: exit %d: %s", args, status, errs)
		}
		most := 77
		if !c.HasParent() {
			most = 50
		}
		if n := strings.Count(out, "\n"); n > most {
			t.Errorf("%v: %d lines, want %d at most", args, n, most)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > report.Width {
				t.Errorf("%v: %d columns: %s", args, n, line)
			}
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if strings.HasPrefix(c.CommandPath(), "caserun completion ") {
				break // cobra's words
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > report.TextWidth {
				t.Errorf("%v: %d columns, want %d at most: %s", args, n, report.TextWidth, line)
			}
		}
		if c.Runnable() && !c.HasAvailableSubCommands() && !c.Hidden && !strings.Contains(out, "\nExamples:\n  caserun ") {
			t.Errorf("%v: no example", args)
		}
	})
}

// What the program's help offers can be called, in its groups.
func TestHelpOfTheProgram(t *testing.T) {
	inTempDir(t)
	_, out, _ := caserun(t, "--help")
	at := 0
	for _, want := range []string{"\nExamples:\n", "\nRun:\n", "  sweep ", "\nLook:\n", "  report ", "\nCompare:\n", "  paper ", "\nFiles:\n", "  export ", "\nCheck:\n", "  doctor ",
		"\nAdditional help topics (caserun help TOPIC):\n", "  environment ", "  exit-codes ", "  formats ", "  metrics ", "  slurm "} {
		n := strings.Index(out[at:], want)
		if n < 0 {
			t.Fatalf("no %q after %q:\n%s", want, out[:at], out)
		}
		at += n
	}
	for _, c := range newRoot().Commands() {
		if c.IsAvailableCommand() && c.GroupID == "" {
			t.Errorf("%s is in no group", c.Name())
		}
	}
	if _, offers, _ := caserun(t, "__complete", "help", ""); !strings.Contains(offers, "metrics\tWhat runs are compared by\n") || !strings.Contains(offers, "sweep\t") {
		t.Errorf("help is completed with %s", offers)
	}
}

// Topics have all of their tables.
func TestHelpTopics(t *testing.T) {
	inTempDir(t)
	wants := map[string][]string{"slurm": {"--gres GRES", "--partition ", "--poll ", "--dry-run"}}
	for _, s := range config.AllSettings() {
		wants["environment"] = append(wants["environment"], "  "+s.Variable+" ")
	}
	wants["environment"] = append(wants["environment"], "  CASERUN_CONFIG ", "  NO_COLOR ")
	for _, s := range exitStatuses() {
		wants["exit-codes"] = append(wants["exit-codes"], "\n  "+s.numbers()+" ")
	}
	for _, f := range report.Formats() {
		wants["formats"] = append(wants["formats"], "  "+string(f)+" ")
	}
	wants["formats"] = append(wants["formats"], "--openmetrics FILE", "--csv DIR")
	for _, m := range regress.Metrics() {
		wants["metrics"] = append(wants["metrics"], "  "+m.Name+" ", m.About[:20])
	}
	for topic, all := range wants {
		status, out, errs := caserun(t, "help", topic)
		for _, want := range all {
			if status != exitOK || !strings.Contains(out, want) {
				t.Errorf("help %s: exit %d, no %q: %s%s", topic, status, want, errs, out)
			}
		}
		if _, again, _ := caserun(t, topic); again != out {
			t.Errorf("caserun %s: %s", topic, again)
		}
	}
	if _, out, _ := caserun(t, "help", "environment"); strings.Contains(out, "CASERUN_TEST_") {
		t.Error("users read of variables of tests")
	}
}

// The flags of Slurm are in its topic instead of the help of sweep, and are completed.
func TestSlurmFlagsAreApart(t *testing.T) {
	inTempDir(t)
	_, topic, _ := caserun(t, "help", "slurm")
	_, help, _ := caserun(t, "sweep", "--help")
	_, offers, _ := caserun(t, "__complete", "sweep", "--")
	for _, flag := range []string{"account", "collect", "container", "gres", "max-nodes", "partition", "poll", "publish", "sbatch-arg", "shared", "task-time", "time"} {
		if !strings.Contains(topic, " --"+flag+" ") || strings.Contains(help, "  --"+flag+" ") || !strings.Contains(offers, "--"+flag+"\t") {
			t.Errorf("--%s is not where it belongs", flag)
		}
	}
	if !strings.Contains(help, "  --slurm ") || !strings.Contains(help, "caserun help slurm") {
		t.Errorf("the help of sweep does not lead to them:\n%s", help)
	}
	if _, status, _ := caserun(t, "sweep", "status", "--help"); !strings.Contains(status, "--shared DIR") {
		t.Errorf("the help of sweep status has no --shared:\n%s", status)
	}
}

// A flag is known in both numbers, and -o has the same names everywhere.
func TestOtherNamesOfFlags(t *testing.T) {
	for _, c := range []struct{ command, given, flag string }{
		{"mix", "scheds", "sched"}, {"mix", "probes", "probe"}, {"mix", "device", "devices"}, {"mix", "nodes", "node"}, {"mix", "worker", "workers"}, {"mix", "profile", "profiles"},
		{"mix", "run", ""}, // a run is another thing than the directory --runs
		{"sweep", "mix", "mixes"}, {"sweep", "sched", "scheds"}, {"sweep", "probe", "probes"}, {"sweep", "rep", "reps"}, {"sweep", "warmup", "warmups"}, {"sweep", "job", "jobs"},
		{"sweep", "parts", ""}, {"sweep status", "part", ""}, // one part, and how many there are
		{"paper", "mix", "mixes"}, {"paper", "sweeps", "sweep"}, {"paper", "run", "run"}, {"paper", "runs", "runs"}, {"paper", "output", "out"},
		{"report", "mixes", "mix"}, {"report", "tags", "tag"}, {"report", "out", "html"}, {"report", "output", "html"}, {"export", "sweeps", "sweep"},
		{"compare", "metric", "metrics"}, {"replay", "scheds", "sched"}, {"profile", "mixes", "mix"}, {"profile", "output", "out"}, {"profile fit", "output", "out"},
		{"history", "output", "out"}, {"mixes gen", "output", "out"}, {"mixes new", "output", "out"}, {"mixes learn", "output", "out"}, {"data graph", "output", "out"},
		{"regress", "out", "report-junit"}, {"schedulers test", "workload", "workloads"}, {"export", "out", ""},
	} {
		command, _, err := newRoot().Find(strings.Fields(c.command))
		if err != nil {
			t.Fatal(err)
		}
		if err := command.ParseFlags(nil); err != nil { // which merges the flags of all commands
			t.Fatal(err)
		}
		got := ""
		if f := command.Flags().Lookup(c.given); f != nil {
			got = f.Name
		}
		if got != c.flag {
			t.Errorf("caserun %s --%s is --%s, want --%s", c.command, c.given, got, c.flag)
		}
	}
	inTempDir(t)
	mustRun(t, "sweep", "--mix", "W1", "--sched", "sa", "--node", "sim:2xP100", "--reps", "1")
	mustRun(t, "mixes", "gen", "--output", "gen.yaml")
	mustRun(t, "report", "--out", "page.html")
	if status, _, errs := caserun(t, "mix", "W1", "--scheds", "sa,cg"); status != exitUsage || !strings.Contains(errs, `unknown scheduler "sa,cg": it is a list: name one`) {
		t.Errorf("exit %d: %s", status, errs)
	}
	if _, offers, _ := caserun(t, "__complete", "sweep", "--mix", "W"); !strings.Contains(offers, "W7\t") {
		t.Errorf("--mix of sweep is completed with %s", offers)
	}
}

// No two flags of a command are the same in another number.
func TestNumbersOfFlagsAreUnambiguous(t *testing.T) {
	eachCommand(newRoot(), func(c *cobra.Command) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		for one, many := range config.Plurals {
			if slices.Contains(names, one) && slices.Contains(names, many) {
				t.Errorf("%s has --%s and --%s", c.CommandPath(), one, many)
			}
		}
	})
}

// Every command answers --show-config, whatever it requires otherwise.
func TestEveryCommandShowsItsConfiguration(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "1")
	eachCommand(newRoot(), func(c *cobra.Command) {
		if !c.Runnable() || c.Hidden {
			return
		}
		args := append(strings.Fields(c.CommandPath())[1:], "--show-config")
		status, out, errs := caserun(t, args...)
		switch without := c.Annotations[ownConfig] == "none" || c.Name() == "help" || c.HasParent() && c.Parent().Name() == "completion"; {
		case without:
		case errs == "" && status == exitOK && out != "":
		case c.HasSubCommands() && strings.Contains(errs, "--show-config: each command has settings of its own"):
		default:
			t.Errorf("caserun %v: exit %d: %s%s", args, status, errs, out)
		}
	})
}

// The list of schedulers fits a screen, and one scheduler has its parameters.
func TestSchedulersOnAScreen(t *testing.T) {
	inTempDir(t)
	out, _ := mustRun(t, "schedulers")
	if n := strings.Count(out, "\n"); n > 24 || n < len(policies.Listed()) {
		t.Errorf("%d lines:\n%s", n, out)
	}
	for _, s := range policies.Listed() {
		if s.Brief == "" || strings.Count(out, "\n"+s.Name+" ") != 1 || !strings.Contains(out, s.Brief) {
			t.Errorf("%s is not on one line:\n%s", s.Name, out)
		}
		one, _ := mustRun(t, "schedulers", s.Name)
		squeezed := strings.Join(strings.Fields(one), " ")
		for _, p := range s.Params {
			if !strings.Contains(squeezed, p.Name+" ") {
				t.Errorf("schedulers %s has no %s:\n%s", s.Name, p.Name, one)
			}
		}
		if !strings.Contains(one, "source") || !strings.Contains(one, "rule") {
			t.Errorf("schedulers %s:\n%s", s.Name, one)
		}
	}
	text, _ := mustRun(t, "schedulers", "case-alg3", "--format", "json")
	var tables []json.RawMessage
	if err := json.Unmarshal([]byte(text), &tables); err != nil || len(tables) != 2 || !bytes.Contains(tables[1], []byte("age-limit")) {
		t.Errorf("%v: %s", err, text)
	}
	if status, _, errs := caserun(t, "schedulers", "alg2"); status != exitUsage || errs != fmt.Sprintf("caserun: unknown scheduler %q: did you mean case-alg2?\n", "alg2") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if _, offers, _ := caserun(t, "__complete", "schedulers", ""); !strings.Contains(offers, "case-alg3\t") || !strings.Contains(offers, "test\t") {
		t.Errorf("schedulers is completed with %s", offers)
	}
}
