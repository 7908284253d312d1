package store

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
)

// segmentsOf draws segments of one series in the order of time.
func segmentsOf(t *rapid.T) []results.Segment {
	scale := rapid.SampledFrom([]float64{1, 100}).Draw(t, "scale")
	longest := rapid.SampledFrom([]float64{0, 0.001, 0.1}).Draw(t, "longest")
	most := rapid.SampledFrom([]int64{1, 100, 1000}).Draw(t, "largest value")
	at := rapid.Float64Range(-1, 1e5).Draw(t, "start")
	var out []results.Segment
	for range rapid.IntRange(fewest, 300).Draw(t, "n") {
		s := results.Segment{Device: 1, Series: results.SeriesGPU, FirstS: at,
			LastS:   at + rapid.Float64Range(0, longest).Draw(t, "length"),
			Samples: rapid.Int64Range(1, 100).Draw(t, "samples"),
			Value:   ptr(float64(rapid.Int64Range(0, most).Draw(t, "value")) / scale)}
		out = append(out, s)
		at = s.LastS + rapid.Float64Range(2e-6, 0.002).Draw(t, "gap")
	}
	return out
}

func TestPackingKeepsAllButNanoseconds(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		for rest := segmentsOf(t); len(rest) >= fewest; {
			b, ok := pack(rest)
			if !ok {
				t.Fatalf("not packed: %+v", rest[0])
			}
			got, err := b.unpack(nil)
			if err != nil || len(got) == 0 || len(got) > len(rest) {
				t.Fatalf("%d segments of %d (%v)", len(got), len(rest), err)
			}
			for i, s := range got {
				want := rest[i]
				if math.Abs(s.FirstS-want.FirstS) > 0.51e-6 || math.Abs(s.LastS-want.LastS) > 0.51e-6 ||
					s.Samples != want.Samples || *s.Value != *want.Value || s.Device != 1 || s.Series != want.Series {
					t.Fatalf("segment %d is %+v with %v, want %+v with %v", i, s, *s.Value, want, *want.Value)
				}
			}
			rest = rest[len(got):]
		}
	})
}

func TestWhatCannotBePacked(t *testing.T) {
	good := results.Segment{FirstS: 1, LastS: 2, Samples: 3, Value: ptr(0.5)}
	for name, spoil := range map[string]func(*results.Segment){
		"unknown":      func(s *results.Segment) { s.Value = nil },
		"a third":      func(s *results.Segment) { s.Value = ptr(1.0 / 3) },
		"negative":     func(s *results.Segment) { s.Value = ptr(-1.0) },
		"not a number": func(s *results.Segment) { s.Value = ptr(math.NaN()) },
		"huge":         func(s *results.Segment) { s.Value = ptr(1e300) },
		"ends before":  func(s *results.Segment) { s.LastS = 0 },
		"far away":     func(s *results.Segment) { s.FirstS, s.LastS = 1e12, 1e12 },
		"too wide":     func(s *results.Segment) { s.Value, s.LastS, s.Samples = ptr(float64(1<<50)), 1e8, 1<<40 },
		"no samples":   func(s *results.Segment) { s.Samples = 0 },
	} {
		bad := good
		spoil(&bad)
		many := slices.Repeat([]results.Segment{good}, 2*fewest)
		many[1] = bad
		if b, ok := pack(many); ok {
			t.Errorf("%s: packed as %+v", name, b)
		}
		many[1], many[fewest+1] = good, bad
		if b, ok := pack(many); !ok || b.n != fewest {
			t.Errorf("%s: of the %d before it %d are packed", name, fewest, b.n)
		}
	}
	if _, ok := pack(nil); ok {
		t.Error("nothing was packed")
	}
	b, ok := pack(slices.Repeat([]results.Segment{good}, fewest))
	if !ok || b.width() != 0 {
		t.Errorf("equal rows take %d bits each", b.width())
	}
	b.packed = b.packed[:4]
	if _, err := b.unpack(nil); err == nil {
		t.Error("a block that lacks bytes was unpacked")
	}
}

// The view unpacks in SQL what Segments unpacks in Go.
func TestViewAndReaderAgreeOnBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	ctx := context.Background()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	about, found := fullRun()
	id, err := s.BeginRun(ctx, about, found)
	if err != nil {
		t.Fatal(err)
	}
	w := s.Writer(id)
	total := 0
	write := func(x results.Segment) { w.Segment(x); total++ }
	for i := range 4000 {
		at := float64(i)*0.001 - 0.5
		dense := results.Segment{Device: 0, Series: results.SeriesGPU, FirstS: at + float64(i%7)*1e-6, LastS: at + float64(i%7)*1e-6,
			Samples: 1, Value: ptr(float64(i*i%101) / 100)}
		first := results.Segment{Device: 0, Series: dense.Series, FirstS: dense.FirstS, LastS: dense.FirstS, Samples: 1}
		if i%5 > 0 { // it could be packed
			first.Value = ptr(0.02)
		}
		w.Segment(first)
		write(dense) // which replaces the one before
		write(results.Segment{Device: 1, Series: results.SeriesMemory, FirstS: at * 200, LastS: at*200 + 0.1, Samples: int64(i%50 + 1),
			Value: ptr(float64(i%3) * (2 << 30))})
	}
	for i := range 2000 { // out of order in the middle
		write(results.Segment{Device: 1, Series: results.SeriesGPU, FirstS: float64((i*1999 + 7) % 2000), LastS: float64((i*1999+7)%2000) + 0.1,
			Samples: 1, Value: ptr(0.5)})
	}
	if err := w.Finish(ctx, about); err != nil {
		t.Fatal(err)
	}
	direct, err := s.Segments(ctx, id)
	if err != nil || len(direct) != total {
		t.Fatalf("%d segments of %d (%v)", len(direct), total, err)
	}
	var loose, packed int
	if err := s.read.QueryRow("SELECT (SELECT count(*) FROM _segment), (SELECT sum(n) FROM _segment_block)").Scan(&loose, &packed); err != nil {
		t.Fatal(err)
	}
	if loose+packed != total || loose >= 2000+fewest { // of 2,000 the order is wrong
		t.Errorf("%d rows and %d in blocks, want %d together, and all in blocks whose order is right", loose, packed, total)
	}
	viewed := view(t, s, id)
	if diff := cmp.Diff(direct, viewed); diff != "" {
		t.Errorf("(-Segments +view):\n%.4000s", diff)
	}
	var exported []results.Segment
	tables, err := s.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	last := tables[len(tables)-1]
	var columns []string
	for _, c := range last.Columns {
		columns = append(columns, c.Name)
	}
	if want := []string{"run_id", "device_index", "series", "first_s", "last_s", "samples", "value"}; !slices.Equal(columns, want) {
		t.Errorf("table %s has columns %v, want %v", last.Name, columns, want)
	}
	if err := s.Rows(ctx, last, Filter{}, func(c []any) error {
		exported = append(exported, results.Segment{Device: int(c[1].(int64)), Series: results.Series(c[2].(string)), FirstS: c[3].(float64),
			LastS: c[4].(float64), Samples: c[5].(int64), Value: ptr(c[6].(float64))})
		return nil
	}); err != nil || !cmp.Equal(direct, exported) {
		t.Errorf("Rows gives other segments (%v)", err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := s.CopyRuns(ctx, copied, Filter{}); err != nil {
		t.Fatal(err)
	}
	c, err := OpenReadOnly(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if again, err := c.Segments(ctx, id); err != nil || !cmp.Equal(direct, again) {
		t.Errorf("the copy has other segments (%v)", err)
	}
}

func view(t *testing.T, s *Store, run int64) []results.Segment {
	t.Helper()
	public := segments
	public.table = "utilization"
	got, err := list(context.Background(), s, public, run)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
