package main

import (
	"os"
	"slices"
	"strings"
	"testing"
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
	for _, c := range []struct {
		flag, typed string
		want        []string
	}{
		{"--mixes", "", []string{"W1", "W8"}},
		{"--mixes", "W1,", []string{"W1,W1", "W1,W8"}},
		{"--mixes", "W1,my.yaml,W", []string{"W1,my.yaml,W8"}},
		{"--scheds", "sa,", []string{"sa,cg", "sa,case-alg3"}},
		{"--scheds", "cg:workers=8,c", []string{"cg:workers=8,case-alg3"}},
	} {
		offered := completions(t, "sweep", c.flag, c.typed)
		for _, want := range c.want {
			if !slices.Contains(offered, want) {
				t.Errorf("%s %s: %q, want %q too", c.flag, c.typed, offered, want)
			}
		}
		for _, o := range offered {
			if before := c.typed[:strings.LastIndex(c.typed, ",")+1]; !strings.HasPrefix(o, before) {
				t.Errorf("%s %s: %q does not begin with %q", c.flag, c.typed, o, before)
			}
		}
	}
}

func TestCompletionOfParameters(t *testing.T) {
	for typed, want := range map[string][]string{
		"cg":                            {"case-alg2", "case-alg3", "cg", "sa", "schedgpu", "zero"},
		"cg:":                           {"cg:isolate=", "cg:workers="},
		"case-alg3:queue=fifo,room=0,w": {"case-alg3:queue=fifo,room=0,wait-limit="},
		"nobody:":                       nil,
	} {
		offered := slices.DeleteFunc(completions(t, "mix", "W1", "--sched", typed), func(o string) bool { return typed != "cg" && !strings.HasPrefix(o, typed) })
		if slices.Sort(offered); !slices.Equal(offered, want) {
			t.Errorf("%s: %q, want %q", typed, offered, want)
		}
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
