package lazytest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
)

// Programs of native/lazy/tests/programs/structs.cc: streams and events that are
// older than the device, and device ordinals, inside structures.

// What CUDA is given there is its own, what the program reads is the program's.
// The fakes count each use of a handle that is not theirs and each copy and
// allocation that names another device.
func TestLazyTranslatesStructures(t *testing.T) {
	for _, env := range [][]string{nil, {"CASE_PIN=1"}} {
		for _, version := range cudaVersions {
			for _, program := range []string{"launch_events", "launch_list", "graph_nodes", "peer_copies", "ranges"} {
				t.Run(strings.Join(append(env, version, program), "/"), func(t *testing.T) {
					p := runLazy(t, version, program, env...)
					p.wantNative()
					p.wantNothingLeft()
				})
			}
		}
	}
}

// Launches through structures bind like any other, with grid and block.
func TestLazyBindsAtLaunchesThroughStructures(t *testing.T) {
	for _, version := range cudaVersions {
		for _, program := range []string{"launch_events", "launch_list"} {
			p := runLazy(t, version, program)
			p.wantLine("before: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 1 violations 0")
			if r := p.of("begin")[0].Asks(); r.Blocks != 32 || r.ThreadsPerBlock != 96 {
				t.Errorf("%s, %s: begin %+v", version, program, r)
			}
		}
	}
}

// A graph's explicit kernel nodes tell their shapes, whichever call adds them, and
// what its allocation nodes take beyond its free nodes is charged.
func TestLazyKnowsGraphNodes(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "graph_nodes")
		var blocks []uint64
		var grown []int64
		for _, e := range p.of("shape") {
			blocks = append(blocks, e.Posted.(runner.TaskShape).Blocks)
		}
		for _, e := range p.of("grow") {
			grown = append(grown, e.Bytes)
		}
		if want := []uint64{400, 3000}; !slices.Equal(blocks, want) {
			t.Errorf("%s: shapes of %d blocks, want %d", version, blocks, want)
		}
		if want := []int64{4 << 20, 1 << 20}; !slices.Equal(grown, want) {
			t.Errorf("%s: grown by %d, want %d", version, grown, want)
		}
	}
}

// Managed memory is sent to the granted device, whatever the program calls it.
func TestLazyPlacesRanges(t *testing.T) {
	for _, version := range cudaVersions {
		trace := filepath.Join(t.TempDir(), "trace")
		runLazy(t, version, "ranges", "FAKE_CUDA_TRACE="+trace)
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		var places []string // the location's type and ordinal
		for _, line := range strings.Split(string(text), "\n") {
			switch f := strings.Fields(line); {
			case strings.HasPrefix(line, "cudaMemPrefetchAsync "):
				places = append(places, f[3]+" "+f[4])
			case strings.HasPrefix(line, "cudaMemAdvise "):
				places = append(places, f[4]+" "+f[5])
			}
		}
		want := []string{"1 1", "1 1", "2 -1", "1 1"}
		if version == "13" { // where a host NUMA node's number is no device
			want = []string{"1 1", "1 1", "2 0", "1 1", "3 1", "1 1"}
		}
		if !slices.Equal(places, want) {
			t.Errorf("%s: places %q, want %q", version, places, want)
		}
	}
}
