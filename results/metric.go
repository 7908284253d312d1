package results

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Metric is a figure of a run, and what tables, comparisons and exports say of it.
type Metric struct {
	Name           string
	Column         string // of runs in the store and in exports; empty: neither has it
	Derived        bool   // from the jobs when runs are read (WithJobTimes): exports alone have its column
	Heading        string // in a run's table; empty: only csv and json have it
	title          string // on a run's page, where it differs from Heading
	Unit           string // s, jobs/s, J, bytes, what is counted, x for a factor, or empty for a share
	HigherIsBetter bool
	ofWork         bool // of the work that was done: it says nothing of the scheduler where no job ended ok

	Compared Comparing
	About    string // what is compared, in one line
	Needs    string // which runs have a value, if not all have
	Absolute bool   // compared by difference, because it may be 0
	Exact    bool   // without a minimum effect: any difference matters
	// OfSurvivors is whether jobs that crash make it another figure: turnaround is over the others, and makespan, throughput
	// and energy are of less work.
	OfSurvivors bool

	OnPage bool // pages compare schedulers by it
	// OfBatch is whether it says of an open load mostly when jobs arrived, so that it is compared there only if it is named.
	// InOpenLoad is whether it is compared there without a name.
	OfBatch, InOpenLoad bool

	Bench string // its unit in the Go benchmark format: a base unit, with the name of the quantity behind a slash
	Gauge string // its name in OpenMetrics
	Help  string // of Gauge: what its median is of, and over which runs

	at func(*Metrics) any // points to its value; nil: it is the share of jobs that crashed
}

// Comparing says when a metric is compared. Each further test weakens the others.
type Comparing int

const (
	NotCompared Comparing = iota
	IfNamed               // only where the user names it
	Compared
)

const (
	needsOK     = ": it needs a job that ended ok"
	needsAlone  = ": it needs runs under sa on the same node, or what the scheduler expected of each job"
	needsEnergy = ": it needs live runs on GPUs that measure their energy or power, for all of the run, and a job that ended ok"

	needsArrivals = ": it needs a mix with arrivals, whose jobs all ended"
)

// metrics are in the order of comparisons and exports.
var metrics = []Metric{
	{Name: "throughput", Column: "throughput_jobs_per_s", at: func(m *Metrics) any { return &m.ThroughputJobsPerS }, Heading: "throughput", Unit: "jobs/s", HigherIsBetter: true,
		OnPage: true, Compared: Compared, OfBatch: true, About: "jobs that ended ok, divided by the makespan", OfSurvivors: true, Bench: "jobs/s",
		Gauge: "caserun_throughput_jobs_per_second", Help: "Jobs that ended ok per second of makespan: the median over the runs."},
	{Name: "attempted-throughput", Column: "attempted_throughput_jobs_per_s", at: func(m *Metrics) any { return &m.AttemptedJobsPerS }, Unit: "jobs/s", HigherIsBetter: true},
	{Name: "turnaround", Column: "turnaround_mean_s", at: func(m *Metrics) any { return &m.TurnaroundMeanS }, Heading: "mean turnaround", Unit: "s",
		OnPage: true, Compared: Compared, About: "from a job's arrival to its end, mean over the jobs that ended ok", Needs: needsOK, OfSurvivors: true,
		Bench: "s/turnaround-mean", Gauge: "caserun_turnaround_mean_seconds", Help: "Mean turnaround of the jobs that ended ok: the median over the runs."},
	{Name: "turnaround-p95", Column: "turnaround_p95_s", at: func(m *Metrics) any { return &m.TurnaroundP95S }, Heading: "p95 turnaround", Unit: "s",
		OnPage: true, Compared: IfNamed, InOpenLoad: true, About: "95th percentile of the turnaround of the jobs that ended ok", Needs: needsOK, OfSurvivors: true,
		Bench: "s/turnaround-p95", Gauge: "caserun_turnaround_p95_seconds", Help: "95th percentile of the turnaround of the jobs that ended ok: the median over the runs."},
	{Name: "turnaround-p99", Column: "turnaround_p99_s", Derived: true, at: func(m *Metrics) any { return &m.TurnaroundP99S }, Unit: "s",
		Compared: IfNamed, About: "99th percentile of the turnaround of the jobs that ended ok", Needs: needsOK, OfSurvivors: true,
		Bench: "s/turnaround-p99", Gauge: "caserun_turnaround_p99_seconds", Help: "99th percentile of the turnaround of the jobs that ended ok: the median over the runs."},
	{Name: "makespan", Column: "makespan_s", at: func(m *Metrics) any { return &m.MakespanS }, Heading: "makespan", Unit: "s", ofWork: true,
		OnPage: true, Compared: Compared, OfBatch: true, About: "from the batch's arrival to the end of its last job", Needs: needsOK, OfSurvivors: true,
		Bench: "s/makespan", Gauge: "caserun_makespan_seconds", Help: "Time from the batch's arrival to the last job's end: the median over the runs."},
	{Name: "wait", Column: "wait_mean_s", at: func(m *Metrics) any { return &m.WaitMeanS }, Heading: "mean wait", Unit: "s", ofWork: true,
		Compared: IfNamed, About: "time that a job waited for a GPU, before its start or in it, mean over the jobs", Needs: needsOK,
		Bench: "s/wait-mean", Gauge: "caserun_wait_mean_seconds", Help: "Mean time that jobs waited for a GPU: the median over the runs."},
	{Name: "job-slowdown", Column: "job_slowdown_mean", Derived: true, at: func(m *Metrics) any { return &m.JobSlowdown }, title: "Mean job slowdown", Unit: "x",
		OnPage: true, Compared: IfNamed, About: "a job's turnaround over its time alone, mean over the jobs that ended ok", Needs: needsAlone, OfSurvivors: true,
		Bench: "x/job-slowdown-mean", Gauge: "caserun_job_slowdown_mean_ratio", Help: "Turnaround of a job over its time alone, mean over the jobs that ended ok: the median over the runs."},
	{Name: "job-slowdown-p95", Column: "job_slowdown_p95", Derived: true, at: func(m *Metrics) any { return &m.JobSlowdownP95 }, Unit: "x",
		Compared: IfNamed, About: "95th percentile of the job slowdowns", Needs: needsAlone, OfSurvivors: true,
		Bench: "x/job-slowdown-p95", Gauge: "caserun_job_slowdown_p95_ratio", Help: "95th percentile of the slowdowns of the jobs that ended ok: the median over the runs."},
	{Name: "job-slowdown-max", Column: "job_slowdown_max", Derived: true, at: func(m *Metrics) any { return &m.JobSlowdownMax }, Unit: "x",
		Compared: IfNamed, About: "the largest of the job slowdowns", Needs: needsAlone, OfSurvivors: true,
		Bench: "x/job-slowdown-max", Gauge: "caserun_job_slowdown_max_ratio", Help: "The largest slowdown of the jobs that ended ok: the median over the runs."},
	{Name: "fairness", Column: "fairness", Derived: true, at: func(m *Metrics) any { return &m.Fairness }, HigherIsBetter: true,
		OnPage: true, Compared: IfNamed, About: "Jain's index of the job slowdowns: 100 % if all are equal", Needs: needsAlone, OfSurvivors: true, Absolute: true,
		Bench: "share/fairness", Gauge: "caserun_fairness_ratio", Help: "Jain's index of the slowdowns of the jobs that ended ok: the median over the runs."},
	{Name: "ok", Column: "jobs_ok", at: func(m *Metrics) any { return &m.OK }, Heading: "  ok", Unit: "jobs", HigherIsBetter: true},
	{Name: "oom", Column: "jobs_oom", at: func(m *Metrics) any { return &m.OOM }, Heading: "  out of memory", Unit: "jobs"},
	{Name: "crashed", Column: "jobs_crashed", at: func(m *Metrics) any { return &m.Crashed }, Unit: "jobs", Bench: "crashes/run"},
	{Name: "cancelled", Column: "jobs_cancelled", at: func(m *Metrics) any { return &m.Cancelled }, Heading: "  cancelled", Unit: "jobs"},
	{Name: "not-started", Column: "jobs_not_started", at: func(m *Metrics) any { return &m.NotStarted }, Heading: "  not started", Unit: "jobs"},
	{Name: "utilization", Column: "utilization_mean", at: func(m *Metrics) any { return &m.UtilizationMean }, Heading: "mean utilization", HigherIsBetter: true,
		OnPage: true, Compared: IfNamed, About: "utilization of the GPUs, mean over the devices and over the makespan", Needs: ": it needs sampled or simulated devices", Absolute: true,
		Bench: "utilization/mean", Gauge: "caserun_utilization_ratio", Help: "Mean utilization of the GPUs: the median over the runs."},
	{Name: "peak-utilization", Column: "utilization_peak", at: func(m *Metrics) any { return &m.UtilizationPeak }, Heading: "peak utilization", HigherIsBetter: true},
	{Name: "kernel-utilization", Column: "kernel_utilization_mean", at: func(m *Metrics) any { return &m.KernelUtilizationMean }, Heading: "kernel resident", HigherIsBetter: true},
	{Name: crashes, Compared: Compared, About: "jobs that did not end ok and were not cancelled: their share, in limits of a gate their number per run",
		Absolute: true, Exact: true, Gauge: "caserun_crashed_jobs_ratio", Help: "Jobs that crashed, of all jobs of all runs."},
	{Name: "slowdown", at: func(m *Metrics) any { return &m.Slowdown }, ofWork: true, Compared: Compared, About: "how much longer kernels take than in traced runs under sa",
		Needs: ": it needs traced runs, under sa on each side too", Absolute: true},
	{Name: "energy", Column: "energy_j", at: func(m *Metrics) any { return &m.Energy.UsedJ }, Heading: "energy", Unit: "J", ofWork: true,
		Compared: IfNamed, About: "what the GPUs use from the batch's arrival to the end of its last job", Needs: needsEnergy, OfSurvivors: true,
		Bench: "J/run", Gauge: "caserun_energy_joules", Help: "Energy that the GPUs used: the median over the live runs."},
	{Name: "energy-per-job", Column: "energy_per_ok_job_j", at: func(m *Metrics) any { return &m.Energy.PerOK }, Heading: "  per ok job", title: "Energy per ok job", Unit: "J",
		Compared: IfNamed, About: "energy, divided by the jobs that ended ok", Needs: needsEnergy, OfSurvivors: true,
		Bench: "J/ok-job", Gauge: "caserun_energy_per_ok_job_joules", Help: "Energy that the GPUs used for each job that ended ok: the median over the live runs."},
	{Name: "deadlines-met", Column: "deadlines_met", at: func(m *Metrics) any { return &m.DeadlinesMet }, Heading: "deadlines met", HigherIsBetter: true,
		Compared: IfNamed, About: "jobs that ended ok by their deadline: their share of the jobs that have one", Needs: ": it needs a job with a deadline",
		Absolute: true, Bench: "share/deadlines-met", Gauge: "caserun_deadlines_met_ratio", Help: "Share of the jobs with a deadline that ended ok by it: the median over the runs."},
	{Name: "steady-rate", Column: "steady_throughput_jobs_per_s", at: func(m *Metrics) any { return &m.Open.SteadyJobsPerS }, Heading: "steady throughput", Unit: "jobs/s", HigherIsBetter: true,
		Compared: IfNamed, About: "jobs that ended ok between the warm-up and the last arrival, divided by that time", Needs: needsArrivals, OfSurvivors: true,
		Bench: "jobs/s/steady", Gauge: "caserun_steady_throughput_jobs_per_second", Help: "Jobs that ended ok per second in the steady part of an open load: the median over the runs."},
	{Name: "backlog", Column: "backlog_mean", at: func(m *Metrics) any { return &m.Open.BacklogMean }, Heading: "mean backlog", Unit: "jobs",
		Compared: IfNamed, About: "jobs that have arrived and not ended, mean over the time between the warm-up and the last arrival", Needs: needsArrivals,
		Bench: "jobs/backlog-mean", Gauge: "caserun_backlog_mean_jobs", Help: "Mean number of jobs that have arrived and not ended, in the steady part of an open load: the median over the runs."},
	{Name: "largest-backlog", Column: "backlog_peak", at: func(m *Metrics) any { return &m.Open.BacklogPeak }, Heading: "largest backlog", Unit: "jobs"},
	{Name: "backlog-growth", Column: "backlog_growth", at: func(m *Metrics) any { return &m.Open.Growth }, Heading: "backlog growth", Absolute: true},
	{Name: "idle-energy", Column: "energy_idle_j", at: func(m *Metrics) any { return &m.Energy.IdleJ }, Heading: "  with no task (estimated)", title: "Energy with no task (estimated)", Unit: "J"},
	{Name: "swaps", Column: "swaps", at: func(m *Metrics) any { return &m.Swapping.Swaps }, Heading: "swaps", Unit: "swaps"},
	{Name: "swaps-in-vain", Column: "swaps_in_vain", at: func(m *Metrics) any { return &m.Swapping.InVain }, Heading: "  unsuccessful", Unit: "swaps"},
	{Name: "swapped-out", Column: "swapped_out_bytes", at: func(m *Metrics) any { return &m.Swapping.OutBytes }, Heading: "  to the host", title: "Moved to the host", Unit: "bytes",
		Gauge: "caserun_swapped_out_bytes", Help: "GPU memory that moved to the host: the median over the runs whose scheduler asked for memory."},
	{Name: "swapped-in", Column: "swapped_in_bytes", at: func(m *Metrics) any { return &m.Swapping.InBytes }, Heading: "  back", title: "Moved back", Unit: "bytes",
		Gauge: "caserun_swapped_in_bytes", Help: "GPU memory that came back from the host: the median over the same runs."},
	{Name: "swap-drain", Column: "swap_drain_s", at: func(m *Metrics) any { return &m.Swapping.DrainS }, Heading: "  drain", Unit: "s"},
	{Name: "swap-copy", Column: "swap_copy_s", at: func(m *Metrics) any { return &m.Swapping.CopyS }, Heading: "  copies", Unit: "s"},
	{Name: "swap-bookkeeping", Column: "swap_bookkeeping_s", at: func(m *Metrics) any { return &m.Swapping.BookkeepingS }, Heading: "  bookkeeping", Unit: "s"},
	{Name: "swap-lost", Column: "swap_lost_s", at: func(m *Metrics) any { return &m.Swapping.LostS }, Heading: "  lost by stops", title: "Lost by stops", Unit: "s"},
	{Name: "swap-host-peak", Column: "swap_host_peak_bytes", at: func(m *Metrics) any { return &m.Swapping.HostPeakBytes }, Heading: "  most on the host", Unit: "bytes",
		Gauge: "caserun_swap_host_peak_bytes", Help: "The most GPU memory that was on the host at one time: the median over the same runs."},
	{Name: "host-mapped-slowdown", Column: "host_mapped_slowdown_s", at: func(m *Metrics) any { return &m.Swapping.HostMappedS }, Heading: "  slowdown by host access", Unit: "s"},
}

const crashes = "crashes"

// AllMetrics are in the order of comparisons and exports.
func AllMetrics() []Metric { return slices.Clone(metrics) }

// OnPages are the metrics by which pages compare schedulers: of an open load those of the time in the system first.
func OnPages(open bool) []Metric {
	return slices.DeleteFunc(AllMetrics(), func(m Metric) bool { return !m.OnPage && !m.Counts() || open && m.OfBatch })
}

// Unnamed are the metrics that are compared without a name, of batches or of open loads.
func Unnamed(open bool) []Metric {
	return slices.DeleteFunc(AllMetrics(), func(m Metric) bool {
		return m.Compared != Compared && (!open || !m.InOpenLoad) || open && m.OfBatch
	})
}

// Headline is the metric by which schedulers are ranked: throughput, and in an open load turnaround.
func Headline(open bool) Metric { return Unnamed(open)[0] }

// MetricNamed returns a metric of the table. A name that the table lacks is a fault of the caller, and panics.
func MetricNamed(name string) Metric {
	return metrics[slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })]
}

// MetricOf returns the metric of a run's column; one without a column if there is none.
func MetricOf(column string) Metric {
	if i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Column == column }); i >= 0 {
		return metrics[i]
	}
	return Metric{}
}

// Title is what a page calls the metric.
func (m Metric) Title() string {
	heading := cmp.Or(strings.TrimSpace(m.Heading), m.Name)
	return cmp.Or(m.title, strings.ToUpper(heading[:1])+heading[1:])
}

// Counts reports whether the metric is of jobs that crashed.
func (m Metric) Counts() bool { return m.Name == crashes }

// Of returns the metric's value of a run; nil if the run has none.
func (m Metric) Of(r Run) *float64 {
	v := m.value(r)
	if v == nil || math.IsNaN(*v) || m.ofWork && r.Metrics.OK == 0 {
		return nil
	}
	return v
}

func (m Metric) value(r Run) *float64 {
	if m.at == nil {
		if r.Jobs == 0 {
			return nil
		}
		return known(float64(r.Metrics.Crashed) / float64(r.Jobs))
	}
	figures := r.Metrics
	switch at := m.at(&figures).(type) {
	case **float64:
		return *at
	case **int64:
		if *at != nil {
			return known(float64(**at))
		}
	case *int:
		if r.Status != Running {
			return known(float64(*at))
		}
	}
	return nil
}

// Values returns the metric's values of the runs that have one.
func (m Metric) Values(runs []Run) (out []float64) {
	for _, r := range runs {
		if v := m.Of(r); v != nil {
			out = append(out, *v)
		}
	}
	return out
}
