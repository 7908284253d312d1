package nvml

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Device is the state of one GPU when Devices was called. Nil means that the device or driver
// does not offer the value.
type Device struct {
	Index     int    // position among the node's devices, in PCI bus order
	ID        string // what Select calls it: its number among all of the machine, in the order of CUDA_DEVICE_ORDER=PCI_BUS_ID, or such as 0:2 if it is an instance of MIG
	UUID      string // GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, or MIG- and the same
	UUIDBytes [16]byte
	Name      string
	BusID     string // domain:bus:device.function
	Memory    Memory

	ComputeMajor, ComputeMinor int
	Limits                     error // why one of the four limits that follow is unknown
	SMs                        *int
	MaxWarpsPerSM              *int
	MaxBlocksPerSM             *int
	SharedPerSMBytes           *int

	Instance    *Instance // of MIG; nil: a whole GPU
	ComputeMode *ComputeMode

	SMClockHz    *uint64
	MaxSMClockHz *uint64 // the highest that the device can have
	EventReasons *EventReasons
}

// Memory is in bytes. Free is the number from which cuMemGetInfo starts. Used does not include
// what driver and firmware reserve for themselves, except with drivers before 510.
type Memory struct{ Total, Used, Free uint64 }

// ComputeMode says which processes may create contexts on a device.
type ComputeMode string

// NVML's compute modes. Under ExclusiveProcess only one process may hold
// contexts, in practice an MPS server.
const (
	ModeDefault          ComputeMode = "default"
	ModeProhibited       ComputeMode = "prohibited"
	ModeExclusiveProcess ComputeMode = "exclusive-process"
)

// EventReasons is NVML's bit set of the reasons why clocks are below their maximum
// (nvmlClocksEventReasons, formerly throttle reasons). 0 means none.
type EventReasons uint64

// eventReasonNames is in bit order, nvml.h's nvmlClocksEventReason*.
var eventReasonNames = [...]string{
	"gpu-idle", "applications-clocks", "sw-power-cap", "hw-slowdown", "sync-boost",
	"sw-thermal", "hw-thermal", "hw-power-brake", "display-clocks",
}

func (r EventReasons) String() string {
	if r == 0 {
		return "none"
	}
	var names []string
	for rest := uint64(r); rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros64(rest)
		if bit < len(eventReasonNames) {
			names = append(names, eventReasonNames[bit])
		} else {
			names = append(names, fmt.Sprintf("bit-%d", bit))
		}
	}
	return strings.Join(names, "+")
}

// Devices describes every GPU of the node in PCI bus order.
func (n *Node) Devices() ([]Device, error) {
	out := make([]Device, 0, len(n.handles))
	for i := range n.handles {
		d, err := n.Device(i)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Count is the number of the node's devices, with those that cannot be used.
func (n *Node) Count() int { return len(n.handles) }

// Device describes the device at position index. After an error the device has its numbers and, if it is known, its UUID.
func (n *Node) Device(index int) (Device, error) {
	h := n.handles[index]
	d, err := Device{Index: h.index, ID: h.id, UUID: h.uuid}, h.err
	if err == nil {
		var found Device
		if found, err = bounded(n, h, func() (Device, error) { return n.describe(h) }); !errors.Is(err, ErrHung) {
			d = found
		}
	}
	if err != nil {
		return d, fmt.Errorf("describe GPU %s: %w", h.id, err)
	}
	return d, nil
}

func (n *Node) describe(h handle) (Device, error) {
	d := Device{Index: h.index, ID: h.id, UUID: h.uuid, BusID: h.busID}
	if h.part != nil {
		d.Instance = &Instance{GPU: h.part.gpu, Profile: h.part.profile}
	}
	err := h.there()
	if err != nil {
		return d, err
	}
	if d.UUIDBytes, err = parseUUID(h.uuid); err != nil {
		return d, err
	}
	name, ret := h.dev.GetName()
	if err := check(ret, "nvmlDeviceGetName", h.uuid); err != nil {
		return d, err
	}
	d.Name = oneLine(name)
	for range memoryTries {
		if d.Memory, err = n.memory(h); err != nil {
			return d, err
		}
		if d.Memory.inRange() == nil {
			break
		}
	}
	d.Memory = d.Memory.completed()
	if err := d.Memory.inRange(); err != nil {
		return d, err
	}
	d.ComputeMajor, d.ComputeMinor, ret = h.gpu.GetCudaComputeCapability()
	if err := check(ret, "nvmlDeviceGetCudaComputeCapability", h.uuid); err != nil {
		return d, err
	}
	if err := n.limits(h, &d); errors.Is(err, ErrLost) {
		return d, err
	} else if err != nil {
		d.Limits = err
	}
	for _, q := range n.optionalQueries(h, &d) {
		if !n.has(q.call) {
			continue
		}
		// A value that is not essential is unknown after any error, unless the device is lost.
		if err := check(q.read(), q.call, h.uuid); errors.Is(err, ErrLost) {
			return d, err
		}
	}
	return d, nil
}

// limits sets what a scheduler must know of the SMs, or returns why it is unknown.
func (n *Node) limits(h handle, d *Device) error {
	if err := capabilityInRange(d.ComputeMajor, d.ComputeMinor); err != nil {
		return err
	}
	limits, known := limitsByCapability[[2]int{d.ComputeMajor, d.ComputeMinor}]
	if !known {
		return fmt.Errorf("the SM limits of compute capability %d.%d are unknown to this version", d.ComputeMajor, d.ComputeMinor)
	}
	d.MaxWarpsPerSM, d.MaxBlocksPerSM, d.SharedPerSMBytes = &limits.warps, &limits.blocks, new(limits.shared<<10)
	if h.part != nil {
		attributes, ret := h.dev.GetAttributes()
		if err := check(ret, "nvmlDeviceGetAttributes", h.uuid); err != nil {
			return err
		}
		d.SMs = new(int(attributes.MultiprocessorCount))
		return nil
	}
	cores, ret := h.dev.GetNumGpuCores()
	if err := check(ret, "nvmlDeviceGetNumGpuCores", h.uuid); err != nil {
		return err
	}
	if d.SMs = smCount(cores, limits); d.SMs == nil {
		return fmt.Errorf("the driver answered %d cores, and compute capability %d.%d has %d in each SM: %w", cores, d.ComputeMajor, d.ComputeMinor, limits.cores, errOutOfRange)
	}
	return nil
}

type query struct {
	call string // also the symbol that must exist
	read func() nvml.Return
}

func (n *Node) optionalQueries(h handle, d *Device) []query {
	reasonsCall, reasons := "nvmlDeviceGetCurrentClocksEventReasons", h.gpu.GetCurrentClocksEventReasons
	if !n.has(reasonsCall) { // drivers before 535
		reasonsCall, reasons = "nvmlDeviceGetCurrentClocksThrottleReasons", h.gpu.GetCurrentClocksThrottleReasons
	}
	return []query{
		{"nvmlDeviceGetComputeMode", func() nvml.Return {
			mode, ret := h.gpu.GetComputeMode()
			return set(&d.ComputeMode, computeModeOf(mode), ret)
		}},
		{"nvmlDeviceGetClockInfo", func() nvml.Return { return setClock(&d.SMClockHz, h.gpu.GetClockInfo) }},
		{"nvmlDeviceGetMaxClockInfo", func() nvml.Return { return setClock(&d.MaxSMClockHz, h.gpu.GetMaxClockInfo) }},
		{reasonsCall, func() nvml.Return {
			r, ret := reasons()
			if r == math.MaxUint64 { // NVML's word for an unknown number
				return nvml.ERROR_NOT_SUPPORTED
			}
			return set(&d.EventReasons, EventReasons(r), ret)
		}},
	}
}

// setClock sets a clock of the SMs, if the driver's answer can be.
func setClock(to **uint64, read func(nvml.ClockType) (uint32, nvml.Return)) nvml.Return {
	mhz, ret := read(nvml.CLOCK_SM)
	if mhz > maxClockMHz {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return set(to, uint64(mhz)*1e6, ret)
}

func set[T any](to **T, v T, ret nvml.Return) nvml.Return {
	if ret == nvml.SUCCESS {
		*to = &v
	}
	return ret
}

func computeModeOf(m nvml.ComputeMode) ComputeMode {
	switch m {
	case nvml.COMPUTEMODE_DEFAULT:
		return ModeDefault
	case nvml.COMPUTEMODE_PROHIBITED:
		return ModeProhibited
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS:
		return ModeExclusiveProcess
	}
	return ComputeMode(fmt.Sprintf("mode-%d", int(m)))
}

func (n *Node) memory(h handle) (Memory, error) {
	if n.has("nvmlDeviceGetMemoryInfo_v2") {
		m, ret := h.dev.GetMemoryInfo_v2()
		err := check(ret, "nvmlDeviceGetMemoryInfo_v2", h.uuid)
		if err == nil {
			return Memory{Total: m.Total, Used: m.Used, Free: m.Free}, nil
		}
		if optional(err) != nil {
			return Memory{}, err
		}
	}
	m, ret := h.dev.GetMemoryInfo()
	return Memory{Total: m.Total, Used: m.Used, Free: m.Free},
		check(ret, "nvmlDeviceGetMemoryInfo", h.uuid)
}

// parseUUID returns the 16 bytes of a UUID as NVML and CUDA print it, such as
// GPU-5c6a7b8c-0123-4567-89ab-cdef01234567, or MIG- and the same.
func parseUUID(s string) ([16]byte, error) {
	var out [16]byte
	kind, digits, _ := strings.Cut(s, "-")
	parts := strings.Split(digits, "-")
	if kind != "GPU" && kind != "MIG" || len(parts) != 5 {
		return out, fmt.Errorf("GPU UUID %q: want GPU- or MIG-, and five groups of hexadecimal digits", s)
	}
	for i, n := range [...]int{8, 4, 4, 4, 12} {
		if len(parts[i]) != n {
			return out, fmt.Errorf("GPU UUID %q: group %d has %d digits, want %d", s, i+1, len(parts[i]), n)
		}
	}
	if _, err := hex.Decode(out[:], []byte(strings.Join(parts, ""))); err != nil {
		return out, fmt.Errorf("GPU UUID %q: %w", s, err)
	}
	return out, nil
}
