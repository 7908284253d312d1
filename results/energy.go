package results

import (
	"cmp"
	"fmt"
	"slices"
)

// EnergySource says where a figure of energy comes from.
type EnergySource string

const (
	EnergyCounter EnergySource = "counter" // the device's own counter of energy
	EnergyPower   EnergySource = "power"   // the integral over samples of power
	EnergyNone    EnergySource = "none"    // the device has neither, or readings are missing
)

// Energy is what the devices of a run used in [0, makespan], in joules.
type Energy struct {
	UsedJ *float64 // sum over devices; nil if a device's energy is unknown
	// IdleJ is the part in which no job had a task on the device. It is an estimate, as the
	// jobs' shares are.
	IdleJ *float64
	PerOK *float64 // UsedJ / ok jobs
	// Source is EnergyPower if a device's energy is an integral, and EnergyNone if a device's
	// energy is unknown. It is nil if nothing was measured: in simulated runs.
	Source *EnergySource
}

// The first and the last reading of a device's meter stand for the beginning and the end of the
// run if they are at most so far from them: maxEdgeS, or of long runs maxEdgeShare of the run.
const (
	maxEdgeS     = 0.25
	maxEdgeShare = 0.02
)

// WithEnergy returns the devices and the jobs with their energy, and the energy of the run. A
// simulated run has none.
//
// The energy of a device in an interval of time is divided equally among the jobs that had a
// task on the device then. A job without a granted task counts from its start to its end on its
// device. These shares are estimates, because a device does not measure who uses its power.
func WithEnergy(run Run, devices []Device, jobs []Job, tasks []Task, segments []Segment) ([]Device, []Job, Energy) {
	devices, jobs = slices.Clone(devices), slices.Clone(jobs)
	var e Energy
	if run.Mode == Simulated || len(devices) == 0 {
		return devices, jobs, e
	}
	end := 0.0
	if last := lastEnd(jobs); last != nil {
		end = *last
	}
	shares := make([]float64, len(jobs))
	unknown := make([]bool, len(jobs)) // the job was on a device whose energy is unknown
	used, idle, source, ok := 0.0, 0.0, EnergyCounter, 0
	for i := range devices {
		d := &devices[i]
		meter, from := meterOf(ofDevice(segments, d.Index), end)
		d.EnergySource = &from
		held := residencies(d.Index, jobs, tasks, end)
		if from == EnergyNone {
			source = EnergyNone
			for j := range held {
				unknown[j] = true
			}
			continue
		}
		if from == EnergyPower && source == EnergyCounter {
			source = EnergyPower
		}
		d.EnergyJ = known(max(0, meter.at(end)-meter.at(0)))
		d.IdleEnergyJ = known(divide(meter, held, end, shares))
		used, idle = used+*d.EnergyJ, idle+*d.IdleEnergyJ
	}
	for i := range jobs {
		if jobs[i].EndedOK() {
			ok++
		}
		if started := jobs[i].StartS != nil; started && !unknown[i] && end > 0 {
			jobs[i].EnergyEstimateJ = &shares[i]
		}
	}
	e.Source = &source
	if source == EnergyNone {
		return devices, jobs, e
	}
	e.UsedJ, e.IdleJ = &used, &idle
	if ok > 0 {
		e.PerOK = known(used / float64(ok))
	}
	return devices, jobs, e
}

// reading is a sample of a series. It holds if the samples between it and the reading before
// have the same value.
type reading struct {
	atS, value float64
	holds      bool
}

// meter has the joules used until an instant, in the order of time. They do not fall.
type meter []reading

// at interpolates linearly between readings. Before the first and after the last reading the
// device seems to use nothing.
func (m meter) at(s float64) float64 {
	i, _ := slices.BinarySearchFunc(m, s, func(r reading, s float64) int { return cmp.Compare(r.atS, s) })
	switch {
	case i == 0:
		return m[0].value
	case i == len(m):
		return m[i-1].value
	}
	a, b := m[i-1], m[i]
	return a.value + (b.value-a.value)*(s-a.atS)/(b.atS-a.atS)
}

// counterRefreshS is more than the time between two refreshes of an energy counter.
const counterRefreshS = 1.0

// still reports whether a counter did not move in a time in which every counter does. It measures nothing then: a GPU always draws power.
func still(counter []reading) bool {
	last := len(counter) - 1
	return last > 0 && counter[last].value == counter[0].value && counter[last].atS-counter[0].atS > counterRefreshS
}

// meterOf returns the meter of one device for [0, end]. The counter comes before the power. The
// power does not replace a counter that fell: a driver that is loaded again during the run leaves
// no measurement.
func meterOf(segments []Segment, end float64) (meter, EnergySource) {
	counter := readings(segments, SeriesEnergy)
	switch {
	case fall(counter) > 0:
		return nil, EnergyNone
	case len(counter) > 1 && spansRun(counter, end) && !still(counter): // one reading tells no difference
		return counter, EnergyCounter
	}
	power := readings(segments, SeriesPower)
	if !spansRun(power, end) {
		return nil, EnergyNone
	}
	// The trapezoidal rule, with the first and the last power up to the edges of the run.
	first, last := power[0], power[len(power)-1]
	power = append(power, reading{atS: max(end, last.atS), value: last.value})
	before := reading{atS: min(0, first.atS), value: first.value}
	m := meter{{atS: before.atS}}
	joules := 0.0
	for _, p := range power {
		gap := p.atS - before.atS
		if gap > LongestHoldS && !p.holds {
			return nil, EnergyNone
		}
		joules += gap * (before.value + p.value) / 2
		m = append(m, reading{atS: p.atS, value: joules})
		before = p
	}
	return m, EnergyPower
}

// readings returns the first and the last sample of each segment of one series, in the order of
// time.
func readings(segments []Segment, series Series) []reading {
	var out []reading
	for _, s := range segments {
		if s.Series != series || s.Value == nil {
			continue
		}
		out = append(out, reading{atS: s.FirstS, value: *s.Value})
		if s.LastS > s.FirstS {
			out = append(out, reading{atS: s.LastS, value: *s.Value, holds: true})
		}
	}
	slices.SortStableFunc(out, func(a, b reading) int { return cmp.Compare(a.atS, b.atS) })
	return out
}

// fall returns the position of the first reading that is below the reading before; 0 if there is
// none.
func fall(r []reading) int {
	for i := 1; i < len(r); i++ {
		if r[i].value < r[i-1].value {
			return i
		}
	}
	return 0
}

// spansRun reports whether the readings reach from the beginning to the end of a run that has
// a length.
func spansRun(r []reading, end float64) bool {
	edge := max(maxEdgeS, maxEdgeShare*end)
	return len(r) > 0 && end > 0 && r[0].atS <= edge && r[len(r)-1].atS >= end-edge
}

// residencies returns by position in jobs when the job was on the device: sorted intervals that
// do not overlap.
func residencies(device int, jobs []Job, tasks []Task, end float64) map[int][][2]float64 {
	out := map[int][][2]float64{}
	tasked := map[int]bool{}
	at := map[int]int{}
	for i, j := range jobs {
		at[j.Index] = i
	}
	add := func(i int, from, to *float64) {
		if from == nil {
			return
		}
		last := end
		if to != nil {
			last = min(*to, end)
		}
		if first := max(*from, 0); first < last {
			out[i] = append(out[i], [2]float64{first, last})
		}
	}
	for _, t := range tasks {
		i, found := at[t.Job]
		if !found || t.Device == nil || t.GrantS == nil {
			continue
		}
		tasked[i] = true
		if *t.Device == device {
			release := t.ReleaseS
			if release == nil {
				release = jobs[i].EndS
			}
			add(i, t.GrantS, release)
		}
	}
	for i, j := range jobs {
		if j.HeldWhole(device, tasked[i], len(out[i]) > 0) {
			add(i, j.StartS, j.EndS)
		}
	}
	for i, own := range out {
		slices.SortFunc(own, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
		merged := own[:1]
		for _, x := range own[1:] {
			if last := &merged[len(merged)-1]; x[0] <= last[1] {
				last[1] = max(last[1], x[1])
			} else {
				merged = append(merged, x)
			}
		}
		out[i] = merged
	}
	return out
}

// divide adds to shares, by position in jobs, what each resident job used of the device's
// energy in [0, end], and returns what was used while no job was resident.
func divide(m meter, held map[int][][2]float64, end float64, shares []float64) (idle float64) {
	instants := []float64{0, end}
	for _, own := range held {
		for _, x := range own {
			instants = append(instants, x[0], x[1])
		}
	}
	slices.Sort(instants)
	instants = slices.Compact(instants)
	cursor := map[int]int{}
	for k := range len(instants) - 1 {
		from, to := instants[k], instants[k+1]
		joules := max(0, m.at(to)-m.at(from)) // interpolation may round to less than nothing
		var resident []int
		for i, own := range held {
			for cursor[i] < len(own) && own[cursor[i]][1] <= from {
				cursor[i]++
			}
			if c := cursor[i]; c < len(own) && own[c][0] <= from {
				resident = append(resident, i)
			}
		}
		if len(resident) == 0 {
			idle += joules
		}
		for _, i := range resident {
			shares[i] += joules / float64(len(resident))
		}
	}
	return idle
}

// powerWindowS is the least time over which a counter gives the power. Drivers renew their counters about every 100 ms, so readings that
// are as close show no power and twice the power in turn. nvmlDeviceGetPowerUsage is a mean over 1 s, too.
const powerWindowS = 1.0

// WithPower returns the segments, and for devices whose power was not sampled what their energy counter says of it: means over powerWindowS
// or more, and unknown where the counter fell or did not run for so long.
func WithPower(segments []Segment) []Segment {
	out := slices.Clip(segments)
	for _, device := range deviceIndexes(segments, SeriesEnergy) {
		own := ofDevice(segments, device)
		if len(readings(own, SeriesPower)) > 0 {
			continue
		}
		counter := readings(own, SeriesEnergy)
		add := func(from, to reading, watts *float64) {
			out = append(out, Segment{Device: device, Series: SeriesPower, FirstS: from.atS, LastS: to.atS, Samples: 1, Value: watts})
		}
		if still(counter) {
			add(counter[0], counter[len(counter)-1], nil)
			continue
		}
		for len(counter) > 1 {
			rises := len(counter) // so many readings, before the counter falls
			if i := fall(counter); i > 0 {
				rises = i
			}
			last := counter[rises-1]
			for from, i := 0, 1; i < rises; i++ {
				a, b := counter[from], counter[i]
				switch {
				case i+1 < rises && (b.atS-a.atS < powerWindowS || last.atS-b.atS < powerWindowS): // what remains would be too short
				case b.atS-a.atS < powerWindowS:
					add(a, b, nil)
				default:
					add(a, b, known((b.value-a.value)/(b.atS-a.atS)))
					from = i
				}
			}
			if rises < len(counter) {
				add(last, counter[rises], nil)
			}
			counter = counter[rises:]
		}
	}
	return out
}

// CounterFalls returns an event for each device whose energy counter fell during the run.
func CounterFalls(segments []Segment) []Event {
	var out []Event
	for _, device := range deviceIndexes(segments, SeriesEnergy) {
		r := readings(ofDevice(segments, device), SeriesEnergy)
		if i := fall(r); i > 0 {
			out = append(out, Event{AtS: r[i].atS, Kind: EventEnergy, Device: &device, Detail: fmt.Sprintf(
				"the energy counter fell from %.2f J to %.2f J, as if the driver was loaded again: the device's energy is unknown",
				r[i-1].value, r[i].value)})
		}
	}
	return out
}
