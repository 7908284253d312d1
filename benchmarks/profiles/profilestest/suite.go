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
	name := filepath.Join(filepath.Dir(here), "../suite_h100.csv")
	measured, err := profiles.Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	w := profiles.NewWriter(&text)
	for _, p := range measured.All() {
		p.Rounds = 0
		if err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	once, err := profiles.Read(name, &text)
	if err != nil {
		t.Fatal(err)
	}
	return once
}
