package harness

import (
	"context"
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// A job that grew in an earlier run, and whose mix states no memory, asks first for what it reached there, unless the user does not
// want that, or the device is smaller now.
func TestJobsAskForWhatTheyReached(t *testing.T) {
	const gib = 1 << 30
	const reached = 5 * gib / 2 // without the heap
	used, grown := int64(3*gib), int64(2*gib)
	db := openScratch(t)
	ended := func(_ context.Context, to Recorder) (jobs []results.Job, _ error) {
		for i, name := range []string{"grows", "stays", "fails", "grows"} {
			j := results.Job{Index: i, Name: name, Command: "./" + name, Device: new(0), StartS: new(0.0), EndS: new(2.0), UsedBytes: new(used), Outcome: new(results.OK)}
			task := results.Task{Job: i, Bytes: gib / 2, HeapBytes: gib / 2, GrownBytes: grown, Device: new(0), GrantS: new(0.5), ReleaseS: new(1.5)}
			switch name {
			case "stays":
				task.GrownBytes = 0
			case "fails":
				j.Outcome = new(results.OOM)
			}
			to.Job(j)
			to.Task(task)
			jobs = append(jobs, j)
		}
		return jobs, nil
	}
	job := func(name string) mixes.Job { return mixes.Job{Name: name, Program: "./" + name} }
	mix := mixes.Mix{Name: "mine", Jobs: []mixes.Job{job("grows"), job("stays"), job("fails"), job("grows")}}
	mix.Jobs[3].Footprint.Bytes = gib
	for i, c := range []struct {
		sched   string
		options Options
		free    int64
		want    []int64
		changed bool // its jobs use less from this run on
	}{
		{"case-alg3", Options{}, 8 * gib, []int64{0, 0, 0, gib}, false}, // the first run
		{"case-alg3", Options{}, 8 * gib, []int64{reached, 0, 0, gib}, false},
		{"demand", Options{}, 8 * gib, []int64{reached, 0, 0, gib}, false},
		{"sa", Options{}, 8 * gib, []int64{0, 0, 0, gib}, false},
		{"case-alg3", Options{NoFootprints: true}, 8 * gib, []int64{0, 0, 0, gib}, false},
		{"case-alg3", Options{NoMPS: true, Context: size.AmountOf(gib / 2)}, 7*gib/2 + allowance, []int64{reached, 0, 0, gib}, false},
		{"case-alg3", Options{NoMPS: true, Context: size.AmountOf(gib / 2)}, 7*gib/2 + allowance - 1, []int64{0, 0, 0, gib}, false},
		{"case-alg3", Options{}, 3*gib + allowance, []int64{0, 0, 0, gib}, false}, // less what the MPS server takes
		{"case-alg3", Options{MemCap: size.AmountOf(3 * gib), Context: size.AmountOf(gib / 2)}, 8 * gib, []int64{0, 0, 0, gib}, false},
		{"case-alg3", Options{}, 8 * gib, []int64{reached, 0, 0, gib}, true},
		{"case-alg3", Options{}, 8 * gib, []int64{reached, 0, 0, gib}, false},
		{"case-alg3", Options{}, 8 * gib, []int64{reached, 0, 0, gib}, false},
		{"case-alg3", Options{}, 8 * gib, []int64{gib / 2, 0, 0, gib}, false}, // the latest three used so much
	} {
		if c.changed {
			used, grown = gib, 0
		}
		backend := &scripted{execute: ended, gpu: "NVIDIA H200", free: c.free, options: c.options}
		o, err := Execute(t.Context(), backend, Request{Store: db, Mix: mix, Configuration: Configuration{Sched: c.sched}, Say: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		if o.Run.Status != results.Complete {
			t.Fatalf("the run is %s", o.Run.Status)
		}
		var got []int64
		for _, j := range backend.opened.Mix.Jobs {
			got = append(got, j.Footprint.Bytes)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("case %d: footprints %v, want %v", i, got, c.want)
		}
		told := slices.ContainsFunc(backend.opened.Notes, func(e results.Event) bool { return e.Kind == results.EventReached && *e.Job == 0 })
		if told != (c.want[0] > 0) {
			t.Errorf("case %d: events %+v", i, backend.opened.Notes)
		}
		if mix.Jobs[0].Footprint.Bytes != 0 {
			t.Fatal("the caller's jobs have changed")
		}
	}
}
