package profiles

import (
	"math"
	"strings"
	"testing"

	"github.com/caserun/caserun/benchmarks/darknet/inputs"
	"github.com/caserun/caserun/mixes"
)

func job(command string) mixes.Job {
	text, stdin, _ := strings.Cut(command, " < ")
	words := strings.Fields(text)
	return mixes.Job{Name: "j", Program: words[0], Args: words[1:], Stdin: stdin}
}

// estimated is the profile of a command that was not measured, and what is said of it. A file has so many entries, 0 if it is not
// there.
func estimated(t *testing.T, command string, entries int) (Profile, string) {
	t.Helper()
	set, notes := Catalog().Estimate([]mixes.Job{job(command)}, func(string) int { return entries })
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
	none := func(string) int { return 0 }
	before, _ := Catalog().Estimate([]mixes.Job{job("needle 40000 10")}, none)
	after, notes := before.Estimate([]mixes.Job{job("needle 45000 10")}, none)
	got, err := after.Lookup(job("needle 45000 10"))
	if want, note := estimated(t, "needle 45000 10", 0); err != nil || got.KernelS != want.KernelS || notes[0] != note {
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
	if p, _ = estimated(t, train, -5); p.KernelS != measured(t, "darknet classifier train cfg/cifar.data cfg/cifar_small.cfg").KernelS {
		t.Errorf("-5 updates take %v s of kernels", p.KernelS)
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

// What a command of another kind does is not known, nor that of an amount for which bytes and times are too large numbers.
func TestOthersAreNotEstimated(t *testing.T) {
	for _, command := range []string{
		"backprop", "backprop x", "backprop 0", "backprop 1 2", "bfs graph.txt", "srad_v1/srad 50 0.5 11000 11000", "gaussian -s 4096",
		"darknet classifier predict a.data none.cfg w < l", "darknet rnn generate rnn.cfg w", "darknet rnn generate rnn.cfg w -len 10000000000", "darknet", "darknet detect", "mine 1",
		"needle 4294967295 10", "lavaMD -boxes1d 4294967295", "srad_v1/srad 100 0.5 4294967295 4294967295",
	} {
		set, notes := Catalog().Estimate([]mixes.Job{job(command)}, func(string) int { return 0 })
		if _, err := set.Lookup(job(command)); err == nil || len(notes) > 0 {
			t.Errorf("%s: %q", command, notes)
		}
	}
}

func TestCifarUpdates(t *testing.T) {
	for _, f := range inputs.Files(1) {
		if f.Path == "cfg/cifar_small.cfg" && !strings.Contains(string(f.Content), "\nmax_batches=140\n") {
			t.Errorf("%d updates are not those of %s", inputs.CifarUpdates, f.Path)
		}
	}
}
