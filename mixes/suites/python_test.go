//go:build python

package suites

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// Each PyTorch program says what to install where PyTorch does not load, and ends with a status of its own.
func TestProgramsWithoutPyTorch(t *testing.T) {
	without := t.TempDir()
	if err := os.WriteFile(filepath.Join(without, "torch.py"), []byte("raise ImportError('libcudart.so.12 is missing')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, program := range mixes.SuitePrograms() {
		if !(mixes.Job{Program: program}).OfTorch() {
			continue
		}
		c := exec.Command(filepath.Join("../../benchmarks", program))
		c.Env = append(os.Environ(), "PYTHONPATH="+without, "PYTHONDONTWRITEBYTECODE=1")
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), "cannot import torch (libcudart.so.12 is missing): install PyTorch for it") {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}
