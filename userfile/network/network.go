// Package network tells file systems that several machines share from those that this machine has alone.
package network

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Of returns the name of the network file system that path is on, such as NFS; "" if path is on a file system of this machine.
func Of(path string) (kind string, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", fmt.Errorf("%s: %w", strings.TrimSuffix(path, "/"), err)
	}
	if uint32(s.Type) != unix.FUSE_SUPER_MAGIC {
		return kinds[uint32(s.Type)], nil
	}
	var of unix.Stat_t
	if err := unix.Stat(path, &of); err != nil {
		return "", fmt.Errorf("%s: %w", strings.TrimSuffix(path, "/"), err)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it the answer is unknown, as for any other file system in user space
	return inUserSpace(string(mounts), unix.Major(of.Dev), unix.Minor(of.Dev)), nil
}

// kinds are by statfs's type. The numbers are those of statfs(2). Where Linux has none, they are from the file system's own
// headers.
var kinds = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.CEPH_SUPER_MAGIC:  "CephFS",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.V9FS_MAGIC:        "9P",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x01161970:             "GFS2",
	0x0BD00BD0:             "Lustre",
	0x47504653:             "GPFS",
	0x19830326:             "BeeGFS",
	0x20030528:             "OrangeFS",
	0xAAD7AAEA:             "PanFS",
	0x786F4256:             "vboxsf",
	0xBACBACBC:             "vmhgfs",
}

// own are types of file systems in user space whose files are this machine's: on its disks, or in another directory. All
// others count as shared, such as sshfs and s3fs, because a store without a write-ahead log is right everywhere.
var own = map[string]bool{
	"fuseblk": true, "fuse.fuse2fs": true, "fuse.ntfs-3g": true, "fuse.lowntfs-3g": true, "fuse.exfat": true, "fuse.zfs-fuse": true,
	"fuse.fuse-overlayfs": true, "fuse.unionfs": true, "fuse.unionfs-fuse": true, "fuse.mergerfs": true, "fuse.bindfs": true,
	"fuse.encfs": true, "fuse.gocryptfs": true, "fuse.cryfs": true, "fuse.lxcfs": true, "fuse.portal": true,
}

// inUserSpace is the kind of a file system in user space, by its device in /proc/self/mountinfo (proc_pid_mountinfo(5)):
//
//	98 29 0:52 / /home/u/far rw,nosuid - fuse.sshfs u@host:/dir rw,user_id=0
func inUserSpace(mounts string, major, minor uint32) string {
	device := fmt.Sprintf("%d:%d", major, minor)
	for line := range strings.Lines(mounts) {
		place, kind, found := strings.Cut(line, " - ")
		fields := strings.Fields(place)
		if !found || len(fields) < 3 || fields[2] != device {
			continue
		}
		kind, _, _ = strings.Cut(kind, " ")
		if own[kind] {
			return ""
		}
		if name, is := strings.CutPrefix(kind, "fuse."); is {
			return name
		}
		return kind
	}
	return "FUSE"
}
