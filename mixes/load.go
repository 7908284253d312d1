package mixes

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/userfile"
)

// maxWholeBytes bounds a file that is in memory as a whole: a suite's, and a mix that is edited.
const maxWholeBytes = 1 << 20

// Load reads a mix file: YAML (.yaml, .yml) or a list of command lines (.wl). has reports whether
// the suite has a program beside SuitePrograms; it is called with names without a slash, and may
// be nil. Errors in the file's content are InputErrors.
func Load(path string, has func(program string) bool) (Mix, error) {
	parse, found := map[string]func(*lines, jobIndex, func(string) bool) (Mix, error){
		".yaml": parseYAML, ".yml": parseYAML, ".wl": parseWL,
	}[filepath.Ext(path)]
	if !found {
		return Mix{}, InputErrors{{File: path, Msg: fmt.Sprintf("unknown kind of mix file %q", filepath.Ext(path)),
			Remedy: "name it .yaml, .yml or .wl"}}
	}
	f, err := userfile.Open(path, 0)
	if err != nil {
		return Mix{}, unreadable(path, err)
	}
	defer f.Close()
	m, err := parse(newLines(path, f), builtin().jobs, has)
	if bad := (InputErrors{}); err != nil && !errors.As(err, &bad) {
		err = unreadable(path, err)
	}
	return m, err
}

// unreadable is the error of a mix file that cannot be read.
func unreadable(path string, err error) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		path, err = failed.Path, failed.Err
	}
	return fmt.Errorf("mix %s: %w", path, err)
}

// readWhole reads a file of up to maxWholeBytes.
func readWhole(path string) ([]byte, error) {
	f, err := userfile.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxWholeBytes+1))
	if err == nil && len(data) > maxWholeBytes {
		err = InputErrors{{File: path, Msg: "more than " + size.Format(maxWholeBytes)}}
	}
	return data, err
}

// baseName returns the default name of a file's mix.
func baseName(file string) string {
	return input.Name(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
}
