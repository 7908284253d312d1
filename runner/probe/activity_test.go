package probe

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/probe/wire"
	"github.com/caserun/caserun/schedulers"
)

// memfd is a file of so many bytes with these seals, which begins with the numbers.
func memfd(t *testing.T, size int64, seals int, ns, bytes uint64) int {
	t.Helper()
	file, err := unix.MemfdCreate("activity", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(file) })
	if err := unix.Ftruncate(file, size); err != nil {
		t.Fatal(err)
	}
	if size >= earlierActivitySize {
		page := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, ns), bytes)
		if _, err := unix.Pwrite(file, page, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return file
}

// The page of a process that could take it away again, or shows something else, is none.
func TestActivityPage(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	started := time.Now()
	s := &Server{started: started, startedNS: 1000}
	for _, c := range []struct {
		name  string
		files []int
		known bool
		since time.Duration // after the server's start; 0: nothing is running
		peak  int64         // 0: unknown
	}{
		{"none", nil, false, 0, 0},
		{"busy", []int{memfd(t, activitySize, unix.F_SEAL_SHRINK, 3000, 0)}, true, 2000, 0},
		{"idle", []int{memfd(t, 4096, unix.F_SEAL_SHRINK, 0, 7)}, true, 0, 7},
		{"it says too much", []int{memfd(t, activitySize, unix.F_SEAL_SHRINK, 0, 1<<63)}, true, 0, math.MaxInt64},
		{"it could shrink", []int{memfd(t, activitySize, 0, 3000, 7)}, false, 0, 0},
		{"of an earlier version", []int{memfd(t, earlierActivitySize, unix.F_SEAL_SHRINK, 3000, 7)}, true, 2000, 7},
		{"too short", []int{memfd(t, earlierActivitySize-1, unix.F_SEAL_SHRINK, 0, 0)}, false, 0, 0},
		{"another kind of file", []int{pair[0]}, false, 0, 0},
		{"more than one", []int{memfd(t, activitySize, unix.F_SEAL_SHRINK, 3000, 7), memfd(t, activitySize, unix.F_SEAL_SHRINK, 9000, 8)}, true, 2000, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rights []byte
			if c.files != nil {
				rights = unix.UnixRights(c.files...)
			}
			if err := unix.Sendmsg(pair[0], []byte("hello"), rights, nil, 0); err != nil {
				t.Fatal(err)
			}
			in := make([]byte, wire.MaxFrame)
			n, page, err := receiveFirst(pair[1], in)
			if err != nil || string(in[:n]) != "hello" {
				t.Fatalf("received %q, %v", in[:n], err)
			}
			client := &client{server: s, page: page}
			shown, known := client.Activity()
			since := shown.Busy
			if known != c.known || since.IsZero() != (c.since == 0) || c.since != 0 && since.Sub(started) != c.since {
				t.Errorf("busy since %v (%v), known %v; want %v, %v", since, since.Sub(started), known, c.since, c.known)
			}
			if peak, known := client.PeakBytes(); peak != c.peak || known != (c.peak != 0) {
				t.Errorf("peak of %d bytes, known %v; want %d", peak, known, c.peak)
			}
			client.show(nil)
			if _, known := client.Activity(); known {
				t.Error("a page that is forgotten is known")
			}
		})
	}
}

// What a process shows is read as it is, whatever it writes, and after it is gone.
func TestActivitySnapshot(t *testing.T) {
	file := memfd(t, activitySize, unix.F_SEAL_SHRINK, 0, 0)
	started := time.Now()
	c := &client{server: &Server{started: started, startedNS: 1000}, page: mapActivity(file)}
	show := func(words ...uint64) {
		var page []byte
		for _, w := range words {
			page = binary.LittleEndian.AppendUint64(page, w)
		}
		if _, err := unix.Pwrite(file, page, 0); err != nil {
			t.Fatal(err)
		}
	}
	show(2000, 7, 3, 5000, 11, 900, 600, 100, 1, 10, 3000)
	want := Activity{Busy: started.Add(1000), PeakBytes: 7, Calls: 3, LastCall: started.Add(4000), Submissions: 11,
		Resident: 900, Referenced: 600, Fixed: 100, Permit: true, Ended: 10, Idle: started.Add(2000)}
	if a, known := c.Activity(); !known || a != want {
		t.Errorf("it shows %+v, %v, want %+v", a, known, want)
	}
	all := uint64(math.MaxUint64)
	show(all, all, all, all, all, all, all, all, all, all, all)
	most := c.server.At(math.MaxInt64)
	want = Activity{Busy: most, PeakBytes: math.MaxInt64, Calls: math.MaxInt64, LastCall: most, Submissions: math.MaxInt64,
		Resident: math.MaxInt64, Referenced: math.MaxInt64, Fixed: math.MaxInt64, Ended: math.MaxInt64, Idle: most}
	if a, known := c.Activity(); !known || a != want {
		t.Errorf("garbage is %+v, %v, want %+v", a, known, want)
	}
	var readers sync.WaitGroup
	for range 4 { // while the client is closed
		readers.Go(func() {
			for known := true; known; {
				_, known = c.Activity()
			}
		})
	}
	c.show(nil)
	readers.Wait()
}

// A task is running while a call of its process is under way, and busy until all that was submitted is over.
func TestActivityIsPosted(t *testing.T) {
	file := memfd(t, activitySize, unix.F_SEAL_SHRINK, 0, 0)
	var posted []runner.Event
	s := &Server{startedNS: 1000, known: map[schedulers.Process]*client{}, asked: map[int]bool{}, tasks: map[schedulers.TaskID]*task{}}
	s.started = time.Now()
	s.config = Config{Start: s.started, Chunk: 1, Swap: probetest.NewRecorder(nil), Post: func(_ time.Duration, e runner.Event) error {
		posted = append(posted, e)
		return nil
	}}
	c := &client{server: s, process: &process{}, job: &job{}, can: wire.CanEvict, page: mapActivity(file)}
	s.tasks[7] = &task{client: c, id: 7}
	for _, test := range []struct {
		calls, submissions, ended uint64
		want                      schedulers.Activity
	}{
		{0, 0, 0, schedulers.Activity{}},
		{1, 3, 3, schedulers.Activity{Running: true, Ended: 3}},
		{2, 4, 3, schedulers.Activity{Running: true, Busy: true, Ended: 3}},
		{0, 4, 3, schedulers.Activity{Busy: true, Ended: 3}},
		{0, 4, 4, schedulers.Activity{Ended: 4}},
	} {
		var page []byte
		for _, w := range []uint64{0, 0, test.calls, 0, test.submissions, 0, 0, 0, 1, test.ended} {
			page = binary.LittleEndian.AppendUint64(page, w)
		}
		if _, err := unix.Pwrite(file, page, 0); err != nil {
			t.Fatal(err)
		}
		posted = nil
		s.PostActivity()
		if want := (runner.TaskActive{ID: 7, Activity: test.want}); len(posted) != 1 || posted[0] != want {
			t.Errorf("posted %+v, want %+v", posted, want)
		}
	}
	c.show(nil)
}
