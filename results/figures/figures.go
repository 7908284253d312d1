// Package figures draws the figures of results/paper as SVG, PNG and PDF, ready for a paper:
// one column wide, with colours and hatches that tell arms apart in grey too, and with units. It is the only importer of gonum.org/v1/plot.
package figures

import (
	"bytes"
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"

	"github.com/caserun/caserun/results/paper"
)

// Format is a file format and the extension of its files.
type Format string

const (
	SVG Format = "svg"
	PNG Format = "png"
	PDF Format = "pdf"
)

// Formats lists the formats.
func Formats() []Format { return []Format{SVG, PNG, PDF} }

// Width is one column of a two-column paper.
const Width = 3.3 * vg.Inch

// DPI is the resolution of PNG files.
const DPI = 300

// canvas is what all three formats are drawn on.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

// Draw draws a figure. Equal figures give equal bytes as SVG and PNG, but not as PDF, because
// PDF files hold the time of day.
func Draw(f paper.Figure, format Format) ([]byte, error) {
	draws, height := drawing(f)
	if draws == nil {
		return nil, fmt.Errorf("draw %s: it has neither bars nor curves", f.ID)
	}
	var on canvas
	switch format {
	case SVG:
		on = newSVG(Width, height)
	case PNG:
		on = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(Width, height), vgimg.UseDPI(DPI))}
	case PDF:
		on = vgpdf.New(Width, height)
	default:
		return nil, fmt.Errorf("draw %s: format %q: want svg, png or pdf", f.ID, format)
	}
	sheet(on, f, draws)
	var out bytes.Buffer
	if _, err := on.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw %s as %s: %w", f.ID, format, err)
	}
	return out.Bytes(), nil
}

// Sizes of a figure in a page, where it is as wide as its box.
const (
	inlineWidth  = 5.4 * vg.Inch
	inlineHeight = 2.3 * vg.Inch
)

// Inline draws a figure of bars for a page, as an element whose marks have data attributes and titles.
func Inline(f paper.Figure) string {
	on := newSVG(inlineWidth, inlineHeight)
	sheet(on, f, func(c draw.Canvas) { drawBars(c, *f.Bars) })
	return on.inline("figure", f.Caption)
}

// Swatch is a small picture of an arm's style for a page.
func Swatch(arm int) string {
	on := newSVG(16, 9)
	c := draw.New(on)
	paint(arm)(&c, vg.Rectangle{Min: vg.Point{X: 0.5, Y: 0.5}, Max: vg.Point{X: 15.5, Y: 8.5}})
	return on.inline("swatch", "")
}

// sheet draws a figure on a canvas of its own. A figure of simulated runs says so over all of it, so that a part of
// the figure says it too.
func sheet(on vg.CanvasSizer, f paper.Figure, draws func(draw.Canvas)) {
	c := draw.New(on)
	c.FillPolygon(color.White, corners(c.Rectangle))
	draws(heading(draw.Crop(c, margin, -margin, margin, -margin), f.Title))
	if f.Simulated {
		style := label(draw.XCenter, draw.YCenter)
		style.Color, style.Font.Size, style.Rotation = watermark, min(c.Size().X/8, c.Size().Y/4), 0.25
		c.FillText(style, c.Center(), "SIMULATED")
	}
}

// drawing returns how a figure is drawn, and its height.
func drawing(f paper.Figure) (func(draw.Canvas), vg.Length) {
	switch {
	case f.Bars != nil && len(f.Bars.Groups) > 0:
		return func(c draw.Canvas) { drawBars(c, *f.Bars) }, 2.3 * vg.Inch
	case len(f.Curves) > 0:
		return func(c draw.Canvas) { drawCurves(c, f.Curves) }, vg.Length(0.5+0.85*float64(len(f.Curves))) * vg.Inch
	}
	return nil, 0
}

// heading writes a line and returns the canvas below it.
func heading(c draw.Canvas, line string) draw.Canvas {
	style := label(draw.XCenter, draw.YTop)
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y}, line)
	return draw.Crop(c, 0, 0, 0, -style.Height(line)-gap)
}

func corners(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
}
