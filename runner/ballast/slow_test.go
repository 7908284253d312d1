package ballast

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

// buildSlow is build for native/ballast/slow.
func buildSlow(t *testing.T, settings map[string]uint64) (bin, log string) {
	t.Helper()
	_, log = build(t, settings)
	return filepath.Join(nativetest.Build(t, "ballast", "slow"), "slow"), log
}

// slow has a device keep 33 of its 132 SMs.
func slow(bin string) (*Slowed, error) {
	return Slow(context.Background(), bin, fakeUUID, 132, 33, []string{"CUDA_MPS_PIPE_DIRECTORY=/tmp/mps"})
}

// kernels is what the driver's log says of kernels.
func kernels(t *testing.T, log string) string {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", ")
}

// The counting process gets what was asked, or one more, and the kernel ends when it is told to.
func TestSlow(t *testing.T) {
	for _, free := range []uint64{33, 34} {
		bin, log := buildSlow(t, map[string]uint64{"FREE_SMS": free})
		s, err := slow(bin)
		if err != nil {
			t.Fatal(err)
		}
		if s.Left() != int(free) {
			t.Errorf("%d SMs are left, want %d", s.Left(), free)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := kernels(t, log); got != "hold 99, probe 528, told 99" {
			t.Error(got)
		}
	}
}

func TestSlowErrors(t *testing.T) {
	for want, settings := range map[string]map[string]uint64{
		"other processes get 40 SMs, and 33 were to be left": {"FREE_SMS": 40},
		"only 40 of 99 SMs were free within 1 s":             {"HOLD_SMS": 40},
	} {
		t.Run(want, func(t *testing.T) {
			bin, log := buildSlow(t, settings)
			_, err := slow(bin)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "hold 99 of the 132 SMs of "+fakeUUID+": ") {
				t.Error(err)
			}
			if got := kernels(t, log); !strings.HasSuffix(got, "told 99") {
				t.Errorf("the kernel has not ended: %s", got)
			}
		})
	}
	bin, _ := buildSlow(t, nil)
	if _, err := Slow(context.Background(), bin, "0", 132, 33, nil); err == nil || !strings.Contains(err.Error(), "cuInit") {
		t.Errorf("without a daemon: %v", err)
	}
}

// The kernel ends when the harness is killed, and when the program itself is.
func TestTheKernelEndsWithItsParent(t *testing.T) {
	if bin := os.Getenv(parentVariable); bin != "" {
		s, err := slow(bin)
		fmt.Println(err == nil)
		<-s.Done()
		return
	}
	bin, log := buildSlow(t, nil)
	killParent(t, bin)
	if got := kernels(t, log); got != "hold 99, probe 528, told 99" {
		t.Errorf("after the parent was killed: %s", got)
	}

	bin, log = buildSlow(t, nil)
	s, err := slow(bin)
	if err != nil {
		t.Fatal(err)
	}
	gone := watch(t, childOf(t, s.PID()))
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	gone()
	if got := kernels(t, log); got != "hold 99, probe 528, unheard 99" {
		t.Errorf("after the program was killed: %s", got)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
}

// A kernel that ends by itself ends the program.
func TestAnEndedKernelIsReported(t *testing.T) {
	bin, _ := buildSlow(t, nil)
	s, err := slow(bin)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(childOf(t, s.PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "the kernel ended by itself") {
		t.Error(err)
	}
}
