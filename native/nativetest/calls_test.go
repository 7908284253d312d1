package nativetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// make generates nothing from a table with a call that nobody has classified, or that is classified wrongly.
func TestACallWithoutAKindFailsTheBuild(t *testing.T) {
	for _, c := range []struct{ line, why string }{
		{"", ""},
		{"cudaNew | own | | (int device)", ""},
		{"cudaNew", "cudaNew: nobody has said of what kind it is"},
		{"cudaNew+ptsz", "cudaNew: nobody has said of what kind it is"},
		{"cuNew | | | (int device)", "cuNew: nobody has said of what kind it is"},
		{"cudaNew | forwards", "cudaNew: kind forwards is not one"},
		{"cudaNew | harmless", "cudaNew: kind harmless is not one"}, // of the runtime
		{"cuNew | forward", "cuNew: kind forward is not one"},
		{"cudaNew | own", "cudaNew: is overridden, and has no parameters"},
		{"cuNew | work", "cuNew: is overridden, and has no parameters"},
		{"cudaNew | forward | KEEP", "cudaNew: what is KEEP?"},
		{"cudaNew | submit | KEEPS+DEVICE(6)", "cudaNew: what is DEVICE(6)?"},
		{"cudaNew | none | KEEPS", "cudaNew: kind none needs nothing"},
		{"cudaNew+ptd | forward", "cudaNew: variant ptd is not one"},
		{"cudaMalloc | none", "cudaMalloc: is there twice"},
		{"newCall | none", "newCall: is not a function of CUDA"},
	} {
		dir := t.TempDir()
		for _, file := range []string{"cuda.calls", "generate.awk", "calls.mk"} {
			text, err := os.ReadFile(filepath.Join(native, "calls", file))
			if err != nil {
				t.Fatal(err)
			}
			if file == "cuda.calls" {
				text = append(text, c.line+"\n"...)
			}
			write(t, filepath.Join(dir, "calls", file), text)
		}
		write(t, filepath.Join(dir, "part", "Makefile"), []byte("include ../calls/calls.mk\n"))
		for _, made := range []string{"runtime_api.h", "harmless.def"} {
			made = filepath.Join("build/calls", made)
			said, err := exec.Command("make", "-C", filepath.Join(dir, "part"), made).CombinedOutput()
			_, left := os.Stat(filepath.Join(dir, "part", made))
			if (err == nil) != (c.why == "") || (left == nil) != (c.why == "") || !strings.Contains(string(said), c.why) {
				t.Errorf("%q: %v, %s is there: %v, want %q\n%s", c.line, err, made, left == nil, c.why, said)
			}
		}
	}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
