package figures

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/stats"
)

// groupWidth is the fraction of a group's width that its bars take.
const groupWidth = 0.8

// mostLetters is how many letters all groups' names may have to stand side by side.
const mostLetters = 48

// lostMore is over bars that are not comparable.
var lostMore = draw.GlyphStyle{Color: color.Black, Radius: 2.2, Shape: draw.CrossGlyph{}}

// stated marks the value that the paper states for a bar.
var stated = draw.GlyphStyle{Color: color.Black, Radius: 2.2, Shape: diamond{}}

func drawBars(c draw.Canvas, b paper.Bars) {
	var entries []entry
	marks, crosses := false, false
	top, least := 0.0, math.Inf(1)
	for _, s := range b.Series {
		entries = append(entries, entry{s.Name, paint(s.Arm)})
		for g, e := range s.Bars {
			if e != nil {
				top, least = max(top, e.Median), min(least, e.Median)
				if e.Bounded() {
					top = max(top, e.High)
				}
			}
			if g < len(s.Stated) && s.Stated[g] != nil {
				marks, top = true, max(top, *s.Stated[g])
			}
			if g < len(s.LostMore) && s.LostMore[g] {
				crosses = true
			}
		}
	}
	if marks {
		entries = append(entries, glyphEntry("published", stated))
	}
	if crosses {
		entries = append(entries, glyphEntry("not comparable", lostMore))
		top *= 1.08 // room above the highest bar
	}
	c = legend(c, entries)

	p := newPlot()
	p.X.Label.Text, p.Y.Label.Text = b.XLabel, b.YLabel
	p.X.Min, p.X.Max = -0.5, float64(len(b.Groups))-0.5
	p.Y.Min, p.Y.Max = 0, niceTop(top*1.02)
	if b.Log && least > 0 && top > 0 {
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(least*0.9))), math.Pow(10, math.Ceil(math.Log10(top)))
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
	p.X.Tick.Length = 0
	var names plot.ConstantTicks
	letters := 0
	for i, g := range b.Groups {
		letters += len(g)
		names = append(names, plot.Tick{Value: float64(i), Label: g})
	}
	p.X.Tick.Marker = names
	if letters > mostLetters {
		p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/5, text.XRight, text.YCenter
	}
	p.Add(bars(b))
	p.Draw(c)
}

// decades are the ticks of a logarithmic axis. Of many decades only some have a label.
type decades struct{}

func (decades) Ticks(low, high float64) (out []plot.Tick) {
	first, last := int(math.Floor(math.Log10(low)+1e-9)), int(math.Ceil(math.Log10(high)-1e-9))
	each := max(1, (last-first+3)/4)
	for e := first; e <= last; e++ {
		tick := plot.Tick{Value: math.Pow(10, float64(e))}
		if (e-first)%each == 0 {
			tick.Label = strconv.FormatFloat(tick.Value, 'g', -1, 64)
		}
		out = append(out, tick)
	}
	return out
}

// glyphEntry is the entry of a glyph.
func glyphEntry(name string, glyph draw.GlyphStyle) entry {
	return entry{name, func(c *draw.Canvas, r vg.Rectangle) {
		c.DrawGlyphNoClip(glyph, vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2})
	}}
}

// bars is a plot.Plotter.
type bars paper.Bars

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	each := groupWidth / float64(len(b.Series))
	for i, s := range b.Series {
		for g, e := range s.Bars {
			left := float64(g) - groupWidth/2 + float64(i)*each
			middle := x(left + each/2)
			if e != nil {
				marked(c, mark{s.Arm, b.Groups[g], says(s, b.Groups[g], g)}, func() {
					paint(s.Arm)(&c, vg.Rectangle{Min: vg.Point{X: x(left), Y: y(p.Y.Min)}, Max: vg.Point{X: x(left + each), Y: y(e.Median)}})
					errorBar(&c, middle, y, *e)
				})
				if g < len(s.LostMore) && s.LostMore[g] {
					high := e.Median
					if e.Bounded() {
						high = e.High
					}
					c.DrawGlyph(lostMore, vg.Point{X: middle, Y: y(high) + 2*lostMore.Radius})
				}
			}
			if g < len(s.Stated) && s.Stated[g] != nil {
				c.DrawGlyph(stated, vg.Point{X: middle, Y: y(*s.Stated[g])})
			}
		}
	}
}

// says is a bar in words.
func says(s paper.Series, group string, g int) string {
	text := strconv.FormatFloat(s.Bars[g].Median, 'g', 3, 64)
	if g < len(s.Texts) {
		text = s.Texts[g]
	}
	return s.Name + ", " + group + ": " + text
}

// errorBar draws a confidence interval if it is bounded. A white line under it keeps it visible
// on dark bars.
func errorBar(c *draw.Canvas, at vg.Length, y func(float64) vg.Length, e stats.Summary) {
	if !e.Bounded() || e.Low == e.High {
		return
	}
	const cap = vg.Length(1.8)
	low, high := y(e.Low), y(e.High)
	for _, style := range []draw.LineStyle{{Color: color.White, Width: 2}, {Color: color.Black, Width: 0.7}} {
		c.StrokeLine2(style, at, low, at, high)
		c.StrokeLine2(style, at-cap, low, at+cap, low)
		c.StrokeLine2(style, at-cap, high, at+cap, high)
	}
}

// diamond is a white diamond with a black edge.
type diamond struct{}

func (diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r := style.Radius
	edge := []vg.Point{{X: at.X, Y: at.Y - r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X - r, Y: at.Y}}
	c.FillPolygon(color.White, edge)
	c.StrokeLines(draw.LineStyle{Color: style.Color, Width: 0.8}, append(edge, edge[0]))
}
