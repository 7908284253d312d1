package nvml

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/input"
)

// Select keeps the devices that list names and numbers them from 0 in PCI bus order, as if the
// node had no others. It must come before any other use of the node. After an error the node is
// unchanged.
//
// The items of list are separated by commas. An item is a number in PCI bus order, that of an instance of MIG such as 0:2, a UUID, or
// the beginning of a UUID that matches one device only. An item that matches no device is an
// error. CUDA would end CUDA_VISIBLE_DEVICES there, but a run on fewer devices than the user
// meant is a different measurement. An item that within does not name is an error too, unless within is
// empty. A device that cannot be used is an error that wraps ErrUnusable.
func (n *Node) Select(list, within string) error {
	numbers, err := selected(list, n.handles)
	if err != nil {
		return err
	}
	if within != "" {
		allowed, err := selected(within, n.handles)
		if err != nil {
			return fmt.Errorf("%s: %w", within, err)
		}
		for _, number := range numbers {
			if !slices.Contains(allowed, number) {
				return fmt.Errorf("GPU %s is not one of %s", present(n.handles, number), within)
			}
		}
	}
	return n.keep(numbers)
}

// First keeps only the first device, as Select does.
func (n *Node) First() error { return n.keep([]int{0}) }

func (n *Node) keep(numbers []int) error {
	kept := make([]handle, len(numbers))
	for i, number := range numbers {
		kept[i] = n.handles[number]
		if kept[i].err != nil {
			return kept[i].unusable()
		}
		kept[i].index = i
	}
	if err := sharing(kept); err != nil {
		return err
	}
	n.handles = kept
	return nil
}

// selected returns the positions of the devices that list names, ascending.
func selected(list string, devices []handle) ([]int, error) {
	items, err := input.List(list)
	if err != nil {
		return nil, err
	}
	named := map[int]string{} // the item for each position
	for _, item := range items {
		at, err := find(item, devices)
		if err != nil {
			return nil, err
		}
		if other, twice := named[at]; twice {
			return nil, fmt.Errorf("%s and %s are the same GPU, %s: name it once", other, item, present(devices, at))
		}
		named[at] = item
	}
	return slices.Sorted(maps.Keys(named)), nil
}

// find returns the position of the device that item names.
func find(item string, devices []handle) (int, error) {
	isUUID := strings.HasPrefix(item, "GPU-") || strings.HasPrefix(item, "MIG-")
	names := func(id, uuid string) bool { return item == id || isUUID && strings.HasPrefix(uuid, item) }
	var all, found, parts []int
	for i, d := range devices {
		all = append(all, i)
		if names(d.id, d.uuid) {
			found = append(found, i)
		}
		if d.part != nil && names(strconv.Itoa(d.number), d.part.gpu) {
			parts = append(parts, i)
		}
	}
	number, instance, ofInstance := strings.Cut(item, ":")
	switch {
	case len(found) == 1 && len(parts) == 0:
		return found[0], nil
	case len(found) > 0:
		return 0, fmt.Errorf("%s begins the UUIDs of several GPUs, %s: give more of it", item, present(devices, slices.Sorted(slices.Values(slices.Concat(found, parts)))...))
	case len(parts) > 0:
		return 0, fmt.Errorf("GPU %s is divided into instances (MIG), and a run is on instances: want one or more of %s", item, present(devices, parts...))
	case strings.HasPrefix(item, "MIG-GPU-"):
		return 0, fmt.Errorf("%s is how drivers before 470 named an instance of MIG: want one or more of %s", item, present(devices, all...))
	case ofInstance && slices.ContainsFunc(devices, func(d handle) bool { return d.id == number }):
		return 0, fmt.Errorf("no instance %s of GPU %s, which is not divided (MIG is off, or it has none): want one or more of %s", instance, number, present(devices, all...))
	}
	return 0, fmt.Errorf("no GPU %s: want one or more of %s", item, present(devices, all...))
}

// present names devices by number and UUID.
func present(devices []handle, numbers ...int) string {
	var out []string
	for _, i := range numbers {
		out = append(out, fmt.Sprintf("%s (%s)", devices[i].id, cmp.Or(devices[i].uuid, "its UUID cannot be read")))
	}
	return strings.Join(out, ", ")
}
