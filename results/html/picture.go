package html

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// Caption is what a picture says of all its runs.
type Caption struct {
	Title string
	Note  string // which runs these are
	Large string // what a job is whose class is large
	Small string
	Axis  string // under the time axis
}

// Pictured is a run in a picture.
type Pictured struct {
	results.Run
	Text string // what its scheduler does
	// Bound says that a job has its device from its start to its end. What remains of that time beside its tasks is
	// drawn pale, and Idle says in the legend what it is.
	Bound bool
	Idle  string
}

// Sizes of a picture, in pixels. The lanes of a device share its height.
const (
	pictureWidth  = 960
	pictureLeft   = 68 // of the time axis
	pictureRight  = 16
	pictureHead   = 84 // title, note and legend
	pictureFoot   = 48 // the time axis
	runHead       = 30
	deviceHeight  = 38
	devicePitch   = 43
	labelHeight   = 12 // of the lowest bar that has its job's number
	letterWidth   = 6.2
	legendSwatch  = 22
	legendSpacing = 20
)

// picture is what the template sees.
type picture struct {
	Caption
	Style         template.CSS
	Alt           string
	Width, Height int
	Left, Plot    int
	Foot          int // where the time axis is
	Legend        []swatch
	Ticks         []tick
	Panels        []panel
}

type swatch struct {
	Class    string
	X, TextX int
	Text     string
}

// panel is a run: its devices over the time axis of all runs.
type panel struct {
	Name, Text string
	Y, Height  int
	End        string // of the last job
	Devices    []pictureRow
}

type pictureRow struct {
	Name   string
	Y      int
	Height int
	Bars   []pictureBar
}

type pictureBar struct {
	bar
	Y, Height string
}

// Picture writes which jobs held the devices of a few runs, over one time axis, as an SVG of its own for a
// document. A browser shows it in its light or dark colours.
func Picture(ctx context.Context, w io.Writer, source Source, runs []Pictured, c Caption) error {
	p, err := newPicture(ctx, source, runs, c)
	if err == nil {
		err = page.ExecuteTemplate(w, "picture", p)
	}
	if err != nil {
		return fmt.Errorf("draw runs: %w", err)
	}
	return nil
}

func newPicture(ctx context.Context, source Source, runs []Pictured, c Caption) (picture, error) {
	var plain []results.Run
	for _, r := range runs {
		plain = append(plain, r.Run)
	}
	c.Title = simulated(plain).Prefix() + c.Title
	p := picture{Caption: c, Style: template.CSS(asset("palette.css") + asset("picture.css")), //nolint:gosec // our own files
		Width: pictureWidth, Left: pictureLeft, Plot: pictureWidth - pictureLeft - pictureRight}
	var all []records
	end := 0.0
	for _, run := range plain {
		one := records{run: run}
		var err error
		if one.jobs, err = source.Jobs(ctx, run.ID); err != nil {
			return p, err
		}
		if one.devices, err = source.Devices(ctx, run.ID); err != nil {
			return p, err
		}
		if one, err = load(ctx, source, one); err != nil {
			return p, err
		}
		all = append(all, one)
		end = max(end, horizon(one)*headroom)
	}
	p.Ticks = ticks(end, report.Seconds)
	y := pictureHead
	legend := []swatch{{Class: "large", Text: c.Large}, {Class: "small", Text: c.Small}}
	alt := []string{c.Title + "."}
	for i, r := range all {
		one := newPanel(r, runs[i], end, y)
		y += one.Height
		alt = append(alt, one.Name+", "+one.Text+".")
		p.Panels = append(p.Panels, one)
		if runs[i].Bound {
			legend = append(legend, swatch{Class: classHost, Text: runs[i].Idle})
		}
		if r.run.Metrics.Crashed > 0 {
			legend = append(legend, swatch{Class: classBad, Text: "job that failed"})
		}
	}
	p.Alt = strings.Join(alt, " ")
	p.Foot, p.Height = y, y+pictureFoot
	x := pictureLeft
	for _, s := range legend {
		if slices.ContainsFunc(p.Legend, func(t swatch) bool { return t.Class == s.Class }) {
			continue
		}
		s.X, s.TextX = x, x+legendSwatch+6
		x = s.TextX + int(letterWidth*float64(len(s.Text))) + legendSpacing
		p.Legend = append(p.Legend, s)
	}
	return p, nil
}

func newPanel(r records, of Pictured, end float64, y int) panel {
	t := newTimeline(r, end)
	last := horizon(r)
	p := panel{Name: line(r.run.Scheduler), Y: y, Height: runHead + devicePitch*len(t.Devices), End: percent(last, end)}
	p.Text = fmt.Sprintf("%d of %d jobs ended ok, the last after %s", r.run.Metrics.OK, r.run.Jobs, seconds(last))
	if of.Text != "" {
		p.Text = of.Text + ": " + p.Text
	}
	classes := map[int]string{}
	for _, j := range r.jobs {
		classes[j.Index] = classOf(j)
		if classes[j.Index] == classOK && (j.Class == "large" || j.Class == "small") {
			classes[j.Index] = j.Class
		}
	}
	lanes := 1
	for _, d := range t.Devices {
		lanes = max(lanes, len(d.Lanes))
	}
	height := float64(deviceHeight) / float64(lanes)
	for i, d := range t.Devices {
		row := pictureRow{Name: d.Name, Y: y + runHead + i*devicePitch, Height: deviceHeight}
		for _, j := range r.jobs {
			if of.Bound && j.StartS != nil && j.Has(r.devices[i].Index) {
				row.Bars = append(row.Bars, pictureBar{newBar(classHost, *j.StartS, orElse(j.EndS, end), end), percent(0, 1), percent(1, 1)})
			}
		}
		for lane, bars := range d.Lanes {
			for _, b := range bars {
				b.Class = classes[b.Job]
				if height < labelHeight {
					b.Label = ""
				}
				row.Bars = append(row.Bars, pictureBar{b, percent(float64(lane), float64(lanes)), percent(1, float64(lanes))})
			}
		}
		p.Devices = append(p.Devices, row)
	}
	return p
}
