package scratch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MakeLocal is Make on a file system that no other machine has, which SQLite's write-ahead log needs. It
// takes the first of SLURM_TMPDIR, TMPDIR and /tmp that can be used.
func MakeLocal(purpose string) (*Dir, error) {
	var errs []error
	for _, parent := range []string{os.Getenv("SLURM_TMPDIR"), os.Getenv("TMPDIR"), "/tmp"} {
		if parent == "" {
			continue
		}
		var s unix.Statfs_t
		err := unix.Statfs(parent, &s)
		if kind := network[uint32(s.Type)]; err == nil && kind != "" {
			err = fmt.Errorf("it is on %s, which machines share", kind)
		}
		if err == nil {
			var d *Dir
			if d, err = makeIn(parent, purpose); err == nil {
				return d, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", strings.TrimSuffix(parent, "/"), err))
	}
	return nil, fmt.Errorf("make a directory on a disk of this machine: name one with TMPDIR: %w", errors.Join(errs...))
}

// network has the file systems that several machines share, by statfs's type. The numbers are those of statfs(2). Where
// Linux has none, they are from the file system's own headers.
var network = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.CEPH_SUPER_MAGIC: "CephFS",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.V9FS_MAGIC:       "9P",
	0x0BD00BD0:            "Lustre",
	0x47504653:            "GPFS",
	0x19830326:            "BeeGFS",
	0x20030528:            "OrangeFS",
	0xAAD7AAEA:            "PanFS",
}
