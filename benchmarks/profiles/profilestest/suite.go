// Package profilestest has profiles for tests.
package profilestest

import (
	"bytes"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/caserun/caserun/benchmarks/profiles"
)

// Suite returns the profiles of the builtin suite that were measured on an H100, with all in one round, as the catalog's
// are: the bounds of docs/bounds.md know no rounds.
func Suite(t testing.TB) profiles.Set {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	measured, err := profiles.Load(t.Context(), filepath.Join(filepath.Dir(here), "../suite_h100.csv"))
	if err != nil {
		t.Fatal(err)
	}
	all := measured.All()
	for i := range all {
		all[i].Rounds = 0
	}
	return setOf(t, all)
}

// Fitted returns known with the jobs fitted that last this many seconds on another host, by command.
func Fitted(t testing.TB, known profiles.Set, seconds map[string]float64) profiles.Set {
	t.Helper()
	var own []profiles.Profile
	for _, p := range known.All() {
		if s, found := seconds[p.Command]; found {
			own = append(own, p.Lasting(s))
		}
	}
	if len(own) != len(seconds) {
		t.Fatalf("%d of %d jobs have a profile", len(own), len(seconds))
	}
	return known.With(setOf(t, own))
}

// setOf makes a set by way of a file.
func setOf(t testing.TB, all []profiles.Profile) profiles.Set {
	t.Helper()
	var text bytes.Buffer
	w := profiles.NewWriter(&text)
	for _, p := range all {
		if err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	set, err := profiles.Read("profiles of a test", &text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
