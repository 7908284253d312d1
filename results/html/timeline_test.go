package html

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/schedulers"
)

func classes(bars []bar) []string {
	var out []string
	for _, b := range bars {
		out = append(out, b.Class+" "+b.X+" "+b.Width)
	}
	return out
}

func TestJobRows(t *testing.T) {
	ok, oom, refused := results.OK, results.OOM, results.Refused
	at := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name    string
		job     results.Job
		tasks   []results.Task
		bars    []string
		outcome string
	}{
		{"bound as a process after a wait", results.Job{Device: new(0), StartS: at(2), EndS: at(10), Outcome: &ok}, nil,
			[]string{"host 20% 80%", "wait 0% 20%", "ok 20% 80%"}, ""},
		{"of a later group", results.Job{Device: new(0), ArrivalS: at(3), StartS: at(5), EndS: at(10), Outcome: &ok}, nil,
			[]string{"host 50% 50%", "wait 30% 20%", "ok 50% 50%"}, ""},
		{"waits in its probe", results.Job{Device: new(0), StartS: at(0), EndS: at(8), Outcome: &oom}, []results.Task{{Device: new(0), SubmitS: 1, GrantS: at(4), ReleaseS: at(7)}},
			[]string{"host 0% 80%", "wait 10% 30%", "bad 40% 30%"}, "oom"},
		{"many short tasks are one stretch", results.Job{StartS: at(0), EndS: at(10), Outcome: &ok},
			[]results.Task{{Seq: 0, Device: new(1), SubmitS: 0, GrantS: at(0), ReleaseS: at(3)}, {Seq: 1, Device: new(1), SubmitS: 3.001, GrantS: at(3.002), ReleaseS: at(5)}},
			[]string{"host 0% 100%", "ok 0% 50%"}, ""},
		{"of several devices", results.Job{Device: new(0), Devices: new("0,1"), StartS: at(2), EndS: at(10), Outcome: &ok}, []results.Task{{Device: new(1), SubmitS: 4, GrantS: at(4), ReleaseS: at(7)}},
			[]string{"host 20% 80%", "wait 0% 20%", "ok 20% 80%", "ok 40% 30%"}, ""},
		{"never started", results.Job{EndS: at(5), Outcome: &refused}, nil, []string{"wait 0% 50%"}, "refused"},
		{"still waits", results.Job{}, nil, []string{"wait 0% 100%"}, ""},
		{"still runs", results.Job{Device: new(0), StartS: at(5)}, nil, []string{"host 50% 50%", "wait 0% 50%", "open 50% 50%"}, ""},
	} {
		row := newJobRow(c.job, c.tasks, holdsOf(c.job, c.tasks, 10), nil, 10)
		if diff := cmp.Diff(c.bars, classes(row.Bars)); diff != "" || row.Outcome != c.outcome {
			t.Errorf("%s: outcome %q\n%s", c.name, row.Outcome, diff)
		}
	}
}

func TestLanesDoNotOverlap(t *testing.T) {
	holds := []hold{{0, 0, 0, 4}, {1, 0, 1, 2}, {2, 0, 2, 6}, {3, 0, 4, 5}, {4, 0, 3, 4}}
	var got [][]int
	for _, lane := range lanes(holds) {
		var own []int
		for i, h := range lane {
			own = append(own, h.job)
			if i > 0 && lane[i-1].to > h.from {
				t.Errorf("job %d overlaps its neighbour", h.job)
			}
		}
		got = append(got, own)
	}
	if diff := cmp.Diff([][]int{{0, 3}, {1, 2}, {4}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestThinKeepsPeaksAndGaps(t *testing.T) {
	var points []point
	for i := range 10_000 {
		points = append(points, point{x: float64(i), y: float64(i % 7)})
	}
	points[4321].y, points[6000].y, points[7000].gap = 99, -5, true
	got := thin(points, 10_000, 50)
	if len(got) > 4*52 {
		t.Errorf("%d points for 50 buckets and a gap", len(got))
	}
	for _, want := range []point{points[0], points[4321], points[6000], points[7000], points[9999]} {
		if !slices.Contains(got, want) {
			t.Errorf("%+v is lost", want)
		}
	}
	if !slices.IsSortedFunc(got, func(a, b point) int { return int(a.x - b.x) }) {
		t.Error("the points are out of order")
	}
	if few := points[:100]; len(thin(few, 10_000, 50)) != len(few) {
		t.Error("a curve with few points is thinned")
	}
}

func TestCurve(t *testing.T) {
	steps := []results.Step{{FromS: 0, ToS: 5, Value: new(0.5)}, {FromS: 5, ToS: 6}, {FromS: 8, ToS: 10, Value: new(1.0)}}
	c := newCurve("GPU 0", steps, 10, 1, 0, 100)
	if want := "M0 20h500M800 0h200"; c.Line != want {
		t.Errorf("line %s, want %s", c.Line, want)
	}
	if want := "M0 40V20h500V40H0ZM800 40V0h200V40H800Z"; c.Area != want {
		t.Errorf("area %s, want %s", c.Area, want)
	}
	if c := newCurve("GPU 1", steps[1:2], 10, 1, 0, 100); c.Line != "" || c.Text != "GPU 1: nothing known" {
		t.Errorf("a curve of nothing: %+v", c)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		end  float64
		want []string
	}{
		{10, []string{"0 s", "2 s", "4 s", "6 s", "8 s", "10 s"}}, {76.26, []string{"0 s", "20 s", "40 s", "60 s"}},
		{0.003, []string{"0 ms", "1 ms", "2 ms", "3 ms"}}, {0.5, []string{"0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "0.5 s"}}, {12e-6, []string{"0 us", "2.5 us", "5 us", "7.5 us", "10 us"}}, {600, []string{"0 s", "200 s", "400 s", "600 s"}},
	} {
		var got []string
		for _, m := range ticks(c.end, 1) {
			got = append(got, m.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("ticks to %g: %q", c.end, got)
		}
	}
}

// choose takes the median run of each arm first.
func TestChoose(t *testing.T) {
	var runs []results.Run
	for i := range 60 {
		r := results.Run{ID: int64(i + 1), Mix: "W1", Scheduler: []string{"sa", "cg", "zero"}[i%3], Jobs: 4}
		if i >= 3 {
			r.Metrics.MakespanS = new(float64(100 - i))
		}
		runs = append(runs, r)
	}
	chosen := choose(runs)
	if len(chosen) != maxSections {
		t.Errorf("%d sections", len(chosen))
	}
	for i := range runs {
		runs[i].Jobs = maxJobs / 3
	}
	chosen = choose(runs)
	var makespans []float64
	for _, r := range runs {
		if chosen[r.ID] {
			makespans = append(makespans, *r.Metrics.MakespanS)
		}
	}
	slices.Sort(makespans)
	if !slices.Equal(makespans, []float64{68, 69, 70}) {
		t.Errorf("chosen by makespan: %v", makespans)
	}
}

func TestVerdictsAreShown(t *testing.T) {
	m := fixture()
	v, err := build(t.Context(), m, m.runs()[:21], Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Groups) != 1 || len(v.Groups[0].Arms.Rows) != 3 {
		t.Fatalf("groups: %+v", v.Groups)
	}
	rows := v.Groups[0].Arms.HTML()
	if base := rows[0].Cells[0]; base.Text != "sa" || base.Small != "(base)" {
		t.Errorf("the base is %+v", base)
	}
	if c := rows[1].Cells[4]; c.Text != "2.38×" || c.Arrow != "▲" || c.Verdict != stats.Better || c.Small != "(2.32 to 2.45)" {
		t.Errorf("throughput of case-alg3: %+v", c)
	}
	if c := rows[1].Cells[6]; c.Text != "0.56×" || c.Arrow != "▼" || c.Verdict != stats.Better {
		t.Errorf("turnaround of case-alg3: %+v", c)
	}
	if got := rows[2].Cells[1].Text; got != "✕ 7 of 28 (25.0 %)" {
		t.Errorf("crashes of cg: %q", got)
	}
	v, err = build(t.Context(), m, m.runs()[:3], Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := v.Groups[0].Arms.HTML()[1].Cells[4]; c.Text != "2.40×" || c.Arrow != "▲" || c.Verdict != stats.Inconclusive || c.Small != "" {
		t.Errorf("one run of each: %+v", c)
	}
	if notes := v.Groups[0].Notes; len(notes) != 2 || !strings.HasPrefix(notes[0], "† survivors only") || !strings.HasPrefix(notes[1], "Inconclusive: too few repetitions") || strings.Contains(v.Groups[0].Arms.Page.Caption, "in brackets") {
		t.Errorf("one run of each: notes %q, caption %q", v.Groups[0].Notes, v.Groups[0].Arms.Page.Caption)
	}
}

// A run of a part of a mix, such as a retry of collateral jobs, is compared only with runs of
// equally many jobs.
func TestPartsOfAMixAreApart(t *testing.T) {
	m := memory{}
	m.add(simulatedRun("cg", 1, 10))
	m.add(simulatedRun("sa", 1, 10))
	retry := simulatedRun("cg", 1, 10)
	retry.jobs = retry.jobs[3:]
	m.add(retry)
	v, err := build(t.Context(), m, m.runs(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range v.Groups {
		got = append(got, g.Title)
		jobs, _, _ := strings.Cut(g.Arms.Page.Caption, ".")
		for _, r := range g.Arms.HTML() {
			got = append(got, fmt.Sprintf("%s: %s run of %s", r.Cells[0].Text, r.Cells[2].Text, jobs))
		}
	}
	want := []string{"W1 on sim:2xV100, 4 jobs", "sa: 1 run of 4 jobs", "cg: 1 run of 4 jobs", "W1 on sim:2xV100, 1 job", "cg: 1 run of 1 jobs"}
	if !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}

// Only an outcome that the job itself caused is shown as a failure.
func TestClassOfOutcomes(t *testing.T) {
	for outcome, want := range map[results.Outcome]string{results.OK: classOK, results.Crash: classBad, results.OOM: classBad,
		results.Cancelled: classOpen, results.NotStarted: classOpen} {
		if got := classOf(results.Job{Outcome: &outcome}); got != want {
			t.Errorf("%s: %s, want %s", outcome, got, want)
		}
	}
}

// Memory that leaves is above, memory that comes back below. Swaps that are too near to be told apart
// are one bar, and those in vain have none.
func TestSwapsInTheRowOfTheirJob(t *testing.T) {
	swap := func(d schedulers.Direction, o schedulers.Outcome, from, to float64, gibs int64) results.Swap {
		return results.Swap{Direction: d, Outcome: o, StartS: from, EndS: to, Bytes: gibs << 30}
	}
	out, in := schedulers.Out, schedulers.In
	swaps := []results.Swap{
		swap(in, schedulers.Done, 6, 7, 3), // rows are in the order of the answers
		swap(out, schedulers.Done, 2, 3, 2), swap(out, schedulers.Done, 3.001, 4, 1), swap(out, schedulers.Done, 8, 9, 4),
		swap(out, schedulers.Busy, 5, 5.5, 0), swap(out, schedulers.Done, 9.5, 9.5, 0),
	}
	job := results.Job{Device: new(0), StartS: new(0.0), EndS: new(10.0), Outcome: new(results.OK)}
	row := newJobRow(job, nil, nil, swaps, 10)
	if diff := cmp.Diff([]string{"host 0% 100%", "out 20% 20%", "out 80% 10%", "in 60% 10%"}, classes(row.Bars)); diff != "" {
		t.Error(diff)
	}
	if want := "job 0 : ok, 4 swaps (7 GiB to the host, 3 GiB back), 1 unsuccessful, ended at 10.00 s"; row.Text != want {
		t.Errorf("text %q, want %q", row.Text, want)
	}
	for i, want := range []string{"", "3 GiB to the host, 2.00 s to 4.00 s", "4 GiB to the host, 8.00 s to 9.00 s", "3 GiB back from the host, 6.00 s to 7.00 s"} {
		if row.Bars[i].Text != want {
			t.Errorf("bar %d: %q, want %q", i, row.Bars[i].Text, want)
		}
	}
}

// A job that did its work after a failed allocation is not a failure, and its row says which outcome it has.
func TestOutcomesThatCountAsOK(t *testing.T) {
	for _, o := range results.Outcomes {
		j := results.Job{Outcome: &o}
		line := newJobs(records{jobs: []results.Job{j}}).HTML()[0]
		if ok := o.CountsAsOK(); strings.Contains(string(line.Attributes), "failed") == ok || line.Cells[2].Text == "✕ "+string(o) == ok || (classOf(j) == classOK) != ok || (classOf(j) == classBad) != o.Crashed() {
			t.Errorf("%s: %+v in class %s", o, line, classOf(j))
		}
	}
}
