package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/trend"
)

// gaugeUnits are the format's words for units. A gauge's name ends with its unit, as the format demands.
var gaugeUnits = map[string]string{"s": "seconds", "jobs/s": "jobs_per_second", "J": "joules", "bytes": "bytes", "x": "ratio", "": "ratio"}

// provenance is a gauge and not an info, which node_exporter's parser refuses.
const provenance = "caserun_provenance"

// OpenMetrics writes the nights as OpenMetrics text (OpenMetrics 1.0), which is Prometheus's
// text format too. Labels name the arm. What changes from night to night is a label of
// caserun_provenance alone, because a label that changes begins a new time series.
func OpenMetrics(w io.Writer, nights []trend.Night) error {
	out := bufio.NewWriter(w)
	names := namesOfNights(nights)
	family := func(name, unit, help string, of func(trend.Night) *float64) {
		head := false
		for _, n := range nights {
			v := of(n)
			if v == nil {
				continue
			}
			if !head {
				metadata(out, name, unit, help)
				head = true
			}
			fmt.Fprintf(out, "%s{%s} %s\n", name, labelSet(ofArm(n.Arm, names)), strconv.FormatFloat(*v, 'g', -1, 64))
		}
	}
	for _, m := range results.AllMetrics() {
		of := medianOf(m)
		if m.Counts() {
			of = crashedRatio
		}
		if m.Gauge != "" {
			family(m.Gauge, gaugeUnits[m.Unit], m.Help, of)
		}
	}
	family("caserun_runs", "", "Complete runs behind the figures.", func(n trend.Night) *float64 { return new(float64(len(n.Runs))) })
	family("caserun_started_timestamp_seconds", "seconds", "Unix time at which the last of the live runs started.", startedAt)
	if len(nights) > 0 {
		metadata(out, provenance, "", "1, with the tag, the sweep, the version and the revision of the last of the runs.")
	}
	for _, n := range nights {
		last := n.Runs[len(n.Runs)-1]
		more := []string{"tag", n.Tag, "sweep", "", "version", last.Provenance.Version, "revision", last.Provenance.Revision, "driver", value(last.Provenance.Driver)}
		if last.Sweep != nil {
			more[3] = strconv.FormatInt(*last.Sweep, 10)
		}
		fmt.Fprintf(out, "%s{%s} 1\n", provenance, labelSet(append(ofArm(n.Arm, names), more...)))
	}
	fmt.Fprintln(out, "# EOF")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write OpenMetrics: %w", err)
	}
	return nil
}

func metadata(w io.Writer, name, unit, help string) {
	fmt.Fprintf(w, "# TYPE %s gauge\n", name)
	if unit != "" {
		fmt.Fprintf(w, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(w, "# HELP %s %s\n", name, help)
}

func namesOfNights(nights []trend.Night) results.Names {
	var runs []results.Run
	for _, n := range nights {
		runs = append(runs, regress.Rows(n.Runs)...)
	}
	return results.NamesOf(runs)
}

// ofArm are labels that tell every two arms apart. arm is a name that the user gave: another one would depend on the other arms.
func ofArm(a results.Arm, names results.Names) []string {
	return []string{"mix", a.Mix, "jobs", strconv.Itoa(a.Jobs), "scheduler", a.Scheduler, "parameters", a.Parameters, "probe", a.Probe.String(),
		"node", a.Node, "mode", string(a.Mode), "traced", strconv.FormatBool(a.Traced),
		"arm", names.Chosen(a)}
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// labelSet writes names with their values. An empty value is the same as no label.
func labelSet(pairs []string) string {
	var out []string
	for pair := range slices.Chunk(pairs, 2) {
		if v := strings.ToValidUTF8(pair[1], "\uFFFD"); v != "" {
			out = append(out, fmt.Sprintf(`%s="%s"`, pair[0], escapeLabel.Replace(v)))
		}
	}
	return strings.Join(out, ",")
}

func medianOf(m results.Metric) func(trend.Night) *float64 {
	return func(n trend.Night) *float64 {
		var values []float64
		for _, o := range n.Runs {
			if v := m.Of(o.Run); v != nil {
				values = append(values, *v)
			}
		}
		if len(values) == 0 {
			return nil
		}
		return new(stats.Summarize(values, 1-stats.DefaultAlpha).Median)
	}
}

func crashedRatio(n trend.Night) *float64 {
	crashed, jobs := 0, 0
	for _, o := range n.Runs {
		crashed, jobs = crashed+o.Metrics.Crashed, jobs+o.Jobs
	}
	if jobs == 0 {
		return nil
	}
	return new(float64(crashed) / float64(jobs))
}

func startedAt(n trend.Night) *float64 {
	var last *float64
	for _, o := range n.Runs {
		if o.StartedAt != nil {
			last = new(float64(o.StartedAt.UnixMilli()) / 1000)
		}
	}
	return last
}
