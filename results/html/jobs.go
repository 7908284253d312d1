package html

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers/policies"
)

// jobsFigure shows which jobs held the devices of several runs, one below the other over one time axis.
type jobsFigure struct {
	Title     string
	Note      string // which runs these are
	Alt       string
	Simulated bool
	Height    int
	Left      int     // where the plot begins, in percent of the width
	Plot      int     // its width
	End       float64 // of the axis, in seconds
	Ticks     []tick
	Panels    []panel
	Crashed   bool // some job did, which the legend explains
	Bound     bool // some scheduler gives a job its device for its whole life
}

// panel is a run.
type panel struct {
	Arm     armName
	Fill    string // its colour, for a picture without the page's style
	Text    string
	Crashed string // jobs that crashed; empty: no job did
	Y       int
	Head    int // height of the text above the lanes
	Height  int
	End     string // of the last job
	Waiting waitingLane
	Devices []deviceLane
	All     string // names all devices, if the lanes are too low for names
	AllY    int
}

// waitingLane shows how many jobs waited.
type waitingLane struct {
	Y, Height int
	Area      string // SVG path data
	Text      string
}

type deviceLane struct {
	Name      string // empty where the lane is too low for it
	Y, Height int
	Held      []bar // jobs that keep the device from others
	Bars      []laneBar
	Shared    bool // bars lie over one another, because the lane is too low for them side by side
}

// laneBar is a bar with its place in its lane. Jobs that share a device share the lane's height.
type laneBar struct {
	bar
	Y, Height string
	Cross     string // where the job crashed; empty: it did not
}

// Sizes of a figure, in pixels.
const (
	figureHeight = 520 // of all panels together, unless their lanes would be too low
	panelHead    = 19
	panelGap     = 7
	lowestLane   = 5
	lowestBar    = 3
	highestLane  = 26
	labelHeight  = 11 // of the lowest lane that has its name, and of the lowest bar that has its job's number
	axisHeight   = 34
	pictureHead  = 82 // of a picture of its own: title, note and legend
)

// pictured is a run of a figure.
type pictured struct {
	records
	arm    armName
	before string // what its scheduler does; may be empty
	ratio  string // of its headline to the base's, as "throughput 1.98×"; empty: there is none
}

// newJobsFigure draws the runs; nil if no time is known of them. wide is of a figure as wide as the page.
func newJobsFigure(title string, runs []pictured, wide bool) *jobsFigure {
	f := &jobsFigure{Title: title, Left: 9, Simulated: runs[0].run.Mode == results.Simulated}
	if wide {
		f.Left = 5
	}
	if slices.ContainsFunc(runs, func(r pictured) bool { return results.OnSeveralNodes(r.devices) }) {
		f.Left += 4 // for longer names of devices
	}
	f.Plot = 100 - f.Left
	end, devices := 0.0, 1
	for _, r := range runs {
		end, devices = max(end, horizon(r.records)*headroom), max(devices, len(r.devices))
	}
	if end <= 0 {
		return nil
	}
	f.End = end
	f.Ticks = ticks(end, report.Seconds)
	each := figureHeight/len(runs) - panelHead - panelGap
	waiting := min(max(each/5, 7), highestLane)
	lane := min(max((each-waiting)/devices, lowestLane), highestLane)
	if f.Alt = title + ":"; f.Simulated {
		f.Alt = "SIMULATED " + f.Alt
	}
	y := 0
	for _, r := range runs {
		p := newPanel(r, end, y, waiting, lane)
		f.Crashed, f.Bound = f.Crashed || p.Crashed != "", f.Bound || bound(r.run)
		f.Alt += fmt.Sprintf(" %s, %s %s.", p.Arm.Text, p.Text, p.Crashed)
		f.Panels = append(f.Panels, p)
		y += p.Height + panelGap
	}
	f.Height = y + axisHeight
	return f
}

// bound reports whether the run's scheduler gives a job its device before the job starts.
func bound(r results.Run) bool {
	info, err := policies.Lookup(r.Scheduler)
	return err == nil && info.Binds == policies.BindsJob
}

func newPanel(r pictured, end float64, y, waiting, lane int) panel {
	last := horizon(r.records)
	p := panel{Arm: r.arm, Fill: figures.Hex(r.arm.Index), Y: y, Head: panelHead, End: percent(last, end),
		Text: fmt.Sprintf("%d of %d ok after %s", r.run.Metrics.OK, r.run.Jobs, seconds(last))}
	if r.before != "" {
		p.Text = r.before + ": " + p.Text
	}
	if r.ratio != "" {
		p.Text += ", " + r.ratio
	}
	if n := r.run.Metrics.Crashed; n > 0 {
		p.Crashed = fmt.Sprintf("✕ %d crashed", n)
	}
	tasks := tasksOf(r.records)
	p.Waiting = newWaiting(r.records, tasks, end)
	p.Waiting.Y, p.Waiting.Height = panelHead, waiting
	at, n := panelHead+waiting+1, len(r.devices)
	p.Devices = deviceLanes(r.records, tasks, end, at, lane)
	p.Height = at + n*lane
	if n > 0 && lane < labelHeight && n*lane >= labelHeight {
		p.All, p.AllY = fmt.Sprintf("GPU %d to %d", r.devices[0].Index, r.devices[n-1].Index), p.Height-n*lane/2+4
	}
	return p
}

// deviceLanes are the lanes of a run's devices, from y down.
func deviceLanes(r records, tasks map[int][]results.Task, end float64, y, lane int) []deviceLane {
	held, jobs := map[int][]hold{}, map[int]results.Job{}
	for _, j := range r.jobs {
		jobs[j.Index] = j
		for _, h := range holdsOf(j, tasks[j.Index], end) {
			held[h.device] = append(held[h.device], h)
		}
	}
	packed, most := make([][][]hold, len(r.devices)), 1
	for i, d := range r.devices {
		packed[i] = lanes(held[d.Index])
		most = max(most, len(packed[i]))
	}
	var out []deviceLane
	for i, d := range r.devices {
		l := deviceLane{Y: y + i*lane, Height: lane - 1, Held: boundBars(r, d.Index, end), Shared: lane < lowestBar*most}
		if lane >= labelHeight {
			l.Name = results.DeviceTitle(r.devices, d)
		}
		for n, of := range packed[i] {
			y, height := percent(float64(n), float64(most)), percent(1, float64(most))
			if l.Shared {
				y, height = "0%", "100%"
			}
			for _, h := range of {
				b := newLaneBar(jobs[h.job], h, end)
				b.Y, b.Height = y, height
				if lane/most < labelHeight {
					b.Label = ""
				}
				l.Bars = append(l.Bars, b)
			}
		}
		out = append(out, l)
	}
	return out
}

// boundBars are the bars of jobs that keep a device from others, because the scheduler gives it to them before they start.
func boundBars(r records, device int, end float64) (out []bar) {
	if !bound(r.run) {
		return nil
	}
	for _, j := range r.jobs {
		if j.StartS != nil && j.Has(device) {
			out = append(out, newBar("", *j.StartS, orElse(j.EndS, end), end))
		}
	}
	return out
}

// newLaneBar is the bar of a job that held a device. It has a cross where the job crashed.
func newLaneBar(j results.Job, h hold, end float64) laneBar {
	b := laneBar{bar: holdBar(j, h, end)}
	if b.Class == classBad && h.to >= orElse(j.EndS, end)-end*resolution {
		b.Cross = percent(h.to, end)
	}
	return b
}

// holdBar is the bar of a job that held a device.
func holdBar(j results.Job, h hold, end float64) bar {
	b := newBar(classOf(j), h.from, h.to, end)
	b.Job = j.Index
	b.Text = jobText(j, h)
	if (h.to-h.from)/end > 0.06 {
		b.Label = fmt.Sprint(j.Index)
	}
	return b
}

// jobText is a line of text for each thing that a job's bar says of it.
func jobText(j results.Job, h hold) string {
	outcome := "no outcome yet"
	if j.Outcome != nil {
		outcome = line(string(*j.Outcome))
	}
	lines := []string{fmt.Sprintf("job %d %s: %s", j.Index, line(j.Name), outcome), fmt.Sprintf("GPU %d from %s to %s", h.device, seconds(h.from), seconds(h.to))}
	var times, memory []string
	for _, t := range []struct {
		what string
		s    *float64
	}{{"arrived at", j.ArrivalS}, {"waited", j.WaitS}, {"started at", j.StartS}, {"ended at", j.EndS}} {
		if t.s != nil {
			times = append(times, t.what+" "+seconds(*t.s))
		}
	}
	for _, m := range []struct {
		what  string
		bytes *int64
	}{{"declares", j.FootprintBytes}, {"used", j.UsedBytes}} {
		if m.bytes != nil {
			memory = append(memory, m.what+" "+report.Human(float64(*m.bytes), report.Bytes))
		}
	}
	for _, texts := range [][]string{times, memory} {
		if len(texts) > 0 {
			lines = append(lines, strings.Join(texts, ", "))
		}
	}
	return strings.Join(lines, "\n")
}

// span is an interval of time.
type span struct{ from, to float64 }

// waits are the times in which a job waited: to be started, and then for grants of its tasks.
func waits(j results.Job, tasks []results.Task, end float64) (out []span) {
	arrived, started := orElse(j.ArrivalS, 0), orElse(j.StartS, orElse(j.EndS, end))
	if started-arrived > end*resolution {
		out = append(out, span{arrived, started})
	}
	reached := 0.0
	for _, k := range tasks {
		to := orElse(k.GrantS, orElse(j.EndS, end))
		if k.Refusal != nil || to-k.SubmitS < end*resolution || k.SubmitS < reached {
			continue
		}
		out = append(out, span{k.SubmitS, to})
		reached = to
	}
	return out
}

// newWaiting counts the jobs that waited at each time.
func newWaiting(r records, tasks map[int][]results.Task, end float64) waitingLane {
	type change struct {
		at float64
		by int
	}
	var changes []change
	for _, j := range r.jobs {
		for _, w := range waits(j, tasks[j.Index], end) {
			changes = append(changes, change{w.from, 1}, change{min(w.to, end), -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), b.by-a.by) })
	var points []point
	n, most := 0, 0
	for _, c := range changes {
		points = append(points, point{c.at, float64(n), len(points) == 0}, point{c.at, float64(n + c.by), false})
		n += c.by
		most = max(most, n)
	}
	out := waitingLane{Text: fmt.Sprintf("%d of %d jobs waited at once, at most", most, len(r.jobs))}
	if w := r.run.Metrics.WaitMeanS; w != nil {
		out.Text += "; mean wait " + seconds(*w)
	}
	if most > 0 {
		_, out.Area = paths(points, end, float64(len(r.jobs)))
	}
	return out
}

// lanes packs holds into lanes, each into the first lane that is free.
func lanes(holds []hold) [][]hold {
	sorted := slices.Clone(holds)
	slices.SortStableFunc(sorted, func(a, b hold) int { return cmp.Or(cmp.Compare(a.from, b.from), a.job-b.job) })
	var out [][]hold
	for _, h := range sorted {
		at := slices.IndexFunc(out, func(lane []hold) bool { return lane[len(lane)-1].to <= h.from })
		if at < 0 {
			at, out = len(out), append(out, nil)
		}
		out[at] = append(out[at], h)
	}
	return out
}

// Pictured is a run in a picture.
type Pictured struct {
	results.Run
	Text string // what its scheduler does
}

// Picture writes jobs of a few runs over time as an SVG of its own for a document. A browser shows it in its light or
// dark colours.
func Picture(ctx context.Context, w io.Writer, source Source, runs []Pictured, title, note string) error {
	var drawn []pictured
	for i, r := range runs {
		one := records{run: r.Run}
		var err error
		if one.jobs, err = source.Jobs(ctx, r.ID); err == nil {
			one.devices, err = source.Devices(ctx, r.ID)
		}
		if err == nil {
			one.tasks, err = source.Tasks(ctx, r.ID)
		}
		if err != nil {
			return fmt.Errorf("draw runs: %w", err)
		}
		drawn = append(drawn, pictured{records: one, arm: armName{i, line(r.Scheduler), fullName(results.ArmOf(r.Run))}, before: r.Text})
	}
	f := newJobsFigure(title, drawn, true)
	if f == nil {
		return fmt.Errorf("draw runs: no time is known of them")
	}
	f.Note = note
	err := page.ExecuteTemplate(w, "picture", struct {
		*jobsFigure
		Total int
		Style template.CSS
	}{f, f.Height + pictureHead + 6, template.CSS(asset("palette.css") + asset("figure.css") + armColours())}) //nolint:gosec // our own text
	if err != nil {
		return fmt.Errorf("draw runs: %w", err)
	}
	return nil
}
