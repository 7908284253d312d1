//go:build full

package sim

import "testing"

func Test200PairsAreThoseOfTheReference(t *testing.T) { checkPairs(t, 200, 4096) }

func TestPoliciesOf200PairsAreInTheOrderOfTheReference(t *testing.T) { checkOrders(t, 200, 1024) }
