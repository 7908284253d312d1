// Package network tells file systems that several machines share from those that this machine has alone.
package network

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Of returns the name of the network file system that path is on, such as NFS; "" if path is on a file system of this machine.
func Of(path string) (kind string, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", fmt.Errorf("%s: %w", strings.TrimSuffix(path, "/"), err)
	}
	return kinds[uint32(s.Type)], nil
}

// kinds are by statfs's type. The numbers are those of statfs(2). Where Linux has none, they are from the file system's own
// headers.
var kinds = map[uint32]string{
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
