package profiles

import (
	"math"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// measuredWallS is the wall time of each job alone on the H200, in seconds, as
// it was measured. The phases were derived from it and must add up to it.
var measuredWallS = map[string]float64{
	"backprop-8388608":  6.50,
	"bfs-32M":           28.61,
	"srad_v2-8192":      2.11,
	"dwt2d-8192":        0.43,
	"needle-16384":      2.48,
	"backprop-16777216": 10.32,
	"srad_v1-11000":     10.57,
	"backprop-33554432": 22.95,
	"srad_v2-16384":     7.21,
	"srad_v1-15000":     23.66,
	"lavaMD-100":        14.34,
	"dwt2d-16384":       0.72,
	"needle-32768":      8.15,
	"backprop-67108864": 38.20,
	"lavaMD-110":        18.44,
	"srad_v1-20000":     39.54,
	"lavaMD-120":        23.33,
}

func TestPhasesAddUpToTheMeasuredWallTime(t *testing.T) {
	for _, job := range mixes.Jobs() {
		p, err := Lookup(job.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		want, measured := measuredWallS[job.Name]
		tolerance := 0.001
		if p.KernelAssumed {
			tolerance = 0.01 // the measured rest does not include the estimate
		}
		if got := p.WallS(); !measured || math.Abs(got-want) > tolerance {
			t.Errorf("%s: phases add up to %.3f s, measured %.3f s", job.Name, got, want)
		}
		if strings.HasPrefix(job.Name, "srad_v2") != p.KernelAssumed {
			t.Errorf("%s: kernel time estimated: %v, want that of srad_v2 alone", job.Name, p.KernelAssumed)
		}
	}
}

func TestLookupOfAnUnknownJobNamesIt(t *testing.T) {
	if _, err := Lookup("needle-64"); err == nil || !strings.Contains(err.Error(), `"needle-64"`) {
		t.Errorf("error %v, want one that names the job", err)
	}
}

func TestParseNamesFileAndLine(t *testing.T) {
	head := strings.Join(header, ",") + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "f.csv: want the header"},
		{"job,wall_s,a,b,c,d,e,f,g\n", "f.csv: want the header"},
		{head + "a,1,1,1,1,1,1,1,no\nb,1,1,1,-1,1,1,1,no\n", `f.csv: line 3: copy_in_s is "-1"`},
		{head + "a,1,NaN,1,1,1,1,1,no\n", `f.csv: line 2: host_held_s is "NaN"`},
		{head + "a,1,1,1,1,Inf,1,1,no\n", `kernel_s is "Inf"`},
		{head + "a,1,1,1,1,1,1,1,no\na,1,1,1,1,1,1,1,no\n", "f.csv: line 3: job a is there twice"},
		{head + "a,1\n", "f.csv: record on line 2"},
	} {
		if _, err := parse("f.csv", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
