package figures

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	margin = vg.Length(3)
	gap    = vg.Length(4)
	points = vg.Length(7) // size of all text
	hair   = vg.Length(0.5)
)

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func label(x draw.XAlignment, y draw.YAlignment) text.Style {
	return text.Style{Color: color.Black, Font: font.From(sans, points), XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// newPlot returns an empty plot in the style of all figures.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.Label.TextStyle.Font = font.From(sans, points)
		axis.Tick.Label.Font = font.From(sans, points)
		axis.Tick.Length = 3
		axis.Tick.Marker = ticks{}
	}
	p.Title.TextStyle.Font = font.From(sans, points)
	p.Title.Padding = 1
	return p
}

// ticks is a plot.Ticker: gonum's ticks, with as many decimals as their values need (0.0, 0.5,
// 1.0 and 0, 25, 50).
type ticks struct{}

func (ticks) Ticks(low, high float64) []plot.Tick {
	out := plot.DefaultTicks{}.Ticks(low, high)
	decimals := 0
	for _, t := range out {
		if !t.IsMinor() {
			_, fraction, _ := strings.Cut(strconv.FormatFloat(math.Round(t.Value*1e6)/1e6, 'f', -1, 64), ".")
			decimals = max(decimals, len(fraction))
		}
	}
	for i := range out {
		if !out[i].IsMinor() {
			out[i].Label = strconv.FormatFloat(out[i].Value, 'f', decimals, 64)
		}
	}
	return out
}

// fill is how an area is filled, so that areas can be distinguished in print without colour.
type fill struct {
	grey   uint8
	hatch  vg.Length // distance of the lines over the grey; 0: no lines
	mirror bool      // the lines fall instead of rise
}

// fillOf returns a different fill for each of up to eight series. In every figure the first
// series, the baseline, is white and the last is dark.
func fillOf(i, n int) fill {
	between := []fill{{grey: 255, hatch: 3}, {grey: 200}, {grey: 200, hatch: 3, mirror: true},
		{grey: 150}, {grey: 255, hatch: 2, mirror: true}, {grey: 150, hatch: 2}}
	switch i {
	case 0:
		return fill{grey: 255}
	case n - 1:
		return fill{grey: 90}
	}
	return between[(i-1)%len(between)]
}

func (f fill) paint(c *draw.Canvas, r vg.Rectangle) {
	c.FillPolygon(color.Gray{Y: f.grey}, corners(r))
	line := draw.LineStyle{Color: color.Black, Width: hair}
	if f.hatch > 0 {
		w, h := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
		// Lines of 45 degrees, x - y = offset within the rectangle.
		for offset := -h + f.hatch; offset < w; offset += f.hatch {
			x0, x1 := vg.Length(math.Max(0, float64(offset))), vg.Length(math.Min(float64(w), float64(offset+h)))
			y0, y1 := x0-offset, x1-offset
			if f.mirror {
				y0, y1 = h-y0, h-y1
			}
			c.StrokeLine2(line, r.Min.X+x0, r.Min.Y+y0, r.Min.X+x1, r.Min.Y+y1)
		}
	}
	c.StrokeLines(line, append(corners(r), r.Min))
}

// entry is a legend's entry: a name and a drawn sample.
type entry struct {
	name   string
	sample func(*draw.Canvas, vg.Rectangle)
}

const (
	sampleWidth  = vg.Length(14)
	sampleHeight = vg.Length(6)
)

// legend writes entries in rows at the top and returns the canvas below.
func legend(c draw.Canvas, entries []entry) draw.Canvas {
	style := label(draw.XLeft, draw.YCenter)
	rowHeight := style.Height("Mg") + 2
	x, y := c.Min.X, c.Max.Y-rowHeight/2
	for _, e := range entries {
		width := sampleWidth + 3 + style.Width(e.name)
		if x > c.Min.X && x+width > c.Max.X {
			x, y = c.Min.X, y-rowHeight
		}
		e.sample(&c, vg.Rectangle{Min: vg.Point{X: x, Y: y - sampleHeight/2}, Max: vg.Point{X: x + sampleWidth, Y: y + sampleHeight/2}})
		c.FillText(style, vg.Point{X: x + sampleWidth + 3, Y: y}, e.name)
		x += width + 2*gap
	}
	return draw.Crop(c, 0, 0, 0, y-rowHeight/2-gap-c.Max.Y)
}

// niceTop returns a round number at or above v.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if m*unit >= v*(1-1e-12) {
			return m * unit
		}
	}
	return 10 * unit
}
