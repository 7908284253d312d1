package scratch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/caserun/caserun/userfile/network"
)

// MakeLocal is Make on a file system that no other machine has, which SQLite's write-ahead log needs. It
// takes the first of SLURM_TMPDIR, TMPDIR and /tmp that can be used.
func MakeLocal(purpose string) (*Dir, error) { return makeLocal(purpose, network.Of) }

func makeLocal(purpose string, networkOf func(path string) (string, error)) (*Dir, error) {
	var errs []error
	for _, parent := range []string{os.Getenv("SLURM_TMPDIR"), os.Getenv("TMPDIR"), "/tmp"} {
		if parent == "" {
			continue
		}
		kind, err := networkOf(parent)
		if kind != "" {
			err = fmt.Errorf("%s: it is on %s, which machines share", strings.TrimSuffix(parent, "/"), kind)
		}
		if err == nil {
			var d *Dir
			if d, err = makeIn(parent, purpose); err == nil {
				return d, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("make a directory on a disk of this machine: name one with TMPDIR: %w", errors.Join(errs...))
}
