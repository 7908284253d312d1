package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/caserun/caserun/results/paper"
)

// drawCurves draws one panel for each curve, stacked with equal axes, because curves that cross
// many times cannot be distinguished in grey.
func drawCurves(c draw.Canvas, curves []paper.Curve) {
	end, top := 0.0, 0.0
	for _, curve := range curves {
		end = max(end, curve.WindowS*float64(len(curve.Levels)))
		for _, level := range curve.Levels {
			if !math.IsNaN(level) {
				top = max(top, level*100)
			}
		}
	}
	var column [][]*plot.Plot
	for i, curve := range curves {
		p := newPlot()
		p.Title.Text = panelTitle(curve)
		p.Y.Label.Text = curve.What + ", %"
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, end, 0, niceTop(top*1.02)
		if i == len(curves)-1 {
			p.X.Label.Text = "Time since the batch's arrival, s"
		}
		p.Add(steps(curve))
		column = append(column, []*plot.Plot{p})
	}
	for i, row := range plot.Align(column, draw.Tiles{Rows: len(curves), Cols: 1, PadY: gap}, c) {
		column[i][0].Draw(row[0])
	}
}

func panelTitle(c paper.Curve) string {
	title := c.Name
	if c.Mean != nil {
		title += fmt.Sprintf(": mean %.1f %%", *c.Mean*100)
	}
	if c.Peak != nil {
		title += fmt.Sprintf(", peak %.0f %%", *c.Peak*100)
	}
	return title
}

// steps is a plot.Plotter.
type steps paper.Curve

func (s steps) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var top []vg.Point
	flush := func() {
		if len(top) > 0 {
			corners := append([]vg.Point{{X: top[0].X, Y: y(0)}}, top...)
			corners = append(corners, vg.Point{X: top[len(top)-1].X, Y: y(0)})
			c.FillPolygon(area, corners)
			c.StrokeLines(draw.LineStyle{Color: color.Black, Width: hair}, corners)
		}
		top = nil
	}
	for i, level := range s.Levels {
		if math.IsNaN(level) {
			flush() // a gap stays a gap
			continue
		}
		from, to := float64(i)*s.WindowS, float64(i+1)*s.WindowS
		top = append(top, vg.Point{X: x(from), Y: y(level * 100)}, vg.Point{X: x(to), Y: y(level * 100)})
	}
	flush()
}
