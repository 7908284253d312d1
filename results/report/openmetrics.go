package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/trend"
)

// family is a metric family of gauges. Its name ends with its unit, as the format demands.
type family struct {
	name, unit, help string
	of               func(trend.Night) *float64
}

// families are in the order of the file.
var families = []family{
	{"caserun_throughput_jobs_per_second", "jobs_per_second", "Jobs that ended ok per second of makespan: the median over the runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.ThroughputJobsPerS })},
	{"caserun_turnaround_mean_seconds", "seconds", "Mean turnaround of the jobs that ended ok: the median over the runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.TurnaroundMeanS })},
	{"caserun_turnaround_p95_seconds", "seconds", "95th percentile of the turnaround of the jobs that ended ok: the median over the runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.TurnaroundP95S })},
	{"caserun_makespan_seconds", "seconds", "Time from the batch's arrival to the last job's end: the median over the runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.OfWork(r.Metrics.MakespanS) })},
	{"caserun_wait_mean_seconds", "seconds", "Mean time that jobs waited for a GPU: the median over the runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.OfWork(r.Metrics.WaitMeanS) })},
	{"caserun_utilization_ratio", "ratio", "Mean utilization of the GPUs: the median over the runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.UtilizationMean })},
	{"caserun_crashed_jobs_ratio", "ratio", "Jobs that crashed, of all jobs of all runs.", crashedRatio},
	{"caserun_energy_joules", "joules", "Energy that the GPUs used: the median over the live runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.OfWork(r.Metrics.Energy.UsedJ) })},
	{"caserun_energy_per_ok_job_joules", "joules", "Energy that the GPUs used for each job that ended ok: the median over the live runs.",
		medianOf(func(r results.Run) *float64 { return r.Metrics.Energy.PerOK })},
	{"caserun_swapped_out_bytes", "bytes", "GPU memory that moved to the host: the median over the runs whose scheduler asked for memory.",
		medianOf(func(r results.Run) *float64 { return number(r.Metrics.Swapping.OutBytes) })},
	{"caserun_swapped_in_bytes", "bytes", "GPU memory that came back from the host: the median over the same runs.",
		medianOf(func(r results.Run) *float64 { return number(r.Metrics.Swapping.InBytes) })},
	{"caserun_swap_host_peak_bytes", "bytes", "The most GPU memory that was on the host at one time: the median over the same runs.",
		medianOf(func(r results.Run) *float64 { return number(r.Metrics.Swapping.HostPeakBytes) })},
	{"caserun_runs", "", "Complete runs behind the figures.", func(n trend.Night) *float64 { return new(float64(len(n.Runs))) }},
	{"caserun_started_timestamp_seconds", "seconds", "Unix time at which the last of the live runs started.", startedAt},
}

// provenance is a gauge and not an info, which node_exporter's parser refuses.
const provenance = "caserun_provenance"

// OpenMetrics writes the nights as OpenMetrics text (OpenMetrics 1.0), which is Prometheus's
// text format too. Labels name the arm. What changes from night to night is a label of
// caserun_provenance alone, because a label that changes begins a new time series.
func OpenMetrics(w io.Writer, nights []trend.Night) error {
	out := bufio.NewWriter(w)
	for _, f := range families {
		head := false
		for _, n := range nights {
			v := f.of(n)
			if v == nil {
				continue
			}
			if !head {
				metadata(out, f.name, f.unit, f.help)
				head = true
			}
			fmt.Fprintf(out, "%s{%s} %s\n", f.name, labelSet(ofArm(n.Arm)), strconv.FormatFloat(*v, 'g', -1, 64))
		}
	}
	if len(nights) > 0 {
		metadata(out, provenance, "", "1, with the tag, the sweep, the version and the revision of the last of the runs.")
	}
	for _, n := range nights {
		last := n.Runs[len(n.Runs)-1]
		more := []string{"tag", n.Tag, "sweep", "", "version", last.Provenance.Version, "revision", last.Provenance.Revision, "driver", value(last.Provenance.Driver)}
		if last.Sweep != nil {
			more[3] = strconv.FormatInt(*last.Sweep, 10)
		}
		fmt.Fprintf(out, "%s{%s} 1\n", provenance, labelSet(append(ofArm(n.Arm), more...)))
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

// ofArm are labels that tell every two arms apart.
func ofArm(a results.Arm) []string {
	return []string{"mix", a.Mix, "jobs", strconv.Itoa(a.Jobs), "scheduler", a.Scheduler, "parameters", a.Parameters, "probe", a.Probe.String(),
		"node", a.Node, "mode", string(a.Mode), "traced", strconv.FormatBool(a.Traced)}
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

func number(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

func medianOf(figure func(results.Run) *float64) func(trend.Night) *float64 {
	return func(n trend.Night) *float64 {
		var values []float64
		for _, o := range n.Runs {
			if v := figure(o.Run); v != nil {
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
