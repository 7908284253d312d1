package swaparea

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program measures on the fakes, which check each call. Their rates say nothing.
func TestMeasure(t *testing.T) {
	probe, err := filepath.Abs(filepath.Join("..", "..", "native", "probe"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("make", "-C", probe, "fakes").CombinedOutput(); err != nil {
		t.Fatalf("build the fakes: %v\n%s", err, out)
	}
	bin := filepath.Join(t.TempDir(), "swaprate")
	compile(t, "swaprate.c", "-o", bin, "-ldl")
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(probe, "build", "fake", "13"))
	r, err := Measure(context.Background(), bin, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	if r.Make <= 0 || r.Out <= 0 || r.In <= 0 || r.First <= 0 || !r.Whole {
		t.Errorf("measured %+v", r)
	}
	t.Setenv("FAKE_CUDA_MEMORY", "67108864")
	for ordinal, want := range map[int]string{0: "of the device are free", 9: "no device 9 among"} {
		if _, err := Measure(context.Background(), bin, ordinal, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("GPU %d: error %v; want one that says %q", ordinal, err, want)
		}
	}
}
