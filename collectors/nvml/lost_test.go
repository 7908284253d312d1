package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A lost device keeps its number, and the others can be used.
func TestLostDevice(t *testing.T) {
	for _, lost := range []string{"0", "1"} {
		t.Run(lost, func(t *testing.T) {
			onFake(t, []string{"FAKE_GPUS=3", "FAKE_NVML_LOST=" + lost}, func(t *testing.T, n *Node) {
				if errs := n.Unusable(); len(errs) != 1 || !errors.Is(errs[0], ErrLost) || !strings.HasPrefix(errs[0].Error(), "GPU "+lost+" cannot be used") {
					t.Errorf("unusable: %v, want GPU %s", errs, lost)
				}
				if _, err := n.Devices(); !errors.Is(err, ErrLost) {
					t.Errorf("a node with a lost device: %v", err)
				}
				if err := n.Select(lost, ""); !errors.Is(err, ErrLost) {
					t.Errorf("the lost device chosen: %v", err)
				}
				other := map[string]string{"0": "2", "1": "0"}[lost]
				if err := n.Select(other, ""); err != nil {
					t.Fatal(err)
				}
				d, err := n.Devices()
				if err != nil || len(d) != 1 || d[0].ID != other || !strings.HasPrefix(d[0].UUID, "GPU-"+other) {
					t.Errorf("the other device: %+v, %v", d, err)
				}
			})
		})
	}
}

// One device that falls off the bus is said once. A device that answers other calls is not lost.
func TestDeviceFallsOff(t *testing.T) {
	when := filepath.Join(t.TempDir(), "lost")
	if dir := os.Getenv("FAKE_NVML_LOST_WHEN"); dir != "" {
		when = dir
	}
	onFake(t, []string{"FAKE_NVML_LOST=1", "FAKE_NVML_LOST_WHEN=" + when, "FAKE_METER=counter fails"}, func(t *testing.T, n *Node) {
		sources, _, err := n.sources()
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t, sources...)
		var said []int
		b.lost = func(device int, err error) {
			if !errors.Is(err, ErrLost) {
				t.Errorf("device %d: %v", device, err)
			}
			said = append(said, device)
		}
		for range 5 {
			b.ticks(1)
			b.readPower()
		}
		if len(said) != 0 {
			t.Errorf("devices %v are lost, because a meter fails", said)
		}
		if err := os.WriteFile(when, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			b.ticks(1)
			b.readPower()
		}
		if fmt.Sprint(said) != "[1]" {
			t.Errorf("said to be lost: %v, want device 1 once", said)
		}
	})
}

// A device without a place keeps its place among the others, in the bus's order and in its reverse.
func TestPlaceOfDeviceWithoutOne(t *testing.T) {
	at := func(name string, bus uint32) located {
		return located{handle: handle{uuid: name}, pci: &nvml.PciInfo{Bus: bus}}
	}
	lost := located{handle: handle{uuid: "lost"}}
	for _, tt := range []struct {
		all  []located
		want string
	}{
		{[]located{at("a", 1), lost, at("c", 3)}, "a lost c"},
		{[]located{at("c", 3), lost, at("a", 1)}, "a lost c"},
		{[]located{lost, at("b", 2), at("c", 3)}, "lost b c"},
		{[]located{at("c", 3), at("b", 2), lost}, "lost b c"},
		{[]located{at("a", 1), lost}, "a lost"},
		{[]located{lost, lost}, "lost lost"},
		{[]located{at("b", 2), at("a", 1), at("c", 3)}, "a b c"},
	} {
		var got []string
		for _, l := range inBusOrder(tt.all) {
			got = append(got, l.uuid)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v, want %s", got, tt.want)
		}
	}
}
