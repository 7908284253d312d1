package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObserve(t *testing.T) {
	job := Job{Outcome: new(OK), StartS: new(1.0), EndS: new(20.0)}
	tasks := []Task{
		{Seq: 0, Bytes: 100, HeapBytes: 10, GrownBytes: 5, SubmitS: 3, GrantS: new(5.0), ReleaseS: new(8.0)},
		{Seq: 1, Bytes: 70, SubmitS: 9, GrantS: new(9.0), ReleaseS: new(12.5)},
		{Seq: 2, Bytes: 900, SubmitS: 13}, // it was never granted
	}
	got, ok := Observe(job, tasks)
	want := Expected{BeforeS: 2, HeldS: 6.5, AfterS: 7.5, Bytes: 115}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", ok, diff)
	}
	used := job
	used.UsedBytes = new(int64(99))
	if got, _ := Observe(used, tasks); got.Bytes != 99 {
		t.Errorf("%d bytes, want what the job used", got.Bytes)
	}
	// A task without a release was held until the end.
	got, ok = Observe(job, []Task{{SubmitS: 1, GrantS: new(4.0)}})
	if want := (Expected{HeldS: 16}); !ok || got != want {
		t.Errorf("%v %+v, want %+v", ok, got, want)
	}
	crashed := job
	crashed.Outcome = new(Crash)
	for name, j := range map[string]Job{"crashed": crashed, "running": {StartS: new(0.0)}} {
		if _, ok := Observe(j, tasks); ok {
			t.Errorf("something is known of a job that is %s", name)
		}
	}
	if _, ok := Observe(job, tasks[2:]); ok {
		t.Error("something is known of a job without a device")
	}
}
