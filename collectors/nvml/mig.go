package nvml

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// MIG divides a GPU into instances, each of which is a device of the node. The divided GPU is none, because CUDA does not
// offer it. NVML has a handle for each instance, with which most questions about a device can be asked. The rest are asked
// of the GPU.

// Instance is what a device has that is an instance of MIG.
type Instance struct {
	GPU     string // the UUID of the GPU that it is a part of
	Profile string // such as 1g.5gb
}

// part is a handle's place in a GPU that is divided.
type part struct {
	gpu     string // UUID
	group   int    // the GPU instance that it is in: compute instances of one share its memory
	profile string
}

// mig are the functions for instances. A driver that has some of them has all.
var mig = []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetAttributes_v2"}

// Divided reports whether one of the node's devices is an instance of MIG. Of these a process sees one only, and the one that it is to see
// must be settled before it starts CUDA.
func (n *Node) Divided() bool {
	return slices.ContainsFunc(n.handles, func(h handle) bool { return h.part != nil })
}

// divided are the devices that a GPU stands for: itself, or its instances.
func (n *Node) divided(gpu handle) []handle {
	if gpu.err != nil || !n.hasAll(mig) {
		return []handle{gpu}
	}
	if mode, _, ret := gpu.dev.GetMigMode(); ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return []handle{gpu}
	}
	most, ret := gpu.dev.GetMaxMigDeviceCount()
	err := check(ret, "nvmlDeviceGetMaxMigDeviceCount", gpu.uuid)
	if err == nil {
		err = countInRange("instances of MIG", most, maxDevices)
	}
	if err != nil {
		gpu.err = err
		return []handle{gpu}
	}
	var out []handle
	for i := range most {
		dev, ret := gpu.dev.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT { // no instance has this number
			continue
		}
		h := handle{dev: dev, gpu: gpu.dev, busID: gpu.busID, instance: i, part: &part{gpu: gpu.uuid}}
		if h.err = check(ret, "nvmlDeviceGetMigDeviceHandleByIndex", fmt.Sprintf("instance %d of %s", i, gpu.uuid)); h.err == nil {
			h.err = h.identify()
		}
		if ret == nvml.ERROR_NO_PERMISSION {
			h.err = fmt.Errorf("%w: this user, or this container, may not use it (/dev/nvidia-caps)", h.err)
		}
		out = append(out, h)
	}
	if len(out) == 0 {
		gpu.err = errors.New("MIG is on, and it has no instance that this process may use: nvidia-smi mig -lgi lists them, and an administrator makes them (nvidia-smi mig -cgi PROFILE -C)")
		return []handle{gpu}
	}
	return out
}

// identify asks who an instance is.
func (h *handle) identify() error {
	at := fmt.Sprintf("instance %d of %s", h.instance, h.part.gpu)
	uuid, ret := h.dev.GetUUID()
	if err := check(ret, "nvmlDeviceGetUUID", at); err != nil {
		return err
	}
	h.uuid = oneLine(uuid)
	if h.part.group, ret = h.dev.GetGpuInstanceId(); ret != nvml.SUCCESS {
		return check(ret, "nvmlDeviceGetGpuInstanceId", h.uuid)
	}
	attributes, ret := h.dev.GetAttributes()
	if err := check(ret, "nvmlDeviceGetAttributes", h.uuid); err != nil {
		return err
	}
	name, ret := h.dev.GetName()
	if err := check(ret, "nvmlDeviceGetName", h.uuid); err != nil {
		return err
	}
	h.part.profile = profile(oneLine(name), attributes)
	return nil
}

// sharing returns an error if two of the devices are compute instances in one GPU instance. They share its memory, and a run counts on
// memory of a device's own.
func sharing(devices []handle) error {
	for i, a := range devices {
		for _, b := range devices[:i] {
			if a.err == nil && b.err == nil && a.part != nil && b.part != nil && a.number == b.number && a.part.group == b.part.group {
				return fmt.Errorf("%s are compute instances of one GPU instance and share its memory: name only one of them with --devices", present([]handle{b, a}, 0, 1))
			}
		}
	}
	return nil
}

// profile is an instance's kind. Its name ends with it, as in "NVIDIA A100-SXM4-40GB MIG 1g.5gb"; else it is composed of its slices and
// its memory, and may have another number of GB than nvidia-smi shows.
func profile(name string, a nvml.DeviceAttributes) string {
	if _, found, ok := strings.Cut(name, " MIG "); ok {
		return found
	}
	text := fmt.Sprintf("%dg.%dgb", a.GpuInstanceSliceCount, (a.MemorySizeMB+1023)/1024)
	if a.ComputeInstanceSliceCount < a.GpuInstanceSliceCount {
		text = fmt.Sprintf("%dc.%s", a.ComputeInstanceSliceCount, text)
	}
	return text
}

// destroyed is how an instance is lost.
type destroyed struct{ id, uuid string }

func (e destroyed) Error() string {
	return fmt.Sprintf("instance %s (%s) was destroyed: name others with --devices, or make it again", e.id, e.uuid)
}

func (destroyed) Is(target error) bool { return target == ErrLost }

// there returns an error that wraps ErrLost if an instance was destroyed. NVML may then use its handle for another one
// (nvmlDeviceGetMigDeviceHandleByIndex).
func (h handle) there() error {
	if h.part == nil {
		return nil
	}
	uuid, ret := h.dev.GetUUID()
	switch {
	case ret == nvml.ERROR_INVALID_ARGUMENT, ret == nvml.ERROR_NOT_FOUND, ret == nvml.SUCCESS && oneLine(uuid) != h.uuid:
		return destroyed{h.id, h.uuid}
	}
	return check(ret, "nvmlDeviceGetUUID", h.uuid)
}
