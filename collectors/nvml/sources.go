package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// NodeSampler is a Sampler of a node's devices.
type NodeSampler struct {
	*Sampler
	node *Node
	free func() error // GPM's buffers
}

// StartSampler samples every device of the node. The node must stay open until
// Stop has returned.
func (n *Node) StartSampler(cfg Config) (*NodeSampler, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.New("sampler: the node is closed")
	}
	sources, free := n.sources()
	s, err := Start(cfg, sources)
	if err != nil {
		return nil, errors.Join(err, free())
	}
	n.samplers++
	return &NodeSampler{Sampler: s, node: n, free: free}, nil
}

// Stop is Sampler.Stop. After an error that wraps ErrHung the node cannot be closed, and its
// memory in the driver stays allocated until the process ends.
func (s *NodeSampler) Stop(limit time.Duration) (Stats, error) {
	stats, err := s.Sampler.Stop(limit)
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	select {
	case <-s.sampled:
	default:
		s.node.hung = true
		return stats, err
	}
	if s.free == nil {
		return stats, err
	}
	err = errors.Join(err, s.free())
	s.free = nil
	s.node.samplers--
	return stats, err
}

func (n *Node) sources() (sources []Source, free func() error) {
	var windows []*gpmWindow
	for _, h := range n.handles {
		if h.err != nil {
			sources = append(sources, Source{})
			continue
		}
		s := Source{
			Utilization: func() (gpu, mem int, err error) {
				u, ret := h.dev.GetUtilizationRates()
				return int(u.Gpu), int(u.Memory), check(ret, "nvmlDeviceGetUtilizationRates", h.uuid)
			},
			MemoryUsed: n.memoryUsed(h),
			Memory:     n.memoryTotal(h),
			Buffered: func(after time.Time) ([]BufferedSample, error) {
				return buffered(h, after)
			},
			Energy: n.energy(h),
			Power:  n.power(h),
			Alive: func() error {
				_, ret := h.dev.GetMemoryInfo()
				return check(ret, "nvmlDeviceGetMemoryInfo", h.uuid)
			},
		}
		if w := n.newGPM(h); w != nil {
			windows = append(windows, w)
			s.SMActivity = w.read
		}
		sources = append(sources, s)
	}
	return sources, func() error {
		var errs []error
		for _, w := range windows {
			errs = append(errs, w.close())
		}
		return errors.Join(errs...)
	}
}

// memoryUsed returns a function that reads the same value as Memory.Used.
func (n *Node) memoryUsed(h handle) func() (uint64, error) {
	if n.has("nvmlDeviceGetMemoryInfo_v2") {
		if _, ret := h.dev.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			return func() (uint64, error) {
				m, ret := h.dev.GetMemoryInfo_v2()
				return m.Used, check(ret, "nvmlDeviceGetMemoryInfo_v2", h.uuid)
			}
		}
	}
	return func() (uint64, error) {
		m, ret := h.dev.GetMemoryInfo()
		return m.Used, check(ret, "nvmlDeviceGetMemoryInfo", h.uuid)
	}
}

// memoryTotal is 0 if the device does not tell.
func (n *Node) memoryTotal(h handle) uint64 {
	m, err := n.memory(h)
	if err != nil || m.Total > maxMemory {
		return 0
	}
	return m.Total
}

// energy returns nil if the driver lacks the counter; devices before Volta do not support it.
func (n *Node) energy(h handle) func() (uint64, error) {
	const call = "nvmlDeviceGetTotalEnergyConsumption"
	if !n.has(call) {
		return nil
	}
	return func() (uint64, error) {
		mJ, ret := h.dev.GetTotalEnergyConsumption()
		return mJ, check(ret, call, h.uuid)
	}
}

// power returns nil if the driver has no call for it.
func (n *Node) power(h handle) func() (uint64, error) {
	const fields, usage = "nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage"
	if n.has(fields) {
		instant := func() (uint64, error) { return instantPower(h) }
		if _, err := instant(); err == nil {
			return instant
		}
	}
	if !n.has(usage) {
		return nil
	}
	return func() (uint64, error) {
		mW, ret := h.dev.GetPowerUsage()
		return uint64(mW), check(ret, usage, h.uuid)
	}
}

// instantPower reads the field NVML_FI_DEV_POWER_INSTANT, in milliwatts.
func instantPower(h handle) (uint64, error) {
	const call = "nvmlDeviceGetFieldValues(POWER_INSTANT)"
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_POWER_INSTANT}}
	if err := check(h.dev.GetFieldValues(values), call, h.uuid); err != nil {
		return 0, err
	}
	v := values[0]
	if err := check(nvml.Return(v.NvmlReturn), call, h.uuid); err != nil {
		return 0, err
	}
	if nvml.ValueType(v.ValueType) != nvml.VALUE_TYPE_UNSIGNED_INT {
		return 0, fmt.Errorf("%s on %s: value type %d, want unsigned int", call, h.uuid, v.ValueType)
	}
	return uint64(binary.NativeEndian.Uint32(v.Value[:4])), nil
}

func buffered(h handle, after time.Time) ([]BufferedSample, error) {
	var since uint64
	if !after.IsZero() {
		since = uint64(after.UnixMicro())
	}
	kind, samples, ret := h.dev.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, since)
	if ret == nvml.ERROR_NOT_FOUND { // nothing newer
		return nil, nil
	}
	if err := check(ret, "nvmlDeviceGetSamples", h.uuid); err != nil {
		return nil, err
	}
	if kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return nil, fmt.Errorf("nvmlDeviceGetSamples on %s: value type %d, want unsigned int", h.uuid, kind)
	}
	out := make([]BufferedSample, 0, len(samples))
	for _, s := range samples {
		if s.TimeStamp == 0 { // an entry of the array that the driver did not fill
			continue
		}
		out = append(out, BufferedSample{
			At:      time.UnixMicro(int64(s.TimeStamp)),
			Percent: int(binary.NativeEndian.Uint32(s.SampleValue[:4])),
		})
	}
	return out, nil
}

// gpmWindow reads GPM's SM utilization between two GPM samples that are at least gpmMinimum
// apart.
type gpmWindow struct {
	lib        nvml.Interface
	h          handle
	prev, next nvml.GpmSample
	taken      time.Time // of prev; zero before the first
}

// gpmMinimum is minActivityPeriod minus the jitter of a wakeup.
const gpmMinimum = minActivityPeriod * 95 / 100

// newGPM returns nil if GPM is not available: before Hopper, with older drivers, and on a whole
// device in MIG mode.
func (n *Node) newGPM(h handle) *gpmWindow {
	if !n.hasAll(gpm) {
		return nil
	}
	support, ret := h.dev.GpmQueryDeviceSupport()
	if ret != nvml.SUCCESS || support.IsSupportedDevice == 0 {
		return nil
	}
	prev, ret := n.lib.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		return nil
	}
	next, ret := n.lib.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		_ = prev.Free() // GPM is unavailable anyway
		return nil
	}
	return &gpmWindow{lib: n.lib, h: h, prev: prev, next: next}
}

func (w *gpmWindow) read() (ratio float64, ok bool, err error) {
	now := time.Now()
	if !w.taken.IsZero() && now.Sub(w.taken) < gpmMinimum {
		return 0, false, nil
	}
	if err := check(w.next.Get(w.h.dev), "nvmlGpmSampleGet", w.h.uuid); err != nil {
		return 0, false, err
	}
	first := w.taken.IsZero()
	w.taken = now
	w.prev, w.next = w.next, w.prev
	if first {
		return 0, false, nil
	}
	get := &nvml.GpmMetricsGetType{NumMetrics: 1, Sample1: w.next, Sample2: w.prev}
	get.Metrics[0].MetricId = uint32(nvml.GPM_METRIC_SM_UTIL)
	if err := check(w.lib.GpmMetricsGet(get), "nvmlGpmMetricsGet", w.h.uuid); err != nil {
		return 0, false, err
	}
	m := get.Metrics[0]
	if err := check(nvml.Return(m.NvmlReturn), "nvmlGpmMetricsGet(SM_UTIL)", w.h.uuid); err != nil {
		return 0, false, err
	}
	return m.Value / 100, true, nil
}

func (w *gpmWindow) close() error {
	return errors.Join(
		check(w.prev.Free(), "nvmlGpmSampleFree", w.h.uuid),
		check(w.next.Free(), "nvmlGpmSampleFree", w.h.uuid))
}
