package local

import (
	"os"
	"testing"

	"github.com/caserun/caserun/runner/live"
)

// The test binary is also the guard that live runs start.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == live.GuardCommand {
		if live.Guard(os.Stdin) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A guard built with the race detector would otherwise take a second to exit.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}
