package suites

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/userfile"
)

// MixError is a mix that cannot be read: the user has to mend it or to name another.
type MixError struct{ err error }

func (e *MixError) Error() string { return e.err.Error() }

func (e *MixError) Unwrap() error { return e.err }

// IsMixFile tells a mix's file from a name in the catalog.
func IsMixFile(arg string) bool {
	return strings.ContainsRune(arg, filepath.Separator) || slices.Contains([]string{".yaml", ".yml", ".wl"}, filepath.Ext(arg))
}

// Lookup finds a mix of the catalog. The error of a name that a file has says how mix files are named.
func Lookup(name string) (mixes.Mix, error) {
	m, err := mixes.Lookup(name)
	if err != nil && !userfile.Absent(name) {
		err = fmt.Errorf("%s is not in the catalog, and a mix file ends in .yaml, .yml or .wl", name)
	}
	return m, err
}

// Mix reads a mix file, or looks a name up in the catalog, and describes the mix's jobs. A
// file may name mixes.SuitePrograms and what has says there is. has may be nil. Errors are
// *MixError.
func (s Suite) Mix(arg string, has func(program string) bool) (m mixes.Mix, err error) {
	if IsMixFile(arg) {
		m, err = mixes.Load(arg, has)
	} else {
		m, err = Lookup(arg)
	}
	if err != nil {
		return m, &MixError{err}
	}
	m.Jobs = s.describe(m.Jobs)
	return m, nil
}
