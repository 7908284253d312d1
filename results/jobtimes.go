package results

import (
	"cmp"
	"slices"
)

// JobTimes are what the figures of a run's jobs are computed from, which the run's row does not have.
type JobTimes struct {
	Command     string
	TurnaroundS float64
	RanS        *float64 // from its start to its end
	ExpectedS   *float64 // alone, as the run's scheduler expected
}

// TimesOf are the times of the jobs that ended ok. predictions are those of the run.
func TimesOf(jobs []Job, predictions []Prediction) (out []JobTimes) {
	expected := map[int]*float64{}
	for _, p := range predictions {
		expected[p.Job] = known(p.aloneS())
	}
	for _, j := range jobs {
		took := j.TurnaroundS()
		if !j.EndedOK() || took == nil {
			continue
		}
		t := JobTimes{Command: j.Command, TurnaroundS: *took, ExpectedS: expected[j.Index]}
		if j.StartS != nil {
			t.RanS = known(*j.EndS - *j.StartS)
		}
		out = append(out, t)
	}
	return out
}

// WithJobTimes sets the figures that follow from the jobs of each run: the 99th percentile of turnaround, and the
// slowdowns against each job's time alone. times are of the runs by their ids.
//
// A slowdown is a job's turnaround, its wait included, over its time alone. It is the normalized turnaround time of
// Eyerman and Eeckhout (System-level performance metrics for multiprogram workloads, IEEE Micro 28(3), 2008). The mean is
// their ANTT. Fairness is Jain's index of the slowdowns (Jain, Chiu, Hawe, DEC TR-301, 1984).
//
// The time alone is the first of these that is known:
//   - the mean time from start to end of the jobs with the command under sa, which gives each job a device of its own, in
//     runs of the same batch
//   - the same in runs of other mixes on the node
//   - what the run's scheduler expected.
//
// If one job that ended ok has no time alone, the run has no slowdowns.
func WithJobTimes(runs []Run, times map[int64][]JobTimes) {
	alone := aloneOf(runs, times)
	for i := range runs {
		runs[i].Metrics.setJobFigures(times[runs[i].ID], func(j JobTimes) *float64 {
			of := ArmOf(runs[i]).Alone()
			return cmp.Or(alone[of][j.Command], alone[of.WithoutMix()][j.Command], j.ExpectedS)
		})
	}
}

// aloneOf are how long the jobs of each command took under sa, in the mean, by batch and on each node.
func aloneOf(runs []Run, times map[int64][]JobTimes) map[Arm]map[string]*float64 {
	all := map[Arm]map[string][]float64{}
	for _, r := range runs {
		if r.Scheduler != "sa" || r.Status != Complete || r.Doubts != "" || r.Warmup || r.Excluded {
			continue
		}
		of := ArmOf(r).Alone()
		for _, j := range times[r.ID] {
			if j.RanS == nil {
				continue
			}
			for _, arm := range []Arm{of, of.WithoutMix()} {
				if all[arm] == nil {
					all[arm] = map[string][]float64{}
				}
				all[arm][j.Command] = append(all[arm][j.Command], *j.RanS)
			}
		}
	}
	out := map[Arm]map[string]*float64{}
	for arm, commands := range all {
		out[arm] = map[string]*float64{}
		for command, ran := range commands {
			out[arm][command] = mean(ran)
		}
	}
	return out
}

// setJobFigures computes the figures of a run's jobs. alone gives a job's time alone, nil if it is unknown.
func (m *Metrics) setJobFigures(jobs []JobTimes, alone func(JobTimes) *float64) {
	m.TurnaroundP99S, m.JobSlowdown, m.JobSlowdownP95, m.JobSlowdownMax, m.Fairness = nil, nil, nil, nil, nil
	if len(jobs) == 0 {
		return
	}
	turnarounds, slowdowns := make([]float64, 0, len(jobs)), make([]float64, 0, len(jobs))
	for _, j := range jobs {
		turnarounds = append(turnarounds, j.TurnaroundS)
		if t := alone(j); t != nil && *t > 0 {
			slowdowns = append(slowdowns, j.TurnaroundS / *t)
		}
	}
	slices.Sort(turnarounds)
	m.TurnaroundP99S = known(Quantile(turnarounds, 0.99))
	if len(slowdowns) < len(jobs) {
		return
	}
	slices.Sort(slowdowns)
	m.JobSlowdown, m.JobSlowdownP95, m.JobSlowdownMax = mean(slowdowns), known(Quantile(slowdowns, 0.95)), known(slowdowns[len(slowdowns)-1])
	m.Fairness = jain(slowdowns)
}

// jain is Jain's index of fairness, (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything.
func jain(x []float64) *float64 {
	squares := make([]float64, len(x))
	for i, v := range x {
		squares[i] = v * v
	}
	sum := total(x)
	if sum == 0 {
		return nil
	}
	return known(sum * sum / (float64(len(x)) * total(squares)))
}
