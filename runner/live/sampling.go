package live

import (
	"errors"
	"fmt"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/results"
)

var series = map[nvml.Kind]results.Series{
	nvml.GPUUtilization:         results.SeriesGPU,
	nvml.MemoryUtilization:      results.SeriesMemoryActivity,
	nvml.MemoryUsed:             results.SeriesMemory,
	nvml.BufferedGPUUtilization: results.SeriesGPUDriver,
	nvml.SMActivity:             results.SeriesGPM,
	nvml.Energy:                 results.SeriesEnergy,
	nvml.Power:                  results.SeriesPower,
}

// activityPeriod is the window of GPM's SM activity; windows under 100 ms read
// 0 (H200, driver 580).
const activityPeriod = 200 * time.Millisecond

// sample starts the sampler until unsample, which must follow every success.
func (n *node) sample(epoch time.Time) (err error) {
	n.epoch = epoch
	to := n.to
	lost := func(device int, err error) { n.lost <- Lost{device, err} }
	n.sampler, err = n.gpus.StartSampler(nvml.Config{Epoch: epoch, ActivityPeriod: activityPeriod, Lost: lost, Consume: func(g nvml.Segment) {
		to.Segment(results.Segment{Device: g.Device, Series: series[g.Kind], FirstS: g.First.Seconds(),
			LastS: g.Last.Seconds(), Samples: int64(g.Samples), Value: &g.Value})
	}})
	if err != nil {
		return fmt.Errorf("start sampler: %w", err)
	}
	return nil
}

// stopLimit bounds how long a driver call may keep the sampler from stopping.
const stopLimit = 5 * time.Second

// unsample stops the sampler, if one runs, and returns its figures. The devices get their
// refresh interval and their clocks of now.
func (n *node) unsample() (results.Sampler, error) {
	if n.sampler == nil {
		return results.Sampler{}, nil
	}
	st, err := n.sampler.Stop(stopLimit)
	n.sampler = nil
	found := doubts(st)
	if errors.Is(err, nvml.ErrHung) { // what was read before counts
		found, err = append(found, err.Error()+": what it would have read until the end is unknown"), nil
	}
	for _, detail := range found {
		n.to.Event(results.Event{AtS: time.Since(n.epoch).Seconds(), Kind: results.EventSampler, Detail: detail})
		n.Say("%s", detail)
	}
	for i, d := range st.Devices {
		if r := d.Series[nvml.GPUUtilization].Refresh; r != nil {
			n.devices[i].RefreshS = new(r.Seconds())
		}
	}
	for i := range n.devices {
		if d, e := n.gpus.Device(i); e == nil { // else the clocks stay unknown
			n.devices[i].SMClockEndHz, n.devices[i].ThrottleEnd = hertz(d.SMClockHz), reasons(d.EventReasons)
		}
	}
	return figures(st), err
}

// figures are what the store keeps of a sampler.
func figures(st nvml.Stats) results.Sampler {
	out := results.Sampler{PeriodS: new(st.Period.Seconds()), Samples: new(st.Ticks), MissedDeadlines: new(st.Missed),
		LongestGapS: new(st.LongestGap.Seconds()), CPUS: new(st.CPU.Seconds()), Errors: new(int64(0))}
	for _, d := range st.Devices {
		*out.Errors += d.Failures
		if d.FirstError != nil && out.FirstError == nil {
			out.FirstError = new(d.FirstError.Error())
		}
	}
	return out
}

// A sampler that takes this part of a core, and this long in all, is worth a word, because jobs lack what it takes. It takes 2.6 to 6 % for two H100s
// (docs/results/harness.md), and more in runs of less than a second, which begin and end with calls of some milliseconds.
const (
	costly     = 0.1
	costlyTime = time.Second
)

// doubts says why samples, or the times of the jobs beside them, are not what they should be.
func doubts(st nvml.Stats) []string {
	var out []string
	if f := figures(st); *f.Errors > 0 {
		out = append(out, fmt.Sprintf("%d readings of NVML failed, and what they would have said is unknown; the first: %s", *f.Errors, *f.FirstError))
	}
	if st.LostSamples > 0 {
		out = append(out, fmt.Sprintf("%d samples, in %d segments of all series, were taken and are lost: the store could not take them as fast", st.LostSamples, st.LostSegments))
	}
	if took := st.CPU.Seconds() / st.Elapsed.Seconds(); took > costly && st.CPU > costlyTime {
		out = append(out, fmt.Sprintf("the sampler took %.0f %% of a core, which the jobs could not use: compare their times with care", 100*took))
	}
	return out
}
