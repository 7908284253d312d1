package figures

import (
	"bytes"
	"image"
	"image/color"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
)

// sights are how eyes see colours, as matrices of linear red, green and blue (Machado et al. 2009, severity 1).
var sights = map[string][3][3]float64{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab is a colour in CIE L*a*b*, as an eye sees it.
func lab(c color.NRGBA, sight [3][3]float64) [3]float64 {
	var linear, seen [3]float64
	for i, v := range []uint8{c.R, c.G, c.B} {
		x := float64(v) / 255
		if linear[i] = x / 12.92; x > 0.04045 {
			linear[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	for i, row := range sight {
		for j, part := range row {
			seen[i] += part * linear[j]
		}
		seen[i] = min(max(seen[i], 0), 1)
	}
	f := func(t float64) float64 {
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return t*7.787 + 16.0/116
	}
	x := f((0.4124*seen[0] + 0.3576*seen[1] + 0.1805*seen[2]) / 0.9505)
	y := f(0.2126*seen[0] + 0.7152*seen[1] + 0.0722*seen[2])
	z := f((0.0193*seen[0] + 0.1192*seen[1] + 0.9505*seen[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// A difference of 2.3 is just noticeable.
func TestColourBlindEyesTellArmsApart(t *testing.T) {
	const least = 14
	for name, sight := range sights {
		for _, colours := range [][]color.NRGBA{palette, paletteDark} {
			for i, a := range colours {
				for _, b := range colours[:i] {
					x, y := lab(a, sight), lab(b, sight)
					if d := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2]); d < least {
						t.Errorf("%s: colours %s and %s differ by %.1f", name, hex(b), hex(a), d)
					}
				}
			}
		}
	}
}

// In print without colours hatches tell arms apart.
func TestStylesDiffer(t *testing.T) {
	grey, coloured := map[string]int{}, map[string]int{}
	for i := range Styles {
		c := vgimg.NewWith(vgimg.UseWH(24, 24), vgimg.UseDPI(216))
		on := draw.New(c)
		paint(i)(&on, on.Rectangle)
		img := c.Image().(*image.RGBA)
		var lines bytes.Buffer
		for at := 0; at < len(img.Pix); at += 4 {
			pixel, own := img.Pix[at:at+3], colour(i)
			lines.WriteByte(map[bool]byte{true: '/', false: '.'}[int(pixel[0])+int(pixel[1])+int(pixel[2]) > int(own.R)+int(own.G)+int(own.B)+40])
		}
		if other, is := grey[lines.String()]; is && i < len(palette) {
			t.Errorf("the hatches of arms %d and %d are the same", other, i)
		}
		if other, is := coloured[string(img.Pix)]; is {
			t.Errorf("arms %d and %d look the same", other, i)
		}
		grey[lines.String()], coloured[string(img.Pix)] = i, i
	}
}

// Page and figures give one arm one colour, on every node and with every mix.
func TestArmsKeepTheirColours(t *testing.T) {
	ms := matrices(t, []string{"sa", "cg", "zero"}, "sim:2xP100", "sim:4xV100")
	ms[0].Rows = ms[0].Rows[:1] // one node has sa alone
	ms[1].Rows = append([]regress.Standing{}, ms[1].Rows...)
	arms := ArmsOf(ms)
	for i, want := range []string{"sa", "cg", "zero"} {
		if got := arms.Number(results.Arm{Scheduler: want, Mix: "W1", Node: "elsewhere", Jobs: 7}); got != i {
			t.Errorf("%s has number %d, want %d", want, got, i)
		}
	}
	if n := arms.Number(results.Arm{Scheduler: "vgpu"}); n != -1 {
		t.Errorf("an arm that did not run has number %d", n)
	}
	for _, f := range OfMatrices(ms) {
		for i, s := range f.Bars.Series {
			if s.Arm != i {
				t.Errorf("%s of %s has colour %d, want %d", f.ID, s.Name, s.Arm, i)
			}
		}
		svg, err := Draw(f, SVG)
		if err != nil || !strings.Contains(string(svg), `class="arm1" fill="`+Hex(1)+`"`) {
			t.Errorf("%s does not have cg in %s, %v", f.ID, Hex(1), err)
		}
	}
}

// A bar says its numbers, and the element of a page has neither a size nor a style of its own.
func TestInlineFiguresHaveMarks(t *testing.T) {
	f := OfMatrices(matrices(t, []string{"sa", "cg"}, "sim:4xV100"))[0]
	text := Inline(f)
	svgText(t, []byte(text))
	for _, want := range []string{`<g class="mark" data-arm="1" data-group="W1"><title>cg, W1: 2.00× (1.94 to 2.06)</title>`, ">SIMULATED</text>", `aria-label="throughput as a ratio`} {
		if !strings.Contains(text, want) {
			t.Errorf("the element lacks %s", want)
		}
	}
	if strings.Contains(text, "style=") || strings.Contains(text, "pt\"") {
		t.Errorf("the element has a style or a size of its own: %.300s", text)
	}
	if swatch := Swatch(3); strings.Contains(swatch, "SIMULATED") || !strings.Contains(swatch, `class="arm3"`) {
		t.Errorf("swatch %s", swatch)
	}
}

// Text and lines are turned and moved as gonum says.
func TestSVGTransforms(t *testing.T) {
	s := newSVG(100, 50)
	s.Push()
	s.Translate(vg.Point{X: 10, Y: 20})
	s.Rotate(math.Pi / 2)
	s.Scale(2, 1)
	var p vg.Path
	p.Move(vg.Point{})
	p.Line(vg.Point{X: 5, Y: 1})
	p.Close()
	s.SetLineDash([]vg.Length{3, 1.5}, 0)
	s.Stroke(p)
	s.Pop()
	s.Fill(p)
	want := `<path fill="none" class="ink-line" stroke="#000000" stroke-width="1" stroke-dasharray="3 1.5" d="M10 30L9 20Z"/>` + "\n" + `<path class="ink" fill="#000000" d="M0 50L5 49Z"/>` + "\n"
	if got := s.body.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
