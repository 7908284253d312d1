package nvml

// Functions of NVML that answer a list. go-nvml allocates as much as the driver says that it has, and a number such as 4294967295 ends the
// process. These calls have room for a fixed number. The library is the one that go-nvml has loaded.

// #cgo linux LDFLAGS: -Wl,--unresolved-symbols=ignore-in-object-files
//
// int nvmlDeviceGetSamples(void *device, int type, unsigned long long since, int *value_type, unsigned *count, void *samples);
// int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes);
// int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, void *processes);
// int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes);
// int nvmlDeviceGetMPSComputeRunningProcesses(void *device, unsigned *count, void *processes);
// int nvmlDeviceGetMPSComputeRunningProcesses_v2(void *device, unsigned *count, void *processes);
// int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned *count, void *processes);
import "C"

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// maxDevices is more than any machine has.
	maxDevices = 1024
	// maxProcesses is more than have contexts on one device.
	maxProcesses = 4096
	// maxSamples is more than a driver's sample buffer has.
	maxSamples = 1 << 16
)

// countInRange refuses a number of things that cannot be.
func countInRange(what string, count, limit int) error {
	if count < 0 || count > limit {
		return fmt.Errorf("the driver answered %d %s: %w", count, what, errOutOfRange)
	}
	return nil
}

// pointer is NVML's handle of a device.
func pointer(d nvml.Device) unsafe.Pointer {
	return reflect.ValueOf(d).FieldByName("Handle").UnsafePointer()
}

// samplesOf are the driver's samples of a device's utilization, newer than since in microseconds.
func samplesOf(h handle, since uint64) (nvml.ValueType, []nvml.Sample, error) {
	const name = "nvmlDeviceGetSamples"
	ask := func(count *C.uint, to unsafe.Pointer) (kind C.int, err error) {
		ret := nvml.Return(C.nvmlDeviceGetSamples(pointer(h.dev), C.int(nvml.GPU_UTILIZATION_SAMPLES), C.ulonglong(since), &kind, count, to))
		if ret == nvml.ERROR_NOT_FOUND { // nothing newer
			*count = 0
			return kind, nil
		}
		if err := check(ret, name, h.uuid); err != nil {
			return kind, err
		}
		return kind, countInRange("samples", int(*count), maxSamples)
	}
	var count C.uint
	kind, err := ask(&count, nil)
	if err != nil || count == 0 {
		return nvml.ValueType(kind), nil, err
	}
	out := make([]nvml.Sample, count)
	if kind, err = ask(&count, unsafe.Pointer(&out[0])); err != nil {
		return nvml.ValueType(kind), nil, err
	}
	return nvml.ValueType(kind), out[:min(int(count), len(out))], nil
}

// processCall is one version of a function that lists processes.
type processCall struct {
	name string
	call func(device unsafe.Pointer, count *C.uint, to unsafe.Pointer) C.int
	pair bool // an entry is a nvml.ProcessInfo_v1
}

// The latest version that the library has counts.
var (
	computeProcesses = []processCall{
		{"nvmlDeviceGetComputeRunningProcesses_v3", func(d unsafe.Pointer, n *C.uint, to unsafe.Pointer) C.int {
			return C.nvmlDeviceGetComputeRunningProcesses_v3(d, n, to)
		}, false},
		{"nvmlDeviceGetComputeRunningProcesses_v2", func(d unsafe.Pointer, n *C.uint, to unsafe.Pointer) C.int {
			return C.nvmlDeviceGetComputeRunningProcesses_v2(d, n, to)
		}, false},
		{"nvmlDeviceGetComputeRunningProcesses", func(d unsafe.Pointer, n *C.uint, to unsafe.Pointer) C.int {
			return C.nvmlDeviceGetComputeRunningProcesses(d, n, to)
		}, true},
	}
	mpsProcesses = []processCall{
		{"nvmlDeviceGetMPSComputeRunningProcesses_v3", func(d unsafe.Pointer, n *C.uint, to unsafe.Pointer) C.int {
			return C.nvmlDeviceGetMPSComputeRunningProcesses_v3(d, n, to)
		}, false},
		{"nvmlDeviceGetMPSComputeRunningProcesses_v2", func(d unsafe.Pointer, n *C.uint, to unsafe.Pointer) C.int {
			return C.nvmlDeviceGetMPSComputeRunningProcesses_v2(d, n, to)
		}, false},
		{"nvmlDeviceGetMPSComputeRunningProcesses", func(d unsafe.Pointer, n *C.uint, to unsafe.Pointer) C.int {
			return C.nvmlDeviceGetMPSComputeRunningProcesses(d, n, to)
		}, true},
	}
)

// fewProcesses is what most devices have.
const fewProcesses = 128

// listed makes the first of the calls that the library has. It returns nothing if the library has none.
func (n *Node) listed(h handle, calls []processCall) ([]nvml.ProcessInfo, error) {
	for _, c := range calls {
		if !n.has(c.name) {
			continue
		}
		out, more, err := c.listed(h, fewProcesses)
		if more {
			out, _, err = c.listed(h, maxProcesses)
		}
		return out, err
	}
	return nil, nil
}

// listed makes the call with room for so many processes. more: there may be more, and not more than there can be.
func (c processCall) listed(h handle, room int) (list []nvml.ProcessInfo, more bool, err error) {
	count := C.uint(room)
	var out []nvml.ProcessInfo
	var pairs []nvml.ProcessInfo_v1
	var to unsafe.Pointer
	if c.pair {
		pairs = make([]nvml.ProcessInfo_v1, room)
		to = unsafe.Pointer(&pairs[0])
	} else {
		out = make([]nvml.ProcessInfo, room)
		to = unsafe.Pointer(&out[0])
	}
	ret := nvml.Return(c.call(pointer(h.dev), &count, to))
	inRange := countInRange("processes", int(count), maxProcesses)
	switch {
	case ret == nvml.ERROR_INSUFFICIENT_SIZE && inRange == nil && room < maxProcesses:
		return nil, true, nil
	case ret == nvml.ERROR_INSUFFICIENT_SIZE:
		return nil, false, fmt.Errorf("the driver answered %d processes: %w", count, errOutOfRange)
	case ret != nvml.SUCCESS:
		return nil, false, check(ret, c.name, h.uuid)
	case inRange != nil:
		return nil, false, inRange
	case int(count) > room:
		return nil, room < maxProcesses, nil
	case c.pair:
		return nvml.ProcessInfo_v1Slice(pairs[:count]).ToProcessInfoSlice(), false, nil
	}
	return out[:count], false, nil
}
