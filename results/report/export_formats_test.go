package report

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchproc"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/results/trend"
)

func TestExportJSONL(t *testing.T) {
	s := stored(t)
	dir := t.TempDir()
	if _, err := ExportJSONL(context.Background(), s, dir, ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, "job.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var rows []map[string]any
	var first string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if first == "" {
			first = lines.Text()
		}
		row := map[string]any{}
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if len(rows) != 8 {
		t.Fatalf("%d jobs, want 8", len(rows))
	}
	if !strings.HasPrefix(first, `{"run_id":1,"mode":"live","job_index":0,"name":"backprop",`) {
		t.Errorf("keys are not in the order of the columns: %s", first)
	}
	for _, c := range []struct {
		got, want any
	}{
		{rows[0]["end_s"], json.Number("123.456789")}, {rows[1]["footprint_bytes"], json.Number("10200547328")},
		{rows[1]["stderr_tail"], someJobs()[1].StderrTail}, {rows[3]["outcome"], nil}, {rows[7]["mode"], "sim"},
	} {
		if c.got != c.want {
			t.Errorf("got %#v, want %#v", c.got, c.want)
		}
	}
}

// Runs of a part of a mix, or with another probe, are not repetitions of the mix.
func TestPartsOfAMixHaveBenchmarksOfTheirOwn(t *testing.T) {
	run := simRun()
	whole := benchName(run, results.Names{})
	if run.Jobs--; benchName(run, results.Names{}) == whole {
		t.Errorf("%d jobs and %d have one name: %s", run.Jobs, run.Jobs+1, whole)
	}
	run.Jobs++
	if run.Probe = results.Static; benchName(run, results.Names{}) == whole {
		t.Errorf("runs of casecc's programs have the name of the others, %s", whole)
	}
}

// repeated holds two arms of one mix, three repetitions each, and a run that is
// under way.
func repeated(t *testing.T) *store.Store {
	t.Helper()
	s := stored(t) // two more: one live and complete, one interrupted
	ctx := context.Background()
	for i := range 7 {
		run := simRun()
		run.Status, run.Repetition, run.Metrics.MakespanS = results.Complete, i/2+1, ptr(40+float64(i))
		run.Mix, run.Parameters = "my mix/2", ""
		if i%2 == 1 {
			run.Scheduler, run.Parameters = "cg", "workers=8"
		}
		id, err := s.BeginRun(ctx, run, someDevices("V100 (simulated)", 2))
		if err != nil {
			t.Fatal(err)
		}
		if i < 6 {
			if err := s.Writer(id).Finish(ctx, run); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func TestExportBenchGolden(t *testing.T) {
	var out bytes.Buffer
	written, left, err := ExportBench(context.Background(), repeated(t), &out, store.Filter{})
	if err != nil || written != 7 || left != 2 {
		t.Errorf("%d runs written, %d left out (%v), want 7 and 2", written, left, err)
	}
	path := filepath.Join("testdata", "export.bench")
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// The test reads the file with benchstat's own reader and projections.
func TestBenchstatReadsTheExport(t *testing.T) {
	var out bytes.Buffer
	if _, _, err := ExportBench(context.Background(), repeated(t), &out, store.Filter{}); err != nil {
		t.Fatal(err)
	}
	var parser benchproc.ProjectionParser
	column, err := parser.Parse("/sched", nil)
	if err != nil {
		t.Fatal(err)
	}
	row, err := parser.Parse(".fullname", nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := parser.Parse(".config", nil)
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string][]float64{}
	tables := map[string]bool{}
	r := benchfmt.NewReader(&out, "export")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Errorf("syntax error: %v", rec)
		case *benchfmt.Result:
			tables[table.Project(rec).String()] = true
			if simulated := rec.GetConfig("simulated"); simulated == "true" {
				v, ok := rec.Value("s/makespan")
				if !ok {
					t.Errorf("%s has no makespan", rec.Name)
				}
				key := row.Project(rec).String() + " " + column.Project(rec).String()
				samples[key] = append(samples[key], v)
			}
		}
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	want := map[string][]float64{
		".fullname:Mix/mix=my%20mix%2F2/jobs=4/node=sim:2xV100 /sched:sa":                  {40, 42, 44},
		".fullname:Mix/mix=my%20mix%2F2/jobs=4/params=workers=8/node=sim:2xV100 /sched:cg": {41, 43, 45},
	}
	if diff := cmp.Diff(want, samples); diff != "" {
		t.Errorf("samples by arm (-want +got):\n%s", diff)
	}
	if len(tables) != 2 {
		t.Errorf("measured and simulated runs are in %d tables, want 2: %v", len(tables), tables)
	}
	for unit, better := range map[string]int{"jobs/s": 1, "s/makespan": -1, "s/turnaround-mean": -1, "crashes/run": -1, "utilization/mean": 1} {
		units := r.Units()
		if got := units.GetBetter(unit); got != better {
			t.Errorf("unit %s: better is %d, want %d", unit, got, better)
		}
	}
}

// A run in which no job ended ok has a throughput, which is 0, and crashes. Another figure of it would be
// the better the sooner its jobs died.
func TestDeadRunsHaveNoFiguresOfWork(t *testing.T) {
	v := new(1.5)
	figures := results.Metrics{Crashed: 4, MakespanS: v, ThroughputJobsPerS: new(0.0), WaitMeanS: v, UtilizationMean: v, Energy: results.Energy{UsedJ: v}}
	var units []string
	for _, m := range results.AllMetrics() {
		if m.Bench != "" && measured(m, results.Run{Metrics: figures}) != nil {
			units = append(units, m.Bench)
		}
	}
	if diff := cmp.Diff([]string{"jobs/s", "crashes/run"}, units); diff != "" {
		t.Error(diff)
	}
	var gauges strings.Builder
	if err := OpenMetrics(&gauges, []trend.Night{{Runs: []regress.Observation{{Run: results.Run{Jobs: 4, Metrics: figures}}}}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"caserun_makespan_seconds", "caserun_energy_joules", "caserun_wait_mean_seconds"} {
		if strings.Contains(gauges.String(), name) {
			t.Errorf("%s of dead runs", name)
		}
	}
	w, cells, runs := someSweep()
	for i := range runs {
		runs[i].Metrics = figures
	}
	table := SweepArms(w, cells, runs, nil, "x.db", "", "")
	at := slices.IndexFunc(table.Columns, func(c Column) bool { return c.Name == "makespan" })
	if table.Rows[0][at] != nil {
		t.Errorf("makespan of %v", table.Rows[0])
	}
}
