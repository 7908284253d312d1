package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/display"
)

// A terminal is redrawn, and shows what names would do to it.
func TestMessagesOnATerminal(t *testing.T) {
	master, terminal := openTerminal(t, 80)
	t.Setenv("TERM", "xterm")
	said := display.NewMessages(terminal)
	if !display.IsTerminal(said) {
		t.Error("messages to a terminal are not animated")
	}
	line := display.NewLine(said)
	line.Show("job \x1b[2J\n")
	fmt.Fprint(said, "caserun: \u202egnp\tx")
	text := make([]byte, 100)
	n := 0
	for !strings.HasSuffix(string(text[:n]), "x") {
		more, err := master.Read(text[n:])
		if n += more; err != nil {
			t.Fatalf("%v after %q", err, text[:n])
		}
	}
	shown := strings.ReplaceAll(string(text[:n]), "\t", "        ") // which a terminal may make of it
	if want := clearLine + `job \x1b[2J\n` + clearLine + `caserun: \u202egnp`; !strings.HasPrefix(shown, want) {
		t.Errorf("the terminal got %q, want %q", shown, want)
	}
}

// The configuration is shown so that it can be read again.
func TestShownConfigurationHasEscapes(t *testing.T) {
	inTempDir(t)
	status, shown, errs := caserun(t, "mix", "--show-config", "--tag", "ta'g\"", "--suite", "\u202ea\x1bb")
	if status != exitOK || !strings.Contains(shown, `tag: ta'g"`) || !strings.Contains(shown, `suite: "\u202ea\x1bb"`) {
		t.Fatalf("exit %d: %s\n%q", status, errs, shown)
	}
	if err := os.WriteFile("again.yaml", []byte(strings.ReplaceAll(shown, `\x1b`, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, again, errs := caserun(t, "mix", "--show-config", "--config", "again.yaml"); status != exitOK || !strings.Contains(again, `suite: "\u202eab"`) {
		t.Errorf("read again: exit %d: %s\n%q", status, errs, again)
	}
}

// No name that a user, a file or a job has reaches a terminal as it is.
func TestMessagesShowHostileNames(t *testing.T) {
	inTempDir(t)
	name := "\x1b[2J\u202e\u009b.yaml"
	if err := os.WriteFile(name, []byte("jobs: [no-such-job]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"mix", name}, {"mix", "\x1b[2J"}, {"mix", "W1", "--config", "no\x1b[2J.yaml"}, {"mix", "W1", "--db", "no\x1b[2J/a/../../\u202e", "--node", "\x1b[2J"},
		{"\x1b[2J\u202e"}, {"mix", "W1", "--\x1b[2J"}, {"report", "--tag", "\x1b[2J"}, {"report", "--html", "\x1b[2J/\u202e"}, {"mix", "\xff.yaml"},
	} {
		status, _, errs := caserun(t, args...)
		if status == exitOK || errs == "" {
			t.Errorf("%q: exit %d: %s", args, status, errs)
		}
		if at := strings.IndexFunc(errs, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); at >= 0 || strings.ContainsRune(errs, '\ufffd') {
			t.Errorf("%q: byte %d of %q", args, at, errs)
		}
	}
}

// A line tells the run that has ended, how far the sweep is, and the time left.
// Of a simulated sweep, a line now and then, and the word in each.
