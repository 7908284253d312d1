package live

import (
	"testing"

	"github.com/caserun/caserun/results"
)

// A kernel with 4 KiB of local memory takes 792 MiB of the fake device. Jobs with such kernels that do not fit side by side wait,
// whether their task knows its kernel when it begins or grows by it.
func TestJobsWaitForLocalMemory(t *testing.T) {
	for _, way := range []string{"first", "silent"} {
		r := newSwapRig(t, "case-alg3:queue=fifo", 4)
		r.swap, r.device.CapacityBytes = nil, 1024*mebibyte
		for i := range r.jobs {
			r.jobs[i].Args = []string{"deep", way}
		}
		jobs, rec := r.mustRun()
		for i, j := range jobs {
			if *j.Outcome != results.OK {
				t.Errorf("%s: job %d: %s: %s\n%s", way, i, *j.Outcome, j.Detail, r.output(i))
			}
		}
		on := make([][]results.Task, 2)
		for _, task := range rec.tasks {
			on[*task.Device] = append(on[*task.Device], task)
		}
		for device, tasks := range on {
			for _, task := range tasks {
				if way == "silent" && task.GrownBytes != 792*mebibyte {
					t.Errorf("a task grew by %d bytes", task.GrownBytes)
				}
			}
			// A growth counts from the task's grant on, however late it was.
			if most := results.PeakBytes(tasks, 0); way == "first" && (most > r.device.CapacityBytes || most < 792*mebibyte) {
				t.Errorf("tasks held %d bytes on device %d at one time", most, device)
			}
		}
	}
}
