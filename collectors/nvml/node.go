package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Node is the NVML session of this process. Its methods may be called from
// several goroutines at once: NVML is thread safe.
type Node struct {
	lib     nvml.Interface
	handles []handle // in PCI bus order; after Select only the kept devices

	mu       sync.Mutex
	closed   bool
	hung     bool          // a driver call never came back
	stuck    map[int]bool  // devices of bounded calls that did not, by handle.number
	limit    time.Duration // of bounded calls; 0: callLimit. Tests set another
	samplers int
}

// handle is one device with the constant parts of its identity.
type handle struct {
	dev    nvml.Device
	index  int // in Node.handles
	number int // among all devices that the driver lists, in PCI bus order
	uuid   string
	busID  string
	err    error // why the device cannot be used, for example because it has fallen off the bus; nil: it can
}

// Open loads the library (libnvidia-ml.so.1) and lists the devices. Its error wraps ErrNoGPU if
// the node has no GPU, and says why. CUDA's environment variables, such as CUDA_VISIBLE_DEVICES,
// have no effect.
func Open() (*Node, error) {
	if err := lacking(); err != nil {
		return nil, fmt.Errorf("open NVML: %w", err)
	}
	lib := nvml.New()
	if err := check(lib.Init(), "nvmlInit", ""); err != nil {
		if errors.Is(err, ErrNoGPU) {
			return nil, fmt.Errorf("open NVML: %w: %w", ErrNoGPU, err)
		}
		return nil, fmt.Errorf("open NVML: %w", err)
	}
	n := &Node{lib: lib}
	if err := n.list(); err != nil {
		return nil, errors.Join(fmt.Errorf("open NVML: %w", err), n.Close())
	}
	return n, nil
}

func (n *Node) list() error {
	count, ret := n.lib.DeviceGetCount()
	if err := check(ret, "nvmlDeviceGetCount", ""); err != nil {
		return err
	}
	if count == 0 {
		return fmt.Errorf("%w: the driver is loaded and lists no devices", ErrNoGPU)
	}
	all := make([]located, count)
	var errs []error
	for i := range count {
		l, _, returned := within(n.limit, func() (located, error) { return n.locate(i), nil })
		if !returned {
			n.hung = true
			l.err = fmt.Errorf("a driver call of device %d %w within %v", i, ErrHung, cmp.Or(n.limit, callLimit))
		}
		if all[i] = l; l.err != nil {
			errs = append(errs, all[i].err)
		}
	}
	if len(errs) == count {
		return errors.Join(errs...)
	}
	for i, l := range inBusOrder(all) {
		l.index, l.number = i, i
		n.handles = append(n.handles, l.handle)
	}
	return nil
}

// located is a device with its place. A device that cannot be used may have none.
type located struct {
	handle
	pci *nvml.PciInfo
}

// locate asks who the device at NVML's index i is.
func (n *Node) locate(i int) located {
	at := fmt.Sprintf("device %d", i)
	l := located{}
	var ret nvml.Return
	if l.dev, ret = n.lib.DeviceGetHandleByIndex(i); ret != nvml.SUCCESS {
		l.err = check(ret, "nvmlDeviceGetHandleByIndex", at)
		return l
	}
	uuid, ret := l.dev.GetUUID()
	if err := check(ret, "nvmlDeviceGetUUID", at); err != nil {
		l.err = err
	} else {
		l.uuid, at = uuid, uuid
	}
	pci, ret := l.dev.GetPciInfo()
	if err := check(ret, "nvmlDeviceGetPciInfo", at); err != nil {
		l.err = cmp.Or(l.err, err)
		return l
	}
	l.pci, l.busID = &pci, cString(pci.BusId[:])
	return l
}

// inBusOrder sorts devices by PCI bus. A device whose place is unknown comes after the device before it in NVML's order, which is
// that of the bus, or its reverse.
func inBusOrder(all []located) []located {
	byBus := func(a, b located) int {
		return cmp.Or(cmp.Compare(a.pci.Domain, b.pci.Domain), cmp.Compare(a.pci.Bus, b.pci.Bus), cmp.Compare(a.pci.Device, b.pci.Device))
	}
	hasPlace := func(l located) bool { return l.pci != nil }
	first := slices.IndexFunc(all, hasPlace)
	for i := len(all) - 1; first >= 0 && i > first; i-- {
		if hasPlace(all[i]) {
			if byBus(all[first], all[i]) > 0 {
				slices.Reverse(all)
			}
			break
		}
	}
	var out, placed []located
	for _, l := range all {
		if hasPlace(l) {
			placed = append(placed, l)
		}
	}
	slices.SortFunc(placed, byBus)
	for _, l := range all {
		if hasPlace(l) {
			l, placed = placed[0], placed[1:]
		}
		out = append(out, l)
	}
	return out
}

// Unusable has an error for each of the node's devices that cannot be used.
func (n *Node) Unusable() []error {
	var errs []error
	for _, h := range n.handles {
		if h.err != nil {
			errs = append(errs, fmt.Errorf("GPU %d cannot be used: %w", h.number, h.err))
		}
	}
	return errs
}

// Close ends the session. It refuses while a sampler of this node runs. If a driver call has not returned, the session stays open until the
// process ends: nvmlShutdown under a running call is undefined.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed, n.hung:
		return nil
	case n.samplers > 0:
		return fmt.Errorf("close NVML: %d samplers still run", n.samplers)
	}
	n.closed = true
	if err := check(n.lib.Shutdown(), "nvmlShutdown", ""); err != nil {
		return fmt.Errorf("close NVML: %w", err)
	}
	return nil
}

// Versions are the versions of the installed driver.
type Versions struct {
	Driver string // such as 580.159.04
	CUDA   string // newest CUDA that the driver supports, such as 13.0
	NVML   string
}

// Versions asks the driver.
func (n *Node) Versions() (Versions, error) {
	driver, ret := n.lib.SystemGetDriverVersion()
	if err := check(ret, "nvmlSystemGetDriverVersion", ""); err != nil {
		return Versions{}, err
	}
	cuda, ret := n.lib.SystemGetCudaDriverVersion_v2()
	if err := check(ret, "nvmlSystemGetCudaDriverVersion_v2", ""); err != nil {
		return Versions{}, err
	}
	lib, ret := n.lib.SystemGetNVMLVersion()
	if err := check(ret, "nvmlSystemGetNVMLVersion", ""); err != nil {
		return Versions{}, err
	}
	return Versions{
		Driver: driver,
		CUDA:   fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10),
		NVML:   lib,
	}, nil
}

func cString(b []int8) string {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}
