package live

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
)

// A job of two devices sees both, uses each, and computes what it computes without a run. It starts when both are free, and others start
// after its end. With libcase in its process too, nothing is bound to one device.
func TestAJobOfTwoDevices(t *testing.T) {
	lazy, fake := nativetest.Build(t, "lazy", "libcase.so", "programs"), nativetest.Build(t, "fake")
	for _, c := range []struct{ sched, preload string }{{"sa", ""}, {"case-alg3:queue=fifo", filepath.Join(lazy, "libcase.so")}} {
		r := newRig(t, c.sched).job("sleep:1")
		r.preload, r.limit = c.preload, ample
		r.uuids = []string{"GPU-ca5e0000-0000-0000-0000-000000000001", "GPU-ca5e0000-0000-0000-0000-000000000002"} // the second and the third of the machine
		r.ids = [][16]byte{{0xca, 0x5e, 15: 1}, {0xca, 0x5e, 15: 2}}
		for _, program := range []string{"devices", "two_devices"} {
			r.jobs = append(r.jobs, mixes.Job{Name: program, Program: filepath.Join(lazy, "build/13/lazy_program"), Args: []string{program}, GPUs: 2,
				Env: []string{"LD_LIBRARY_PATH=" + filepath.Join(fake, "build/13"), "FAKE_CUDA_DEVICES=3"}})
		}
		r.job("exit:0")
		for i := range r.jobs {
			r.jobs[i].Binding, r.jobs[i].Footprint.Bytes = mixes.BindDeclared, 12e9
		}
		jobs, rec := r.mustRun()
		if got := outcomes(jobs); slices.ContainsFunc(got, func(o results.Outcome) bool { return o != results.OK }) {
			t.Fatalf("%s: outcomes %v: %+v", c.sched, got, jobs)
		}
		if got := r.output(1); !strings.Contains(got, "count 2 device 0") {
			t.Errorf("%s: the program of two devices says\n%s", c.sched, got)
		}
		for i, j := range jobs {
			if i > 0 && *j.StartS < *jobs[i-1].EndS {
				t.Errorf("%s: job %d starts at %g s, before the end of job %d at %g s", c.sched, i, *j.StartS, i-1, *jobs[i-1].EndS)
			}
			r := rec.jobs[i]
			if want := map[string][]int{"devices": {0, 1}, "two_devices": {0, 1}}[j.Name]; (want != nil || r.Devices != nil) && !slices.Equal(r.On(), want) || *r.Device != 0 {
				t.Errorf("%s: job %d is recorded on %v, want %v", c.sched, i, r.On(), want)
			}
		}
	}
}
