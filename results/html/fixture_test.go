package html

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
)

// memory is a Source without a store.
type memory map[int64]records

func (m memory) Devices(_ context.Context, run int64) ([]results.Device, error) {
	return m[run].devices, nil
}
func (m memory) Jobs(_ context.Context, run int64) ([]results.Job, error)   { return m[run].jobs, nil }
func (m memory) Ranks(_ context.Context, run int64) ([]results.Rank, error) { return m[run].ranks, nil }
func (m memory) Tasks(_ context.Context, run int64) ([]results.Task, error) { return m[run].tasks, nil }
func (m memory) Swaps(_ context.Context, run int64) ([]results.Swap, error) { return m[run].swaps, nil }
func (m memory) Segments(_ context.Context, run int64) ([]results.Segment, error) {
	return m[run].segments, nil
}
func (m memory) Predictions(context.Context, int64) ([]results.Prediction, error) { return nil, nil }
func (m memory) Events(_ context.Context, run int64) ([]results.Event, error) {
	return m[run].events, nil
}

func (m memory) runs() []results.Run {
	var out []results.Run
	for id := int64(1); m[id].run.ID != 0; id++ {
		out = append(out, m[id].run)
	}
	return out
}

// add completes the run's figures and stores it under the next number.
func (m memory) add(r records) {
	r.run.ID, r.run.Jobs = int64(len(m)+1), len(r.jobs)
	if r.run.Status == "" {
		r.run.Status = results.FinalStatus(r.run, r.jobs)
	}
	r.devices = results.WithFigures(r.run, r.devices, r.jobs, r.segments, results.Residence{})
	r.run.Metrics = results.Compute(r.run, r.devices, r.jobs, r.segments, results.Residence{})
	r.run.Metrics.Swapping = results.NewSwapping(r.run, r.tasks, r.swaps)
	m[r.run.ID] = r
}

func devices(n int, name string) []results.Device {
	var out []results.Device
	for i := range n {
		out = append(out, results.Device{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: name, MemoryBytes: 16 << 30, CapacityBytes: 15 << 30, SMs: 80})
	}
	return out
}

// simulatedRun has four jobs on two devices, which take length seconds each. Under sharing
// schedulers two jobs are on a device at once.
func simulatedRun(scheduler string, repetition int, length float64) records {
	r := records{devices: devices(2, "V100 (simulated)"), run: results.Run{Mix: "W1", MixSource: "catalog", Scheduler: scheduler, Parameters: "queue=fifo", Node: "sim:2xV100",
		Mode: results.Simulated, Suite: "profiles", Repetition: repetition, Seed: uint64(repetition),
		Provenance: results.Provenance{Version: "1.0.0", Revision: "0123456789ab", Configuration: `{"sched":"` + scheduler + `","sim-noise":0.01}`, Host: "host", Kernel: "6.1", CPU: "CPU", Cores: 8, MemoryBytes: 32 << 30, Binaries: "{}"}}}
	for i := range 4 {
		start := 0.0
		if scheduler == "sa" && i > 1 {
			start = length
		}
		end := start + length
		j := results.Job{Index: i, Name: fmt.Sprintf("needle-%d", i), Command: "needle 32768 10", Class: "large", FootprintBytes: new(int64(8 << 30)),
			Device: new(i % 2), StartS: &start, EndS: &end, WaitS: new(start), Outcome: new(results.OK), ExitStatus: new(0)}
		if scheduler == "cg" && i == 3 {
			j.Outcome, j.ExitStatus, j.Detail, j.StderrTail = new(results.OOM), new(2), "out of memory: 8 GiB in cudaMalloc (simulated)", "out of memory (simulated)"
		}
		r.jobs = append(r.jobs, j)
		grant := start + 0.2*length
		r.tasks = append(r.tasks, results.Task{Job: i, Bytes: 8 << 30, Blocks: 100, ThreadsPerBlock: 256, Device: new(i % 2), SubmitS: start + 0.1*length, GrantS: &grant, ReleaseS: &end})
		if i < 2 || scheduler == "sa" {
			r.segments = append(r.segments,
				results.Segment{Device: i % 2, Series: results.SeriesSimulated, FirstS: start, LastS: start + length/2, Samples: 1, Value: new(0.0)},
				results.Segment{Device: i % 2, Series: results.SeriesSimulated, FirstS: start + length/2, LastS: end, Samples: 1, Value: new(0.75)})
		}
	}
	return r
}

const hostile = `<script>alert(1)</script>"'&</title></style><!--`

// liveRun has everything that a live run can have, hostile text included.
func liveRun() records {
	r := records{devices: devices(2, "NVIDIA H200"), run: results.Run{Mix: "own " + hostile, MixSource: "own.yaml", Scheduler: "cg", Parameters: "workers=4", Node: "local", Mode: results.Live,
		Suite: "builtin", Repetition: 1, Seed: 1<<64 - 1, Workers: 4, StartedAt: new(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), Traced: true,
		Tracer: results.Tracer{Processes: new(int64(2)), Kernels: new(int64(9)), Copies: new(int64(0)), Lost: new(int64(3)), Cut: new(int64(0)), Untraced: new(int64(0))},
		Sampler: results.Sampler{PeriodS: new(0.001), Samples: new(int64(9_000)), MissedDeadlines: new(int64(1_000)), LongestGapS: new(0.25),
			CPUS: new(0.1), Errors: new(int64(2)), FirstError: new("GPU is lost")},
		Provenance: results.Provenance{Version: "1.0.0", Revision: "0123456789ab+dirty", Configuration: `{"sched":"cg"}`, Host: "gpu-host", Kernel: "6.1", CPU: "CPU", Cores: 64, MemoryBytes: 512 << 30,
			Driver: new("580.1"), CUDA: new("13.0"), Binaries: `{"bin/suite/needle":"00ff"}`}}}
	r.devices[0].ThrottleEnd = new("gpu-idle+applications-clocks+sw-power-cap")
	r.devices[1].UsedAtStartBytes = 1 << 30
	r.jobs = []results.Job{
		{Index: 0, Name: hostile, Command: "x " + hostile, Device: new(0), StartS: new(0.0), EndS: new(4.0), WaitS: new(0.0), Outcome: new(results.OK), ExitStatus: new(0)},
		{Index: 1, Name: "srad_v2-16384", Command: "srad_v2", Device: new(1), StartS: new(0.0), EndS: new(6.0), WaitS: new(0.0), Outcome: new(results.Fault),
			Signal: new("SIGABRT"), Detail: "error 700 " + hostile, StderrTail: "line one\n\x1b[31m\u202e" + hostile + "\n"},
		{Index: 2, Name: "bfs", Command: "bfs graph", Device: new(0), StartS: new(4.0), EndS: new(10.0), WaitS: new(4.0), Outcome: new(results.OK), ExitStatus: new(0)},
		{Index: 3, Name: "never", Command: "never", WaitS: new(10.0), EndS: new(10.0), Outcome: new(results.Refused)},
	}
	for d := range 2 {
		for i, v := range []float64{0, 0.5, 1, 0.25} {
			at := float64(i) * 2
			if i == 3 {
				at += 1.5 // a gap too long to bridge
			}
			r.segments = append(r.segments, results.Segment{Device: d, Series: results.SeriesGPU, FirstS: at, LastS: at + 1.9, Samples: 1900, Value: new(v)},
				results.Segment{Device: d, Series: results.SeriesMemory, FirstS: at, LastS: at + 1.9, Samples: 1900, Value: new(v * (8 << 30))})
		}
	}
	r.events = []results.Event{{AtS: 5.5, Kind: results.EventFault, Job: new(1), Device: new(1), Detail: hostile}}
	return r
}

// fixture has three arms of seven runs on a simulated node, and one live run.
func fixture() memory {
	m := memory{}
	for i := 1; i <= 7; i++ {
		for n, scheduler := range []string{"case-alg3", "cg", "sa"} {
			m.add(simulatedRun(scheduler, i, 10+float64(n)+float64(i)/10))
		}
	}
	m.add(liveRun())
	return m
}

func write(t *testing.T, m memory, runs ...results.Run) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(context.Background(), &out, m, runs, Options{Store: "caserun.db", Generator: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
