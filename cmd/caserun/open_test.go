package main

import (
	"os"
	"slices"
	"testing"
)

// Commands that read leave the store's file as the whole store: it may be copied,
// and whoever owns it may go on writing.
func TestReadingLeavesNothingBesideTheStore(t *testing.T) {
	inTempDir(t)
	for _, args := range [][]string{
		{"sweep", "--mixes", "W1", "--scheds", "sa,cg", "--node", "sim:1xV100", "--reps", "1"},
		{"sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:1xV100", "--reps", "1", "--tag", "t"},
		{"report"}, {"report", "latest", "-v"}, {"report", "--html", os.DevNull},
		{"compare", "2", "1"}, {"regress", "--baseline", "sweep:1", "--candidate", "sweep:2"},
		{"sweep", "list"}, {"sweep", "show"}, {"sweep", "--resume", "--show-config"},
		{"sweep", "--mixes", "W2", "--scheds", "sa", "--node", "sim:1xV100", "--dry-run"},
		{"export", "--markdown", "-"}, {"export", "--bundle", "../b.tar.gz"}, {"paper", "--as", "4xV100", "--out", "../paper"},
	} {
		if status, _, errs := caserun(t, args...); status == exitUsage || status == exitInfrastructure {
			t.Errorf("%v: exit %d: %s", args, status, errs)
		}
		left, err := os.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range left {
			names = append(names, f.Name())
		}
		if !slices.Equal(names, []string{"caserun.db"}) {
			t.Errorf("%v: %v are left", args, names)
		}
	}
}
