package results

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

// heldAtGrants is PeakBytes computed the slow way.
func heldAtGrants(tasks []Task, end float64) (peak int64) {
	for _, at := range tasks {
		var sum int64
		for _, t := range tasks {
			if *t.GrantS <= *at.GrantS && t.HeldUntil(end) > *at.GrantS || t.Seq == at.Seq {
				sum += t.Bytes + t.HeapBytes + t.GrownBytes
			}
		}
		peak = max(peak, sum)
	}
	return peak
}

// Times are few, so that grants and releases fall together and before the end.
func TestPeakIsThatOfTheSlowWay(t *testing.T) {
	at := rapid.Map(rapid.IntRange(0, 8), func(n int) float64 { return float64(n) / 4 })
	chance.Check(t, func(t *rapid.T) {
		tasks := make([]Task, rapid.IntRange(0, 12).Draw(t, "tasks"))
		for i := range tasks {
			bytes := func(what string) int64 { return rapid.Int64Range(0, 100).Draw(t, what) }
			tasks[i] = Task{Seq: i, GrantS: new(at.Draw(t, "grant")), Bytes: bytes("bytes"), HeapBytes: bytes("heap"), GrownBytes: bytes("grown")}
			if rapid.Bool().Draw(t, "released") {
				tasks[i].ReleaseS = new(at.Draw(t, "release"))
			}
		}
		if got, want := PeakBytes(tasks, 2), heldAtGrants(tasks, 2); got != want {
			t.Errorf("peak %d, want %d", got, want)
		}
	})
}

// A task that was never granted holds nothing, and a task that was not released holds its memory to the end.
func TestMeanOfBytes(t *testing.T) {
	tasks := []Task{
		{Bytes: 4, HeapBytes: 3, GrownBytes: 1, GrantS: new(1.0), ReleaseS: new(2.0)}, {Bytes: 10, GrantS: new(3.0)},
		{Bytes: 100, GrantS: new(2.0), ReleaseS: new(2.0)}, {Bytes: 100}, {Bytes: 100, GrantS: new(5.0), ReleaseS: new(6.0)}}
	if got := MeanBytes(tasks, 4); got != (8+10)/4. {
		t.Errorf("mean %g, want 4.5", got)
	}
}

// The slow way would take a quarter of an hour for as many.
func TestPeakOfManyTasks(t *testing.T) {
	tasks := make([]Task, 400_000)
	for i := range tasks {
		tasks[i] = Task{Seq: i, GrantS: new(float64(i)), ReleaseS: new(float64(i) + 1.5), Bytes: 5}
	}
	if got := PeakBytes(tasks, 1e9); got != 10 {
		t.Errorf("peak %d, want 10", got)
	}
}
