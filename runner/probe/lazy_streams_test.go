package probe

import (
	"fmt"
	"slices"
	"testing"
)

// The fakes execute a stream when somebody waits for it. Programs compute the same where streams
// execute by themselves, as on a GPU, with work under way at any moment.
// Programs that ask whether work is over, or read while a kernel runs, are left out: they vary without
// the lazy runtime too.
func TestLazyWhereStreamsExecute(t *testing.T) {
	const each = 16
	for n := range 8 {
		version, program := cudaVersions[n%2], fmt.Sprintf("random %d,%d,1", 9001+each*n, each)
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := startLazy(t, version, program, "FAKE_CUDA_KERNEL_US=30").finish(grantByTurns())
			if want := native(t, version, program); p.err != nil || !slices.Equal(p.lines, want) {
				t.Errorf("CUDA %s: %v\n%s\nstderr:\n%s", version, p.err, firstDifference(p.lines, want), p.stderr.String())
			}
		})
	}
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
