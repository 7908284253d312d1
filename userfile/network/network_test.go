package network

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestOf(t *testing.T) {
	dir := t.TempDir()
	if kind, err := Of(dir); kind != "" || err != nil {
		t.Errorf("%s: %q, %v", dir, kind, err)
	}
	if kind, err := Of(filepath.Join(dir, "missing")); kind != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %q, %v", kind, err)
	}
}

// File systems in user space are told apart by the type of their mount. One that nobody knows counts as shared.
func TestInUserSpace(t *testing.T) {
	const mounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
98 29 0:52 / /home/u/far rw,nosuid shared:7 - fuse.sshfs u@host:/dir rw,user_id=0
99 29 0:53 / /data/a\040-\040b rw - fuse.s3fs s3fs rw
100 29 0:54 / /gcs rw - fuse.gcsfuse bucket rw
101 29 0:55 / /gluster rw - fuse.glusterfs host:/v rw
102 29 0:56 / /ceph rw - fuse.ceph-fuse ceph-fuse rw
103 29 0:57 / /rclone rw - fuse.rclone r: rw
104 29 0:58 / /plain rw - fuse something rw
105 29 0:59 / /vm rw - virtiofs tag rw
106 29 8:17 / /ntfs rw - fuseblk /dev/sdb1 rw
107 29 0:60 / / rw - fuse.fuse-overlayfs fuse-overlayfs rw
108 29 0:520 / /other rw - fuse.bindfs /there rw
short
`
	for minor, want := range map[uint32]string{52: "sshfs", 53: "s3fs", 54: "gcsfuse", 55: "glusterfs", 56: "ceph-fuse", 57: "rclone",
		58: "fuse", 59: "virtiofs", 60: "", 520: "", 99: "FUSE"} {
		if got := inUserSpace(mounts, 0, minor); got != want {
			t.Errorf("0:%d: %q, want %q", minor, got, want)
		}
	}
	if got := inUserSpace(mounts, 8, 17); got != "" {
		t.Errorf("a disk: %q", got)
	}
	if got := inUserSpace("", 8, 17); got != "FUSE" {
		t.Errorf("without mounts: %q", got)
	}
}
