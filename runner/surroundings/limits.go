package surroundings

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// Limits are what the host allows this process and its jobs. A limit that the system does not tell counts as none.
func Limits() results.Surroundings {
	s := cgroupLimits("/")
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		s.CPUs = set.Count()
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil && limit.Cur <= math.MaxInt64 { // RLIM_INFINITY is above
		s.AddressSpaceBytes = int64(limit.Cur)
	}
	return s
}

// Cores is how many of the host's threads can run at once: a fraction of a processor counts as one, as for Go's runtime.
func Cores(s results.Surroundings, host int) int {
	if s.CPUs > 0 {
		host = min(host, s.CPUs)
	}
	if s.CPUQuota > 0 {
		host = min(host, int(math.Ceil(s.CPUQuota)))
	}
	return max(host, 1)
}

// cgroupLimits reads the limits of this process's cgroups, of version 1 and of version 2. A cgroup's ancestors limit it too. root is /.
func cgroupLimits(root string) results.Surroundings {
	var s results.Surroundings
	quota := func(cores float64) {
		if cores > 0 && (s.CPUQuota == 0 || cores < s.CPUQuota) {
			s.CPUQuota = cores
		}
	}
	memory := func(bytes int64) {
		if bytes > 0 && bytes < unlimited && (s.MemoryBytes == 0 || bytes < s.MemoryBytes) {
			s.MemoryBytes = bytes
		}
	}
	for _, dir := range cgroups(root, "") {
		quota(quotient(fields(dir, "cpu.max")...))
		memory(number(fields(dir, "memory.max")...))
	}
	for _, dir := range cgroups(root, "cpu") {
		quota(quotient(append(fields(dir, "cpu.cfs_quota_us"), fields(dir, "cpu.cfs_period_us")...)...))
	}
	for _, dir := range cgroups(root, "memory") {
		memory(number(fields(dir, "memory.limit_in_bytes")...))
	}
	return s
}

// unlimited is less than what version 1 has for no limit, the largest multiple of a page, and more than any machine has.
const unlimited = 1 << 60

// cgroupPath is the path of this process's cgroup in its hierarchy; "": it has none there.
func cgroupPath(root, controller string) (path string) {
	for _, line := range lines(filepath.Join(root, "proc/self/cgroup")) {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) && (controller != "" || f[0] == "0") {
			path = f[2]
		}
	}
	return path
}

// cgroups are the directories of this process's cgroup and of its ancestors, for a controller of version 1, or "" for version 2.
func cgroups(root, controller string) []string {
	path := cgroupPath(root, controller)
	if path == "" {
		return nil
	}
	for _, line := range lines(filepath.Join(root, "proc/self/mountinfo")) {
		before, after, _ := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if len(b) < 5 || len(a) < 3 {
			continue
		}
		isV2 := a[0] == "cgroup2"
		if controller == "" != isV2 || !isV2 && (a[0] != "cgroup" || !slices.Contains(strings.Split(a[2], ","), controller)) {
			continue
		}
		below, err := filepath.Rel(b[3], path) // b[3] is the directory of the hierarchy that is mounted, b[4] where
		if err != nil || strings.HasPrefix(below, "..") {
			below = "." // another namespace's path: the mount is all that this process sees
		}
		var out []string
		for dir := filepath.Join("/", below); ; dir = filepath.Dir(dir) {
			out = append(out, filepath.Join(root, b[4], dir))
			if dir == "/" {
				return out
			}
		}
	}
	return nil
}

// fields are the words of a file; none if it cannot be read.
func fields(dir, file string) []string {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

func lines(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// quotient is a quota over its period; 0: there is none, as for "max 100000" and for -1.
func quotient(f ...string) float64 {
	if len(f) != 2 {
		return 0
	}
	quota, period := number(f[0]), number(f[1])
	if quota <= 0 || period <= 0 {
		return 0
	}
	return float64(quota) / float64(period)
}

// number is the first field as a number; 0 if it is none.
func number(f ...string) int64 {
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
