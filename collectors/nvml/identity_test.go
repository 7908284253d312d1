package nvml

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

func TestParseUUID(t *testing.T) {
	got, err := parseUUID("GPU-5c6a7b8c-0123-4567-89ab-cdef01234567")
	want := [16]byte{0x5c, 0x6a, 0x7b, 0x8c, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67}
	if err != nil || got != want {
		t.Errorf("ParseUUID = %x, %v; want %x", got, err, want)
	}
	for _, bad := range []string{
		"", "5c6a7b8c-0123-4567-89ab-cdef01234567", "MIX-5c6a7b8c-0123-4567-89ab-cdef01234567",
		"GPU-5c6a7b8c-0123-4567-89ab-cdef0123456", "GPU-5c6a7b8c012345-67-89ab-cdef0-1234567",
		"GPU-5c6a7b8c-0123-4567-89ab-cdef0123456g",
	} {
		if _, err := parseUUID(bad); err == nil || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("ParseUUID(%q): error %v, want one that quotes it", bad, err)
		}
	}
}

func TestSMCount(t *testing.T) {
	for _, tt := range []struct {
		name         string
		major, minor int
		cores        int
		want         int // 0: unknown
	}{
		{"P100", 6, 0, 3584, 56},
		{"V100", 7, 0, 5120, 80},
		{"A100", 8, 0, 6912, 108},
		{"RTX 4090", 8, 9, 16384, 128},
		{"H200", 9, 0, 16896, 132},
		{"not a multiple", 9, 0, 16897, 0},
		{"unknown chip", 99, 0, 16896, 0},
		{"no cores", 9, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := smCount(tt.cores, limitsByCapability[[2]int{tt.major, tt.minor}])
			if tt.want == 0 && got != nil {
				t.Errorf("%d SMs, want unknown", *got)
			}
			if tt.want != 0 && (got == nil || *got != tt.want) {
				t.Errorf("%v SMs, want %d", got, tt.want)
			}
		})
	}
}

func TestEventReasonsString(t *testing.T) {
	for r, want := range map[EventReasons]string{
		0: "none", 1: "gpu-idle", 0x4 | 0x40: "sw-power-cap+hw-thermal", 1 << 40: "bit-40",
	} {
		if got := r.String(); got != want {
			t.Errorf("EventReasons(%#x) = %q, want %q", uint64(r), got, want)
		}
	}
}

func TestMergeProcesses(t *testing.T) {
	got := mergeProcesses(
		[]nvml.ProcessInfo{{Pid: 30, UsedGpuMemory: 300}, {Pid: 10, UsedGpuMemory: math.MaxUint64}},
		[]nvml.ProcessInfo{{Pid: 20, UsedGpuMemory: 0}, {Pid: 30, UsedGpuMemory: 300}})
	zero, some := uint64(0), uint64(300)
	want := []Process{{PID: 10}, {PID: 20, UsedBytes: &zero, MPS: true}, {PID: 30, UsedBytes: &some, MPS: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReturnCodesBecomeErrors(t *testing.T) {
	if err := check(nvml.SUCCESS, "nvmlInit", ""); err != nil {
		t.Errorf("SUCCESS is the error %v", err)
	}
	for _, tt := range []struct {
		ret               nvml.Return
		noGPU, notOffered bool
	}{
		{nvml.ERROR_LIBRARY_NOT_FOUND, true, false},
		{nvml.ERROR_DRIVER_NOT_LOADED, true, false},
		{nvml.ERROR_NOT_SUPPORTED, false, true},
		{nvml.ERROR_FUNCTION_NOT_FOUND, false, true},
		{nvml.ERROR_GPU_IS_LOST, false, false},
		{nvml.ERROR_NO_PERMISSION, false, false},
		{nvml.ERROR_LIB_RM_VERSION_MISMATCH, false, false},
	} {
		err := check(tt.ret, "nvmlDeviceGetName", "GPU-x")
		if errors.Is(err, ErrNoGPU) != tt.noGPU || errors.Is(err, errNotSupported) != tt.notOffered {
			t.Errorf("%v: ErrNoGPU %t, ErrNotSupported %t; want %t, %t", err,
				errors.Is(err, ErrNoGPU), errors.Is(err, errNotSupported), tt.noGPU, tt.notOffered)
		}
		if !strings.HasPrefix(err.Error(), "nvmlDeviceGetName on GPU-x: ") {
			t.Errorf("%q does not name the call and the device", err)
		}
	}
}
