package live

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// What a job allocates through the driver is charged: another waits for it, and both end right.
func TestAJobWaitsForMemoryOfTheDriver(t *testing.T) {
	lazy, fake := nativetest.Build(t, "lazy", "libcase.so", "programs"), nativetest.Build(t, "fake")
	for _, sched := range []string{"case-alg3", "schedgpu"} {
		r := newRig(t, sched)
		r.preload, r.limit = filepath.Join(lazy, "libcase.so"), ample
		r.device.CapacityBytes, r.device.ContextBytes = 60*mebibyte, 2*mebibyte // for both, and the memory of one
		r.uuids, r.ids = []string{"GPU-ca5e0000-0000-0000-0000-000000000000"}, [][16]byte{{0xca, 0x5e}}
		env := []string{"LD_LIBRARY_PATH=" + filepath.Join(fake, "build/13"), "FAKE_CUDA_DEVICES=1", fmt.Sprint("FAKE_CUDA_CONTEXT=", 2*mebibyte)}
		program := filepath.Join(lazy, "build/13/driver_program")
		for _, pipe := range []string{"end", "next"} {
			if err := unix.Mkfifo(filepath.Join(r.dir, pipe), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.jobs = []mixes.Job{
			{Name: "holds", Program: program, Args: []string{"holds", "end"}, Env: env},
			{Name: "takes", Program: "/bin/sh", Args: []string{"-c", "read line <next; exec " + program + " takes"}, Env: env},
		}
		var growths []int64
		r.observe = func(s runner.Step) {
			grow, ok := s.Event.(runner.TaskGrow)
			if !ok {
				return
			}
			growths = append(growths, grow.Bytes)
			answered := slices.ContainsFunc(s.Commands, func(c runner.Command) bool { _, ok := c.(runner.Answer); return ok })
			if first := len(growths) == 1; answered != first {
				t.Errorf("%s: growth %d is answered at once: %t", sched, len(growths), answered)
			}
			r.tellPipe(map[int]string{1: "next", 2: "end"}[len(growths)])
		}
		jobs, _ := r.mustRun()
		if got := outcomes(jobs); got[0] != results.OK || got[1] != results.OK {
			t.Fatalf("%s: outcomes %v: %+v", sched, got, jobs)
		}
		if len(growths) != 2 || growths[0] != 24*mebibyte || growths[1] != 20*mebibyte {
			t.Errorf("%s: growths %v", sched, growths)
		}
		for i, want := range []int64{(24 + 8) * mebibyte, (20 + 8) * mebibyte} { // and the device heap
			if used := jobs[i].UsedBytes; used == nil || *used != want {
				t.Errorf("%s: job %d used %v bytes, want %d", sched, i, used, want)
			}
		}
	}
}
