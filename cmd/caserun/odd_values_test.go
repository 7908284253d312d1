package main

import (
	"os"
	"strings"
	"testing"

	"github.com/caserun/caserun/results/paper"
)

// An empty part of a value may be an unset variable. It never means all, in any list or selector.
func TestEmptyPartsAreRefused(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "1", "--tag", "base")
	const part, item = "has an empty part: write ", "an item is empty: write a comma only between two items"
	for _, c := range []struct{ args, want string }{
		{"compare sweep:1/", `"sweep:1/" ` + part + "sweep:1/SCHEDULER or sweep:1/SCHEDULER:KEY=VALUE, or sweep:1 alone for all schedulers"},
		{"compare latest/", `"latest/" ` + part},
		{"compare base/", `"base/" ` + part + "base/SCHEDULER"},
		{"compare tag:base/", `"tag:base/" ` + part},
		{"compare sweep:1//", `"sweep:1//" ` + part},
		{"compare sweep:1/sa/ base", `"sweep:1/sa/" ` + part},
		{"compare base/sa: base/sa", `"base/sa:" ` + part},
		{"compare base/case-alg3:, base/sa", `"base/case-alg3:," ` + part},
		{"compare base/case-alg3:queue= base/sa", `"base/case-alg3:queue=" ` + part},
		{"compare base/case-alg3:=fifo base/sa", `"base/case-alg3:=fifo" ` + part},
		{"compare base/case-alg3:room=0,,queue=fifo base/sa", part},
		{"compare sweep:/sa base", `"sweep:/sa": want the number of a run, sweep:N`},
		{"compare sweep: base", `"sweep:": want the number of a run, sweep:N`},
		{"compare tag: base", `"tag:": want the number of a run, sweep:N`},
		{"compare /sa base", `"/sa": want the number of a run, sweep:N`},
		{"regress --baseline base/ --candidate base", `"base/" ` + part},
		{"regress --baseline base --candidate sweep:1/", `"sweep:1/" ` + part},
		{"profile fit base/", `"base/" ` + part},
		{"compare base --base sa:", `compare: --base "sa:" has an empty part: want SCHEDULER or SCHEDULER:KEY=VALUE`},
		{"report --sched sa:", "--sched sa:: want the name of a scheduler or of an arm alone"},
		{"compare base --metrics throughput,", `--metrics "throughput,": ` + item},
		{"compare base --metrics ,", `--metrics ",": ` + item},
		{"regress --baseline base --only failed,,ok", `--only "failed,,ok": ` + item},
		{"regress --baseline base --max-regression throughput=3%,", `--max-regression: limits "throughput=3%,": ` + item},
		{"regress --baseline base/sa --candidate base/case-alg3 --max-regression sa::throughput=3%", `--max-regression sa::throughput=3%: scheduler "sa:": no parameter after the colon`},
		{"regress --baseline base/sa --candidate base/case-alg3 --max-regression cg:workers=:crashes=1", `workers has no value`},
		{"regress --baseline base --max-regression W1/:crashes=1", `limit "W1/:crashes=1": want SCHEDULER:METRIC=LIMIT or MIX/SCHEDULER:METRIC=LIMIT`},
		{"paper --sweep 1,", `--sweep "1,": ` + item},
		{"paper --node sim:2xP100,", `node "sim:2xP100,": ` + item},
		{"history --except W1,", `--except "W1,": ` + item},
		{"mix W1 --node sim:2xP100, --db no.db", `node "sim:2xP100,": ` + item},
		{"mix W1 --sched cg: --db no.db", `--sched: scheduler "cg:": no parameter after the colon: write cg alone`},
		{"mix W1 --sched case-alg3:queue=fifo, --db no.db", `--sched: scheduler "case-alg3:queue=fifo,": a parameter is empty`},
		{"sweep --mixes W1, --scheds sa", `--mixes "W1,": ` + item},
		{"sweep --mixes W1 --scheds sa,", `--scheds "sa,": ` + item},
		{"sweep --mixes W1 --scheds cg:,sa --node sim:2xP100", `scheduler "cg:": no parameter after the colon`},
		{"sweep --mixes W1 --scheds sa --probes lazy,", `--probes "lazy,": ` + item},
		{"sweep --mixes W1.. --scheds sa", `--mixes "W1..": "W1..": want a range of mixes as W1..W8`},
		{"sweep --mixes W1 --scheds sa --part 1/", `--part "1/": want K/N with K from 1 to N, such as 1/2`},
		{"mixes gen --ratio 3:", `bad ratio "3:": write large:small, such as 3:1`},
		{"mix W1 --devices , --db no.db", `devices ",": ` + item},
		{"mix W1 --devices 0, --node local --db no.db", `devices "0,": ` + item},
		{"doctor --devices 0,,1", `devices "0,,1": ` + item},
		{"sweep --mixes W1 --scheds sa --slurm --dry-run --gres gpu:", `--gres "gpu:": want what sbatch takes`},
		{"sweep --mixes W1 --scheds sa --slurm --dry-run --gres gpu:4,", `--gres "gpu:4,": want what sbatch takes`},
		{"sweep --mixes W1 --scheds sa --slurm --dry-run --gres gpu::4", `--gres "gpu::4": want what sbatch takes`},
		{"sweep --mixes W1 --scheds sa --slurm --dry-run --partition a,", `--partition "a,": want what sbatch takes`},
		{"sweep --mixes W1 --scheds sa --slurm --dry-run --account ,a", `--account ",a": want what sbatch takes`},
		{"report --last 0", `--last "0": want a whole number, 1 or more`},
		{"export --csv out --last 0", `--last "0": want a whole number, 1 or more`},
		{"paper --run --reps 0", `--reps "0": want a whole number, 1 or more`},
		{"sweep status --parts 0", `--parts "0": want a whole number, 1 or more`},
		{"schedulers case-alg3:", `"case-alg3:" has an empty part`},
		{"schedulers test cg:", `scheduler "cg:": no parameter after the colon`},
	} {
		if status, out, errs := caserun(t, strings.Fields(c.args)...); status != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("caserun %s: exit %d, want %q: %s%s", c.args, status, c.want, errs, out)
		}
	}
	for key, want := range map[string]string{
		"sched: 'cg:'":                        `a parameter`,
		"node: 'sim:2xP100,'":                 item,
		"max-regression: 'throughput=3%,'":    item,
		"sim-noise: 1e-2":                     "want a plain decimal number",
		"workers: 0x8":                        "want a whole number",
		"devices: '0,'":                       item,
		"timeout: .5s":                        "want a time with its unit",
		"seed: 18446744073709551616":          "want a whole number, 0 or more and 18446744073709551615 at most",
		"sim-noise: .nan":                     "want a plain decimal number",
		"workers: [1, 2]":                     "want a single value",
		"output-limit: 1e9":                   "bad size",
		"sched: 'case-alg3:age-limit=0x8'":    "want a whole number",
		"sched: 'case-alg3:wait-limit=1m1m'":  "want a duration",
		"max-regression: 'throughput=1e0%'":   "want a plain percentage such as 3% or 0.5%",
		"max-regression: 'slowdown=.5pp'":     "want plain percentage points",
		"max-regression: 'crashes=+1'":        "want a plain number of jobs per run",
		"max-regression: 'throughput=0x1p1%'": "want a plain percentage",
	} {
		if err := os.WriteFile("odd.yaml", []byte(key+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"mix", "W1", "--config", "odd.yaml", "--db", "no.db"}
		if strings.HasPrefix(key, "max") {
			args = []string{"regress", "--baseline", "base", "--config", "odd.yaml"}
		}
		if status, out, errs := caserun(t, args...); status != exitUsage || out != "" || !strings.Contains(errs, want) && !strings.Contains(errs, "no parameter") {
			t.Errorf("%s: exit %d, want %q: %s%s", key, status, want, errs, out)
		}
	}
	for text, want := range map[string]string{
		"mixes: []":          "mixes is an empty list: write mixes: [W1..W8, my.yaml], or remove it",
		"probes: []":         "probes is an empty list: write probes: [lazy, static], or remove it",
		"scheds: [sa, , cg]": "not valid YAML: ",
		"scheds: ['cg:']":    `scheds: scheduler "cg:": no parameter after the colon`,
		"scheds: ['']":       "an item of scheds is empty: give it a value, or remove it",
		"mixes: [W1, ' ']":   "an item of mixes is empty: give it a value, or remove it",
		"probes: ['']":       "an item of probes is empty",
		"name: ''":           "name is empty: give it a value, or remove it",
		"mixes: [W3..W1]":    `mixes: "W3..W1": the range is backwards: want W1..W3`,
		"reps: 1e1":          `reps "1e1": want a whole number, 1 or more, of digits alone`,
		"probes: ['lazy,']":  "probes: an item is empty",
	} {
		if err := os.WriteFile("odd.yaml", []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if status, out, errs := caserun(t, "sweep", "odd.yaml", "--db", "no.db"); status != exitUsage || out != "" || !strings.Contains(errs, "sweep file odd.yaml:1:") || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, want %q: %s%s", text, status, want, errs, out)
		}
	}
	if _, err := os.Stat("no.db"); err == nil {
		t.Error("a store was made")
	}
}

// Every number that users write is plain decimal.
func TestNumbersOfFlagsArePlainDecimal(t *testing.T) {
	inTempDir(t)
	const real, whole, time = "want a plain decimal number such as 0.05", "want a whole number", "want a time with its unit"
	tried := map[string]bool{} // with all odd numbers
	for _, c := range []struct{ command, flag, want string }{
		{"mix W1", "sim-noise", real}, {"sweep", "sim-noise", real}, {"compare", "alpha", real}, {"regress --baseline x", "alpha", real},
		{"compare", "min-effect", real}, {"mix W1", "workers", whole}, {"mix W1", "seed", whole}, {"mix W1", "sm-cap", whole},
		{"mixes gen", "jobs", whole}, {"mixes gen", "seed", whole}, {"data", "seed", whole}, {"data graph", "nodes", whole},
		{"report", "last", whole}, {"export", "last", whole}, {"history", "before", whole}, {"sweep", "reps", whole}, {"sweep", "jobs", whole},
		{"sweep", "warmups", whole}, {"paper", "reps", whole}, {"sweep status", "parts", whole}, {"sweep", "max-nodes", whole},
		{"schedulers test sa", "seed", whole}, {"schedulers test sa", "workloads", whole},
		{"mix W1", "timeout", time}, {"sweep", "time-limit", time}, {"sweep", "time", time}, {"sweep", "task-time", time},
		{"sweep", "publish", time}, {"sweep", "poll", time}, {"profile", "timeout", time},
		{"mix W1", "mem-cap", "bad size"}, {"mix W1", "swap", "bad size"}, {"mix W1", "context-reserve", "bad size"}, {"mix W1", "output-limit", "bad size"},
	} {
		unit := map[string]string{time: "s", "bad size": "GiB"}[c.want]
		odd := []string{"1e1", ".5", "0x1"}
		if !tried[c.want] {
			odd = append(odd, "1E1", "1.", "+1", "0x1p1", "0b1", "01", "1_0", "NaN", "Inf", "-Inf", "-0", "1,5", "1 0", "1\u00a0", "\uff11", "1;", "1%")
		}
		tried[c.want] = true
		for _, number := range odd {
			args := append(strings.Fields(c.command), "--"+c.flag+"="+number+unit)
			if status, out, errs := caserun(t, args...); status != exitUsage || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, c.flag) {
				t.Errorf("caserun %q: exit %d, want %q: %s%s", args, status, c.want, errs, out)
			}
		}
	}
	for variable, value := range map[string]string{"CASERUN_SIM_NOISE": "1e-2", "CASERUN_WORKERS": "0x8", "CASERUN_TIMEOUT": ".5h", "CASERUN_MEM_CAP": "1e9", "CASERUN_SEED": "18446744073709551616"} {
		t.Setenv(variable, value)
		if status, out, errs := caserun(t, "mix", "W1"); status != exitUsage || out != "" || !strings.Contains(errs, variable+` "`+value+`": `) {
			t.Errorf("%s=%s: exit %d: %s%s", variable, value, status, errs, out)
		}
		if err := os.Unsetenv(variable); err != nil {
			t.Fatal(err)
		}
	}
}

// A flag that takes one value takes no second one, whichever of its names gives it. The environment and a file may say
// something else.
func TestFlagsTakeOneValue(t *testing.T) {
	inTempDir(t)
	for _, c := range []struct{ args, want string }{
		{"mix W1 --tag a --tags b", `--tag "b": it takes one value, and "a" is given too: omit one`},
		{"mix W1 --sched sa --scheds cg", `--sched "cg": it takes one value, and "sa" is given too`},
		{"mix W1 --seed 1 --seed 2", `--seed "2": it takes one value, and "1" is given too`},
		{"mix W1 --timeout 1m --timeout 2m", `--timeout "2m": it takes one value`},
		{"mix W1 --sim-noise 0.1 --sim-noise 0.2", `--sim-noise "0.2": it takes one value`},
		{"mix W1 --guard --guard=false", `--guard "false": it takes one value`},
		{"report --html a.html -o b.html", `--html "b.html": it takes one value`},
		{"sweep --reps 1 --rep 2", `--reps "2": it takes one value`},
		{"sweep --part 1/2 --part 2/2", `--part "2/2": it takes one value`},
		{"--config a.yaml mix W1 --config b.yaml", `--config "b.yaml": it takes one value`},
	} {
		if status, out, errs := caserun(t, strings.Fields(c.args)...); status != exitUsage || out != "" || !strings.HasPrefix(errs, "caserun: "+c.want) {
			t.Errorf("caserun %s: exit %d, want %q: %s%s", c.args, status, c.want, errs, out)
		}
	}
	t.Setenv("CASERUN_TAG", "c")
	for args, want := range map[string]string{
		"mix --show-config --tag a --tags a --tag a":                                "tag: a\n",
		"sweep --show-config --mixes W1 --mixes W2 --mix W3 --scheds sa --sched cg": "mixes:\n- W1\n- W2\n- W3\nscheds:\n- sa\n- cg\n",
		"mix --show-config": "tag: c\n",
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitOK || !strings.Contains(out, want) {
			t.Errorf("caserun %s: exit %d, want %q: %s%s", args, status, want, errs, out)
		}
	}
}

// Help of a command that does not exist would be help of another one.
func TestHelpOfNothing(t *testing.T) {
	inTempDir(t)
	for args, want := range map[string]string{
		"figures --help":        `unknown command "figures" for "caserun": caserun --help lists them`,
		"swep --help":           `unknown command "swep" for "caserun": did you mean sweep?`,
		"swep -h":               `unknown command "swep" for "caserun": did you mean sweep?`,
		"--help swep":           `unknown command "swep" for "caserun": did you mean sweep?`,
		"mixes lits --help":     `unknown command "lits" for "caserun mixes": did you mean list?`,
		"sweep lst --help":      `unknown command "lst" for "caserun sweep": did you mean caserun sweep list?`,
		"schedulers tst --help": `unknown command "tst" for "caserun schedulers": did you mean caserun schedulers test?`,
		"profile fti --help":    `unknown command "fti" for "caserun profile": did you mean caserun profile fit?`,
		"store merg --help":     `unknown command "merg" for "caserun store": did you mean merge?`,
		"data grahp --help":     `unknown command "grahp" for "caserun data": did you mean graph?`,
		"completion zhs --help": `unknown command "zhs" for "caserun completion": did you mean zsh?`,
		"help swep -h":          `unknown command "swep" for "caserun": did you mean sweep?`,
		"slurm x":               `"x": caserun slurm is a help topic, and takes no arguments`,
		"metrics x --help":      `"x": caserun metrics is a help topic, and takes no arguments`,
		"help metrics x":        `"x": caserun metrics is a help topic, and takes no arguments`,
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitUsage || out != "" || errs != "caserun: "+want+"\n" {
			t.Errorf("caserun %s: exit %d, want %q: %s%s", args, status, want, errs, out)
		}
	}
	for _, args := range []string{"--help", "mix W1 --help", "sweep list --help", "sweep nightly.yaml --help", "slurm", "metrics --help", "profile ./list --help", "help sweep list"} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitOK || out == "" || errs != "" {
			t.Errorf("caserun %s: exit %d: %s%s", args, status, errs, out)
		}
	}
}

// A misspelt name is answered with the one of the store, or of the list, that resembles it.
func TestNamesThatAreMeant(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "1", "--tag", "nightly")
	if err := os.WriteFile("plain.txt", []byte("needle 16384 10\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"compare nightyl", exitUsage, "compare: nightyl: no run has the tag nightyl in caserun.db: did you mean nightly?"},
		{"compare nightly/saa", exitUsage, "no run with the tag nightly is under saa in caserun.db: did you mean sa?"},
		{"compare sweep:1/saa", exitUsage, "no run of sweep:1 is under saa in caserun.db: did you mean sa?"},
		{"regress --baseline nightyl", exitUsage, "--baseline nightyl: no run has the tag nightyl in caserun.db: did you mean nightly?"},
		{"profile fit nightyl", exitUsage, "did you mean nightly?"},
		{"report --tag nightyl", exitNothing, "report: no runs match in caserun.db: did you mean --tag nightly?"},
		{"report --node sim:2xP10", exitNothing, "did you mean --node sim:2xP100?"},
		{"export --csv out --tag nightli", exitNothing, "did you mean --tag nightly?"},
		{"compare --metrics thrughput", exitUsage, `--metrics: metric "thrughput": did you mean throughput?`},
		{"report --trend make-span", exitUsage, `--trend: metric "make-span": did you mean makespan?`},
		{"regress --baseline nightly --max-regression crash=0", exitUsage, `metric "crash": did you mean crashes?`},
		{"sweep --mixes W3..W1 --scheds sa", exitUsage, `--mixes "W3..W1": "W3..W1": the range is backwards: want W1..W3`},
		{"sweep --mixes W8-W5 --scheds sa", exitUsage, `want W5..W8`},
		{"sweep --mixes W1 --scheds sa cg", exitUsage, `"cg" is not a file: separate names of a list with commas`},
		{"sweep --mixes W1 W2 W3 --scheds sa", exitUsage, `"W3" is not a file: separate names of a list with commas, as in --mixes a,b`},
		{"paper --run --mixes W1 W2", exitUsage, `unknown paper "W2": known are ` + strings.Join(paper.Names(), ", ") + `; separate names of a list with commas, as in --mixes a,b`},
		{"mixes show plain.txt", exitUsage, "plain.txt is not in the catalog, and a mix file ends in .yaml, .yml or .wl"},
		{"mix plain.txt", exitUsage, "a mix file ends in .yaml, .yml or .wl"},
		{"sweep --mixes plain.txt --scheds sa", exitUsage, "a mix file ends in .yaml, .yml or .wl"},
		{"mixes show absent.txt", exitUsage, `no mix "absent.txt" in the catalog`},
		{"mix gone.yaml", exitUsage, "caserun: mix gone.yaml: no such file or directory"},
		{"mix W3..1", exitUsage, `the range is backwards: want W1..W3`},
		{"paper --run --mixes W2..W1", exitUsage, `the range is backwards: want W1..W2`},
	} {
		if status, out, errs := caserun(t, strings.Fields(c.args)...); status != c.status || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("caserun %s: exit %d, want %d and %q: %s%s", c.args, status, c.status, c.want, errs, out)
		}
	}
}
