package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner/cudaelf"
)

// code compares the device code of programs with the devices. A program whose code is in its
// libraries is left out.
func (e *examination) code(programs []string, devices []nvml.Device, suite suites.Suite) {
	var architectures []int
	numbers := map[int][]string{} // of the devices, by architecture
	for _, d := range devices {
		a := 10*d.ComputeMajor + d.ComputeMinor
		architectures = append(architectures, a)
		numbers[a] = append(numbers[a], d.ID)
	}
	slices.Sort(architectures)
	architectures = slices.Compact(architectures)
	codes := map[string][]cudaelf.Code{}
	for _, program := range programs {
		code, err := cudaelf.DeviceCode(program)
		if err != nil {
			e.add("device code", Warning, "%v", err)
			return
		}
		if len(code) > 0 {
			codes[program] = code
		}
	}
	if len(codes) == 0 {
		return
	}
	for _, a := range architectures {
		on := fmt.Sprintf("sm_%d (GPU %s)", a, strings.Join(numbers[a], ", "))
		var lack, late []string
		for _, program := range programs {
			code := codes[program]
			runs := slices.DeleteFunc(slices.Clone(code), func(c cudaelf.Code) bool { return !c.Runs(a) })
			switch {
			case len(code) == 0:
			case len(runs) == 0:
				lack = append(lack, filepath.Base(program)+" has "+list(code))
			case !slices.ContainsFunc(runs, func(c cudaelf.Code) bool { return !c.PTX }):
				late = append(late, filepath.Base(program))
			}
		}
		if len(lack) > 0 {
			e.add("device code", Failed, "none for %s: %s: %s", on, strings.Join(lack, ", "), suite.Rebuild(a))
		}
		if len(late) > 0 {
			e.add("device code", Warning, "no machine code for %s, so that the driver compiles PTX when a program first starts: %s: %s",
				on, strings.Join(late, ", "), suite.Rebuild(a))
		}
		if len(lack)+len(late) == 0 {
			e.add("device code", Fine, "machine code for %s", on)
		}
	}
}

// list names what code was compiled for, as nvcc does.
func list(code []cudaelf.Code) string {
	var names []string
	for _, c := range code {
		kind := "sm"
		if c.PTX {
			kind = "compute"
		}
		names = append(names, fmt.Sprintf("%s_%d", kind, c.Architecture))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}
