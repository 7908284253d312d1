package paper

import (
	"math"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// qualities are figures of a run's quality of service to short jobs and to long ones. It is how many times as long as alone a job takes from its
// arrival to its end, in the mean: 1 is best (section 4.3.2 of the dissertation on CPU-GPU clusters).
var qualities = map[string]func(short, long float64) float64{
	"qos_short": func(short, _ float64) float64 { return short },
	"qos_long":  func(_, long float64) float64 { return long },
	"qos_gap":   func(short, long float64) float64 { return math.Abs(short - long) },
	"qos_ratio": func(short, long float64) float64 { return short / long },
}

// quality is a figure of a run's qualities of service; nil: a job did not end ok, here or alone, or all are short or all long. A job's time alone is that in
// the mix of it alone, on the same node under the same scheduler, in the mean over the runs.
func (a *arms) quality(r results.Run, of func(short, long float64) float64) (*float64, error) {
	m, err := mixes.Lookup(r.Mix)
	if err != nil {
		return nil, err
	}
	jobs, err := a.node.Jobs(r.ID)
	if err != nil {
		return nil, err
	}
	var short, long []float64
	for _, j := range jobs {
		which := &m.Jobs[j.Index]
		alone, err := a.aloneS(r, which)
		took := j.TurnaroundS()
		if err != nil || alone == nil || took == nil || !j.EndedOK() {
			return nil, err
		}
		if which.Long {
			long = append(long, *took / *alone)
		} else {
			short = append(short, *took / *alone)
		}
	}
	if len(short) == 0 || len(long) == 0 {
		return nil, nil
	}
	return new(of(stats.Mean(short), stats.Mean(long))), nil
}

// aloneS is how long a job of a run takes where nothing else runs; nil: it did not end ok.
func (a *arms) aloneS(r results.Run, j *mixes.Job) (*float64, error) {
	arm := results.ArmOf(r)
	arm.Jobs = 1
	_, ending := a.paper.parts(r.Mix)
	for _, name := range a.paper.Alone {
		arm.Mix = name + ending
		if m, err := mixes.Lookup(arm.Mix); err != nil || m.Jobs[0].Command() != j.Command() {
			continue
		}
		var times []float64
		for _, one := range a.runs[arm] {
			took, err := a.timeOfAll(one)
			if took == nil || err != nil {
				return nil, err
			}
			times = append(times, *took)
		}
		if len(times) > 0 {
			return new(stats.Mean(times)), nil
		}
	}
	return nil, noRuns{j.Name + " alone", results.NameOf(r)}
}
