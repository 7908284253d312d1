package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

// contender is a kernel that a test puts into a pool at a time.
type contender struct {
	at, solo, demand, pressure, sensitivity float64
	killed                                  float64 // when it is taken out; 0: never
}

// endsOf returns when kernels on one device are done.
func endsOf(kernels ...contender) []float64 {
	x, p := &Executor{}, newPool(1)
	ends := make([]float64, len(kernels))
	for i, k := range kernels {
		x.at(seconds(k.at), func() {
			a := x.share(p, &activity{demand: k.demand, solo: k.solo, contention: contention{pressure: k.pressure, sensitivity: k.sensitivity},
				done: func() { ends[i] = x.now.Seconds() }})
			if k.killed > 0 {
				x.at(seconds(k.killed), func() { x.leave(p, a) })
			}
		})
	}
	for x.step() {
	}
	return ends
}

func alike(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestKernelsContend(t *testing.T) {
	for _, c := range []struct {
		name    string
		kernels []contender
		want    []float64
	}{
		{"one that nobody disturbs", []contender{{0, 2, 0.5, 1, 1, 0}}, []float64{2}},
		{"one without the statement beside one that disturbs", []contender{{0, 2, 0.5, 0, 0, 0}, {0, 3, 0.5, 1, 0, 0}}, []float64{2, 3}},
		{"twice as long beside a pressure of 1", []contender{{0, 2, 0.5, 0, 1, 0}, {0, 9, 0.5, 1, 0, 0}}, []float64{4, 9}},
		{"half the pressure, twice the sensitivity", []contender{{0, 2, 0.5, 0, 2, 0}, {0, 9, 0.5, 0.5, 0, 0}}, []float64{4, 9}},
		{"pressures add up", []contender{{0, 2, 0.3, 0, 1, 0}, {0, 9, 0.3, 1, 0, 0}, {0, 9, 0.3, 0.5, 0, 0}}, []float64{5, 9, 9}},
		{"both suffer", []contender{{0, 2, 0.5, 1, 1, 0}, {0, 2, 0.5, 1, 1, 0}}, []float64{4, 4}},
		{"only while the other runs", []contender{{0, 2, 0.5, 0, 1, 0}, {1, 1, 0.5, 1, 0, 0}}, []float64{2.5, 2}},
		{"until the other is taken out", []contender{{0, 2, 0.5, 0, 1, 0}, {1, 9, 0.5, 1, 0, 2}}, []float64{2.5, 0}},
		{"beside sharing the SMs", []contender{{0, 1, 1, 0, 1, 0}, {0, 1, 1, 1, 0, 0}}, []float64{2.5, 2}},
		{"beside one that never ends", []contender{{0, 2, 0.5, 0, 1, 0}, {0, math.Inf(1), 0.5, 1, 1, 5}}, []float64{4, 0}},
	} {
		if got := endsOf(c.kernels...); !slices.EqualFunc(got, c.want, alike) {
			t.Errorf("%s: done at %v s, want %v", c.name, got, c.want)
		}
	}
}

// A kernel is never faster than alone, and never slower than beside all others for all of its time.
func TestContentionHasBounds(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		var kernels []contender
		pressure, demand := 0.0, 0.0
		for range rapid.IntRange(1, 6).Draw(t, "kernels") {
			draw := func(what string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, what) }
			k := contender{at: draw("at", 3), solo: 0.1 + draw("solo", 3), demand: draw("demand", 1), pressure: draw("pressure", 2), sensitivity: draw("sensitivity", 3)}
			kernels, pressure, demand = append(kernels, k), pressure+k.pressure, demand+k.demand
		}
		for i, end := range endsOf(kernels...) {
			k := kernels[i]
			longest := k.solo * max(1, demand) * (1 + k.sensitivity*(pressure-k.pressure))
			if took := end - k.at; took < k.solo-1e-6 || took > longest+1e-6 {
				t.Fatalf("kernel %d of %+v took %g s, want %g to %g", i, kernels, took, k.solo, longest)
			}
		}
	})
}

// The steps of jobs say it, with managed memory too, and without the statement nothing changes.
func TestStepsContend(t *testing.T) {
	const managed = `, "managed": true`
	for _, c := range []struct{ more, sensitive, pressing string }{
		{"", `, "sensitivity": 1`, `, "pressure": 1`},
		{managed, `, "sensitivity": 1`, `, "pressure": 1`},
		{"", "", ""},
		{managed, "", ""},
	} {
		x := `{"step": "allocate", "object": "x", "bytes": 2097152` + c.more + "}\n"
		_, rec := stepping(t, small(t, 1), "zero", x+kernel(1, 2, c.sensitive)+free("x"), x+kernel(1, 9, c.pressing)+free("x")).must(t)
		ends := []float64{0, 0}
		for _, k := range rec.Kernels {
			ends[k.Job] = k.EndS
		}
		want := 2.0
		if c.sensitive != "" {
			want = 4
		}
		if math.Abs(ends[0]-want) > 0.03 || math.Abs(ends[1]-9) > 0.03 { // of page faults
			t.Errorf("%q, %q: kernels end at %v s, want %g and 9", c.more, c.sensitive, ends, want)
		}
	}
}

// What a program takes longer where its memory can move counts only there.
func TestWhatMovableMemoryTakesLonger(t *testing.T) {
	job := `{"step": "allocate", "object": "x", "bytes": 1024, "movable_seconds": 0.5}` + "\n" + kernel(1, 1, `, "stoppable": true`) + free("x")
	for scheduler, want := range map[string]float64{"zero": 1, "sa": 1, "demand": 1 + 0.5} {
		if _, rec := stepping(t, small(t, 1), scheduler, job).must(t); !alike(rec.Kernels[0].EndS, want) {
			t.Errorf("%s: the kernel ends at %g s, want %g", scheduler, rec.Kernels[0].EndS, want)
		}
	}
}

// An object of which it is said what it takes is copied whenever it moves, although nothing was written to it.
func TestWhatLibcaseMakesIsCopied(t *testing.T) {
	for more, want := range map[string]float64{"": 0, `, "movable_seconds": 0.001`: moving(2, 2) - moving(2, 0)} {
		job := `{"step": "allocate", "object": "x", "bytes": "6GiB"` + more + "}\n" + kernel(1, 1, `, "reads": ["x"]`) + host(5) + free("x")
		_, rec := stepping(t, small(t, 1), "demand", job, job).must(t)
		copied := 0.0
		for _, s := range rec.Swaps {
			copied += s.CopyS
		}
		if !alike(copied, want) {
			t.Errorf("%s: moves copied for %g s, want %g", more, copied, want)
		}
	}
}

// A burst goes on if its process works on the host for so short that nobody notices.
func TestShortGapsEndNoBurst(t *testing.T) {
	for gap, want := range map[time.Duration][]float64{time.Millisecond: {1, 2.001, 3.001}, 2 * time.Millisecond: {1, 2, 3}} {
		first := allocate("x", "1GiB") + kernel(1, 1, "") + host(gap.Seconds()) + kernel(1, 1, "") + free("x")
		second := allocate("x", "1GiB") + kernel(1, 1, "") + free("x")
		_, rec := stepping(t, small(t, 1), "vgpu:n=1,bursts=on", first, second).must(t)
		var got []float64
		for _, k := range rec.Kernels {
			got = append(got, k.EndS)
		}
		slices.Sort(got)
		if !slices.EqualFunc(got, want, alike) {
			t.Errorf("a gap of %v: kernels end at %v s, want %v", gap, got, want)
		}
	}
}
