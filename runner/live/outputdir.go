package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
)

// dirTime is the time in the name of a directory for output files. Its nanoseconds tell the
// first runs of two stores apart that begin at once on different GPUs.
const dirTime = "20060102T150405.000000000"

// OutputDir is the name of the directory for the output files of a run.
func OutputDir(run int64, started time.Time) string {
	return fmt.Sprintf("run-%d-%s", run, started.UTC().Format(dirTime))
}

// OutputDirs are the directories in dir that have the output files of runs.
func OutputDirs(dir string, runs []results.Run) (dirs []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("directory of output files: %w", err)
	}
	for _, r := range runs {
		if r.StartedAt == nil {
			continue
		}
		time := r.StartedAt.UTC().Format(dirTime) // the number may be another one after a merge
		for _, entry := range entries {
			if of, at, ok := strings.Cut(strings.TrimPrefix(entry.Name(), "run-"), "-"); ok && at == time && input.IsWhole(of) && entry.IsDir() {
				dirs = append(dirs, filepath.Join(dir, entry.Name()))
			}
		}
	}
	return dirs, nil
}

// RemoveOutput removes directories of OutputDirs.
func RemoveOutput(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
