package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/paper/papertest"
	"github.com/caserun/caserun/results/stats"
)

// drawn returns all kinds of figures, from made-up runs.
func drawn(t *testing.T) []paper.Figure {
	t.Helper()
	page, err := paper.Case().Build([]paper.Node{
		papertest.Node("sim:4xV100", results.Simulated, "4xV100", 4, append(papertest.Rodinia(), papertest.Darknet()...),
			[]string{"sa", "cg:workers=8", "case-alg2", "case-alg3", "schedgpu"}),
		papertest.Node("sim:2xP100", results.Simulated, "2xP100", 2, papertest.Rodinia(), []string{"sa", "cg:workers=4", "case-alg3"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Figures) != 6 {
		t.Fatalf("%d figures, want 5, 6a, 6b, 7, 8 and 9", len(page.Figures))
	}
	return page.Figures
}

// A logarithmic axis has powers of ten, and bars below 1.
func TestLogarithmicBars(t *testing.T) {
	f := paper.Figure{ID: "x", Bars: &paper.Bars{Log: true, Groups: []string{"a", "b"}, Series: []paper.Series{{Name: "one", Bars: []*stats.Summary{{N: 1, Median: 0.002}, {N: 1, Median: 400}}}}}}
	svg, err := Draw(f, SVG)
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"0.001", "0.1", "10", "1000"} {
		if words := svgText(t, svg); !strings.Contains(words, label) {
			t.Errorf("no %s: %s", label, words)
		}
	}
}

func TestSVGIsWellFormedAndLabelled(t *testing.T) {
	for _, f := range drawn(t) {
		svg, err := Draw(f, SVG)
		if err != nil {
			t.Fatal(err)
		}
		words := svgText(t, svg)
		want := []string{"SIMULATED on sim:", "case-alg3"}
		if f.Bars != nil {
			want = append(want, "ratio", "Workload", f.Bars.Groups[0])
		} else {
			want = append(want, "Kernel resident, %", "batch's arrival, s")
		}
		for _, w := range want {
			if !strings.Contains(words, w) {
				t.Errorf("%s does not say %q: %s", f.ID, w, words)
			}
		}
		if again, _ := Draw(f, SVG); !bytes.Equal(svg, again) {
			t.Errorf("%s: the same figure gave other bytes", f.ID)
		}
		if n := strings.Count(words, "SIMULATED"); n != 2 {
			t.Errorf("%s says SIMULATED %d times, want its title and its watermark", f.ID, n)
		}
		if !strings.Contains(string(svg), `width="237.6pt"`) {
			t.Errorf("%s is not 3.3 inches wide: %.120s", f.ID, svg)
		}
		if strings.Count(string(svg), "sans-serif") != 1 {
			t.Errorf("%s has no font to fall back to: %.200s", f.ID, svg)
		}
		keep(t, f.ID+".svg", svg)
	}
}

// svgText is the text that an SVG shows; malformed XML fails the test.
func svgText(t *testing.T, svg []byte) string {
	t.Helper()
	var out strings.Builder
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			out.Write(text)
		}
	}
}

func TestPNGHasTheResolutionOfPrint(t *testing.T) {
	for _, f := range drawn(t) {
		if f.ID != "figure-6b" && f.ID != "figure-9" { // one of each kind
			continue
		}
		content, err := Draw(f, PNG)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %v", f.ID, err)
		}
		if w := img.Bounds().Dx(); w != 990 {
			t.Errorf("%s is %d pixels wide, want 3.3 inches of 300", f.ID, w)
		}
		dark := 0
		for y := 0; y < img.Bounds().Dy(); y += 2 {
			for x := range img.Bounds().Dx() {
				r, g, b, _ := img.At(x, y).RGBA()
				if r < 0x8000 && g < 0x8000 && b < 0x8000 {
					dark++
				}
			}
		}
		if dark < 1000 {
			t.Errorf("%s is empty: %d dark pixels", f.ID, dark)
		}
		keep(t, f.ID+".png", content)
	}
}

func TestPDF(t *testing.T) {
	content, err := Draw(drawn(t)[0], PDF)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(content, []byte("%PDF-1.")) || !bytes.Contains(content, []byte("%%EOF")) {
		t.Errorf("no PDF: %.20q", content)
	}
	keep(t, "figure.pdf", content)
}

func TestNothingToDrawIsAnError(t *testing.T) {
	if _, err := Draw(paper.Figure{ID: "figure-5"}, SVG); err == nil || !strings.Contains(err.Error(), "figure-5") {
		t.Errorf("error %v", err)
	}
	if _, err := Draw(drawn(t)[0], "gif"); err == nil || !strings.Contains(err.Error(), "gif") {
		t.Errorf("error %v", err)
	}
}

// Unknown values leave gaps and are not drawn as 0. Without bounds there are no error bars.
func TestUnknownValues(t *testing.T) {
	f := paper.Figure{ID: "x", Bars: &paper.Bars{Groups: []string{"W1", "W2"}, Series: []paper.Series{
		{Name: "sa", Bars: []*stats.Summary{nil, {N: 1, Median: 1, Low: math.Inf(-1), High: math.Inf(1)}}}}}}
	one, err := Draw(f, SVG)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(one, []byte("NaN")) || bytes.Contains(one, []byte("Inf")) {
		t.Errorf("a number that is none: %s", one)
	}
	f = paper.Figure{ID: "y", Curves: []paper.Curve{{Name: "sa", What: "Utilization", WindowS: 1, Levels: []float64{math.NaN(), 0.5, math.NaN()}}}}
	if one, err = Draw(f, SVG); err != nil || bytes.Contains(one, []byte("NaN")) {
		t.Errorf("%v: %s", err, one)
	}
}

func TestTicksHaveTheDecimalsThatTheyNeed(t *testing.T) {
	for high, want := range map[float64]string{50: "0 25 50", 1.5: "0.0 0.5 1.0 1.5", 0.1: "0.00 0.05 0.10", 0.6: "0.00 0.25 0.50", 30000: "0 10000 20000 30000"} {
		var got []string
		for _, tick := range (ticks{}).Ticks(0, high) {
			if !tick.IsMinor() {
				got = append(got, tick.Label)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("to %v: %s, want %s", high, got, want)
		}
	}
}

// keep writes a drawing to the directory in CASERUN_FIGURES, if it is set, for a human to look
// at.
func keep(t *testing.T, name string, content []byte) {
	dir := os.Getenv("CASERUN_FIGURES")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		t.Error(err)
	}
}
