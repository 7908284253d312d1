// Package papertest makes up runs for tests of the paper's tables and figures. A formula gives
// their figures, so they are the same every time.
package papertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/schedulers/policies"
)

// Repetitions is the number of repetitions of each arm.
const Repetitions = 7

// Rodinia are the paper's eight Rodinia mixes (Table 2).
func Rodinia() []string { return slices.Clone(paper.Case().Sweeps[0].Mixes) }

// Darknet are the paper's four mixes of eight equal Darknet jobs (Table 5).
func Darknet() []string { return slices.Clone(paper.Case().Sweeps[1].Mixes[:4]) }

// Node returns a node with runs of the mixes under the schedulers, as if on one of the paper's
// systems. Throughput and turnaround vary by a few percent between repetitions.
func Node(name string, mode results.Mode, system string, devices int, mixes, scheds []string) paper.Node {
	n := paper.Node{Name: name, Hardware: fmt.Sprintf("%d x Test GPU", devices), Mode: mode, Devices: devices, System: system,
		Utilization: segments, Trace: func(int64) (results.Traced, error) { return trace(1), nil }}
	id := int64(0)
	for rep := 1; rep <= Repetitions; rep++ {
		for m, mix := range mixes {
			for k, text := range scheds {
				id++
				n.Runs = append(n.Runs, run(id, rep, m, k, mix, text, n))
			}
		}
	}
	return n
}

func run(id int64, rep, m, k int, mix, text string, n paper.Node) results.Run {
	s, err := policies.Parse(text, n.Devices)
	if err != nil {
		panic(err)
	}
	spread := 1 + 0.01*float64((rep*3+m*2+k)%7-3)
	speed := (1 + 0.25*float64(k)) * spread
	crashed := 0
	if s.Name == "cg" {
		crashed = (m + rep) % 4
	}
	known, err := mixes.Lookup(mix)
	if err != nil {
		panic(err)
	}
	jobs := len(known.Jobs)
	makespan := 100 / speed
	return results.Run{ID: id, Mix: mix, MixSource: known.Source, Scheduler: s.Name, Parameters: s.Parameters(), Node: n.Name, Mode: n.Mode, Repetition: rep,
		Status: results.Complete, Jobs: jobs, Metrics: results.Metrics{OK: jobs - crashed, OOM: crashed, Crashed: crashed,
			MakespanS: new(makespan), ThroughputJobsPerS: new(float64(jobs-crashed) / makespan), TurnaroundMeanS: new(makespan / 2 / (1 + 0.1*float64(m))),
			UtilizationMean: new(0.05 * speed), UtilizationPeak: new(0.5), KernelUtilizationMean: new(0.1 * speed)}}
}

// Traced turns a node's runs into traced runs. Their kernels take 2 % longer under case-alg2
// and case-alg3 than under other schedulers.
func Traced(n paper.Node) paper.Node {
	slow := map[int64]float64{}
	for i, r := range n.Runs {
		n.Runs[i].Traced = true
		if strings.HasPrefix(r.Scheduler, "case") {
			slow[r.ID] = 0.02
		}
	}
	n.Trace = func(run int64) (results.Traced, error) { return trace(1 + slow[run]), nil }
	return n
}

// trace returns a run with a kernel of so many seconds in each of two jobs.
func trace(length float64) results.Traced {
	ok := results.OK
	t := results.Traced{}
	for j := range 2 {
		t.Jobs = append(t.Jobs, results.Job{Index: j, Name: "k", Command: fmt.Sprint("k ", j), Outcome: &ok})
		t.Add(results.Launch{Job: j, Name: "kernel", Grid: "1,1,1", Block: "32,1,1", BusyS: length})
	}
	return t
}

// segments returns a square wave on device 0 and an idle device 1.
func segments(r results.Run) ([]results.Segment, error) {
	series, high := results.SeriesGPU, 0.5
	if r.Mode == results.Simulated {
		series, high = results.SeriesResident, 1
	}
	out := []results.Segment{{Device: 1, Series: series, FirstS: 0, LastS: 200, Samples: 1, Value: new(0.0)}}
	for i := range 40 {
		out = append(out, results.Segment{Device: 0, Series: series, FirstS: float64(5 * i), LastS: float64(5*i) + 4.5, Samples: 1, Value: new(high * float64(i%2))})
	}
	return out, nil
}
