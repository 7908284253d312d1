//go:build full

package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Nights of a simulated node, as docs/guide/nightly.md has them: good ones, a noisy one, a dead one, one on another
// machine, and ones on which all jobs take 5 % longer. Five schedulers, one of which loses jobs by chance, and default limits.
func TestNights(t *testing.T) {
	known, err := os.ReadFile("../../runner/profiles/rodinia31_h200.csv")
	if err != nil {
		t.Fatal(err)
	}
	inTempDir(t)
	const slow = 18
	night := func(n int, node, noise string) {
		t.Helper()
		factor := 1.0
		if n >= slow {
			factor = 1 / 0.95
		}
		if err := os.WriteFile("app.csv", []byte(stretched(t, string(known), factor)), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := caserun(t, "sweep", "--mixes", "W1,W4,W7", "--scheds", "sa,cg,schedgpu,case-alg2,case-alg3", "--reps", "7", "--node", node,
			"--profiles", "app.csv", "--sim-noise", noise, "--seed", strconv.Itoa(100+n), "--tag", fmt.Sprintf("n%02d", n)); status != exitOK {
			t.Fatal(errs)
		}
	}
	night(0, "sim:4xV100", "0.01")
	for _, c := range []struct {
		night       int
		node, noise string
		status      int
		says        string
	}{
		{1, "sim:4xV100", "0.01", exitOK, "all 60 checks pass"},
		{2, "sim:4xV100", "0.01", exitOK, "spread: cg lost different numbers of jobs"},
		{3, "sim:4xV100", "0.01", exitOK, ""},
		{4, "sim:4xV100", "0.05", -1, ""}, // a noisy night passes, or says that it is too noisy
		{9, "", "", exitUsage, "no run has the tag n09"},
		{15, "sim:4xP100", "0.01", exitNothing, ""},
		{slow, "sim:4xV100", "0.01", exitRegression, "n18"},
		{slow + 1, "sim:4xV100", "0.01", exitRegression, "since n18"},
		{slow + 2, "sim:4xV100", "0.05", exitRegression, ""},
	} {
		if c.node != "" {
			night(c.night, c.node, c.noise)
		}
		status, out, errs := caserun(t, "regress", "--baseline", "n00", "--candidate", fmt.Sprintf("n%02d", c.night))
		good := status == c.status || c.status == -1 && (status == exitOK || status == exitNothing)
		if text := strings.Join(strings.Fields(out+errs), " "); !good || !strings.Contains(text, c.says) {
			t.Errorf("night %d: exit %d, want %d and %q:\n%s%s", c.night, status, c.status, c.says, out, errs)
		}
		if c.night >= slow && strings.Contains(out, "--resume 1 ") {
			t.Errorf("night %d: the hint extends a baseline of other jobs:\n%s", c.night, out)
		}
	}
}

// stretched are profiles whose phases take so many times as long.
func stretched(t *testing.T, profiles string, factor float64) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(profiles)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, row := range rows {
		for c, name := range rows[0] {
			if v, err := strconv.ParseFloat(row[c], 64); err == nil && i > 0 && strings.HasSuffix(name, "_s") {
				row[c] = strconv.FormatFloat(v*factor, 'g', -1, 64)
			}
		}
	}
	if err := csv.NewWriter(&out).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
