package suites

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
)

// MixError is a mix that cannot be read: the user has to mend it or to name another.
type MixError struct{ err error }

func (e *MixError) Error() string { return e.err.Error() }

func (e *MixError) Unwrap() error { return e.err }

// IsMixFile tells a mix's file from a name in the catalog.
func IsMixFile(arg string) bool {
	return strings.ContainsRune(arg, filepath.Separator) || slices.Contains([]string{".yaml", ".yml", ".wl"}, filepath.Ext(arg))
}

// Mix reads a mix file, or looks a name up in the catalog, and describes the mix's jobs. A
// file may name mixes.SuitePrograms and what has says there is. has may be nil. Errors are
// *MixError.
func (s Suite) Mix(arg string, has func(program string) bool) (m mixes.Mix, err error) {
	if IsMixFile(arg) {
		m, err = mixes.Load(arg, has)
	} else {
		m, err = mixes.Lookup(arg)
	}
	if err != nil {
		return m, &MixError{err}
	}
	m.Jobs = s.Describe(m.Jobs)
	return m, nil
}
