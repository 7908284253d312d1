package nvml

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
)

// required are the functions of NVML that this package calls without asking first whether the
// library has them. go-nvml binds lazily, so that the call of a missing one ends the process. Other functions are asked for with has.
// Of several names, one is enough: go-nvml takes the latest that the library has.
var required = []struct {
	names  []string
	driver string // that has one of the names at the latest, by the change log of NVIDIA's NVML API reference
}{
	{[]string{"nvmlInit_v2", "nvmlInit"}, "285"},
	{[]string{"nvmlShutdown"}, "285"},
	{[]string{"nvmlErrorString"}, "285"},
	{[]string{"nvmlSystemGetDriverVersion"}, "285"},
	{[]string{"nvmlSystemGetNVMLVersion"}, "285"},
	{[]string{"nvmlSystemGetCudaDriverVersion_v2"}, "418"},
	{[]string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, "285"},
	{[]string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}, "285"},
	{[]string{"nvmlDeviceGetUUID"}, "285"},
	{[]string{"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"}, "285"},
	{[]string{"nvmlDeviceGetName"}, "285"},
	{[]string{"nvmlDeviceGetMemoryInfo"}, "285"},
	{[]string{"nvmlDeviceGetCudaComputeCapability"}, "418"},
	{[]string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"}, "285"},
	{[]string{"nvmlDeviceGetUtilizationRates"}, "285"},
	{[]string{"nvmlDeviceGetSamples"}, "340"},
	{[]string{"nvmlDeviceGetNumGpuCores"}, "510"},
}

// gpm are the functions of GPM, which are used all or not at all.
var gpm = []string{"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"}

// lacking returns an error if the library lacks a required function. It says which function, and which driver it came with.
// It asks the library before NVML is initialized, because functions that do so can be missing too. That a library does not load is said elsewhere.
func (n *Node) lacking(ctx context.Context) (err error) {
	library := dl.New("libnvidia-ml.so.1", dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if library.Open() != nil {
		return nil
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	has := func(symbol string) bool { return library.Lookup(symbol) == nil }
	for _, f := range required {
		if !slices.ContainsFunc(f.names, has) {
			return fmt.Errorf("the installed driver%s lacks NVML's function %s, which came with driver %s or an earlier one: install a newer driver, or see that its own libnvidia-ml.so.1 is found first",
				n.driverVersion(ctx, has), strings.Join(f.names, " or "), f.driver)
		}
	}
	return nil
}

// driverVersion is the version of a driver that lacks functions, for a message; "" if it cannot be asked for.
func (n *Node) driverVersion(ctx context.Context, has func(string) bool) string {
	for _, symbol := range []string{"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlSystemGetDriverVersion"} {
		if !has(symbol) {
			return ""
		}
	}
	if n.init(ctx) != nil {
		return ""
	}
	version, err := whole(ctx, n, "nvmlSystemGetDriverVersion", n.lib.SystemGetDriverVersion)
	if err != nil || n.shutdown() != nil {
		return ""
	}
	return " (" + oneLine(version) + ")"
}

// has reports whether the installed library exports symbol.
func (n *Node) has(symbol string) bool {
	return n.lib.Extensions().LookupSymbol(symbol) == nil
}

func (n *Node) hasAll(symbols []string) bool {
	for _, s := range symbols {
		if !n.has(s) {
			return false
		}
	}
	return true
}
