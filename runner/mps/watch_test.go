package mps

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The server's lines of two faults, as driver 580 wrote them, arrive in pieces.
func TestWatchFaults(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{root: root}
	out, err := os.Create(d.logFile("output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	write := func(text string) {
		if _, err := out.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	wrote := now.Add(-100 * time.Millisecond).Truncate(time.Millisecond)
	at := "[" + wrote.Format(logTime) + " Server   512] "
	write(at + "Client {PID: 508, Context: 1} encountered a fatal GPU error.\n" +
		at + "Server is handling a fatal GPU error.\n" +
		at + "Client {PID: 510, Context ID: 1} on device 1 to be torn down\n" +
		at + "Client {PID: 533, Context ID: 1} on device 1 to be torn down\n" +
		at + "All clients belonging to error trigging process 533 will be torn down\n" +
		at + "Client {PID: 533, Context ID: 1} on the error-trigging process 533 to be torn down\n" +
		at + "Client {PID: 540, Context ID: 1} on dev")
	type fault struct {
		device int
		at     time.Time
	}
	done, seen := make(chan struct{}), make(chan fault)
	ended := make(chan error)
	go func() {
		ended <- d.watchFaults(done, func() time.Time { return now }, func(device int, at time.Time) { seen <- fault{device, at} })
	}()
	first := <-seen
	write("ice 0 to be torn down\n")
	got := []int{first.device, (<-seen).device}
	if !first.at.Equal(wrote) {
		t.Errorf("the fault was at %v, want its line's time, %v", first.at, wrote)
	}
	close(done)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 0}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
}

// The time of a line that is too old, not over yet or not a time is that of reading it.
func TestTimeOfALine(t *testing.T) {
	now := time.Now()
	for text, want := range map[string]time.Time{
		now.Add(-900 * time.Millisecond).Format(logTime): now.Add(-900 * time.Millisecond).Truncate(time.Millisecond),
		now.Format(logTime): now.Truncate(time.Millisecond),
		now.Add(-1002 * time.Millisecond).Format(logTime): now,
		now.Add(2 * time.Millisecond).Format(logTime):     now,
		"yesterday": now,
	} {
		if got := wroteAt(text, now); !got.Equal(want) {
			t.Errorf("%s, read at %v: %v, want %v", text, now, got, want)
		}
	}
}

func TestWatchFaultsWithoutALog(t *testing.T) {
	d := &Daemon{root: t.TempDir()}
	if err := d.WatchFaults(make(chan struct{}), func(int, time.Time) { t.Error("a fault") }); err == nil {
		t.Error("a daemon without a log is watched")
	}
}
