package results

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Metrics are a run's figures; docs/reference/store.md defines each. Nil means that the run has no
// records from which to compute the figure.
type Metrics struct {
	OK         int // every outcome that counts as ok
	OOM        int
	Crashed    int // every outcome that counts as a crash, OOM included
	Cancelled  int
	NotStarted int

	MakespanS             *float64
	ThroughputJobsPerS    *float64 // OK / makespan
	AttemptedJobsPerS     *float64 // all jobs / makespan
	TurnaroundMeanS       *float64 // over ok jobs
	TurnaroundP95S        *float64
	WaitMeanS             *float64 // over jobs that started or waited
	UtilizationMean       *float64
	UtilizationPeak       *float64
	KernelUtilizationMean *float64 // from kernel intervals
	Energy                Energy   // set by WithEnergy, not by Compute
	Swapping              Swapping // set by NewSwapping, not by Compute
	DeadlinesMet          *float64 // met / jobs with a deadline that ended or were refused
	Open                  OpenLoad
	Slowdown              *float64 // of kernels against the traced runs under sa of one side of a comparison; not stored

	// Of the jobs that ended ok, set by WithJobTimes; not stored.
	TurnaroundP99S *float64
	JobSlowdown    *float64 // mean of turnaround / time alone
	JobSlowdownP95 *float64
	JobSlowdownMax *float64
	Fairness       *float64 // Jain's index of the slowdowns
}

// Compute derives a run's metrics from its records alone, so that a stored run gives the same
// figures again. The order of the records does not matter.
//
// Utilization comes from the series that Primary returns. A run with cancelled or unstarted
// jobs has metrics too, but is not a measurement: see FinalStatus.
func Compute(run Run, devices []Device, jobs []Job, segments []Segment, kernels Residence) Metrics {
	var m Metrics
	var turnarounds, waits []float64
	deadlines, met := 0, 0
	for _, j := range jobs {
		if j.WaitS != nil && !j.EndedWithOthers() {
			waits = append(waits, *j.WaitS)
		}
		if j.Outcome == nil {
			continue
		}
		if in := j.MetDeadline(); in != nil {
			deadlines++
			if *in {
				met++
			}
		}
		switch o := *j.Outcome; {
		case o.CountsAsOK():
			m.OK++
			if t := j.TurnaroundS(); t != nil {
				turnarounds = append(turnarounds, *t)
			}
		case o == Cancelled:
			m.Cancelled++
		case o == NotStarted:
			m.NotStarted++
		case o.Crashed():
			m.Crashed++
			if o == OOM {
				m.OOM++
			}
		}
	}
	m.TurnaroundMeanS = mean(turnarounds)
	if slices.Sort(turnarounds); len(turnarounds) > 0 {
		m.TurnaroundP95S = known(Quantile(turnarounds, 0.95))
	}
	m.WaitMeanS = mean(waits)
	if deadlines > 0 {
		m.DeadlinesMet = known(float64(met) / float64(deadlines))
	}

	m.MakespanS = makespan(run, jobs)
	if m.MakespanS == nil || *m.MakespanS <= 0 {
		return m
	}
	m.ThroughputJobsPerS = known(float64(m.OK) / *m.MakespanS)
	m.AttemptedJobsPerS = known(float64(len(jobs)) / *m.MakespanS)
	if run.Arrivals != nil {
		m.Open = openLoad(jobs)
	}
	end := *lastEnd(jobs)
	primary := byDevice(segments, Primary(run.Mode))
	m.UtilizationMean, m.UtilizationPeak = meanAndPeak(primary, slices.Sorted(maps.Keys(primary)), end)
	m.KernelUtilizationMean = mean(kernels.fractions(devices, end))
	return m
}

// WithOutcomes returns the metrics with those computed again that follow from the jobs' rows, whose outcomes have changed.
func (m Metrics) WithOutcomes(run Run, jobs []Job) Metrics {
	again := Compute(run, nil, jobs, nil, Residence{})
	again.UtilizationMean, again.UtilizationPeak, again.KernelUtilizationMean = m.UtilizationMean, m.UtilizationPeak, m.KernelUtilizationMean
	again.Energy, again.Swapping, again.Slowdown = m.Energy, m.Swapping, m.Slowdown
	return again
}

// WithFigures returns the devices with figures computed from the run's records: utilization
// mean and peak, kernel residency and peak memory. A figure without records keeps its value.
func WithFigures(run Run, devices []Device, jobs []Job, segments []Segment, kernels Residence) []Device {
	out := slices.Clone(devices)
	end := lastEnd(jobs)
	if end == nil || *end <= 0 {
		return out
	}
	resident := kernels.fractions(devices, *end)
	primary, memory := byDevice(segments, Primary(run.Mode)), byDevice(segments, SeriesMemory)
	for i := range out {
		d := &out[i]
		own := []int{d.Index}
		if avg, peak := meanAndPeak(primary, own, *end); peak != nil {
			d.UtilizationMean, d.UtilizationPeak = avg, peak
		}
		if _, peak := meanAndPeak(memory, own, *end); peak != nil {
			d.PeakUsedBytes = known(int64(*peak))
		}
		if resident != nil {
			d.ResidentMean = known(resident[i])
		}
	}
	return out
}

// FinalStatus returns a run's status from the outcomes of its jobs:
//   - running if a job is missing or has no outcome;
//   - interrupted if a job was cancelled or could not be started;
//   - else complete.
func FinalStatus(run Run, jobs []Job) Status {
	status := Complete
	for _, j := range jobs {
		switch {
		case j.Outcome == nil:
			return Running
		case j.Outcome.invalid():
			status = Interrupted
		}
	}
	if len(jobs) < run.Jobs {
		return Running
	}
	return status
}

// makespan returns the time from the batch's arrival to the last end, in open load from the first job's arrival; nil as of
// lastEnd.
func makespan(run Run, jobs []Job) *float64 {
	last := lastEnd(jobs)
	if last == nil || run.Arrivals == nil {
		return last
	}
	first := *last
	for _, j := range jobs {
		first = min(first, *cmp.Or(j.ArrivalS, new(0.0)))
	}
	return known(*last - first)
}

// lastEnd returns the last job end, in seconds since the batch arrived. It is nil while a job
// has no outcome, and if a job that started has no end. A job that never started, such as a
// refused one, needs no end.
func lastEnd(jobs []Job) *float64 {
	var last *float64
	for _, j := range jobs {
		if j.Outcome == nil || (j.StartS != nil && j.EndS == nil) {
			return nil
		}
		if j.EndS != nil && (last == nil || *j.EndS > *last) {
			last = j.EndS
		}
	}
	if last == nil {
		return nil
	}
	return known(*last)
}

// Primary returns the series from which a run's utilization figures come.
func Primary(mode Mode) Series {
	if mode == Simulated {
		return SeriesSimulated
	}
	return SeriesGPU
}

func known[T any](v T) *T { return &v }

func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	return known(total(values) / float64(len(values)))
}

// total sums in ascending order, so that the order of the records does not change the last bits.
func total(values []float64) float64 {
	sum := 0.0
	for _, v := range slices.Sorted(slices.Values(values)) {
		sum += v
	}
	return sum
}

// Quantile interpolates linearly between order statistics: with h = (n-1)p the result is
// x[floor h] + (h - floor h)(x[floor h + 1] - x[floor h]), counted from 0. This is Hyndman and
// Fan's type 7, the default of R and NumPy. x must be sorted and not empty.
func Quantile(x []float64, p float64) float64 {
	h := float64(len(x)-1) * p
	low := int(math.Floor(h))
	if low+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[low] + (h-float64(low))*(x[low+1]-x[low])
}
