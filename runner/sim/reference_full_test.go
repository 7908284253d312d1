//go:build full

package sim

import "testing"

func Test200PairsAreThoseOfTheReference(t *testing.T) { checkPairs(t, 200, 4096) }
