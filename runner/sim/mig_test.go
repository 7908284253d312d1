package sim

import (
	"fmt"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// A kernel that fills no more SMs than an instance has lasts as on the whole device, and others longer in proportion. Kernels of other
// instances change nothing.
func TestKernelsOfInstances(t *testing.T) {
	const whole = 3.1 // times as long as on an H200
	for _, c := range []struct {
		sms  int
		long float64
	}{{14, 1}, {42, 3}, {108, 108. / 14}, {500, 108. / 14}} {
		steps := allocate("a", "1MiB") + fmt.Sprintf(`{"step": "kernel", "blocks": %d, "threads": 1024, "seconds": 1}`+"\n", 2*c.sms) // two blocks for each SM
		jobs, _ := stepping(t, mustNode(t, "sim:1xA100/7x1g.5gb"), "sa", steps, steps, steps).must(t)
		for i := range jobs {
			wantEnd(t, jobs[i], whole*c.long)
			if *jobs[i].Device != i {
				t.Errorf("job %d is on device %d", i, *jobs[i].Device)
			}
		}
	}
}

// An instance has the memory that it has, its part of the link, and a context for each process. The host is that of the device.
func TestDevicesOfInstances(t *testing.T) {
	n := mustNode(t, "sim:1xA100/3g.20gb,2g.10gb,2x1g.5gb+1xA100")
	said := ""
	for i, d := range n.Devices(false) {
		said += fmt.Sprintf("%s %d %d %.3g %.3g;", d.Name, d.CapacityBytes/mib, d.SMs, n.models()[i].LinkBytesPerS/1e9, d.Speed*3.1)
	}
	if want := "A100 MIG 3g.20gb 19968 42 13.5 0.389;A100 MIG 2g.10gb 9850 28 9 0.259;A100 MIG 1g.5gb 4864 14 4.5 0.13;A100 MIG 1g.5gb 4864 14 4.5 0.13;A100 40536 108 31.5 1;"; said != want {
		t.Errorf("%s, want %s", said, want)
	}
	if n.Host.Cores != 12 || n.Host.Threads != 24 {
		t.Errorf("host %+v", n.Host)
	}
}

// CASE's example (section 2): of jobs of 3 GB MPS can have 13 on an A100 of 40 GB, without their contexts, and MIG 7. With contexts 11 fit.
func TestThirteenJobsOfThreeGigabytes(t *testing.T) {
	for node, want := range map[string]int{"sim:1xA100": 11, "sim:1xA100/7x1g.5gb": 7} {
		steps := allocate("a", "3000000000") + kernel(1, 10, "")
		all := make([]string, 13)
		for i := range all {
			all[i] = steps
		}
		r := stepping(t, mustNode(t, node), "case-alg3", all...)
		for i := range r.jobs {
			r.jobs[i].Footprint = mixes.Footprint{Bytes: 3_000_000_000, Blocks: 1, ThreadsPerBlock: 256}
		}
		_, rec := r.must(t)
		atOnce := map[int]bool{}
		for _, k := range rec.Tasks {
			if k.GrantS != nil && *k.GrantS == 0 {
				atOnce[k.Job] = true
			}
		}
		if len(atOnce) != want {
			t.Errorf("%s: %d at once, want %d", node, len(atOnce), want)
		}
	}
}
