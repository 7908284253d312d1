// Package surroundings says what of the caller and the machine changes how jobs execute: variables of the environment, and limits of
// the host.
package surroundings

import (
	"slices"
	"strings"
)

// The variables that change how programs execute are those with one of these names or prefixes. docs/reference/live-runs.md has the
// same list, and a test compares them.
var (
	names = []string{"GLIBC_TUNABLES", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "PYTHONHASHSEED", "PYTHONMALLOC", "TBB_NUM_THREADS"}

	prefixes = []string{"BLIS_", "CUBLASLT_", "CUBLAS_", "CUDA_", "CUDNN_", "CUFFT_", "CUPY_", "GOMP_", "GOTO_", "JAX_", "KMP_", "LD_", "LIBGOMP_", "MALLOC_", "MIMALLOC_", "MKL_",
		"NCCL_", "NUMBA_", "NUMEXPR_", "NVCOMPILER_", "NVIDIA_", "NVSHMEM_", "NVTX_INJECTION", "OMP_", "OPENBLAS_", "PYTORCH_", "RAYON_", "TCMALLOC_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_", "TF_NUM_", "TF_XLA_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_", "TRITON_", "UCX_", "VECLIB_", "XLA_"}

	// others have such a prefix, and say where something is installed or how it is built, what a container may see, or what the run sets itself.
	others = []string{"CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_VERSION", "CUDA_VISIBLE_DEVICES",
		"CUDNN_VERSION", "NCCL_VERSION", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_PRODUCT_NAME", "NVIDIA_VISIBLE_DEVICES", "TORCHINDUCTOR_CACHE_DIR", "TORCH_CUDA_ARCH_LIST", "TRITON_CACHE_DIR", "TRITON_HOME"}

	otherPrefixes = []string{mps, "NVIDIA_REQUIRE_"}

	// secret are words in names of what must not be stored, such as NVIDIA_API_KEY.
	secret = []string{"AUTH", "CREDENTIAL", "KEY", "PASS", "SECRET", "TOKEN"}
)

// mps begins the names of the variables that lead to an MPS daemon and limit its clients. The run's own daemon is the only one that
// its jobs may use.
const mps = "CUDA_MPS_"

// expected is changed by every second machine's set-up, so that no user needs to hear of it.
const expected = "LD_LIBRARY_PATH"

// changes reports whether a variable of this name changes how programs execute.
func changes(name string) bool {
	hides := slices.ContainsFunc(secret, func(word string) bool { return strings.Contains(name, word) })
	return (slices.Contains(names, name) || begins(name, prefixes)) && !slices.Contains(others, name) && !begins(name, otherPrefixes) && !hides
}

func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Variables are those of an environment that change how programs execute and are not among asked.
func Variables(environ, asked []string) map[string]string {
	out := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); changes(name) && !slices.Contains(asked, name) {
			out[name] = strings.ToValidUTF8(value, "\uFFFD")
		}
	}
	return out
}

// Unexpected are the names of variables that a user must hear of, in order.
func Unexpected(variables map[string]string) []string {
	var out []string
	for name := range variables {
		if name != expected {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// WithoutMPS splits an environment into the variables of an MPS daemon, of which it returns the names, and all others.
func WithoutMPS(environ []string) (others, removed []string) {
	others = []string{} // nil would give a child all of them (os/exec)
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, mps) {
			removed = append(removed, name)
		} else {
			others = append(others, entry)
		}
	}
	slices.Sort(removed)
	return others, removed
}
