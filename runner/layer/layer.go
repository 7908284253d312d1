// Package layer reads files that describe what jobs share devices through, and runs the daemons of such layers.
package layer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/userfile"
)

// Layer is what a file describes (docs/guide/layers.md).
type Layer struct {
	Name    string
	Preload []string   // libraries that each process of a job loads first, absolute
	Env     []Variable // of each job
	// Start is the daemon, which is ready once Ready succeeds, and is told by Stop to end. Empty: there is none, or it is ready at once,
	// or SIGTERM tells it.
	Start, Ready, Stop      []string
	ReadyWithin, StopWithin time.Duration
	MPS                     *bool    // nil: as the scheduler has it
	Schedulers              []string // under which it can be; nil: all
	SHA256                  string   // of the file, and of the files that it names

	file    string
	lines   map[string]int // of keys
	bound   *Variable      // the first whose value needs the job's device
	replace *Variable      // LD_LIBRARY_PATH
}

// Interposes reports whether the layer puts libraries of its own between the jobs and CUDA: libcase.so is not preloaded then, because
// both override the same calls.
func (l *Layer) Interposes() bool { return len(l.Preload) > 0 || l.replace != nil }

// Variable is one of the environment, whose value may have fields.
type Variable struct {
	Name, Value string
	line        int
}

// Limits that hold where the file gives none.
const (
	readyWithin = 10 * time.Second
	stopWithin  = 5 * time.Second
)

// libraryPath is where the loader looks for libraries first.
const libraryPath = "LD_LIBRARY_PATH"

// maxBytes bounds a layer's file.
const maxBytes = 64 << 10

// Read reads a layer's file, and the files that it names.
func Read(ctx context.Context, path string) (*Layer, error) {
	text, err := userfile.Read(ctx, path, maxBytes)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("layer %s: there is no such file: correct its path, or name a builtin layer: mps, mps-PERCENT or timeslice", path)
	}
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", path, err)
	}
	l, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	return l, l.hash(text)
}

// Pinned reads the file of a scheduler's layer, whose content must be what was asked for, and holds the scheduler to it.
func Pinned(asked policies.Layer, s policies.Scheduler) (policies.Layer, error) {
	l, err := Read(context.Background(), asked.Path)
	if err != nil {
		return asked, err
	}
	sum := l.SHA256[:policies.HashDigits]
	if want := asked.SHA256; want != "" && want != sum {
		return asked, fmt.Errorf("layer %s: the sha256 of it and of the files that it names begins with %s, and #%s was asked for: bring that content back, or leave # out (a sweep keeps the content that it was planned with)", asked.Path, sum, want)
	}
	return policies.Layer{Name: l.Name, Path: asked.Path, SHA256: sum, MPS: l.MPS}, l.Check(s)
}

// Files are the files that the layer names, absolute, and its own.
func (l *Layer) Files() []string {
	own, err := filepath.Abs(l.file)
	if err != nil {
		own = l.file
	}
	files := append([]string{own}, l.Preload...)
	for _, argv := range [][]string{l.Start, l.Ready, l.Stop} {
		if len(argv) > 0 && !slices.Contains(files, argv[0]) {
			files = append(files, argv[0])
		}
	}
	return files
}

// hash settles the digits of the content, of which the text of the file is a part.
func (l *Layer) hash(text []byte) error {
	all := sha256.New()
	_, _ = all.Write(text)
	for _, path := range l.Files()[1:] {
		f, err := os.Open(path)
		if err == nil {
			_, _ = fmt.Fprintf(all, "\n%s\n", path)
			_, err = io.Copy(all, f)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.file, err)
		}
	}
	l.SHA256 = hex.EncodeToString(all.Sum(nil))
	return nil
}

// Check refuses a scheduler under which the layer cannot be.
func (l *Layer) Check(s policies.Scheduler) error {
	name, _, _ := schedulers.CutLayer(s.Name)
	const remedy = "name a scheduler that binds jobs, such as cg or sa"
	switch {
	case l.Schedulers != nil && !slices.Contains(l.Schedulers, name):
		return l.at(l.lines["schedulers"], "layer %s is for %s, and not for %s: name one of them, or add it here", l.Name, strings.Join(l.Schedulers, ", "), name)
	case len(l.Preload) > 0 && s.Binds != policies.BindsJob:
		return l.at(l.lines["preload"], "layer %s preloads a library, and %s needs libcase.so preloaded, which overrides the same calls: %s", l.Name, name, remedy)
	case l.replace != nil && s.Binds != policies.BindsJob:
		return l.at(l.replace.line, "layer %s sets %s, for libraries in the place of CUDA's, and %s needs libcase.so preloaded, which overrides the same calls: %s", l.Name, libraryPath, name, remedy)
	case l.bound != nil && s.Binds != policies.BindsJob:
		return l.at(l.bound.line, "%s has a field of the job's device, and under %s a job has none when it starts: %s", l.bound.Name, name, remedy)
	}
	return nil
}

func (l *Layer) at(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{l.file, line}, args...)...)
}

// program finds a program: a name in PATH, or a path from the folder of the layer's file.
func program(folder, name string) (string, error) {
	if !strings.Contains(name, "/") {
		found, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("program %s is not in PATH: install it, or give its path with a slash", name)
		}
		return filepath.Abs(found)
	}
	path, err := absolute(folder, name)
	if err == nil {
		err = userfile.Runnable(path, "", os.Getenv("PATH"))
	}
	if err != nil {
		return "", fmt.Errorf("program %s: %w", name, err)
	}
	return path, nil
}

func absolute(folder, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return filepath.Abs(path)
}
