package live

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/swaparea"
)

const mebibyte = 1 << 20

// buildFakes builds the lazy runtime, a CUDA runtime and driver without a GPU, and programs for them.
var buildFakes = sync.OnceValue(func() error {
	out, err := exec.Command("make", "-C", filepath.Join("..", "..", "native", "probe"), "libcase.so", "fakes").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the lazy runtime and the fakes: %w\n%s", err, out)
	}
	return nil
})

// newSwapArea makes a swap area of the fakes' host memory.
func newSwapArea(t *testing.T, pieces int64) *swaparea.Area {
	t.Helper()
	dir := t.TempDir()
	for source, flags := range map[string][]string{"swaparea.c": {"-o", filepath.Join(dir, "swaparea"), "-ldl"},
		"fake_cuda.c": {"-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1")}} {
		source = filepath.Join("..", "..", "native", "ballast", source)
		if out, err := exec.Command("cc", append([]string{"-std=c11", source}, flags...)...).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", source, err, out)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	a, err := swaparea.Start(context.Background(), filepath.Join(dir, "swaparea"), pieces*swaparea.PieceBytes, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// newSwapRig has jobs of 68 MiB each that need their memory again and again. A device has room for one
// of them, but not for two.
func newSwapRig(t *testing.T, sched string, jobs int, env ...string) *rig {
	t.Helper()
	if err := buildFakes(); err != nil {
		t.Fatal(err)
	}
	native, err := filepath.Abs(filepath.Join("..", "..", "native", "probe"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, sched)
	r.preload = filepath.Join(native, "libcase.so")
	r.device.CapacityBytes, r.device.ContextBytes = 150*mebibyte, 8*mebibyte
	r.uuids, r.ids = nil, nil
	for i := range byte(2) {
		r.uuids = append(r.uuids, fmt.Sprintf("GPU-ca5e0000-0000-0000-0000-0000000000%02x", i))
		r.ids = append(r.ids, [16]byte{0xca, 0x5e, 15: i})
	}
	fakes := filepath.Join(native, "build", "fake", "13")
	for range jobs {
		r.jobs = append(r.jobs, mixes.Job{Name: "swapped", Program: filepath.Join(fakes, "lazy_program"), Args: []string{"swapped"},
			Env: append([]string{"LD_LIBRARY_PATH=" + fakes, "FAKE_CUDA_DEVICES=2", "FAKE_CUDA_KERNEL_US=2000"}, env...)})
	}
	return r
}

// Jobs whose memory does not fit together run together, and each computes what it computes alone.
func TestMemoryMoves(t *testing.T) {
	for _, sched := range []string{"vgpu:n=4,victims=0", "demand"} {
		t.Run(sched, func(t *testing.T) {
			area := newSwapArea(t, 64)
			r := newSwapRig(t, sched, 6)
			r.swap = area
			alone := newSwapRig(t, "sa", 1)
			alone.mustRun()
			want := computed(alone, 0)
			jobs, rec := r.mustRun()
			for i, j := range jobs {
				if *j.Outcome != results.OK || computed(r, i) != want {
					t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
				}
			}
			moved := map[string]int64{}
			for _, s := range rec.swaps {
				moved[string(s.Direction)+" "+string(s.Outcome)] += s.Bytes
			}
			t.Logf("bytes: %v", moved)
			if len(area.Take(64)) != 64 {
				t.Error("the swap area lacks pieces after the run")
			}
		})
	}
}

// computed is what a job has computed, without what it says of its device.
func computed(r *rig, job int) string {
	text, _, _ := strings.Cut(r.output(job), "after: ")
	return text
}
