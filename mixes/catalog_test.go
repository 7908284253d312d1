package mixes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// table1 is CASE Table 1 with the authors' footprints, and the grid and block of the main kernel.
var table1 = []struct {
	name, command string
	footprint     Footprint
	class         string
}{
	{"backprop-8388608", "backprop 8388608", Footprint{1176502548, 16 * 32768, 256}, ClassSmall},
	{"bfs-32M", "bfs graph32M.txt", Footprint{1308592369, 65536, 512}, ClassSmall},
	{"srad_v2-8192", "srad_v2/srad 8192 8192 0 127 0 127 0.5 2", Footprint{1610612736, 512 * 512, 256}, ClassSmall},
	{"dwt2d-8192", "dwt2d rgb.bmp -d 8192x8192 -f -5 -l 3", Footprint{2080374784, 43 * 15, 192}, ClassSmall},
	{"needle-16384", "needle 16384 10", Footprint{2147745800, 959, 16}, ClassSmall},
	{"backprop-16777216", "backprop 16777216", Footprint{2350907668, 32 * 32768, 256}, ClassSmall},
	{"srad_v1-11000", "srad_v1/srad 100 0.5 11000 11000", Footprint{3872176000, 236329, 512}, ClassSmall},
	{"backprop-33554432", "backprop 33554432", Footprint{4699717908, 64 * 32768, 256}, ClassLarge},
	{"srad_v2-16384", "srad_v2/srad 16384 16384 0 127 0 127 0.5 2", Footprint{6442450944, 1024 * 1024, 256}, ClassLarge},
	{"srad_v1-15000", "srad_v1/srad 100 0.5 15000 15000", Footprint{7200240000, 439454, 512}, ClassLarge},
	{"lavaMD-100", "lavaMD -boxes1d 100", Footprint{7856000000, 1000000, 128}, ClassLarge},
	{"dwt2d-16384", "dwt2d rgb.bmp -d 16384x16384 -f -5 -l 3", Footprint{8321499136, 86 * 15, 192}, ClassLarge},
	{"needle-32768", "needle 32768 10", Footprint{8590458888, 2003, 16}, ClassLarge},
	{"backprop-67108864", "backprop 67108864", Footprint{9397338388, 128 * 32768, 256}, ClassLarge},
	{"lavaMD-110", "lavaMD -boxes1d 110", Footprint{10456336000, 1331000, 128}, ClassLarge},
	{"srad_v1-20000", "srad_v1/srad 100 0.5 20000 20000", Footprint{12800320000, 781250, 512}, ClassLarge},
	{"lavaMD-120", "lavaMD -boxes1d 120", Footprint{13575168000, 1728000, 128}, ClassLarge},
}

func TestJobsAreTable1(t *testing.T) {
	jobs := Jobs()
	if len(jobs) != len(table1) {
		t.Fatalf("%d jobs, want %d", len(jobs), len(table1))
	}
	for i, want := range table1 {
		j := jobs[i]
		if j.Name != want.name || j.Command() != want.command || j.Footprint != want.footprint || j.Class != want.class {
			t.Errorf("job %d:\n got %s | %s | %+v | %s\nwant %+v", i, j.Name, j.Command(), j.Footprint, j.Class, want)
		}
		if j.Binding != BindProbe || j.Isolate || j.Pin || j.Dir != "" || j.Stdin != "" || j.Timeout != 0 {
			t.Errorf("%s has settings of its own: %+v", j.Name, j)
		}
	}
}

func TestRodiniaMixesAreTable2(t *testing.T) {
	for _, want := range []struct {
		name, ratio  string
		large, small int
		bytes        int64 // sum of the authors' footprints over the list
		first, last  string
	}{
		{"W1", "1:1", 8, 8, 95558495270, "srad_v2-8192", "lavaMD-110"},
		{"W2", "2:1", 11, 5, 112366972990, "needle-32768", "lavaMD-100"},
		{"W3", "3:1", 12, 4, 117258934012, "backprop-67108864", "dwt2d-8192"},
		{"W4", "5:1", 14, 2, 104029892588, "lavaMD-100", "backprop-33554432"},
		{"W5", "1:1", 16, 16, 196595260038, "srad_v1-20000", "backprop-33554432"},
		{"W6", "2:1", 22, 10, 214451577872, "backprop-67108864", "lavaMD-110"},
		{"W7", "3:1", 24, 8, 212691449032, "backprop-16777216", "lavaMD-110"},
		{"W8", "5:1", 27, 5, 264446036749, "needle-32768", "lavaMD-100"},
	} {
		m, err := Lookup(want.name)
		if err != nil {
			t.Fatal(err)
		}
		var large, small int
		var bytes int64
		for _, j := range m.Jobs {
			bytes += j.Footprint.Bytes
			switch j.Class {
			case ClassLarge:
				large++
			case ClassSmall:
				small++
			}
		}
		first, last := m.Jobs[0].Name, m.Jobs[len(m.Jobs)-1].Name
		if m.Ratio != want.ratio || large != want.large || small != want.small || bytes != want.bytes || first != want.first || last != want.last {
			t.Errorf("%s: ratio %s, %d large, %d small, %d bytes, %s to %s; want %+v", m.Name, m.Ratio, large, small, bytes, first, last, want)
		}
		if m.Source != "catalog" {
			t.Errorf("%s: source %q", m.Name, m.Source)
		}
		ratio, err := ParseRatio(m.Ratio)
		if err != nil {
			t.Fatal(err)
		}
		if l, s := ratio.split(len(m.Jobs)); l != large || s != small {
			t.Errorf("%s: split gives %d and %d, the authors' mix has %d and %d", m.Name, l, s, large, small)
		}
	}
}

// Section 5.2.2 of the paper names the first six footprints of the 5:1 mix of 16 jobs. W7 is the
// mix of Figure 7 and is checked in full.
func TestOrderIsTheAuthors(t *testing.T) {
	for name, want := range map[string]string{
		"w4": "lavaMD-100 lavaMD-110 lavaMD-100 dwt2d-16384 dwt2d-8192 backprop-33554432",
		"W7": "backprop-16777216 srad_v2-16384 srad_v1-15000 needle-32768" +
			" srad_v1-20000 backprop-8388608 lavaMD-110 srad_v1-15000" +
			" backprop-8388608 dwt2d-8192 backprop-33554432 lavaMD-100" +
			" srad_v1-11000 backprop-33554432 srad_v1-20000 backprop-16777216" +
			" dwt2d-16384 backprop-33554432 srad_v2-16384 needle-16384" +
			" lavaMD-100 dwt2d-8192 srad_v2-16384 needle-32768" +
			" srad_v2-16384 lavaMD-110 backprop-33554432 needle-32768" +
			" dwt2d-16384 srad_v1-20000 needle-32768 lavaMD-110",
	} {
		m, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, j := range m.Jobs[:strings.Count(want, " ")+1] {
			names = append(names, j.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestDarknetMixes(t *testing.T) {
	for name, want := range map[string]struct {
		command string
		need    Footprint
	}{
		"D-predict":  {"darknet classifier predict imagenet1k.data darknet53_448.cfg darknet53_448.weights < images-large.txt", Footprint{780 << 20, 25088, 512}},
		"D-detect":   {"darknet detect cfg/yolov3-tiny.cfg weights/yolov3-tiny.weights < images-medium.txt", Footprint{140 << 20, 5408, 512}},
		"D-generate": {"darknet rnn generate cfg/rnn.cfg weights/shakespeare.weights -len 14000", Footprint{76 << 20, 2, 512}},
		"D-train":    {"darknet classifier train cfg/cifar.data cfg/cifar_small.cfg", Footprint{186 << 20, 6272, 512}},
	} {
		m, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Jobs) != 8 {
			t.Errorf("%s has %d jobs, want 8", name, len(m.Jobs))
		}
		for i, j := range m.Jobs {
			if j.Command() != want.command || j.Footprint != want.need || j.Binding != BindProbe {
				t.Errorf("%s job %d: %+v", name, i, j)
			}
		}
	}
}

// Sweeps keep a digest of their jobs' JSON, so a new field must not appear in the JSON of jobs
// that do not set it.
func TestJSONOfJobsLasts(t *testing.T) {
	text, err := json.Marshal(catalogJob(t, "bfs-32M"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Name":"bfs-32M","Program":"bfs","Args":["graph32M.txt"],"Stdin":"","Dir":"","Env":null,` +
		`"Footprint":{"Bytes":1308592369,"Blocks":65536,"ThreadsPerBlock":512},"Class":"small","Isolate":false,` +
		`"Priority":0,"Pin":false,"Binding":0,"Timeout":0}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestD128IsDrawnFromItsSeed(t *testing.T) {
	m, err := Lookup("D-128")
	if err != nil {
		t.Fatal(err)
	}
	want := draw(newRand(128), builtin().darknet, 128)
	if !slices.EqualFunc(m.Jobs, want, Job.equal) {
		t.Error("catalog/D-128.yaml is not the draw of seed 128")
	}
	count := map[string]int{}
	for _, j := range m.Jobs {
		count[j.Name]++
	}
	if len(m.Jobs) != 128 || len(count) != 4 {
		t.Errorf("%d jobs of %d kinds, want 128 of 4", len(m.Jobs), len(count))
	}
}

func TestCatalogCannotBeChangedByCallers(t *testing.T) {
	Catalog()[0].Jobs[0].Args[0] = "changed"
	Jobs()[0].Args[0] = "changed"
	m, _ := Lookup("W1")
	m.Jobs[0].Name = "changed"
	for _, m := range Catalog() {
		for _, j := range m.Jobs {
			if j.Name == "changed" || slices.Contains(j.Args, "changed") {
				t.Fatalf("%s shares memory with its callers", m.Name)
			}
		}
	}
}

func TestLookupErrorNamesTheNear(t *testing.T) {
	for name, want := range map[string]string{
		"W9":        `no mix "W9" in the catalog; did you mean W1 or W2 or W3 or W4 or W5 or W6 or W7 or W8?`,
		"d-predit":  `no mix "d-predit" in the catalog; did you mean D-predict?`,
		"nightly":   `no mix "nightly" in the catalog; known are ` + strings.Join(mixNames(), ", "),
		"N-fig9-5":  `no mix "N-fig9-5" in the catalog: write N-fig9-CPU, where CPU is 0, 50, 100, 150, 200`,
		"n-fig11-6": `no mix "n-fig11-6" in the catalog: write N-fig11-JOBS-CPU, where JOBS is 6, 12, 24, 36; CPU is 0, 50, 100, 150, 200`,
		"C-fig5a-x": `no mix "C-fig5a-x" in the catalog: write C-fig5a-ORDER, where ORDER is ammmnn to nnmmma`,
		"N-fig99":   `no mix "N-fig99" in the catalog; did you mean N-fig9 or N-fig19 or N-fig10?`,
	} {
		if _, err := Lookup(name); err == nil || err.Error() != want {
			t.Errorf("Lookup(%q): %v\nwant %s", name, err, want)
		}
	}
}

// The mixes of PyTorch programs state no memory, as jobs of most users do.
func TestPyTorchMixes(t *testing.T) {
	for name, different := range map[string]int{"M-train": 5, "M-infer": 3, "M-mixed": 8} {
		m, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Jobs) != 8 || len(m.Distinct()) != different {
			t.Errorf("%s: %d jobs, %d different", name, len(m.Jobs), len(m.Distinct()))
		}
		for _, j := range m.Jobs {
			if !j.OfTorch() || !j.OfSuite() || j.Footprint != (Footprint{}) || j.Binding != BindProbe {
				t.Errorf("%s: %+v", name, j)
			}
		}
	}
	if (Job{Program: "./torch/cnn.py"}).OfTorch() {
		t.Error("a program of the user's own is the suite's")
	}
}

// The mixes of PILOT state the memory of each job. A pagedos ends with what it runs beside. Each mix is there with managed memory, too.
func TestPilotMixes(t *testing.T) {
	names, err := Match("P-*")
	if err != nil || len(names) != 2*(3+10+4) {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		m, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Jobs) != 2 {
			t.Errorf("%s has %d jobs", name, len(m.Jobs))
		}
		for i, j := range m.Jobs {
			companion := i == 1 && !strings.HasPrefix(name, "P-fig5")
			if Managed(j) != strings.HasSuffix(name, "-managed") {
				t.Errorf("%s: job %d has the command %s", name, i, j.Command())
			}
			if !j.OfSuite() || j.Footprint.Bytes == 0 || j.UntilOthersEnd != companion || (j.Program == "pilot/pagedos") != companion {
				t.Errorf("%s: %+v", name, j)
			}
		}
	}
}
