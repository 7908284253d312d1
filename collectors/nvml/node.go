package nvml

import (
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Node is the NVML session of this process. Its methods may be called from
// several goroutines at once: NVML is thread safe.
type Node struct {
	lib     nvml.Interface
	handles []handle // in PCI bus order; after Select only the kept devices

	mu       sync.Mutex
	closed   bool
	hung     bool // a sampler's driver call never came back
	samplers int
}

// handle is one device with the constant parts of its identity.
type handle struct {
	dev    nvml.Device
	index  int // in Node.handles
	number int // among all devices that the driver lists, in PCI bus order
	uuid   string
	busID  string
}

// Open loads the library (libnvidia-ml.so.1) and lists the devices. Its error wraps ErrNoGPU if
// the node has no GPU, and says why. CUDA's environment variables, such as CUDA_VISIBLE_DEVICES,
// have no effect.
func Open() (*Node, error) {
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
	type located struct {
		handle
		domain, bus, slot uint32
	}
	var all []located
	for i := range count {
		at := fmt.Sprintf("device %d", i)
		dev, ret := n.lib.DeviceGetHandleByIndex(i)
		if err := check(ret, "nvmlDeviceGetHandleByIndex", at); err != nil {
			return err
		}
		uuid, ret := dev.GetUUID()
		if err := check(ret, "nvmlDeviceGetUUID", at); err != nil {
			return err
		}
		pci, ret := dev.GetPciInfo()
		if err := check(ret, "nvmlDeviceGetPciInfo", uuid); err != nil {
			return err
		}
		all = append(all, located{
			handle: handle{dev: dev, uuid: uuid, busID: cString(pci.BusId[:])},
			domain: pci.Domain, bus: pci.Bus, slot: pci.Device,
		})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.domain != b.domain {
			return a.domain < b.domain
		}
		if a.bus != b.bus {
			return a.bus < b.bus
		}
		return a.slot < b.slot
	})
	for i, l := range all {
		l.index, l.number = i, i
		n.handles = append(n.handles, l.handle)
	}
	return nil
}

// Close ends the session. It refuses while a sampler of this node runs or is
// hung in the driver: nvmlShutdown under a running call is undefined.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil
	case n.hung:
		return errors.New("close NVML: a sampler's driver call has not returned; leaving the library loaded")
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

// has reports whether the installed library exports symbol. Because go-nvml binds lazily, a call
// of a missing symbol ends the process.
func (n *Node) has(symbol string) bool {
	return n.lib.Extensions().LookupSymbol(symbol) == nil
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
