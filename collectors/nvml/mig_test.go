package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// One GPU is divided into three instances, and the other is whole.
var divided = []string{"FAKE_GPUS=4", "FAKE_MIG=3"}

func ids(t *testing.T, n *Node) string {
	t.Helper()
	devices, err := n.Devices()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, d := range devices {
		if d.Index != i {
			t.Errorf("device %d has index %d", i, d.Index)
		}
		out = append(out, d.ID)
	}
	return strings.Join(out, " ")
}

func TestInstancesAreDevices(t *testing.T) {
	onFake(t, append(divided, "FAKE_METER=counter instant"), func(t *testing.T, n *Node) {
		if got := ids(t, n); got != "0:0 0:1 0:2 1" {
			t.Fatalf("devices %s", got)
		}
		devices, _ := n.Devices()
		whole, d := devices[3], devices[1]
		if whole.Instance != nil || *whole.SMs != 132 || !strings.HasPrefix(whole.UUID, "GPU-3") {
			t.Errorf("the whole GPU: %+v", whole)
		}
		if d.Instance == nil || *d.Instance != (Instance{GPU: "GPU-90000000-0000-0000-0000-000000000000", Profile: "1g.2gb"}) ||
			*d.SMs != 16 || d.ComputeMajor != 9 || *d.MaxWarpsPerSM != 64 || d.UUID != "MIG-10000000-0000-0000-0000-000000000000" || d.UUIDBytes[0] != 0x10 || *d.MaxSMClockHz != 1980e6 {
			t.Errorf("an instance: %+v", d)
		}
		sources, free, err := n.sources()
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := free(); err != nil {
				t.Error(err)
			}
		}()
		if s := sources[0]; s.Energy != nil || s.Power != nil {
			t.Error("an instance has the meters of its GPU")
		}
		if _, _, err := sources[0].Utilization(); optional(err) != nil {
			t.Errorf("utilization of an instance: %v", err)
		}
		if s := sources[3]; s.Energy == nil || s.Power == nil {
			t.Error("the whole GPU has no meters")
		}
		if used, err := sources[0].MemoryUsed(); used != 0 || err != nil {
			t.Errorf("memory of an instance: %d, %v", used, err)
		}
	})
}

func TestSelectInstances(t *testing.T) {
	onFake(t, divided, func(t *testing.T, n *Node) {
		all := n.handles
		for list, want := range map[string]string{
			"0:2,0:0": "0:0 0:2",
			"1":       "1",
			"0:1,1":   "0:1 1",
			"MIG-1":   "0:1",
			"MIG-20000000-0000-0000-0000-000000000000,GPU-3": "0:2 1",
		} {
			n.handles = all
			if err := n.Select(list, ""); err != nil {
				t.Error(err)
			} else if got := ids(t, n); got != want {
				t.Errorf("%s: %s, want %s", list, got, want)
			}
		}
		n.handles = all
		for list, says := range map[string]string{
			"0":         "GPU 0 is divided into instances (MIG), and a run is on instances: want one or more of 0:0 (MIG-00000000-0000-0000-0000-000000000000), 0:1 (",
			"GPU-9":     "GPU GPU-9 is divided into instances",
			"0:3":       "no GPU 0:3: want one or more of 0:0 (",
			"1:0":       "no instance 0 of GPU 1, which is not divided",
			"0:1,MIG-1": "0:1 and MIG-1 are the same GPU, 0:1 (MIG-1",
			"MIG-":      "MIG- begins the UUIDs of several GPUs, 0:0 (",
			"GPU-":      "GPU- begins the UUIDs of several GPUs, 0:0 (",
			"MIG-GPU-90000000-0000-0000-0000-000000000000/7/0": "MIG-GPU-90000000-0000-0000-0000-000000000000/7/0 is how drivers before 470",
		} {
			if err := n.Select(list, ""); err == nil || !strings.HasPrefix(err.Error(), says) {
				t.Errorf("%s: %v, want %s", list, err, says)
			}
		}
		if err := n.Select("0:1", "0:0,MIG-2"); err == nil || !strings.HasPrefix(err.Error(), "GPU 0:1 (MIG-1") {
			t.Errorf("an instance beside those that are allowed: %v", err)
		}
	})
}

func TestInstanceThatMayNotBeUsed(t *testing.T) {
	onFake(t, append(divided, "FAKE_NVML_MIG_DENIED=1"), func(t *testing.T, n *Node) {
		if errs := n.Unusable(); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "GPU 0:1 cannot be used: ") || !strings.Contains(errs[0].Error(), "/dev/nvidia-caps") {
			t.Errorf("unusable: %v", errs)
		}
		if err := n.Select("0:0,1", ""); err != nil {
			t.Errorf("the others: %v", err)
		}
	})
}

func TestNoInstances(t *testing.T) {
	onFake(t, []string{"FAKE_GPUS=2", "FAKE_MIG=1", "FAKE_NVML_MIG_GONE=0"}, func(t *testing.T, n *Node) {
		if err := n.Select("0", ""); !errors.Is(err, ErrUnusable) || !strings.HasPrefix(err.Error(), "GPU 0 cannot be used: MIG is on, and it has no instance") {
			t.Errorf("a GPU without instances: %v", err)
		}
		if err := n.Select("1", ""); err != nil {
			t.Errorf("the other GPU: %v", err)
		}
	})
}

// An instance that is destroyed is lost, and the others are not.
func TestInstanceIsDestroyed(t *testing.T) {
	when := filepath.Join(t.TempDir(), "gone")
	if path := os.Getenv("FAKE_NVML_MIG_GONE_WHEN"); path != "" {
		when = path
	}
	onFake(t, append(divided, "FAKE_NVML_MIG_GONE=1", "FAKE_NVML_MIG_GONE_WHEN="+when), func(t *testing.T, n *Node) {
		lost := make(chan int, 4)
		s, err := n.StartSampler(Config{Consume: func(Segment) {}, Lost: func(device int, err error) {
			if !strings.Contains(fmt.Sprint(err), "instance 0:1 (MIG-10000000-0000-0000-0000-000000000000) was destroyed") {
				t.Errorf("said: %v", err)
			}
			lost <- device
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(when, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		select {
		case device := <-lost:
			if device != 1 {
				t.Errorf("device %d is lost", device)
			}
		case <-time.After(10 * time.Second):
			t.Error("nobody said that it is lost")
		}
		if _, err := s.Stop(time.Second); err != nil {
			t.Error(err)
		}
		if _, err := n.Device(1); !errors.Is(err, ErrLost) {
			t.Errorf("the device: %v", err)
		}
		if _, err := n.Device(0); err != nil {
			t.Error(err)
		}
	})
}

// Of compute instances that share a GPU instance's memory a run uses one.
func TestSharedMemory(t *testing.T) {
	of := func(id string, group int) handle { return handle{id: id, uuid: "MIG-" + id, part: &part{group: group}} }
	n := &Node{handles: []handle{of("0:0", 1), of("0:1", 1), of("0:2", 2)}}
	const says = "0:0 (MIG-0:0), 0:1 (MIG-0:1) are compute instances of one GPU instance and share its memory: name only one of them with --devices"
	if errs := n.Unusable(); len(errs) != 1 || errs[0].Error() != says {
		t.Errorf("all: %v", errs)
	}
	if err := n.Select("0:0,0:1", ""); err == nil || err.Error() != says {
		t.Errorf("both: %v", err)
	}
	if err := n.Select("0:1,0:2", ""); err != nil {
		t.Error(err)
	}
}

// GPM samples an instance through its GPU, by the number of the GPU instance.
func TestActivityOfAnInstance(t *testing.T) {
	var asked []int
	gpu := &mock.Device{GpmQueryDeviceSupportFunc: func() (nvml.GpmSupport, nvml.Return) { return nvml.GpmSupport{IsSupportedDevice: 1}, nvml.SUCCESS }}
	lib := &mock.Interface{
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
		},
		GpmSampleAllocFunc: func() (nvml.GpmSample, nvml.Return) {
			return &mock.GpmSample{MigGetFunc: func(of nvml.Device, group int) nvml.Return {
				if of != nvml.Device(gpu) {
					t.Error("it is not sampled through its GPU")
				}
				asked = append(asked, group)
				return nvml.SUCCESS
			}}, nvml.SUCCESS
		},
		GpmMetricsGetFunc: func(get *nvml.GpmMetricsGetType) nvml.Return {
			get.Metrics[0].Value = 40
			return nvml.SUCCESS
		},
	}
	w := (&Node{lib: lib}).newGPM(handle{gpu: gpu, dev: &mock.Device{}, part: &part{group: 5}})
	if _, ok, err := w.read(); ok || err != nil {
		t.Errorf("the first reading: %v, %v", ok, err)
	}
	w.taken = w.taken.Add(-time.Second)
	if ratio, ok, err := w.read(); ratio != 0.4 || !ok || err != nil {
		t.Errorf("%v, %v, %v", ratio, ok, err)
	}
	if !slices.Equal(asked, []int{5, 5}) {
		t.Errorf("sampled %v", asked)
	}
}

func TestProfile(t *testing.T) {
	for want, c := range map[string]struct {
		name string
		a    nvml.DeviceAttributes
	}{
		"1g.5gb":     {name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"},
		"1c.3g.20gb": {name: "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb"},
		"2g.10gb":    {"NVIDIA A100-SXM4-40GB", nvml.DeviceAttributes{GpuInstanceSliceCount: 2, ComputeInstanceSliceCount: 2, MemorySizeMB: 9856}},
		"1c.2g.10gb": {"NVIDIA A100-SXM4-40GB", nvml.DeviceAttributes{GpuInstanceSliceCount: 2, ComputeInstanceSliceCount: 1, MemorySizeMB: 9856}},
	} {
		if got := profile(c.name, c.a); got != want {
			t.Errorf("%s of %+v: %s, want %s", c.name, c.a, got, want)
		}
	}
}
