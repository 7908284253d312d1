package nvml

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/internal/input"
)

var fourUUIDs = []string{
	"GPU-5c6a7b8c-0123-4567-89ab-cdef01234567",
	"GPU-0e000000-0000-0000-0000-000000000001",
	"GPU-5c6b0000-0000-0000-0000-000000000002",
	"GPU-5c6b0000-0000-0000-0000-000000000003",
}

// four are devices of these UUIDs.
func four() (all []handle) {
	for i, uuid := range fourUUIDs {
		all = append(all, handle{number: i, id: strconv.Itoa(i), uuid: uuid})
	}
	return all
}

func TestSelected(t *testing.T) {
	for _, c := range []struct {
		list string
		want []int
	}{
		{"0", []int{0}},
		{"3", []int{3}},
		{"0,1,2,3", []int{0, 1, 2, 3}},
		{"3,1", []int{1, 3}},
		{" 2 , 0 ", []int{0, 2}},
		{"GPU-0e000000-0000-0000-0000-000000000001", []int{1}},
		{"GPU-0", []int{1}},
		{"GPU-5c6a", []int{0}},
		{"GPU-5c6b0000-0000-0000-0000-000000000003,GPU-5c6a,1", []int{0, 1, 3}},
	} {
		if got, err := selected(c.list, four()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.list, got, err, c.want)
		}
	}
	const all = "0 (GPU-5c6a7b8c-0123-4567-89ab-cdef01234567), 1 (GPU-0e000000-0000-0000-0000-000000000001), " +
		"2 (GPU-5c6b0000-0000-0000-0000-000000000002), 3 (GPU-5c6b0000-0000-0000-0000-000000000003)"
	const want = ": want one or more of " + all
	for list, says := range map[string]string{
		"":       input.ErrEmptyItem.Error(),
		"0,":     input.ErrEmptyItem.Error(),
		"0,,1":   input.ErrEmptyItem.Error(),
		"01":     "no GPU 01" + want,
		"0x1":    "no GPU 0x1" + want,
		"1e0":    "no GPU 1e0" + want,
		"4":      "no GPU 4" + want,
		"0,-1":   "no GPU -1" + want,
		"+1":     "no GPU +1" + want,
		"0 1":    "no GPU 0 1" + want,
		"0-3":    "no GPU 0-3" + want,
		"all":    "no GPU all" + want,
		"5c6a":   "no GPU 5c6a" + want,
		"GPU-f":  "no GPU GPU-f" + want,
		"1,9999": "no GPU 9999" + want,
		// Too large for integers of 32 and of 64 bits.
		"4294967296":           "no GPU 4294967296" + want,
		"18446744073709551616": "no GPU 18446744073709551616" + want,
		"GPU-0e000000-0000-0000-0000-0000000000010":        "no GPU GPU-0e000000-0000-0000-0000-0000000000010" + want,
		"MIG-5c6a7b8c-0123-4567-89ab-cdef01234567":         "no GPU MIG-5c6a7b8c-0123-4567-89ab-cdef01234567" + want,
		"MIG-GPU-5c6a7b8c-0123-4567-89ab-cdef01234567/0/0": "MIG-GPU-5c6a7b8c-0123-4567-89ab-cdef01234567/0/0 is how drivers before 470 named an instance of MIG" + want,
		"1:0": "no instance 0 of GPU 1, which is not divided (MIG is off, or it has none)" + want,
		"GPU-5c6b": "GPU-5c6b begins the UUIDs of several GPUs, 2 (GPU-5c6b0000-0000-0000-0000-000000000002), " +
			"3 (GPU-5c6b0000-0000-0000-0000-000000000003): give more of it",
		"GPU-":      "GPU- begins the UUIDs of several GPUs, " + all + ": give more of it",
		"1,2,1":     "1 and 1 are the same GPU, 1 (GPU-0e000000-0000-0000-0000-000000000001): name it once",
		"1,GPU-0e0": "1 and GPU-0e0 are the same GPU, 1 (GPU-0e000000-0000-0000-0000-000000000001): name it once",
	} {
		got, err := selected(list, four())
		if err == nil {
			t.Errorf("%q: %v, want an error", list, got)
		} else if diff := cmp.Diff(says, err.Error()); diff != "" {
			t.Errorf("%q:\n%s", list, diff)
		}
	}
}

// listed returns a node as Open lists it, whose devices in PCI bus order are fourUUIDs. The
// driver's order differs. Device i has i processes and a utilization of i %.
func listed(t *testing.T) *Node {
	t.Helper()
	lib := &mock.Interface{
		DeviceGetCountFunc: func() (int, nvml.Return) { return len(fourUUIDs), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			place := len(fourUUIDs) - 1 - i
			return &mock.Device{
				GetUUIDFunc:    func() (string, nvml.Return) { return fourUUIDs[place], nvml.SUCCESS },
				GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{Bus: uint32(16 * place)}, nvml.SUCCESS },
				GetNameFunc:    func() (string, nvml.Return) { return "fake", nvml.SUCCESS },
				GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
					return nvml.Memory{Total: 1 << 30, Free: 1 << 30}, nvml.SUCCESS
				},
				GetNumGpuCoresFunc:           func() (int, nvml.Return) { return 132 * 128, nvml.SUCCESS },
				GetCudaComputeCapabilityFunc: func() (int, int, nvml.Return) { return 9, 0, nvml.SUCCESS },
				GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) {
					return nvml.Utilization{Gpu: uint32(place)}, nvml.SUCCESS
				},
			}, nvml.SUCCESS
		},
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nvml.ERROR_FUNCTION_NOT_FOUND }}
		},
	}
	n := &Node{lib: lib}
	if err := n.list(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

// Every query about a node's devices returns the selected devices, numbered from 0.
func TestSelectRenumbers(t *testing.T) {
	for _, c := range []struct {
		list string // empty: no selection
		want []int
	}{
		{"", []int{0, 1, 2, 3}},
		{"2,1", []int{1, 2}},
		{"GPU-5c6b0000-0000-0000-0000-000000000003", []int{3}},
	} {
		n := listed(t)
		if c.list != "" {
			if err := n.Select(c.list, ""); err != nil {
				t.Fatal(err)
			}
		}
		devices, err := n.Devices()
		if err != nil {
			t.Fatal(err)
		}
		sources, _, err := n.sources()
		if err != nil {
			t.Fatal(err)
		}
		if len(devices) != len(c.want) || len(sources) != len(c.want) {
			t.Fatalf("%q: %d devices and %d sources, want %d", c.list, len(devices), len(sources), len(c.want))
		}
		for i, number := range c.want {
			if d := devices[i]; d.Index != i || d.ID != strconv.Itoa(number) || d.UUID != fourUUIDs[number] {
				t.Errorf("%q: device %d is %d, number %s, %s; want number %d, %s", c.list, i, d.Index, d.ID, d.UUID, number, fourUUIDs[number])
			}
			if percent, _, err := sources[i].Utilization(); err != nil || percent != number {
				t.Errorf("%q: device %d is utilized %d %%, %v; want %d %%", c.list, i, percent, err, number)
			}
		}
		if _, err := n.Processes(len(c.want)); err == nil || !strings.Contains(err.Error(), "the node has") {
			t.Errorf("%q: error %v for a device beyond the chosen", c.list, err)
		}
	}
}

func TestFailedSelectKeepsAll(t *testing.T) {
	n := listed(t)
	if err := n.Select("0,7", ""); err == nil {
		t.Fatal("GPU 7 was selected")
	}
	if devices, err := n.Devices(); err != nil || len(devices) != len(fourUUIDs) {
		t.Errorf("%d devices, %v, want all", len(devices), err)
	}
}

// A list may be limited to what another list names.
func TestSelectWithin(t *testing.T) {
	for _, c := range []struct{ list, within, says string }{
		{"1,GPU-5c6a", "0,1", ""},
		{"1", "GPU-0", ""},
		{"1,2", "0,1", "GPU 2 (GPU-5c6b0000-0000-0000-0000-000000000002) is not one of 0,1"},
		{"1", "1,9", "1,9: no GPU 9"},
	} {
		n := listed(t)
		err := n.Select(c.list, c.within)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says)) {
			t.Errorf("%s within %s: %v, want %q", c.list, c.within, err, c.says)
		}
		if devices, _ := n.Devices(); err != nil && len(devices) != len(fourUUIDs) {
			t.Errorf("%s within %s: an error left %d devices", c.list, c.within, len(devices))
		}
	}
}
