package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The fakes execute a stream when somebody waits for it. Programs compute the same where streams
// execute by themselves, as on a GPU, with work under way at any moment.
func TestLazyWhereStreamsExecute(t *testing.T) {
	const each = 16
	for n := range 8 {
		version, threads := cudaVersions[n%2], []int{1, 3}[n/2%2]
		program := fmt.Sprintf("random %d,%d,%d", 9001+each*n, each, threads)
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := startLazy(t, version, program, "FAKE_CUDA_KERNEL_US=30").finish(grantByTurns())
			// How often a callback has been called depends on the moment.
			called := func(line string) bool { return strings.HasPrefix(line, "callback ") }
			got, want := slices.DeleteFunc(p.lines, called), slices.DeleteFunc(slices.Clone(native(t, version, program)), called)
			if p.err != nil || !slices.Equal(got, want) {
				t.Errorf("CUDA %s: %v\n%s\nstderr:\n%s", version, p.err, firstDifference(got, want), p.stderr.String())
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
