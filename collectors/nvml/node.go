package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Node is the NVML session of this process. Its methods may be called from
// several goroutines at once: NVML is thread safe.
type Node struct {
	lib     nvml.Interface
	handles []handle // in PCI bus order, instances of MIG in the place of their GPU; after Select only the kept devices

	mu       sync.Mutex
	closed   bool
	hung     bool          // a driver call never came back
	stuck    map[int]bool  // GPUs of bounded calls that did not, by handle.number
	limit    time.Duration // of bounded calls; 0: callLimit. Tests set another
	samplers int

	listsClients atomic.Bool // the list of compute processes has the clients of MPS, as Users has seen
}

// handle is one device with the constant parts of its identity.
type handle struct {
	dev    nvml.Device
	gpu    nvml.Device // the GPU: dev, unless that is an instance of MIG
	index  int         // in Node.handles
	number int         // of the GPU among all that the driver lists, in PCI bus order
	id     string      // Device.ID
	uuid   string
	busID  string
	err    error // why the device cannot be used, for example because it has fallen off the bus; nil: it can

	instance int   // NVML's number among the GPU's instances of MIG
	part     *part // nil: it is a whole GPU
}

// Open loads the library (libnvidia-ml.so.1) and lists the devices. Its error wraps ErrNoGPU if
// the node has no GPU, and says why. CUDA's environment variables, such as CUDA_VISIBLE_DEVICES,
// have no effect.
//
// The end of ctx ends the wait for a driver call that does not return.
func Open(ctx context.Context) (*Node, error) { return open(ctx, callLimit) }

func open(ctx context.Context, limit time.Duration) (*Node, error) {
	n := &Node{lib: nvml.New(), limit: limit}
	if err := n.lacking(ctx); err != nil {
		return nil, fmt.Errorf("open NVML: %w", err)
	}
	if err := n.init(ctx); err != nil {
		if errors.Is(err, ErrNoGPU) {
			return nil, fmt.Errorf("open NVML: %w: %w", ErrNoGPU, err)
		}
		return nil, fmt.Errorf("open NVML: %w", err)
	}
	if err := n.list(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open NVML: %w", err), n.Close())
	}
	return n, nil
}

func (n *Node) init(ctx context.Context) error {
	_, err := whole(ctx, n, "nvmlInit_v2", func() (struct{}, nvml.Return) { return struct{}{}, n.lib.Init() })
	return err
}

func (n *Node) shutdown() error {
	_, err := whole(context.Background(), n, "nvmlShutdown", func() (struct{}, nvml.Return) { return struct{}{}, n.lib.Shutdown() })
	return err
}

func (n *Node) list(ctx context.Context) error {
	count, err := whole(ctx, n, "nvmlDeviceGetCount_v2", n.lib.DeviceGetCount)
	if err != nil {
		return err
	}
	if err := countInRange("devices", count, maxDevices); err != nil {
		return err
	}
	if count == 0 {
		return fmt.Errorf("%w: the driver is loaded and lists no devices", ErrNoGPU)
	}
	all := make([]located, count)
	var errs []error
	for i := range count {
		l, err := within(ctx, n.limit, func() (located, error) {
			l := n.locate(i)
			l.devices = n.divided(l.handle)
			return l, nil
		})
		if err != nil {
			n.hung = true
			l.err = fmt.Errorf("a driver call of device %d %w", i, err)
			l.devices = []handle{l.handle}
		}
		if all[i] = l; l.err != nil {
			errs = append(errs, all[i].err)
		}
	}
	if len(errs) == count {
		return errors.Join(errs...)
	}
	for i, l := range inBusOrder(all) {
		for _, h := range l.devices {
			h.index, h.number, h.id = len(n.handles), i, strconv.Itoa(i)
			if h.part != nil {
				h.id = fmt.Sprintf("%d:%d", i, h.instance)
			}
			n.handles = append(n.handles, h)
		}
	}
	n.tellApart()
	return nil
}

// tellApart makes devices unusable that have one UUID, because jobs are bound by UUID.
func (n *Node) tellApart() {
	for i, a := range n.handles {
		for j, b := range n.handles[:i] {
			if a.uuid == "" || a.uuid != b.uuid {
				continue
			}
			err := fmt.Errorf("GPUs %s and %s have the same UUID, %s", b.id, a.id, a.uuid)
			for _, k := range []int{j, i} {
				n.handles[k].err = cmp.Or(n.handles[k].err, err)
			}
		}
	}
}

// located is a GPU with its place, and the devices that it stands for. A GPU that cannot be used may have no place.
type located struct {
	handle
	pci     *nvml.PciInfo
	devices []handle
}

// locate asks who the device at NVML's index i is.
func (n *Node) locate(i int) located {
	at := fmt.Sprintf("device %d", i)
	l := located{}
	var ret nvml.Return
	l.dev, ret = n.lib.DeviceGetHandleByIndex(i)
	if l.gpu = l.dev; ret != nvml.SUCCESS {
		l.err = check(ret, "nvmlDeviceGetHandleByIndex", at)
		return l
	}
	uuid, ret := l.dev.GetUUID()
	if err := check(ret, "nvmlDeviceGetUUID", at); err != nil {
		l.err = err
	} else {
		l.uuid, at = oneLine(uuid), oneLine(uuid)
	}
	pci, ret := l.dev.GetPciInfo()
	if err := check(ret, "nvmlDeviceGetPciInfo", at); err != nil {
		l.err = cmp.Or(l.err, err)
		return l
	}
	l.pci, l.busID = &pci, oneLine(cString(pci.BusId[:]))
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
			errs = append(errs, h.unusable())
		}
	}
	if err := sharing(n.handles); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// unusable says which device cannot be used, and why.
func (h handle) unusable() error { return fmt.Errorf("GPU %s %w: %w", h.id, ErrUnusable, h.err) }

// Close ends the session. It refuses while a sampler of this node runs. If a driver call has not returned, the session stays open until the
// process ends: nvmlShutdown under a running call is undefined.
// The error wraps ErrHung if nvmlShutdown itself does not return.
func (n *Node) Close() error {
	n.mu.Lock()
	skip, samplers := n.closed || n.hung, n.samplers
	if skip || samplers == 0 {
		n.closed = true
	}
	n.mu.Unlock()
	switch {
	case skip:
		return nil
	case samplers > 0:
		return fmt.Errorf("close NVML: %d samplers still run", samplers)
	}
	if err := n.shutdown(); err != nil {
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
func (n *Node) Versions(ctx context.Context) (Versions, error) {
	driver, err := whole(ctx, n, "nvmlSystemGetDriverVersion", n.lib.SystemGetDriverVersion)
	if err != nil {
		return Versions{}, err
	}
	cuda, err := whole(ctx, n, "nvmlSystemGetCudaDriverVersion_v2", n.lib.SystemGetCudaDriverVersion_v2)
	if err != nil {
		return Versions{}, err
	}
	if cuda < 0 {
		return Versions{}, outOfRange("a CUDA version", cuda)
	}
	lib, err := whole(ctx, n, "nvmlSystemGetNVMLVersion", n.lib.SystemGetNVMLVersion)
	if err != nil {
		return Versions{}, err
	}
	return Versions{Driver: oneLine(driver), CUDA: fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10), NVML: oneLine(lib)}, nil
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
