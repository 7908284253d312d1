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

// The PyTorch programs have no profiles. The error names all of a mix, and the command that measures them.
func TestMixWithoutProfiles(t *testing.T) {
	b, err := Open(harness.Options{Node: "sim:1xH200", Suite: suites.Builtin, Data: harness.DefaultData})
	if err != nil {
		t.Fatal(err)
	}
	m, err := mixes.Lookup("M-infer")
	if err != nil {
		t.Fatal(err)
	}
	err = b.CheckMix(m, results.Lazy, profiles.Catalog())
	for _, want := range []string{
		`mix M-infer: no profile of "torch/decode.py": a simulated node can run the catalog's Rodinia and Darknet jobs`,
		`; nor of "torch/graphs.py", "torch/diffusion.py"; to measure one, run caserun profile --mix M-infer --out profiles.csv on`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
