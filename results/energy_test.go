package results

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sampled are segments of one sample each, of values at equal distances from 0.
func sampled(device int, series Series, everyS float64, values ...float64) []Segment {
	var out []Segment
	for i, v := range values {
		at := float64(i) * everyS
		out = append(out, Segment{Device: device, Series: series, FirstS: at, LastS: at, Samples: 1, Value: &v})
	}
	return out
}

// granted is a task of a job on a device.
func granted(job, seq, device int, from float64, to *float64) Task {
	return Task{Job: job, Seq: seq, Device: &device, GrantS: &from, ReleaseS: to}
}

func energyJob(index int, end float64, outcome Outcome) Job {
	return Job{Index: index, StartS: known(0.0), EndS: &end, Outcome: &outcome}
}

// Two devices of 100 W and 50 W for 10 s. Job 0 is alone on device 0 in [1, 3], and shares it
// with job 1 in [3, 5]. Job 1 is on device 1 in [6, 8]. Job 2 never got a task.
func TestEnergyIsDividedByResidency(t *testing.T) {
	segments := append(sampled(0, SeriesEnergy, 1, 5000, 5100, 5200, 5300, 5400, 5500, 5600, 5700, 5800, 5900, 6000, 6100),
		Segment{Device: 1, Series: SeriesPower, FirstS: 0.1, LastS: 9.9, Samples: 100, Value: known(50.0)})
	jobs := []Job{energyJob(0, 9, OK), energyJob(1, 10, OK), energyJob(2, 10, Crash)}
	tasks := []Task{
		granted(0, 0, 0, 1, known(4.0)), granted(0, 1, 0, 2, known(5.0)), // one job counts once
		granted(1, 0, 0, 3, known(5.0)), granted(1, 1, 1, 6, known(8.0)),
	}
	devices, jobs, e := WithEnergy(Run{Mode: Live}, []Device{{Index: 0}, {Index: 1}}, jobs, tasks, segments)
	near := cmpopts.EquateApprox(0, 1e-9)
	if diff := cmp.Diff([]Device{
		{Index: 0, EnergyJ: known(1000.0), IdleEnergyJ: known(600.0), EnergySource: known(EnergyCounter)},
		{Index: 1, EnergyJ: known(500.0), IdleEnergyJ: known(400.0), EnergySource: known(EnergyPower)},
	}, devices, near); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Energy{UsedJ: known(1500.0), IdleJ: known(1000.0), PerOK: known(750.0), Source: known(EnergyPower)}, e, near); diff != "" {
		t.Error(diff)
	}
	for i, want := range []float64{200 + 100, 100 + 100, 0} {
		if got := jobs[i].EnergyEstimateJ; got == nil || math.Abs(*got-want) > 1e-9 {
			t.Errorf("job %d has %v J, want %v", i, got, want)
		}
	}
}

// A job that is bound as a whole has its device from start to end.
func TestBoundJobsHoldTheirDevice(t *testing.T) {
	job := energyJob(0, 4, OK)
	job.StartS, job.Device = known(1.0), known(0)
	_, jobs, e := WithEnergy(Run{Mode: Live}, []Device{{}}, []Job{job}, nil, sampled(0, SeriesEnergy, 1, 0, 10, 20, 30, 40))
	if *jobs[0].EnergyEstimateJ != 30 || *e.IdleJ != 10 {
		t.Errorf("job %v J and idle %v J, want 30 and 10", *jobs[0].EnergyEstimateJ, *e.IdleJ)
	}
}

// A job of several devices has each of them from start to end, but for those where its tasks say when.
func TestJobsOfSeveralDevicesHoldEach(t *testing.T) {
	job := energyJob(0, 4, OK)
	job.StartS, job.Device, job.Devices = known(1.0), known(0), DeviceList([]int{0, 2})
	segments := append(sampled(0, SeriesEnergy, 1, 0, 10, 20, 30, 40), append(sampled(1, SeriesEnergy, 1, 0, 10, 20, 30, 40), sampled(2, SeriesEnergy, 1, 0, 100, 200, 300, 400)...)...)
	for _, c := range []struct {
		tasks []Task
		want  float64
	}{{nil, 330}, {[]Task{granted(0, 0, 0, 1, known(2.0))}, 310}} {
		_, jobs, _ := WithEnergy(Run{Mode: Live}, []Device{{}, {Index: 1}, {Index: 2}}, []Job{job}, c.tasks, segments)
		if *jobs[0].EnergyEstimateJ != c.want {
			t.Errorf("with tasks %+v: %v J, want %v", c.tasks, *jobs[0].EnergyEstimateJ, c.want)
		}
	}
}

// A task that was not released lasts until its job's end.
func TestTaskWithoutReleaseEndsWithItsJob(t *testing.T) {
	_, jobs, e := WithEnergy(Run{Mode: Live}, []Device{{}}, []Job{energyJob(0, 2, OK), energyJob(1, 4, OK)},
		[]Task{granted(0, 0, 0, 1, nil)}, sampled(0, SeriesEnergy, 1, 0, 10, 20, 30, 40))
	if *jobs[0].EnergyEstimateJ != 10 || *e.IdleJ != 30 {
		t.Errorf("job %v J and idle %v J, want 10 and 30", *jobs[0].EnergyEstimateJ, *e.IdleJ)
	}
}

func TestPowerIsIntegratedByTrapezoids(t *testing.T) {
	// 100 W rising to 200 W in 1 s, then 200 W: 150 + 200 J. The run ends between two samples.
	segments := sampled(0, SeriesPower, 0.5, 100, 150, 200, 200, 200, 900)
	_, _, e := WithEnergy(Run{Mode: Live}, []Device{{}}, []Job{energyJob(0, 2, OK)}, nil, segments)
	if e.UsedJ == nil || math.Abs(*e.UsedJ-350) > 1e-9 || *e.Source != EnergyPower {
		t.Errorf("%v J from %v, want 350 from power", e.UsedJ, e.Source)
	}
}

func TestUnknownEnergy(t *testing.T) {
	ends := []Job{energyJob(0, 4, OK)}
	ends[0].Device = known(0)
	whole := sampled(0, SeriesPower, 0.5, 9, 9, 9, 9, 9, 9, 9, 9, 9)
	for _, tt := range []struct {
		name     string
		run      Run
		jobs     []Job
		segments []Segment
		source   *EnergySource
	}{
		{"no meters", Run{Mode: Live}, ends, nil, known(EnergyNone)},
		{"a job without an end", Run{Mode: Live}, []Job{{StartS: known(0.0)}}, whole, known(EnergyNone)},
		{"a counter that falls", Run{Mode: Live}, ends, append(whole, sampled(0, SeriesEnergy, 1, 50, 60, 0, 10, 20)...), known(EnergyNone)},
		{"power that begins late", Run{Mode: Live}, ends, whole[1:], known(EnergyNone)},
		{"power that ends early", Run{Mode: Live}, ends, whole[:8], known(EnergyNone)},
		{"power with a gap", Run{Mode: Live}, ends, append(append([]Segment{}, whole[:3]...), whole[6:]...), known(EnergyNone)},
		{"simulated", Run{Mode: Simulated}, ends, whole, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			devices, jobs, e := WithEnergy(tt.run, []Device{{}}, tt.jobs, nil, tt.segments)
			if diff := cmp.Diff(Energy{Source: tt.source}, e); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(Device{EnergySource: tt.source}, devices[0]); diff != "" {
				t.Error(diff)
			}
			if jobs[0].EnergyEstimateJ != nil {
				t.Errorf("the job has %v J", *jobs[0].EnergyEstimateJ)
			}
		})
	}
}

// A counter that ends early, because its calls failed, leaves the power.
func TestPowerReplacesACounterThatFails(t *testing.T) {
	segments := append(sampled(0, SeriesEnergy, 1, 0, 10), sampled(0, SeriesPower, 1, 5, 5, 5, 5, 5)...)
	_, _, e := WithEnergy(Run{Mode: Live}, []Device{{}}, []Job{energyJob(0, 4, OK)}, nil, segments)
	if e.UsedJ == nil || *e.UsedJ != 20 || *e.Source != EnergyPower {
		t.Errorf("%v J from %v, want 20 from power", e.UsedJ, e.Source)
	}
}

// A counter that stands still over more than its refresh measures nothing. The power counts, if it was read all the time.
func TestCounterThatStandsStill(t *testing.T) {
	for _, tt := range []struct {
		name     string
		segments []Segment
		end      float64
		source   EnergySource
		joules   float64
	}{
		{"alone", sampled(0, SeriesEnergy, 1, 0, 0, 0), 2, EnergyNone, 0},
		{"beside power", append(sampled(0, SeriesEnergy, 1, 9, 9, 9), sampled(0, SeriesPower, 1, 100, 100, 100)...), 2, EnergyPower, 200},
		{"for less than its refresh", sampled(0, SeriesEnergy, 0.5, 9, 9), 0.5, EnergyCounter, 0},
		{"not", sampled(0, SeriesEnergy, 1, 9, 9, 10), 2, EnergyCounter, 1},
	} {
		_, _, e := WithEnergy(Run{Mode: Live}, []Device{{}}, []Job{energyJob(0, tt.end, OK)}, nil, tt.segments)
		if *e.Source != tt.source || (e.UsedJ == nil) != (tt.source == EnergyNone) || e.UsedJ != nil && *e.UsedJ != tt.joules {
			t.Errorf("%s: %v J from %v, want %v from %v", tt.name, e.UsedJ, *e.Source, tt.joules, tt.source)
		}
	}
	for _, s := range WithPower(sampled(0, SeriesEnergy, 1, 0, 0, 0)) {
		if s.Series == SeriesPower && s.Value != nil {
			t.Errorf("a power of %v W", *s.Value)
		}
	}
}

// One device without a meter makes the run's energy unknown, and no other device's.
func TestOneDeviceWithoutAMeter(t *testing.T) {
	jobs := []Job{energyJob(0, 2, OK), energyJob(1, 2, OK)}
	jobs[0].Device, jobs[1].Device = known(0), known(1)
	devices, jobs, e := WithEnergy(Run{Mode: Live}, []Device{{Index: 0}, {Index: 1}}, jobs, nil, sampled(0, SeriesEnergy, 1, 0, 7, 14))
	if *devices[0].EnergyJ != 14 || devices[1].EnergyJ != nil || e.UsedJ != nil || *e.Source != EnergyNone {
		t.Errorf("devices %+v, run %+v", devices, e)
	}
	if *jobs[0].EnergyEstimateJ != 14 || jobs[1].EnergyEstimateJ != nil {
		t.Errorf("jobs %v and %v, want 14 and none", *jobs[0].EnergyEstimateJ, jobs[1].EnergyEstimateJ)
	}
}

func TestCounterThatFallsIsAnEvent(t *testing.T) {
	segments := append(sampled(0, SeriesEnergy, 1, 1, 2, 3), sampled(1, SeriesEnergy, 1, 50, 60, 5, 1)...)
	got := CounterFalls(segments)
	if len(got) != 1 || got[0].Kind != EventEnergy || *got[0].Device != 1 || got[0].AtS != 2 || !strings.Contains(got[0].Detail, "60.00 J to 5.00 J") {
		t.Errorf("events %+v, want one of device 1 at 2 s", got)
	}
}

// A meter may begin a fiftieth of a long run late, which is then missing from its energy.
func TestLateMeterOfALongRun(t *testing.T) {
	late := func(first float64) []Segment {
		return []Segment{{Series: SeriesEnergy, FirstS: first, LastS: first, Samples: 1, Value: known(first * 10)}, {Series: SeriesEnergy, FirstS: 100, LastS: 100, Samples: 1, Value: known(1000.0)}}
	}
	for first, want := range map[float64]bool{1.9: true, 2.1: false} {
		_, _, e := WithEnergy(Run{Mode: Live}, []Device{{}}, []Job{energyJob(0, 100, OK)}, nil, late(first))
		if (e.UsedJ != nil) != want || want && *e.UsedJ != 981 {
			t.Errorf("first reading at %v s of 100: %v J, want known %t", first, e.UsedJ, want)
		}
	}
}

func TestPowerOfTheCounter(t *testing.T) {
	segments := append(sampled(0, SeriesEnergy, 2, 100, 300, 300, 150), sampled(1, SeriesEnergy, 1, 5, 6)...)
	segments = append(segments, sampled(1, SeriesPower, 1, 70, 80)...)
	segments = append(segments, sampled(2, SeriesEnergy, 0.25, 0, 0, 50, 50, 100, 100, 150)...)   // the counter is renewed every 0.5 s
	segments = append(segments, sampled(3, SeriesEnergy, 0.25, 10, 20, 0, 10, 20, 30, 40, 50)...) // it falls within a second
	// The last reading comes 20 ms after the one before, and the counter is not renewed in between.
	for at, j := range map[float64]float64{0: 0, 1: 110, 2: 220, 2.02: 220} {
		segments = append(segments, Segment{Device: 4, Series: SeriesEnergy, FirstS: at, LastS: at, Samples: 1, Value: &j})
	}
	segments = append(segments, sampled(5, SeriesEnergy, 0.25, 0, 0, 40)...) // a run of 0.5 s
	power := func(device int, from, to float64, watts *float64) Segment {
		return Segment{Device: device, Series: SeriesPower, FirstS: from, LastS: to, Samples: 1, Value: watts}
	}
	want := []Segment{
		power(0, 0, 2, known(100.0)), power(0, 2, 4, known(0.0)), power(0, 4, 6, nil),
		power(2, 0, 1.5, known(100.0)),
		power(3, 0, 0.25, nil), power(3, 0.25, 0.5, nil), power(3, 0.5, 1.75, known(40.0)),
		power(4, 0, 1, known(110.0)), power(4, 1, 2.02, known(110/1.02)),
		power(5, 0, 0.5, nil),
	}
	got := WithPower(segments)
	if diff := cmp.Diff(want, got[len(segments):]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(segments, got[:len(segments)]); diff != "" {
		t.Error(diff)
	}
}

// One reading of a counter says nothing of what was used since: other readings may have been refused.
func TestOneReadingIsNoMeasurement(t *testing.T) {
	value := 100.0
	meter, from := meterOf([]Segment{{Series: SeriesEnergy, FirstS: 0.1, LastS: 0.1, Samples: 1, Value: &value}}, 0.2)
	if from != EnergyNone || meter != nil {
		t.Errorf("%v from %s, want none", meter, from)
	}
}
