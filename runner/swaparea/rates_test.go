package swaparea

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

// The program measures on the fakes, which check each call. Their rates say nothing.
func TestMeasure(t *testing.T) {
	bin := filepath.Join(nativetest.Build(t, "ballast", "swaprate"), "swaprate")
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(nativetest.Build(t, "fake"), "build/13"))
	r, err := Measure(context.Background(), bin, "1", 4)
	if err != nil {
		t.Fatal(err)
	}
	if r.Make <= 0 || r.Out <= 0 || r.In <= 0 || r.First <= 0 || !r.Whole {
		t.Errorf("measured %+v", r)
	}
	t.Setenv("FAKE_CUDA_MEMORY", "67108864")
	for ordinal, want := range map[string]string{"0": "of the device are free", "9": "no device 9 among"} {
		if _, err := Measure(context.Background(), bin, ordinal, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("GPU %s: error %v; want one that says %q", ordinal, err, want)
		}
	}
}
