package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
)

// oneNumber is a cell of a comparison: of a mix, or of "all".
type oneNumber struct {
	mix, scheduler, metric string
}

// A cell of a comparison has one number, in whatever output: exact in data, and the same digits for readers.
func TestOneNumber(t *testing.T) {
	inTempDir(t)
	schedulers := []string{"sa", "cg", "case-alg3"}
	mustRun(t, "sweep", "--mixes", "W1,W7", "--scheds", "sa,cg:workers=8,case-alg3", "--node", "sim:2xP100", "--reps", "3")
	var metrics []results.Metric
	var names []string
	for _, name := range []string{"throughput", "turnaround", "turnaround-p95", "turnaround-p99", "makespan", "wait", "job-slowdown", "job-slowdown-max", "fairness", "utilization"} {
		metrics, names = append(metrics, results.MetricNamed(name)), append(names, name)
	}
	asked := strings.Join(names, ",")
	medians, ratios := map[oneNumber]float64{}, map[oneNumber]float64{}
	column := func(m results.Metric) string { return strings.ReplaceAll(m.Name, "-", "_") }
	same := func(where string, at oneNumber, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12*math.Abs(want) || math.IsNaN(want) {
			t.Errorf("%s: %s of %s under %s is %v, and %v elsewhere", where, at.metric, at.mix, at.scheduler, got, want)
		}
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Error(err)
		}
		return v
	}

	// Data: every other output is held to json.
	read := func(args ...string) (rows []map[string]any) {
		text, _ := mustRun(t, append([]string{"compare", "--metrics", asked, "--format", "json"}, args...)...)
		var table struct{ Rows []map[string]any }
		if err := json.Unmarshal([]byte(text), &table); err != nil || len(table.Rows) == 0 {
			t.Fatalf("%v: %s", err, text)
		}
		return table.Rows
	}
	suffix := map[string]string{"s": "_s", "jobs/s": "_jobs_per_s"}
	for _, row := range read("--by", "mix") {
		for _, m := range metrics {
			at := oneNumber{row["mix"].(string), row["scheduler"].(string), m.Name}
			medians[at] = row[column(m)+suffix[m.Unit]].(float64)
			if !m.Absolute {
				ratios[at] = row[column(m)+"_ratio"].(float64)
			}
		}
	}
	for _, row := range read() {
		for _, m := range metrics {
			at := oneNumber{"all", row["scheduler"].(string), m.Name}
			if m.Absolute {
				medians[at] = row[column(m)].(float64)
			} else {
				ratios[at] = row[column(m)+"_ratio"].(float64)
			}
		}
	}
	if want := len(metrics) * len(schedulers); len(medians) != want*2+2*3 || len(ratios) != want*3-2*3*3 {
		t.Fatalf("%d medians and %d ratios", len(medians), len(ratios))
	}
	for _, format := range []struct {
		name  string
		comma rune
	}{{"csv", ','}, {"tsv", '\t'}} {
		text, _ := mustRun(t, "compare", "--metrics", asked, "--by", "mix", "--format", format.name)
		r := csv.NewReader(strings.NewReader(text))
		r.Comma, r.LazyQuotes = format.comma, true
		lines, err := r.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines[1:] {
			cell := func(name string) string { return line[slices.Index(lines[0], name)] }
			for _, m := range metrics {
				at := oneNumber{cell("mix"), cell("scheduler"), m.Name}
				same(format.name, at, number(cell(column(m)+suffix[m.Unit])), medians[at])
				if !m.Absolute {
					same(format.name, at, number(cell(column(m)+"_ratio")), ratios[at])
				}
			}
		}
	}

	// Two sides: the same medians, and a change that is the ratio less 1.
	for _, row := range read("latest/sa", "latest/case-alg3") {
		at := oneNumber{row["mix"].(string), "case-alg3", row["metric"].(string)}
		if row["mixes"].(float64) > 1 {
			at.mix = "all"
		} else {
			same("compare A B", at, row["median_b"].(float64), medians[at])
		}
		if !results.MetricNamed(at.metric).Absolute {
			same("compare A B", at, row["change"].(float64)+1, ratios[at])
		}
	}

	// For readers: what a reader sees of a cell begins with these digits.
	shown := func(at oneNumber) string {
		if results.MetricNamed(at.metric).Absolute {
			return report.Human(medians[at], report.MetricUnit(results.MetricNamed(at.metric)))
		}
		return regress.RatioText(ratios[at]) + "×"
	}
	shownCells := maps.Clone(ratios)
	for at := range medians {
		if results.MetricNamed(at.metric).Absolute {
			shownCells[at] = medians[at]
		}
	}
	hold := func(where string, cells map[oneNumber]string) {
		t.Helper()
		for at := range shownCells {
			if text, has := cells[at]; !has || !strings.HasPrefix(text, shown(at)) {
				t.Errorf("%s: %s of %s under %s is %q, and %s elsewhere", where, at.metric, at.mix, at.scheduler, text, shown(at))
			}
		}
	}
	byMix := func(text string, title, row *regexp.Regexp, split func(string) []string) map[oneNumber]string {
		cells := map[oneNumber]string{}
		var of results.Metric
		for line := range strings.Lines(text) {
			if found := title.FindStringSubmatch(line); found != nil {
				of = results.Metric{}
				for _, m := range metrics {
					if found[1] == m.Name || found[1] == m.Title() {
						of = m
					}
				}
			}
			if found := row.FindStringSubmatch(line); found != nil && of.Name != "" {
				mix := map[string]string{"geometric mean": "all", "Geometric mean": "all", "all mixes": "all", "All mixes": "all"}[found[1]]
				if mix == "" {
					mix = found[1]
				}
				for i, cell := range split(strings.TrimSuffix(found[2], "\n")) {
					cells[oneNumber{mix, schedulers[i], of.Name}] = cell
				}
			}
		}
		return cells
	}
	const mixes = `(W1|W7|[Gg]eometric mean|[Aa]ll mixes)`
	for format, by := range map[string]struct {
		row   *regexp.Regexp
		split func(string) []string
	}{
		"table": {regexp.MustCompile(`^` + mixes + ` {2,}(.*)`), func(s string) []string { return regexp.MustCompile(` {2,}`).Split(s, -1) }},
		"md":    {regexp.MustCompile(`^\| ` + mixes + ` \| (.*) \|`), func(s string) []string { return strings.Split(s, " | ") }},
	} {
		text, _ := mustRun(t, "compare", "--metrics", asked, "--by", "mix", "--format", format)
		hold(format, byMix(text, regexp.MustCompile(`: ([a-z0-9-]+?)(?:, ratio to sa)? by mix`), by.row, by.split))
	}
	text, _ := mustRun(t, "export", "--metrics", asked, "--latex", "-")
	if !strings.Contains(text, `& \textbf{`+shown(oneNumber{"W7", "case-alg3", "throughput"})[:4]+`$\times$} \\`) {
		t.Errorf("LaTeX: the best scheduler that lost no jobs is not in bold:\n%s", text)
	}
	latex := strings.NewReplacer(`$\times$`, "×", `\%`, "%", `\textbf{`, "").Replace(text)
	hold("LaTeX", byMix(latex, regexp.MustCompile(`\\label\{tab:caserun-(?:.*-)?by-mix-([a-z0-9-]+)\}|\\label`),
		regexp.MustCompile(`^ *`+mixes+` & (.*) \\\\`), func(s string) []string { return strings.Split(s, " & ") }))

	// The page has its own choice of metrics.
	mustRun(t, "report", "--html", "page.html")
	page, err := os.ReadFile("page.html")
	if err != nil {
		t.Fatal(err)
	}
	metrics = slices.DeleteFunc(results.OnPages(false), results.Metric.Counts)
	cells := byMix(string(page), regexp.MustCompile(`<summary>(?:SIMULATED )?([^<]*?) by mix`), regexp.MustCompile(`<th scope="row">`+mixes+`</th>(.*)`), func(s string) []string {
		var out []string
		for _, found := range regexp.MustCompile(`<td[^>]*>([^<]*)`).FindAllStringSubmatch(s, -1) {
			out = append(out, found[1])
		}
		return out
	})
	maps.DeleteFunc(shownCells, func(at oneNumber, _ float64) bool { return !results.MetricNamed(at.metric).OnPage })
	hold("page", cells)

	// Exports of runs: the medians of what the benchmarks have, and the gauges.
	values := map[oneNumber][]float64{}
	bench, _ := mustRun(t, "export", "--benchfmt", "-")
	for _, line := range strings.Split(bench, "\n") {
		found := regexp.MustCompile(`^BenchmarkMix/mix=(\w+)/.*sched=([^/]+)/\S* 1 (.*)`).FindStringSubmatch(line)
		if found == nil {
			continue
		}
		fields := strings.Fields(found[3])
		for i := 0; i < len(fields); i += 2 {
			for _, m := range metrics {
				if m.Bench == fields[i+1] {
					at := oneNumber{found[1], found[2], m.Name}
					values[at] = append(values[at], number(fields[i]))
				}
			}
		}
	}
	gauges, _ := mustRun(t, "export", "--openmetrics", "-")
	checked := 0
	for at, want := range medians {
		if !results.MetricNamed(at.metric).OnPage || at.mix == "all" {
			continue
		}
		checked++
		own := slices.Sorted(slices.Values(values[at]))
		if len(own) != 3 {
			t.Fatalf("bench: %d values of %s", len(own), at.metric)
		}
		same("bench", at, own[1], want)
		gauge := regexp.MustCompile(fmt.Sprintf(`(?m)^%s\{mix="%s",jobs="\d+",scheduler="%s",.*\} (\S+)$`, results.MetricNamed(at.metric).Gauge, at.mix, at.scheduler)).FindStringSubmatch(gauges)
		if gauge == nil {
			t.Fatalf("OpenMetrics lacks %v", at)
		}
		same("OpenMetrics", at, number(gauge[1]), want)
	}
	if checked == 0 {
		t.Error("nothing was compared")
	}
	mustRun(t, "export", "--jsonl", "lines")
	lines, err := os.ReadFile("lines/run.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	exported := map[oneNumber][]float64{}
	for line := range bytes.Lines(lines) {
		var run map[string]any
		if err := json.Unmarshal(line, &run); err != nil {
			t.Fatal(err)
		}
		for _, m := range metrics {
			if run["warmup"] == 0.0 {
				at := oneNumber{run["mix"].(string), run["scheduler"].(string), m.Name}
				exported[at] = append(exported[at], run[m.Column].(float64))
			}
		}
	}
	for at, own := range exported {
		slices.Sort(own)
		same("jsonl", at, own[1], medians[at])
	}
}
