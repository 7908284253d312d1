// Package bundle writes and opens archives of runs. A bundle is one .tar.gz with a store,
// configuration, provenance, figures and a manifest. The manifest is the first member and has
// the length and the SHA-256 of every other member.
//
// Equal content gives equal bytes, because members have a fixed order and neither time nor
// owner.
package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/output"
)

const (
	manifestName = "manifest.json"
	storeName    = "caserun.db"
	// format is the version of the archive's layout. A reader refuses a newer one.
	format = 1
)

// manifest says what a bundle holds.
type manifest struct {
	Format    int      `json:"format"`
	Writer    string   `json:"writer"` // the caserun that wrote it
	Runs      []int64  `json:"runs"`
	Simulated []int64  `json:"simulated_runs"` // the simulated runs among Runs
	Members   []member `json:"members"`
}

// Member is a file of a bundle.
type member struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Limits of a bundle's unpacked content. The archive format limits a member to 8 GiB too.
const (
	maxBytes   = 8 << 30
	maxMembers = 1000
	// maxRatio is how many times the file's size the content may have beyond freely. Stores are compressed to an eighth,
	// and a store of 10,000 equal runs to an eighteenth.
	maxRatio = 100
	freely   = 64 << 20
)

// mostOf is how much a file of so many bytes may unpack to.
func mostOf(file int64) int64 { return min(freely+maxRatio*min(file, maxBytes), maxBytes) }

// size returns the total size of the members, or an error if it exceeds the limits, or if two members have one name.
func (m manifest) size() (int64, error) {
	if len(m.Members) > maxMembers {
		return 0, fmt.Errorf("it has %d members, and a bundle has %d at most", len(m.Members), maxMembers)
	}
	var all int64
	names := map[string]bool{}
	for _, member := range m.Members {
		if names[member.Name] {
			return 0, fmt.Errorf("its manifest has %.100q twice", member.Name)
		}
		names[member.Name] = true
		if member.Bytes < 0 || member.Bytes > maxBytes-all {
			return 0, fmt.Errorf("it unpacks to more than the %d GiB that a bundle has at most", maxBytes>>30)
		}
		all += member.Bytes
	}
	return all, nil
}

// Is reports whether the first bytes of the file at path are those of a bundle. It returns
// false for a file that cannot be read; opening that file then gives the error.
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

// CheckName refuses a name that does not end in .tar.gz or .tgz, unless it is of a FIFO or a device.
func CheckName(path string) error {
	if output.IsStream(path) || strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz") {
		return nil
	}
	return fmt.Errorf("bundle %s: want a name that ends in .tar.gz", path)
}

// damaged is the error of a member that differs from what was written.
func damaged(path, member string, err error) error {
	return fmt.Errorf("bundle %s: member %s: %w: the file is damaged, get another copy", path, member, err)
}

var errShort = errors.New("the archive ends within it or before it")
