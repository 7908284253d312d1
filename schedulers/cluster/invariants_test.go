package cluster_test

import (
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/schedtest"
)

func TestInvariants(t *testing.T) {
	for _, policy := range []string{"cluster-batch", "cluster-rr", "coloc", "coloc:nodes=2", "coloc:nodes=all,weights=both", "latency",
		"latency:nodes=2,limit=2", "cluster-batch+offload:threshold=2", "cluster-rr+offload:threshold=2", "latency+offload:threshold=2"} {
		t.Run(policy, func(t *testing.T) {
			chance.Check(t, schedtest.Head(func() (cluster.Policy, error) { return cluster.Parse(policy) }))
		})
	}
}
