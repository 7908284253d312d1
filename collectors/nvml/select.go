package nvml

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
)

// Select keeps the devices that list names and numbers them from 0 in PCI bus order, as if the
// node had no others. It must come before any other use of the node. After an error the node is
// unchanged.
//
// The items of list are separated by commas. An item is a number in PCI bus order, a UUID, or
// the beginning of a UUID that matches one device only. An item that matches no device is an
// error. CUDA would end CUDA_VISIBLE_DEVICES there, but a run on fewer devices than the user
// meant is a different measurement. An item that within does not name is an error too, unless within is
// empty. A device that cannot be used is an error that wraps ErrUnusable.
func (n *Node) Select(list, within string) error {
	var uuids []string
	for _, h := range n.handles {
		uuids = append(uuids, h.uuid)
	}
	numbers, err := selected(list, uuids)
	if err != nil {
		return err
	}
	if within != "" {
		allowed, err := selected(within, uuids)
		if err != nil {
			return fmt.Errorf("%s: %w", within, err)
		}
		for _, number := range numbers {
			if !slices.Contains(allowed, number) {
				return fmt.Errorf("GPU %s is not one of %s", present(uuids, number), within)
			}
		}
	}
	kept := make([]handle, len(numbers))
	for i, number := range numbers {
		kept[i] = n.handles[number]
		if kept[i].err != nil {
			return kept[i].unusable()
		}
		kept[i].index = i
	}
	n.handles = kept
	return nil
}

// selected returns the positions in uuids of the devices that list names, ascending.
func selected(list string, uuids []string) ([]int, error) {
	items, err := input.List(list)
	if err != nil {
		return nil, err
	}
	named := map[int]string{} // the item for each position
	for _, item := range items {
		at, err := find(item, uuids)
		if err != nil {
			return nil, err
		}
		if other, twice := named[at]; twice {
			return nil, fmt.Errorf("%s and %s are the same GPU, %s: name it once", other, item, present(uuids, at))
		}
		named[at] = item
	}
	return slices.Sorted(maps.Keys(named)), nil
}

// find returns the position in uuids of the device that item names.
func find(item string, uuids []string) (int, error) {
	var all, found []int
	number, notNumber := input.Uint(item, 31)
	for i, uuid := range uuids {
		all = append(all, i)
		if notNumber == nil && int(number) == i || strings.HasPrefix(item, "GPU-") && strings.HasPrefix(uuid, item) {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return 0, fmt.Errorf("%s begins the UUIDs of several GPUs, %s: give more of it", item, present(uuids, found...))
	case strings.HasPrefix(item, "MIG-"):
		return 0, fmt.Errorf("%s is a MIG device, and caserun schedules whole GPUs: want one or more of %s", item, present(uuids, all...))
	}
	return 0, fmt.Errorf("no GPU %s: want one or more of %s", item, present(uuids, all...))
}

// present names devices by number and UUID.
func present(uuids []string, numbers ...int) string {
	var out []string
	for _, i := range numbers {
		out = append(out, fmt.Sprintf("%d (%s)", i, cmp.Or(uuids[i], "its UUID cannot be read")))
	}
	return strings.Join(out, ", ")
}
