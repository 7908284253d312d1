package harness

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// Version is the version and the revision of this build, from what the go command stamps.
func Version() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", "unknown"
	}
	version, revision = info.Main.Version, "unknown"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			revision += "+dirty"
		}
	}
	return version, revision
}

// provenance is what is known of this build and of the host.
func provenance() results.Provenance {
	p := results.Provenance{CPU: cpuName(), Cores: runtime.NumCPU(), Binaries: "{}"}
	p.Version, p.Revision = Version()
	p.Host, _ = os.Hostname() // empty where the system does not tell
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		p.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		p.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
	}
	return p
}

// cpuName is the first "model name" of /proc/cpuinfo.
func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// Hash is the sha256 of a program's or a library's file.
func Hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash program %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
