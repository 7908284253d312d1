package sim

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
)

// The error names all of a mix, and the command that measures them.
func TestMixWithoutProfiles(t *testing.T) {
	b, err := Open(harness.Options{Node: "sim:1xH200", Suite: suites.Builtin, Data: harness.DefaultData})
	if err != nil {
		t.Fatal(err)
	}
	m := mixes.Mix{Name: "own", Jobs: []mixes.Job{{Name: "a", Program: "torch/cnn.py", Args: []string{"--epochs", "2"}}, {Name: "b", Program: "./solver"}}}
	err = b.CheckMix(m, results.Lazy, profiles.Catalog())
	for _, want := range []string{
		`mix own: no profile of "torch/cnn.py --epochs 2": a simulated node can run the catalog's jobs`,
		`; nor of "./solver"; to measure one, run caserun profile --mix`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
