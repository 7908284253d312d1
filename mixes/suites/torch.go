package suites

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/caserun/caserun/installation"
	"github.com/caserun/caserun/mixes"
)

// IsBuilt reports whether a job's program is one that a build of a suite has. The PyTorch programs are sources.
func IsBuilt(j mixes.Job) bool { return j.OfSuite() && !j.OfTorch() }

// torchProgram returns the path of a PyTorch program.
func torchProgram(program string) (string, error) {
	folder, found, err := installation.Find("benchmarks", "torch", fs.FileInfo.IsDir)
	if err == nil && !found {
		err = fmt.Errorf("%w: start caserun in its source tree, or run make install there", errNotBuilt)
	}
	return filepath.Join(folder, strings.TrimPrefix(program, "torch/")), err
}

// findTorch looks for PyTorch without loading it, in the python3 that a search path has.
func findTorch(searchPath string) error {
	c := exec.Command("/usr/bin/env", "python3", "-c", "import sys, importlib.util as u; print(sys.executable); sys.exit(not u.find_spec('torch'))")
	c.Env = append(os.Environ(), "PATH="+searchPath)
	out, err := c.Output()
	if err == nil {
		return nil
	}
	python := "python3"
	if path := strings.TrimSpace(string(out)); path != "" {
		python = path
	}
	return fmt.Errorf("%s has no PyTorch (%w): install a build for CUDA there, as with python3 -m pip install torch, or put another python3 first into PATH", python, err)
}

// TorchVersion loads the PyTorch of the python3 in PATH. It returns which it is, and whether it finds a GPU.
func TorchVersion(ctx context.Context) (version string, gpu bool, err error) {
	out, err := exec.CommandContext(ctx, "python3", "-c", "import sys, torch; print(f'{torch.__version__} of {sys.executable}'); print(torch.cuda.is_available())").Output()
	version, available, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return version, available == "True", err
}
