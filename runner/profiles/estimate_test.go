package profiles

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites/inputs"
)

func job(command string) mixes.Job {
	text, stdin, _ := strings.Cut(command, " < ")
	words := strings.Fields(text)
	return mixes.Job{Name: "j", Program: words[0], Args: words[1:], Stdin: stdin}
}

// entries reads files with so many entries: lines, or the updates of a known network. 0: the file does not exist.
func entries(n int) OpenFile {
	return func(_ mixes.Job, file string) (io.ReadCloser, error) {
		switch {
		case n == 0:
			return nil, fs.ErrNotExist
		case path.Ext(file) == ".cfg":
			return opened(bytes.ReplaceAll(networks()[path.Base(file)], fmt.Appendf(nil, "max_batches=%d", inputs.CifarUpdates), fmt.Appendf(nil, "max_batches = %d\r", n)))
		}
		return opened(bytes.Repeat([]byte("a.jpg\r\n\n"), n))
	}
}

func opened(text []byte) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }

// file reads one text for every file.
func file(text string) OpenFile {
	return func(mixes.Job, string) (io.ReadCloser, error) { return opened([]byte(text)) }
}

// estimated is the profile of a command that was not measured, and what is said of it. A file has so many entries, 0 if it is not
// there.
func estimated(t *testing.T, command string, n int) (Profile, string) {
	t.Helper()
	set, notes := Catalog().Estimate([]mixes.Job{job(command)}, entries(n))
	p, err := set.Lookup(job(command))
	if err != nil || len(notes) != 1 {
		t.Fatalf("%s: %v, notes %q", command, err, notes)
	}
	if p.Command != command {
		t.Errorf("%s has the command %q", command, p.Command)
	}
	return p, notes[0]
}

func measured(t *testing.T, command string) Profile {
	t.Helper()
	p, err := Catalog().Lookup(job(command))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A size between two known sizes has a profile between theirs, and one beyond them continues their line, but not below its
// share.
func TestSizesAreEstimated(t *testing.T) {
	small, large := measured(t, "backprop 16777216"), measured(t, "backprop 33554432")
	p, note := estimated(t, "backprop 25165824", 0)
	if want := (small.HostBeforeS + large.HostBeforeS) / 2; math.Abs(p.HostBeforeS-want) > 1e-9 {
		t.Errorf("host %v s, want %v", p.HostBeforeS, want)
	}
	if p.KernelS <= small.KernelS || p.KernelS >= large.KernelS || p.CopyInBytes <= small.CopyInBytes || p.CopyInBytes >= large.CopyInBytes || p.Kernels != Estimated {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(note, `estimated from "backprop 16777216" and "backprop 33554432"`) {
		t.Error(note)
	}
	least := measured(t, "backprop 8388608")
	p, _ = estimated(t, "backprop 524288", 0)
	if p.WallS() >= least.WallS() || p.KernelS < least.KernelS/17 || p.HostHeldS < least.HostHeldS/16 || p.HostHeldS > least.HostHeldS {
		t.Errorf("%+v", p)
	}
	for command, from := range map[string]string{
		"needle 8192 10":                           "needle 16384 10",
		"lavaMD -boxes1d 105":                      "lavaMD -boxes1d 100",
		"srad_v1/srad 100 0.5 12000 11000":         "srad_v1/srad 100 0.5 11000 11000",
		"srad_v2/srad 2048 2048 0 127 0 127 0.5 2": "srad_v2/srad 8192 8192 0 127 0 127 0.5 2",
		"dwt2d other.bmp -d 1024x2048 -f -5 -l 3":  "dwt2d rgb.bmp -d 8192x8192 -f -5 -l 3",
		"bfs graph8M.txt":                          "bfs graph32M.txt",
		"bfs data/graph1MW_6.txt":                  "bfs graph32M.txt",
	} {
		if _, note := estimated(t, command, 0); !strings.Contains(note, from) {
			t.Errorf("%s: %s, want from %s", command, note, from)
		}
	}
	if p, _ := estimated(t, "bfs graph16M.txt", 0); p.Footprint.Bytes != footprints()["bfs graph32M.txt"].Bytes/2 {
		t.Errorf("graph16M needs %d bytes", p.Footprint.Bytes)
	}
}

// An estimate does not depend on what was estimated before, for example for another mix of a sweep.
func TestEstimatesAreOfMeasuredProfiles(t *testing.T) {
	none := entries(0)
	before, _ := Catalog().Estimate([]mixes.Job{job("needle 40000 10")}, none)
	after, notes := before.Estimate([]mixes.Job{job("needle 45008 10")}, none)
	got, err := after.Lookup(job("needle 45008 10"))
	if want, note := estimated(t, "needle 45008 10", 0); err != nil || got.KernelS != want.KernelS || notes[0] != note {
		t.Errorf("%v s of kernels, %q, %v; want %v s and %q", got.KernelS, notes, err, want.KernelS, note)
	}
}

// Of a Darknet command the network and the amount count, whatever its files are called.
func TestDarknetCommandsAreEstimated(t *testing.T) {
	const predict = "darknet classifier predict imagenet1k.data darknet53_448.cfg darknet53_448.weights < images-large.txt"
	known := measured(t, predict)
	const other = "darknet classifier predict a/b.data c/darknet53_448.cfg w < pictures.txt"
	p, note := estimated(t, other, 0)
	if p.WallS() != known.WallS() || !strings.Contains(note, "as if pictures.txt had as many entries") {
		t.Errorf("%v s, want %v: %s", p.WallS(), known.WallS(), note)
	}
	if p, note = estimated(t, other, inputs.LargeImages); p.WallS() != known.WallS() || p.Kernels != Traced || !strings.Contains(note, "which does the same") {
		t.Errorf("%v s of %s, want %v: %s", p.WallS(), p.Kernels, known.WallS(), note)
	}
	p, _ = estimated(t, other, inputs.LargeImages/4)
	if math.Abs(p.KernelS-known.KernelS/4) > 1e-9 || p.HostBeforeS != known.HostBeforeS || p.Footprint != known.Footprint {
		t.Errorf("%+v", p)
	}
	sum := 0.0
	for i, k := range p.KernelPhases {
		sum += k.S
		if k.SMs != known.KernelPhases[i].SMs {
			t.Errorf("phase %d has %v SMs", i, k.SMs)
		}
	}
	if math.Abs(sum-p.KernelS) > 1e-9 {
		t.Errorf("phases of %v s, want %v", sum, p.KernelS)
	}
	const train = "darknet classifier train mine.data nets/cifar_small.cfg"
	if p, _ = estimated(t, train, 2*inputs.CifarUpdates); p.KernelS < 5.7 || p.KernelS > 5.9 {
		t.Errorf("280 updates take %v s of kernels, want twice 2.9", p.KernelS)
	}
	for _, command := range []string{
		"darknet classifier predict a.data alexnet.cfg w < l", "darknet classifier predict a.data darknet19.cfg w < l",
		"darknet classifier predict a.data resnet152.cfg w < l", "darknet detect yolov2-320.cfg w < l", "darknet detect yolov2-608.cfg w < l",
		"darknet detect yolov3-320.cfg w < l", "darknet detect yolov3-608.cfg w < l", "darknet detect yolov3-spp.cfg w < l",
	} {
		if p, _ := estimated(t, command, 0); p.Kernels != Traced || p.Footprint.Bytes < 150<<20 || p.KernelS < 0.5 {
			t.Errorf("%s: %+v", command, p)
		}
	}
	if p, _ = estimated(t, "darknet rnn generate rnn.cfg w -len 57000", 0); p.KernelS < 2.1 || p.KernelS > 15 {
		t.Errorf("57,000 characters take %v s of kernels", p.KernelS)
	}
}

// Options of a Darknet command may be anywhere.
func TestOptionsOfDarknetCommands(t *testing.T) {
	const plain = "darknet rnn generate rnn.cfg w -len 57000"
	want, _ := estimated(t, plain, 0)
	for _, command := range []string{
		"darknet -len 57000 rnn generate rnn.cfg w", "darknet rnn -temp 2 generate a/rnn.cfg -len 57000 w -srand 4 --seed 7 -seed abc", "darknet rnn generate rnn.cfg w -len 057000",
	} {
		if p, _ := estimated(t, command, 0); p.KernelS != want.KernelS {
			t.Errorf("%s takes %v s of kernels, want %v", command, p.KernelS, want.KernelS)
		}
	}
	short, _ := estimated(t, "darknet rnn generate rnn.cfg w", 0)
	if p, _ := estimated(t, "darknet rnn generate rnn.cfg w -len 1000", 0); p.KernelS != short.KernelS || p.KernelS <= 0 || p.KernelS > want.KernelS/50 {
		t.Errorf("1,000 characters take %v s, and without -len it is %v s", p.KernelS, short.KernelS)
	}
	// One picture, although a list comes on standard input.
	for _, command := range []string{"darknet detect -thresh 0.2 yolov3-tiny.cfg w dog.jpg < images-medium.txt", "darknet classifier predict a.data darknet19.cfg w dog.jpg"} {
		if p, _ := estimated(t, command, 500); p.KernelS <= 0 || p.KernelS > 0.02 {
			t.Errorf("%s takes %v s of kernels", command, p.KernelS)
		}
	}
}

// What a command of another kind does is not known, nor that of an amount for which bytes and times are too large numbers, or
// that the program refuses.
func TestOthersAreNotEstimated(t *testing.T) {
	for _, command := range []string{
		"backprop", "backprop x", "backprop 0", "backprop -16", "backprop +16", "backprop 1e6", "backprop 0x100", "backprop 16777217", "backprop 16777216.0", "backprop 99999999999999999999",
		"backprop 1 2", "bfs graph.txt", "bfs graphs/graph.txt", "bfs graph8M.txt graph1M.txt", "bfs graph-8M.txt", "gaussian -s 4096", "mine 1",
		"needle 4294967295 10", "needle 2147483632 10", "needle 20001 10", "needle 20000 10 3", "needle 10 20000", "needle 16384 5",
		"lavaMD -boxes1d 4294967295", "lavaMD -boxes1d 278", "lavaMD 100", "lavaMD -boxes1d", "lavaMD -boxes1d 10 -boxes1d 100", "lavaMD -boxes1d=100",
		"srad_v1/srad 100 0.5 4294967295 4294967295", "srad_v1/srad 100 0.5 30000 30000", "srad_v1/srad 50 0.5 11000 11000", "srad_v1/srad 100 0.5 -11000 -11000",
		"srad_v2/srad 8200 8200 0 127 0 127 0.5 2", "srad_v2/srad 8192 8192 0 127 0 127 0.5 20", "srad_v2/srad 65536 65536 0 127 0 127 0.5 2",
		"dwt2d rgb.bmp -d 32768x32768 -f -5 -l 3", "dwt2d rgb.bmp -d 1024 -f -5 -l 3", "dwt2d rgb.bmp -d 0x1024 -f -5 -l 3", "dwt2d rgb.bmp -d 1024X1024 -f -5 -l 3", "dwt2d rgb.bmp -l 3 -f -5 -d 1024x1024",
		"dwt2d rgb.bmp -d 1024x1024x4 -f -5 -l 3", "dwt2d rgb.bmp -d 1024x1024 -f -5 -l 9",
		"darknet", "darknet detect", "darknet detect yolov3-tiny.cfg w", "darknet detect yolov3-tiny.cfg < l", "darknet detect yolov3-tiny.cfg w a b < l", "darknet detect yolov3-tiny.cfg w -footprint < l",
		"darknet detect yolov3-tiny.cfg w --verify < l", "darknet detect yolov3-tiny.cfg w -thresh < l", "darknet detect yolov3-tiny.cfg w -i 0 < l", "darknet detect YOLOv3-tiny.cfg w < l",
		"darknet classifier predict a.data none.cfg w < l", "darknet classifier predict darknet19.cfg < l", "darknet classifier predict a.data darknet19.cfg w", "darknet classifier valid a.data darknet19.cfg w < l",
		"darknet classifier train a.data cifar_small.cfg half.weights", "darknet classifier train a.data cifar.cfg",
		"darknet rnn generate rnn.cfg w -len 10000000000", "darknet rnn generate rnn.cfg w -len 0", "darknet rnn generate rnn.cfg w -len -5", "darknet rnn generate rnn.cfg w -len 1e5", "darknet rnn generate rnn.cfg w -len",
		"darknet rnn generate rnn.cfg w -len 100 -len 1000", "darknet rnn generate rnn.cfg -len 100", "darknet rnn train rnn.cfg w -len 100",
	} {
		set, notes := Catalog().Estimate([]mixes.Job{job(command)}, entries(0))
		if _, err := set.Lookup(job(command)); err == nil || slices.ContainsFunc(notes, func(n string) bool { return !strings.Contains(n, "is not estimated") }) {
			t.Errorf("%s: %q", command, notes)
		}
	}
	// Their kinds are known, and what is wrong is said.
	const train, graph = "darknet classifier train a.data cifar_small.cfg", "bfs data/graph8M.txt"
	const list = "darknet detect yolov3-tiny.cfg w < l"
	for _, c := range []struct {
		command, says string
		open          OpenFile
	}{
		{train, "max_batches=-5", entries(-5)},
		{train, "another network", file("[net]\nmax_batches=140\n")},
		{train, "another network", file(strings.Replace(string(networks()["cifar_small.cfg"]), "batch=128", "batch=256", 1))},
		{list, "another network", file(strings.Replace(string(networks()["yolov3-tiny.cfg"]), "width=416", "width=832", 1))},
		{list, "another network", file("")},
		{graph, "does not begin with its number of nodes", file("x\n")},
		{graph, "does not begin with its number of nodes", file("-5\n")},
		{graph, "does not begin with its number of nodes", file("")},
		{"backprop 536870912", "backprop refuses this size, or cannot count it in 32 bits", entries(0)},
		{"needle 016384 10", "the size 016384 is not plain decimal", entries(0)},
		{"dwt2d rgb.bmp -d 01024x1024 -f -5 -l 3", "the size 01024x1024 is not plain decimal", entries(0)},
		{"needle 20001 10", "needle refuses this size", entries(0)},
		{"dwt2d rgb.bmp -d 32768x32768 -f -5 -l 3", "dwt2d refuses this size", entries(0)},
		{"bfs graph999999M.txt", "takes graphs of 1 to 2147483647 nodes", entries(0)},
		{"bfs graph0.txt", "takes graphs of 1 to", entries(0)},
		{list, "permission denied", func(mixes.Job, string) (io.ReadCloser, error) { return nil, fs.ErrPermission }},
		{"darknet rnn generate rnn.cfg w -len 2000000000", "", entries(0)},
	} {
		set, notes := Catalog().Estimate([]mixes.Job{job(c.command), job(c.command)}, c.open)
		_, err := set.Lookup(job(c.command))
		if (err == nil) != (c.says == "") || len(notes) != 1 || !strings.Contains(notes[0], c.says) {
			t.Errorf("%s: %q, %v, want %q", c.command, notes, err, c.says)
		}
	}
}

// Of a file that is there, what is in it counts, and not its name.
func TestFilesAreRead(t *testing.T) {
	of := func(command string, open OpenFile) Profile {
		t.Helper()
		set, notes := Catalog().Estimate([]mixes.Job{job(command)}, open)
		p, err := set.Lookup(job(command))
		if err != nil {
			t.Fatal(err, notes)
		}
		return p
	}
	named, counted := of("bfs graph8M.txt", entries(0)), of("bfs graph16M.txt", file(" 8388608\r\n0 6\n"))
	if named.KernelS != counted.KernelS || named.Footprint != counted.Footprint {
		t.Errorf("by its name %+v, and by its first line %+v", named, counted)
	}
	const list = "darknet detect my/yolov3-tiny.cfg w < l"
	know := networks()["yolov3-tiny.cfg"]
	same := "# other words\n" + strings.ReplaceAll(strings.ReplaceAll(string(know), "=", " = "), "\n", "\r\n")
	listed := func(text string) OpenFile {
		return func(_ mixes.Job, file string) (io.ReadCloser, error) {
			if path.Ext(file) == ".cfg" {
				return opened([]byte(same))
			}
			return opened([]byte(text))
		}
	}
	whole, one := of(list, listed(strings.Repeat("a\r\n", inputs.MediumImages))), of(list, listed("a"))
	if want := measured(t, "darknet detect cfg/yolov3-tiny.cfg weights/yolov3-tiny.weights < images-medium.txt"); whole.KernelS != want.KernelS || one.KernelS <= 0 || one.KernelS > want.KernelS/1000 {
		t.Errorf("%v s of kernels, want %v; one picture %+v", whole.KernelS, want.KernelS, one)
	}
	// The catalog's command too: its list may be there and have others.
	const known = "darknet detect cfg/yolov3-tiny.cfg weights/yolov3-tiny.weights < images-medium.txt"
	if half, want := of(known, listed(strings.Repeat("a\n", inputs.MediumImages/2))), measured(t, known); half.KernelS < want.KernelS*0.49 || half.KernelS > want.KernelS*0.51 {
		t.Errorf("kernels of %v s with half the pictures, and %v s with all", half.KernelS, want.KernelS)
	}
	for _, command := range []string{known, list} {
		for _, text := range []string{"", "\n", "\r\n\r\n", "\x00\n\ra\n"} {
			set, notes := Catalog().Estimate([]mixes.Job{job(command), job(command)}, listed(text))
			if _, err := set.Lookup(job(command)); err == nil || len(notes) != 1 || !strings.Contains(notes[0], " has no entries: write the names of pictures into it") {
				t.Errorf("%s of %q: %v, %q", command, text, err, notes)
			}
		}
	}
	// Darknet takes a blank for a name, and any bytes.
	for text, want := range map[string]int64{"a\r\nb\r\n\r\n": 2, "a\n\nb": 2, " a\n\xff\n": 2, "\r \na": 1, "a \n": 1, "a\rb\n": 1, "\xef\xbb\xbf\n": 1, strings.Repeat("x", 100_000) + "\ny": 2} {
		if n, err := pictures(iotest.OneByteReader(strings.NewReader(text))); err != nil || n != want {
			t.Errorf("%.20q: %d pictures (%v), want %d", text, n, err, want)
		}
	}
}

// Darknet would end at the blanks.
func TestBlankNamesAreRefused(t *testing.T) {
	for text, line := range map[string]string{" \n": "line 1 ", "a\n\t \r\nb\n": "line 2 ", "a\n  ": "line 2 ", "\n \x00\n": "line 2 "} {
		if n, err := pictures(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), line) {
			t.Errorf("%q: %d pictures, %v, want an error with %q", text, n, err, line)
		}
	}
}

// A file of the catalog's own command that is there counts as it is, as that of any other command.
func TestFilesOfTheCatalogsCommands(t *testing.T) {
	const train, generate = "darknet classifier train cfg/cifar.data cfg/cifar_small.cfg", "darknet rnn generate cfg/rnn.cfg weights/shakespeare.weights -len 14000"
	const detect, bfs = "darknet detect cfg/yolov3-tiny.cfg weights/yolov3-tiny.weights < images-medium.txt", "bfs graph32M.txt"
	cifar := string(networks()["cifar_small.cfg"])
	fifo := func(mixes.Job, string) (io.ReadCloser, error) { return nil, fmt.Errorf("it is a FIFO") }
	for _, c := range []struct {
		command string
		open    OpenFile
		share   float64 // of the measured kernels; 0: it is not estimated
		says    string
	}{
		{train, entries(0), 1, ""},
		{train, file(cifar), 1, ""},
		{train, file("# ours\n" + cifar), 1, ""},
		{train, entries(inputs.CifarUpdates / 2), 0.5, "was measured with other files: its profile is estimated from"},
		{train, entries(-5), 0, "max_batches=-5"},
		{train, file(strings.Replace(cifar, "max_batches=140", "max_batches=0", 1)), 0, "max_batches=0"},
		{train, file(strings.Replace(cifar, "max_batches=140", "max_batches=1e2", 1)), 0, "max_batches=1e2"},
		{train, file(strings.Replace(cifar, "filters=", "filters=9", 1)), 0, "another network"},
		{train, file(""), 0, "another network"},
		{train, file("\x00\xffnoise"), 0, "another network"},
		{train, fifo, 0, "it is a FIFO"},
		{generate, entries(0), 1, ""},
		{generate, file(string(networks()["rnn.cfg"])), 1, ""},
		{generate, file(""), 0, "another network"},
		{generate, fifo, 0, "it is a FIFO"},
		{detect, file(""), 0, "another network"},
		{bfs, entries(0), 1, ""},
		{bfs, file("33554432\n0 6\n"), 1, ""},
		{bfs, file("16777216\n0 6\n"), 0.5, "was measured with other files: its profile is estimated from"},
		{bfs, file(""), 0, "does not begin with its number of nodes"},
		{bfs, fifo, 0, "it is a FIFO"},
	} {
		set, notes := Catalog().Estimate([]mixes.Job{job(c.command)}, c.open)
		p, err := set.Lookup(job(c.command))
		said := strings.Join(notes, "\n")
		if share := p.KernelS / measured(t, c.command).KernelS; (err != nil) != (c.share == 0) || math.Abs(share-c.share) > 0.02 || (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: %v of the kernels (%v), %q, want %v and %q", c.command, share, err, said, c.share, c.says)
		}
	}
}

// What Darknet refuses in an option takes no time at all.
func TestRefusedOptionsAreNotEstimated(t *testing.T) {
	for options, want := range map[string]string{
		"-thresh abc": "darknet refuses -thresh abc: want a number", "-thresh 0.5x": "want a number", "-thresh nan": "want a number", "-thresh inf": "want a number",
		"-temp x": "want a number", "-temp 0": "want more than 0", "-temp -1": "want more than 0", "-srand x": "darknet refuses -srand x", "--seed -1": "darknet refuses --seed -1", "--seed 1.5": "want a whole number",
		"-len x": "-len x: want a number of characters", "-len 0": "-len 0: want",
	} {
		command := "darknet rnn generate rnn.cfg w " + options
		set, notes := Catalog().Estimate([]mixes.Job{job(command)}, entries(0))
		if _, err := set.Lookup(job(command)); err == nil || len(notes) != 1 || !strings.Contains(notes[0], want) {
			t.Errorf("%s: %v, %q, want %q", command, err, notes, want)
		}
	}
	empty := job("darknet rnn generate rnn.cfg w")
	empty.Args = append(empty.Args, "-seed", "")
	if set, notes := Catalog().Estimate([]mixes.Job{empty}, entries(0)); len(notes) != 1 || !strings.Contains(notes[0], "-seed without a character") {
		t.Errorf("%q, %v", notes, set.IsEstimated(empty))
	}
}

func TestCifarUpdates(t *testing.T) {
	for _, f := range inputs.Files(1) {
		if f.Path == "cfg/cifar_small.cfg" && !strings.Contains(string(f.Content), "\nmax_batches=140\n") {
			t.Errorf("%d updates are not those of %s", inputs.CifarUpdates, f.Path)
		}
	}
}
