package suites

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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

// findsTorch is how long a python3 may take to say whether it has PyTorch.
const findsTorch = 20 * time.Second

// findTorch looks for PyTorch without loading it, in the python3 that a search path has.
func findTorch(searchPath string) error {
	ctx, cancel := context.WithTimeout(context.Background(), findsTorch)
	defer cancel()
	c := exec.CommandContext(ctx, "/usr/bin/env", "python3", "-c", "import sys, importlib.util as u; print(sys.executable); sys.exit(not u.find_spec('torch'))")
	c.Env, c.WaitDelay = append(os.Environ(), "PATH="+searchPath), time.Second
	out, err := c.Output()
	python := "python3"
	if path := strings.TrimSpace(string(out)); path != "" {
		python = path
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not say within %v whether it has PyTorch: put another python3 first into PATH", python, findsTorch)
	}
	return fmt.Errorf("%s has no PyTorch (%w): install a build for CUDA there, as with python3 -m pip install torch, or put another python3 first into PATH", python, err)
}

// TorchVersion loads the PyTorch of the python3 in PATH. It returns which it is, and whether it finds a GPU.
func TorchVersion(ctx context.Context) (version string, gpu bool, err error) {
	out, err := exec.CommandContext(ctx, "python3", "-c", "import sys, torch; print(f'{torch.__version__} of {sys.executable}'); print(torch.cuda.is_available())").Output()
	version, available, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return version, available == "True", err
}
