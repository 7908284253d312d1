package runner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What processes of a job used is added up where they had a device at the same time. Processes
// without a device do not count. If a process does not tell, the sum is unknown.
func TestUsedOfAJobOfProcesses(t *testing.T) {
	jobs, rec := setup{scheduler: "zero", jobs: probed(4)}.run(t, func(f *fake) {
		f.started(0, 1, 2, 3)
		gone := func(job, process int, used int64) {
			f.batch.Used(job, process, used)
			f.batch.ProcessGone(job, process, true, f.now)
		}
		f.at(1)
		f.beginAs(0, 1, 1)
		f.beginAs(0, 2, 1)
		f.beginAs(1, 6, 1)
		f.at(2)
		gone(0, 1, 50)
		gone(0, 2, 70)
		gone(0, 3, 9000) // it never had a device
		f.at(3)
		f.beginAs(0, 4, 1)
		f.beginAs(1, 7, 1)
		f.at(4)
		gone(0, 4, 110)
		gone(1, 6, 50)
		f.batch.ProcessGone(1, 7, true, f.now)
		f.ended(0, 1, 2)
		f.beginAs(3, 8, 1)
		gone(3, 8, 130) // within one reading of the clock
		f.ended(3)
	})
	for i, want := range []*int64{new(int64(120)), nil, nil, new(int64(130))} {
		if diff := cmp.Diff(want, jobs[i].UsedBytes); diff != "" {
			t.Errorf("job %d: %s", i, diff)
		}
		if diff := cmp.Diff(want, rec.jobs[i].UsedBytes); diff != "" {
			t.Errorf("recorded of job %d: %s", i, diff)
		}
	}
}
