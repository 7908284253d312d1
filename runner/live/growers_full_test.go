//go:build full

package live

import "testing"

// A hundred batches of five programs, twenty under each scheduler.
func TestHundredRandomGrowers(t *testing.T) { randomGrowers(t, 1000, 100) }
