package lazytest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

// The fakes execute a stream when somebody waits for it. Programs compute the same where streams
// execute by themselves, as on a GPU, with work under way at any moment.
// Programs that ask whether work is over, or read while a kernel runs, are left out: they vary without
// the lazy runtime too.
func TestLazyWhereStreamsExecute(t *testing.T) {
	keepsResultsOfRandomProgramsWhereStreamsExecute(t, drawnFrom(9001), chance.Count(4, 16))
	for _, program := range []string{"basic", "shapes", "objects", "managed", "many", "large_copy", "grow", "captured", "limits",
		"tasks", "forks_bound", "graph_nodes", "peer_copies", "ranges", "callback",
		"reset", "idle_rounds", "fault"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := startLazy(t, "13", program, "FAKE_CUDA_KERNEL_US=30").finish(grant)
			p.wantNative()
		})
	}
}

// keepsResultsOfRandomProgramsWhereStreamsExecute runs so many programs in each process.
func keepsResultsOfRandomProgramsWhereStreamsExecute(t *testing.T, first, each int) {
	t.Helper()
	for n := range 8 {
		version, program := cudaVersions[n%2], fmt.Sprintf("random %d,%d,1", first+16*n, each)
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := startLazy(t, version, program, "FAKE_CUDA_KERNEL_US=30").finish(grantByTurns())
			if want := native(t, version, program); p.err != nil || !slices.Equal(p.lines, want) {
				t.Errorf("CUDA %s, %s: %v\n%s\nstderr:\n%s", version, repeated(), p.err, firstDifference(p.lines, want), p.stderr.String())
			}
		})
	}
}
