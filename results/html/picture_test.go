package html

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

// drawn has the classes of a picture's rectangles, and all its text.
func drawn(t *testing.T, m memory, c Caption, runs ...Pictured) (classes []string, text string) {
	t.Helper()
	var out bytes.Buffer
	if err := Picture(context.Background(), &out, m, runs, c); err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return classes, words.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			at := slices.IndexFunc(token.Attr, func(a xml.Attr) bool { return a.Name.Local == "class" })
			if token.Name.Local == "rect" && at >= 0 {
				classes = append(classes, token.Attr[at].Value)
			}
			if token.Name.Local == "script" {
				t.Error("the picture has a script")
			}
		case xml.CharData:
			words.Write(token)
		}
	}
}

// A picture has the runs one above the other, over the time of the longest.
func TestPicture(t *testing.T) {
	m := fixture()
	runs := m.runs()
	sa := Pictured{Run: runs[2], Text: "alone", Bound: true, Idle: "idle"}
	cg := Pictured{Run: runs[1], Text: "blind"}
	classes, text := drawn(t, m, Caption{Title: "W1", Note: "a note", Large: "large job", Small: "small job", Axis: "time"}, sa, cg)
	want := []string{"page", "large", "small", "host", "bad", // the legend
		"lane", "host", "host", "large", "large", "lane", "host", "host", "large", "large",
		"lane", "large", "large", "lane", "large", "bad"}
	if diff := cmp.Diff(want, classes); diff != "" {
		t.Errorf("rectangles (-want +got):\n%s", diff)
	}
	for _, part := range []string{"SIMULATED W1", "a note", "sa, alone: 4 of 4 jobs ended ok, the last after 24.20 s", "cg, blind: 3 of 4 jobs ended ok", "idle", "GPU 1", "20 s", "time"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %q", part, text)
		}
	}
}

// A live run is not called simulated, and its text does no harm.
func TestPictureOfALiveRun(t *testing.T) {
	m := fixture()
	runs := m.runs()
	_, text := drawn(t, m, Caption{Title: "live"}, Pictured{Run: runs[len(runs)-1], Text: hostile})
	if strings.Contains(text, "SIMULATED") || !strings.Contains(text, hostile) {
		t.Errorf("%q", text)
	}
}

func TestPictureWithoutRecords(t *testing.T) {
	err := Picture(context.Background(), io.Discard, broken{}, []Pictured{{Run: results.Run{ID: 1}}}, Caption{})
	if err == nil || !strings.Contains(err.Error(), "draw runs: gone") {
		t.Errorf("error %v", err)
	}
}

// broken is a Source that has nothing.
type broken struct{ memory }

func (broken) Jobs(context.Context, int64) ([]results.Job, error) { return nil, errors.New("gone") }
