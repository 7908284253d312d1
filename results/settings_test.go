package results_test

import (
	"testing"

	"github.com/caserun/caserun/results"
)

func TestGuarded(t *testing.T) {
	for configuration, want := range map[string]bool{`[{"Key":"guard","Value":true}]`: true, `[{"Key":"guard","Value":false}]`: false, `[]`: false, ``: false} {
		if got := results.Guarded(results.Run{Provenance: results.Provenance{Configuration: configuration}}); got != want {
			t.Errorf("%q: %v", configuration, got)
		}
	}
}

func TestSeveralSettings(t *testing.T) {
	run := func(workers int, configuration string) results.Run {
		return results.Run{Workers: workers, Provenance: results.Provenance{Configuration: configuration}}
	}
	for name, c := range map[string]struct {
		runs []results.Run
		want string
	}{
		"none":          {nil, ""},
		"alike":         {[]results.Run{run(3, `[{"Key":"mem-cap","Value":"16GiB"}]`), run(3, `[{"Key":"mem-cap","Value":"16GiB"}]`)}, ""},
		"workers":       {[]results.Run{run(64, `[]`), run(3, `[]`)}, `workers: "3" and "64"`},
		"the run's own": {[]results.Run{run(0, `[{"Key":"workers","Value":0},{"Key":"seed","Value":1}]`), run(0, `[{"Key":"workers","Value":3},{"Key":"seed","Value":2}]`)}, ""},
		"two": {[]results.Run{run(0, `[{"Key":"mem-cap","Value":""},{"Key":"no-mps","Value":true}]`), run(0, `[{"Key":"mem-cap","Value":"8GiB"},{"Key":"no-mps","Value":false}]`)},
			`mem-cap: "" and "8GiB", no-mps: "false" and "true"`},
		"not known": {[]results.Run{run(0, `[{"Key":"mem-cap","Value":"8GiB"}]`), run(0, ``)}, ""},
	} {
		if got := results.SeveralSettings(c.runs); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
