package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/live"
)

func TestDoctorTriesTheLibrary(t *testing.T) {
	dir := inTempDir(t)
	good := filepath.Join(dir, "libcase.so")
	c := exec.Command("cc", "-shared", "-fPIC", "-o", good, "-xc", "-")
	c.Stdin = strings.NewReader("int nothing;")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, text)
	}
	for path, says := range map[string]string{
		good:                            "libcase.so,ok," + good + " loads",
		filepath.Join(dir, "absent.so"): "libcase.so,failed,",
	} {
		t.Setenv(live.LibraryVariable, path)
		_, out, _ := caserun(t, "doctor", "--format", "csv")
		if !strings.Contains(out, says) {
			t.Errorf("%s: doctor lacks %q:\n%s", path, says, out)
		}
		if says != "libcase.so,ok,"+good+" loads" && !strings.Contains(out, "make native") {
			t.Errorf("doctor does not say what to do:\n%s", out)
		}
	}
}
