package sim

import (
	"slices"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// onTwo makes a job of a trial one of two devices.
func (r trial) onTwo(job int, bytes int64) trial {
	j := &r.jobs[job]
	j.GPUs, j.Binding, j.Footprint.Bytes = 2, mixes.BindDeclared, bytes
	return r
}

// A job of two devices does its steps on both at the same time, and its host steps once. It waits until it gets both.
func TestAJobOfTwoDevices(t *testing.T) {
	steps := host(1) + allocate("a", "2GiB") + transfer("in", "a", "1GiB") + kernel(9, 3, "") + host(1) + allocate("b", "1GiB") + kernel(9, 1, "") + free("a", "b") + host(1)
	r := stepping(t, small(t, 2), "case-alg3:queue=fifo", steps, host(1)+allocate("x", "9GiB")+kernel(9, 1, "")).onTwo(0, 3*gib)
	jobs, rec := r.must(t)
	wantOutcome(t, jobs[0], results.OK, 1+1+3+1+1+1)
	if j := jobs[0]; j.Devices == nil || *j.Devices != "0,1" || *j.Device != 0 {
		t.Errorf("job 0: %+v", j)
	}
	wantOutcome(t, jobs[1], results.OK, 8+1)
	tasks := rec.of(0)
	if len(tasks) != 2 {
		t.Fatalf("tasks of job 0: %+v", tasks)
	}
	for i, k := range tasks {
		if *k.Device != i || *k.GrantS != 1 || *k.ReleaseS != 7 || k.Bytes+k.GrownBytes != 3*gib || k.Blocks != 9 {
			t.Errorf("task %d: %+v", i, k)
		}
	}
	var kernels [][3]float64
	for _, k := range rec.Kernels {
		if k.Job == 0 {
			kernels = append(kernels, [3]float64{float64(k.Device), k.StartS, k.EndS})
		}
	}
	if want := [][3]float64{{0, 2, 5}, {1, 2, 5}, {0, 6, 7}, {1, 6, 7}}; !slices.Equal(kernels, want) {
		t.Errorf("kernels on devices, from and to: %v, want %v", kernels, want)
	}
	wantUtilizationWithoutGaps(t, rec, jobs)
}

// A step ends when the last device has done it: beside another job, and on a device of another model.
func TestTheLastDeviceEndsAStep(t *testing.T) {
	busy := allocate("x", "1GiB") + kernel(132*32, 4, "")
	r := stepping(t, small(t, 2), "case-alg3:queue=fifo", busy, allocate("a", "1GiB")+kernel(132*32, 2, "")).onTwo(1, gib)
	jobs, _ := r.must(t)
	wantOutcome(t, jobs[1], results.OK, 4) // half as fast on device 0
	wantOutcome(t, jobs[0], results.OK, 6)

	r = stepping(t, mustNode(t, oneOfEach), "sa", allocate("a", "64MiB")+kernel(132*32, 2, "")).onTwo(0, 64<<20)
	jobs, _ = r.must(t)
	wantEnd(t, jobs[0], 2*onQuadro)
}

// Whatever ends such a job, both devices get back all: memory that one of them lacks, a limit in mid-kernel, managed memory, noise.
func TestAJobOfTwoDevicesLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		steps   string
		outcome results.Outcome
	}{
		"runs out of memory":           {host(1) + allocate("a", "2GiB") + kernel(9, 1, "") + allocate("b", "9GiB") + kernel(9, 1, ""), results.OOM},
		"has no room for what it has":  {allocate("a", "12GiB") + kernel(9, 1, ""), results.OOM},
		"is stopped in a kernel":       {allocate("a", "2GiB") + managed("m", "1GiB") + kernel(9, 1, "") + kernel(9, 60, ""), results.Timeout},
		"is stopped in a copy":         {host(27) + allocate("a", "8GiB") + transfer("in", "a", "8GiB"), results.Timeout},
		"pages":                        {allocate("a", "9GiB") + managed("m", "1GiB") + managed("n", "1GiB") + kernel(9, 1, `, "reads": ["m"]`) + kernel(9, 1, `, "writes": ["n"]`), results.OK},
		"has one task after the other": {allocate("a", "2GiB") + kernel(9, 1, "") + free("a") + allocate("b", "3GiB") + kernel(9, 1, "") + free("b"), results.OK},
	} {
		r := stepping(t, small(t, 2), "case-alg3", c.steps, allocate("x", "1GiB")+kernel(132*32, 3, "")).onTwo(0, gib)
		r.timeout, r.noise = 30e9, 0.1
		jobs, rec := r.must(t)
		if *jobs[0].Outcome != c.outcome || *jobs[1].Outcome != results.OK {
			t.Errorf("%s: %s (%s), want %s", name, *jobs[0].Outcome, jobs[0].Detail, c.outcome)
		}
		for _, k := range rec.of(0) {
			if k.Device == nil || *k.Device != k.Seq%2 {
				t.Errorf("%s: %+v", name, k)
			}
		}
	}
}
