package surroundings

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

func TestVariables(t *testing.T) {
	environ := []string{"PATH=/bin", "HOME=/root", "SECRET_TOKEN=x", "AWS_SECRET_ACCESS_KEY=y", "CUDA_LAUNCH_BLOCKING=1", "CUDA_DEVICE_MAX_CONNECTIONS=8",
		"CUDA_CACHE_DISABLE=1", "NVIDIA_TF32_OVERRIDE=0", "LD_PRELOAD=libfoo.so", "LD_BIND_NOW=1", "LD_LIBRARY_PATH=/opt", "OMP_NUM_THREADS=4", "MKL_NUM_THREADS=2",
		"OPENBLAS_NUM_THREADS=3", "GLIBC_TUNABLES=a=b=c", "MALLOC_ARENA_MAX=1", "NCCL_P2P_DISABLE=1", "CUDA_VISIBLE_DEVICES=0", "CUDA_HOME=/cuda",
		"CUDA_MPS_PIPE_DIRECTORY=/tmp/x", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12", "EMPTY=", "NVIDIA_API_KEY=z", "TF_VAR_password=z", "NVTX_INJECTION64_PATH=/x.so", "RAYON_NUM_THREADS=2", "TRITON_INTERPRET=1", "TRITON_CACHE_DIR=/c", "LD_AUDIT=/a.so", "NCCL_AUTH_TOKEN=z", "OMP_PROC_BIND="}
	got := Variables(environ, []string{"MKL_NUM_THREADS"})
	want := map[string]string{"CUDA_LAUNCH_BLOCKING": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "8", "CUDA_CACHE_DISABLE": "1", "NVIDIA_TF32_OVERRIDE": "0",
		"LD_PRELOAD": "libfoo.so", "LD_BIND_NOW": "1", "LD_LIBRARY_PATH": "/opt", "OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "3", "GLIBC_TUNABLES": "a=b=c",
		"MALLOC_ARENA_MAX": "1", "NCCL_P2P_DISABLE": "1", "OMP_PROC_BIND": "", "NVTX_INJECTION64_PATH": "/x.so", "RAYON_NUM_THREADS": "2", "TRITON_INTERPRET": "1", "LD_AUDIT": "/a.so"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	heard := Unexpected(got)
	if slices.Contains(heard, "LD_LIBRARY_PATH") || len(heard) != len(want)-1 || !slices.IsSorted(heard) {
		t.Errorf("the user hears of %v", heard)
	}
	others, removed := WithoutMPS(environ)
	if fmt.Sprint(removed) != "[CUDA_MPS_PIPE_DIRECTORY]" || len(others) != len(environ)-1 {
		t.Errorf("of an MPS daemon: %v", removed)
	}
	if others, _ := WithoutMPS([]string{"CUDA_MPS_PIPE_DIRECTORY=/tmp/x"}); others == nil {
		t.Error("nothing is left, which os/exec takes for the whole environment")
	}
}

// The reference has each name.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/live-runs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/reference/live-runs.md lacks %s", name)
		}
	}
	for _, prefix := range prefixes {
		if !strings.Contains(string(text), "`"+prefix+"*`") {
			t.Errorf("docs/reference/live-runs.md lacks %s*", prefix)
		}
	}
}

func TestCgroupLimits(t *testing.T) {
	const (
		v1 = "30 1 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		v2 = "29 1 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
		in = "29 1 0:25 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  results.Surroundings
	}{
		{"nothing", nil, results.Surroundings{}},
		{"version 2", map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/a/b/cpu.max": "max 100000", "sys/fs/cgroup/a/cpu.max": "150000 100000", "sys/fs/cgroup/a/b/memory.max": "1073741824", "sys/fs/cgroup/a/memory.max": "max"},
			results.Surroundings{CPUQuota: 1.5, MemoryBytes: 1 << 30}},
		{"version 2, the ancestor is stricter", map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/a/b/cpu.max": "400000 100000", "sys/fs/cgroup/a/cpu.max": "100000 100000"}, results.Surroundings{CPUQuota: 1}},
		{"a namespace of its own", map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2, "sys/fs/cgroup/cpu.max": "50000 100000"}, results.Surroundings{CPUQuota: 0.5}},
		{"the host's path in a container", map[string]string{"proc/self/cgroup": "0::/docker/7\n", "proc/self/mountinfo": in, "sys/fs/cgroup/cpu.max": "200000 100000"}, results.Surroundings{CPUQuota: 2}},
		{"another namespace's path", map[string]string{"proc/self/cgroup": "0::/../8\n", "proc/self/mountinfo": in, "sys/fs/cgroup/memory.max": "4096"}, results.Surroundings{MemoryBytes: 4096}},
		{"version 1", map[string]string{"proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/c\n0::/\n", "proc/self/mountinfo": v1,
			"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": "100000", "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": "50000", "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "2147483648"},
			results.Surroundings{CPUQuota: 2, MemoryBytes: 2 << 30}},
		{"version 1 without limits", map[string]string{"proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/c\n", "proc/self/mountinfo": v1,
			"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": "100000", "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "9223372036854771712"},
			results.Surroundings{}},
		{"nonsense", map[string]string{"proc/self/cgroup": "\n0::", "proc/self/mountinfo": "x\n" + v2, "sys/fs/cgroup/cpu.max": "a b c"}, results.Surroundings{}},
	} {
		root := t.TempDir()
		for _, path := range slices.Sorted(maps.Keys(tt.files)) {
			full := filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(tt.files[path]+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(tt.want, cgroupLimits(root)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestCores(t *testing.T) {
	for _, tt := range []struct {
		s    results.Surroundings
		want int
	}{
		{results.Surroundings{}, 8}, {results.Surroundings{CPUs: 3}, 3}, {results.Surroundings{CPUs: 16}, 8}, {results.Surroundings{CPUQuota: 1}, 1},
		{results.Surroundings{CPUQuota: 1.5}, 2}, {results.Surroundings{CPUQuota: 0.1}, 1}, {results.Surroundings{CPUQuota: 100}, 8}, {results.Surroundings{CPUs: 4, CPUQuota: 2}, 2},
	} {
		if got := Cores(tt.s, 8); got != tt.want {
			t.Errorf("%+v: %d of 8 cores, want %d", tt.s, got, tt.want)
		}
	}
}
