package paper

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/schedulers/policies"
)

// figure is a number of one run.
type figure struct {
	name   string // in messages
	higher bool   // is better; otherwise lower is
	of     func(results.Run) (*float64, error)
}

// in returns the figure of a run; a run without the figure is an error.
func (f figure) in(r results.Run) (float64, error) {
	v, err := f.of(r)
	switch {
	case errors.As(err, new(stuckRun)), errors.As(err, new(noRuns)):
		return 0, err
	case err != nil:
		return 0, fatal{err}
	case v == nil && r.Metrics.OK == 0:
		return 0, fmt.Errorf("run %d (%s under %s) has no %s (no job ended ok)", r.ID, r.Mix, results.NameOf(r), f.name)
	case v == nil:
		return 0, fmt.Errorf("run %d (%s under %s) has no %s", r.ID, r.Mix, results.NameOf(r), f.name)
	}
	return *v, nil
}

// kernelSlowdown is the figure that compares traced runs, and so is none of a single run.
const kernelSlowdown = "kernel_slowdown"

// figure finds a figure by its name: it is one of the paper's own, or a metric of results. job is whose time job_time is.
func (a *arms) figure(name, job string) figure {
	switch name {
	case "job_time":
		return figure{"time of " + job, false, func(r results.Run) (*float64, error) { return a.jobTime(r, job) }}
	case "job_spread":
		return figure{"longest and shortest job", false, a.jobSpread}
	case "time_of_all":
		return figure{"time in which all jobs ended ok", false, a.timeOfAll}
	case "stuck":
		return figure{"jobs", false, a.stuck}
	case "page_faults":
		return figure{"page faults", false, a.pageFaults}
	case "mean_utilization":
		return figure{"utilization", true, func(r results.Run) (*float64, error) { return meanUse(r), nil }}
	case "peak_utilization":
		return figure{"utilization", true, a.peak}
	case "memory_utilization":
		return figure{"memory in use", true, a.memory}
	}
	if of, known := qualities[name]; known {
		return figure{"quality of service", false, func(r results.Run) (*float64, error) { return a.quality(r, of) }}
	}
	if of, known := portionsFigure(name); known {
		return figure{"portion on a device", true, func(r results.Run) (*float64, error) {
			where, err := a.placed(r)
			if err != nil {
				return nil, err
			}
			return of(where), nil
		}}
	}
	m := results.MetricNamed(name)
	f := figure{m.Heading, m.HigherIsBetter, func(r results.Run) (*float64, error) { return m.Of(r), nil }}
	if f.name == "" {
		f.name = m.Name
	}
	return f
}

// meanUse is the mean utilization of a run. NVML's is the time in which a kernel was on the device, and that is what stands for it
// in a simulated run.
func meanUse(r results.Run) *float64 {
	if r.Mode == results.Simulated {
		return r.Metrics.KernelUtilizationMean
	}
	return r.Metrics.UtilizationMean
}

// nvmlS is the shortest time over which NVML's utilization is a mean (nvmlUtilization_t).
const nvmlS = 1.0 / 6

// peak is the peak of a run's utilization. In a simulated run it is that of means over nvmlS, as NVML would have it.
func (a *arms) peak(r results.Run) (*float64, error) {
	if r.Mode != results.Simulated || r.Metrics.MakespanS == nil {
		return r.Metrics.UtilizationPeak, nil
	}
	segments, err := a.node.Utilization(r)
	of, _ := series(r.Mode)
	levels := results.UtilizationWindows(segments, of, *r.Metrics.MakespanS, nvmlS)
	if err != nil || len(segments) == 0 || len(levels) == 0 {
		return nil, err
	}
	return new(slices.Max(levels)), nil
}

// memory is the mean of the memory that jobs had in use, as a share of what was for jobs. In a simulated run it is what tasks held; of a run
// whose memory moved to the host it is unknown.
func (a *arms) memory(r results.Run) (*float64, error) {
	if r.Metrics.MakespanS == nil || a.node.CapacityBytes == 0 {
		return nil, nil
	}
	if r.Mode == results.Simulated {
		if r.Metrics.Swapping.Swaps != nil {
			return nil, nil
		}
		tasks, err := a.node.Tasks(r.ID)
		if err != nil {
			return nil, err
		}
		return new(results.MeanBytes(tasks, *r.Metrics.MakespanS) / float64(a.node.CapacityBytes) / float64(a.node.Devices)), nil
	}
	segments, err := a.node.Utilization(r)
	if err != nil {
		return nil, err
	}
	var first *results.Segment // before jobs had memory
	for i, s := range segments {
		if s.Series == results.SeriesMemory && s.Value != nil && (first == nil || s.FirstS < first.FirstS) {
			first = &segments[i]
		}
	}
	if first == nil {
		return nil, nil
	}
	used := results.UtilizationWindows(segments, results.SeriesMemory, *r.Metrics.MakespanS, *r.Metrics.MakespanS)
	if len(used) == 0 || math.IsNaN(used[0]) {
		return nil, nil
	}
	return new((used[0] - *first.Value) / float64(a.node.CapacityBytes)), nil
}

// measure puts a value of the paper beside the same value computed from runs.
func (p *Paper) measure(v Value, a *arms) (Row, error) {
	row := Row{System: v.System, Workload: v.Workload, Scheduler: v.Scheduler, Metric: v.Metric, Unit: v.Unit, Source: v.Source, Published: v.Value}
	found, err := p.value(a, v.Workload, v.Scheduler, p.Metrics[v.Metric])
	var broken fatal
	switch {
	case errors.As(err, &broken):
		return row, broken.error
	case err != nil:
		row.Missing = err.Error()
	default:
		row.Node, row.Mode = a.node.Name, a.node.Mode
		row.Measured = new(summarize(found.values))
		row.LostMore = found.lostMore
		slices.Sort(found.runs)
		row.Runs = slices.Compact(found.runs)
	}
	return row, nil
}

// fatal is a read error, which a table must not hide as "not measured".
type fatal struct{ error }

// value computes a metric of a workload under a scheduler from the runs of a node.
func (p *Paper) value(a *arms, workload, scheduler string, m Metric) (samples, error) {
	switch {
	case m.Of == "":
		return samples{}, errors.New(m.Why)
	case a == nil:
		return samples{}, errNoNode
	}
	job := p.Workloads[workload].Job
	one := func(e entry) (samples, error) {
		if m.Of == stopOverhead {
			return a.stopOverhead(e.mix)
		}
		s, err := p.scheduler(cmp.Or(e.scheduler, scheduler), a.node.Devices)
		switch {
		case err != nil:
			return samples{}, err
		case m.Of == kernelSlowdown:
			return a.slowdown(e.mix, s)
		case m.Over == "":
			return a.of(e.mix, s, a.figure(m.Of, job))
		}
		base, err := p.scheduler(m.Over, a.node.Devices)
		if err != nil {
			return samples{}, err
		}
		return a.speedup(e.mix, a.baseOf(workload, e.mix), s, base, a.figure(m.Of, job), m.Slower)
	}
	take, known := takes[p.Workloads[workload].Take]
	if !known && m.Of == stopOverhead {
		return a.stopOverhead(workload)
	}
	if !known {
		return one(a.first(workload))
	}
	var all []samples
	for _, e := range a.entries(workload) { // all mixes must have the figure
		s, err := one(e)
		if err != nil {
			return samples{}, err
		}
		all = append(all, s)
	}
	return combine(all, take), nil
}

// takes are what a workload takes of its mixes, besides the first.
var takes = map[string]func([]float64) float64{"mean": stats.Mean, "geomean": geomean, "min": slices.Min[[]float64], "max": slices.Max[[]float64]}

// scheduler is the text of a scheduler with the parameters that it has here, if the paper gives none and the defaults are meant.
func (p *Paper) scheduler(text string, devices int) (string, error) {
	if !slices.Contains(p.Pinned, text) {
		return text, nil
	}
	s, err := policies.Parse(text, devices)
	return text + ":" + s.Parameters(), err
}

func geomean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}

// speedup divides a figure under one scheduler by the figure under another, there of a mix that may be another, so that more than 1 is better, or less if slower.
func (a *arms) speedup(mix, baseMix, scheduler, base string, f figure, slower bool) (samples, error) {
	above, below := [2]string{mix, scheduler}, [2]string{baseMix, base}
	if !f.higher && !slower {
		above, below = below, above
	}
	x, err := a.find(above[0], above[1], false)
	if err != nil {
		return samples{}, err
	}
	y, err := a.find(below[0], below[1], false)
	if err != nil {
		return samples{}, err
	}
	var out samples
	for _, pair := range matched(x, y) {
		over, err := f.in(pair[0])
		if err != nil {
			return samples{}, err
		}
		under, err := f.in(pair[1])
		if err != nil {
			return samples{}, err
		}
		if under == 0 {
			return samples{}, fmt.Errorf("run %d has 0, by which nothing can be divided", pair[1].ID)
		}
		out.add(over/under, pair[0].ID, pair[1].ID)
	}
	if len(out.values) == 0 {
		return samples{}, fmt.Errorf("no repetition of %s has both %s and %s", mix, above[1], below[1])
	}
	lost := regress.LostMore(y, [][]results.Run{x}, stats.DefaultAlpha)[0]
	out.lostMore = regress.Flatters(summarize(out.values).Median, f.higher, lost)
	return out, nil
}

// entry is a mix of a workload.
type entry struct {
	mix       string
	scheduler string // empty: the number's
}

// entries are what a workload is of.
func (p *Paper) entries(workload string) (out []entry) {
	for _, text := range p.Workloads[workload].Mixes {
		mix, scheduler, _ := strings.Cut(text, " under ")
		out = append(out, entry{mix, scheduler})
	}
	if out == nil {
		return []entry{{mix: workload}}
	}
	return out
}

// entries are those of the paper, with the ending of the node's system.
func (a *arms) entries(workload string) []entry {
	list := a.paper.entries(workload)
	for i := range list {
		list[i].mix += a.paper.system(a.node.System).Ending
	}
	return list
}

// baseOf is the mix with which a workload's mix is compared, with the ending of the node's system.
func (a *arms) baseOf(workload, mix string) string {
	if base := a.paper.Workloads[workload].Base; base != "" {
		return base + a.paper.system(a.node.System).Ending
	}
	return mix
}

// first is the first entry of a workload that has runs, under its own scheduler if it names one; the first of all if none has.
func (a *arms) first(workload string) entry {
	list := a.entries(workload)
	for _, e := range list {
		for key := range a.runs {
			if key.Mix == e.mix && !key.Traced && (e.scheduler == "" || key.Scheduler+":"+key.Parameters == e.scheduler) {
				return e
			}
		}
	}
	return list[0]
}

// Has reports whether a mix is one of the paper's.
func (p *Paper) Has(mix string) bool {
	if name, _ := p.parts(mix); slices.Contains(p.Alone, name) {
		return true
	}
	return slices.ContainsFunc(p.values, func(v Value) bool { return p.isOf(v.Workload, mix) })
}

func (p *Paper) isOf(workload, mix string) bool {
	name, _ := p.parts(mix)
	return p.Workloads[workload].Base == name || slices.ContainsFunc(p.entries(workload), func(e entry) bool { return e.mix == name })
}
