package live

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
)

// A job has managed memory as far as its device has room, whatever the scheduler. What it had is recorded.
func TestManagedMemoryStaysBelowWhatIsFree(t *testing.T) {
	lazy, fake := nativetest.Build(t, "lazy", "libcase.so", "programs"), nativetest.Build(t, "fake")
	for _, c := range []struct {
		sched   string
		mib     int64 // of the device
		says    string
		outcome results.Outcome
		most    string
	}{
		{"sa", 15, "managed 0\nbeside 0\nmore 2\nlaunch 0\nagain 0\n", results.Refused, "6291456 bytes of managed memory at most at one time: 6 MiB, where 13 MiB were free for it"},
		{"sa:managed=exceed", 15, "managed 0\nbeside 0\nmore 0\nlaunch 0\nagain 0\n", results.OK, "12582912 bytes of managed memory at most at one time: 12 MiB, where 11 MiB were free for it"},
		{"case-alg3", 20, "managed 0\nbeside 0\nmore 2\nlaunch 0\nagain 0\n", results.Refused, "6291456 bytes"},
	} {
		r := newRig(t, c.sched)
		r.preload, r.limit = filepath.Join(lazy, "libcase.so"), ample
		r.device.CapacityBytes, r.device.ContextBytes = c.mib*mebibyte, smallContext
		r.uuids, r.ids = []string{"GPU-ca5e0000-0000-0000-0000-000000000000"}, [][16]byte{{0xca, 0x5e}}
		r.jobs = []mixes.Job{{Name: "guarded", Program: filepath.Join(lazy, "build/13/lazy_program"), Args: []string{"guarded"},
			Env: []string{"LD_LIBRARY_PATH=" + filepath.Join(fake, "build/13")}}}
		jobs, rec := r.mustRun()
		said := r.output(0)
		if *jobs[0].Outcome != c.outcome || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s: %s\n%s", c.sched, *jobs[0].Outcome, jobs[0].Detail, said)
		}
		var most []string
		for _, e := range rec.events {
			if e.Kind == results.EventManaged {
				most = append(most, e.Detail)
			}
		}
		if len(most) != 1 || !strings.HasPrefix(most[0], c.most) {
			t.Errorf("%s: events %q, want %s", c.sched, most, c.most)
		}
	}
}
