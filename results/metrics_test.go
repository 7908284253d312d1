package results

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

// ended is a job that started at 0 and ended.
func ended(index int, o Outcome, end, wait float64) Job {
	return Job{Index: index, Outcome: &o, StartS: known(0.0), EndS: &end, WaitS: &wait}
}

func TestTurnaroundIsFromTheArrival(t *testing.T) {
	first, second := ended(0, OK, 4, 0), ended(1, OK, 10, 1)
	first.ArrivalS, second.ArrivalS = known(0.0), known(4.0)
	m := Compute(Run{}, nil, []Job{first, second}, nil, Residence{})
	if *m.TurnaroundMeanS != 5 || *m.MakespanS != 10 {
		t.Errorf("mean turnaround %g s, makespan %g s, want 5 and 10", *m.TurnaroundMeanS, *m.MakespanS)
	}
}

// A job that did not end ok has missed its deadline. A job that was stopped says nothing.
func TestDeadlines(t *testing.T) {
	jobs := []Job{ended(0, OK, 22.3, 0), ended(1, OK, 22.4, 0), ended(2, Crash, 13, 0), ended(3, OK, 30, 0), ended(4, Cancelled, 13, 0),
		{Index: 5, DeadlineS: known(10.0)}, ended(6, OKAfterOOM, 12.3, 0), {Index: 7, Outcome: known(Refused), DeadlineS: known(10.0)}}
	for i := range jobs[:7] {
		jobs[i].ArrivalS = known(12.3)
		if i != 3 {
			jobs[i].DeadlineS = known(10.0)
		}
	}
	for i, want := range []*bool{known(true), known(false), known(false), nil, nil, nil, known(true), known(false)} {
		if diff := cmp.Diff(want, jobs[i].MetDeadline()); diff != "" {
			t.Errorf("job %d: %s", i, diff)
		}
	}
	if got := Compute(Run{}, nil, jobs, nil, Residence{}).DeadlinesMet; got == nil || *got != 0.4 {
		t.Errorf("deadlines met: %v, want 2 of 5", got)
	}
	if got := Compute(Run{}, nil, jobs[3:4], nil, Residence{}).DeadlinesMet; got != nil {
		t.Errorf("deadlines met: %v without a deadline", *got)
	}
}

func seg(device int, series Series, first, last, value float64) Segment {
	return Segment{Device: device, Series: series, FirstS: first, LastS: last, Samples: 1, Value: &value}
}

func TestCompute(t *testing.T) {
	jobs := []Job{
		ended(0, OK, 4, 0), ended(1, OOM, 10, 2), ended(2, OK, 8, 1), ended(3, Fault, 1, 1),
		ended(4, Refused, 1, 1), {Index: 5, Outcome: known(Refused)},
	}
	want := Metrics{
		OK: 2, OOM: 1, Crashed: 4, MakespanS: known(10.0), ThroughputJobsPerS: known(0.2),
		AttemptedJobsPerS: known(0.6), TurnaroundMeanS: known(6.0), TurnaroundP95S: known(7.8), WaitMeanS: known(1.0),
	}
	two := []Device{{Index: 0}, {Index: 1}}
	with := func(change func(*Metrics)) Metrics {
		m := want
		change(&m)
		return m
	}
	for _, c := range []struct {
		name     string
		run      Run
		devices  []Device
		jobs     []Job
		segments []Segment
		kernels  []Kernel
		want     Metrics
	}{
		{name: "nothing", want: Metrics{}},
		{name: "no devices", run: Run{Mode: Live}, jobs: jobs, want: want},
		{
			name: "a job under way", run: Run{Mode: Live}, jobs: append([]Job{{Index: 6, StartS: known(0.0)}}, jobs...),
			want: Metrics{OK: 2, OOM: 1, Crashed: 4, TurnaroundMeanS: known(6.0), TurnaroundP95S: known(7.8), WaitMeanS: known(1.0)},
		},
		{
			name: "cancelled jobs keep the rest", jobs: []Job{ended(0, OK, 4, 0), {Index: 1, Outcome: known(Cancelled)}},
			want: Metrics{OK: 1, Cancelled: 1, MakespanS: known(4.0), ThroughputJobsPerS: known(0.25),
				AttemptedJobsPerS: known(0.5), TurnaroundMeanS: known(4.0), TurnaroundP95S: known(4.0), WaitMeanS: known(0.0)},
		},
		{
			name: "none ok is a throughput of 0", jobs: []Job{ended(0, Wrong, 4, 0)},
			want: Metrics{Crashed: 1, MakespanS: known(4.0), ThroughputJobsPerS: known(0.0),
				AttemptedJobsPerS: known(0.25), WaitMeanS: known(0.0)},
		},
		{
			name: "utilization is the mean over devices, then over time", run: Run{Mode: Live}, devices: two, jobs: jobs,
			segments: []Segment{
				seg(0, SeriesGPU, -3, 5, 1), seg(0, SeriesGPU, 5.001, 20, 0), // holds to 5.001
				seg(1, SeriesGPU, -3, 12, 0.5), seg(0, SeriesSimulated, 0, 10, 1), seg(1, SeriesMemory, 0, 10, 7e9),
			},
			want: with(func(m *Metrics) {
				m.UtilizationMean, m.UtilizationPeak = known(0.75*0.5001+0.25*0.4999), known(0.75)
			}),
		},
		{
			name: "the primary series of a simulated run", run: Run{Mode: Simulated}, devices: two[:1], jobs: jobs,
			segments: []Segment{seg(0, SeriesGPU, 0, 10, 1), seg(0, SeriesSimulated, 0, 10, 0.25)},
			want:     with(func(m *Metrics) { m.UtilizationMean, m.UtilizationPeak = known(0.25), known(0.25) }),
		},
		{
			name: "instants without every device do not count", run: Run{Mode: Live}, devices: two, jobs: jobs,
			segments: []Segment{
				seg(0, SeriesGPU, 0, 2, 1), seg(0, SeriesGPU, 2, 10, 0.2),
				seg(1, SeriesGPU, 2, 6, 0.4), {Device: 1, Series: SeriesGPU, FirstS: 6, LastS: 10, Samples: 1},
			},
			want: with(func(m *Metrics) { m.UtilizationMean, m.UtilizationPeak = known(0.3), known(0.3) }),
		},
		{
			name: "a long gap is not known", run: Run{Mode: Live}, devices: two, jobs: jobs,
			segments: []Segment{seg(0, SeriesGPU, 0, 2, 1), seg(0, SeriesGPU, 8, 10, 0)},
			want:     with(func(m *Metrics) { m.UtilizationMean, m.UtilizationPeak = known(0.5), known(1.0) }),
		},
		{
			name: "an unsupported device is left out", run: Run{Mode: Live}, devices: two, jobs: jobs,
			segments: []Segment{seg(0, SeriesGPU, 0, 10, 0.5), {Device: 1, Series: SeriesGPU, FirstS: 0, LastS: 10}},
			want:     with(func(m *Metrics) { m.UtilizationMean, m.UtilizationPeak = known(0.5), known(0.5) }),
		},
		{
			name: "kernel intervals overlap, and an idle device counts", run: Run{Mode: Live}, devices: two, jobs: jobs,
			kernels: []Kernel{
				{Device: 0, Grid: "1,1,1", StartS: 1, EndS: 3, BusyS: 2}, {Device: 0, Grid: "1,1,1", StartS: 2, EndS: 4, BusyS: 2},
				{Device: 0, Grid: "1,1,1", StartS: 2, EndS: 2.5, BusyS: 0.5}, {Device: 0, Grid: "1,1,1", StartS: 9, EndS: 99, BusyS: 90},
			},
			want: with(func(m *Metrics) { m.KernelUtilizationMean = known(0.2) }),
		},
		{
			name: "an aggregate that was not always busy", run: Run{Mode: Simulated}, devices: two[:1], jobs: jobs,
			kernels: []Kernel{{Device: 0, StartS: 1, EndS: 3, BusyS: 1}}, want: want,
		},
	} {
		got := Compute(c.run, c.devices, c.jobs, c.segments, residenceOf(c.kernels))
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestWithFigures(t *testing.T) {
	devices := []Device{{Index: 0, PeakUsedBytes: known(int64(5))}, {Index: 1}}
	jobs := []Job{ended(0, OK, 10, 0)}
	segments := []Segment{
		seg(1, SeriesGPU, 0, 5, 0.5), seg(1, SeriesGPU, 5, 10, 1),
		seg(1, SeriesMemory, 0, 5, 1<<30), seg(1, SeriesMemory, 5, 10, 1<<20),
	}
	kernels := []Kernel{{Device: 1, Grid: "1,1,1", StartS: 0, EndS: 4, BusyS: 4}}
	got := WithFigures(Run{Mode: Live}, devices, jobs, segments, residenceOf(kernels))
	want := []Device{
		{Index: 0, PeakUsedBytes: known(int64(5)), ResidentMean: known(0.0)},
		{Index: 1, PeakUsedBytes: known(int64(1 << 30)), UtilizationMean: known(0.75), UtilizationPeak: known(1.0), ResidentMean: known(0.4)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if devices[1].UtilizationMean != nil {
		t.Error("the argument was changed")
	}
}

func TestFinalStatus(t *testing.T) {
	ok, cancelled := Job{Outcome: known(OK)}, Job{Outcome: known(Cancelled)}
	for _, c := range []struct {
		name string
		jobs []Job
		want Status
	}{
		{"all ended", []Job{ok, {Outcome: known(Crash)}}, Complete},
		{"one cancelled", []Job{cancelled, ok}, Interrupted},
		{"one not started", []Job{{Outcome: known(NotStarted)}, ok}, Interrupted},
		{"one under way", []Job{cancelled, {}}, Running},
		{"one missing", []Job{ok}, Running},
	} {
		if got := FinalStatus(Run{Jobs: 2}, c.jobs); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestQuantileIsType7(t *testing.T) {
	for _, c := range []struct {
		values []float64
		p      float64
		want   float64
	}{
		{[]float64{3}, 0.95, 3},
		{[]float64{1, 2, 3, 4}, 0.5, 2.5},
		{[]float64{1, 2, 3, 4}, 0, 1},
		{[]float64{1, 2, 3, 4}, 1, 4},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.95, 9.55}, // R: quantile(1:10, 0.95)
	} {
		if got := Quantile(c.values, c.p); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.values, c.p, got, c.want)
		}
	}
}

type batch struct {
	run      Run
	devices  []Device
	jobs     []Job
	segments []Segment
	kernels  []Kernel
}

func (b batch) compute() Metrics {
	return Compute(b.run, b.devices, b.jobs, b.segments, residenceOf(b.kernels))
}

func batches() *rapid.Generator[batch] {
	return rapid.Custom(func(t *rapid.T) batch {
		b := batch{run: Run{Mode: Live}}
		at := rapid.Float64Range(0, 100)
		outcomes := Outcomes
		for i := range rapid.IntRange(0, 8).Draw(t, "jobs") {
			b.jobs = append(b.jobs, ended(i, rapid.SampledFrom(outcomes).Draw(t, "outcome"), at.Draw(t, "end"), at.Draw(t, "wait")))
		}
		for d := range rapid.IntRange(0, 3).Draw(t, "devices") {
			b.devices = append(b.devices, Device{Index: d})
			reached := rapid.Float64Range(-5, 5).Draw(t, "first")
			for range rapid.IntRange(0, 6).Draw(t, "segments") {
				s := seg(d, SeriesGPU, reached, reached+rapid.Float64Range(0, 20).Draw(t, "length"), rapid.Float64Range(0, 1).Draw(t, "value"))
				if rapid.IntRange(0, 5).Draw(t, "unknown") == 0 {
					s.Value = nil
				}
				b.segments = append(b.segments, s)
				reached = s.LastS + rapid.Float64Range(0.001, 3).Draw(t, "gap")
			}
			for range rapid.IntRange(0, 4).Draw(t, "kernels") {
				from := at.Draw(t, "start")
				b.kernels = append(b.kernels, Kernel{Device: d, Grid: "1,1,1", StartS: from, EndS: from + at.Draw(t, "length")})
			}
		}
		return b
	})
}

func TestMetricsAreOrdered(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		b := batches().Draw(t, "batch")
		m := b.compute()
		ratio := func(name string, v *float64) {
			if v != nil && !(*v >= 0 && *v <= 1+1e-12) {
				t.Fatalf("%s is %v", name, *v)
			}
		}
		ratio("mean utilization", m.UtilizationMean)
		ratio("peak utilization", m.UtilizationPeak)
		ratio("kernel utilization", m.KernelUtilizationMean)
		if m.UtilizationMean != nil && *m.UtilizationMean > *m.UtilizationPeak {
			t.Fatalf("mean utilization %v over peak %v", *m.UtilizationMean, *m.UtilizationPeak)
		}
		if m.OOM > m.Crashed || m.OK+m.Crashed+m.Cancelled+m.NotStarted != len(b.jobs) {
			t.Fatalf("counts %+v do not add up to %d jobs", m, len(b.jobs))
		}
		if m.ThroughputJobsPerS != nil && *m.ThroughputJobsPerS > *m.AttemptedJobsPerS {
			t.Fatalf("throughput %v over attempted %v", *m.ThroughputJobsPerS, *m.AttemptedJobsPerS)
		}
		if m.TurnaroundMeanS != nil && *m.TurnaroundP95S > *m.MakespanS {
			t.Fatalf("p95 turnaround %v over makespan %v", *m.TurnaroundP95S, *m.MakespanS)
		}
	})
}

func TestOrderOfRecordsDoesNotMatter(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		b := batches().Draw(t, "batch")
		want := b.compute()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(b.jobs), func(i, j int) { b.jobs[i], b.jobs[j] = b.jobs[j], b.jobs[i] })
		r.Shuffle(len(b.segments), func(i, j int) { b.segments[i], b.segments[j] = b.segments[j], b.segments[i] })
		r.Shuffle(len(b.kernels), func(i, j int) { b.kernels[i], b.kernels[j] = b.kernels[j], b.kernels[i] })
		if diff := cmp.Diff(want, b.compute()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestSplittingASegmentChangesNothing(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		b := batches().Draw(t, "batch")
		want := b.compute()
		var split []Segment
		for _, s := range b.segments {
			first, second := s, s
			first.LastS = s.FirstS + (s.LastS-s.FirstS)*rapid.Float64Range(0, 1).Draw(t, "at")
			second.FirstS = first.LastS
			split = append(split, second, first)
		}
		b.segments = split
		if diff := cmp.Diff(want, b.compute(), cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
			t.Fatal(diff)
		}
	})
}
