// Package sim is the simulated node: discrete events in virtual time under the
// same run loop and engine as real devices. Every number from it must be shown as simulated.
// docs/design/simulator.md states the model and its distance from the published measurements.
package sim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

const mib = int64(1) << 20

// Model is a device model with its common host. Limits are the vendor's published ones.
// HostFactor and DeviceFactor scale the host and kernel times of an H200 system.
type Model struct {
	Name             string
	MemoryBytes      int64
	SMs              int
	WarpsPerSM       int
	BlocksPerSM      int
	LinkBytesPerS    float64 // PCIe, one direction
	CoresPerDevice   int     // physical cores of the host
	ThreadsPerDevice int     // hardware threads: as many workers start by default
	HostFactor       float64
	DeviceFactor     float64
	Crowd            Crowd
	Source           string // of the limits and of the factors
}

// Crowd is what host phases that run at once cost each other on a host with Cores cores. With n of them in use, a phase takes
// 1 + Cost × (n - 1) ÷ (SaturatedAt - 1) times as long as alone, up to n = SaturatedAt; with more, all phases together get no more
// done. The zero value costs nothing. A host with fewer cores is taken for a part of this one, and one with more for several.
type Crowd struct {
	Cores       int
	SaturatedAt int // cores
	Cost        float64
}

const (
	pcie3x16 = 15.75e9
	pcie4x16 = 31.5e9
	pcie5x16 = 63e9
)

// The crowds of the hosts of one H200 and of four H100s, as benchmarks/crowd measured them (docs/design/simulator.md).
var (
	crowdH200 = Crowd{16, 16, 0.005}
	crowdH100 = Crowd{64, 34, 0.423}
)

var models = map[string]Model{
	"P100": {"P100", 16276 * mib, 56, 64, 32, pcie3x16, 12, 24, 1.18, 8.8, Crowd{},
		"NVIDIA P100 whitepaper; host as on Chameleon (two 12-core E5-2670 v3); factors fitted to CASE's Table 7, SA-P100"},
	"V100": {"V100", 16160 * mib, 80, 64, 32, pcie3x16, 4, 8, 1.315, 1.5, Crowd{},
		"NVIDIA V100 whitepaper; host as AWS p3.8xlarge (32 threads, 16 cores); factors fitted to CASE's Table 7, SA-V100"},
	"A100": {"A100", 40536 * mib, 108, 64, 32, pcie4x16, 6, 12, 1, 3.1, Crowd{},
		"NVIDIA A100 whitepaper; host as AWS p4d.24xlarge; device factor is the ratio of memory bandwidths, not fitted"},
	"H100": {"H100", 81559 * mib, 132, 64, 32, pcie5x16, 16, 16, 1, 1, crowdH100,
		"NVIDIA H100 (SXM) datasheet; host as the H200's; device factor from the kernels of 15 jobs in sum, which differ one by one (docs/design/simulator.md)"},
	"H200": {"H200", 143771 * mib, 132, 64, 32, pcie5x16, 16, 16, 1, 1, crowdH200,
		"NVIDIA H200 datasheet; the system that was profiled"},
}

// Node is a simulated node of equal devices.
type Node struct {
	Name  string // as the user wrote it, "sim:4xV100"
	Model Model
	Count int
}

var nodeForm = regexp.MustCompile(`^sim:([1-9][0-9]{0,2})x([A-Za-z0-9]+)$`)

// ParseNode reads "sim:COUNTxMODEL".
func ParseNode(text string) (Node, error) {
	names := strings.Join(slices.Sorted(maps.Keys(models)), ", ")
	m := nodeForm.FindStringSubmatch(text)
	if m == nil {
		return Node{}, fmt.Errorf("node %q: want sim:COUNTxMODEL such as sim:4xV100, with a model of %s", text, names)
	}
	model, ok := models[strings.ToUpper(m[2])]
	if !ok {
		return Node{}, fmt.Errorf("node %q: no model %q: use one of %s", text, m[2], names)
	}
	count, err := strconv.Atoi(m[1])
	if err != nil {
		return Node{}, fmt.Errorf("node %q: %w", text, err)
	}
	return Node{Name: fmt.Sprintf("sim:%dx%s", count, model.Name), Model: model, Count: count}, nil
}

// Capped is the node with devices that have this much memory, if they have more.
func (n Node) Capped(bytes int64) Node {
	n.Model.MemoryBytes = min(n.Model.MemoryBytes, bytes)
	return n
}

// factors are how many times as long as in its profile a job's host phases and kernels last.
type factors struct{ hostFactor, deviceFactor float64 }

// factorsFor returns the factors of m for a profile of a GPU with this name. The name counts as an H200 if no word of it is one of the models.
func (m Model) factorsFor(gpu string) factors {
	of := models["H200"]
	for word := range strings.FieldsFuncSeq(strings.ToUpper(gpu), func(r rune) bool { return r == ' ' || r == '-' }) {
		if other, found := models[word]; found {
			of = other
		}
	}
	return factors{m.HostFactor / of.HostFactor, m.DeviceFactor / of.DeviceFactor}
}

// Cores is the number of physical cores of the host.
func (n Node) Cores() int { return n.Count * n.Model.CoresPerDevice }

// Threads is the number of hardware threads of the host.
func (n Node) Threads() int { return n.Count * n.Model.ThreadsPerDevice }

// Devices are the node's devices as a scheduler may use them, less what an MPS
// server takes of each.
func (n Node) Devices(mps bool) []schedulers.Device {
	d := schedulers.Device{Name: n.Model.Name, CapacityBytes: n.Model.MemoryBytes, ContextBytes: runner.DefaultContextBytes,
		SMs: n.Model.SMs, WarpsPerSM: n.Model.WarpsPerSM, BlocksPerSM: n.Model.BlocksPerSM}
	if mps {
		d.CapacityBytes -= runner.ServerBytes
	}
	return slices.Repeat([]schedulers.Device{d}, n.Count)
}
