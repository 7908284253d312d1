package swaparea

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/native/nativetest"
)

// build builds the program and the fake driver, and has the program find the driver.
func build(t *testing.T, settings map[string]int64) string {
	t.Helper()
	dir := nativetest.Build(t, "ballast", "swaparea", "build/libcuda.so.1")
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(dir, "build"))
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/run/pipe") // as in a run; the program must ignore it
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	for k, v := range settings {
		t.Setenv("FAKE_CUDA_"+k, fmt.Sprint(v))
	}
	return filepath.Join(dir, "swaparea")
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestPieces(t *testing.T) {
	bin := build(t, nil)
	before := openFiles(t)
	var said []int64
	a, err := Start(context.Background(), bin, 100*PieceBytes, PieceBytes, func(n int64) { said = append(said, n/PieceBytes) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{64, 100}; !slices.Equal(said, want) || a.Bytes() != 100*PieceBytes {
		t.Errorf("made %d, in all %d; want %d pieces", said, a.Bytes()/PieceBytes, want)
	}
	spare := a.TakeSpare(60)
	if len(spare) != 50 || len(a.TakeSpare(1)) != 0 {
		t.Errorf("took %d spare pieces of 100; want 50, and then none", len(spare))
	}
	a.Give(spare)
	first, second := a.Take(40), a.Take(70)
	if len(first) != 40 || len(second) != 60 || len(a.Take(1)) != 0 {
		t.Errorf("took %d and %d of 100 pieces; want 40 and 60, and then none", len(first), len(second))
	}
	all := slices.Sorted(slices.Values(append(slices.Clone(first), second...)))
	if len(slices.Compact(all)) != 100 {
		t.Errorf("a piece was given twice")
	}
	for _, fd := range all {
		var s unix.Stat_t
		if err := unix.Fstat(fd, &s); err != nil || s.Size != PieceBytes {
			t.Fatalf("piece of %d bytes: %v", s.Size, err)
		}
	}
	a.Give(first)
	if again := a.Take(100); len(again) != 40 {
		t.Errorf("took %d of what was given back; want 40", len(again))
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

func TestStartErrors(t *testing.T) {
	for _, tt := range []struct {
		name     string
		bytes    int64
		settings map[string]int64
		want     string
		noRoom   bool
	}{
		{"too little host memory", 100 * PieceBytes, map[string]int64{"HOST": 70 * PieceBytes}, fmt.Sprint("after ", 70*PieceBytes, " bytes"), true},
		{"no GPU", PieceBytes, map[string]int64{"DEVICES": 0}, "no GPU", false},
		{"not whole pieces", PieceBytes + 1, nil, "not a multiple of", false},
		{"nothing", 0, nil, "not a multiple of", false},
		{"too many pieces", 1 << 50, nil, "raise it (ulimit -n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := build(t, tt.settings)
			before := openFiles(t)
			_, err := Start(context.Background(), bin, tt.bytes, PieceBytes, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, errNoRoom) != tt.noRoom {
				t.Errorf("error %v; want one that says %q", err, tt.want)
			}
			if after := openFiles(t); after != before {
				t.Errorf("%d open files, %d before", after, before)
			}
		})
	}
}

func TestNonsenseIsAnError(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "swaparea")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\necho nonsense >&3\nexec cat >/dev/null\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(context.Background(), bin, PieceBytes, PieceBytes, nil); err == nil || !strings.Contains(err.Error(), `"nonsense`) {
		t.Errorf("error %v; want one that quotes what the program said", err)
	}
}

func TestCancelledStart(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "swaparea")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\nexec cat >/dev/null\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Start(ctx, bin, PieceBytes, PieceBytes, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want the cancellation", err)
	}
}

func TestDeathIsReported(t *testing.T) {
	bin := build(t, nil)
	a, err := Start(context.Background(), bin, PieceBytes, PieceBytes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(a.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-a.Done()
	if err := a.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("close of an area whose program was killed: %v", err)
	}
}
