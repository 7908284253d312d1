package figures

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// svg is a canvas. Its elements have their colours as attributes, for readers of a file, and as classes, for the style
// of a page.
type svg struct {
	width, height vg.Length
	body          bytes.Buffer
	pen           pen
	stack         []pen
}

// pen is what Push saves. A point x, y of the user is at turn·(x, y) + origin.
type pen struct {
	color  color.Color
	width  vg.Length
	dashes []vg.Length
	angle  float64
	scale  [2]float64
	origin vg.Point
}

func newSVG(width, height vg.Length) *svg {
	s := &svg{width: width, height: height, pen: pen{scale: [2]float64{1, 1}}}
	vg.Initialize(s)
	return s
}

func (s *svg) Size() (x, y vg.Length)                 { return s.width, s.height }
func (s *svg) SetLineWidth(w vg.Length)               { s.pen.width = w }
func (s *svg) SetLineDash(d []vg.Length, _ vg.Length) { s.pen.dashes = d }
func (s *svg) SetColor(c color.Color)                 { s.pen.color = c }
func (s *svg) Push()                                  { s.stack = append(s.stack, s.pen) }
func (s *svg) Translate(p vg.Point)                   { s.pen.origin = s.at(p) }
func (s *svg) Rotate(angle float64)                   { s.pen.angle += angle }
func (s *svg) Scale(x, y float64)                     { s.pen.scale = [2]float64{s.pen.scale[0] * x, s.pen.scale[1] * y} }

func (s *svg) Pop() {
	s.pen, s.stack = s.stack[len(s.stack)-1], s.stack[:len(s.stack)-1]
}

// at is where a point of the user is, with the origin in the lower left corner.
func (s *svg) at(p vg.Point) vg.Point {
	sin, cos := math.Sincos(s.pen.angle)
	x, y := float64(p.X)*s.pen.scale[0], float64(p.Y)*s.pen.scale[1]
	return vg.Point{X: s.pen.origin.X + vg.Length(x*cos-y*sin), Y: s.pen.origin.Y + vg.Length(x*sin+y*cos)}
}

func number(v vg.Length) string {
	return strconv.FormatFloat(math.Round(float64(v)*100)/100+0, 'f', -1, 64)
}

// data writes a path of lines, which are all that figures draw.
func (s *svg) data(path vg.Path) string {
	var out bytes.Buffer
	for _, c := range path {
		p := s.at(c.Pos)
		switch c.Type {
		case vg.MoveComp:
			fmt.Fprintf(&out, "M%s %s", number(p.X), number(s.height-p.Y))
		case vg.LineComp:
			fmt.Fprintf(&out, "L%s %s", number(p.X), number(s.height-p.Y))
		case vg.CloseComp:
			out.WriteByte('Z')
		default:
			panic("figures: a path of curves")
		}
	}
	return out.String()
}

// colours are the attributes of an element that is filled, or stroked.
func (s *svg) colours(attribute, class string) string {
	named := shadeOf(s.pen.color)
	text := fmt.Sprintf(` class="%s%s" %s="%s"`, named.class, class, attribute, hex(named.NRGBA))
	if named.A < 255 {
		text += fmt.Sprintf(` %s-opacity="%.2f"`, attribute, float64(named.A)/255)
	}
	return text
}

func shadeOf(c color.Color) shade {
	if named, ok := c.(shade); ok {
		return named
	}
	rgba := color.NRGBAModel.Convert(c).(color.NRGBA)
	for _, known := range []shade{ink, paperish} {
		if known.NRGBA == rgba {
			return known
		}
	}
	return shade{rgba, "other"}
}

func (s *svg) Fill(path vg.Path) {
	fmt.Fprintf(&s.body, "<path%s d=\"%s\"/>\n", s.colours("fill", ""), s.data(path))
}

func (s *svg) Stroke(path vg.Path) {
	if s.pen.width <= 0 {
		return
	}
	dashes := ""
	for i, d := range s.pen.dashes {
		dashes += map[bool]string{true: ` stroke-dasharray="`, false: " "}[i == 0] + number(d)
	}
	if dashes != "" {
		dashes += `"`
	}
	fmt.Fprintf(&s.body, "<path fill=\"none\"%s stroke-width=\"%s\"%s d=\"%s\"/>\n", s.colours("stroke", "-line"), number(s.pen.width), dashes, s.data(path))
}

func (s *svg) FillString(f font.Face, p vg.Point, text string) {
	p = s.at(p)
	x, y, turned := number(p.X), number(s.height-p.Y), ""
	if s.pen.angle != 0 {
		turned = fmt.Sprintf(` transform="rotate(%s %s %s)"`, number(vg.Length(-s.pen.angle*180/math.Pi)), x, y)
	}
	fmt.Fprintf(&s.body, "<text x=\"%s\" y=\"%s\"%s font-size=\"%s\"%s>%s</text>\n", x, y, turned, number(f.Font.Size), s.colours("fill", ""), html.EscapeString(text))
}

// DrawImage is not supported, because figures have no images.
func (s *svg) DrawImage(vg.Rectangle, image.Image) { panic("figures: an image") }

// begin begins a mark, which shows its text to a pointer over it; end ends it.
func (s *svg) begin(m mark) {
	fmt.Fprintf(&s.body, "<g class=\"mark\" data-arm=\"%d\" data-group=\"%s\"><title>%s</title>\n", m.arm, html.EscapeString(m.group), html.EscapeString(m.text))
}

func (s *svg) end() { s.body.WriteString("</g>\n") }

// mark is what a figure shows of one number.
type mark struct {
	arm         int
	group, text string
}

// marked draws a mark. Of the formats SVG alone has marks.
func marked(c vg.Canvas, m mark, draws func()) {
	for {
		part, is := c.(draw.Canvas)
		if !is {
			break
		}
		c = part.Canvas
	}
	if s, is := c.(*svg); is {
		s.begin(m)
		defer s.end()
	}
	draws()
}

// fonts begin with the one with which text was measured. Arial and Helvetica have the same widths.
const fonts = "'Liberation Sans',Arial,Helvetica,sans-serif"

// WriteTo writes a file of its own.
func (s *svg) WriteTo(w io.Writer) (int64, error) {
	n, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%spt\" height=\"%spt\" viewBox=\"0 0 %[1]s %[2]s\" font-family=\"%[3]s\">\n%[4]s</svg>\n",
		number(s.width), number(s.height), fonts, s.body.Bytes())
	return int64(n), err
}

// inline is the element in a page. It is as wide as its box.
func (s *svg) inline(class, label string) string {
	role := `aria-hidden="true"`
	if label != "" {
		role = fmt.Sprintf(`role="img" aria-label="%s"`, html.EscapeString(label))
	}
	return fmt.Sprintf("<svg class=\"%s\" viewBox=\"0 0 %s %s\" font-family=\"%s\" %s>\n%s</svg>", class, number(s.width), number(s.height), fonts, role, s.body.Bytes())
}
