package ballast

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/native/nativetest"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	fakeUUID = "GPU-abababab-abab-abab-abab-ababababab01" // ordinal 1 of fake_cuda.c
)

// build builds the program and the fake driver, and has the program find the driver. It returns the paths of the program and of the driver's log.
func build(t *testing.T, settings map[string]uint64) (bin, log string) {
	t.Helper()
	dir := nativetest.Build(t, "ballast", "ballast", "build/libcuda.so.1")
	bin, log = filepath.Join(dir, "ballast"), filepath.Join(t.TempDir(), "log")
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(dir, "build"))
	t.Setenv("FAKE_CUDA_LOG", log)
	// A run's environment has these variables, which ballast must ignore.
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/run/pipe")
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	for k, v := range settings {
		t.Setenv("FAKE_CUDA_"+k, fmt.Sprint(v))
	}
	return bin, log
}

func start(t *testing.T, bin, device string, leave uint64) *Ballast {
	t.Helper()
	b, err := Start(context.Background(), bin, device, leave)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// freed returns from the driver's log the bytes allocated and freed, and whether the context was
// released.
func freed(t *testing.T, log string) (allocated, freed uint64, released bool) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var what string
		var n uint64
		if _, err := fmt.Sscan(line, &what, &n); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		switch what {
		case "alloc":
			allocated += n
		case "free":
			freed += n
		case "release":
			released = true
		}
	}
	return allocated, freed, released
}

func TestLeavesWhatWasAsked(t *testing.T) {
	for _, tt := range []struct {
		name     string
		device   string
		leave    uint64
		settings map[string]uint64
		want     Held
	}{
		{"whole granules", fakeUUID, 16 * gib,
			map[string]uint64{"TOTAL": 141 * gib, "DEVICES": 2},
			Held{Device: fakeUUID, Total: 141 * gib, Free: 16 * gib, Bytes: 125*gib - 512*mib, Pieces: 1}},
		{"by ordinal", "1", 16 * gib,
			map[string]uint64{"TOTAL": 141 * gib, "DEVICES": 3},
			Held{Device: fakeUUID, Total: 141 * gib, Free: 16 * gib, Bytes: 125*gib - 512*mib, Pieces: 1}},
		{"not a whole granule", "1", 3*gib + 1,
			map[string]uint64{"TOTAL": 8 * gib, "DEVICES": 2},
			Held{Device: fakeUUID, Total: 8 * gib, Free: 3*gib + 2*mib, Bytes: 5*gib - 514*mib, Pieces: 1}},
		{"others hold some", "1", 4 * gib,
			map[string]uint64{"TOTAL": 8 * gib, "USED": gib, "DEVICES": 2},
			Held{Device: fakeUUID, Total: 8 * gib, Free: 4 * gib, Bytes: 3*gib - 512*mib, Pieces: 1}},
		{"fragmented", "1", 4 * gib,
			map[string]uint64{"TOTAL": 8 * gib, "LARGEST": gib, "DEVICES": 2},
			Held{Device: fakeUUID, Total: 8 * gib, Free: 4 * gib, Bytes: 3584 * mib, Pieces: 4}},
		{"fragmented to granules", "1", gib,
			map[string]uint64{"TOTAL": 2 * gib, "LARGEST": 2 * mib, "DEVICES": 2},
			Held{Device: fakeUUID, Total: 2 * gib, Free: gib, Bytes: 512 * mib, Pieces: 256}},
		{"nothing to hold", "1", 512 * mib,
			map[string]uint64{"TOTAL": gib, "DEVICES": 2},
			Held{Device: fakeUUID, Total: gib, Free: 512 * mib}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin, log := build(t, tt.settings)
			b := start(t, bin, tt.device, tt.leave)
			tt.want.LeaveFree = tt.leave
			if diff := cmp.Diff(tt.want, b.Held()); diff != "" {
				t.Error(diff)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			a, f, released := freed(t, log)
			if a != tt.want.Bytes || f != a || !released {
				t.Errorf("allocated %d, freed %d, context released %t; want %d of each, released", a, f, released, tt.want.Bytes)
			}
		})
	}
}

func TestTooLittleFree(t *testing.T) {
	bin, _ := build(t, map[string]uint64{"TOTAL": 4 * gib, "USED": 3 * gib})
	_, err := Start(context.Background(), bin, "0", 2*gib)
	if !errors.Is(err, errNoRoom) {
		t.Fatalf("error %v, want errNoRoom", err)
	}
	if want := "0.50 of 4.00 GiB are free, 2.00 were to stay free"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q lacks %q", err, want)
	}
}

func TestStartErrors(t *testing.T) {
	for _, tt := range []struct {
		name, device string
		settings     map[string]uint64
		noDevice     bool
		want         string
	}{
		{"no such ordinal", "7", nil, true, "no device 7 among 1"},
		{"no such UUID", "GPU-00000000-0000-0000-0000-000000000000", nil, true, "no device GPU-0000"},
		{"memory that nothing gets", "0", map[string]uint64{"UNUSABLE": 64 * mib}, false, "CUDA_ERROR_OUT_OF_MEMORY"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin, _ := build(t, tt.settings)
			_, err := Start(context.Background(), bin, tt.device, 0)
			if err == nil || errors.Is(err, errNoRoom) || errors.Is(err, errNoDevice) != tt.noDevice || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
	t.Run("no program", func(t *testing.T) {
		_, err := Start(context.Background(), filepath.Join(t.TempDir(), "ballast"), "0", 0)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want that the file does not exist", err)
		}
	})
	t.Run("program that closes its output and goes on", func(t *testing.T) {
		bin := filepath.Join(t.TempDir(), "mute")
		if err := os.WriteFile(bin, []byte("#!/bin/sh\nexec cat >/dev/null\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(context.Background(), bin, "0", 0); err == nil {
			t.Error("it started")
		}
	})
	t.Run("driver that does not load", func(t *testing.T) {
		bin, _ := build(t, nil)
		broken := t.TempDir()
		if err := os.WriteFile(filepath.Join(broken, "libcuda.so.1"), []byte("no library\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("LD_LIBRARY_PATH", broken)
		_, err := Start(context.Background(), bin, "0", 0)
		if !errors.Is(err, errNoDevice) || !strings.Contains(err.Error(), "load the CUDA driver") {
			t.Errorf("error %v, want that the driver cannot be loaded", err)
		}
	})
}

func TestCancelledStartLeavesNoProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	// A program that never becomes ready and ends at the end of its input.
	bin := filepath.Join(t.TempDir(), "slow")
	script := "#!/bin/sh\necho $$ >" + pidFile + "\ncat >/dev/null\n"
	if err := os.WriteFile(bin, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Start(ctx, bin, "0", 0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the cancellation", err)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program still runs: %v", err)
	}
}

func TestEndsBySignal(t *testing.T) {
	bin, log := build(t, map[string]uint64{"TOTAL": 2 * gib})
	b := start(t, bin, "0", gib)
	if err := syscall.Kill(b.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-b.Done()
	if a, f, released := freed(t, log); a == 0 || f != a || !released {
		t.Errorf("after SIGTERM: allocated %d, freed %d, context released %t", a, f, released)
	}
	if err := b.Close(); err == nil || !strings.Contains(err.Error(), "exited before it was told to") {
		t.Errorf("close of a ballast that went away: %v", err)
	}
}

func TestDeathIsReported(t *testing.T) {
	bin, _ := build(t, map[string]uint64{"TOTAL": 2 * gib})
	b := start(t, bin, "0", gib)
	if err := syscall.Kill(b.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-b.Done()
	for range 2 {
		if err := b.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("close of a killed ballast: %v", err)
		}
	}
}

func TestDiesWithItsParent(t *testing.T) {
	if bin := os.Getenv(parentVariable); bin != "" {
		b, err := Start(context.Background(), bin, "0", gib)
		fmt.Println(err == nil)
		<-b.Done()
		return
	}
	bin, _ := build(t, map[string]uint64{"TOTAL": 2 * gib})
	killParent(t, bin)
}

// parentVariable has a program that the test is to start as its parent.
const parentVariable = "BALLAST_TEST_PARENT"

// killParent runs this test again as the parent of a program, kills it with SIGKILL, and waits for the program's end.
func killParent(t *testing.T, bin string) {
	t.Helper()
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), parentVariable+"="+bin)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 5)
	if _, err := out.Read(ready); err != nil || string(ready) != "true\n" {
		t.Fatalf("parent says %q, %v", ready, err)
	}
	gone := watch(t, childOf(t, parent.Process.Pid))
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	gone()
}
