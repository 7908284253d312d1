package results

import (
	"math"
	"slices"
)

// Metrics are a run's figures; docs/store.md defines each. Nil means that
// nothing was there to compute it from.
type Metrics struct {
	OK         int
	OOM        int
	Crashed    int // every outcome that counts as a crash, OOM included
	Cancelled  int
	NotStarted int

	MakespanS             *float64
	ThroughputJobsPerS    *float64 // ok jobs / makespan
	AttemptedJobsPerS     *float64 // all jobs / makespan
	TurnaroundMeanS       *float64 // over ok jobs
	TurnaroundP95S        *float64
	WaitMeanS             *float64 // over jobs that started or waited
	UtilizationMean       *float64
	UtilizationPeak       *float64
	KernelUtilizationMean *float64 // from kernel intervals
}

// Compute derives a run's metrics from its records alone, so that a stored run
// gives the same figures again. The order of the records does not matter.
//
// Utilization comes from the primary series: SeriesGPU of a live run,
// SeriesSimulated of a simulated one. A run with jobs that were
// cancelled, or not started, still has metrics; FinalStatus says that they are not a measurement.
func Compute(run Run, devices []Device, jobs []Job, segments []Segment, kernels []Kernel) Metrics {
	var m Metrics
	var turnarounds, waits []float64
	for _, j := range jobs {
		if j.WaitS != nil {
			waits = append(waits, *j.WaitS)
		}
		if j.Outcome == nil {
			continue
		}
		switch o := *j.Outcome; {
		case o == OK:
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

	m.MakespanS = makespan(jobs)
	if m.MakespanS == nil || *m.MakespanS <= 0 {
		return m
	}
	end := *m.MakespanS
	m.ThroughputJobsPerS = known(float64(m.OK) / end)
	m.AttemptedJobsPerS = known(float64(len(jobs)) / end)
	m.UtilizationMean, m.UtilizationPeak = meanAndPeak(segments, Primary(run.Mode), end)
	m.KernelUtilizationMean = mean(residentFractions(devices, kernels, end))
	return m
}

// WithFigures returns the devices with the figures that the run's records give
// them: utilization mean and peak, kernel residency and peak memory. A figure
// with no records behind it keeps the value it had.
func WithFigures(run Run, devices []Device, jobs []Job, segments []Segment, kernels []Kernel) []Device {
	out := slices.Clone(devices)
	end := makespan(jobs)
	if end == nil || *end <= 0 {
		return out
	}
	resident := residentFractions(devices, kernels, *end)
	for i := range out {
		d := &out[i]
		own := ofDevice(segments, d.Index)
		if avg, peak := meanAndPeak(own, Primary(run.Mode), *end); peak != nil {
			d.UtilizationMean, d.UtilizationPeak = avg, peak
		}
		if _, peak := meanAndPeak(own, SeriesMemory, *end); peak != nil {
			d.PeakUsedBytes = known(int64(*peak))
		}
		if resident != nil {
			d.ResidentMean = known(resident[i])
		}
	}
	return out
}

// FinalStatus is the status that the jobs' outcomes give a run: running while
// one of its jobs is missing or has none, interrupted if one was cancelled or could
// not be started.
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

// makespan is the last job end, the batch's arrival being 0. It is unknown
// while a job is under way and where a job that started has no end; a job that
// never started, such as a refused one, may have none.
func makespan(jobs []Job) *float64 {
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

// Primary is the series that a run's utilization figures come from.
func Primary(mode Mode) Series {
	if mode == Simulated {
		return SeriesSimulated
	}
	return SeriesGPU
}

func known[T any](v T) *T { return &v }

// mean sums in ascending order, so that the order of the records does not show
// in the last bits.
func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sum := 0.0
	for _, v := range slices.Sorted(slices.Values(values)) {
		sum += v
	}
	return known(sum / float64(len(values)))
}

// Quantile of sorted values, of which there must be one, interpolates linearly
// between order statistics: with h = (n-1)p it is
// x[floor h] + (h - floor h)(x[floor h + 1] - x[floor h]), counted from 0. This is
// Hyndman and Fan's type 7, the default of R and NumPy.
func Quantile(x []float64, p float64) float64 {
	h := float64(len(x)-1) * p
	low := int(math.Floor(h))
	if low+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[low] + (h-float64(low))*(x[low+1]-x[low])
}
