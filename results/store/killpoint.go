package store

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// KillVariable is the environment variable with which tests have a process killed where they want it: POINT:N is the
// N-th time that it comes to a point.
const KillVariable = "CASERUN_TEST_KILL_AT"

// The points are behind a step that the disk has, and before the next one.
const (
	RunBegun      = "run-begun"
	RowsWritten   = "rows-written"
	RunStored     = "run-stored"
	mergeBegun    = "merge-begun"
	partMerged    = "part-merged"
	mergeGathered = "merge-gathered"
	mergeSettled  = "merge-settled"
	mergeRenamed  = "merge-renamed"
	runRemoved    = "run-removed"
	removalDone   = "removal-done"
	vacuumBegun   = "vacuum-begun"
	vacuumCopied  = "vacuum-copied"
	vacuumRenamed = "vacuum-renamed"
)

// reached is how often the point of KillVariable was reached.
var reached atomic.Int64

// reach kills the process if a test wants it killed at this point.
func reach(point string) {
	at, count, set := strings.Cut(os.Getenv(KillVariable), ":")
	if !set || at != point || strconv.FormatInt(reached.Add(1), 10) != count {
		return
	}
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {} // the signal comes
}
