package checkpoint

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/schedulers"
)

// onFakes returns the program on a node of fake GPUs.
func onFakes(t *testing.T) (bin string) {
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(nativetest.Build(t, "fake"), "build/13"))
	t.Setenv("FAKE_CUDA_CHECKPOINT", "1")
	return filepath.Join(nativetest.Build(t, "ballast", "checkpoint", "ballast", "build/libcuda.so.1"), "checkpoint")
}

func TestTry(t *testing.T) {
	bin := onFakes(t)
	if r, err := Try(t.Context(), bin, "1"); err != nil || r.Outcome != schedulers.Done || !r.Whole || r.CopyS <= 0 || r.BackS <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for variable, want := range map[string]string{
		"FAKE_CUDA_MPS=1": "unable", "FAKE_CUDA_FAIL=cuCheckpointProcessLock:1=600": "unable",
		"FAKE_CUDA_FAIL=cuCheckpointProcessCheckpoint:1=801": "unable", "FAKE_CUDA_FAIL=cuCheckpointProcessRestore:1=2": "not enough free memory",
		"FAKE_CUDA_FAIL=cuMemAlloc_v2:1=2": "cuMemAlloc",
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
			r, err := Try(t.Context(), bin, "0")
			if said := string(r.Outcome); said != want && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%+v, %v; want %q", r, err, want)
			}
		})
	}
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(filepath.Dir(bin), "build")) // a driver without the functions
	if _, err := Try(t.Context(), bin, "0"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an old driver: %v", err)
	}
	bin = onFakes(t)
	t.Setenv("FAKE_CUDA_DEVICES", "0")
	if _, err := Out(t.Context(), bin, time.Second, os.Getpid()); err == nil || errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), "cuInit") {
		t.Errorf("no device: %v", err)
	}
}

// holder starts a process that holds memory of a fake GPU. used is what NVML says of it.
func holder(t *testing.T) (pid int, used func() string) {
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(nativetest.Build(t, "ballast", "ballast"), "ballast"), "0", "1000000000")
	cmd.Env = append(os.Environ(), "FAKE_NVML_PROCESSES="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	return cmd.Process.Pid, func() string {
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(strings.Split(string(text), "\n")[0])
	}
}

// A process is brought back from wherever its checkpoint was killed.
func TestKilledInTheMiddle(t *testing.T) {
	bin := onFakes(t)
	for _, call := range []string{"cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint", "cuCheckpointProcessRestore", "cuCheckpointProcessUnlock"} {
		t.Run(call, func(t *testing.T) {
			pid, used := holder(t)
			before := used()
			kill := func(on bool) {
				t.Helper()
				if on {
					t.Setenv("FAKE_CUDA_KILL", call+":1")
				} else {
					t.Setenv("FAKE_CUDA_KILL", "")
				}
			}
			kill(true)
			r, err := Out(t.Context(), bin, time.Second, pid)
			if err == nil {
				if r.Outcome != schedulers.Done || used() == before {
					t.Fatalf("out: %+v, %s used", r, used())
				}
				_, err = In(t.Context(), bin, pid)
			}
			if !errors.Is(err, ErrBlocked) {
				t.Fatalf("error %v", err)
			}
			kill(false)
			if r, err := In(t.Context(), bin, pid); err != nil || r.Outcome != schedulers.Done {
				t.Errorf("in: %+v, %v", r, err)
			}
			if used() != before {
				t.Errorf("%s used, %s before", used(), before)
			}
		}) // whose cleanup has the process free its memory, which waits while it is locked
	}
}

// A process that has gone, or has no memory on a GPU, holds nobody up.
func TestWithoutCUDA(t *testing.T) {
	bin := onFakes(t)
	if r, err := Out(t.Context(), bin, time.Second, os.Getpid()); err != nil || r.Outcome != schedulers.Busy {
		t.Errorf("out: %+v, %v", r, err)
	}
	if r, err := In(t.Context(), bin, os.Getpid()); err != nil || r.Outcome != schedulers.Done {
		t.Errorf("in: %+v, %v", r, err)
	}
}

// One process that cannot be taken out lets the others go on.
func TestAllOrNothing(t *testing.T) {
	bin := onFakes(t)
	first, used := holder(t)
	second, _ := holder(t)
	before := used()
	for _, call := range []string{"Lock", "Checkpoint"} {
		t.Setenv("FAKE_CUDA_FAIL", "cuCheckpointProcess"+call+":2=801")
		if r, err := Out(t.Context(), bin, time.Second, first, second); err != nil || r.Outcome != schedulers.Unable || used() != before {
			t.Errorf("%s: %+v, %v, %s used", call, r, err, used())
		}
	}
	t.Setenv("FAKE_CUDA_FAIL", "cuCheckpointProcessRestore:2=2")
	if r, err := Out(t.Context(), bin, time.Second, first, second); err != nil || r.Outcome != schedulers.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := In(t.Context(), bin, first, second); err != nil || r.Outcome != schedulers.Busy {
		t.Errorf("without room for the second: %+v, %v", r, err)
	}
	t.Setenv("FAKE_CUDA_FAIL", "")
	if r, err := In(t.Context(), bin, first, second); err != nil || r.Outcome != schedulers.Done || used() != before {
		t.Errorf("once there is room: %+v, %v, %s used", r, err, used())
	}
}
