//go:build python

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/guide/policies.md for a policy that is a program, with the program that the page shows.
func TestCommandsOfThePolicyPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t)
	policy := filepath.Join(s.dir, "policy.py")
	if err := os.WriteFile(policy, []byte(blockBehind(t, string(text), "## A program that decides")), 0o755); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(blockBehind(t, string(text), "TestCommandsOfThePolicyPage")) {
		command := strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		ran++
		if out, errs, status := s.run(command, 0); status != exitOK || out == "" {
			t.Errorf("%s: exit %d\n%s%s", command, status, out, errs)
		}
	}
	if ran == 0 {
		t.Error("the page has no commands")
	}
}
