package profiles

import (
	"maps"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// What a job used on several devices together says nothing of one device, but its kernels do.
func TestUsedOnSeveralDevices(t *testing.T) {
	job := func(index int, command string, devices ...int) results.Job {
		return results.Job{Index: index, Command: command, Devices: results.DeviceList(devices), UsedBytes: new(int64(4 << 30)), Outcome: new(results.OK)}
	}
	task := func(job int) results.Task {
		return results.Task{Job: job, Blocks: 7, ThreadsPerBlock: 32, GrantS: new(1.0)}
	}
	got := Used([]results.Job{job(0, "a"), job(1, "2 GPUs: a", 0, 1)}, []results.Task{task(0), task(1)})
	want := map[string]mixes.Footprint{"a": {Bytes: 4 << 30, Blocks: 7, ThreadsPerBlock: 32}, "2 GPUs: a": {Blocks: 7, ThreadsPerBlock: 32}}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
