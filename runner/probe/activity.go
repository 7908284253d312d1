package probe

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// activitySize is that of struct case_activity (native/probe/wire.h). A process whose library is of an earlier version has no last
// word: the rest of its page reads as 0.
const (
	activitySize        = 88
	earlierActivitySize = 80
)

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
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || unix.Fstat(file, &status) != nil || status.Size < earlierActivitySize {
		return nil
	}
	page, err := unix.Mmap(file, 0, activitySize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return page
}

// Activity is what a process shows of itself (struct case_activity). Nothing in it need be true.
// Bytes and counts are below 2^63. All but Busy, Idle, PeakBytes and Submissions are of a process that can evict.
type Activity struct {
	Busy                        time.Time // since when it may have kernels running; zero: it has none
	PeakBytes                   int64     // the most that its tasks had in use at one time; 0: unknown
	Calls                       int64     // that touch a device and are under way
	LastCall                    time.Time // the end of the last of them; zero: none has ended
	Submissions                 int64     // of kernels, graphs, copies and sets so far
	Resident, Referenced, Fixed int64     // bytes of its tasks on devices
	Permit                      bool      // it submits work without asking
	Ended                       int64     // of the submissions, known to be over
	Idle                        time.Time // when it was last seen to have no kernels running any more; zero: never
}

// Activity returns what the process shows now; known is false if it shows nothing. A process that
// is gone shows what it showed last, until its ProcessGone is posted.
func (c *client) Activity() (a Activity, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page == nil {
		return Activity{}, false
	}
	word := func(i int) int64 {
		return int64(min(atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.page[8*i]))), math.MaxInt64))
	}
	at := func(i int) (t time.Time) {
		if ns := word(i); ns != 0 {
			t = c.server.At(ns)
		}
		return t
	}
	return Activity{Busy: at(0), PeakBytes: word(1), Calls: word(2), LastCall: at(3), Submissions: word(4),
		Resident: word(5), Referenced: word(6), Fixed: word(7), Permit: word(8) == 1, Ended: word(9), Idle: at(10)}, true
}

// PeakBytes returns the most device memory that the process's tasks had in use at one time;
// known is false if the process does not tell.
func (c *client) PeakBytes() (bytes int64, known bool) {
	a, _ := c.Activity()
	return a.PeakBytes, a.PeakBytes != 0
}

// show takes the page in the place of the last one. nil: there is none.
func (c *client) show(page []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page != nil {
		_ = unix.Munmap(c.page)
	}
	c.page = page
}
