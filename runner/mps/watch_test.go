package mps

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The server's lines of two faults, as a driver 580 wrote them, in pieces.
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
	const at = "[2026-11-22 04:56:50.400 Server   512] "
	write(at + "Client {PID: 508, Context: 1} encountered a fatal GPU error.\n" +
		at + "Server is handling a fatal GPU error.\n" +
		at + "Client {PID: 510, Context ID: 1} on device 1 to be torn down\n" +
		at + "Client {PID: 533, Context ID: 1} on device 1 to be torn down\n" +
		at + "All clients belonging to error trigging process 533 will be torn down\n" +
		at + "Client {PID: 533, Context ID: 1} on the error-trigging process 533 to be torn down\n" +
		at + "Client {PID: 540, Context ID: 1} on dev")
	done, seen := make(chan struct{}), make(chan int)
	ended := make(chan error)
	go func() { ended <- d.WatchFaults(done, func(device int) { seen <- device }) }()
	got := []int{<-seen}
	write("ice 0 to be torn down\n")
	got = append(got, <-seen)
	close(done)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 0}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
}

func TestWatchFaultsWithoutALog(t *testing.T) {
	d := &Daemon{root: t.TempDir()}
	if err := d.WatchFaults(make(chan struct{}), func(int) { t.Error("a fault") }); err == nil {
		t.Error("a daemon without a log is watched")
	}
}
