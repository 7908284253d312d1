package figures

import (
	"fmt"
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

// shade is a colour with the name of its class, by which a page shows it in its light or its dark colours.
type shade struct {
	color.NRGBA
	class string
}

// Colours of what is not an arm. Whoever draws in color.Black and color.White means ink and paper.
var (
	ink       = shade{color.NRGBA{A: 255}, "ink"}
	paperish  = shade{color.NRGBA{R: 255, G: 255, B: 255, A: 255}, "paper"}
	area      = shade{color.NRGBA{R: 190, G: 190, B: 190, A: 255}, "area"}
	hatchLine = shade{color.NRGBA{R: 255, G: 255, B: 255, A: 190}, "paper"}
	watermark = shade{color.NRGBA{R: 107, G: 63, B: 196, A: 40}, "watermark"}
)

// palette are the colours of arms, which the colour-blind tell apart (those of Okabe and Ito, and of Tol). The first is
// the base's. Red is left for crashes.
var palette = []color.NRGBA{
	{140, 149, 159, 255}, // grey
	{0, 114, 178, 255},   // blue
	{230, 159, 0, 255},   // orange
	{0, 158, 115, 255},   // green
	{136, 34, 85, 255},   // wine
	{136, 204, 238, 255}, // sky
	{221, 204, 119, 255}, // sand
	{122, 75, 42, 255},   // brown
}

// paletteDark are the same for dark pages, where some are lighter.
var paletteDark = []color.NRGBA{
	{140, 149, 159, 255}, // grey
	{74, 139, 235, 255},  // blue
	{230, 159, 0, 255},   // orange
	{0, 158, 115, 255},   // green
	{200, 90, 180, 255},  // wine
	{136, 204, 238, 255}, // sky
	{221, 204, 119, 255}, // sand
	{158, 98, 58, 255},   // brown
}

// hatches are the lines over a colour, so that arms can be told apart in print without colours.
var hatches = []struct {
	distance   vg.Length
	directions []vg.Point // from the lower left corner
}{
	{},
	{4, []vg.Point{{X: 1, Y: 1}}},
	{4, []vg.Point{{X: 1, Y: -1}}},
	{3, []vg.Point{{X: 1}}},
	{5, []vg.Point{{X: 1, Y: 1}, {X: 1, Y: -1}}},
	{3, []vg.Point{{Y: 1}}},
	{2.2, []vg.Point{{X: 1, Y: 1}}},
	{3.5, []vg.Point{{X: 1}, {Y: 1}}},
}

// Styles is the number of arms that look different. The next looks like the first.
const Styles = 24

// colour returns the colour of an arm by its number.
func colour(arm int) shade {
	arm %= Styles
	return shade{palette[arm%len(palette)], Class(arm)}
}

// Class is the class of what has the colour of an arm.
func Class(arm int) string { return "arm" + strconv.Itoa(arm%Styles) }

// Hex is an arm's colour as "#0072b2". HexDark is for dark pages.
func Hex(arm int) string     { return hex(colour(arm).NRGBA) }
func HexDark(arm int) string { return hex(paletteDark[arm%Styles%len(paletteDark)]) }

func hex(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// paint fills a rectangle in the style of an arm.
func paint(arm int) func(*draw.Canvas, vg.Rectangle) {
	arm %= Styles
	hatch := hatches[(arm+arm/len(palette)*3)%len(hatches)]
	return func(c *draw.Canvas, r vg.Rectangle) {
		c.FillPolygon(colour(arm), corners(r))
		var lines vg.Path
		for _, d := range hatch.directions {
			lines = append(lines, hatchLines(r, d, hatch.distance)...)
		}
		if len(lines) > 0 {
			c.SetColor(hatchLine)
			c.SetLineWidth(0.6)
			c.Stroke(lines)
		}
		c.StrokeLines(draw.LineStyle{Color: ink, Width: 0.3}, append(corners(r), r.Min))
	}
}

// hatchLines are lines of one direction within a rectangle.
func hatchLines(r vg.Rectangle, direction vg.Point, distance vg.Length) (out vg.Path) {
	w, h := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	line := func(x0, y0, x1, y1 vg.Length) {
		out.Move(vg.Point{X: r.Min.X + x0, Y: r.Min.Y + y0})
		out.Line(vg.Point{X: r.Min.X + x1, Y: r.Min.Y + y1})
	}
	switch {
	case direction.Y == 0:
		for y := distance; y < h; y += distance {
			line(0, y, w, y)
		}
	case direction.X == 0:
		for x := distance; x < w; x += distance {
			line(x, 0, x, h)
		}
	default: // lines of 45 degrees, x - y = offset within the rectangle
		for offset := -h + distance; offset < w; offset += distance {
			x0, x1 := max(0, offset), min(w, offset+h)
			y0, y1 := x0-offset, x1-offset
			if direction.Y < 0 {
				y0, y1 = h-y0, h-y1
			}
			line(x0, y0, x1, y1)
		}
	}
	return out
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
