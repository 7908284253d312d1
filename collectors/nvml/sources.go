package nvml

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// NodeSampler is a sampler of a node's devices.
type NodeSampler struct {
	*sampler
	node *Node
	free func() error // GPM's buffers
}

// StartSampler samples every device of the node. The node must stay open until
// Stop has returned.
func (n *Node) StartSampler(cfg Config) (*NodeSampler, error) {
	n.mu.Lock()
	closed := n.closed
	if !closed {
		n.samplers++
	}
	n.mu.Unlock()
	if closed {
		return nil, errors.New("sampler: the node is closed")
	}
	sources, free, err := n.sources()
	var s *sampler
	if err == nil {
		s, err = start(cfg, sources)
	}
	if err != nil {
		n.mu.Lock()
		n.samplers--
		n.mu.Unlock()
		return nil, errors.Join(err, free())
	}
	return &NodeSampler{sampler: s, node: n, free: free}, nil
}

// Stop is sampler.Stop. After an error that wraps ErrHung the node cannot be closed, and its
// memory in the driver stays allocated until the process ends.
func (s *NodeSampler) Stop(limit time.Duration) (Stats, error) {
	stats, err := s.sampler.Stop(limit)
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-s.sampled:
	default:
		n.hung = true
		return stats, err
	}
	free := s.free
	if s.free = nil; free == nil {
		return stats, err
	}
	n.samplers--
	n.mu.Unlock()
	err = errors.Join(err, free())
	n.mu.Lock()
	return stats, err
}

// sources are the node's devices. An error says which device's driver calls do not return. free must follow in any case.
func (n *Node) sources() (sources []source, free func() error, err error) {
	type found struct {
		source source
		window *gpmWindow
	}
	var frees []func() error
	free = func() error {
		var errs []error
		for _, f := range frees {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	for _, h := range n.handles {
		if h.err != nil {
			sources = append(sources, source{})
			continue
		}
		f, err := bounded(n, h, func() (found, error) {
			s, w := n.source(h)
			return found{s, w}, nil
		})
		if err != nil {
			return nil, free, fmt.Errorf("sample GPU %s: %w", h.id, err)
		}
		if w := f.window; w != nil {
			frees = append(frees, func() error {
				_, err := bounded(n, h, func() (struct{}, error) { return struct{}{}, w.close() })
				if errors.Is(err, ErrHung) { // the memory stays allocated until the process ends
					return nil
				}
				return err
			})
		}
		sources = append(sources, f.source)
	}
	return sources, free, nil
}

// source asks what a device offers. The window is nil without GPM.
func (n *Node) source(h handle) (source, *gpmWindow) {
	s := source{
		Utilization: func() (gpu, mem int, err error) {
			u, ret := h.dev.GetUtilizationRates()
			return int(u.Gpu), int(u.Memory), check(ret, "nvmlDeviceGetUtilizationRates", h.uuid)
		},
		MemoryUsed: n.memoryUsed(h),
		Memory:     n.memoryTotal(h),
		Buffered: func(after time.Time) ([]bufferedSample, error) {
			return buffered(h, after)
		},
		Energy: n.energy(h),
		Power:  n.power(h),
		Alive: func() error {
			_, ret := h.dev.GetMemoryInfo()
			return check(ret, "nvmlDeviceGetMemoryInfo", h.uuid)
		},
	}
	if h.part != nil {
		s = s.ofInstance(h)
	}
	w := n.newGPM(h)
	if w != nil {
		s.SMActivity = w.read
	}
	return s, w
}

// identityEvery is how many readings of an instance's memory pass before its UUID is read again: its handle may have become another one's.
const identityEvery = 100

// ofInstance is what an instance of MIG offers of it. NVML has utilization, and the meters have power and energy, of the whole GPU only.
func (s source) ofInstance(h handle) source {
	none := fmt.Errorf("utilization of an instance of MIG: %w", errNotSupported)
	s.Utilization = func() (gpu, mem int, err error) { return 0, 0, none }
	s.Buffered = func(time.Time) ([]bufferedSample, error) { return nil, none }
	s.Energy, s.Power = nil, nil
	used, reads := s.MemoryUsed, 0
	s.MemoryUsed = func() (uint64, error) {
		bytes, err := used()
		if reads++; err != nil || reads%identityEvery == 0 {
			err = cmp.Or(h.there(), err)
		}
		return bytes, err
	}
	s.Alive = h.there
	return s
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

func buffered(h handle, after time.Time) ([]bufferedSample, error) {
	var since uint64
	if !after.IsZero() {
		since = uint64(after.UnixMicro())
	}
	kind, samples, err := samplesOf(h, since)
	if err != nil || len(samples) == 0 {
		return nil, err
	}
	if kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return nil, fmt.Errorf("nvmlDeviceGetSamples on %s: value type %d, want unsigned int", h.uuid, kind)
	}
	out := make([]bufferedSample, 0, len(samples))
	for _, s := range samples {
		if s.TimeStamp == 0 { // an entry of the array that the driver did not fill
			continue
		}
		out = append(out, bufferedSample{
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

// newGPM returns nil if GPM is not available: before Hopper, and with older drivers.
func (n *Node) newGPM(h handle) *gpmWindow {
	if !n.hasAll(gpm) || h.part != nil && !n.has("nvmlGpmMigSampleGet") {
		return nil
	}
	support, ret := h.gpu.GpmQueryDeviceSupport()
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
	if err := w.sample(); err != nil {
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

func (w *gpmWindow) sample() error {
	if p := w.h.part; p != nil {
		return check(w.next.MigGet(w.h.gpu, p.group), "nvmlGpmMigSampleGet", w.h.uuid)
	}
	return check(w.next.Get(w.h.dev), "nvmlGpmSampleGet", w.h.uuid)
}

func (w *gpmWindow) close() error {
	return errors.Join(
		check(w.prev.Free(), "nvmlGpmSampleFree", w.h.uuid),
		check(w.next.Free(), "nvmlGpmSampleFree", w.h.uuid))
}
