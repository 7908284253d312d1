package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers/policies"
)

// completions are what a shell is offered for the last word, without descriptions.
func completions(t *testing.T, words ...string) (offered []string) {
	t.Helper()
	status, out, errs := caserun(t, append([]string{"__complete"}, words...)...)
	if status != exitOK {
		t.Fatalf("%q: exit %d: %s", words, status, errs)
	}
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		offered = append(offered, word)
	}
	return offered[:len(offered)-1] // the last line is a number for the shell
}

// Shells drop what does not begin with the word as it is typed, lists too.
func TestCompletionOfLists(t *testing.T) {
	inTempDir(t)
	for _, file := range []string{"mine.yaml", "mine.txt"} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		flag, typed string
		want        []string
	}{
		{"--mixes", "", []string{"W1", "W8"}},
		{"--mixes", "W1,", []string{"W1,W2", "W1,W8"}},
		{"--mixes", "W1,my.yaml,W", []string{"W1,my.yaml,W8"}},
		{"--mixes", "W1,W3..", []string{"W1,W3..W4", "W1,W3..W8"}},
		{"--mixes", "W1,W3-", []string{"W1,W3-W4", "W1,W3-W8"}},
		{"--mixes", "D-", []string{"D-predict", "D-128"}},
		{"--mix", "W1,", []string{"W1,W2", "W1,W8"}},
		{"--mixes", "W1,m", []string{"W1,mine.yaml"}},
		{"--probes", "lazy,", []string{"lazy,static"}},
		{"--scheds", "sa,", []string{"sa,cg", "sa,case-alg3"}},
		{"--scheds", "sa,case-alg3:queue=fifo,", []string{"sa,case-alg3:queue=fifo,room=", "sa,case-alg3:queue=fifo,cg"}},
		{"--scheds", "case-alg3:queue=fifo,room=0,sa,", []string{"case-alg3:queue=fifo,room=0,sa,cg"}},
		{"--scheds", "case-alg3:queue=fifo,r", []string{"case-alg3:queue=fifo,room="}},
		{"--scheds", "cg:workers=8,c", []string{"cg:workers=8,case-alg3"}},
	} {
		offered := completions(t, "sweep", c.flag, c.typed)
		for _, want := range c.want {
			if !slices.Contains(offered, want) {
				t.Errorf("%s %s: %q, want %q too", c.flag, c.typed, offered, want)
			}
		}
		for _, o := range offered {
			before := c.typed[:strings.LastIndex(c.typed, ",")+1]
			last, begins := strings.CutPrefix(o, before)
			if !begins {
				t.Errorf("%s %s: %q does not begin with %q", c.flag, c.typed, o, before)
			}
			if last == "" || slices.Contains(strings.Split(before, ","), last) || last == "mine.txt" || strings.HasSuffix(before, "sa,") && strings.HasSuffix(last, "=") {
				t.Errorf("%s %s: %q is offered again or is not one", c.flag, c.typed, o)
			}
		}
	}
}

// schedulerNames are those of all registered schedulers.
func schedulerNames() (names []string) {
	for _, i := range policies.Listed() {
		names = append(names, i.Name)
	}
	return names
}

func TestCompletionOfParameters(t *testing.T) {
	all := append(schedulerNames(), "cluster-batch", "cluster-rr", "coloc", "latency")
	slices.Sort(all)
	for typed, want := range map[string][]string{
		"cg":                            all,
		"cg:":                           {"cg:isolate=", "cg:managed=", "cg:workers="},
		"case-alg3:room=0,queue=p":      {"case-alg3:room=0,queue=priority-fifo", "case-alg3:room=0,queue=priority-mmu"},
		"plan:queue=d":                  nil,
		"sa:queue=s":                    {"sa:queue=sjf"},
		"zero:queue=":                   nil,
		"vgpu:n=2,bursts=":              {"vgpu:n=2,bursts=off", "vgpu:n=2,bursts=on"},
		"case-alg3:queue=fifo,room=0,w": {"case-alg3:queue=fifo,room=0,wait-limit="},
		"nobody:":                       nil,
		"coloc:l":                       {"coloc:literal="},
		"coloc/sa:queue=s":              {"coloc/sa:queue=sjf"},
		"latency:limit=1/sa:m":          {"latency:limit=1/sa:managed="},
	} {
		offered := slices.DeleteFunc(completions(t, "mix", "W1", "--sched", typed), func(o string) bool { return typed != "cg" && !strings.HasPrefix(o, typed) })
		if slices.Sort(offered); !slices.Equal(offered, want) {
			t.Errorf("%s: %q, want %q", typed, offered, want)
		}
	}
}

// Behind exec: come the programs of a folder, and the folders in it.
func TestCompletionOfPrograms(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"p.py": "", "a,b.py": "", "more/q=r.py": "", "more/deep/s": ""})
	if err := os.WriteFile("plain.txt", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string][]string{
		"exec:p":                  {"exec:p.py", "exec:path="},
		"exec:./":                 {"exec:./more/", "exec:./p.py"},
		"exec:more/":              {"exec:more/deep/", "exec:more/q=r.py"},
		"exec:path=more/deep/":    {"exec:path=more/deep/s"},
		"exec:queue=fifo,path=p":  {"exec:queue=fifo,path=p.py"},
		"exec:" + dir + "/p":      {"exec:" + dir + "/p.py"},
		"exec:p.py,q":             {"exec:p.py,queue="},
		"exec:p.py,queue=fifo,mo": nil,
		"exec:nowhere/":           nil,
	} {
		offered := slices.DeleteFunc(completions(t, "mix", "W1", "--sched", typed), func(o string) bool { return !strings.HasPrefix(o, typed) })
		if slices.Sort(offered); !slices.Equal(offered, want) {
			t.Errorf("%s: %q, want %q", typed, offered, want)
		}
	}
	if offered := completions(t, "schedulers", "test", "exec:./p"); !slices.Contains(offered, "exec:./p.py") {
		t.Errorf("schedulers test: %q", offered)
	}
	if offered := completions(t, "sweep", "--scheds", "sa,exec:./p"); !slices.Contains(offered, "sa,exec:./p.py") {
		t.Errorf("sweep --scheds: %q", offered)
	}
}

// Sweeps and tags are those of the store that the command is to read.
func TestCompletionFromTheStore(t *testing.T) {
	inTempDir(t)
	words := [][]string{
		{"report", "--sweep", ""}, {"export", "--sweep", ""}, {"report", "--tag", ""}, {"mix", "--tag", ""},
		{"sweep", "--resume", ""}, {"sweep", "--resume="}, {"report", "--db", "other.db", "--tag", ""},
	}
	for _, w := range words {
		if offered := completions(t, w...); len(offered) > 0 {
			t.Errorf("%q without a store: %q", w, offered)
		}
	}
	if _, err := os.Stat("caserun.db"); err == nil {
		t.Error("a completion made a store")
	}
	simulate(t, "--scheds", "sa", "--tag", "night")
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:4xV100", "--tag", "alone"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	simulate(t, "--scheds", "sa", "--tag", "elsewhere", "--db", "other.db")
	sweeps, tags := []string{"latest", "1"}, []string{"alone", "night"}
	for i, want := range [][]string{sweeps, sweeps, tags, tags, sweeps, sweeps, {"elsewhere"}} {
		if offered := completions(t, words[i]...); !slices.Equal(offered, want) {
			t.Errorf("%q: %q, want %q", words[i], offered, want)
		}
	}
	if offered := completions(t, "report", "--sched", ""); !slices.Contains(offered, "case-alg3") {
		t.Errorf("report --sched: %q", offered)
	}
}

// A side of a comparison is a sweep, a tag or a run, and behind a slash a scheduler of it. A run
// that is named is not offered again.
func TestCompletionOfSidesAndRuns(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--tag", "night", "--reps", "1")
	simulate(t, "--scheds", "sa", "--tag", "a/b", "--reps", "1")
	under := func(side string) []string { return []string{side + "/case-alg3", side + "/sa"} }
	for _, c := range []struct {
		words string
		want  []string // in alphabetical order
	}{
		{"compare #", []string{"1", "2", "3", "a/b", "latest", "night", "sweep:1", "sweep:2"}},
		{"compare 1 #", []string{"2", "3", "a/b", "latest", "night", "sweep:1", "sweep:2"}},
		{"compare 1 2 #", nil},
		{"compare sweep:#", []string{"1", "2", "3", "a/b", "latest", "night", "sweep:1", "sweep:1/case-alg3", "sweep:1/sa", "sweep:2", "sweep:2/sa"}},
		{"compare sweep:1/#", under("sweep:1")},
		{"compare sweep:1/c#", under("sweep:1")},
		{"compare sweep:latest/#", []string{"sweep:latest/sa"}},
		{"compare latest/#", []string{"latest/sa"}},
		{"compare night/#", under("night")},
		{"compare tag:night/#", under("tag:night")},
		{"compare a/b/#", []string{"a/b/sa"}},
		{"compare a/b#", []string{"1", "2", "3", "a/b", "latest", "night", "sweep:1", "sweep:2"}},
		{"compare sweep:x/#", nil},
		{"regress --baseline sweep:1/#", under("sweep:1")},
		{"regress --candidate night/#", under("night")},
		{"report #", []string{"1", "2", "3", "latest"}},
		{"report 2 #", []string{"1", "3", "latest"}},
		{"report 2 --slowdown #", []string{"1", "2", "3", "latest"}},
		{"export 1 #", []string{"2", "3", "latest"}},
		{"report --node #", []string{"sim:2xP100"}},
		{"report --mix #", []string{"W1"}},
	} {
		words := strings.Fields(strings.ReplaceAll(c.words, "#", ""))
		if strings.HasSuffix(c.words, " #") {
			words = append(words, "")
		}
		offered := completions(t, words...)
		if slices.Sort(offered); !slices.Equal(offered, c.want) {
			t.Errorf("%s: %q, want %q", c.words, offered, c.want)
		}
	}
}

// Every offer of these has a description.
func TestCompletionsAreDescribed(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--tag", "night", "--reps", "1")
	for _, words := range [][]string{
		{"compare", ""}, {"compare", "sweep:1/"}, {"report", ""}, {"report", "--tag", ""}, {"sweep", "--mixes", "W1,"}, {"sweep", "--probes", ""},
		{"mix", "W1", "--node", ""}, {"mix", "W1", "--sched", ""}, {"mix", "W1", "--sched", "cg:"}, {"report", "--format", ""}, {"mix", "--"}, {"report", "--"},
	} {
		_, out, _ := caserun(t, append([]string{"__complete"}, words...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for _, line := range lines[:len(lines)-1] {
			if word, description, _ := strings.Cut(line, "\t"); description == "" || strings.Contains(description, "`") {
				t.Errorf("%q: %s has the description %q", words, word, description)
			}
		}
	}
}

// Completion does not bring a store of an earlier version up to date.
func TestCompletionChangesNoStore(t *testing.T) {
	bundle, err := filepath.Abs("../../docs/results/bundles/sweep.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	inTempDir(t)
	if out, err := exec.Command("tar", "xzf", bundle, "caserun.db").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, err := os.ReadFile("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	_, offered, _ := caserun(t, "__complete", "sweep", "show", "")
	if after, err := os.ReadFile("caserun.db"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the store has changed (%v); offered: %s", err, offered)
	}
}

// bash lists what follows a comma, takes a single offer without a backslash, and goes on from it.
func TestCompletionInBash(t *testing.T) {
	dir := inTempDir(t)
	if err := os.WriteFile("mine.yaml", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, script, errs := caserun(t, "completion", "bash")
	if script == "" {
		t.Fatal(errs)
	}
	_, bare, _ := caserun(t, "completion", "bash", "--no-descriptions")
	// bash calls the function as it would at the key; package bash-completion splits the line.
	const session = `
_init_completion() { words=("${typed[@]}"); cword=$((${#words[@]} - 1)); cur=${words[cword]}; prev=${words[cword - 1]}; }
compopt() { :; }
caserun() { "$PROGRAM" "$@"; }
press() { COMP_TYPE=$1; shift; typed=("$@"); COMP_LINE="$*"; COMPREPLY=(); __start_caserun; printf '%s\n' "${COMPREPLY[@]%% *}"; echo; }
press 63 caserun sweep --mixes W1,
press 9 caserun sweep --mixes W1,m
press 9 caserun sweep --mixes W1,mine.yaml,W8
press 37 caserun sweep --mixes W1,W2,W8
`
	for name, functions := range map[string]string{"with descriptions": script, "without": bare} {
		c := exec.Command("bash", "-c", functions+session)
		c.Dir, c.Env = dir, append(os.Environ(), mainEnv+"=1", "PROGRAM="+os.Args[0])
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		parts := strings.Split(string(out), "\n\n")
		if len(parts) != 5 || !strings.Contains(parts[0], "W1,W2\n") || strings.Contains(string(out), `\`) {
			t.Fatalf("%s: bash offers %q", name, out)
		}
		for i, want := range []string{"W1,mine.yaml", "W1,mine.yaml,W8", "W1,W2,W8"} {
			if parts[i+1] != want {
				t.Errorf("%s: bash offers %q, want %q", name, parts[i+1], want)
			}
		}
	}
}
