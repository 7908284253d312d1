package nvml

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

type sample struct {
	At    time.Duration
	Value float64
}

func encode(samples []sample, maxGap, maxSpan time.Duration) []Segment {
	e := encoder{maxGap: maxGap, maxSpan: maxSpan}
	var out []Segment
	for _, s := range samples {
		if done, ok := e.add(s.At, s.Value); ok {
			out = append(out, done)
		}
	}
	if done, ok := e.flush(); ok {
		out = append(out, done)
	}
	return out
}

// decode spreads a segment's samples evenly between its ends.
func decode(segments []Segment) []sample {
	var out []sample
	for _, s := range segments {
		for i := range s.Samples {
			at := s.First
			if i > 0 {
				at += (s.Last - s.First) * time.Duration(i) / time.Duration(s.Samples-1)
			}
			out = append(out, sample{at, s.Value})
		}
	}
	return out
}

func drawSamples(t *rapid.T, step *rapid.Generator[int]) []sample {
	at := time.Duration(rapid.IntRange(0, 50).Draw(t, "start")) * time.Millisecond
	values := rapid.SliceOf(rapid.SampledFrom([]float64{0, 0.37, 1, 1 << 40})).Draw(t, "values")
	out := make([]sample, len(values))
	for i, v := range values {
		out[i] = sample{at, v}
		at += time.Duration(step.Draw(t, "step")) * time.Millisecond
	}
	return out
}

func TestDecodeReturnsEvenSamplesExactly(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		in := drawSamples(t, rapid.Just(1))
		got := decode(encode(in, 5*time.Millisecond, 40*time.Millisecond))
		if len(in) == 0 && len(got) == 0 {
			return
		}
		if diff := cmp.Diff(in, got); diff != "" {
			t.Fatalf("decode(encode(x)) differs from x:\n%s", diff)
		}
	})
}

// With gaps and missed deadlines, everything except the stamps inside a segment is kept.
func TestSegmentsOfUnevenSamples(t *testing.T) {
	const maxGap, maxSpan = 8 * time.Millisecond, 60 * time.Millisecond
	chance.Check(t, func(t *rapid.T) {
		in := drawSamples(t, rapid.IntRange(1, 20))
		segments := encode(in, maxGap, maxSpan)
		i := 0
		for n, s := range segments {
			if s.Samples < 1 {
				t.Fatalf("segment %d has %d samples", n, s.Samples)
			}
			if s.Last-s.First > maxSpan {
				t.Errorf("segment %d lasts %v, want at most %v", n, s.Last-s.First, maxSpan)
			}
			run := in[i : i+s.Samples]
			if run[0].At != s.First || run[len(run)-1].At != s.Last {
				t.Errorf("segment %d spans %v to %v, its samples %v to %v",
					n, s.First, s.Last, run[0].At, run[len(run)-1].At)
			}
			for j, x := range run {
				if x.Value != s.Value {
					t.Errorf("segment %d has value %v, its sample %d has %v", n, s.Value, j, x.Value)
				}
				if j > 0 && x.At-run[j-1].At > maxGap {
					t.Errorf("segment %d bridges a gap of %v", n, x.At-run[j-1].At)
				}
			}
			i += s.Samples
		}
		if i != len(in) {
			t.Errorf("segments hold %d samples, want %d", i, len(in))
		}
	})
}

func TestSegmentsTable(t *testing.T) {
	const ms = time.Millisecond
	in := []sample{
		{0, 0}, {1 * ms, 0}, {2 * ms, 0.5}, // change
		{3 * ms, 0.5}, {20 * ms, 0.5}, // hole
		{21 * ms, 0.5}, {22 * ms, 0}, {23 * ms, 0.5},
	}
	want := []Segment{
		{First: 0, Last: 1 * ms, Samples: 2, Value: 0},
		{First: 2 * ms, Last: 3 * ms, Samples: 2, Value: 0.5},
		{First: 20 * ms, Last: 21 * ms, Samples: 2, Value: 0.5},
		{First: 22 * ms, Last: 22 * ms, Samples: 1, Value: 0},
		{First: 23 * ms, Last: 23 * ms, Samples: 1, Value: 0.5},
	}
	if diff := cmp.Diff(want, encode(in, 10*ms, time.Second)); diff != "" {
		t.Error(diff)
	}
}

// A value that does not change is delivered every maxSpan.
func TestSegmentsEnd(t *testing.T) {
	const ms = time.Millisecond
	in := []sample{{0, 1}, {1 * ms, 1}, {2 * ms, 1}, {3 * ms, 1}, {4 * ms, 1}}
	want := []Segment{{First: 0, Last: 2 * ms, Samples: 3, Value: 1}, {First: 3 * ms, Last: 4 * ms, Samples: 2, Value: 1}}
	if diff := cmp.Diff(want, encode(in, 10*ms, 2*ms)); diff != "" {
		t.Error(diff)
	}
}

func TestKindNamesAreDistinct(t *testing.T) {
	seen := map[string]Kind{}
	for k := range Kind(numKinds) {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
		if other, ok := seen[k.String()]; ok {
			t.Errorf("kinds %d and %d are both %q", k, other, k)
		}
		seen[k.String()] = k
	}
	if len(seen) != numKinds {
		t.Errorf("%d kinds, want %d", len(seen), numKinds)
	}
}
