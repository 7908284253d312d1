//go:build full

package main

import (
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

// cg and zero lose jobs by chance.
func TestGateOnResampledSweepsOfAllSchedulers(t *testing.T) {
	gateOnResampledSweeps(t, "sa,cg,zero,schedgpu,case-alg2,case-alg3", chance.Count(200, 1000))
}
