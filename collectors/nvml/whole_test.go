package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caserun/caserun/native/nativetest"
)

// A call of the driver that concerns no single device and does not return is left, and named.
func TestCallsOfTheDriverThatDoNotReturn(t *testing.T) {
	const variable = "FAKE_NVML_HANGS_IN"
	if name := os.Getenv(variable); name != "" {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("stopped by a signal"))
		defer cancel()
		n, err := Open(ctx)
		if err == nil {
			_, err = n.Versions(ctx)
		}
		if err == nil {
			n.limit = time.Millisecond
			err = n.Close()
		} else if !strings.Contains(err.Error(), "stopped by a signal") {
			t.Errorf("%v", err)
		}
		if !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), name+" has not returned") {
			t.Errorf("%v", err)
		}
		if n != nil && n.Close() != nil {
			t.Error("the session is closed again")
		}
		return
	}
	dir := filepath.Join(nativetest.Build(t, "nvml"), "build")
	for _, name := range []string{"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetNVMLVersion", "nvmlShutdown"} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run", "^TestCallsOfTheDriverThatDoNotReturn$")
			c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, variable+"="+name)
			if text, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// Without an end of the context, the limit counts.
func TestLimitOfCallsOfTheDriver(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	_, err := within(t.Context(), time.Millisecond, func() (int, error) { <-release; return 0, nil })
	if !errors.Is(err, ErrHung) || err.Error() != "has not returned within 1ms" {
		t.Error(err)
	}
}

// A number of things that cannot be is a failed reading. Nothing is allocated for it.
func TestCountsThatCannotBe(t *testing.T) {
	onFake(t, []string{"FAKE_NVML_ODD=buffer"}, func(t *testing.T, n *Node) {
		if got, err := buffered(n.handles[0], time.Time{}); !errors.Is(err, errOutOfRange) || !strings.Contains(err.Error(), "4294967295 samples") {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestProcessesThatCannotBe(t *testing.T) {
	onFake(t, []string{"FAKE_NVML_ODD=processes"}, func(t *testing.T, n *Node) {
		if got, err := n.Processes(0); !errors.Is(err, errOutOfRange) || !strings.Contains(err.Error(), "2147483647 processes") {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// The processes are those of the chosen device.
func TestProcessesOfTheChosenDevice(t *testing.T) {
	const variable = "FAKE_NVML_PROCESSES"
	file := os.Getenv(variable)
	if file == "" {
		file = filepath.Join(t.TempDir(), "processes")
		if err := os.WriteFile(file, []byte("0 7\n1 42\n1 41\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	onFake(t, []string{variable + "=" + file}, func(t *testing.T, n *Node) {
		if err := n.Select("1", ""); err != nil {
			t.Fatal(err)
		}
		if got, err := n.Processes(0); err != nil || len(got) != 2 || got[0].PID != 41 || got[1].PID != 42 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A look finds what each process has, as its file says, and nothing of processes that have ended.
func TestUsersOfADevice(t *testing.T) {
	const variable = "FAKE_NVML_PROCESSES"
	dir := os.Getenv(variable)
	if dir == "" {
		dir = t.TempDir()
		for pid, text := range map[int]string{os.Getpid(): "1 4096\n0 8192\n", 1 << 30: "0 1\n"} {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(pid)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	onFake(t, []string{variable + "=" + dir}, func(t *testing.T, n *Node) {
		for device, want := range []uint64{8192, 4096} {
			got, took, err := n.Users(device, true)
			if err != nil || len(got) != 1 || *got[0].UsedBytes != want || took <= 0 {
				t.Errorf("device %d: %+v in %v, %v", device, got, took, err)
			}
		}
		if _, _, err := n.Users(2, false); err == nil || !strings.Contains(err.Error(), "GPU 2: the node has 2") {
			t.Error(err)
		}
	})
}

// A device with more processes than most have shows all of them.
func TestManyProcesses(t *testing.T) {
	const variable = "FAKE_NVML_PROCESSES"
	file := os.Getenv(variable)
	if file == "" {
		file = filepath.Join(t.TempDir(), "processes")
		var lines strings.Builder
		for pid := range 300 {
			fmt.Fprintln(&lines, 0, pid+1)
		}
		if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	onFake(t, []string{variable + "=" + file}, func(t *testing.T, n *Node) {
		if got, err := n.Processes(0); err != nil || len(got) != 300 || got[299].PID != 300 {
			t.Errorf("%d processes, %v", len(got), err)
		}
	})
}

func TestDevicesThatCannotBe(t *testing.T) {
	const variable = "FAKE_NVML_ODD"
	if os.Getenv(variable) != "" {
		if _, err := Open(t.Context()); !errors.Is(err, errOutOfRange) || errors.Is(err, ErrNoGPU) || !strings.Contains(err.Error(), "the driver answered 4294967295 devices") {
			t.Error(err)
		}
		return
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestDevicesThatCannotBe$")
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(nativetest.Build(t, "nvml"), "build"), variable+"=devices")
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// Texts of the driver are valid UTF-8 of one line before anybody stores or prints them.
func TestTextsOfTheDriver(t *testing.T) {
	onFake(t, []string{"FAKE_NVML_ODD=texts"}, func(t *testing.T, n *Node) {
		v, err := n.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d, err := n.Device(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{v.Driver, v.NVML, d.Name} {
			if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || !strings.HasSuffix(s, "\uFFFD\uFFFD\uFFFD[31m") {
				t.Errorf("%q", s)
			}
		}
	})
}

// Devices with one UUID cannot be used, because nothing tells them apart.
func TestDevicesWithOneUUID(t *testing.T) {
	onFake(t, []string{"FAKE_NVML_SAME_UUID=1"}, func(t *testing.T, n *Node) {
		const want = "GPUs 0 and 1 have the same UUID, GPU-0"
		if errs := n.Unusable(); len(errs) != 2 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%v", errs)
		}
		if err := n.Select("1", ""); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	})
}

// What is unknown of the SMs has its reason.
func TestLimitsThatCannotBe(t *testing.T) {
	for odd, want := range map[string]string{"cores": "the driver answered 4294967295 cores", "capability": "the driver answered a compute capability of 99999.0"} {
		t.Run(odd, func(t *testing.T) {
			onFake(t, []string{"FAKE_NVML_ODD=" + odd}, func(t *testing.T, n *Node) {
				if d, err := n.Device(0); err != nil || d.Limits == nil || !strings.Contains(d.Limits.Error(), want) {
					t.Errorf("%v, %v", d.Limits, err)
				}
			})
		})
	}
}
