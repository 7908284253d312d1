package harness

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/profiles"
)

func TestErrorsSayHowToMeasure(t *testing.T) {
	file := mixes.Mix{Name: "their", Source: "dir/their.wl", Jobs: []mixes.Job{{Program: "needle"}, {Program: "hotspot"}}}
	own := mixes.Mix{Name: "own", Source: "own.yaml", Jobs: []mixes.Job{{Program: "./own"}, {Program: "needle"}}}
	catalog := mixes.Mix{Name: "D-detect", Source: "catalog", Jobs: []mixes.Job{{Program: "darknet"}}}
	for _, c := range []struct {
		err  error
		o    Options
		mix  mixes.Mix
		says string
	}{
		{io.ErrNoProgress, Options{Suite: "builtin", Data: DefaultData}, file, "run caserun profile --mix dir/their.wl --suite DIR --out profiles.csv on"},
		{profiles.ErrNone, Options{Suite: "/r's", Data: "/d"}, file, `caserun profile --mix dir/their.wl --suite '/r'\''s' --data /d --out profiles.csv on`},
		{profiles.ErrNone, Options{Suite: "builtin", Data: DefaultData}, own, "caserun profile --mix own.yaml --out profiles.csv on"},
		{profiles.ErrNone, Options{Suite: "builtin", Data: DefaultData}, catalog, "caserun profile --mix D-detect --out profiles.csv on"},
	} {
		err := ToMeasure(fmt.Errorf("job 1: %w", c.err), c.err, c.o, c.mix)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %q, want one with %q", err, c.says)
		}
	}
	if err := ToMeasure(io.EOF, profiles.ErrNone, Options{}, file); err != io.EOF {
		t.Errorf("another error became %v", err)
	}
}
