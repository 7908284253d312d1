package report

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/trend"
)

// exposed is what Prometheus's parser of OpenMetrics reads.
type exposed struct {
	types, units, help map[string]string
	values             map[string]float64 // by the sample's labels, which include its name
	samples            []labels.Labels
}

// parse reads a file with the parsers of Prometheus, which is strict, and of node_exporter.
func parse(t *testing.T, text []byte) exposed {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(bytes.NewReader(text)); err != nil {
		t.Errorf("node_exporter's parser: %v", err)
	}
	out := exposed{types: map[string]string{}, units: map[string]string{}, help: map[string]string{}, values: map[string]float64{}}
	for p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable()); ; {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("Prometheus's parser: %v in\n%s", err, text)
		}
		switch entry {
		case textparse.EntryType:
			name, typ := p.Type()
			out.types[string(name)] = string(typ)
		case textparse.EntryUnit:
			name, unit := p.Unit()
			out.units[string(name)] = string(unit)
		case textparse.EntryHelp:
			name, help := p.Help()
			out.help[string(name)] = string(help)
		case textparse.EntrySeries:
			var l labels.Labels
			p.Labels(&l)
			_, at, v := p.Series()
			if at != nil {
				t.Errorf("%v has a time, which the textfile collector refuses", l)
			}
			if _, twice := out.values[l.String()]; twice {
				t.Errorf("%v is there twice", l)
			}
			out.values[l.String()] = v
			out.samples = append(out.samples, l)
		}
	}
	if !bytes.HasSuffix(text, []byte("\n# EOF\n")) && string(text) != "# EOF\n" {
		t.Errorf("the file does not end with # EOF:\n%s", text)
	}
	return out
}

// armsOfAllKinds are runs of arms that differ in one field each, some with hostile names.
func armsOfAllKinds() []regress.Observation {
	var runs []regress.Observation
	base := results.Run{Mix: "W1", Scheduler: "cg", Parameters: "workers=2", Node: "local", Mode: results.Live, Jobs: 4, Status: results.Complete, Tag: "night-1",
		StartedAt: new(time.Date(2026, 11, 21, 2, 0, 0, 500e6, time.UTC))}
	base.Metrics.ThroughputJobsPerS, base.Metrics.MakespanS, base.Metrics.OK, base.Metrics.Crashed = new(0.25), new(16.0), 3, 1
	base.Metrics.Energy = results.Energy{UsedJ: new(900.0), PerOK: new(300.0), Source: new(results.EnergyCounter)}
	add := func(change func(*results.Run)) {
		r := base
		change(&r)
		r.ID = int64(len(runs) + 1)
		runs = append(runs, regress.Observation{Run: r})
	}
	add(func(*results.Run) {})
	add(func(r *results.Run) {
		r.Parameters = "workers=3"
		r.Metrics.Swapping = results.Swapping{Swaps: new(int64(2)), OutBytes: new(int64(6 << 30)), InBytes: new(int64(0)), HostPeakBytes: new(int64(6 << 30))}
	})
	add(func(r *results.Run) { r.Probe = results.Static })
	add(func(r *results.Run) { r.Traced = true })
	add(func(r *results.Run) { r.Jobs = 5 })
	add(func(r *results.Run) { r.Mode, r.StartedAt, r.Metrics.Energy = results.Simulated, nil, results.Energy{} })
	add(func(r *results.Run) { r.Mix, r.Tag = "a \"b\"\\c\nd", "" })
	add(func(r *results.Run) { r.Mix = "\xff" })
	return runs
}

func TestOpenMetricsIsReadByOthers(t *testing.T) {
	var out bytes.Buffer
	if err := OpenMetrics(&out, trend.Latest(armsOfAllKinds())); err != nil {
		t.Fatal(err)
	}
	got := parse(t, out.Bytes())
	for name, typ := range got.types {
		if typ != "gauge" || got.help[name] == "" {
			t.Errorf("%s is a %s with help %q, want a gauge with help", name, typ, got.help[name])
		}
		if unit := got.units[name]; unit != "" && !strings.HasSuffix(name, "_"+unit) {
			t.Errorf("%s does not end with its unit %s", name, unit)
		}
	}
	wantUnits := map[string]string{"caserun_throughput_jobs_per_second": "jobs_per_second", "caserun_makespan_seconds": "seconds", "caserun_crashed_jobs_ratio": "ratio",
		"caserun_energy_joules": "joules", "caserun_energy_per_ok_job_joules": "joules", "caserun_started_timestamp_seconds": "seconds",
		"caserun_swapped_out_bytes": "bytes", "caserun_swapped_in_bytes": "bytes", "caserun_swap_host_peak_bytes": "bytes"}
	if diff := cmp.Diff(wantUnits, got.units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	count := map[string]int{}
	for _, l := range got.samples {
		count[l.Get("__name__")]++
	}
	if n := len(armsOfAllKinds()); count["caserun_throughput_jobs_per_second"] != n || count["caserun_provenance"] != n || count["caserun_energy_joules"] != n-1 || count["caserun_started_timestamp_seconds"] != n-1 || count["caserun_swapped_out_bytes"] != 1 || count["caserun_swapped_in_bytes"] != 1 || count["caserun_swap_host_peak_bytes"] != 1 {
		t.Errorf("samples %v, want %d arms: the simulated one without energy and time, and one alone with swaps", count, n)
	}
	arm := func(name, mix, mode string, more ...string) string {
		return labels.FromStrings(append([]string{"__name__", name, "mix", mix, "jobs", "4", "scheduler", "cg", "parameters", "workers=2", "probe", "lazy",
			"node", "local", "mode", mode, "traced", "false"}, more...)...).String()
	}
	for sample, want := range map[string]float64{
		arm("caserun_throughput_jobs_per_second", "W1", "live"):   0.25,
		arm("caserun_throughput_jobs_per_second", "W1", "sim"):    0.25,
		arm("caserun_makespan_seconds", "a \"b\"\\c\nd", "live"):  16,
		arm("caserun_makespan_seconds", "\uFFFD", "live"):         16,
		arm("caserun_crashed_jobs_ratio", "W1", "live"):           0.25,
		arm("caserun_energy_per_ok_job_joules", "W1", "live"):     300,
		arm("caserun_started_timestamp_seconds", "W1", "live"):    1795226400.5,
		arm("caserun_provenance", "W1", "live", "tag", "night-1"): 1,
		arm("caserun_provenance", "a \"b\"\\c\nd", "live"):        1,
	} {
		if v, found := got.values[sample]; !found || v != want {
			t.Errorf("%s is %v (there: %t), want %v", sample, v, found, want)
		}
	}
}

// The figures are of the last night with a complete run: medians, and of crashes the share.
func TestOpenMetricsHasTheLatestNight(t *testing.T) {
	var runs []regress.Observation
	for i, night := range []struct {
		tag        string
		throughput float64
		crashed    int
		status     results.Status
	}{
		{"night-1", 9, 4, results.Complete}, {"night-2", 1, 0, results.Complete}, {"night-2", 2, 0, results.Complete},
		{"night-2", 4, 3, results.Complete}, {"night-2", 100, 4, results.Interrupted}, {"night-3", 100, 4, results.Interrupted},
	} {
		r := results.Run{ID: int64(i + 1), Mix: "W1", Scheduler: "sa", Node: "local", Mode: results.Live, Jobs: 4, Tag: night.tag, Status: night.status}
		r.Metrics.ThroughputJobsPerS, r.Metrics.Crashed = &night.throughput, night.crashed
		runs = append(runs, regress.Observation{Run: r})
	}
	var out bytes.Buffer
	if err := OpenMetrics(&out, trend.Latest(runs)); err != nil {
		t.Fatal(err)
	}
	got := parse(t, out.Bytes())
	for _, l := range got.samples {
		want := map[string]float64{"caserun_throughput_jobs_per_second": 2, "caserun_crashed_jobs_ratio": 0.25, "caserun_runs": 3, "caserun_provenance": 1}[l.Get("__name__")]
		if v := got.values[l.String()]; v != want {
			t.Errorf("%v is %v, want %v", l, v, want)
		}
		if l.Get("__name__") == "caserun_provenance" && l.Get("tag") != "night-2" {
			t.Errorf("the figures are of %s, want night-2", l.Get("tag"))
		}
	}
	if len(got.samples) != 4 {
		t.Errorf("%d samples, want 4", len(got.samples))
	}
}
