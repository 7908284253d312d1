package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// gateSides are a baseline and a candidate whose comparison has each class of finding.
func gateSides() (baseline, candidate regress.Side) {
	add := func(s *regress.Side, mix string, makespan float64, n int, change func(*regress.Observation)) {
		for i := range n {
			v := makespan * []float64{1, 1.004, 0.996, 1.008, 0.992, 1.002, 0.998}[i%7]
			o := regress.Observation{Run: results.Run{Mix: mix, Scheduler: "case-alg3", Parameters: "queue=fifo", Node: "local", Mode: results.Live,
				Status: results.Complete, Jobs: 32, Metrics: results.Metrics{OK: 32, MakespanS: ptr(v), ThroughputJobsPerS: ptr(32 / v), TurnaroundMeanS: ptr(v / 2)},
				Provenance: results.Provenance{Driver: ptr("580.1"), CUDA: ptr("13.0")}}}
			if change != nil {
				change(&o)
			}
			s.Runs = append(s.Runs, o)
		}
	}
	baseline.Label, candidate.Label = "nightly|1", "nightly|2"
	candidate.Notes = []string{"sweep 2 is interrupted: some of its runs are missing"}
	for mix, c := range map[string]struct {
		slower float64
		n      int
		change func(*regress.Observation)
	}{
		"W1": {1, 7, nil},
		"W2": {1.1, 7, nil},
		"W3": {1.1, 7, func(o *regress.Observation) { o.Provenance.Driver = ptr("590.2") }},
		"W4": {1, 7, func(o *regress.Observation) { o.Metrics.OK, o.Metrics.Crashed = 31, 1 }},
		"W5": {1.1, 3, nil},
		"W6": {1, 0, nil},
		"W7": {0.9, 7, func(o *regress.Observation) { o.Provenance.Revision = "def <&>" }},
	} {
		add(&baseline, mix, 60, 7, nil)
		add(&candidate, mix, 60*c.slower, c.n, c.change)
	}
	add(&candidate, "W8", 60, 7, nil)
	return baseline, candidate
}

func gateReport(t *testing.T) regress.Report {
	t.Helper()
	limits, err := regress.ParseLimits("throughput=3%,crashes=0")
	if err != nil {
		t.Fatal(err)
	}
	a, b := gateSides()
	return regress.Gate(a, b, limits, stats.DefaultAlpha)
}

func TestGoldenComparisons(t *testing.T) {
	a, b := gateSides()
	compared, err := regress.Compare(a, b, regress.Options{MinEffect: stats.DefaultMinEffect})
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]*Table{"gate": GateTable(gateReport(t)), "compare": CompareTable(compared)} {
		for _, f := range []Format{Text, CSV, JSON, Markdown} { // TSV has what CSV has
			var out bytes.Buffer
			if err := table.Render(&out, f, Options{}); err != nil {
				t.Fatal(err)
			}
			extension := ending(f)
			golden(t, name+"."+extension, out.String())
		}
	}
}

// The golden file has a check of each class.
func TestGateReportHasEveryClass(t *testing.T) {
	seen := map[regress.Class]bool{}
	for _, c := range gateReport(t).Checks {
		seen[c.Class] = true
	}
	for _, c := range []regress.Class{regress.Passed, regress.Regression, regress.EnvironmentChanged, regress.Crash, regress.Noise, regress.NothingMeasured} {
		if !seen[c] {
			t.Errorf("no check is %q", c)
		}
	}
}

// On a terminal of 100 columns each check has one line, with its verdict in colour if colours are wanted. What
// its finding means is said once below.
func TestGateOnATerminal(t *testing.T) {
	r := gateReport(t)
	plain := render(t, GateTable(r), Text, Options{Columns: 100})
	_, rows, _ := strings.Cut(plain, "---\n")
	rows, notes, _ := strings.Cut(rows, "\n\n")
	if n := strings.Count(rows, "\n") + 1; n != len(r.Checks) {
		t.Errorf("%d lines for %d checks:\n%s", n, len(r.Checks), plain)
	}
	for _, says := range []string{"too few: ", "lost more jobs: ", "environment: "} {
		if strings.Count(notes, "\n"+says)+strings.Count(notes[:len(says)], says) != 1 {
			t.Errorf("%q is not explained once:\n%s", says, notes)
		}
	}
	coloured := render(t, GateTable(r), Text, Options{Columns: 100, Color: true})
	for _, word := range []string{red + "regression", red + "crash", red + "environment", yellow + "noise", yellow + "not comparable", yellow + "not measured", green + "ok"} {
		if !strings.Contains(coloured, word+reset) {
			t.Errorf("no %q in\n%s", word, coloured)
		}
	}
	if strings.Contains(plain, "\x1b") {
		t.Error("colours that nobody asked for")
	}
}

// Arms that differ in parameters or in the number of jobs have names of their own.
func TestArmsOfOneSchedulerAreToldApart(t *testing.T) {
	all, _ := gateSides()
	var a, b regress.Side
	for _, o := range all.Runs {
		switch o.Mix {
		case "W2":
			o.Mix, o.Parameters = "W1", "queue=mmu"
		case "W3":
			o.Mix, o.Jobs = "W1", 4
		case "W4":
			o.Mix, o.Traced = "W1", true
		}
		if o.Mix == "W1" {
			a.Runs, b.Runs = append(a.Runs, o), append(b.Runs, o)
		}
	}
	limits, err := regress.ParseLimits("crashes=0")
	if err != nil {
		t.Fatal(err)
	}
	gate := regress.Gate(a, b, limits, stats.DefaultAlpha)
	compared, err := regress.Compare(a, b, regress.Options{Metrics: []results.Metric{limits[0].Metric}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"W1 (4 jobs)  case-alg3:queue=fifo", "W1 (32 jobs)  case-alg3:queue=fifo", "W1 (32 jobs)  case-alg3:queue=fifo, traced", "W1 (32 jobs)  case-alg3:queue=mmu"}
	for _, table := range []*Table{GateTable(gate), CompareTable(compared)} {
		var got []string
		for _, row := range table.grid().cells {
			got = append(got, row[0]+"  "+row[1])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", table.Title, diff)
		}
	}
	var out bytes.Buffer
	if err := JUnit(&out, gate, "", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"W1 (4 jobs) under case-alg3:queue=fifo on local", "W1 (32 jobs) under case-alg3:queue=fifo on local",
		"W1 (32 jobs) under case-alg3:queue=fifo on local, traced", "W1 (32 jobs) under case-alg3:queue=mmu on local"} {
		if strings.Count(out.String(), ` name="`+name+`"`) != 1 || strings.Count(out.String(), `classname="caserun.regress.`+name+`"`) != 1 {
			t.Errorf("no suite and case of %q:\n%s", name, out.String())
		}
	}
}

func TestJUnit(t *testing.T) {
	r := gateReport(t)
	var out bytes.Buffer
	at := time.Date(2026, 11, 21, 3, 4, 5, 6, time.FixedZone("", 3600))
	if err := JUnit(&out, r, "", at); err != nil {
		t.Fatal(err)
	}
	golden(t, "gate.junit.xml", out.String())
	if problems := junitProblems(out.Bytes()); len(problems) > 0 {
		t.Error(strings.Join(problems, "\n"))
	}
	if n := strings.Count(out.String(), "<testcase "); n != len(r.Checks) {
		t.Errorf("%d cases of %d checks", n, len(r.Checks))
	}
	if n := strings.Count(out.String(), "<failure "); n != r.Failed() {
		t.Errorf("%d failures of %d", n, r.Failed())
	}
	if n := strings.Count(out.String(), "<error "); n != r.Unsettled() {
		t.Errorf("%d errors of %d", n, r.Unsettled())
	}
}

// The check of the structure finds faults.
func TestJUnitProblems(t *testing.T) {
	var out bytes.Buffer
	if err := JUnit(&out, gateReport(t), "ci-1", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	for old, broken := range map[string]string{
		`tests="2"`: `tests="3"`, `failures="1"`: `failures="0"`, `errors="1"`: `errors="x"`, ` hostname="ci-1"`: "", `T00:00:00"`: `T00:00:00Z"`,
		"<properties>": "<extra></extra><properties>", "<system-err></system-err>": "", `<failure type=`: `<failure kind=`, `id="0"`: `id="7"`, ` classname=`: ` class=`,
	} {
		text := strings.Replace(out.String(), old, broken, 1)
		if text == out.String() {
			t.Errorf("nothing to break: %s", old)
		}
		if len(junitProblems([]byte(text))) == 0 {
			t.Errorf("not found: %s instead of %s", broken, old)
		}
	}
}

// junitProblems holds a document against the schema of Ant's JUnit XML
// (windyroad/JUnit-Schema, JUnit.xsd): elements in order, attributes, counts.
func junitProblems(text []byte) (problems []string) {
	type node struct {
		name     string
		attrs    map[string]string
		children []*node
	}
	root := &node{}
	stack := []*node{root}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return []string{err.Error()}
		}
		switch x := token.(type) {
		case xml.StartElement:
			n := &node{name: x.Name.Local, attrs: map[string]string{}}
			for _, a := range x.Attr {
				n.attrs[a.Name.Local] = a.Value
			}
			top := stack[len(stack)-1]
			top.children = append(top.children, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
	fail := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	attributes := func(n *node, required ...string) {
		for _, a := range required {
			if n.attrs[a] == "" {
				fail("<%s> lacks %s", n.name, a)
			}
		}
		for a := range n.attrs {
			if !slices.Contains(required, a) && a != "value" {
				fail("<%s> has %s", n.name, a)
			}
		}
	}
	children := func(n *node, order ...string) {
		at := 0
		for _, c := range n.children {
			i := slices.Index(order[at:], c.name)
			if i < 0 {
				fail("<%s> in <%s> out of place", c.name, n.name)
				return
			}
			at += i
		}
	}
	count := func(n *node, attribute string, want int) {
		if got, err := strconv.Atoi(n.attrs[attribute]); err != nil || got != want {
			fail("<%s> %s=%q, want %d", n.name, attribute, n.attrs[attribute], want)
		}
	}
	if len(root.children) != 1 || root.children[0].name != "testsuites" {
		return []string{"the root is not <testsuites>"}
	}
	top := root.children[0]
	attributes(top)
	for i, suite := range top.children {
		if suite.name != "testsuite" {
			fail("<%s> in <testsuites>", suite.name)
			continue
		}
		attributes(suite, "id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "time")
		if _, err := time.Parse("2006-01-02T15:04:05", suite.attrs["timestamp"]); err != nil {
			fail("timestamp: %v", err)
		}
		children(suite, "properties", "testcase", "system-out", "system-err")
		found := map[string]int{}
		for _, c := range suite.children {
			found[c.name]++
			switch c.name {
			case "properties":
				for _, p := range c.children {
					attributes(p, "name")
				}
			case "testcase":
				attributes(c, "name", "classname", "time")
				if len(c.children) > 1 {
					fail("a case with %d results", len(c.children))
				}
				for _, result := range c.children {
					found[result.name]++
					attributes(result, "type", "message")
				}
			}
		}
		if found["properties"] != 1 || found["system-out"] != 1 || found["system-err"] != 1 {
			fail("<testsuite> %d: %v", i, found)
		}
		count(suite, "id", i)
		count(suite, "tests", found["testcase"])
		count(suite, "failures", found["failure"])
		count(suite, "errors", found["error"])
	}
	return problems
}

// What is of survivors only has a mark wherever it stands. Where there is no value, there is none.
func TestSurvivorsAreMarked(t *testing.T) {
	row := regress.Row{Mixes: 2, Metric: results.MetricNamed("throughput")}
	row.Pair.A.Scheduler, row.Pair.B.Scheduler, row.Pair.A.Mix = "cg", "sa", "W1, W7"
	row.Change, row.Low, row.High = -0.24, -0.31, -0.17
	for crashed, want := range map[int]string{0: "sa over cg over W1, W7: throughput 0.76× (0.69 to 0.83)", 2: "sa over cg over W1, W7: throughput 0.76× (0.69 to 0.83)†"} {
		row.Pair.ARuns = []regress.Observation{{Run: results.Run{Metrics: results.Metrics{Crashed: crashed}}}}
		if got := overText(row, results.Names{}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := withMark("", SurvivorsMark); got != "" {
		t.Errorf("no value: %q", got)
	}
}

// A change from 0 has a text, and the mark of survivors is explained only where it stands.
func TestChangesOfDeadArms(t *testing.T) {
	run := func(crashed int, throughput float64) (out []regress.Observation) {
		for range 7 {
			o := regress.Observation{Run: results.Run{Mix: "W1", Scheduler: "sa", Node: "local", Mode: results.Live, Status: results.Complete, Jobs: 16}}
			o.Metrics = results.Metrics{OK: 16 - crashed, Crashed: crashed, ThroughputJobsPerS: &throughput, MakespanS: ptr(60.0)}
			out = append(out, o)
		}
		return out
	}
	dead, alive := regress.Side{Label: "dead", Runs: run(16, 0)}, regress.Side{Label: "alive", Runs: run(0, 0.25)}
	died := regress.Side{Label: "died", Runs: run(16, 0)}
	for _, c := range []struct {
		a, b   regress.Side
		change string
	}{{dead, alive, "up from 0†"}, {alive, dead, "-100.0 %†"}, {dead, died, unknown}} {
		r, err := regress.Compare(c.a, c.b, regress.Options{})
		if err != nil {
			t.Fatal(err)
		}
		table := CompareTable(r)
		at := slices.IndexFunc(table.Columns, func(column Column) bool { return column.Name == "change" })
		noted := slices.ContainsFunc(table.Notes, func(n Note) bool { return strings.HasPrefix(n.Text, SurvivorsMark) })
		if got := humanCell(table.Rows[0][at], None); got != c.change || noted != (c.change != unknown) {
			t.Errorf("%s against %s: %q, want %q; explained: %v", c.b.Label, c.a.Label, got, c.change, noted)
		}
	}
	both := regress.Side{Label: "both", Runs: run(0, 0.25)}
	for _, o := range dead.Runs {
		o.Scheduler = "cg"
		both.Runs = append(both.Runs, o)
	}
	for i := range both.Runs {
		both.Runs[i].ID = int64(i + 1)
	}
	found, err := regress.Matrices(both, "", regress.Options{})
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if slices.ContainsFunc(MatrixTable(found[0]).Notes, func(n Note) bool { return strings.HasPrefix(n.Text, SurvivorsMark) }) {
		t.Error("the schedulers' table explains a mark that it does not have")
	}
}

// Each metric has a text for its interval, also a factor, which has no unit.
func TestIntervalTextOfEachMetric(t *testing.T) {
	s := stats.Summary{N: 7, Median: 1.25, Low: 1.2, High: 1.3}
	for _, m := range results.AllMetrics() {
		if got := IntervalText(s, m); !strings.Contains(got, " to ") {
			t.Errorf("%s: %q", m.Name, got)
		}
	}
	if got := IntervalText(s, results.MetricNamed("job-slowdown")); got != "1.20 to 1.30" {
		t.Errorf("a factor: %q", got)
	}
	if got := IntervalText(s, results.MetricNamed("makespan")); got != "1.20 to 1.30" {
		t.Errorf("seconds: %q", got)
	}
}
