package mixes

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A profile in a mix implies the footprint that the job does not state.
func TestProfileInAMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mix.yaml")
	text := `jobs:
  - {program: ./a, profile: {before: 3s, host: 5s, kernel: 20s, rounds: 50, memory: 6GiB, blocks: 5120, threads: 256}}
  - program: ./b
    memory: 1GiB
    profile:
      after: 1s
      phases:
        - {kernel: 6s, copy_in: 2GiB, memory: 3GiB, blocks: 40960, threads: 64}
        - {host: 1s, copy_out: 64MiB, memory: 4GiB, blocks: 64, threads: 512}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		{Name: "a", Program: "./a", Footprint: Footprint{6 << 30, 5120, 256}, Class: ClassLarge,
			Profile: &Profile{Before: 3 * time.Second, Rounds: 50, Phases: []Phase{{Host: 5 * time.Second, Kernel: 20 * time.Second, Kernels: Footprint{6 << 30, 5120, 256}}}}},
		{Name: "b", Program: "./b", Footprint: Footprint{1 << 30, 40960, 64}, Class: ClassSmall,
			Profile: &Profile{After: time.Second, Phases: []Phase{
				{Kernel: 6 * time.Second, CopyIn: 2 << 30, Kernels: Footprint{3 << 30, 40960, 64}},
				{Host: time.Second, CopyOut: 64 << 20, Kernels: Footprint{4 << 30, 64, 512}}}}},
	}
	if diff := cmp.Diff(want, m.Jobs); diff != "" {
		t.Error(diff)
	}
}
