package probe

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/internal/chance"
)

// The Go runtime sends signals to its own threads, which interrupt poll(2) even where that
// does not wait. The connection is open all the same.
func TestPollIsNotInterrupted(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if _, err := unix.Write(pair[0], []byte("frame")); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var over atomic.Bool
	begun, signals := make(chan struct{}), make(chan struct{})
	go func(thread int) {
		defer close(signals)
		_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
		for close(begun); !over.Load(); {
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
		}
	}(unix.Gettid())
	<-begun
	for range chance.Count(5000, 300_000) {
		if hungUp(pair[1]) {
			t.Error("an open connection counts as closed")
			break
		}
		if !ready(int32(pair[1])) {
			t.Error("a frame that is there does not count")
			break
		}
	}
	over.Store(true)
	<-signals
}
