package main

import (
	"strings"
	"testing"
)

// A mix that mixes new has written can be simulated as it is.
func TestMixesNew(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "mixes", "new", "-o", "my.yaml"); status != exitOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	status, out, errs := caserun(t, "mix", "my.yaml", "--node", "sim:2xV100", "--format", "csv")
	if status != exitOK || !strings.Contains(out, "my-mix") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	if status, _, errs := caserun(t, "mixes", "new", "-o", "my.yaml"); status != exitUsage || !strings.Contains(errs, "exists") {
		t.Errorf("status %d: %s; want the file kept", status, errs)
	}
}
