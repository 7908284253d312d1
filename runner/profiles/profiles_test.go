package profiles

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
)

// measuredWallS is the measured wall time of each job alone on the H200, in seconds. The phases were
// derived from it and must add up to it.
var measuredWallS = map[string]float64{
	"backprop-8388608":  6.50,
	"bfs-32M":           28.61,
	"srad_v2-8192":      2.11,
	"dwt2d-8192":        0.43,
	"needle-16384":      2.48,
	"backprop-16777216": 10.32,
	"srad_v1-11000":     10.57,
	"backprop-33554432": 22.95,
	"srad_v2-16384":     7.21,
	"srad_v1-15000":     23.66,
	"lavaMD-100":        14.34,
	"dwt2d-16384":       0.72,
	"needle-32768":      8.15,
	"backprop-67108864": 38.20,
	"lavaMD-110":        18.44,
	"srad_v1-20000":     39.54,
	"lavaMD-120":        23.33,
}

func TestPhasesAddUpToTheMeasuredWallTime(t *testing.T) {
	for _, job := range mixes.Jobs() {
		p, err := Catalog().Lookup(job)
		if err != nil {
			t.Error(err)
			continue
		}
		want, measured := measuredWallS[job.Name]
		tolerance := 0.001
		if p.Kernels == Estimated {
			tolerance = 0.01 // the measured phases do not include the estimate
		}
		if got := p.WallS(); !measured || math.Abs(got-want) > tolerance {
			t.Errorf("%s: phases add up to %.3f s, measured %.3f s", job.Name, got, want)
		}
		if p.Job != job.Name || strings.HasPrefix(job.Name, "srad_v2") != (p.Kernels == Estimated) {
			t.Errorf("%s: profile of %s with kernels %s, want estimates of srad_v2 alone", job.Name, p.Job, p.Kernels)
		}
	}
}

func TestLookupOfAnUnknownCommandNamesIt(t *testing.T) {
	j := mixes.Job{Name: "needle-32768", Program: "needle", Args: []string{"64", "10"}}
	if _, err := Catalog().Lookup(j); err == nil || !strings.Contains(err.Error(), `"needle 64 10"`) {
		t.Errorf("error %v, want one that names the command", err)
	}
}

func some() []Profile {
	return []Profile{
		{Job: "solver", Command: `./my/solver -n 512 "two words, and a comma"`, HostBeforeS: 1.0 / 3, HostHeldS: 2, HostAfterS: 1e-9,
			CopyInBytes: 1 << 40, CopyInS: 0.25, KernelS: 7, CopyOutBytes: 3, CopyOutS: 0.125, Kernels: Traced,
			Footprint: mixes.Footprint{Bytes: 5 << 30, Blocks: 1 << 33, ThreadsPerBlock: 1024},
			GPU:       `NVIDIA "H200"`, Driver: "580.159.03", MeasuredAt: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
			KernelPhases: []KernelPhase{{SMs: 0, S: 1.0 / 3}, {SMs: 4.125, S: 1e-7}, {SMs: 1 << 40, S: 7 - 1.0/3 - 1e-7}}, Rounds: 32},
		{Job: "static", Command: "./static", HostHeldS: 12, Kernels: Untraced},
	}
}

func TestWrittenProfilesReadBackTheSame(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file)
	for _, p := range some() {
		if err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read("f.csv", &file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Profile{}
	for _, p := range some() {
		want[p.Command] = p
	}
	if diff := cmp.Diff(want, got.byCommand); diff != "" {
		t.Error(diff)
	}
}

// A user's file takes precedence over the catalog, which does not change.
func TestFilesGoBeforeTheCatalog(t *testing.T) {
	needle := mixes.Job{Program: "needle", Args: []string{"16384", "10"}}
	row := "mine,needle 16384 10,1,0,0,,0,0,,0,traced,1024,,,,,,,\n"
	more, err := Read("f.csv", strings.NewReader(strings.Join(format.Header(), ",")+"\n"+row))
	if err != nil {
		t.Fatal(err)
	}
	both := Catalog().With(more)
	if p, err := both.Lookup(needle); err != nil || p.Job != "mine" {
		t.Errorf("%+v, %v, want the file's", p, err)
	}
	if p, err := Catalog().Lookup(needle); err != nil || p.Job != "needle-16384" {
		t.Errorf("%+v, %v, want the catalog's own", p, err)
	}
	jobs := both.Declare([]mixes.Job{needle, {Program: "needle", Args: []string{"16384", "10"}, Footprint: mixes.Footprint{Bytes: 7}}, {Program: "./x"}}, true)
	if jobs[0].Footprint.Bytes != 1024 || jobs[0].Class != mixes.ClassSmall || jobs[1].Footprint.Bytes != 7 || jobs[2].Footprint.Bytes != 0 {
		t.Errorf("footprints %+v, want the file's only where the mix has none", jobs)
	}
}

// Files from before kernel phases are still read.
func TestReadsAnEarlierFile(t *testing.T) {
	text := "job,command,host_before_s,host_held_s,host_after_s,copy_in_bytes,copy_in_s,kernel_s,copy_out_bytes,copy_out_s," +
		"kernels,memory_bytes,blocks,threads_per_block,gpu,driver,measured_at\nown,./own,1,2,4,,0,8,,0,traced,7,,,,,\n"
	set, err := Read("f.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Profile{"./own": {Job: "own", Command: "./own", HostBeforeS: 1, HostHeldS: 2, HostAfterS: 4, KernelS: 8,
		Kernels: Traced, Footprint: mixes.Footprint{Bytes: 7}}}
	if diff := cmp.Diff(want, set.byCommand); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	head := strings.Join(format.Header(), ",") + "\n"
	good := "a,a,1,1,1,,1,1,,1,traced,,,,,,,,\n"
	for _, c := range []struct{ text, want string }{
		{"", "f.csv:1: want the header"},
		{"job,wall_s\n", "f.csv:1: want the header job,command"},
		{head + good + "b,b,1,1,1,,-1,1,,1,traced,,,,,,,,\n", `f.csv:3: copy_in_s is "-1"`},
		{head + "a,a,1,NaN,1,,1,1,,1,traced,,,,,,,,\n", `f.csv:2: host_held_s is "NaN"`},
		{head + "a,a,1,1,1,,1,Inf,,1,traced,,,,,,,,\n", `f.csv:2: kernel_s is "Inf"`},
		{head + "a,a,1,1,1,,1,1e10,,1,traced,,,,,,,,\n", `f.csv:2: kernel_s is "1e10": want seconds, a number from 0 to 10000000`},
		{head + "a,a,1,1,,,1,1,,1,traced,,,,,,,,\n", `f.csv:2: host_after_s is ""`},
		{head + "a,a,1,1,1,-5,1,1,,1,traced,,,,,,,,\n", `f.csv:2: copy_in_bytes is "-5"`},
		{head + "a,a,1,1,1,,1,1,,1,traced,1e9,,,,,,,\n", `f.csv:2: memory_bytes is "1e9"`},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,4294967296,,,,,\n", `threads_per_block is "4294967296"`},
		{head + "a,a,1,1,1,,1,1,,1,guessed,,,,,,,,\n", "want traced, estimated or untraced"},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,,,,yesterday,,\n", `measured_at is "yesterday"`},
		{head + "a,,1,1,1,,1,1,,1,traced,,,,,,,,\n", `f.csv:2: command is ""`},
		{head + good + "b,a,1,1,1,,1,1,,1,traced,,,,,,,,\n", `f.csv:3: duplicate command "a" (first in line 2)`},
		{head + "a,1\n", "f.csv:2: 2 fields, want 19"},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,,,,,5:0.5,2\n", `f.csv:2: kernel_phases is "5:0.5": its seconds add up to 0.5, want kernel_s, which is 1`},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,,,,,5:0.5 3,2\n", `want SMS:SECONDS for each phase`},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,,,,,5:0.5 -3:0.5,2\n", `want SMS:SECONDS for each phase`},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,,,,,5:1,-2\n", `rounds is "-2"`},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,,,,,5:1,101\n", `rounds is "101": want a whole number from 0 to 100, or nothing`},
		{head + "a,a,1,1,1,,1,1,,1,traced,,,1025,,,,,\n", `threads_per_block is "1025": want a whole number from 0 to 1024, or nothing`},
		{head + "a,a,1,1,1,,1,0,,1,traced,,,,,,,1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0,2\n", `9 phases, want at most 8`},
		{strings.Join(format.Header()[:18], ",") + "\n", "f.csv:1: want the header"},
		{strings.Join(format.Header()[:17], ",") + "\na,a,1,1,1,,1,1,,1,traced,,,,,,,5:1,2\n", "f.csv:2: 19 fields, want 17"},
		{head + good + "a,\"b\n", "f.csv:3: not CSV"},
	} {
		if _, err := Read("f.csv", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestLasting(t *testing.T) {
	p := Profile{HostBeforeS: 1, HostHeldS: 2, HostAfterS: 5, CopyInS: 0.5, KernelS: 1, CopyOutS: 0.5}
	for _, c := range []struct {
		seconds, before, held, after float64
	}{
		{10, 1, 2, 5},
		{18, 2, 4, 10},
		{6, 0.5, 1, 2.5},
		{2, 0, 0, 0},
		{1, 0, 0, 0}, // it lasts for its copies and kernels at least
	} {
		got, want := p.lasting(c.seconds), p
		want.HostBeforeS, want.HostHeldS, want.HostAfterS = c.before, c.held, c.after
		if !reflect.DeepEqual(got, want) {
			t.Errorf("of %v s: %+v, want %+v", c.seconds, got, want)
		}
	}
	if got := (Profile{KernelS: 1}).lasting(3); got.HostHeldS != 2 || got.WallS() != 3 {
		t.Errorf("without host time: %+v", got)
	}
}

func TestFitted(t *testing.T) {
	p := Profile{Command: "a", HostBeforeS: 1, KernelS: 1}
	of := Set{byCommand: map[string]Profile{"a": p, "b": {Command: "b"}}}
	fitted, missing, long := of.Fitted("V100", map[string][]float64{"a": {9, 3, 5}, "d": {1}, "c": {1}})
	p.HostBeforeS, p.GPU = 4, "V100"
	if !reflect.DeepEqual(fitted.All(), []Profile{p}) || !reflect.DeepEqual(missing, []string{"c", "d"}) || long != nil {
		t.Errorf("%+v, without a profile %q, too long %q", fitted.All(), missing, long)
	}
	fitted, _, long = of.Fitted("V100", map[string][]float64{"a": {0.5}})
	p.HostBeforeS = 0
	if !reflect.DeepEqual(fitted.All(), []Profile{p}) || !reflect.DeepEqual(long, []string{"a"}) {
		t.Errorf("%+v, too long %q: kernels of 1 s do not get shorter", fitted.All(), long)
	}
}

// What the catalog says that PILOT's programs do allocates what their mixes state, but for a few buffers, and the 16 MiB that a task is
// charged beyond its footprint.
func TestPilotProfilesHaveTheMemoryOfTheirMixes(t *testing.T) {
	names, err := mixes.Match("P-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		m, err := mixes.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range m.Jobs {
			p, err := Catalog().Lookup(j)
			if err != nil {
				t.Fatal(err)
			}
			bytes, kernels := int64(0), 0.0
			for _, s := range p.Steps(j.Footprint, 0) {
				if s.Kind == Allocate {
					bytes += s.Bytes
					if s.Managed != mixes.Managed(j) {
						t.Errorf("%s: %+v", j.Command(), s)
					}
				}
				if s.Kind == Kernel {
					kernels += s.S
				}
			}
			if off := float64(j.Footprint.Bytes + 16<<20 - bytes); p.Job != j.Name || p.Kernels != Estimated || math.Abs(off) > 0.001*float64(bytes) || kernels < 0.2 {
				t.Errorf("%s: %s with %d bytes in steps, %d in the mix, %g s of kernels", j.Name, p.Job, bytes, j.Footprint.Bytes, kernels)
			}
		}
	}
}
