package kernels

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// heldBack exceeds the number of records in a buffer of 32 KiB, which one unfinished kernel
// keeps from being written.
const heldBack = 160

// noGPU reports whether the machine has no GPU, rather than a GPU that does not work: it has no
// nvidia-smi, or nvidia-smi found no device (exit status 6) or no driver (9).
func noGPU(err error) bool {
	var exit *exec.ExitError
	return errors.Is(err, exec.ErrNotFound) || errors.As(err, &exit) && (exit.ExitCode() == 6 || exit.ExitCode() == 9)
}

// TestGPU traces native/tracer/tests/launches.cu. It skips only if there is no GPU; with
// CASERUN_REQUIRE_GPU=1 it fails instead.
func TestGPU(t *testing.T) {
	if err := exec.Command("nvidia-smi", "-L").Run(); noGPU(err) && os.Getenv("CASERUN_REQUIRE_GPU") != "1" {
		t.Skipf("no NVIDIA GPU: nvidia-smi: %v", err)
	} else if err != nil {
		t.Fatalf("nvidia-smi: %v", err)
	}
	native, err := filepath.Abs("../../native/tracer")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "launches")
	for _, build := range [][]string{{"make", "-C", native}, {"nvcc", "-arch=native", "-o", program, filepath.Join(native, "tests", "launches.cu")}} {
		if out, err := exec.Command(build[0], build[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(build, " "), err, out)
		}
	}
	for _, c := range []struct {
		mode    string
		kernels int
		ended   bool
	}{
		{"exit", 100, true}, {"exit", 5000, true}, {"unsynced", 1000, true}, {"reset", 100, true}, {"overlap", 400, true},
		{"kill", 1000, false}, {"long", 1000, false},
	} {
		t.Run(fmt.Sprintf("%s-%d", c.mode, c.kernels), func(t *testing.T) {
			dir := t.TempDir()
			run := exec.Command(program, fmt.Sprint(c.kernels), c.mode)
			run.Env = append(os.Environ(), "CUDA_INJECTION64_PATH="+filepath.Join(native, "libcasetrace.so"), "CASE_TRACE_DIR="+dir)
			out, err := run.Output()
			if c.ended != (err == nil) {
				t.Fatalf("the program ended with %v", err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.trace"))
			if err != nil || len(files) != 1 {
				t.Fatalf("traces %v (%v), want one", files, err)
			}
			got, err := ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			least := c.kernels
			if c.mode == "long" {
				least -= heldBack
			}
			if n := len(got.Kernels); n < least || n > c.kernels || len(got.Copies) != 1 || got.Lost != 0 || got.Ended != c.ended || len(got.Notes) != 0 {
				t.Fatalf("%d kernels, %d copies, %d lost, ended %t, notes %q; want %d, 1, 0, %t", len(got.Kernels), len(got.Copies),
					got.Lost, got.Ended, got.Notes, c.kernels, c.ended)
			}
			checkLaunches(t, got, string(out), c.mode == "overlap")
		})
	}
}

// checkLaunches compares the records with the program's launches. The launches must lie between
// the times that the program printed, if it printed them.
func checkLaunches(t *testing.T, got Trace, printed string, overlap bool) {
	t.Helper()
	var from, to, last int64
	if _, err := fmt.Sscan(printed, &from, &to); err != nil {
		from, to = got.StartedNS, 1<<62 // it exits with kernels in flight
	}
	if c := got.Copies[0]; c.Kind != "htod" || c.Bytes != 4<<20 || c.StartNS < from || c.EndNS > to || c.Device == (Device{}) {
		t.Errorf("copy %+v, want 4 MiB to the device between %d and %d", c, from, to)
	}
	overlaps := 0
	for i, k := range got.Kernels {
		if k.Name != "spin(long long)" || k.Grid != [3]uint32{1, 2, 1} || k.Block != [3]uint32{64, 1, 1} || k.DynamicShared != 256 ||
			k.Device != got.Copies[0].Device || k.Registers == 0 {
			t.Fatalf("kernel %d: %+v", i, k)
		}
		if k.StartNS < from || k.EndNS > to {
			t.Fatalf("kernel %d ran from %d to %d, outside %d to %d", i, k.StartNS, k.EndNS, from, to)
		}
		if k.StartNS < last {
			overlaps++
		}
		last = k.EndNS
	}
	if overlap != (overlaps > 0) {
		t.Errorf("%d kernels overlap: the tracer serializes them, or a stream's order is lost", overlaps)
	}
}
