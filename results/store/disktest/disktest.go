// Package disktest makes a disk full, for tests.
package disktest

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// ownEnv marks the process that InItsOwnProcess starts.
const ownEnv = "CASERUN_TEST_IN_ITS_OWN_PROCESS"

// InItsOwnProcess runs the calling test again in a process of its own, so that a limit on file
// sizes does not affect go test's files. It reports whether this process is that process.
func InItsOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownEnv) != "" {
		return true
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), ownEnv+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return false
}

// WhileFull runs do while no file may grow beyond the given number of bytes.
func WhileFull(t *testing.T, bytes uint64, do func() error) error {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	limit(syscall.Rlimit{Cur: bytes, Max: before.Max})
	defer limit(before)
	return do()
}
