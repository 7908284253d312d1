package trend

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
)

// A sweep that was to run an arm and has no run of it is a gap, and so is a day between nights on which none began.
func TestNightsThatAreMissing(t *testing.T) {
	arm := results.Arm{Mix: "W1", Scheduler: "case-alg3", Node: "local", Mode: results.Live}
	began := time.Date(2026, 11, 1, 23, 50, 0, 0, time.UTC)
	line := Line{Arm: arm, Gaps: []Gap{{"nightly-2026-11-04", 2}}}
	for i, n := range []int{0, 1, 4, 5, 6, 20} {
		at := began.Add(time.Duration(n)*day + time.Duration(i)*3*time.Minute) // each night a little later, and past midnight
		line.Points = append(line.Points, Point{Day: &at, night: regress.Night{Sweep: int64(10 * (i + 1))}})
	}
	planned := func(id int64, tag string, node string, mixes, scheds string) results.Sweep {
		return results.Sweep{ID: id, Tag: tag, Node: node, Mode: results.Live, Spec: `{"mixes":[{"name":"` + mixes + `"}],"scheds":["` + scheds + `"],"probes":["lazy"]}`}
	}
	got := Trend{Lines: []Line{line, {Arm: arm}}}.WithMissing([]results.Sweep{
		planned(5, "before", "local", "W1", "case-alg3"), planned(20, "it has runs", "local", "W1", "case-alg3"),
		planned(25, "nightly-2026-11-04", "local", "W1", "case-alg3"), planned(32, "nightly", "local", "W1", "case-alg3"), planned(35, "dead", "local", "W1", "fifo:=case-alg3:queue=fifo"),
		planned(36, "other mix", "local", "W2", "case-alg3"), planned(37, "other scheduler", "local", "W1", "sa"), planned(38, "other node", "sim:1xV100", "W1", "case-alg3"),
		planned(65, "", "local", "W1", "case-alg3"),
	})
	want := []Gap{{"nightly-2026-11-04", 2}, {"2026-11-03", 2}, {"nightly", 3}, {"dead", 3}, {"2026-11-09 to 2026-11-21", 5}, {"sweep 65", 6}}
	if !slices.Equal(got.Lines[0].Gaps, want) {
		t.Errorf("gaps %v, want %v", got.Lines[0].Gaps, want)
	}
	if len(got.Lines[1].Gaps) > 0 {
		t.Errorf("a line without points has gaps: %v", got.Lines[1].Gaps)
	}
	if note := "dead has no run that counts, which is a gap: 1 of 2 lines"; !slices.Contains(got.Notes, note) {
		t.Errorf("the notes do not say %q:\n%s", note, strings.Join(got.Notes, "\n"))
	}
	for i := range line.Points { // now and then a night
		later := began.Add(time.Duration(i*i) * day)
		line.Points[i].Day = &later
	}
	if got := (Trend{Lines: []Line{line}}).WithMissing(nil).Lines[0].Gaps; !slices.Equal(got, line.Gaps) {
		t.Errorf("nights that do not follow each other day by day have gaps: %v", got)
	}
}
