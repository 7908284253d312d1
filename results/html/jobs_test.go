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

// drawn has the classes of the rectangles in a picture, and all its text.
func drawn(t *testing.T, m memory, title, note string, runs ...Pictured) (classes []string, text string) {
	t.Helper()
	var out bytes.Buffer
	if err := Picture(context.Background(), &out, m, runs, title, note); err != nil {
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
	classes, text := drawn(t, m, "W1", "a note", Pictured{runs[2], "alone"}, Pictured{runs[1], "blind"})
	want := []string{"page", "lane", "lane", "held", "held", "lane", "held", "held", // sa keeps GPUs
		"lane", "lane", "held", "held", "lane", "held", "held", "bad"}
	if diff := cmp.Diff(want, classes); diff != "" {
		t.Errorf("rectangles (-want +got):\n%s", diff)
	}
	for _, part := range []string{"SIMULATED W1", "a note", "alone: 4 of 4 ok after 24.20 s", "blind: 3 of 4 ok after 11.10 s", "✕ 1 crashed", "GPU 1", "20 s", "4 of 4 jobs waited at once, at most",
		"job 3 needle-3: oom\nGPU 1 from 2.22 s to 11.10 s\n", "job 2 needle-2: ok\nGPU 0 from 14.52 s to 24.20 s\nwaited 12.10 s, started at 12.10 s, ended at 24.20 s\ndeclares 8 GiB"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %q", part, text)
		}
	}
	if n := strings.Count(text, "SIMULATED"); n != 3 {
		t.Errorf("SIMULATED is said %d times, want in the name, the title and the watermark: %q", n, text)
	}
}

// A live run is not called simulated, and its text does no harm.
func TestPictureOfALiveRun(t *testing.T) {
	m := fixture()
	runs := m.runs()
	_, text := drawn(t, m, "live", "", Pictured{runs[len(runs)-1], hostile})
	if strings.Contains(text, "SIMULATED") || !strings.Contains(text, hostile) {
		t.Errorf("%q", text)
	}
}

func TestPictureWithoutRecords(t *testing.T) {
	err := Picture(context.Background(), io.Discard, broken{}, []Pictured{{Run: results.Run{ID: 1}}}, "", "")
	if err == nil || !strings.Contains(err.Error(), "draw runs: gone") {
		t.Errorf("error %v", err)
	}
}

// Devices of a cluster are called by their nodes, too, and their table has a column of nodes.
func TestDevicesOfACluster(t *testing.T) {
	r := simulatedRun("cluster-rr/cg", 1, 10)
	r.devices[1].Node = 1
	r.run.Metrics.MakespanS = new(10.0)
	f := newJobsFigure("W1", []pictured{{records: r}}, false)
	if lanes := f.Panels[0].Devices; lanes[0].Name != "GPU 0, node 0" || lanes[1].Name != "GPU 1, node 1" || f.Left+f.Plot != 100 {
		t.Errorf("%+v", f)
	}
	if said := newDevices(r).Columns[1]; said.Name != "node_index" {
		t.Errorf("column %+v", said)
	}
}

// Many schedulers and devices have lower lanes, and jobs that share a device lie over one another there.
func TestLanesOfManySchedulers(t *testing.T) {
	for _, c := range []struct {
		runs, devices, lane int
		shared              bool
		name, all           string
	}{
		{1, 2, highestLane, false, "GPU 0", ""},
		{5, 4, 15, false, "GPU 0", ""},
		{12, 4, lowestLane, true, "", "GPU 0 to 3"},
		{12, 8, lowestLane, true, "", "GPU 0 to 7"},
	} {
		var runs []pictured
		for range c.runs {
			r := simulatedRun("cg", 1, 10)
			r.devices = devices(c.devices, "V100")
			r.run.Metrics.MakespanS = new(10.0)
			runs = append(runs, pictured{records: r})
		}
		f := newJobsFigure("W1", runs, false)
		p := f.Panels[len(f.Panels)-1]
		if lane := p.Devices[0]; lane.Height != c.lane-1 || lane.Shared != c.shared || lane.Name != c.name || p.All != c.all {
			t.Errorf("%d runs on %d devices: lanes of %d px, shared %v, called %q, all %q; want %+v", c.runs, c.devices, lane.Height+1, lane.Shared, lane.Name, p.All, c)
		}
		if end := p.Y + p.Height + axisHeight; f.Height < end {
			t.Errorf("%d runs: %d px are too low for %d", c.runs, f.Height, end)
		}
	}
}

// A job waits to be started, and for each grant; how many do is a step function.
func TestWaitingJobs(t *testing.T) {
	r := simulatedRun("sa", 1, 10)
	w := newWaiting(r, tasksOf(r), 20)
	if w.Text != "4 of 4 jobs waited at once, at most" || w.Area == "" {
		t.Errorf("%+v", w)
	}
	if quiet := newWaiting(records{jobs: []results.Job{{StartS: new(0.0), EndS: new(5.0)}}}, nil, 10); quiet.Area != "" {
		t.Errorf("a job that never waited has an area: %+v", quiet)
	}
}

// broken is a Source that has nothing.
type broken struct{ memory }

func (broken) Jobs(context.Context, int64) ([]results.Job, error) { return nil, errors.New("gone") }
