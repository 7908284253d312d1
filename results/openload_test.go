package results

import (
	"math"
	"testing"
)

// served are jobs that arrive one after another, and are served so, one at a time.
func served(n int, every, length float64) (jobs []Job) {
	free := 0.0
	for i := range n {
		at := float64(i) * every
		free = max(free, at) + length
		jobs = append(jobs, Job{Index: i, ArrivalS: new(at), StartS: new(free - length), EndS: new(free), Outcome: new(OK)})
	}
	return jobs
}

func TestOpenLoad(t *testing.T) {
	run := Run{Jobs: 40, Arrivals: new("every 1s"), Status: Complete}
	steady := Compute(run, nil, served(40, 1, 0.5), nil, Residence{})
	// From 4 s to 39 s: half of the time a job is there.
	if o := steady.Open; *o.BacklogMean != 0.5 || *o.BacklogPeak != 1 || *o.SteadyJobsPerS != 1 || math.Abs(*o.Growth) > 0.01 {
		t.Errorf("a load of half the capacity: backlog %g, at most %d, %g jobs/s, growth %g", *o.BacklogMean, *o.BacklogPeak, *o.SteadyJobsPerS, *o.Growth)
	}
	double := Compute(run, nil, served(40, 1, 2), nil, Residence{})
	if o := double.Open; math.Abs(*o.Growth-0.5) > 0.03 || *o.BacklogPeak != 21 || math.Abs(*o.SteadyJobsPerS-0.5) > 0.02 {
		t.Errorf("a load of twice the capacity: at most %d, %g jobs/s, growth %g, want 0.5", *o.BacklogPeak, *o.SteadyJobsPerS, *o.Growth)
	}
	run.Metrics = steady
	if run.BacklogGrows() {
		t.Error("the backlog of half the capacity grows")
	}
	if run.Metrics = double; !run.BacklogGrows() {
		t.Error("the backlog of twice the capacity does not grow")
	}
}

// The makespan counts from the first arrival; a run of a batch has no figures of open load.
func TestFiguresCountFromTheFirstArrival(t *testing.T) {
	jobs := served(3, 10, 4)
	for i := range jobs {
		*jobs[i].ArrivalS, *jobs[i].StartS, *jobs[i].EndS = *jobs[i].ArrivalS+30, *jobs[i].StartS+30, *jobs[i].EndS+30
	}
	open := Compute(Run{Jobs: 3, Arrivals: new("at")}, nil, jobs, nil, Residence{})
	if *open.MakespanS != 24 || *open.TurnaroundMeanS != 4 || *open.ThroughputJobsPerS != 3.0/24 {
		t.Errorf("makespan %g s, turnaround %g s, throughput %g jobs/s", *open.MakespanS, *open.TurnaroundMeanS, *open.ThroughputJobsPerS)
	}
	if closed := Compute(Run{Jobs: 3}, nil, jobs, nil, Residence{}); closed.Open != (OpenLoad{}) {
		t.Errorf("a batch has figures of an open load: %+v", closed.Open)
	}
	for _, few := range [][]Job{jobs[:1], {{ArrivalS: new(0.0), Outcome: new(Refused)}}} {
		if o := Compute(Run{Jobs: 1, Arrivals: new("at")}, nil, few, nil, Residence{}).Open; o.BacklogMean != nil {
			t.Errorf("%+v of %d jobs", o, len(few))
		}
	}
}
