// Package bundle writes and opens archives of runs: one .tar.gz with a store,
// configuration, provenance and figures, and a manifest that has the length and the
// SHA-256 of every member.
//
// The manifest is the first member. Equal content gives equal bytes: members are
// in a fixed order and carry no time and no owner.
package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caserun/caserun/userfile"
)

const (
	manifestName = "manifest.json"
	storeName    = "caserun.db"
	// format is the version of the archive's layout. A reader refuses a newer one.
	format = 1
)

// Manifest says what a bundle holds.
type Manifest struct {
	Format    int      `json:"format"`
	Writer    string   `json:"writer"` // the caserun that wrote it
	Runs      []int64  `json:"runs"`
	Simulated []int64  `json:"simulated_runs"` // those of the runs that are no measurements
	Members   []Member `json:"members"`
}

// Member is a file of a bundle.
type Member struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A bundle has at most so much in it, unpacked. A member of the archive's form has no
// more than 8 GiB either.
const (
	maxBytes   = 8 << 30
	maxMembers = 1000
)

// size is what the members have together, or an error where that is more than a bundle
// may have.
func (m Manifest) size() (int64, error) {
	if len(m.Members) > maxMembers {
		return 0, fmt.Errorf("it has %d members, and a bundle has %d at most", len(m.Members), maxMembers)
	}
	var all int64
	for _, member := range m.Members {
		if member.Bytes < 0 || member.Bytes > maxBytes-all {
			return 0, fmt.Errorf("it unpacks to more than the %d GiB that a bundle has at most", maxBytes>>30)
		}
		all += member.Bytes
	}
	return all, nil
}

// Is reports whether the file at path is a bundle, by its first bytes. A file
// that cannot be read is none: whoever opens it says why.
func Is(path string) bool {
	f, err := userfile.Open(path, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [3]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && bytes.Equal(magic[:], []byte{0x1f, 0x8b, 8}) // gzip, deflate
}

// CheckName refuses a name that promises another kind of archive.
func CheckName(path string) error {
	if strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz") {
		return nil
	}
	return fmt.Errorf("bundle %s: want a name that ends in .tar.gz", path)
}

// damaged is an error of a member that is not what was written.
func damaged(path, member string, err error) error {
	return fmt.Errorf("bundle %s: member %s: %w: the file is damaged, get another copy", path, member, err)
}

var errShort = errors.New("the archive ends within it or before it")
