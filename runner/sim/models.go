package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/runner"
)

const mib = int64(1) << 20

// Model is a device model with the part of a host that goes with one device. Limits are the vendor's published ones,
// of warps and blocks those of the compute capability in the CUDA C++ programming guide.
type Model struct {
	Name          string
	MemoryBytes   int64
	SMs           int
	WarpsPerSM    int
	BlocksPerSM   int
	LinkBytesPerS float64 // PCIe, one direction
	BytesPerS     float64 // of its memory
	Host          Host    // for one device
	DeviceFactor  float64 // how many times as long as on an H200 kernels last
	Source        string  // of the limits, of the host and of the factors
	whole         *Model  // of an instance of MIG: the device; nil: it is whole
}

// Host is the host of a node, or the part of it for one device.
type Host struct {
	Cores   int     // physical
	Threads int     // hardware threads: as many workers start by default
	Factor  float64 // how many times as long as on the host of one H200 host phases last
	Crowd   Crowd
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
	pcie2x16 = 8e9
	pcie3x16 = 15.75e9
	pcie4x16 = 31.5e9
	pcie5x16 = 63e9
)

// withECC is what ECC leaves of the bandwidth of GDDR memory (CUDA C++ Best Practices Guide, theoretical bandwidth). The vendors' numbers are without it.
const withECC = 0.8

// The crowds of the hosts of one H200 and of four H100s, as benchmarks/crowd measured them (docs/design/simulator.md).
var (
	crowdH200 = Crowd{16, 16, 0.005}
	crowdH100 = Crowd{64, 34, 0.423}
)

// estimated is a model of which no kernel was measured: kernels last longer by as much as SMs × cores × clock of an H200 are
// more. The clock is the highest that the vendor states.
func estimated(cores int, mhz float64, m Model) Model {
	m.DeviceFactor = 132 * 128 * 1980 / (float64(m.SMs*cores) * mhz)
	m.Source += fmt.Sprintf("; device factor estimated: %d × %d × %g MHz", m.SMs, cores, mhz)
	coresPerSM[m.Name] = cores
	return m
}

// coresPerSM is by the models' names, of the others as they are estimated.
var coresPerSM = map[string]int{"P100": 64, "V100": 64, "A100": 64, "A30": 64, "H100": 128, "H200": 128}

// context is the memory of a process's context. GPUs before compute capability 3.0, whose SMs hold 8 blocks, are of the time of
// CUDA 3.2: the dissertation had eight processes on a C2050, and two with 1.2 GB each.
func (m *Model) context() int64 {
	if m.BlocksPerSM == 8 {
		return 64 * mib
	}
	return runner.DefaultContextBytes
}

// seed is the dissertation on runtime support for CPU-GPU clusters, whose nodes have many of the older GPUs.
const seed = "dissertation, "

// models are by their names in upper case.
var models = byName(
	Model{"P100", 16276 * mib, 56, 64, 32, pcie3x16, 732e9, Host{12, 24, 1.18, Crowd{}}, 8.8,
		"NVIDIA P100 whitepaper; host as on Chameleon (two 12-core E5-2670 v3); factors fitted to CASE's Table 7, SA-P100", nil},
	Model{"V100", 16160 * mib, 80, 64, 32, pcie3x16, 900e9, Host{4, 8, 1.315, Crowd{}}, 1.5,
		"NVIDIA V100 whitepaper; host as AWS p3.8xlarge (32 threads, 16 cores); factors fitted to CASE's Table 7, SA-V100", nil},
	Model{"A100", 40536 * mib, 108, 64, 32, pcie4x16, 1555e9, Host{6, 12, 1, Crowd{}}, 3.1,
		"NVIDIA A100 whitepaper; host as AWS p4d.24xlarge; device factor is the ratio of memory bandwidths, not fitted", nil},
	Model{"A30", 24576 * mib, 56, 64, 32, pcie4x16, 933e9, Host{16, 16, 1, Crowd{}}, 5.1,
		"NVIDIA A30 datasheet; memory as nvidia-smi shows it; cores as the H200's host; device factor is the ratio of memory bandwidths, not fitted", nil},
	Model{"H100", 81559 * mib, 132, 64, 32, pcie5x16, 3350e9, Host{16, 16, 1, crowdH100}, 1,
		"NVIDIA H100 (SXM) datasheet; host as the H200's; device factor from the kernels of 15 jobs in sum, which differ one by one (docs/design/simulator.md)", nil},
	Model{"H200", 143771 * mib, 132, 64, 32, pcie5x16, 4800e9, Host{16, 16, 1, crowdH200}, 1,
		"NVIDIA H200 datasheet; the system that was profiled", nil},

	// The kernels of these were not measured, and their hosts' factors are not fitted.
	estimated(8, 1296, Model{"C1060", 4095 * mib, 30, 32, 8, pcie2x16, 102e9, Host{8, 16, 1, Crowd{}}, 0,
		"NVIDIA Tesla C1060 board specification; host: " + seed + "3.7.1.1, the node with one of them (E5620: 8 cores)", nil}),
	estimated(32, 1150, Model{"C2050", 2687 * mib, 14, 48, 8, pcie2x16, withECC * 144e9, Host{4, 8, 1, Crowd{}}, 0,
		"NVIDIA Tesla C2050 board specification (3 GB, less an eighth for ECC); " + seed + "3.7.1.1 has 1150 MHz and 3 GB, Table 4-3 has 1147 MHz and 2.8 GB; host: Table 3-4, Node2", nil}),
	estimated(32, 1150, Model{"C2070", 5375 * mib, 14, 48, 8, pcie2x16, withECC * 144e9, Host{4, 8, 1, Crowd{}}, 0,
		"NVIDIA Tesla C2070 board specification (6 GB, less an eighth for ECC); " + seed + "Table 3-4 has 6 GB, Table 4-3 has 1147 MHz and 5.6 GB; host: Table 3-4, Node2", nil}),
	estimated(32, 1150, Model{"C2075", 5375 * mib, 14, 48, 8, pcie2x16, withECC * 144e9, Host{4, 8, 1, Crowd{}}, 0,
		"NVIDIA Tesla C2075 board specification (6 GB, less an eighth for ECC); " + seed + "Table 3-4 has 6 GB, Table 4-3 has 1147 MHz and 5.6 GB; host: Table 3-4, Node2", nil}),
	estimated(48, 1250, Model{"Quadro2000", 1024 * mib, 4, 48, 8, pcie2x16, 41.6e9, Host{4, 4, 1, Crowd{}}, 0,
		"NVIDIA Quadro 2000 datasheet; " + seed + "Table 4-4 has 1.2 GHz; host: Table 4-4, Type-I", nil}),
	estimated(48, 1350, Model{"GTX460", 1024 * mib, 7, 48, 8, pcie2x16, 115.2e9, Host{4, 4, 1, Crowd{}}, 0,
		"NVIDIA GeForce GTX 460 1GB specification; " + seed + "Table 4-4 has 1.4 GHz; host: Table 4-4, Type-II", nil}),
	estimated(32, 1401, Model{"GTX480", 1536 * mib, 15, 48, 8, pcie2x16, 177.4e9, Host{2, 4, 1, Crowd{}}, 0,
		"NVIDIA GeForce GTX 480 specification; " + seed + "Tables 4-3 and 5-2 have 1 GB; host: Table 4-3, Node1", nil}),
	estimated(192, 706, Model{"K20m", 4799 * mib, 13, 64, 16, pcie2x16, withECC * 208e9, Host{12, 24, 1, Crowd{}}, 0,
		"NVIDIA Tesla K20 board specification; memory with ECC and host (two 6-core E5-2620 v2): schedGPU paper, section 6", nil}),
	estimated(192, 706, Model{"K20c", 4799 * mib, 13, 64, 16, pcie2x16, withECC * 208e9, Host{6, 12, 1, Crowd{}}, 0,
		"NVIDIA Tesla K20 board specification; memory with ECC; " + seed + "Table 4-3 has 5 GB; host: Table 4-3, Node3", nil}),
	estimated(192, 875, Model{"K40c", 11519 * mib, 15, 64, 16, pcie3x16, withECC * 288e9, Host{4, 8, 1, Crowd{}}, 0,
		"NVIDIA Tesla K40 board specification (745 MHz, boosted 875); memory with ECC; " + seed + "Table 4-3 has 876 MHz and 12 GB; host: Table 4-3, Node2", nil}),
	estimated(64, 1590, Model{"T4", 15360 * mib, 40, 32, 16, pcie3x16, withECC * 320e9, Host{16, 16, 1, Crowd{}}, 0,
		"NVIDIA T4 datasheet; memory as nvidia-smi shows it; cores as the H200's host", nil}),
	estimated(128, 1695, Model{"A10", 23028 * mib, 72, 48, 16, pcie4x16, withECC * 600e9, Host{16, 16, 1, Crowd{}}, 0,
		"NVIDIA A10 datasheet; memory as nvidia-smi shows it; cores as the H200's host", nil}),
	estimated(128, 2040, Model{"L4", 23034 * mib, 58, 48, 24, pcie4x16, withECC * 300e9, Host{16, 16, 1, Crowd{}}, 0,
		"NVIDIA L4 datasheet; memory as nvidia-smi shows it; cores as the H200's host", nil}),
	estimated(128, 2520, Model{"L40S", 46068 * mib, 142, 48, 24, pcie4x16, withECC * 864e9, Host{16, 16, 1, Crowd{}}, 0,
		"NVIDIA L40S datasheet; memory as nvidia-smi shows it; cores as the H200's host", nil}),
	estimated(128, 1965, Model{"B200", 183359 * mib, 148, 64, 32, pcie5x16, 7700e9, Host{16, 16, 1, Crowd{}}, 0,
		"NVIDIA HGX B200 datasheet; SMs, clock and memory as nvidia-smi and the CUDA runtime show them (other lists have 1980 MHz); cores as the H200's host", nil}),
)

func byName(all ...Model) map[string]*Model {
	out := map[string]*Model{}
	for i, m := range all {
		out[strings.ToUpper(m.Name)] = &all[i]
	}
	return out
}

// modelNames are the names of all models, by the alphabet.
func modelNames() (names []string) {
	for _, key := range slices.Sorted(maps.Keys(models)) {
		names = append(names, models[key].Name)
	}
	return names
}

// modelOf is the model whose name a GPU's name has in it, as one word or as two: the GPU that a profile names, such as
// "NVIDIA H100 80GB HBM3" or "Quadro 2000". Any other GPU counts as an H200.
func modelOf(gpu string) *Model {
	of, last := models["H200"], ""
	for word := range strings.FieldsFuncSeq(strings.ToUpper(gpu), func(r rune) bool { return r == ' ' || r == '-' }) {
		for _, name := range []string{last + word, word} {
			if m, found := models[name]; found {
				of = m
				break
			}
		}
		last = word
	}
	return of
}
