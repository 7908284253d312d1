package mixes

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// loaded is the mix of a file with this text.
func loaded(t *testing.T, text string) Mix {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mix.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// times are when the jobs of a mix arrive in a run with this seed.
func times(t *testing.T, m Mix, seed uint64) (out []time.Duration) {
	t.Helper()
	arriving, err := m.Arriving(seed)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range arriving.Jobs {
		out = append(out, j.At)
	}
	return out
}

func TestArrivals(t *testing.T) {
	for _, c := range []struct {
		text, open string
		want       []time.Duration
	}{
		{"jobs: [{job: bfs-32M, count: 2}]", "", []time.Duration{0, 0}},
		{"jobs: [bfs-32M, {job: bfs-32M, at: 30s, count: 2}]", "at", []time.Duration{0, 30 * time.Second, 30 * time.Second}},
		{"arrivals: {every: 1.5s}\njobs: [{job: bfs-32M, count: 3}]", "every 1.5s", []time.Duration{0, 1500 * time.Millisecond, 3 * time.Second}},
		{"arrivals: {trace: testdata/traces/good.csv, column: submitted}\njobs: [{job: bfs-32M, count: 3}]", "trace testdata/traces/good.csv",
			[]time.Duration{0, 1500 * time.Millisecond, 1500 * time.Millisecond}},
	} {
		m := loaded(t, c.text)
		if got := times(t, m, 1); !slices.Equal(got, c.want) || m.OpenLoad() != c.open {
			t.Errorf("%s: %q, jobs arrive at %v, want %q at %v", c.text, m.OpenLoad(), got, c.open, c.want)
		}
	}
}

// A seed of the mix counts in every run, and without one each run's own.
func TestSeedOfArrivals(t *testing.T) {
	own := loaded(t, "arrivals: {poisson: 30/m, seed: 7}\njobs: [{job: bfs-32M, count: 2000}]")
	runs := loaded(t, "arrivals: {poisson: 0.5/s}\njobs: [{job: bfs-32M, count: 2000}]")
	drawn := times(t, own, 1)
	if !slices.Equal(drawn, times(t, own, 2)) || !slices.Equal(drawn, times(t, runs, 7)) || slices.Equal(drawn, times(t, runs, 8)) {
		t.Error("the times do not follow from the seed of the mix, or of the run")
	}
	if own.Chance() || !runs.Chance() {
		t.Error("Chance does not say what depends on the run's seed")
	}
	if !slices.IsSorted(drawn) {
		t.Error("times are not in order")
	}
	// 2000 exponential times of 2 s: their mean is within 4 standard errors, and 1 - 1/e of them are below it.
	mean, below, before := drawn[len(drawn)-1].Seconds()/2000, 0, time.Duration(0)
	for _, at := range drawn {
		if at-before < 2*time.Second {
			below++
		}
		before = at
	}
	if math.Abs(mean-2) > 4*2/math.Sqrt(2000) || math.Abs(float64(below)/2000-(1-1/math.E)) > 0.04 {
		t.Errorf("the mean time between arrivals is %.3f s, and %d of 2000 are below 2 s", mean, below)
	}
}

func TestBadArrivals(t *testing.T) {
	const rate, every, seed = "write a number above 0 and a unit", "write a time above 0 with its unit", "write a whole number from 0"
	for _, c := range []struct{ arrivals, want string }{
		{"{poisson: 0/s}", rate}, {"{poisson: -1/s}", rate}, {"{poisson: 0.5}", rate}, {"{poisson: 1e3/s}", rate}, {"{poisson: NaN/s}", rate},
		{"{poisson: inf/s}", rate}, {"{poisson: 2000000/s}", rate}, {"{poisson: 1/d}", rate}, {"{poisson: [1/s]}", "poisson is a list"},
		{"{poisson: 1/s, seed: -1}", seed}, {"{poisson: 1/s, seed: 1.5}", seed}, {"{poisson: 1/s, seed: seven}", seed},
		{"{poisson: 1/s, seed: 99999999999999999999}", seed}, {"{poisson: 1/s, seed: }", "seed has no value"},
		{"{every: 0s}", every}, {"{every: -1s}", every}, {"{every: 2}", every}, {"{every: NaN}", every}, {"{every: 9000h}", every},
		{"{every: 5000h}", "the last of 3 jobs would arrive after more than a year"},
		{"{every: 2s, seed: 7}", "seed without poisson"}, {"{every: 2s, column: x}", "column without trace"},
		{"{every: 2s, poisson: 1/s}", "arrivals have 2 of poisson, every and trace"}, {"{}", "arrivals have 0 of"},
		{"{rate: 1/s}", `unknown key "rate" in arrivals`}, {"2s", "arrivals is a single value"}, {"{trace: }", "trace has no value"}, {`{trace: ""}`, `bad trace ""`},
		{"{trace: missing.csv}", "missing.csv: no such file"},
	} {
		checkBad(t, c.arrivals, c.want)
	}
	for _, c := range []struct{ trace, want string }{
		{"", "trace.csv:1: an empty file: want a header with arrival_s"},
		{"arrival_s\n", "trace.csv:1: the file ends after 0 arrivals, and the mix has 3 jobs"},
		{"arrival_s\n1\n2\n", "trace.csv:3: the file ends after 2 arrivals"},
		{"job,arrival_s\n0,1\n1,5.5\n2,5\n", "trace.csv:4: arrival_s 5 is before that of line 3: sort the file by arrival_s"},
		{"arrival_s\n-1\n", `trace.csv:2: bad arrival_s "-1": write seconds since the batch arrived`},
		{"arrival_s\nNaN\n", `trace.csv:2: bad arrival_s "NaN"`}, {"arrival_s\n1\ninf\n", `trace.csv:3: bad arrival_s "inf"`},
		{"arrival_s\n1e999\n", `bad arrival_s "1e999"`}, {"arrival_s\nsoon\n", `bad arrival_s "soon"`}, {"arrival_s,x\n,1\n", `bad arrival_s ""`},
		{"arrival_s\n1\n1.7e9\n", `trace.csv:3: bad arrival_s "1.7e9": write seconds since the batch arrived, from 0 to 31536000, which is a year`},
		{"arrival_s\n1,2\n", "trace.csv:2: not CSV: wrong number of fields"}, {"arrives\n1\n", `trace.csv:1: no column "arrival_s": the file has arrives`},
		{"arrival_s,arrival_s\n1,2\n", `trace.csv:1: two columns "arrival_s": rename one`}, {"arrival_s\n\" 5\"\n4\n", "arrival_s 4 is before that of line 2"},
	} {
		path := filepath.Join(t.TempDir(), "trace.csv")
		if err := os.WriteFile(path, []byte(c.trace), 0o600); err != nil {
			t.Fatal(err)
		}
		checkBad(t, "{trace: "+path+"}", c.want)
	}
}

// Where a group stands beside at, the error is not of their order.
func TestAtBesideGroups(t *testing.T) {
	for _, jobs := range []string{"{job: bfs-32M, at: 30s}, {job: bfs-32M, group: 1}", "{job: bfs-32M, group: 1}, {job: bfs-32M, at: 30s}", "{job: bfs-32M, group: 1, at: 30s}, bfs-32M"} {
		_, err := parseYAML(newLines("mix.yaml", strings.NewReader("jobs: ["+jobs+"]\n")), builtin().jobs, nil)
		if want := "at in a mix with groups: a group arrives when the jobs before it have ended; remove group, or at"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", jobs, err, want)
		}
	}
}

// checkBad reads a mix of three jobs with these arrivals. The error must name the line of the key.
func checkBad(t *testing.T, arrivals, want string) {
	t.Helper()
	_, err := parseYAML(newLines("mix.yaml", strings.NewReader("jobs: [{job: bfs-32M, count: 3}]\narrivals: "+arrivals+"\n")), builtin().jobs, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "mix.yaml:2:") || !strings.Contains(err.Error(), want) {
		t.Errorf("arrivals: %s: error %v, want mix.yaml:2: and %q", arrivals, err, want)
	}
}
