package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rodiniaOnly are the programs of the authors' files that are not in the builtin suite.
var rodiniaOnly = []string{"3D", "b+tree.out", "euler3d", "gaussian", "heartwall", "hotspot", "myocyte.out", "particlefilter_float", "particlefilter_naive", "pathfinder"}

// commandIn finds the commands that a message tells the user to run.
var commandIn = regexp.MustCompile(`caserun (?:profile --mix|mix) [^,;]+?( and|,|;|$| on a)`)

// Each command line of the authors' workload files runs on a simulated node, or its refusal names the place, the program and a
// command that caserun takes.
func TestAuthorsCommands(t *testing.T) {
	text, err := os.ReadFile("testdata/authors_commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	var known strings.Builder
	refused := 0
	for command := range strings.Lines(string(text)) {
		words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(command), "&"))
		program := words[slices.IndexFunc(words, func(w string) bool { return w != "nvprof" })]
		foreign := slices.Contains(rodiniaOnly, program)
		if !foreign && !strings.HasSuffix(program, ".wl") {
			known.WriteString(command)
			continue
		}
		refused++
		writeFiles(t, map[string]string{"their.wl": "# theirs\n" + command})
		status, _, errs := caserun(t, "mix", "their.wl", "--node", "sim:4xV100")
		if status != exitUsage || !strings.Contains(errs, "their.wl:2:") || !strings.Contains(errs, fmt.Sprintf("%q", program[strings.LastIndex(program, "/")+1:])) || strings.Contains(errs, "nvprof") {
			t.Errorf("%s: exit %d: %s", command, status, errs)
		}
		takesCommand(t, errs)
		if !foreign {
			continue
		}
		// A suite has the program, but nobody has measured it.
		writeFiles(t, map[string]string{"suite/" + program: "#!/bin/sh\n"})
		if err := os.Chmod("suite/"+program, 0o755); err != nil {
			t.Fatal(err)
		}
		status, _, errs = caserun(t, "mix", "their.wl", "--node", "sim:4xV100", "--suite", "suite")
		if status != exitUsage || !strings.Contains(errs, fmt.Sprintf("their.wl:2: no profile of \"%s ", program)) {
			t.Errorf("%s: exit %d: %s", command, status, errs)
		}
		takesCommand(t, errs)
	}
	if refused < 30 {
		t.Errorf("%d commands refused", refused)
	}
	writeFiles(t, map[string]string{"known.wl": known.String()})
	if status, _, errs := caserun(t, "mix", "known.wl", "--node", "sim:8xH200"); status != exitOK {
		t.Errorf("the other commands: exit %d: %s", status, errs)
	}
}

// takesCommand checks that a message names a command, and that caserun takes its words.
func takesCommand(t *testing.T, message string) {
	t.Helper()
	found := commandIn.FindStringSubmatch(message)
	if found == nil {
		t.Errorf("no command in %s", message)
		return
	}
	words := strings.Fields(strings.TrimSuffix(found[0], found[1]))
	c, rest, err := newRoot().Find(words[1:])
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		t.Errorf("%q: %v", words, err)
	}
}
