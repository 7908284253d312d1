//go:build slurm && ucx

package ivmtest

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// An application has a node on each node of its allocation.
func TestNodesOfSlurm(t *testing.T) {
	slurmtest.Start(t)
	ivmd, path := benchmark(t, "nbody")
	e := run(t, "salloc", "--quiet", "--nodes=3", ivmd, "-v", "--slurm", path, "--verify", "--devices", "6", "--particles", "300")
	if e.status != 0 || !strings.Contains(e.stdout, "checksum ") {
		t.Fatalf("status %d\n%s%s", e.status, e.stdout, e.stderr)
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		if !strings.Contains(e.stderr, " on "+node+")") {
			t.Errorf("no PE on %s:\n%s", node, e.stderr)
		}
	}
}
