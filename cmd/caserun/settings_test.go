package main

import (
	"os"
	"strings"
	"testing"
)

// A setting that is wrong on any node is refused on every node, wherever it is from.
func TestSettingsAreCheckedOnEveryNode(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ env, flag, want string }{
		{flag: "--sim-noise=-1", want: "sim-noise -1: want 0 to 1"},
		{flag: "--sim-noise=NaN", want: `--sim-noise "NaN": want a plain decimal number such as 0.05`},
		{flag: "--sim-noise=20", want: "sim-noise 20: want 0 to 1"},
		{env: "CASERUN_SIM_NOISE=-3", want: "sim-noise -3: want 0 to 1"},
		{flag: "--timeout=-1s", want: "timeout -1s: want 0 (never) or more"},
		{flag: "--sm-cap=-4", want: "sm-cap -4: want 0 (all) or more"},
		{flag: "--after-oom=ok", want: `after-oom "ok": want check or oom`},
		{flag: "--workers=-2", want: "workers -2: want 0 or more"},
		{flag: "--mem-cap=foo", want: `mem-cap: bad size "foo"`},
		{flag: "--context-reserve=foo", want: `context-reserve: bad size "foo"`},
	} {
		for _, command := range []string{"mix W1", "sweep --mixes W1 --scheds sa"} {
			args := append(strings.Fields(command), "--node", "sim:4xV100", "--db", dir+"/s.db")
			if c.flag != "" {
				args = append(args, c.flag)
			}
			if key, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(key, value)
			}
			status, _, stderr := caserun(t, args...)
			if status != exitUsage || !strings.Contains(stderr, c.want) {
				t.Errorf("%v %s: status %d, stderr %q, want %q", args, c.env, status, stderr, c.want)
			}
		}
		if key, _, ok := strings.Cut(c.env, "="); ok {
			t.Setenv(key, "0")
		}
	}
}

// A configuration that cannot be read says where it is from.
func TestConfigurationErrorsNameTheirSource(t *testing.T) {
	inTempDir(t)
	refused := func(want string) {
		t.Helper()
		if status, _, stderr := caserun(t, "mix", "W1"); status != exitUsage || stderr != "caserun: "+want+"\n" {
			t.Errorf("exit %d, want %q: %s", status, want, stderr)
		}
	}
	for _, c := range []struct{ key, value, want string }{
		{"CASERUN_WORKERS", "abc", `CASERUN_WORKERS "abc": want a whole number`},
		{"CASERUN_SEED", "-1", `CASERUN_SEED "-1": want a whole number, 0 or more`},
		{"CASERUN_TAG", " ", `CASERUN_TAG " " is empty: give it a value, or unset it`},
		{"CASERUN_TRACE", "maybe", `CASERUN_TRACE "maybe": want true or false`},
		{"CASERUN_SEED", "010", `CASERUN_SEED "010": want a whole number, 0 or more, in decimal and without zeros before it`},
		{"CASERUN_SCHED", "case_alg3", `CASERUN_SCHED "case_alg3": unknown scheduler "case_alg3": did you mean case-alg3?`},
		{"CASERUN_SCHED", "case-alg3:que=fifo", `CASERUN_SCHED "case-alg3:que=fifo": scheduler case-alg3: parameter "que=fifo": want key=value with a key of queue, age-limit, wait-limit, room, managed, isolate, nice: did you mean queue?`},
		{"CASERUN_SCHED", "foo", `CASERUN_SCHED "foo": unknown scheduler "foo": use one of ` + strings.Join(schedulerNames(), ", ")},
	} {
		t.Setenv(c.key, c.value)
		refused(c.want)
		if err := os.Unsetenv(c.key); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"mixes: [W1]":     `1:1: unknown key "mixes": caserun mix --show-config prints all that there are`,
		"memcap: 1GiB":    `1:1: unknown key "memcap": did you mean mem-cap?`,
		"workers: 7.9":    `1:10: workers "7.9": want a whole number, of digits alone`,
		"timeout: 5":      `1:10: timeout "5": want a time with its unit, such as 90s or 10m`,
		"devices: [0, 1]": `1:10: devices: want a single value`,
		"mem-cap: 16GB":   `1:10: mem-cap: bad size "16GB": write plain bytes or a number with KiB, MiB, GiB or TiB, such as 512MiB`,
		"mem-cap: 16":     `1:10: mem-cap: 16 is 16 bytes: write 16MiB or 16GiB`,
		"swap: 32768":     `1:7: swap: 32768 is 32 KiB: write 32768MiB or 32768GiB`,
		"sched: foo":      `1:8: unknown scheduler "foo": use one of ` + strings.Join(schedulerNames(), ", "),
		"node: cloud":     `1:7: node "cloud": use local, or sim:COUNTxMODEL such as sim:4xV100, or a file of a simulated cluster's nodes, whose name ends in .csv, or slurm for the nodes of an allocation`,
		"node: sim:4xK80": `1:7: node "sim:4xK80": no model "K80": known are A10, A100, A30, B200, C1060, C2050, C2070, C2075, GTX460, GTX480, H100, H200, K20c, K20m, K40c, L4, L40S, P100, Quadro2000, T4, V100`,
		"seed: 010":       `1:7: seed "010": want a whole number, 0 or more, in decimal and without zeros before it`,
		"format: xml":     `1:9: format "xml": want table, csv, tsv, json or md`,
		"db: ''":          `1:5: db is empty: give it a value, or remove it`,
		"sim-noise: 20":   `1:12: sim-noise 20: want 0 to 1; it is σ of a logarithm, 0.01 is about 1 %`,
		"tag:":            `1:6: tag has no value: give it one, or remove it`,
		"tag: a\ntag: b":  `2:1: not valid YAML: mapping key "tag" already defined at [1:1]`,
		"- tag: a":        `1:1: want keys and values, such as mem-cap: 16GiB`,
	} {
		if err := os.WriteFile("caserun.yaml", []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		refused("configuration file caserun.yaml:" + want)
	}
}

// The YAML parser is given nothing that would take all memory.
func TestYAMLWithoutBoundsIsRefused(t *testing.T) {
	inTempDir(t)
	for text, want := range map[string]string{
		"tag: " + strings.Repeat("[", 9999):     "deep.yaml:1:38: nested more than 32 deep",
		"tag: " + strings.Repeat("{a: ", 9999):  "deep.yaml:1:134: nested more than 32 deep",
		"tag:\n  " + strings.Repeat("- ", 9999): "deep.yaml:2:67: nested more than 32 deep",
		strings.Repeat("#\n", 1<<19) + "#":      "deep.yaml: it has more than 1 MiB",
	} {
		if err := os.WriteFile("deep.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"mix", "W1", "--config", "deep.yaml"}, {"sweep", "deep.yaml"}} {
			if status, _, errs := caserun(t, args...); status != exitUsage || !strings.HasSuffix(errs, want+"\n") {
				t.Errorf("%v: exit %d, want %q: %s", args, status, want, errs)
			}
		}
	}
}

// Text is taken as it is written, whatever else it looks like.
func TestTextOfTheConfigurationIsKept(t *testing.T) {
	inTempDir(t)
	for _, tag := range []string{"1.10", "0123", "true", "1e5", "2026-11-21", "20261121"} {
		if err := os.WriteFile("caserun.yaml", []byte("%YAML 1.2\n---\nworkers: 3 # some\ntag: "+tag+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		status, out, errs := caserun(t, "mix", "--show-config")
		if status != exitOK || !strings.Contains(out, "workers: 3\n") || !strings.Contains(strings.ReplaceAll(out, `"`, ""), "tag: "+tag+"\n") {
			t.Errorf("tag %s: exit %d: %s%s", tag, status, errs, out)
		}
	}
}

// What is for GPUs has no effect on a simulated node, which is said once, and is not
// recorded as if it had one.
func TestSettingsWithoutEffectAreSaid(t *testing.T) {
	inTempDir(t)
	const says = "caserun: --sm-cap, --guard, --context-reserve are ignored on simulated nodes\n"
	given := []string{"--node", "sim:2xP100", "--mem-cap", "8GiB", "--sm-cap", "40", "--guard", "--context-reserve", "1GiB"}
	for _, c := range [][]string{{"mix", "W1"}, {"sweep", "--mixes", "W1..W2", "--scheds", "sa,cg", "--reps", "1"}, {"sweep", "--resume", "latest"}} {
		_, _, stderr := caserun(t, append(c, given...)...)
		if complete := strings.Contains(stderr, "is complete"); strings.Count(stderr, says) != 1 && !complete {
			t.Errorf("%v: %s", c, stderr)
		}
	}
	_, out, _ := caserun(t, "export", "--benchfmt", "-")
	if !strings.Contains(out, "BenchmarkMix") || !strings.Contains(out, "mem-cap: 8GiB") || strings.Contains(out, "sm-cap") || strings.Contains(out, "guard") {
		t.Errorf("of the settings, others are recorded than mem-cap: %s", out)
	}
	if _, _, stderr := caserun(t, "mix", "W1", "--node", "sim:2xP100"); strings.Contains(stderr, "effect") {
		t.Errorf("without them: %s", stderr)
	}
}
