package results

import (
	"cmp"
	"math"
	"slices"
)

// OpenLoad is what a run says whose jobs arrive at times that do not wait for other jobs. Its fields are nil for other runs,
// and if too few jobs arrived.
type OpenLoad struct {
	SteadyJobsPerS *float64 // jobs that ended ok in the steady part / its length
	BacklogMean    *float64 // jobs in the system: mean over the steady part
	BacklogPeak    *int64   // the most, over the whole run
	// Growth is by how much the backlog grew from the first to the last third of the steady part, divided by the jobs that
	// arrived meanwhile. A load of a times the capacity, a > 1, lets it grow by 1 - 1/a.
	Growth *float64
}

// warmUp is the share of the jobs whose arrival is warm-up: the system is emptier then than later. The share is fixed, so
// that all schedulers are compared over the same jobs; rules that choose it by the data, such as MSER-5, would choose
// another part for each.
const warmUp = 0.1

// BacklogGrows reports whether the load is above what the run could serve, so that mean times and backlogs depend on how long
// the run was. At capacity, with exponential times, a backlog is a random walk: n arrivals change it by some sqrt(2n) jobs. A
// backlog that has grown by 1.5 times as many was not at capacity, but above it.
func (r Run) BacklogGrows() bool {
	if r.Metrics.Open.Growth == nil {
		return false
	}
	meanwhile := (1 - warmUp) * 2 / 3 * float64(r.Jobs) // arrivals between the centres of the first and the last third
	return *r.Metrics.Open.Growth > 1.5*math.Sqrt(2/meanwhile)
}

// stay is the time of a job in the system.
type stay struct{ from, to float64 }

// within is how much of the stay is in an interval.
func (s stay) within(from, to float64) float64 { return max(0, min(s.to, to)-max(s.from, from)) }

// openLoad computes it from jobs that have all ended. The steady part is from the end of the warm-up to the last arrival.
func openLoad(jobs []Job) (o OpenLoad) {
	var stays []stay
	for _, j := range jobs {
		if j.ArrivalS == nil || j.EndS == nil {
			return o
		}
		stays = append(stays, stay{*j.ArrivalS, *j.EndS})
	}
	slices.SortFunc(stays, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	o.BacklogPeak = known(int64(mostAtOnce(stays)))
	warm := int(warmUp * float64(len(stays)))
	from, to := stays[warm].from, stays[len(stays)-1].from
	if to <= from {
		return o
	}
	ended := 0
	for _, j := range jobs {
		if j.EndedOK() && *j.EndS > from && *j.EndS <= to {
			ended++
		}
	}
	o.SteadyJobsPerS = known(float64(ended) / (to - from))
	o.BacklogMean = known(meanStays(stays, from, to))
	third := (to - from) / 3
	meanwhile := 0
	for _, s := range stays {
		if s.from > from+third/2 && s.from <= to-third/2 {
			meanwhile++
		}
	}
	if meanwhile > 0 {
		o.Growth = known((meanStays(stays, to-third, to) - meanStays(stays, from, from+third)) / float64(meanwhile))
	}
	return o
}

// meanStays is the mean number of jobs in the system in an interval.
func meanStays(stays []stay, from, to float64) float64 {
	sum := 0.0
	for _, s := range stays {
		sum += s.within(from, to)
	}
	return sum / (to - from)
}

// mostAtOnce is the largest number of jobs in the system. Who arrives when another ends is not there together with it.
func mostAtOnce(stays []stay) (most int) {
	ends := make([]float64, len(stays))
	for i, s := range stays {
		ends[i] = s.to
	}
	slices.Sort(ends)
	left := 0
	for i, s := range stays {
		for ends[left] <= s.from && left < i {
			left++
		}
		most = max(most, i+1-left)
	}
	return most
}
