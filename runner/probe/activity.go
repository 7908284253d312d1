package probe

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// activitySize is that of struct case_activity (native/probe/wire.h).
const activitySize = 16

// receiveFirst is receive for a connection's first frame, with which a process passes its
// activity page. page is nil if the process passes none, or if the page could shrink under
// the mapping.
func receiveFirst(fd int, b []byte) (n int, page []byte, err error) {
	control := make([]byte, unix.CmsgSpace(4))
	var used int
	for again := true; again; again = err == unix.EINTR {
		n, used, _, _, err = unix.Recvmsg(fd, b, control, unix.MSG_TRUNC|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil || used == 0 {
		return n, nil, err
	}
	messages, _ := unix.ParseSocketControlMessage(control[:used]) // a message that cannot be read holds no page
	for _, m := range messages {
		passed, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, file := range passed {
			if page == nil {
				page = mapActivity(file)
			}
			_ = unix.Close(file)
		}
	}
	return n, page, nil
}

func mapActivity(file int) []byte {
	var status unix.Stat_t
	seals, err := unix.FcntlInt(uintptr(file), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || unix.Fstat(file, &status) != nil || status.Size < activitySize {
		return nil
	}
	page, err := unix.Mmap(file, 0, activitySize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return page
}

// Busy returns since when the process may have kernels running, or the zero time if it has
// none. known is false if the process does not tell. Busy may be called until the Handler's
// Closed has returned.
func (c *Client) Busy() (since time.Time, known bool) {
	if c.page == nil {
		return time.Time{}, false
	}
	ns := atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.page[0])))
	if ns == 0 {
		return time.Time{}, true
	}
	return c.server.At(int64(ns)), true
}

// PeakBytes returns the most device memory that the process's tasks had in use at one time;
// known is false if the process does not tell. It may be called as long as Busy.
func (c *Client) PeakBytes() (bytes int64, known bool) {
	if c.page == nil {
		return 0, false
	}
	peak := atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.page[8])))
	return int64(min(peak, math.MaxInt64)), peak != 0
}

// forget unmaps the page.
func (c *Client) forget() {
	if c.page != nil {
		_ = unix.Munmap(c.page)
		c.page = nil
	}
}
